"""`headwater produce TOPIC -`: records of a pipe are written when they arrive, whatever ends it."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.base.errors import ConfigError, TransportError
from consumers.base.records import Outgoing, Partition, Record
from consumers.cli import main
from consumers.commands.envelopes import enveloped
from consumers.commands.produce_pipe import unwrapped
from consumers.files.formats.jsonl import OTHER
from consumers.files.pipe import Pipe
from consumers.transports import open_log
from consumers.transports.memory.log import MemoryLog
from consumers.transports.positions import Positions

Said = pytest.CaptureFixture[str]
URL = "memory:produced-pipe"


class Feeder:
    """Writes a piece into the pipe whenever the log has got what was written before."""

    def __init__(self, pieces: Sequence[bytes], writing: int) -> None:
        self._pieces = iter(pieces)
        self._writing = writing
        self.appended: list[list[Outgoing]] = []
        self.during: Callable[[], None] = lambda: None
        self.feed()

    def feed(self) -> None:
        """Write the next piece, or close the pipe after the last one."""
        piece = next(self._pieces, None)
        if piece is None:
            self.close()
        else:
            os.write(self._writing, piece)

    def close(self) -> None:
        """End the pipe."""
        if self._writing >= 0:
            os.close(self._writing)
        self._writing = -1

    def append(self, records: Sequence[Outgoing]) -> list[tuple[int, int]]:
        """In place of the append of the log."""
        self.during()
        self.appended.append(list(records))
        self.feed()
        return [(0, 0) for _ in records]

    @property
    def values(self) -> list[Any]:
        """What was written."""
        return [json.loads(r.value or b"") for chunk in self.appended for r in chunk]


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Feeder]]:
    """Have standard input give these pieces, each when the one before was written."""
    reading, writing = os.pipe()
    feeders: list[Feeder] = []

    def feed(*pieces: bytes) -> Feeder:
        feeder = Feeder(pieces, writing)
        feeders.append(feeder)
        monkeypatch.setattr("consumers.commands.source.Pipe", lambda: Pipe(reading))
        monkeypatch.setattr(MemoryLog, "append", lambda _, records: feeder.append(records))
        return feeder

    yield feed
    for feeder in feeders:
        feeder.close()
    os.close(reading)


def produce(*options: str) -> int:
    """The command; its exit code."""
    return main(["produce", "t", "-", "--transport", URL, *options])


def test_records_are_written_when_they_arrive(fed, capsys: Said) -> None:
    """The next line comes only after the last one was acknowledged; a line may come in parts."""
    feeder = fed(b'{"id":1}\n{"id', b'":2}\n', b'{"id":3}\n')

    assert produce() == 0
    assert feeder.values == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert [len(chunk) for chunk in feeder.appended] == [1, 1, 1]
    assert capsys.readouterr().out.startswith("3 observations to t in ")


@pytest.mark.parametrize("envelope", [False, True])
def test_fields_of_a_pipe_that_the_service_does_not_use_are_said(
    fed, tmp_path: Path, capsys: Said, envelope: bool
) -> None:
    """At its end, as of a file."""
    config = tmp_path / "c.toml"
    config.write_text(
        f'name = "n"\n[input]\ntransport = "{URL}"\nobservations = "t"\n'
        '[features]\namount = "numeric"\n[model]\ntype = "GaussianNB"\n'
    )
    record = {"id": 1, "amuont": 7}
    piece = lines_of(0, value=record) if envelope else json.dumps(record).encode() + b"\n"
    fed(piece, piece)
    options = ["--config", str(config), *(["--envelope"] if envelope else [])]

    assert main(["produce", "t", "-", *options]) == 0

    of = "of the first 2 observations: "
    assert capsys.readouterr().out.splitlines()[1:] == [
        f"{of}no value of 'amount'; they have 'amuont'",
        f"{of}not declared, so not used: 'amuont'",
    ]


def test_labels_that_are_change_events_are_looked_at_as_their_rows(
    fed, tmp_path: Path, capsys: Said
) -> None:
    """Not as documents with `op` and `after`, which nobody declares."""
    config = tmp_path / "c.toml"
    config.write_text(
        f'name = "n"\n[input]\ntransport = "{URL}"\nobservations = "o"\nlabels = "t"\n'
        'changes = ["c"]\n[features]\nx = "numeric"\n[model]\ntype = "GaussianNB"\n'
    )
    row = {"id": 1, "label": "a", "weihgt": 3}
    fed(lines_of(0, value={"op": "c", "after": row}))

    assert main(["produce", "t", "-", "--config", str(config), "--envelope"]) == 0

    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "of the first label: in label records, not used: 'weihgt'"


def test_pipe_can_be_read_once() -> None:
    """What was only looked at comes again; what was passed on is gone."""
    reading, writing = os.pipe()
    pipe = Pipe(reading)
    os.write(writing, b"1\n")
    pipe.begin()
    os.write(writing, b"2\n")
    for _ in range(2):
        assert pipe.file.open().read(2) == b"1\n"
    with pipe.file.open() as file:
        os.close(writing)
        assert file.read() == b"1\n2\n"

    with pytest.raises(ConfigError, match="can be read only once; write it to a file"):
        pipe.file.open()
    os.close(reading)


def test_last_line_needs_no_end(fed) -> None:
    """As from printf."""
    feeder = fed(b'{"id":1}\n', b'{"id":2}\n{"id":3}')

    assert produce("--format", "json") == 0
    assert feeder.values == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_rows_of_a_csv_are_written_when_they_arrive(fed, capsys: Said) -> None:
    """The rows that came first decide the kinds; the separator is reported."""
    feeder = fed(b"id;zip;x\na;01234;1,5\n", b"b;99999;2\nc;1;y\n")

    assert produce("--format", "csv") == 0
    assert feeder.values == [
        {"id": "a", "zip": "01234", "x": 1.5},
        {"id": "b", "zip": "99999", "x": 2},
        {"id": "c", "zip": "1", "x": "y"},
    ]
    assert 'standard input: read separated by ";"; --sep overrides it' in capsys.readouterr().err


def test_separator_that_excel_names_is_no_row_of_a_pipe(fed) -> None:
    """The kinds are still decided by the rows that came first."""
    feeder = fed(b"sep=;\nid;x\na;1\n", b"b;c\n")

    assert produce("--format", "csv") == 0
    assert feeder.values == [{"id": "a", "x": 1}, {"id": "b", "x": "c"}]


def test_timestamps_are_the_present_and_never_earlier(fed, monkeypatch) -> None:
    """The order of the merge is that of arrival, also if the clock is set back."""
    times = iter([2_000, 1_000, 3_000])
    monkeypatch.setattr("time.time_ns", lambda: next(times, 3_000) * 1_000_000)
    feeder = fed(b'{"id":1}\n{"id":2}\n{"id":3}\n')

    assert produce() == 0
    assert [r.timestamp for r in feeder.appended[0]] == [2_000, 2_000, 3_000]


def test_time_field_of_a_pipe_needs_no_order(fed) -> None:
    """Producers are not synchronized either."""
    feeder = fed(b'{"id":1,"at":1709294460}\n{"id":2,"at":1709294400}\n')

    assert produce("--time-field", "at") == 0
    assert [r.timestamp for r in feeder.appended[0]] == [1709294460000, 1709294400000]


def test_labels_inside_are_written_to_their_topic(fed) -> None:
    """Each right after its observation."""
    feeder = fed(b'{"id":1,"y":"a"}\n{"id":2}\n')

    assert produce("--label-topic", "l", "--label", "y") == 0
    assert [(r.topic, r.key) for r in feeder.appended[0]] == [("t", b"1"), ("l", b"1"), ("t", b"2")]


def test_records_before_a_bad_line_are_acknowledged(fed, capsys: Said) -> None:
    """One line names the bad one; the count is true."""
    feeder = fed(b'{"id":1}\n{"id":2}\n{"id"\n{"id":4}\n', b"")

    assert produce() == 2
    assert feeder.values == [{"id": 1}, {"id": 2}]
    out, err = capsys.readouterr()
    assert out == "stopped: 2 observations to t\n"
    assert err.startswith("headwater: standard input: line 3 is not JSON")
    assert "--format" not in err


def test_other_format_in_a_pipe_gets_a_hint(fed, capsys: Said) -> None:
    """A pipe has no name that says that it is CSV."""
    fed(b"id;x\n1;2\n", b"")

    assert produce() == 2
    assert capsys.readouterr().err.endswith(OTHER + "\n")


@pytest.mark.parametrize("bad", [b"3\n", b'3,"x"y\n'])
def test_rows_before_a_bad_row_are_acknowledged(fed, capsys: Said, bad: bytes) -> None:
    """Also if it arrives with the first rows, which decide the kinds of the columns."""
    feeder = fed(b"id,x\n1,1\n2,2\n" + bad, b"")

    assert produce("--format", "csv") == 2
    assert feeder.values == [{"id": 1, "x": 1}, {"id": 2, "x": 2}]
    out, err = capsys.readouterr()
    assert out == "stopped: 2 observations to t\n"
    assert err.startswith("headwater: standard input: line 4")


@pytest.mark.parametrize(
    ("kind", "begin", "row"),
    [
        ("csv", "id,x\n", "%d,ä\n"),
        ("json", "[\n", '{"id":%d,"x":"ä"},\n'),
        ("jsonl", "", '{"id":%d,"x":"ä"}\n'),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_records_before_a_bad_byte_are_acknowledged(
    fed, capsys: Said, kind: str, begin: str, row: str, encoding: str
) -> None:
    """Also those that arrived together with it. The message has its place."""
    first = (begin + "".join(row % n for n in range(5))).encode(encoding)
    wrong = b"\x00\xd8\n\0" if encoding == "utf-16" else b"\xff\xff\xff\n"
    feeder = fed(first + wrong + b"7,7\n", b"")

    assert produce("--format", kind, "--encoding", encoding) == 2
    assert feeder.values == [{"id": n, "x": "ä"} for n in range(5)]
    out, err = capsys.readouterr()
    assert out == "stopped: 5 observations to t\n"
    assert re.search(rf"standard input: line {6 + bool(begin)}.* 0x\w\w is not UTF-", err)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_during_an_append_waits_for_the_acknowledgement(
    fed, capsys: Said, number: int, code: int
) -> None:
    """All that was read is acknowledged, and counted."""
    feeder = fed(b'{"id":1}\n{"id":2}\n', b'{"id":3}\n', b'{"id":4}\n')
    feeder.during = lambda: signal.raise_signal(number) if not feeder.appended else None

    assert produce() == code
    assert feeder.values == [{"id": 1}, {"id": 2}]
    assert capsys.readouterr().out == "stopped: 2 observations to t\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_the_wait_for_the_next_record(
    fed, capsys: Said, number: int, code: int
) -> None:
    """The pipe is open and quiet."""
    feeder = fed(b'{"id":1}\n', b"")
    timer = threading.Timer(0.05, os.kill, [os.getpid(), number])
    feeder.during = timer.start

    assert produce() == code
    assert capsys.readouterr().out == "stopped: 1 observation to t\n"
    timer.join()


def test_second_signal_ends_an_append(fed, capsys: Said) -> None:
    """A log that does not answer cannot hold the process."""
    feeder = fed(b'{"id":1}\n', b"")

    def impatient() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    feeder.during = impatient
    assert produce() == 130
    assert capsys.readouterr().out == "stopped: 0 observations to t\n"


@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_empty_pipe_is_no_error(fed, capsys: Said, kind: str) -> None:
    """A pipeline that is started again may have nothing to do."""
    fed()

    assert produce("--format", kind) == 0
    assert capsys.readouterr().out.startswith("0 observations to t in ")


def lines_of(*offsets: int, topic: str = "a", **more: object) -> bytes:
    """Lines of `tail --envelope`."""
    lines = [
        {"topic": topic, "partition": 0, "offset": n, "timestamp": 10 * n, "key": f"k{n}",
         "headers": [], "value": {"x": n}, **more}
        for n in offsets
    ]  # fmt: skip
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@pytest.fixture
def positions(tmp_path: Path) -> Path:
    """Positions at the beginning of topic a, which has 9 records."""
    log = open_log("memory:enveloped")
    log.create_topic("a", 1)
    path = tmp_path / "a.pos"
    Positions.of_topic(path, log, "memory:enveloped", "a", from_beginning=True)
    return path


def test_envelopes_keep_key_and_timestamp_and_advance_the_positions(fed, positions: Path) -> None:
    """An id in the record is the key, as everywhere."""
    feeder = fed(lines_of(0) + lines_of(1, value={"id": "own", "x": 1}), lines_of(4))

    assert produce("--envelope", "--resume", str(positions)) == 0
    written = [(r.key, r.timestamp) for chunk in feeder.appended for r in chunk]
    assert written == [(b"k0", 0), (b"own", 10), (b"k4", 40)]
    assert Positions.read(positions).next == {Partition("a", 0): 5}


values = st.one_of(
    st.none(),
    st.binary(max_size=12),
    st.sampled_from([b"null", b"NaN", b'{"x":NaN}', b"[1]", b'"a"', b"1e999", b"", b"[" * 5000]),
    st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3)).map(
        lambda x: json.dumps(x).encode()
    ),
)


@given(
    values,
    st.none() | st.binary(max_size=6) | st.text(max_size=4).map(str.encode),
    st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=5)), max_size=2),
)
def test_every_record_that_a_topic_can_hold_passes_as_it_was(value, key, headers) -> None:
    """Tombstones, other bytes than JSON or UTF-8, numbers that JSON has not, and headers."""
    record = Record("a", 0, 3, 17, key, value, tuple(headers))

    line = json.loads(enveloped(record))
    [(out, source)] = unwrapped([line], "b", "no id", None)

    assert (out.topic, out.key, out.timestamp, source) == ("b", key, 17, (0, 3))
    assert out.headers == tuple(headers)
    if isinstance(line["value"], dict):
        assert json.loads(out.value or b"") == json.loads(value or b"")
    else:
        assert out.value == value


def test_positions_do_not_advance_without_an_acknowledgement(
    fed, positions: Path, capsys: Said
) -> None:
    """The records after them are repeated by the next start."""
    feeder = fed(lines_of(0), lines_of(1), lines_of(2))

    def failing() -> None:
        if feeder.appended:
            raise TransportError("the broker does not answer")

    feeder.during = failing
    assert produce("--envelope", "--resume", str(positions)) == 1
    assert capsys.readouterr().out == "stopped: 1 observation to t\n"
    assert Positions.read(positions).next[Partition("a", 0)] <= 1


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (lines_of(0, topic="b"), "record 1 comes from 'b', but the positions"),
        (b'{"x": 1}\n', "record 1 is no line of `tail --envelope`"),
        (lines_of(0, value_base64="?"), "record 1 is no line of `tail --envelope` (damaged base64"),
        (lines_of(0, headers=[["a"]]), "record 1 is no line of `tail --envelope` (a header"),
    ],
)
def test_other_lines_than_envelopes_are_one_line(
    fed, positions: Path, capsys: Said, lines: bytes, words: str
) -> None:
    """And they advance nothing."""
    fed(lines, b"")

    assert produce("--envelope", "--resume", str(positions)) == 2
    assert words in capsys.readouterr().err
    assert Positions.read(positions).next == {Partition("a", 0): 0}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--rate", "5"], "--rate and --delay are for files"),
        (["--delay", "5", "--label-topic", "l", "--label", "y"], "are for files"),
        (["--resume", "x"], "--resume needs --envelope"),
        (["--envelope", "--time-field", "at"], "--envelope keeps records as they are"),
        (["--format", "parquet"], "Parquet cannot be read from a pipe"),
        (["--envelope", "--resume", "no-such-file"], "positions cannot be read"),
    ],
)
def test_options_that_a_pipe_does_not_have_are_one_line(
    fed, capsys: Said, options: list[str], words: str
) -> None:
    """Nothing is read."""
    feeder = fed(b'{"id":1}\n', b"")

    assert produce(*options) == 2
    assert words in capsys.readouterr().err
    assert feeder.appended == []


def test_closed_stdin_is_one_line(monkeypatch, capsys: Said) -> None:
    """Its number may be that of the log, which would be read as records."""
    monkeypatch.setattr("sys.stdin", None)

    assert produce() == 2
    assert "expected records on stdin, but it is closed" in capsys.readouterr().err


def test_options_of_a_pipe_are_refused_for_a_file(tmp_path: Path, capsys: Said) -> None:
    """They would have no effect."""
    (tmp_path / "a.jsonl").write_text("{}\n")
    command = ["produce", "t", str(tmp_path / "a.jsonl"), "--transport", URL]

    assert main([*command, "--envelope"]) == 2
    assert "--envelope and --resume are for stdin" in capsys.readouterr().err


def test_records_without_an_id_are_numbered_after_those_of_the_topic(capsys, monkeypatch) -> None:
    """As those of a file; here in a real log."""
    url = "memory:numbered-pipe"
    log = open_log(url)
    log.create_topic("t", 1)
    log.append([Outgoing("t", b"0", b"{}")])
    reading, writing = os.pipe()
    os.write(writing, b'{"x":1}\n{"x":2}\n')
    os.close(writing)
    monkeypatch.setattr("consumers.commands.source.Pipe", lambda: Pipe(reading))

    assert main(["produce", "t", "-", "--transport", url]) == 0
    os.close(reading)
    found: list[Record] = []
    for part in log.read({Partition("t", 0): 1}, {Partition("t", 0): 3}):
        found += [Record("t", 0, 0, 0, key, None) for key in part.keys]
    assert [record.key for record in found] == [b"1", b"2"]
    assert "ids 1 to 2 assigned" in capsys.readouterr().out
