"""The plugin of pytest that chooses the tests of the day, and says at the end what did not run."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from consumers.base.counts import counted
from tests.suite import day
from tests.suite.needs import NEEDS

__all__ = ["Selection", "add_options"]


class Selection:
    """Leaves out what is of the night, and files whose heavy package is not installed."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._left: Counter[str] = Counter()  # room, or file and what it lacks -> tests, or 1
        self._seconds: dict[str, float] = defaultdict(float)  # of each test, by its node id

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out a file that cannot be imported here."""
        if collection_path.suffix != ".py":
            return None
        lacking = [n for n in NEEDS if n.extra and not n.there() and n.of(collection_path)]
        self._left.update(f"{collection_path.name}, without {need.name}," for need in lacking)
        return True if lacking else None

    # Before -k and -m, so that the cases of the day do not depend on them.
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what is of the night."""
        if not self._config.getoption("all"):
            chosen = day.by_day([item.nodeid for item in items], day.load())
            left = [item for item in items if not self._runs(item, chosen)]
            self._left.update(str(Path(item.nodeid.partition("::")[0]).parent) for item in left)
            self._config.hook.pytest_deselected(items=left)
            gone = set(left)
            items[:] = [item for item in items if item not in gone]
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["left"] = dict(self._left)

    def _runs(self, item: pytest.Item, chosen: set[str]) -> bool:
        if self._named(item):
            return True
        asked = self._config.getoption("markexpr")
        night = [n.marker for n in NEEDS if n.night and item.get_closest_marker(n.marker)]
        return all(marker in asked for marker in night) and (bool(night) or item.nodeid in chosen)

    def _named(self, item: pytest.Item) -> bool:
        """Whether an argument names its file or, perhaps without parameters, itself."""
        own, invoked = item.nodeid.partition("::")[2], self._config.invocation_params.dir
        for argument in self._config.args:
            path, _, name = argument.partition("::")
            here = not name or own == name or own.startswith((f"{name}[", f"{name}::"))
            if here and path.endswith(".py") and item.path == (invoked / path).resolve():
                return True
        return False

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Take over what a process of xdist has left out; all leave out the same."""
        output = getattr(node, "workeroutput", {})
        self._left = Counter(output.get("left", self._left))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up what a test took."""
        self._seconds[report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was not run, and write the table where that was asked for."""
        if self._left:
            terminalreporter.write_line(_not_run(self._left))
        if self._config.getoption("write_seconds"):
            day.write(self._seconds)


def _not_run(left: Counter[str]) -> str:
    most = ", ".join(f"{count:,} in {room}" for room, count in left.most_common(4))
    return (
        f"not run by day: {counted(left.total(), 'test')} ({most}, …); `tests/run --all` runs all, "
        "and a test or a file that is named always runs"
    )


def add_options(parser: pytest.Parser) -> None:
    """The options of the project."""
    group = parser.getgroup("headwater")
    group.addoption("--all", action="store_true", help="run the tests of the night too")
    group.addoption("--write-seconds", action="store_true", help="measure the table of the day run")
