"""Records run in child processes, which may die of them: what `crash_guard` has suspects tried by.

The service starts one process without a connection to anything, `python -m
consumers.service.trial`, and hands it the state and the records in a file that has no name. That
process loads them, and forks a child for each trial. It tells on its standard output what came of
it, and ends with its standard input. A child has its own limit of memory, so that it dies before
whatever limit there is ends the service with it, and one of time, in which it runs or waits; time
in which it is stopped or kept from running does not count."""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import msgspec
from pydantic import ValidationError

from consumers.base.errors import HeadwaterError
from consumers.base.records import Batch, Fetched
from consumers.config import Config
from consumers.journal.merge import Merge
from consumers.service.crash_guard import CrashGuard, TrialResult
from consumers.service.live import LiveShard, Sources
from consumers.service.recovery import about_of
from consumers.service.warm_up import compile_kernels
from consumers.shard.assembly import shard_of
from consumers.shard.outcome import Skip
from consumers.shard.shard import Shard
from consumers.snapshots.format import from_bytes, to_bytes
from stream.data.schema import Field, Schema
from stream.errors import StreamError

__all__ = ["TrialProcesses", "handed", "pieces"]

COMMAND = [sys.executable, "-m", "consumers.service.trial"]
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # it forks: no threads
REASON = "crash_poison"
PROBE_SECONDS = 30.0  # for a search among many records, which condemns none
STARTS_SECONDS = 120.0  # until the process is ready, at most; a model of gigabytes takes its time
ROOM = 256 * 2**20  # bytes that must be free beside the state, or a death says nothing
LOOK_SECONDS = 0.02
DONE, NO_MEMORY = b"d", b"m"
# A child opens no log, no snapshot and no port. These sections hold the secrets.
NOT_HANDED = {"kafka", "snapshots", "http"}


class _Case(msgspec.Struct):
    """What the process is handed, before the snapshot. `parts` are the records."""

    config: dict[str, Any]
    fields: list[tuple[str, str]]
    label_topics: list[str]
    pickled: list[str]
    number: int
    predictions_partitions: int
    largest_dead_letter: int | None
    join_rules: int
    codec_rules: int
    parts: list[Fetched]
    now: int
    drift: dict[str, Any] | None


class _Request(msgspec.Struct):
    """Run the first `count` records, the first passed over if asked, within `seconds`."""

    count: int
    without_first: bool
    seconds: float


def handed(config: Config) -> dict[str, Any]:
    """The configuration as a child needs it: without any section that may hold a secret."""
    return config.model_dump(exclude=NOT_HANDED, exclude_unset=True)


def pieces(
    batch: Batch, now: int, live: LiveShard, guard: CrashGuard, trials: TrialProcesses
) -> Iterator[tuple[Batch, list[Skip]]]:
    """The batch in pieces, each with what must be passed over; one piece where none is suspected.

    The caller commits each piece before it asks for the next one.
    """
    if not guard.suspicious:
        yield batch, []
        return
    left = [list(batch.parts)]
    for count, condemned in guard.examine(len(batch), lambda: trials.of(live, left[0], now)):
        piece, left[0] = _cut(left[0], trials.found.label_topics, count, now)
        (topic, number), offset = piece.place(0)
        yield piece, [(topic, number, offset, REASON)] if condemned else []


def _cut(
    parts: Sequence[Fetched], labels: Sequence[str] | frozenset[str], count: int, now: int
) -> tuple[Batch, list[Fetched]]:
    """The first `count` records in order, and the rest as it lay."""
    merge = Merge([part.partition for part in parts], labels)
    merge.add(parts)
    head = merge.take(count, {}, now=now, wait=False)
    assert head is not None  # noqa: S101  there are that many
    rest = merge.take(1 << 62, {}, now=now, wait=False)
    return head, [] if rest is None else list(rest.parts)


class TrialProcesses:
    """Starts the processes.

    Parameters
    ----------
    config
        The whole configuration; `handed` is what leaves this process.
    found
        Of the shard.
    directory
        Where the file without a name lies, if it can be written.
    seconds
        How long one record may take.
    turn
        Called while waiting, several times a second.
    stopping
        Whether to give up.
    """

    def __init__(
        self,
        config: Config,
        found: Sources,
        directory: Path,
        *,
        seconds: float,
        turn: Callable[[], None],
        stopping: Callable[[], bool],
    ) -> None:
        self.found = found
        self._config, self._directory, self._seconds = config, directory, seconds
        self._turn, self._stopping = turn, stopping

    @contextmanager
    def of(self, live: LiveShard, parts: Sequence[Fetched], now: int) -> Iterator[_Process]:
        """A process that has the state of `live` and these records; it ends with the block."""
        with self._file() as file:
            self._write(file, live, parts, now)
            file.seek(0)
            process = _Process(file, self._seconds, self._turn, self._stopping)
        try:
            yield process
        finally:
            process.close()

    def _file(self) -> IO[bytes]:
        with suppress(OSError):
            return tempfile.TemporaryFile(dir=self._directory)
        return tempfile.TemporaryFile()

    def _write(self, file: IO[bytes], live: LiveShard, parts: Sequence[Fetched], now: int) -> None:
        shard = live.shard
        case = _Case(
            handed(self._config),
            [(f.name, f.kind) for f in live.fields],
            sorted(self.found.label_topics),
            shard.challenger_set.pickled(),
            self.found.journal.number,
            self.found.predictions_partitions,
            self.found.largest_dead_letter,
            live.entry.join,
            live.entry.codec,
            list(parts),
            now,
            shard.drift_change,
        )
        head = msgspec.msgpack.encode(case, enc_hook=str)  # paths
        file.write(len(head).to_bytes(8, "little") + head)
        try:
            with shard.pickling():
                file.write(to_bytes(about_of(self._config, live), shard.to_state()))
        except (StreamError, HeadwaterError):
            file.truncate(0)  # no state, no trial: the process says so


class _Process:
    """The process that forks the children; a `TrialRunner`."""

    def __init__(
        self,
        file: IO[bytes],
        seconds: float,
        turn: Callable[[], None],
        stopping: Callable[[], bool],
    ) -> None:
        self._seconds, self._turn, self._stopping = seconds, turn, stopping
        self._said = b""
        self._broken = ""
        self._process = subprocess.Popen(  # noqa: S603  this very program
            [*COMMAND, str(file.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[file.fileno()],
            env={**os.environ, **ENVIRONMENT},
            start_new_session=True,  # Ctrl-C is for the service alone
        )
        ready = self._line(STARTS_SECONDS)
        if ready.end != "lived":
            self._broken = ready.how

    def run(self, count: int, *, without_first: bool = False) -> TrialResult:
        """Run the first `count` of the records; the first of them passed over, if asked."""
        if self._broken:
            return TrialResult("unclear", self._broken)
        seconds = self._seconds if count == 1 else min(PROBE_SECONDS, self._seconds)
        request = msgspec.json.encode(_Request(count, without_first, seconds))
        assert self._process.stdin is not None  # noqa: S101  a pipe
        try:
            self._process.stdin.write(request + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            return self._fail(f"its process has ended ({error})")
        # Time in which the child is kept from running does not count there: here it does, at last.
        return self._line(10 * seconds + 60)

    def close(self) -> None:
        """End it."""
        process = self._process
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _line(self, seconds: float) -> TrialResult:
        """The next thing it tells."""
        assert self._process.stdout is not None  # noqa: S101  a pipe
        out = self._process.stdout.fileno()
        deadline = time.monotonic() + seconds
        while b"\n" not in self._said:
            self._turn()
            if self._stopping():
                return self._fail("the service was asked to stop")
            if time.monotonic() > deadline:
                return self._fail(f"no answer within {seconds:g} s")
            if select.select([out], [], [], 0.2)[0]:
                came = os.read(out, 65536)
                if not came:
                    return self._fail("its process has ended")
                self._said += came
        line, _, self._said = self._said.partition(b"\n")
        return msgspec.json.decode(line, type=TrialResult)

    def _fail(self, why: str) -> TrialResult:
        self._broken = why
        return TrialResult("unclear", why)


def main() -> None:
    """The process: load what file descriptor number argv[1] holds, and do as asked."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the service handles it, and ends this
    _end_with_parent()
    with suppress(OSError):  # rather this one than the service
        Path("/proc/self/oom_score_adj").write_text("1000")
    try:
        with open(int(sys.argv[1]), "rb") as file:
            case, shard = _load(file)
    except Exception as error:
        _tell(TrialResult("unclear", _cause(error)[:300]))
        return
    _tell(TrialResult("lived"))
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line, type=_Request)
        _tell(_tried(shard, case, request))


def _cause(error: Exception) -> str:
    """What is wrong, without the values of the configuration: the service logs it."""
    if isinstance(error, ValidationError):
        wrong = error.errors(include_url=False, include_context=False, include_input=False)
        keys = (f"{'.'.join(map(str, each['loc']))} ({each['type']})" for each in wrong)
        return f"the configuration did not arrive as it was sent: {', '.join(keys)}"
    if isinstance(error, StreamError | HeadwaterError | OSError):
        return f"{type(error).__name__}: {error}"
    return type(error).__name__


def _load(file: IO[bytes]) -> tuple[_Case, Shard]:
    size = int.from_bytes(file.read(8), "little")
    case = msgspec.msgpack.decode(file.read(size), type=_Case)
    config = Config.model_validate(case.config)
    if config.model.type.startswith("river:"):
        trusting = config.model.model_copy(update={"trust_pickle": True})
        config = config.model_copy(update={"model": trusting})
    shard = shard_of(
        config,
        Schema(tuple(Field(name, kind) for name, kind in case.fields)),  # type: ignore[arg-type]
        label_field=config.input.label,
        label_topics=frozenset(case.label_topics),
        predictions_partitions=case.predictions_partitions,
        largest_dead_letter=case.largest_dead_letter,
        number=case.number,
        join_rules=case.join_rules,
        codec_rules=case.codec_rules,
    )
    shard.spec = replace(shard.spec, trusted=frozenset(case.pickled))
    _, state = from_bytes(file.read())
    shard.load_state(state)
    compile_kernels(config, lambda line: None)  # once, and not in each child
    return case, shard


def _tell(fate: TrialResult) -> None:
    os.write(1, msgspec.json.encode(fate) + b"\n")


def _tried(shard: Shard, case: _Case, request: _Request) -> TrialResult:
    """Fork, wait, and say what came of it."""
    batch, _ = _cut(case.parts, frozenset(case.label_topics), request.count, case.now)
    (topic, number), offset = batch.place(0)
    skips = [(topic, number, offset, REASON)] if request.without_first else []
    free = _free_bytes()
    if free is not None and free < ROOM:
        return TrialResult(
            "unclear", f"fewer than {ROOM >> 20} MiB are free beside the state's copy"
        )
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(out)
        _run(shard, case, batch, skips, into, free)
    os.close(into)
    try:
        return _watched(pid, out, request.seconds)
    finally:
        os.close(out)


def _run(
    shard: Shard, case: _Case, batch: Batch, skips: list[Skip], into: int, free: int | None
) -> None:
    """The child: what `commit.advance` does with records in hand; never returns."""
    said = b""
    try:
        _end_with_parent()
        before = _number("/proc/self/status", "VmRSS") if free is not None else 0
        if free is not None:
            _limit_memory(free * 15 // 16)
        outcome = shard.process(batch, case.now, skips=skips, drift=case.drift)
        list(outcome.predictions()), list(outcome.dead_letters())
        taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # kilobytes
        made_do = free is not None and taken > free * 3 // 4 // 1024  # a model of river may
        said = NO_MEMORY if made_do else DONE
    except MemoryError:
        said = NO_MEMORY
    except Exception:
        said = DONE  # it can be told, so it is no sudden death
    os.write(into, said)
    os._exit(0)


def _watched(pid: int, out: int, seconds: float) -> TrialResult:
    """What came of the child."""
    blocked = 0.0
    while not select.select([out], [], [], LOOK_SECONDS)[0]:
        if select.select([0], [], [], 0)[0]:  # nobody asks any more; nothing else comes here
            os.kill(pid, signal.SIGKILL)
            os._exit(0)
        state, running = _state(pid)
        blocked += LOOK_SECONDS if state == "S" else 0.0
        if blocked + running > seconds:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return TrialResult("died", f"it did not return within {seconds:g} s")
    said = os.read(out, 1)
    return _fate(said, os.waitpid(pid, 0)[1])


def _fate(said: bytes, status: int) -> TrialResult:
    if said == DONE:
        return TrialResult("lived")
    if said == NO_MEMORY:
        return TrialResult("died", "it took more memory than there is")
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return TrialResult("died", signal.Signals(number).name, number == signal.SIGKILL)
    return TrialResult("died", f"it ended with exit code {os.waitstatus_to_exitcode(status)}")


def _state(pid: int) -> tuple[str, float]:
    """The child's state, as ps shows it, and how many seconds it has run."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "S", 0.0  # no such place here: by the clock
    return told[0], (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")


def _end_with_parent() -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _limit_memory(room: int) -> None:
    """Let this process take so many bytes more."""
    with suppress(OSError, ValueError):
        used = _number("/proc/self/status", "VmData") * 1024
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (used + room, hard))


def _free_bytes() -> int | None:
    """Memory that this process may still take: of the machine, and of each group it is in."""
    try:
        free = [_number("/proc/meminfo", "MemAvailable") * 1024]
        groups = Path("/proc/self/cgroup").read_text().splitlines()
    except (OSError, ValueError):
        return None
    root = Path("/sys/fs/cgroup")
    for line in groups:
        _, kinds, path = line.split(":", 2)
        names = ("memory.max", "memory.current")
        if kinds:
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        home = root / ("memory" if kinds else "")
        for group in (home, *[home / p for p in _prefixes(path)]):
            with suppress(OSError, ValueError):  # "max": no limit
                most, used = (int((group / name).read_text()) for name in names)
                cached = _number(str(group / "memory.stat"), "inactive_file")
                free.append(most - used + cached)
    return min(free)


def _prefixes(path: str) -> list[str]:
    """a, a/b, a/b/c of /a/b/c."""
    parts = [part for part in path.split("/") if part]
    return ["/".join(parts[: i + 1]) for i in range(len(parts))]


def _number(path: str, name: str) -> int:
    """The number beside a name in a file of the kernel."""
    for line in Path(path).read_text().splitlines():
        words = line.replace(":", " ").split()
        if words and words[0] == name:
            return int(words[1])
    raise ValueError(name)


if __name__ == "__main__":
    main()
