"""JSON lines in a directory: a topic is a directory, a partition a file, a record a line.

A line counts once its newline is there. What follows the last newline was cut off by a crash, or is
still being written, and is not read. The offset of a record is the number of its line, because
other programs append lines too; the `offset` in a line only helps who reads the file.

There are no transactions. A commit writes the outputs, then the journal record, then the offsets,
and each is on the disk before the next: the journal never names outputs that are missing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import msgspec
import numpy as np

from consumers.base.errors import FencedError, InputChangedError, TransportError
from consumers.base.records import (
    Fetched,
    Outgoing,
    Partition,
    Record,
    Topic,
    record_bytes,
)
from consumers.transports.fetching import Fetch, FetchingLog, FetchingOwner, Poller, keyed
from consumers.transports.jsonl.lines import Row, decode, encode
from consumers.transports.placement import Placement, no_such_partition, no_such_topic
from consumers.transports.registry import NO_KEY_HEADERS, KeyHeaders

__all__ = ["JsonLinesLog", "JsonLinesOwner", "PartitionFile"]

_STRIDE = 1000  # lines between two positions that are kept: 36 bytes of memory for each
_BLOCK = 2**20  # bytes read at once to find the lines
_COMPARED = 1024  # bytes of the last line that was read, to find that the file is another one
_OURS = b'{"offset":'  # how each line begins that was written here
_TOPIC = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")
_OWNERS = "@owners"  # no topic can have this name

_encode_offsets = msgspec.json.Encoder().encode
_decode_offsets = msgspec.json.Decoder(list[tuple[str, int, int]]).decode


class PartitionFile:
    """One partition: its complete lines, and where every thousandth of them begins.

    Parameters
    ----------
    path
        The file. It is never made here: without it there is no such partition.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.replaced = 0  # how often the file was another one, or had lost lines
        self.rewritten = False  # the lines before those that were read last are other ones now
        self._next = (0, 0, b"")  # the line after the last read one, its place, what is before it
        self._forget(-1)

    def _forget(self, inode: int) -> None:
        self._inode = inode
        self._size = 0  # that was looked through
        self._marks = [0]
        self._lines = 0
        self._complete = 0  # bytes up to the last newline

    def signature(self) -> tuple[int, int]:
        """A value that changes with the file."""
        found = os.stat(self.path)
        return found.st_ino, found.st_size

    def end(self) -> int:
        """The number of complete lines."""
        inode, size = self.signature()
        if inode != self._inode or size < self._complete:  # it was made again, or cut
            self.replaced += self._inode >= 0
            self._forget(inode)
        if size != self._size or size > self._complete:
            with open(self.path, "rb") as file:
                self._look_through(file)
        return self._lines

    def _look_through(self, file: BinaryIO) -> None:
        self._size = file.seek(self._complete)
        while block := file.read(_BLOCK):
            newlines = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
            begins = newlines + (self._size + 1)  # of the line after each
            self._marks += begins[_STRIDE - 1 - self._lines % _STRIDE :: _STRIDE].tolist()
            self._lines += len(begins)
            self._complete = int(begins[-1]) if len(begins) else self._complete
            self._size += len(block)

    def rows(self, start: int, limit: int, max_bytes: int) -> list[Row]:
        """Records from a line on, at most `limit` and `max_bytes`, but one at least."""
        stop = min(start + limit, self.end())
        rows: list[Row] = []
        if start >= stop:
            return rows
        with open(self.path, "rb") as file:
            position = self._seek(file, start)
            while start + len(rows) < stop:
                line = file.readline()
                row = decode(line)
                max_bytes -= record_bytes(row.key, row.value) + len(row.headers)
                if not line.endswith(b"\n") or (max_bytes < 0 and rows):
                    break
                rows.append(row)
                position += len(line)
                last = line[-_COMPARED:]
        if rows:
            self._next = (start + len(rows), position, last)
        return rows

    def _seek(self, file: BinaryIO, line: int) -> int:
        """Go to where a line begins."""
        known, position, last = self._next
        if known == line:
            file.seek(position - len(last))
            if file.read(len(last)) == last:
                return position
            self.rewritten = True
        known, position = line - line % _STRIDE, self._marks[line // _STRIDE]
        file.seek(position)
        for _ in range(line - known):
            position += len(file.readline())
        return position

    def write(self, rows: Sequence[Row]) -> int:
        """Append records; the offset of the last one. On the disk when this returns.

        The lock is for other processes of headwater. Programs that append whole lines need none.
        """
        file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            first = self.end()
            rest = os.pread(file, len(_OURS), self._complete)
            known = rest.partition(b"\0")[0]  # a loss of power may leave zeros
            begin = b""
            if rest and (_OURS.startswith(known) or known.startswith(_OURS)):
                os.ftruncate(file, self._complete)  # the write before it crashed, never confirmed
            elif rest:  # another program did not write its newline
                begin, first = b"\n", first + 1
            lines = (encode(first + i, row) for i, row in enumerate(rows))
            before = os.fstat(file).st_size
            written, content = 0, begin + b"".join(lines)
            try:
                while written < len(content):
                    written += os.write(file, memoryview(content)[written:])
                os.fsync(file)
            except OSError:
                # Otherwise a line that another program appends would continue the incomplete one.
                if os.fstat(file).st_size == before + written:
                    os.ftruncate(file, before)
                raise
        finally:
            os.close(file)
        return first + len(rows) - 1


class _Directory:
    """The files of a log, and their faults in one line."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = f"jsonl:{root}"
        self._placement = Placement()
        self._files: dict[Partition, PartitionFile] = {}
        with self.faults(), suppress(FileExistsError):
            os.mkdir(root, 0o700)
            _sync(root.parent)
        if not os.path.isdir(root):
            raise TransportError(f"expected a directory in {self.url}, it is a file: give another")

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Say the errors of the file system in one line."""
        try:
            yield
        except OSError as error:
            remedy = "check the path and who may read and write there"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                remedy = "make room on the disk; an incomplete line is removed by the next write"
            where = f" ({error.filename})" if error.filename else ""
            raise TransportError(f"{self.url}: {error.strerror}{where}: {remedy}") from error

    def topics(self) -> dict[str, int]:
        with self.faults():
            counts = {topic: self.count(topic) for topic in sorted(os.listdir(self.root))}
        return {topic: count for topic, count in counts.items() if count}

    def count(self, topic: str) -> int:
        """The number of partitions: files 0.jsonl, 1.jsonl and so on; 0 where there is no topic."""
        if not _TOPIC.fullmatch(topic):
            return 0
        try:
            names = set(os.listdir(self.root / topic))
        except (FileNotFoundError, NotADirectoryError):
            return 0
        count = 0
        while f"{count}.jsonl" in names:
            count += 1
        return count

    def id_of(self, topic: str) -> str:
        """What `create_topic` wrote; "" for a directory that was made by hand."""
        path = self.root / topic / "id"
        with self.faults():
            return path.read_text(errors="replace").strip() if path.exists() else ""

    def replaced(self, topic: str, partitions: int) -> tuple[int, ...]:
        """How often each file was replaced or cut since it was first read here."""
        files = [self._files.get(Partition(topic, n)) for n in range(partitions)]
        with self.faults():
            for file in files:
                if file is not None:
                    file.end()
        return tuple(0 if file is None else file.replaced for file in files)

    def create_topic(self, topic: str, partitions: int) -> None:
        if not _TOPIC.fullmatch(topic):
            raise TransportError(
                f"expected a topic of up to 249 letters, digits, '.', '_' and '-', got {topic!r}"
            )
        fresh = self.root / f"@new-{uuid4().hex}"
        with self.faults():
            if self.count(topic):
                return
            fresh.mkdir(0o700)
            try:
                with open(fresh / "id", "w", encoding="ascii") as file:
                    file.write(f"{uuid4().hex}\n")
                    file.flush()
                    os.fsync(file.fileno())
                for number in range(partitions):
                    (fresh / f"{number}.jsonl").touch(0o600)
                _sync(fresh)
                # A rename is atomic, so two processes may create the topic at the same time.
                os.rename(fresh, self.root / topic)
                _sync(self.root)
            except OSError:
                shutil.rmtree(fresh, ignore_errors=True)
                if not self.count(topic):
                    raise

    def file(self, partition: Partition) -> PartitionFile:
        """The file of a partition; TransportError if it does not exist."""
        if partition not in self._files:
            count = self.count(partition.topic)
            if not count:
                raise no_such_topic(partition.topic, self.url)
            if not 0 <= partition.number < count:
                raise no_such_partition(partition.topic, partition.number, count)
            path = self.root / partition.topic / f"{partition.number}.jsonl"
            self._files[partition] = PartitionFile(path)
        return self._files[partition]

    def ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        with self.faults():
            return {partition: self.file(partition).end() for partition in partitions}

    def signatures(self, partitions: Sequence[Partition]) -> list[tuple[int, int]]:
        with self.faults():
            return [self.file(partition).signature() for partition in partitions]

    def rows(self, partition: Partition, start: int, limit: int, max_bytes: int) -> list[Row]:
        with self.faults():
            return self.file(partition).rows(start, limit, max_bytes)

    def fetch(self, partition: Partition, start: int, limit: int, max_bytes: int) -> Fetched | None:
        rows = self.rows(partition, start, limit, max_bytes)
        if not rows:
            return None
        timestamps, keys, values, _ = zip(*rows, strict=True)
        offsets = list(range(start, start + len(rows)))
        return Fetched(partition, offsets, list(timestamps), list(keys), list(values))

    def fetch_records(
        self, partition: Partition, start: int, limit: int, max_bytes: int
    ) -> list[Record]:
        rows = self.rows(partition, start, limit, max_bytes)
        topic, part = partition
        return [Record(topic, part, i, *row[:3], row[3]) for i, row in enumerate(rows, start)]

    def write(self, records: Sequence[Outgoing]) -> list[tuple[int, int]]:
        """Append records once all their topics were found; partition and offset of each."""
        now = time.time_ns() // 1_000_000
        counts: dict[str, int] = {}
        placed: dict[Partition, list[Row]] = {}
        parts = []
        for record in records:
            topic = record.topic
            if topic not in counts:
                counts[topic] = self.count(topic)
                if not counts[topic]:
                    raise no_such_topic(topic, self.url)
            part = Partition(topic, self._placement.choose(record, counts[topic]))
            parts.append(part)
            timestamp = now if record.timestamp is None else record.timestamp
            row = Row(timestamp, record.key, record.value, tuple(record.headers))
            placed.setdefault(part, []).append(row)
        with self.faults():
            lasts = {part: self.file(part).write(rows) for part, rows in placed.items()}
        offsets = {p: iter(range(last + 1 - len(placed[p]), last + 1)) for p, last in lasts.items()}
        return [(part.number, next(offsets[part])) for part in parts]

    def committed(self, name: str) -> dict[Partition, int]:
        """The offsets that the shards of a service have committed."""
        pattern = re.compile(rf"{re.escape(name)}\.\d+\.offsets\.json")
        found: dict[Partition, int] = {}
        with self.faults(), suppress(FileNotFoundError):
            files = [p for p in (self.root / _OWNERS).iterdir() if pattern.fullmatch(p.name)]
            # After --new-journal with other [scale] shards, a partition is in an older file too.
            for file in sorted(files, key=lambda path: path.stat().st_mtime_ns):
                # Damaged only by a loss of power; the journal is the truth, this is a trace.
                with suppress(msgspec.DecodeError, UnicodeDecodeError):
                    rows = _decode_offsets(file.read_bytes())
                    found |= {Partition(topic, part): at for topic, part, at in rows}
        return found


def _sync(directory: Path) -> None:
    """Have the names in a directory on the disk."""
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


class JsonLinesLog(FetchingLog):
    """The log in a directory.

    Parameters
    ----------
    path
        The directory. It is created if it is missing; its parent has to exist.
    key_headers
        See `open_log`.

    Raises
    ------
    TransportError
        The path is not a directory, or it cannot be created.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     log = JsonLinesLog(f"{directory}/feed")
    ...     log.create_topic("flowers", 1)
    ...     with open(f"{directory}/feed/flowers/0.jsonl", "a") as file:
    ...         _ = file.write('{"petals": 5}\\n')
    ...     flowers = Partition("flowers", 0)
    ...     chunks = list(log.read({flowers: 0}, log.end_offsets([flowers])))
    >>> chunks[0].offsets, chunks[0].values
    ([0], [b'{"petals": 5}'])
    """

    def __init__(self, path: str, key_headers: KeyHeaders = NO_KEY_HEADERS) -> None:
        self._directory, self._key_headers = _Directory(Path(path)), key_headers
        super().__init__(self._directory, key_headers)
        self._owners: list[JsonLinesOwner] = []

    def topics(self) -> dict[str, int]:
        """Topic to its number of partitions."""
        return self._directory.topics()

    def describe(self, topics: Collection[str]) -> dict[str, Topic]:
        """Number of partitions and id of these topics; one that does not exist is left out.

        A file that is replaced or cut counts as an election, so that its last records are compared.
        """
        counts, about = self._directory.topics(), self._directory
        return {
            t: Topic(counts[t], about.id_of(t), about.replaced(t, counts[t]))
            for t in topics
            if t in counts
        }

    def create_topic(self, topic: str, partitions: int) -> None:
        """Make a topic; nothing happens where it exists already."""
        self._directory.create_topic(topic, partitions)

    def end_offsets(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The offset after the last complete line of each."""
        return self._directory.ends(partitions)

    def offsets_at(self, partitions: Sequence[Partition], timestamp: int) -> dict[Partition, int]:
        """The first offset of each whose record is at or after `timestamp` (ms), or its end."""
        found = self.end_offsets(partitions)
        for partition, end in found.items():
            chunks = self.read({partition: 0}, {partition: end})
            times = enumerate(chain.from_iterable(chunk.timestamps for chunk in chunks))
            found[partition] = next((offset for offset, at in times if at >= timestamp), end)
        return found

    def append(self, records: Sequence[Outgoing]) -> list[tuple[int, int]]:
        """Write records, file by file; on the disk when this returns.

        Returns partition and offset of each.
        """
        return self._directory.write(records)

    def owner(self, name: str, shard: int, inputs: Sequence[Partition]) -> JsonLinesOwner:
        """Become the owner of a shard; FencedError while another one is alive."""
        directory = _Directory(self._directory.root)
        directory.ends(inputs)
        fetch = keyed(directory, self._key_headers)
        owner = JsonLinesOwner(directory, name, shard, inputs, fetch)
        self._owners = [*(other for other in self._owners if not other.closed), owner]
        return owner

    def committed(self, name: str, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The offsets that a service has committed, of those that have one."""
        found = self._directory.committed(name)
        return {partition: found[partition] for partition in partitions if partition in found}

    def check_writable(self, name: str) -> None:
        """Check that this process may create files in the directory."""
        root = self._directory.root
        if not os.access(root, os.W_OK | os.X_OK):
            raise TransportError(f"jsonl:{root} is not writable")

    def close(self) -> None:
        """Close every owner this log gave; no file stays open between two calls."""
        for owner in self._owners:
            owner.close()


class JsonLinesOwner(FetchingOwner):
    """The owner of a shard, by a lock on a file, which a process loses when it ends."""

    fenced = ""  # nobody is: a second owner is refused

    def __init__(
        self,
        directory: _Directory,
        name: str,
        shard: int,
        inputs: Sequence[Partition],
        fetch: Fetch,
    ) -> None:
        self._directory, self._fetch_chunk = directory, fetch
        self._name, self._shard = name, shard
        self._inputs = inputs
        super().__init__(Poller(inputs, self._fetch, partial(directory.signatures, inputs)))
        base = directory.root / _OWNERS
        self._lock = base / f"{name}.{shard}.lock"
        self._offsets = base / f"{name}.{shard}.offsets.json"
        with directory.faults():
            base.mkdir(0o700, exist_ok=True)
            self._file = self._locked()
        self._committed = {p: at for p, at in directory.committed(name).items() if p in inputs}

    @property
    def closed(self) -> bool:
        """Whether the lock was given back."""
        return self._file < 0

    def _locked(self) -> int:
        while True:
            file = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(file, 20, 0).decode(errors="replace")
                os.close(file)
                raise FencedError(
                    f"expected to own shard {self._shard} of {self._name!r} in "
                    f"{self._directory.url}, process {holder} owns it and still runs: stop it first"
                ) from None
            if self._is_ours(file):
                os.ftruncate(file, 0)
                os.pwrite(file, str(os.getpid()).encode(), 0)
                return file
            os.close(file)  # the file was removed in between, another one may be locked there

    def _is_ours(self, file: int) -> bool:
        """Whether the open file is still the one that others would lock."""
        try:
            return os.path.samestat(os.fstat(file), os.stat(self._lock))
        except FileNotFoundError:
            return False

    def _fetch(
        self, partition: Partition, start: int, limit: int, max_bytes: int
    ) -> Fetched | None:
        chunk = self._fetch_chunk(partition, start, limit, max_bytes)
        if self._directory.file(partition).rewritten:
            raise InputChangedError(
                f"{partition} has other records before offset {start}: its file was replaced while "
                "it was consumed; headwater run --accept-new-topic starts it at its first record"
            )
        return chunk

    def ends(self) -> dict[Partition, int]:
        """The end of each input."""
        return self._directory.ends(self._inputs)

    def commit(
        self, records: Sequence[Outgoing], journal: Outgoing, positions: Mapping[Partition, int]
    ) -> int:
        """Write records, then the journal record, then the offsets; the journal record's offset."""
        self.confirm(positions)
        self._directory.write(records)
        lower = {p: at for p, at in positions.items() if at < self._committed.get(p, at)}
        if lower:  # a restarted input: offsets must never be ahead of the journal
            self._store(lower)
        ((_, offset),) = self._directory.write([journal])
        self._store(positions)
        return offset

    def _store(self, positions: Mapping[Partition, int]) -> None:
        self._committed |= positions
        rows = [(topic, number, at) for (topic, number), at in self._committed.items()]
        fresh = self._offsets.with_suffix(".new")
        with self._directory.faults():
            fresh.write_bytes(_encode_offsets(rows))
            os.replace(fresh, self._offsets)

    def confirm(self, positions: Mapping[Partition, int]) -> None:
        """Raise FencedError if the lock is lost: it was closed, or its file removed."""
        if self.closed or not self._is_ours(self._file):
            raise FencedError(
                f"expected to own shard {self._shard} of {self._name!r}, its lock {self._lock} was "
                "given back or removed: nothing was written, stop this one"
            )

    def overtaken(self) -> bool:
        """False: the next owner that takes the lock finds out."""
        return False

    def committed(self) -> dict[Partition, int]:
        """The committed offsets of the inputs that have one."""
        return {part: self._committed[part] for part in self._inputs if part in self._committed}

    def close(self) -> None:
        """Give the lock back."""
        if not self.closed:
            file, self._file = self._file, -1
            os.close(file)
