"""Kernels that compile in child processes, while calls run as Python.

The reasons are in docs/decisions/kernels.md#child-processes-compile-calls-do-not-wait.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from stream import MixedNB
from stream.kernel import background, child, room
from stream.kernel._kernels import first_not_below, logs_of, take_logs
from stream.kernel.background import LOCK_FILE, Pace, most_children, weight
from stream.kernel.tiers import VARIABLE, Kernel
from tests.both_ways import switched
from tests.stream.test_kernel import SHARED, USER
from tests.waiting import PATIENCE, until

BEGIN = """
import sys
from numba.core.event import install_recorder
from package._kernels.shared import Pair
from package._kernels.user import twice
from stream.kernel.tiers import background, interpreting, waiting
"""
COLD = f"""{BEGIN}
with install_recorder("numba:compile") as compiled:
    first = twice(Pair(1.0, 3.0)), interpreting(), waiting()
    background().wait()
    last = twice(Pair(1.0, 3.0)), interpreting(), waiting()
    print(*first, *last, len(twice.machine.overloads), len(compiled.buffer))
"""
ENDLESS = """
from stream.kernel import kernel

@kernel
def twice(pair):
    return 2.0 * (pair.a + pair.b)

import time
if "stream.kernel.child" in __import__("sys").orig_argv:
    time.sleep(3600)
"""
CHILDREN = f"""{BEGIN}
import time
twice(Pair(1.0, 3.0))
while not background()._children:
    time.sleep(0.01)
print(background()._children[0]._process.pid, flush=True)
time.sleep(3600)
"""
NOTED = """
import stream.kernel.background as b
started, popen = [], b.Popen
b.Popen = lambda *args, **options: started.append(popen(*args, **options)) or started[-1]
"""
GATED = """
import os, sys, time
while "stream.kernel.child" in sys.orig_argv and not os.path.exists({gate!r}):
    time.sleep(0.01)
"""

FIRST = """
from random import Random
from stream.checks.streams import takeable
from stream.kernel.tiers import interpreting
from stream.learner.registry import learners
from tests.programs import wide

for name in learners():
    learner = wide._choice(Random(name), name).learner
    for x in ({"n0": 1.0, "b0": True, "c0": "red"}, {"n0": 1.0}):  # one has all kinds, one numbers
        for y in "aba":
            learner.learn_one(takeable(learner)(x), y)
            learner.predict_proba_one(takeable(learner)(x))
        learner = learner.clone()
assert interpreting()
"""


def alternating(python: Kernel | None) -> tuple[str, Counter[Kernel]]:
    """A model that learns while one kernel is Python at every second call; the calls of each."""
    calls = Counter[Kernel]()

    def turn(kernel: Kernel) -> bool:
        calls[kernel] += 1
        return kernel is python and calls[kernel] % 2 == 0

    with switched(turn):
        model = MixedNB()
        for i in range(20):
            x = {"a": i / 7, "b": f"v{i % 3}", "c": i % 2 == 0}
            model.predict_proba_one(x)
            model.learn_one(x, i % 3)
    return model.fingerprint(), calls


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with two kernel files, whose kernels nobody has compiled."""
    folder = tmp_path / "package" / "_kernels"
    folder.mkdir(parents=True)
    for place in (folder, folder.parent):
        (place / "__init__.py").touch()
    (folder / "shared.py").write_text(SHARED)
    (folder / "user.py").write_text(USER)
    return tmp_path


@contextmanager
def started(package: Path, program: str, way: str = "background") -> Iterator[subprocess.Popen]:
    """A program in the folder of the package, with a cache of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=package,
        env={**os.environ, VARIABLE: way, "NUMBA_CACHE_DIR": str(package / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def said(package: Path, program: str, way: str = "background") -> tuple[list[str], str]:
    """The words that it prints, and its warnings."""
    with started(package, program, way) as process:
        out, warned = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, warned
    return out.split(), warned


def running(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def read_only(folder: Path) -> list[str]:
    """What stands before a command that cannot write in the folder."""
    if os.geteuid() != 0:  # of root, permissions stop nothing
        for each in [folder, *folder.rglob("*/")]:
            each.chmod(0o555)
        return []
    mounts = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", mounts, str(folder)]
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this container may not mount")
    return command


def lock_of(package: Path) -> Path:
    """The lock of the cache."""
    program = (
        "from stream.kernel.background import most_children\n"
        "from stream.kernel.compiled import cache_folder\n"
        "print(cache_folder(most_children))"
    )
    return Path(said(package, program)[0][0], LOCK_FILE)


def test_first_call_is_python_and_machine_code_comes_from_a_child(package: Path) -> None:
    """The process itself compiles nothing. The next one finds the machine code."""
    cold, warned = said(package, COLD)
    warm, silent = said(package, COLD)

    assert cold == ["10.0", "True", "1", "10.0", "False", "0", "1", "0"]
    assert warned.count("CompilationWarning: compiling kernels in the background") == 1
    assert warned.startswith("<string>:")
    assert warm == ["10.0", "False", "0", "10.0", "False", "0", "1", "0"]
    assert not silent


def test_first_records_of_every_learner_are_python(tmp_path: Path) -> None:
    """However it calls its kernels: numba hands some calls over with other arguments."""
    process = subprocess.run(
        [sys.executable, "-c", FIRST],
        cwd=Path(__file__).parents[2],
        env={**os.environ, VARIABLE: "background", "NUMBA_CACHE_DIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert process.returncode == 0, process.stderr


def test_many_records_wait_for_machine_code(package: Path) -> None:
    """A call that waits never runs as Python."""
    program = f"""{BEGIN}
from stream.kernel.tiers import machine_first
with machine_first():
    print(twice(Pair(1.0, 3.0)), waiting())
"""
    assert said(package, program)[0] == ["10.0", "0"]


def test_what_is_collected_compiles_after_the_block(package: Path) -> None:
    """Its calls are Python, also those of many records, which would wait for ever."""
    program = f"""{BEGIN}
from stream.kernel.tiers import collected, machine_first
with machine_first(), collected(wait=True):
    print(twice(Pair(1.0, 3.0)), waiting(), len(background()._children))
print(twice(Pair(1.0, 3.0)), waiting())
"""
    assert said(package, program)[0] == ["10.0", "1", "0", "10.0", "0"]


@pytest.mark.parametrize(
    ("lacking", "warning"),
    [
        ("import stream.kernel.background as b; b.free_bytes = lambda: 0", "later processes load"),
        (
            "import numba.core.caching as c; c.CacheImpl._locator_classes = []\n"
            "from stream.kernel.compiled import _OneFile; _OneFile._locator_classes = []",
            "set NUMBA_CACHE_DIR to a folder that can be written",
        ),
    ],
    ids=["memory", "cache"],
)
def test_without_room_it_compiles_in_place(package: Path, lacking: str, warning: str) -> None:
    """Said once."""
    cold, warned = said(package, f"{lacking}\n{COLD}")

    assert cold[:3] == ["10.0", "False", "0"]
    assert int(cold[-1]) > 0
    assert warned.count("CompilationWarning") == 1
    assert warning in warned


@pytest.mark.parametrize("home", ["a volume", "the user's", "none"])
def test_package_on_a_read_only_file_system(package: Path, tmp_path_factory, home: str) -> None:
    """A volume is the cache, or the folder of the user. Without one it compiles in place."""
    volume = str(tmp_path_factory.mktemp("volume"))
    places = {
        "a volume": {"NUMBA_CACHE_DIR": volume, "HOME": "/proc/none"},
        "the user's": {"HOME": volume},
        "none": {"HOME": "/proc/none"},
    }
    unset = {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME"}
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    done = subprocess.run(
        [*read_only(package), sys.executable, "-c", COLD],
        cwd=package,
        env={**kept, **places[home], VARIABLE: "background"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    found, lines = done.stdout.split(), done.stderr

    assert lines.count("CompilationWarning") == 1
    assert bool(list(Path(volume).rglob("*twice*.nbc"))) == (home != "none")
    if home == "none":
        assert found[:6] == ["10.0", "False", "0", "10.0", "False", "0"]
        assert "set NUMBA_CACHE_DIR to a folder that can be written" in lines
    else:
        assert found == ["10.0", "True", "1", "10.0", "False", "0", "1", "0"]


def test_two_processes_that_start_at_once_have_one_set_of_children(package: Path) -> None:
    """The second one begins while the first one's child compiles, and ends with the same bits."""
    gate, user = package / "gate", package / "package" / "_kernels" / "user.py"
    user.write_text(f"{GATED.format(gate=str(gate))}{USER}")
    program = COLD.replace("background().wait()", "print(flush=True); background().wait()")
    program = f"{NOTED}{program}print(len(started))"
    with started(package, program) as one, started(package, program) as other:
        for each in (one, other):
            assert each.stdout is not None
            assert each.stdout.readline() == "\n"  # its first call was Python
        gate.touch()
        found = [each.communicate(timeout=PATIENCE)[0].split() for each in (one, other)]

    same = ["10.0", "True", "1", "10.0", "False", "0", "1", "0"]
    assert [words[:-1] for words in found] == [same, same]
    assert sorted(words[-1] for words in found) == ["0", "1"]


def test_process_takes_over_the_compiling_of_one_that_is_killed(package: Path) -> None:
    """It has served as Python until then, and starts a child of its own."""
    gate, user = package / "gate", package / "package" / "_kernels" / "user.py"
    user.write_text(f"{GATED.format(gate=str(gate))}{USER}")
    program = COLD.replace("background().wait()", "print(flush=True); background().wait()")
    program = f"{NOTED}{program}print(len(started))"
    with started(package, CHILDREN) as one, started(package, program) as other:
        assert one.stdout is not None
        assert other.stdout is not None
        pid = int(one.stdout.readline())
        assert other.stdout.readline() == "\n"  # its first call was Python
        one.kill()
        one.wait(PATIENCE)
        until(lambda: not running(pid), "the end of its child")
        gate.touch()
        found = other.communicate(timeout=PATIENCE)[0].split()

    assert found == ["10.0", "True", "1", "10.0", "False", "0", "1", "0", "1"]


def test_another_process_with_children_makes_the_code(package: Path) -> None:
    """While the lock is taken a process has none of its own, and looks for what is kept."""
    lock = lock_of(package)
    program = COLD.replace("background().wait()", "print(flush=True); background().wait()")
    program += "print(len(background()._children))"
    with lock.open("wb") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        with started(package, program) as waits:
            assert waits.stdout is not None
            assert waits.stdout.readline() == "\n"  # its first call was Python
            said(package, COLD, way="compiled")
            out, warned = waits.communicate(timeout=PATIENCE)

    assert out.split() == ["10.0", "True", "1", "10.0", "False", "0", "1", "0", "0"], warned


def test_children_end_with_their_parent(package: Path) -> None:
    """Also while they compile, however it ended."""
    (package / "package" / "_kernels" / "user.py").write_text(ENDLESS)
    with started(package, CHILDREN) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert running(pid)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
        until(lambda: not running(pid), "its end")


def test_children_give_way_to_a_process_that_works(package: Path) -> None:
    """While it waits for them they have its own priority: nobody is served meanwhile."""
    (package / "package" / "_kernels" / "user.py").write_text(ENDLESS)
    program = f"""
import os
import stream.kernel.background as b
looks, select = [], b.select
def look(*args):
    while not looks and not background()._waiting:
        pass
    looks.append(select(*args))
    return looks[-1]
b.select, b.NICE_SECONDS = look, 0.01
{BEGIN}
nice = os.getpriority(os.PRIO_PROCESS, 0)
twice(Pair(1.0, 3.0))
def of_child():
    return os.getpriority(os.PRIO_PROCESS, background()._children[0]._process.pid) - nice
background().wait(stopped=lambda: len(looks) > 2)
print(of_child())
while not of_child():
    pass
print(of_child())
"""
    found, warned = said(package, program)
    assert found == ["0", "5"], warned


def test_ctrl_c_reaches_a_process_that_waits_for_its_children(package: Path) -> None:
    """It ends at once, and they with it."""
    (package / "package" / "_kernels" / "user.py").write_text(ENDLESS)
    program = CHILDREN.replace("time.sleep(3600)", "background().wait()")
    with started(package, program) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
        until(lambda: not running(pid), "its end")

    assert process.returncode == -signal.SIGINT


@pytest.mark.parametrize("end", ["os._exit(1)", "raise OSError('broken')"])
def test_kernel_that_no_child_can_compile_is_compiled_in_place(package: Path, end: str) -> None:
    """Whether its child dies or says why."""
    user = package / "package" / "_kernels" / "user.py"
    ends = f'import os, sys\nif "stream.kernel.child" in sys.orig_argv: {end}\n'
    user.write_text(ends + USER)
    found, _ = said(package, COLD)

    assert found[:3] == ["10.0", "True", "1"]
    assert found[3:6] == ["10.0", "False", "0"]
    assert int(found[-1]) > 0


def test_fork_does_not_wait_for_the_children_of_its_parent(package: Path) -> None:
    """Its calls go on; the children stay the parent's. Its own fork closes nothing again."""
    program = f"""{BEGIN}
import os
first = twice(Pair(1.0, 3.0))
if (pid := os.fork()) == 0:
    files = [open(os.devnull) for _ in range(9)]
    if (other := os.fork()) == 0:
        print(twice(Pair(2.0, 3.0)), sum(os.fstat(f.fileno()).st_size for f in files), flush=True)
        os._exit(0)
    os.waitpid(other, 0)
    os._exit(0)
os.waitpid(pid, 0)
background().wait()
print(first, twice(Pair(1.0, 3.0)), waiting())
"""
    assert said(package, program)[0] == ["14.0", "0", "10.0", "10.0", "0"]


@pytest.mark.parametrize(
    "lacking",
    [
        "sys.executable = None",
        """
import threading
def none(thread):
    raise RuntimeError("can't start new thread")
threading.Thread.start = none
""",
    ],
    ids=["program", "threads"],
)
def test_process_that_can_start_no_child_compiles_in_place(package: Path, lacking: str) -> None:
    """It is embedded in another program, or at the limit of its threads, or at its exit."""
    found, _ = said(package, f"import sys\n{lacking}\n{COLD}")

    assert found[0] == found[3] == "10.0"
    assert found[4:6] == ["False", "0"]
    assert int(found[-1]) > 0


@pytest.mark.parametrize("of", ["another user", "no package"])
def test_children_need_no_lock(package: Path, of: str) -> None:
    """Its file may be that of another user, or only a user's kernels have a folder."""
    program = COLD
    if of == "no package":
        none = "def none(function): raise RuntimeError('no locator')\nc.cache_folder = none"
        program = f"import stream.kernel.compiled as c\n{none}\n{COLD}"
    else:
        lock_of(package).mkdir(parents=True)  # it cannot be opened, also by root

    assert said(package, program)[0] == ["10.0", "True", "1", "10.0", "False", "0", "1", "0"]


def test_exit_of_a_process_waits_for_no_child(package: Path) -> None:
    """They have ended then; what runs at the exit is Python."""
    program = f"""{BEGIN}
import atexit
from stream.kernel.tiers import machine_first
def last():
    with machine_first():
        print(twice(Pair(1.0, 3.0)), waiting())
atexit.register(last)
background()
"""
    assert said(package, program)[0] == ["10.0", "1"]


def test_threads_go_on_while_one_waits_for_machine_code(package: Path) -> None:
    """It holds no lock meanwhile, which a call of Python needs."""
    program = f"""{BEGIN}
import threading, time
from package._kernels.shared import weigh
from stream.kernel.tiers import machine_first
def many():
    with machine_first():
        twice(Pair(1.0, 3.0))
weigh(Pair(1.0, 3.0))
threading.Thread(target=many, daemon=True).start()
while waiting() < 2:
    time.sleep(0.01)
print(weigh(Pair(1.0, 3.0)), waiting())
"""
    with lock_of(package).open("wb") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)  # nothing is compiled
        found, _ = said(package, program)

    assert found == ["5.0", "2"]


def test_threads_that_call_first_share_the_children(package: Path) -> None:
    """A fork waits while one is started, because it closes the pipes that it knows."""
    program = f"""{BEGIN}
import threading, time
import stream.kernel.background as b
made, started, real, popen = [], [], b.Background.__init__, b.Popen
def slow(self, *args):
    made.append(self)
    time.sleep(0.2)
    real(self, *args)
def noted(*args, **options):
    started.append(made[0].loading.locked())
    return popen(*args, **options)
b.Background.__init__, b.Popen = slow, noted
threads = [threading.Thread(target=twice, args=(Pair(1.0, 3.0),)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
background().wait()
print(len(made), set(started))
"""
    assert said(package, program)[0] == ["1", "{True}"]


def test_kernels_that_are_wanted_for_minutes_have_a_few_lines() -> None:
    """One after the other, as on a busy machine: a newcomer counted 17 lines."""
    pace = Pace(clock=count().__next__)

    assert [second for second in range(600) if pace.due()] == [0, 10, 30, 70, 150, 310]


def test_costliest_kernel_comes_first() -> None:
    """By the code of a kernel and of all that it calls, each once."""
    small, part, whole = first_not_below.py_func, logs_of.py_func, take_logs.py_func

    assert weight(small) < weight(part) < weight(whole)


def test_children_fit_in_the_memory_and_on_the_processors(monkeypatch) -> None:
    """At most two; one on part of a processor; none without memory."""
    for free, processors, most in [
        (None, 8.0, 2),
        (2**40, 1.0, 1),
        (2**40, 0.5, 1),
        (600_000_000, 8.0, 1),
        (200_000_000, 8.0, 0),
    ]:
        monkeypatch.setattr(background, "free_bytes", lambda free=free: free)
        monkeypatch.setattr(background, "processors", lambda n=processors: n)
        assert most_children() == most


@pytest.mark.parametrize(("used", "most"), [(100, 2), (350, 1), (650, 0)])
def test_children_fit_in_the_limit_of_a_container(monkeypatch, tmp_path, used, most) -> None:
    """Of 1 GiB, as the Kubernetes manifest has it, beside the MiB that the service uses."""
    limits = {"memory.max": 2**30, "memory.current": used * 2**20}
    old = {"memory.limit_in_bytes": 2**30, "memory.usage_in_bytes": used * 2**20}
    (tmp_path / "memory").mkdir()
    for folder in (tmp_path, tmp_path / "memory"):  # of both versions of cgroups
        for name, value in {**limits, **old}.items():
            (folder / name).write_text(f"{value}\n")
        (folder / "memory.stat").write_text("anon 0\ninactive_file 0\n")
    monkeypatch.setattr(room, "ROOT", tmp_path)
    monkeypatch.setattr(background, "processors", lambda: 8.0)

    assert most_children() == most


def test_each_kernel_alone_switched_at_each_call() -> None:
    """One kernel is Python at every second call, and the model is the same to the bit."""
    expected, called = alternating(None)

    assert len(called) > 3
    for kernel in called:
        assert alternating(kernel)[0] == expected, kernel


def test_child_says_in_one_line_why_a_kernel_does_not_compile() -> None:
    """Then it waits for the next one."""
    assert child._compiled(b"no.such.module f 00").startswith("ModuleNotFoundError: No module")
