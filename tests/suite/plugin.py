"""The plugin of pytest that chooses the tests of the day, and says at the end what did not run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

from consumers.base.counts import counted
from tests import seed
from tests.suite import day
from tests.suite.needs import NEEDS, Chosen

__all__ = ["AROUND", "Selection", "add_options", "check_options"]

# What `tests/run` gives to pytest. Three processes keep two cores busy: many tests wait for a
# broker or for a process that they killed. In the order of the files: the acceptance tests, few and
# long, begin and do not end it on one core. A process that dies ends the run: xdist with loadscope
# can wait forever after it started another one.
AROUND = """
--numprocesses 3 --dist loadscope --no-loadscope-reorder --max-worker-restart 0 --durations 10
""".split()  # noqa: SIM905
MEASURES = ["--all", "--hypothesis-profile", "day", "--write-seconds"]


class Selection:
    """Leaves out what is of the night, and files whose heavy package is not installed."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._chosen: Chosen | None = None
        self._left: Counter[str] = Counter()  # room -> tests of the night
        self._lacking: dict[str, str] = {}  # file that cannot be imported -> package
        self._seconds: dict[str, float] = defaultdict(float)  # of each test, by its node id
        self._skipped: set[str] = set()

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out a file that cannot be imported here."""
        if collection_path.suffix != ".py":
            return None
        lacking = [n for n in NEEDS if n.extra and not n.there() and n.of(collection_path)]
        for need in lacking:
            if self._asks_for(collection_path):
                self._lacking[collection_path.name] = need.name
        return True if lacking else None

    def _asks_for(self, path: Path) -> bool:
        """Whether the arguments may choose one of its tests; a helper has none."""
        if self._chosen is None:
            asked, invoked = self._config.getoption, self._config.invocation_params.dir
            words = [argument.partition("::")[0] for argument in self._config.args]
            paths = tuple((invoked / word).resolve() for word in words)
            self._chosen = Chosen(paths, asked("markexpr"), asked("keyword"), asked("all"))
        return path.name.startswith("test_") and self._chosen.has(path)

    # The cases of the day do not depend on -k and -m, so they are chosen before these. What is left
    # out is counted after these: the count is of the tests that were asked for.
    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(
        self, items: list[pytest.Item]
    ) -> Generator[None, object, object]:
        """Leave out what is of the night."""
        everything = self._config.getoption("all")
        chosen = set() if everything else day.by_day([i.nodeid for i in items], day.load())
        result = yield
        if not everything:
            left = [item for item in items if not self._runs(item, chosen)]
            self._left.update(str(Path(item.nodeid.partition("::")[0]).parent) for item in left)
            self._config.hook.pytest_deselected(items=left)
            gone = set(left)
            items[:] = [item for item in items if item not in gone]
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["left"] = dict(self._left)
            self._config.workeroutput["lacking"] = self._lacking
        return result

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
        self._lacking = output.get("lacking", self._lacking)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up what a test took."""
        self._seconds[report.nodeid] += report.duration
        if report.skipped:
            self._skipped.add(report.nodeid)

    # Around what the others say there, so that it is last, where people look after a failure.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, exitstatus: int
    ) -> Generator[None, object, object]:
        """Say what was not run and what was drawn, and write the table where that was asked for."""
        result = yield
        if self._left:
            terminalreporter.write_line(_not_run(self._left))
        for name, package in sorted(self._lacking.items()):
            terminalreporter.write_line(f"not run: {name}, which needs {package}")
        if self._config.getoption("write_seconds"):
            if exitstatus == pytest.ExitCode.OK:
                day.write(self._seconds, self._skipped)
            else:
                terminalreporter.write_line("not written: the table, because not all tests passed")
        given = [*self._config.invocation_params.args]
        own = given[len(AROUND) :] if given[: len(AROUND)] == AROUND else given
        terminalreporter.write_line(f"what was drawn, again: {seed.again(own)}")
        return result


def _not_run(left: Counter[str]) -> str:
    most = [f"{count:,} in {room}" for room, count in left.most_common(4)]
    more = ["…"] if len(left) > len(most) else []
    return (
        f"not run by day: {counted(left.total(), 'test')} ({', '.join(most + more)}); "
        "`tests/run --all` runs all, and a test or a file that is named always runs"
    )


def add_options(parser: pytest.Parser) -> None:
    """The options of the project."""
    group = parser.getgroup("headwater")
    group.addoption("--all", action="store_true", help="run the tests of the night too")
    group.addoption("--write-seconds", action="store_true", help="measure the table of the day run")


def check_options(config: pytest.Config) -> None:
    """Refuse a table of a part of the tests, which would have the rest run by day."""
    option = config.option
    part = option.keyword or option.markexpr or config.args_source is config.ArgsSource.ARGS
    whole = option.all and not part and config.getoption("--hypothesis-profile", "") == "day"
    if option.write_seconds and not whole and not hasattr(config, "workerinput"):
        raise pytest.UsageError(
            f"--write-seconds measures all tests, as the day draws: tests/run {' '.join(MEASURES)}"
        )
