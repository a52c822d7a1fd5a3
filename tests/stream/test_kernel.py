"""The cache of compiled kernels: what changes is compiled again, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from numpy import empty

from stream.kernel import inlined, kernel
from stream.kernel.bundled import FOLDER, MADE
from stream.kernel.bundled import __file__ as bundled_file
from tests.waiting import PATIENCE

SHARED = """
from typing import NamedTuple
from stream.kernel import kernel

class Pair(NamedTuple):
    a: float
    b: float

@kernel
def weigh(pair):
    return 2.0 * pair.a + pair.b
"""
USER = """
from package._kernels.shared import Pair, weigh
from stream.kernel import kernel

@kernel
def twice(pair):
    return 2.0 * weigh(pair)
"""
RUN = """
from numba.core.event import install_recorder
from package._kernels.shared import Pair
from package._kernels.user import twice

with install_recorder("numba:compile") as compiled:
    print(twice(Pair(1.0, 3.0)), len(compiled.buffer))
"""
COLLECT = """
from pathlib import Path
from stream.kernel.bundled import collect
print(collect(Path("package").resolve()))
"""
UNUSED = COLLECT.replace("collect", "unused")
MATRICES = """
import sys
import numpy as np
from numba import njit
from stream import GaussianNB

GaussianNB().learn_one({"height": 1.7}, "a")
print("scipy.linalg" in sys.modules, njit(lambda a: a @ a)(2 * np.eye(2)).sum())
"""


@kernel
def doubled(x: float) -> float:
    """Makes an array."""
    made = empty(1)
    made[0] = 2.0 * x
    return float(made[0])


@inlined
def times(x: float, n: int) -> float:
    """A part, and a kernel of its own. What it calls may make an array."""
    return float(0.5 * doubled(x) * n)


@kernel
def both(x: float, n: int) -> float:
    """Calls it with a constant and with a variable."""
    return float(times(x, 2) + times(x, n))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with two kernel files; one calls a function of the other."""
    return written(tmp_path)


def written(place: Path) -> Path:
    """The package, in this directory."""
    kernels = place / "package" / "_kernels"
    kernels.mkdir(parents=True)
    for folder in (kernels, kernels.parent):
        (folder / "__init__.py").touch()
    (kernels / "shared.py").write_text(SHARED)
    (kernels / "user.py").write_text(USER)
    (place / "package" / "other.py").write_text("")
    return place


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a wheel brings it: with machine code for any x86-64, and without a cache."""
    place = written(tmp_path_factory.mktemp("wheel"))
    run(place, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")
    assert python(place, COLLECT).stdout == "1\n"
    for folder in list(place.rglob("__pycache__")):
        shutil.rmtree(folder)
    return place


@pytest.fixture
def bundled(wheel: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(wheel, tmp_path / "bundled")


def run(package: Path, program: str = RUN, **variables: str) -> tuple[float, bool]:
    """The kernel's result in a new process, and whether anything was compiled."""
    value, compiled = python(package, program, **variables).stdout.split()
    return float(value), compiled != "0"


def python(package: Path, program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What a program says in a new process, in the directory of the package.

    Bytecode would be that of before a change of the same size within a second.
    """
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=package,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def kept(package: Path) -> set[str]:
    """The names of the files of the cache."""
    return {path.name for path in package.rglob("*.nb[ic]")}


def test_kernel_on_disk_is_loaded_by_the_next_process(package: Path) -> None:
    assert run(package) == (10.0, True)
    assert run(package) == (10.0, False)


def test_file_that_has_no_kernel_changes_nothing(package: Path) -> None:
    run(package)
    (package / "package" / "other.py").write_text("x = 1\n")

    assert run(package) == (10.0, False)


def test_change_of_a_callee_in_another_file_is_noticed(package: Path) -> None:
    run(package)
    shared = package / "package" / "_kernels" / "shared.py"
    shared.write_text(SHARED.replace("2.0 * pair.a", "5.0 * pair.a"))

    assert run(package) == (16.0, True)


def test_content_counts_and_not_the_time_of_a_file(package: Path) -> None:
    run(package)
    for path in package.rglob("*.py"):
        path.write_text(path.read_text())

    assert run(package) == (10.0, False)


def test_renamed_class_of_an_argument_is_compiled_again(package: Path) -> None:
    """numba reads the index before it compares stamps; the old name does not exist any more."""
    run(package)
    for path in (package / "package" / "_kernels").glob("*.py"):
        path.write_text(path.read_text().replace("Pair", "Couple"))

    assert run(package, RUN.replace("Pair", "Couple")) == (10.0, True)


def test_kernels_are_compiled_again_where_they_are_compiled_in_another_way(
    package: Path, tmp_path: Path
) -> None:
    """With other options of numba, such as fast mathematics, which has other bits."""
    run(package)
    other = tmp_path / "other"
    ours = Path(bundled_file).parents[1]
    shutil.copytree(ours, other / "stream", ignore=shutil.ignore_patterns("__pycache__"))
    compiler = other / "stream" / "kernel" / "compiled.py"
    compiler.write_text(compiler.read_text() + "# in another way\n")

    assert run(package, PYTHONPATH=str(other)) == (10.0, True)
    assert run(package, PYTHONPATH=str(other)) == (10.0, False)


@pytest.mark.parametrize("left", [0, 100])
@pytest.mark.parametrize("file", ["*.nbi", "*.nbc"])
def test_damaged_file_is_compiled_again(package: Path, file: str, left: int) -> None:
    run(package)
    for path in package.rglob(file):
        path.write_bytes(path.read_bytes()[:left])

    assert run(package) == (10.0, True)
    assert run(package) == (10.0, False)


def test_full_disk_ends_no_call_and_keeps_no_wrong_code(package: Path) -> None:
    """numba has written that a file has the new code, which has no room. The old one is there."""
    full = """
from numba.core.caching import IndexDataCacheFile
def no_room(*args):
    raise OSError(28, "No space left on device")
IndexDataCacheFile._save_data = no_room
with install_recorder"""
    run(package)
    shared = package / "package" / "_kernels" / "shared.py"
    shared.write_text(shared.read_text().replace("2.0 * pair.a", "5.0 * pair.a"))

    assert run(package, RUN.replace("\nwith install_recorder", full)) == (16.0, True)
    assert run(package) == (16.0, True)
    assert run(package) == (16.0, False)


def test_version_that_comes_before_the_first_call_is_compiled_again(package: Path) -> None:
    """The old process compiles what it imported, and must not keep it as the new version."""
    shared = package / "package" / "_kernels" / "shared.py"
    upgrade = f"""
from pathlib import Path
shared = Path({str(shared)!r})
shared.write_text(shared.read_text().replace("2.0 * pair.a", "5.0 * pair.a"))
with install_recorder"""

    assert run(package, RUN.replace("\nwith install_recorder", upgrade)) == (10.0, True)
    assert run(package) == (16.0, True)


def test_package_in_a_zip_is_compiled_by_each_process(package: Path, tmp_path: Path) -> None:
    """numba would compare a kernel with its own file only."""
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as archive:
        for path in sorted((package / "package").rglob("*.py")):
            archive.write(path, path.relative_to(package))
    shutil.rmtree(package / "package")
    program = "import sys; sys.path.insert(0, 'package.zip')" + RUN

    assert run(package, program) == (10.0, True)
    assert run(package, program) == (10.0, True)


def test_cache_does_not_grow_with_changes(package: Path) -> None:
    """A kernel that moves within its file replaces its old code."""
    run(package)
    before = kept(package)
    user = package / "package" / "_kernels" / "user.py"
    for lines in range(1, 4):
        user.write_text("\n" * lines + USER)
        assert run(package) == (10.0, True)

    assert kept(package) == before
    assert len(before) == 2, "what it calls is in its code"


def test_part_is_compiled_once_and_python_may_call_it_too() -> None:
    """A constant argument is no other type; a part alone has no code that Python could call."""
    assert both(1.5, 3) == 7.5
    assert len(times.machine._parts) == 1
    assert not times.machine.overloads
    assert times(1.5, 3) == 4.5


def test_machine_code_of_a_package_is_used_whatever_the_processor_of_numba_is(bundled) -> None:
    """It is not tuned for this processor, so numba alone would not find it. Nothing is written."""
    assert run(bundled) == (10.0, False)
    assert not kept(bundled / "package" / "_kernels")


def test_library_warns_once_that_it_compiles(bundled: Path) -> None:
    program = RUN.replace(
        "from package._kernels.user",
        "import warnings; warnings.simplefilter('error')\nfrom package._kernels.user",
    )
    assert run(bundled, program) == (10.0, False)
    shutil.rmtree(bundled / "package" / FOLDER)
    done = subprocess.run(
        [sys.executable, "-c", RUN], cwd=bundled, capture_output=True, text=True, check=True
    )

    assert done.stderr.count("CompilationWarning: compiling kernels") == 1
    assert done.stderr.startswith("<string>:"), "the line of the caller, not one of this package"


def test_machine_code_of_other_source_is_not_used(bundled: Path) -> None:
    shared = bundled / "package" / "_kernels" / "shared.py"
    shared.write_text(SHARED.replace("2.0 * pair.a", "5.0 * pair.a"))

    assert run(bundled) == (16.0, True)


@pytest.mark.parametrize("what", ["numba", "python"])
def test_machine_code_for_another_numba_or_python_is_not_used(bundled: Path, what: str) -> None:
    """The reason is reported."""
    made = bundled / "package" / FOLDER / MADE
    assert python(bundled, UNUSED).stdout == "\n"
    made.write_text(json.dumps({**json.loads(made.read_text()), what: "other"}))

    assert run(bundled) == (10.0, True)
    said = python(bundled, UNUSED).stdout
    assert f"{what} other, not " in said


def test_level_that_the_processor_has_not_is_not_used(bundled: Path) -> None:
    """The test takes what every processor has from it."""
    program = "from stream.kernel import bundled; bundled.LEVELS['generic'] = ('none',)\n" + RUN

    assert run(bundled, program) == (10.0, True)


@pytest.mark.parametrize("left", [0, 100])
@pytest.mark.parametrize("file", ["*.nbi", "*.nbc", "made.json"])
def test_damaged_machine_code_is_compiled_again(bundled: Path, file: str, left: int) -> None:
    for path in (bundled / "package" / FOLDER).rglob(file):
        path.write_bytes(path.read_bytes()[: min(left, path.stat().st_size // 2)])

    assert run(bundled) == (10.0, True)


def test_kernels_load_no_linear_algebra_and_others_can_use_it() -> None:
    """numba would import `scipy.linalg` at the first kernel; a product of matrices needs it."""
    done = subprocess.run(
        [sys.executable, "-c", MATRICES], capture_output=True, text=True, timeout=PATIENCE
    )

    assert done.stdout.split() == ["False", "8.0"], done.stderr


def test_kernel_with_checked_indices_is_not_taken_from_the_cache(package: Path) -> None:
    """Nor is it given to a process that checks nothing: each kind has machine code of its own."""
    user = package / "package" / "_kernels" / "user.py"
    user.write_text(USER.replace("2.0 * weigh(pair)", "2.0 * weigh(pair) + OF[int(pair.b)]"))
    user.write_text(user.read_text().replace("@kernel", "OF = zeros(3)\n\n@kernel", 1))
    user.write_text("from numpy import zeros\n" + user.read_text())
    caught = RUN.replace("    print(", "    try: ").replace(", len(compiled.buffer))", "")
    caught += "    except IndexError: print(-1.0, len(compiled.buffer))\n"
    caught += "    else: print(0.0, len(compiled.buffer))\n"

    assert run(package, caught) == (0.0, True)
    assert run(package, caught, NUMBA_BOUNDSCHECK="1") == (-1.0, True)
    assert run(package, caught, NUMBA_BOUNDSCHECK="1") == (-1.0, False)
    assert run(package, caught) == (0.0, False)


LARGEST = """
from numpy import arange, zeros
from stream.kernel import kernel

@kernel
def within(values):
    made = zeros(values.size) + values
    return made.max()

@kernel
def largest(values):
    return within(values)
"""
RAISED = """
import sys
from numpy import arange, empty
from package._kernels.largest import largest, within

print(largest(arange(4.0)), "numba.np.arraymath" in sys.modules)
try:
    largest(empty(0))
except ValueError as error:
    print(error)
print(within(arange(3.0)), within(arange(3)), largest(arange(5)))
"""


def test_kept_kernel_loads_no_compiler_and_raises_its_errors(package: Path) -> None:
    """Errors are constants of a function, also of one of numba that is a part of the code."""
    (package / "package" / "_kernels" / "largest.py").write_text(LARGEST)
    first = python(package, RAISED.replace("within(arange(3)), largest(arange(5))", "")).stdout
    later = python(package, RAISED).stdout

    value, error, compiled = first.splitlines()
    assert (value, error[:10], compiled) == ("3.0 True", "zero-size ", "2.0")
    assert later.splitlines() == ["3.0 False", error, "2.0 2.0 4.0"]
    assert python(package, RAISED).stdout == later
