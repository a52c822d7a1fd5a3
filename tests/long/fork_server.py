"""Runs tests in forks of one process that has imported what does not change: python fork_server.py

Rule: it imports no module of the product or of the tests, so that each fork imports those of its
tree. It reads a job from each line of stdin, and writes what happened as a line to stdout.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import runpy
import select
import signal
import sys
import time
import traceback
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

COLLECTING = 120.0  # seconds without a test that begins or ends
MOST_MEMORY = 4 << 30  # bytes of a test with its processes
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: orphans become children of this process
THIRD_PARTY = """
numpy scipy.special numba numba.core.registry numba.core.compiler numba.np.arraymath river.base
river.datasets river.metrics hypothesis hypothesis.strategies hypothesis.extra.numpy pydantic typer
typer.testing rich.console rich.progress rich.live msgspec kafka prometheus_client starlette.routing
starlette.testclient uvicorn httpx pandas mpmath zstandard narwhals sqlite3 asyncio
multiprocessing.pool concurrent.futures.process xml.dom email.message html.parser unittest.mock
""".split()  # noqa: SIM905


class _Run:
    """The plugin of one fork: which tests run, and what is reported of them."""

    def __init__(self, job: dict[str, Any], stage: int, out: int) -> None:
        self._stage, self._out, self._probe = stage, out, job["probe"]
        self._wanted: list[str] | None = job["stages"][stage]["tests"]
        self._of_fixtures: dict[Any, bytes] = {}
        self._skipped = False

    def tell(self, event: str, test: str = "", **more: Any) -> None:
        """Report to the server."""
        line = json.dumps({"event": event, "test": test, "stage": self._stage, **more})
        os.write(self._out, line.encode() + b"\n")

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Examples that fail are not made shorter: that they fail is enough."""
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("reach", settings.default, phases=phases, database=None)
        settings.load_profile("reach")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Only the wanted tests, in the order in which they are named."""
        if self._wanted is not None:
            by_name = {item.nodeid: item for item in items}
            wanted = [by_name[name] for name in self._wanted if name in by_name]
            items[:] = wanted
        if self._probe:
            self.tell("collected", reached=self._reached())

    def pytest_collectreport(self, report: Any) -> None:
        """A module that cannot be imported."""
        if report.failed:
            self.tell("failed", report.nodeid, why=str(report.longrepr)[-300:])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Generator[None, object, object]:
        """Report its begin and its end."""
        self.tell("begin", item.nodeid)
        if self._probe:
            _marks()[:] = bytes(len(_marks()))
        self._skipped, began = False, time.monotonic()
        try:
            return (yield)
        finally:
            reached = self._reached() if self._probe else []
            seconds = round(time.monotonic() - began, 4)
            skipped = self._skipped
            told = {"seconds": seconds, "skipped": skipped, "reached": reached}
            generated = hasattr(getattr(item, "obj", None), "hypothesis")
            self.tell("end", item.nodeid, generated=generated, **told)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test that fails, and one that does not run."""
        self._skipped |= report.skipped
        if report.failed:
            self.tell("failed", report.nodeid, why=str(report.longrepr)[-300:])

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: Any, request: Any
    ) -> Generator[None, object, object]:
        """What a shared fixture reaches is reached by each test that uses it."""
        if not self._probe or fixturedef.scope == "function":
            return (yield)
        before, marks = bytes(_marks()), _marks()
        marks[:] = bytes(len(marks))
        try:
            return (yield)
        finally:
            self._of_fixtures[fixturedef] = bytes(marks)
            _add(before)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: Any) -> None:
        """The shared fixtures are set up by now; one that existed already reached its part then."""
        if self._probe:
            for name in item.fixturenames:
                for fixture in item._fixtureinfo.name2fixturedefs.get(name, ()):
                    _add(self._of_fixtures.get(fixture, b""))

    def _reached(self) -> list[int]:
        return [number for number, mark in enumerate(bytes(_marks())) if mark]


def _marks() -> Any:
    return builtins.__reach__  # type: ignore[attr-defined]


def _add(other: bytes) -> None:
    for number, mark in enumerate(other):
        if mark:
            _marks()[number] = 1


def _child(job: dict[str, Any], out: int) -> None:
    """Run the stages of a job, and end; the first test that fails ends it, unless it is a probe."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC)
    empty = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((empty, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.chdir(job["tree"])
    os.environ.update(job["environment"])
    sys.path[:0] = [job["tree"]]
    sys.argv = ["pytest"]
    code: int = 70
    try:
        runpy.run_path(job["hook"])  # it reads the task that the variable REACH names
        for number, stage in enumerate(job["stages"]):
            run = _Run(job, number, out)
            code = int(pytest.main([*job["options"], *stage["files"]], plugins=[run]))
            if code not in (0, 1, 5) or (code == 1 and not job["probe"]):
                if code != 1:
                    run.tell("failed", "pytest", why=f"it ended with {code}")
                break
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        os._exit(code)


def _run(job: dict[str, Any]) -> dict[str, Any]:
    """The events of a job, and how it ended: passed, failed, hang, memory or crash."""
    reader, writer = os.pipe()
    began, used = time.monotonic(), _used()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _child(job, writer)
    os.close(writer)
    events: list[dict[str, Any]] = []
    ended = _watch(pid, reader, job["limits"], events)
    _kill_descendants()
    os.close(reader)
    failed = [event for event in events if event["event"] == "failed"]
    last = events[-1] if events else {"test": "", "stage": 0}
    if ended in ("passed", "crash") and failed:
        ended, last = "failed", failed[0]
    times = {"seconds": round(time.monotonic() - began, 2), "cpu": round(_used() - used, 2)}
    shown = events if job["probe"] else failed
    return {"ended": ended, "test": last["test"], "events": shown, **times}


def _used() -> float:
    """Processor seconds of processes that have ended."""
    times = resource.getrusage(resource.RUSAGE_CHILDREN)
    return times.ru_utime + times.ru_stime


def _watch(pid: int, reader: int, limits: dict[str, float], events: list[dict[str, Any]]) -> str:
    """Read what a fork reports until it ends, or until it takes too long or too much memory.

    While one of its processes waits for a processor, its time is what it gets of one: a busy
    machine makes no test hang.
    """
    kept, limit, spent, looked, used = b"", COLLECTING, 0.0, time.monotonic(), 0.0
    while True:
        ready, _, _ = select.select([reader], [], [], 0.2)
        data = os.read(reader, 1 << 20) if ready else b""
        *lines, kept = (kept + data).split(b"\n")
        for line in lines:
            events.append(json.loads(line))
            test = events[-1]["test"] if events[-1]["event"] == "begin" else ""
            limit, spent = limits.get(test, COLLECTING), 0.0
        if data:
            continue
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return "passed" if os.waitstatus_to_exitcode(status) in (0, 1, 5) else "crash"
        if (now := time.monotonic()) - looked > 1:
            every = _descendants()
            before, used = used, sum(map(_processor, every))
            passed, looked = now - looked, now
            wants = any(map(_running, every))
            spent += min(passed, max(0.0, used - before)) if wants else passed
            if spent > limit:
                return "hang"
            if sum(map(_memory, every)) > MOST_MEMORY:
                return "memory"
        if ready:  # the pipe is closed, and the process has not ended yet
            time.sleep(0.05)


def _descendants() -> list[int]:
    """All processes that this one started, directly or not."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(path.name))
    found, waiting = [], [os.getpid()]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def _processor(pid: int) -> float:
    """Processor seconds of a process and of its children that have ended."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _running(pid: int) -> bool:
    """Whether a thread of a process runs, or waits for a processor or a disk."""
    with contextlib.suppress(OSError):
        for path in Path(f"/proc/{pid}/task").iterdir():
            if (path / "stat").read_text().rpartition(")")[2].split()[0] in "RD":
                return True
    return False


def _memory(pid: int) -> int:
    with contextlib.suppress(OSError):
        shared_too = Path(f"/proc/{pid}/statm").read_text().split()
        return (int(shared_too[1]) - int(shared_too[2])) * resource.getpagesize()
    return 0


def _kill_descendants() -> None:
    """End what a fork has left, and wait for it."""
    while found := _descendants():
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def _jobs() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def main() -> None:
    """Import, freeze what was imported, and serve."""
    sys.path.remove(str(Path(__file__).parent))  # its modules have the names of libraries
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    for name in THIRD_PARTY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    for job in _jobs():
        answer = _run(job)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
