"""Have the kernels that a service runs as machine code, which numba caches on the disk.

A package from `.ci/wheel` has their machine code, and nothing is compiled. Else a service begins at
once, with kernels as Python, and others wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import stream
from consumers.base.cells import compile_cells
from consumers.base.health import Health
from consumers.codecs.blocks import compile_decoder
from consumers.codecs.prediction_block import rehearse
from consumers.config import Config
from consumers.config.auto import Defaults, auto_of
from consumers.mail.markup import read_markup
from consumers.shard.models import build, explainable
from consumers.transports.registry import transport_of
from stream.bayes import GaussianNB
from stream.contest.compare import compile_comparison
from stream.data.block import Block, Op
from stream.decision.budget import compile_budget
from stream.evaluate.executed import compile_drift
from stream.evaluate.key_scores import compile_key_scores, key_field
from stream.evaluate.progressive import progressive
from stream.join.join import compile_join
from stream.kernel.bundled import unused
from stream.kernel.tiers import background, collected, waiting, way
from stream.learner.base import WARM

FOREIGN = ("river:", "python:")
MAIL = "mail"  # the format
COMPILING = "compiling kernels (once)"
REPORT_SECONDS = 10.0
WAITS = "the records wait for that, which is sooner"

__all__ = [
    "WAITS",
    "CompilationStopped",
    "announced",
    "begin_kernels",
    "compile_kernels",
    "missing_kernels",
    "wait_for_kernels",
    "with_kernels",
]


class CompilationStopped(BaseException):
    """The process was asked to end before its kernels were compiled.

    It is not an Exception, because numba treats one in a nested kernel as a type error.
    """


def compile_kernels(
    config: Config, report: Callable[[str], None], stopped: Callable[[], bool] = lambda: False
) -> None:
    """Compile what the models and their transport run. Report that only if something is compiled.

    For many records that is sooner than to begin at once.

    Parameters
    ----------
    stopped
        Whether to end now.

    Raises
    ------
    CompilationStopped
        It was asked to end. Compiled kernels are kept.
    """
    with announced(report, stopped, note=WAITS), collected():
        _run_all(config, stopped)
    wait_for_kernels(stopped)


def begin_kernels(
    config: Config, report: Callable[[str], None], stopped: Callable[[], bool] = lambda: False
) -> None:
    """As `compile_kernels`, but what is not compiled yet compiles in the background afterwards."""
    if stopped():  # before numba is loaded, which takes as long as the rest of a start
        raise CompilationStopped
    with announced(report, stopped), collected():
        _run_all(config, stopped)


def wait_for_kernels(
    stopped: Callable[[], bool] = lambda: False, report: Callable[[str], None] | None = None
) -> None:
    """Wait until all kernels that were called are machine code; CompilationStopped as above."""
    if not waiting():
        return
    if report is not None:
        report(f"{background().progress()}; {WAITS}")
    background().wait(stopped=stopped)
    if background().waits:
        raise CompilationStopped


def missing_kernels(config: Config) -> int:
    """How many kernels the first start would compile beside its work.

    Raises
    ------
    CompilationStopped
        It would compile before its work. The first kernel that is missing ends the look.
    """
    with announced(lambda line: None, lambda: True), collected():
        _run_all(config, lambda: False)
        missing = waiting()
        if missing:
            background().forget()
    return missing


def with_kernels(health: Health) -> Health:
    """The health of a service, which says what it does beside its work."""
    if health != Health("live") or not waiting():
        return health
    return Health("live", str(background().progress()))


def _run_all(config: Config, stopped: Callable[[], bool]) -> None:
    """Call each kernel of a service; CompilationStopped if it is asked to end between two parts."""
    for _ in _parts(config):
        if stopped():
            raise CompilationStopped


def _parts(config: Config) -> Iterator[None]:
    """Call each kernel of a service, part by part, because Python takes seconds for all of them."""
    # What code returns may fail at this record.
    models = [config.model, *config.challenger]
    defaults = Defaults(auto_of(config.declared_schema))
    built = [build(model, defaults) for model in models if not model.type.startswith(FOREIGN)]
    ours = [learner.restarted(proven=True) for learner in built]  # a part of river may fail
    for learner in ours or [GaussianNB()]:
        *_, quality = progressive([({WARM: 1.0}, "a"), ({WARM: 2.0}, "b")], learner)
        yield
        quality.scores[quality.last].roc_auc  # noqa: B018  or the first scrape compiles it
        getattr(learner, "expert_weights", None)  # the page shows them
        if explainable(learner):  # or the first explanation would block the loop
            learner.explain_one({"warm": 1.0})  # on the page
            rows = learner.rows([{"warm": 1.0}])
            learner.run_explained(Block.of(rows, Op.PREDICT), rows, 1)  # on request
        yield
    compile_join()
    yield
    if any(key_field(learner) for learner in ours):
        compile_key_scores()
    if config.challenger:
        compile_comparison()
    if config.drift.detectors:
        compile_drift()
    if config.decision.budget is not None:
        compile_budget(config.decision.budget)
    yield
    rehearse()
    yield
    transport_of(config.input.transport).warm_up()
    compile_cells()
    yield
    compile_decoder()
    if config.input.mail is not None or config.input.format == MAIL:
        read_markup("")


@contextmanager
def announced(
    report: Callable[[str], None],
    stopped: Callable[[], bool] = lambda: False,
    note: str = "predictions are exact meanwhile",
) -> Iterator[None]:
    """Report if a kernel is compiled, why machine code of the package is not used, and less and
    less often that it still compiles. `stopped`: see `compile_kernels`; `note`: what happens
    meanwhile."""
    why = unused(Path(stream.__file__).parent)
    first = f"{COMPILING}, which takes up to a minute{why and '; '}{why}"
    if way() == "background":
        background().report, background().note = report, f"{note}{why and '; '}{why}"
    with _told(_Reported(report, first, stopped)):
        yield


@contextmanager
def _told(reported: _Reported) -> Iterator[None]:
    """It is given each compilation of numba in the block."""
    from numba.core.event import Listener, install_listener  # a warm start loads it later

    Listener.register(_Reported)
    with install_listener("numba:compile", reported):
        yield


class _Reported:
    """A listener of numba, whose class is not loaded yet.

    Reports `first` before the first kernel that is not in the cache is compiled, then the seconds
    that kernels have taken, with the first kernel after 10 s, 20 s, 40 s and so on.

    The time between kernels does not count, because the learner works there.
    """

    def __init__(
        self,
        report: Callable[[str], None],
        first: str,
        stopped: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._report, self._first = report, first
        self._stopped, self._clock = stopped, clock
        self._depth = 0  # a kernel compiles the kernels that it calls
        self._began = self._taken = 0.0
        self._due = 0.0  # seconds taken at which the next line is due

    def notify(self, event: Any) -> None:
        """Called by numba."""
        if event.is_start:
            self._begin()
        else:
            self._end()

    def _begin(self) -> None:
        now = self._clock()
        if self._depth == 0:
            self._began = now
        self._depth += 1
        if self._stopped():
            raise CompilationStopped  # numba reports the end of it too
        taken = self._taken + now - self._began
        if taken >= self._due:
            self._report(f"still compiling kernels: {taken:.0f} s" if self._due else self._first)
            self._due = max(2 * (taken - taken % REPORT_SECONDS), REPORT_SECONDS)

    def _end(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._taken += self._clock() - self._began
