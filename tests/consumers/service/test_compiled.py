"""Whether kernels are compiled is asked of numba, never of a clock."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest
from numba import njit
from numba.core.event import trigger_event

from consumers.config import parse
from consumers.service import warm_up
from consumers.service.warm_up import (
    CompilationStopped,
    _Reported,
    _told,
    begin_kernels,
    compile_kernels,
)
from tests.waiting import PATIENCE

CONFIG = """
name = "svc"
[input]
transport = "memory:compiled"
observations = "obs"
labels = "ans"
[features]
a = "numeric"
[model]
type = "GaussianNB"
"""
AGAIN = """
import sys
from pathlib import Path
from consumers.service.warm_up import compile_kernels
from consumers.config import parse

compile_kernels(parse(sys.argv[1], directory=Path()), print)
"""
EXPLAINED = """
import sys
from pathlib import Path

from numba.core.event import Listener, install_listener
from consumers.config import parse
from consumers.service.warm_up import compile_kernels
from consumers.shard.models import build
from stream import Block, Op


class Compiled(Listener):
    def on_start(self, event):
        print(event.data)

    def on_end(self, event):
        pass


config = parse(sys.argv[1], directory=Path())
compile_kernels(config, lambda line: None)
with install_listener("numba:compile", Compiled()):
    model = build(config.model)
    model.learn_many([{"text": "a free prize"}, {"text": "see you"}], ["spam", "ham"])
    rows = model.rows([{"text": "free"}])
    assert model.run_explained(Block.of(rows, Op.PREDICT), rows, 3)[1][0] is not None
"""

FIRST_BLOCK = """
import sys
from pathlib import Path

import numpy as np

from consumers.base.cells import ByteCells, Numbers
from consumers.base.records import Fetched, Partition
from consumers.config import parse
from consumers.journal.merge import Merge
from consumers.service.warm_up import compile_kernels
from stream.kernel.tiers import kernels
from tests.consumers.feeds import NOW, phishing, shard


def loaded():
    ran = [k for k in kernels() if "machine" in vars(k)]
    return {(k.__module__, k.__name__, str(types)) for k in ran for types in k.machine.signatures}


def cells(values):
    sizes = np.array([len(value) for value in values])
    data = np.frombuffer(b"".join(values), dtype=np.uint8)
    return ByteCells(data, sizes.cumsum() - sizes, sizes)


compile_kernels(parse(sys.argv[1], directory=Path()), lambda line: None)
before = loaded()
merge = Merge(inputs := [Partition("obs", 0), Partition("ans", 0)], {"ans"})
made = {place: [] for place in inputs}
for x, y in phishing(200):
    observed = ",".join(f'"{name}":{value}' for name, value in x.items())
    made[inputs[0]].append(b"{%s}" % observed.encode())
    made[inputs[1]].append(b'{"label":"%s"}' % str(y).encode())
numbers, keys = Numbers(np.arange(200)), [b"k%d" % i for i in range(200)]
merge.add(Fetched(p, numbers, numbers, cells(keys), cells(made[p])) for p in inputs)
outcome = shard().process(merge.take(1000, {}, wait=False), NOW + 1_000)
assert len(outcome.predictions()) == 200
print(*sorted(loaded() - before), sep="\\n", end="")
"""


def printed(script: str, config: str) -> str:
    """What a script prints in a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-c", script, config],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    return ran.stdout


def test_what_is_compiled_is_told_once_however_much_it_is() -> None:
    """At the first kernel; those behind it say nothing if they take less than 10 s."""
    said: list[str] = []

    with _told(_Reported(said.append, "compiling")):
        njit(lambda x: x + 1)(1)
        njit(lambda x: x + 2)(1)

    assert said == ["compiling"]


def test_compilation_that_takes_long_says_so_less_and_less_often() -> None:
    """By the time that kernels take, also those that another one calls; work in between is not."""
    said: list[str] = []
    now = 0.0
    listener = _Reported(said.append, "compiling", clock=lambda: now)

    def kernel(seconds: float, calls: Sequence[float] = ()) -> None:
        nonlocal now
        with trigger_event("numba:compile"):
            for part in calls:
                kernel(part)
            now += seconds

    with _told(listener):
        kernel(6.0)
        now += 1000.0
        kernel(6.0)
        assert said == ["compiling"]
        kernel(1.0)
        kernel(1.0)
        assert said == ["compiling", "still compiling kernels: 12 s"]
        kernel(1.0, calls=[25.0, 1.0])

    assert said[2:] == ["still compiling kernels: 39 s"]
    for _ in range(150):
        with _told(listener):
            kernel(1.0)
    assert said[3:] == ["still compiling kernels: 60 s", "still compiling kernels: 120 s"]


def test_kernels_on_the_disk_are_not_called_compiled(tmp_path: Path) -> None:
    """A process that only loads them says nothing, be the machine as busy as it may."""
    compile_kernels(parse(CONFIG, directory=tmp_path), lambda line: None)

    assert printed(AGAIN, CONFIG) == ""


def test_first_request_for_reasons_compiles_nothing() -> None:
    """`headwater classify` timed out while its first request compiled, and so did the loop."""
    text = CONFIG.replace('a = "numeric"', 'text = "text"').replace("GaussianNB", "spam")

    assert printed(EXPLAINED, text) == ""


def test_first_block_runs_no_kernel_that_the_warm_up_has_not_run() -> None:
    """Else it is compiled after the service is live, and no wheel has its machine code."""
    assert printed(FIRST_BLOCK, CONFIG) == ""


@pytest.mark.parametrize("after", [0, 3])
def test_start_ends_between_two_parts_where_it_is_asked_to(after: int) -> None:
    """Also where nothing has to be compiled, or all of it runs as Python for now."""
    asked = count()

    with pytest.raises(CompilationStopped):
        begin_kernels(parse(CONFIG), lambda line: None, lambda: next(asked) >= after)
    assert next(asked) == after + 1


def test_start_that_is_asked_to_end_before_its_kernels_runs_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C within the imports ended only after the first model had run, and numba was loaded."""
    monkeypatch.setattr(warm_up, "_run_all", lambda *_: pytest.fail("it ran a kernel"))

    with pytest.raises(CompilationStopped):
        begin_kernels(parse(CONFIG), lambda line: None, lambda: True)
