"""JSON lines in a directory: what other programs may write, and what a crash leaves behind."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.base.errors import ConfigError, FencedError, InputChangedError, TransportError
from consumers.base.records import Outgoing, Partition
from consumers.config import parse
from consumers.config.propose import ModelChoice, Source, toml
from consumers.config.sample import InferredField
from consumers.transports.jsonl.lines import Row, decode, encode
from consumers.transports.jsonl.log import JsonLinesLog, PartitionFile

FEED = Partition("feed", 0)
CONFIG = """
name = "svc"
input = {transport = "jsonl:log", observations = "feed"}
"""


@pytest.fixture
def log(tmp_path: Path) -> JsonLinesLog:
    """A log with a topic."""
    made = JsonLinesLog(str(tmp_path / "log"))
    made.create_topic("feed", 1)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of its partition."""
    return tmp_path / "log" / "feed" / "0.jsonl"


def values(log: JsonLinesLog, start: int = 0) -> list[bytes | None]:
    """Of the partition, from an offset on."""
    chunks = log.read({FEED: start}, log.end_offsets([FEED]))
    return [value for chunk in chunks for value in chunk.values]


cells = st.none() | st.binary(max_size=20) | st.text(max_size=10).map(str.encode)


@given(
    st.integers(-(2**62), 2**62),
    cells,
    cells,
    st.lists(st.tuples(st.text(max_size=3), st.binary())),
)
def test_a_record_is_one_line_and_comes_back(timestamp, key, value, headers) -> None:
    """Any bytes, headers too."""
    row = Row(timestamp, key, value, tuple(headers))
    line = encode(7, row)

    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert json.loads(line)["offset"] == 7
    assert decode(line) == row


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (b'{"id": 1, "x": 2}', Row(0, None, b'{"id": 1, "x": 2}')),
        (b'{"value": {"x": 2}}', Row(0, None, b'{"x": 2}')),
        (b'{"value": "plain"}', Row(0, None, b"plain")),
        (b'{"value": null, "key": "k"}', Row(0, b"k", None)),
        (b'{"timestamp": 5, "key": "k", "value": "v"}\r', Row(5, b"k", b"v")),
        (b'{"key": "/w==", "value": "AA==", "base64": true}', Row(0, b"\xff", b"\x00")),
        # Values alone, which only look like records.
        (b'{"timestamp": 5, "value": 3.5}', Row(0, None, b'{"timestamp": 5, "value": 3.5}')),
        (b'{"value": "v", "x": 1}', Row(0, None, b'{"value": "v", "x": 1}')),
        (b'{"value": "!", "base64": true}', Row(0, None, b'{"value": "!", "base64": true}')),
        (b'{"value": "\\ud800"}', Row(0, None, b'{"value": "\\ud800"}')),
        (b"not JSON \xff", Row(0, None, b"not JSON \xff")),
        (b"", Row(0, None, b"")),
    ],
)
def test_line_of_another_program_is_a_record_or_a_value(line: bytes, row: Row) -> None:
    """It never stops a reader; the codec decides what a value is worth."""
    assert decode(line + b"\n") == row


@pytest.mark.parametrize("depth", [400, 600, 100_000])
def test_deep_value_is_the_same_wherever_it_is_read(depth: int) -> None:
    """A replay reads lines at another depth of the stack than the loop did."""
    line = b'{"value": {"x": ' + b"[" * depth + b"]" * depth + b"}}\n"

    def deeper(more: int) -> Row:
        return deeper(more - 1) if more else decode(line)

    assert deeper(0) == deeper(300)
    assert (deeper(0).value == line[10:-2]) is (depth < 500)


def test_lines_appended_by_echo_are_read(log: JsonLinesLog, file: Path) -> None:
    """A shell appends a line between two records of the log."""
    log.append([Outgoing("feed", b"k", b"ours")])
    subprocess.run(["sh", "-c", f"echo '{{\"x\": 1}}' >> {file}"], check=True)
    log.append([Outgoing("feed", b"k", b"ours again")])

    assert values(log) == [b"ours", b'{"x": 1}', b"ours again"]
    assert [json.loads(line).get("offset") for line in file.read_text().splitlines()] == [
        0,
        None,
        2,
    ]


def test_topic_made_by_hand_is_a_topic(log: JsonLinesLog, tmp_path: Path) -> None:
    """A directory with 0.jsonl is a topic, if its name is a valid name of a topic."""
    for path in ("mine/0.jsonl", "mine/1.jsonl", "gap/1.jsonl", "@owners/0.jsonl", "a b/0.jsonl"):
        (tmp_path / "log" / path).parent.mkdir(exist_ok=True)
        (tmp_path / "log" / path).touch()

    assert log.topics() == {"feed": 1, "mine": 2}
    assert log.describe(["mine"])["mine"].id == ""


@pytest.mark.parametrize("reader", ["open before", "opened after"])
def test_torn_last_line_is_not_read_until_it_is_whole(log, file: Path, tmp_path, reader) -> None:
    """The line is written byte by byte: an incomplete line is never a record."""
    log.append([Outgoing("feed", None, b"first")])
    line = encode(1, Row(5, b"k", b"second"))
    for byte in range(len(line)):
        with open(file, "ab") as opened:
            opened.write(line[byte : byte + 1])
        asked = log if reader == "open before" else JsonLinesLog(str(tmp_path / "log"))
        whole = byte == len(line) - 1

        assert values(asked) == ([b"first", b"second"] if whole else [b"first"])


def test_write_after_a_crash_removes_the_torn_line(log: JsonLinesLog, file: Path) -> None:
    """Wherever the crash cut it: it was never confirmed, so nothing is lost."""
    log.append([Outgoing("feed", None, b"first")])
    whole, line = file.read_bytes(), encode(1, Row(5, b"k", b"torn"))
    for length in range(1, len(line)):
        file.write_bytes(whole + line[:length])
        log.append([Outgoing("feed", None, b"next")])

        assert values(log) == [b"first", b"next"]


def test_write_after_a_loss_of_power_removes_zeros(log: JsonLinesLog, file: Path) -> None:
    """Some file systems know the new length of a file before its bytes: the rest is zeros."""
    log.append([Outgoing("feed", None, b"first")])
    whole, line = file.read_bytes(), encode(1, Row(5, b"k", b"torn"))
    for length in range(len(line)):
        file.write_bytes(whole + line[:length] + bytes(len(line) - length))
        log.append([Outgoing("feed", None, b"next")])

        assert values(log) == [b"first", b"next"]


@pytest.mark.parametrize("room", [0, 1, 30, 90])
def test_write_that_fails_leaves_no_part_of_a_line(log, file: Path, monkeypatch, room) -> None:
    """Another program's next line is a record of its own, also after the disk was full."""
    log.append([Outgoing("feed", None, b"first")])
    real = os.write

    def write(number: int, content: memoryview) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = real(number, content[:room])
        room -= done
        return done

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write)
        with pytest.raises(TransportError, match="make room on the disk"):
            log.append([Outgoing("feed", None, b"a" * 50), Outgoing("feed", None, b"b" * 50)])
    with file.open("ab") as other:
        other.write(b'{"x": 1}\n')

    assert values(log) == [b"first", b'{"x": 1}']


def test_files_that_are_not_text_are_no_crash(log: JsonLinesLog, tmp_path: Path) -> None:
    """The id of a topic, and the offsets of a service."""
    (tmp_path / "log" / "feed" / "id").write_bytes(b"\xff\xfe")
    owners = tmp_path / "log" / "@owners"
    owners.mkdir(exist_ok=True)
    (owners / "svc.0.offsets.json").write_bytes(b'[["\xff\xfe",0,1]]')

    assert log.describe(["feed"])["feed"].partitions == 1
    assert log.committed("svc", [FEED]) == {}


def test_line_of_another_program_without_a_newline_is_kept(log: JsonLinesLog, file: Path) -> None:
    """The next write completes it."""
    file.write_bytes(b'{"x": 1}')
    assert values(log) == []
    log.append([Outgoing("feed", None, b"next")])

    assert values(log) == [b'{"x": 1}', b"next"]
    assert json.loads(file.read_bytes().splitlines()[1])["offset"] == 1


def test_every_offset_of_a_long_file_is_found(tmp_path: Path) -> None:
    """By the positions that are kept, in any order, however the file grew."""
    path = tmp_path / "0.jsonl"
    path.touch()
    kept = PartitionFile(path)
    for size in (1, 999, 1, 1500, 2499):
        first = kept.end()
        kept.write([Row(5, None, b"%d" % n) for n in range(first, first + size)])
    fresh = PartitionFile(path)
    for of, start in product((kept, fresh), (4999, 0, 1000, 999, 1001, 3210, 2000, 4998)):
        (row,) = of.rows(start, 1, 10**6)
        assert row.value == b"%d" % start
    assert [row.value for row in fresh.rows(1998, 4, 10**6)] == [b"1998", b"1999", b"2000", b"2001"]
    assert fresh.rows(5000, 1, 10**6) == []


def test_second_owner_is_refused_in_one_line(log: JsonLinesLog, tmp_path: Path) -> None:
    """It names the process that owns the shard; after that one has closed it is let in."""
    first = log.owner("svc", 0, [FEED])
    other = JsonLinesLog(str(tmp_path / "log"))
    with pytest.raises(FencedError, match=rf"process {os.getpid()} owns it") as caught:
        other.owner("svc", 0, [FEED])
    first.close()
    second = other.owner("svc", 0, [FEED])

    assert "\n" not in str(caught.value)
    second.confirm({})
    with pytest.raises(FencedError):
        first.confirm({})
    second.close()


def test_owner_whose_lock_was_removed_commits_nothing(log: JsonLinesLog, tmp_path: Path) -> None:
    """Another process could own the shard by a lock of the same name."""
    owner = log.owner("svc", 0, [FEED])
    (tmp_path / "log" / "@owners" / "svc.0.lock").unlink()

    with pytest.raises(FencedError):
        owner.commit([], Outgoing("feed", None, b"journal"), {})
    assert values(log) == []


def test_killed_process_loses_its_lock(log: JsonLinesLog, tmp_path: Path) -> None:
    """By kill -9, so that a restart needs nobody to clean up."""
    program = (
        "import sys, time\n"
        "from consumers.base.records import Partition\n"
        "from consumers.transports import open_log\n"
        "owner = open_log(sys.argv[1]).owner('svc', 0, [Partition('feed', 0)])\n"
        "print('owner', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, f"jsonl:{tmp_path / 'log'}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"owner\n"
        with pytest.raises(FencedError, match=rf"process {process.pid} owns it"):
            log.owner("svc", 0, [FEED])
        process.kill()
        process.wait()

    log.owner("svc", 0, [FEED]).close()


def test_commit_writes_the_journal_after_the_outputs(log: JsonLinesLog, monkeypatch) -> None:
    """A failure in between leaves outputs without a journal record, never the other way round."""
    log.create_topic("journal", 1)
    owner = log.owner("svc", 0, [FEED])
    write = PartitionFile.write

    def failing(self: PartitionFile, rows):
        if self.path.parent.name == "journal":
            raise OSError(28, "No space left on device", str(self.path))
        return write(self, rows)

    monkeypatch.setattr(PartitionFile, "write", failing)
    with pytest.raises(TransportError, match="make room"):
        owner.commit([Outgoing("feed", None, b"out")], Outgoing("journal", None, b"j"), {FEED: 1})

    assert values(log) == [b"out"]
    assert log.end_offsets([Partition("journal", 0)]) == {Partition("journal", 0): 0}
    assert log.committed("svc", [FEED]) == {}
    owner.close()


def test_configuration_refuses_exactly_once_and_says_what_to_set() -> None:
    """It is the default, so the guarantee is never weakened without a word."""
    with pytest.raises(ConfigError, match=r'set .commit. guarantee = "at_least_once"') as caught:
        parse(CONFIG)
    assert "\n" not in str(caught.value)

    config = parse(CONFIG + 'commit = {guarantee = "at_least_once"}')
    assert config.input.transport == "jsonl:log"


def test_proposed_configuration_has_the_guarantee_that_can_be_kept() -> None:
    """What `headwater init --transport jsonl:DIR` writes is accepted."""
    source = Source("svc", "jsonl:log", "feed", None, None, "3 records")
    text = toml(source, [InferredField("x", "numeric", "1 to 3")], ModelChoice("GaussianNB", "n"))

    assert parse(text).commit.guarantee == "at_least_once"


@pytest.mark.parametrize("path", ["missing/log", "file"])
def test_directory_that_cannot_be_is_named(tmp_path: Path, path: str) -> None:
    """In one line."""
    (tmp_path / "file").touch()
    with pytest.raises(TransportError) as caught:
        JsonLinesLog(str(tmp_path / path))

    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("topic", ["..", "a/b", "@owners", "", "x" * 250])
def test_topic_is_never_a_path(log: JsonLinesLog, topic: str) -> None:
    """It would write outside of the directory."""
    with pytest.raises(TransportError):
        log.create_topic(topic, 1)
    with pytest.raises(TransportError):
        log.append([Outgoing(topic, None, b"x")])


def lines(count: int) -> str:
    """Observations of another file."""
    return "".join(f'{{"id": "n{i}"}}\n' for i in range(count))


def replaced(file: Path, count: int) -> None:
    """Another file in its place, as a rotation of logs leaves it."""
    file.with_name("fresh").write_text(lines(count))
    file.with_name("fresh").replace(file)


def cut_short(file: Path, count: int) -> None:
    """The same file with less in it."""
    with open(file, "r+") as there:
        there.truncate(0)
        there.write(lines(count))


@pytest.mark.parametrize("change", [replaced, cut_short])
def test_file_that_is_replaced_or_cut_counts_as_an_election(log, file, change) -> None:
    """Appended lines do not, and neither does an incomplete line that a write removes."""
    log.append([Outgoing("feed", b"", b"x" * 100)] * 5)
    other = JsonLinesLog(str(file.parents[1]))
    assert other.describe(["feed"])["feed"].epochs == (0,)
    assert other.end_offsets([FEED]) == {FEED: 5}
    log.append([Outgoing("feed", b"", b"{}")])
    with open(file, "a") as there:
        there.write('{"offset":')
    assert other.describe(["feed"])["feed"].epochs == (0,)
    log.append([Outgoing("feed", b"", b"{}")])
    assert other.describe(["feed"])["feed"].epochs == (0,)
    change(file, 3)

    assert other.describe(["feed"])["feed"].epochs == (1,)
    assert other.end_offsets([FEED]) == {FEED: 3}
    assert other.describe(["feed"])["feed"].epochs == (1,)


@pytest.mark.parametrize("change", [replaced, cut_short])
@pytest.mark.parametrize("before", [1, 2500])
def test_owner_never_reads_on_in_another_file(log, file, change, before) -> None:
    """It would pass over the lines before its position; other readers follow the new file."""
    file.write_text(lines(before))
    owner = log.owner("svc", 0, [FEED])
    owner.seek({FEED: 0})
    while sum(map(len, owner.poll(max_records=1000, timeout=0.01))):
        pass
    assert log.end_offsets([FEED]) == {FEED: before}
    change(file, 4000)

    file.write_text(file.read_text().replace("n", "m"))
    with pytest.raises(InputChangedError, match=f"other records before offset {before}"):
        owner.poll(max_records=10, timeout=0.01)
    [*chunks] = log.read({FEED: before}, {FEED: 4000})
    assert sum(map(len, chunks)) == 4000 - before


@pytest.mark.parametrize("change", [replaced, cut_short])
def test_owner_reads_on_in_a_copy_with_more_lines(log, file, change) -> None:
    """An editor saves a file so."""
    file.write_text(lines(5))
    owner = log.owner("svc", 0, [FEED])
    owner.seek({FEED: 0})
    assert [len(chunk) for chunk in owner.poll(max_records=10, timeout=0.01)] == [5]
    change(file, 8)

    assert [chunk.offsets for chunk in owner.poll(max_records=10, timeout=0.01)] == [[5, 6, 7]]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_partition_that_another_shard_once_owned_has_its_newest_offset(log, order) -> None:
    """After --new-journal with other `[scale] shards`, the old file of offsets is still there."""
    for at, shard in enumerate(order, 1):
        owner = log.owner("svc", shard, [FEED])
        owner.commit([], Outgoing("feed", b"", b"{}"), {FEED: 10 * at})
        owner.close()

    assert log.committed("svc", [FEED]) == {FEED: 20}
