"""Run records in child processes that may die of them: the trials of `crash_guard`.

The service starts one process without any connection, `python -m consumers.service.trial`, and
passes it the state and the records in a file without a name. That process loads them, and forks a
child for each trial. It writes the results to its standard output, and ends with its standard
input. A child has its own memory limit, so that it dies before a larger limit ends the service. It
also has a time limit, which counts the time in which it runs or waits, but not the time in which it
is stopped or not scheduled.
"""

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
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import msgspec
from pydantic import ValidationError

from consumers.base.errors import HeadwaterError
from consumers.base.records import Batch, Fetched
from consumers.config import Config
from consumers.config.auto import Defaults
from consumers.config.learner import may_pickle
from consumers.journal.merge import Merge
from consumers.service.crash_guard import CrashGuard, TrialResult
from consumers.service.live import LiveShard
from consumers.service.recovery import about_of
from consumers.service.warm_up import compile_kernels
from consumers.shard.assembly import shard_of
from consumers.shard.batches import Commit, Skip
from consumers.shard.shape import OutputShape
from consumers.shard.shard import Shard
from consumers.snapshots.format import from_bytes, to_bytes
from stream.data.schema import Field, Schema
from stream.errors import StreamError
from stream.kernel.room import free_bytes
from stream.kernel.tiers import VARIABLE

__all__ = ["TrialProcesses", "handed", "pieces"]

COMMAND = [sys.executable, "-P", "-m", "consumers.service.trial"]  # no file of its folder is run
ENVIRONMENT = {  # it forks, so no threads
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    VARIABLE: "compiled",
}
REASON = "crash_poison"
PROBE_SECONDS = 30.0  # for a search among many records, which rejects no record
STARTS_SECONDS = 120.0  # until the process is ready; loading a model of gigabytes takes time
ROOM = 256 * 2**20  # bytes that must be free in addition to the state, or a death proves nothing
LOOK_SECONDS = 0.02
DONE, NO_MEMORY = b"d", b"m"
# A child opens no log, no snapshot and no port, and these sections hold the secrets.
NOT_HANDED = {"kafka", "registry", "snapshots", "http", "serve"}


class _Case(msgspec.Struct):
    """The input of the process, before the snapshot: the settings of the shard, and the records
    `parts` at the clock `now`. `pickled` are the challengers whose state is a pickle."""

    config: dict[str, Any]
    fields: list[tuple[str, str]]
    outputs: OutputShape
    number: int
    defaults: Defaults
    pickled: list[str]
    parts: list[Fetched]
    now: int


class _Request(msgspec.Struct):
    """Run the first `count` records, optionally without the first, within `seconds`."""

    count: int
    without_first: bool
    seconds: float


_decode_case = msgspec.msgpack.Decoder(_Case).decode
_decode_request = msgspec.json.Decoder(_Request).decode
_decode_result = msgspec.json.Decoder(TrialResult).decode


def handed(config: Config) -> dict[str, Any]:
    """The configuration for a child, without any section that may hold a secret."""
    given = config.model_dump(exclude=NOT_HANDED, exclude_unset=True)
    given["serve"] = {"enabled": False}
    if config.registry.url is not None:  # required, and never asked: the state has the schemas
        given["registry"] = {"url": "mock://"}
    return given


def pieces(
    batch: Batch, now: int, live: LiveShard, guard: CrashGuard, trials: TrialProcesses
) -> Iterator[tuple[Batch, list[Skip]]]:
    """The batch in pieces, each with the records to skip. One piece if nothing is suspected.

    The caller commits each piece before it requests the next one.
    """
    if not guard.suspicious:
        yield batch, []
        return
    left = [list(batch.parts)]
    for count, rejected in guard.examine(len(batch), lambda: trials.of(live, left[0], now)):
        piece, left[0] = _cut(left[0], live.shard.spec.label_topics, count, now)
        (topic, number), offset = piece.place(0)
        yield piece, [(topic, number, offset, REASON)] if rejected else []


def _cut(
    parts: Sequence[Fetched], labels: Collection[str], count: int, now: int
) -> tuple[Batch, list[Fetched]]:
    """The first `count` records in order, and the unordered rest."""
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
        The whole configuration. `handed` is the part that leaves this process.
    directory
        Where the file without a name is created, if that is possible.
    seconds
        How long one record may take.
    turn
        Called several times a second while waiting.
    stopping
        Whether to give up.
    """

    def __init__(
        self,
        config: Config,
        directory: Path,
        *,
        seconds: float,
        turn: Callable[[], object],
        stopping: Callable[[], bool],
    ) -> None:
        self._config, self._directory, self._seconds = config, directory, seconds
        self._turn, self._stopping = turn, stopping

    @contextmanager
    def of(self, live: LiveShard, parts: Sequence[Fetched], now: int) -> Iterator[_Process]:
        """A process with the state of `live` and these records. It ends with the block."""
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
        shard, spec = live.shard, live.shard.spec
        case = _Case(
            handed(self._config),
            [(f.name, f.kind) for f in spec.schema.fields],
            spec.outputs,
            spec.number,
            spec.defaults,
            shard.challenger_set.pickled(),
            [part.as_lists() for part in parts],
            now,
        )
        head = msgspec.msgpack.encode(case, enc_hook=str)  # paths
        file.write(len(head).to_bytes(8, "little") + head)
        try:
            with shard.pickling():
                file.write(to_bytes(about_of(self._config, live), shard.to_state()))
        except (StreamError, HeadwaterError):
            file.truncate(0)  # without a state there is no trial: the process reports it


class _Process:
    """The process that forks the children. It implements `TrialRunner`."""

    def __init__(
        self,
        file: IO[bytes],
        seconds: float,
        turn: Callable[[], object],
        stopping: Callable[[], bool],
    ) -> None:
        self._seconds, self._turn, self._stopping = seconds, turn, stopping
        self._unread = b""
        self._broken = ""
        self._process = subprocess.Popen(  # noqa: S603  this very program
            [*COMMAND, str(file.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[file.fileno()],
            env={**os.environ, **ENVIRONMENT},
            start_new_session=True,  # Ctrl-C is only for the service
        )
        ready = self._line(STARTS_SECONDS)
        if ready.end != "lived":
            self._broken = ready.how

    def run(self, count: int, *, without_first: bool = False) -> TrialResult:
        """Run the first `count` records, optionally without the first of them."""
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
        # A child's time limit does not count time in which it is not scheduled. This limit does.
        return self._line(10 * seconds + 60)

    def close(self) -> None:
        """End the process."""
        process = self._process
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _line(self, seconds: float) -> TrialResult:
        """The next result of the process."""
        assert self._process.stdout is not None  # noqa: S101  a pipe
        out = self._process.stdout.fileno()
        deadline = time.monotonic() + seconds
        while b"\n" not in self._unread:
            self._turn()
            if self._stopping():
                return self._fail("the service was asked to stop")
            if time.monotonic() > deadline:
                return self._fail(f"no answer within {seconds:g} s")
            if select.select([out], [], [], 0.2)[0]:
                data = os.read(out, 65536)
                if not data:
                    return self._fail("its process has ended")
                self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return _decode_result(line)

    def _fail(self, why: str) -> TrialResult:
        self._broken = why
        return TrialResult("unclear", why)


def main() -> None:
    """The process: load what file descriptor argv[1] holds, and run the requested trials."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the service handles it, and ends this process
    _end_with_parent()
    with suppress(OSError):  # the kernel should kill this process before the service
        Path("/proc/self/oom_score_adj").write_text("1000")
    try:
        with open(int(sys.argv[1]), "rb") as file:
            case, shard = _load(file)
    except Exception as error:
        _report(TrialResult("unclear", _cause(error)[:300]))
        return
    _report(TrialResult("lived"))
    for line in sys.stdin.buffer:
        request = _decode_request(line)
        _report(_tried(shard, case, request))


def _cause(error: Exception) -> str:
    """The cause without values of the configuration, because the service logs it."""
    if isinstance(error, ValidationError):
        wrong = error.errors(include_url=False, include_context=False, include_input=False)
        keys = (f"{'.'.join(map(str, each['loc']))} ({each['type']})" for each in wrong)
        return f"the configuration did not arrive as it was sent: {', '.join(keys)}"
    if isinstance(error, StreamError | HeadwaterError | OSError):
        return f"{type(error).__name__}: {error}"
    return type(error).__name__


def _load(file: IO[bytes]) -> tuple[_Case, Shard]:
    size = int.from_bytes(file.read(8), "little")
    case = _decode_case(file.read(size))
    config = Config.model_validate(case.config)
    if may_pickle(case.config["model"]):
        trusting = config.model.model_copy(update={"trust_pickle": True})
        config = config.model_copy(update={"model": trusting})
    shard = shard_of(
        config,
        Schema(tuple(Field(name, kind) for name, kind in case.fields)),  # type: ignore[arg-type]
        outputs=case.outputs,
        number=case.number,
        defaults=case.defaults,
    )
    trusted = shard.spec.trusted._replace(pickles=frozenset(case.pickled))
    shard.spec = replace(shard.spec, trusted=trusted)
    _, state = from_bytes(file.read())
    shard.load_state(state)
    compile_kernels(config, lambda line: None)  # once, so that no child needs to
    return case, shard


def _report(fate: TrialResult) -> None:
    os.write(1, msgspec.json.encode(fate) + b"\n")


def _tried(shard: Shard, case: _Case, request: _Request) -> TrialResult:
    """Fork, wait, and return the result."""
    batch, _ = _cut(case.parts, shard.spec.label_topics, request.count, case.now)
    (topic, number), offset = batch.place(0)
    skips = [(topic, number, offset, REASON)] if request.without_first else []
    free = free_bytes()
    if free is not None and free < ROOM:
        return TrialResult("unclear", f"less than {ROOM >> 20} MiB of memory is free for a child")
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
    """The child: process the records as `commit.advance` does. Never returns."""
    result = b""
    try:
        _end_with_parent()
        before = _number("/proc/self/status", "VmRSS") if free is not None else 0
        if free is not None:
            _limit_memory(free * 15 // 16)
        outcome = shard.process(batch, case.now, Commit(skips, drift=shard.drift_change))
        list(outcome.predictions()), list(outcome.dead_letters())
        taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # kilobytes
        short = free is not None and taken > free * 3 // 4 // 1024  # a river model may catch it
        result = NO_MEMORY if short else DONE
    except MemoryError:
        result = NO_MEMORY
    except Exception:
        result = DONE  # an exception is not a crash
    os.write(into, result)
    os._exit(0)


def _watched(pid: int, out: int, seconds: float) -> TrialResult:
    """The result of the child."""
    blocked = 0.0
    while not select.select([out], [], [], LOOK_SECONDS)[0]:
        if select.select([0], [], [], 0)[0]:  # the service closed the pipe: nothing else is sent
            os.kill(pid, signal.SIGKILL)
            os._exit(0)
        state, running = _state(pid)
        blocked += LOOK_SECONDS if state == "S" else 0.0
        if blocked + running > seconds:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return TrialResult("died", f"it did not return within {seconds:g} s")
    result = os.read(out, 1)
    return _fate(result, os.waitpid(pid, 0)[1])


def _fate(result: bytes, status: int) -> TrialResult:
    if result == DONE:
        return TrialResult("lived")
    if result == NO_MEMORY:
        return TrialResult("died", "it needed more memory than there is")
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return TrialResult("died", signal.Signals(number).name, number == signal.SIGKILL)
    return TrialResult("died", f"it ended with exit code {os.waitstatus_to_exitcode(status)}")


def _state(pid: int) -> tuple[str, float]:
    """The child's state, as ps shows it, and how many seconds it has run."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "S", 0.0  # this system has no such file: count the wall time
    return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _end_with_parent() -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _limit_memory(room: int) -> None:
    """Limit the further memory of this process to this many bytes."""
    with suppress(OSError, ValueError):
        used = _number("/proc/self/status", "VmData") * 1024
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (used + room, hard))


def _number(path: str, name: str) -> int:
    """The number after a name in a file of the kernel."""
    for line in Path(path).read_text().splitlines():
        words = line.replace(":", " ").split()
        if words and words[0] == name:
            return int(words[1])
    raise ValueError(name)


if __name__ == "__main__":
    main()
