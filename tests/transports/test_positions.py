"""The file in which a reader of a topic keeps its positions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from consumers.base.errors import ConfigError, TransportError
from consumers.base.records import Outgoing, Partition
from consumers.transports import open_log
from consumers.transports.positions import Positions
from consumers.transports.protocol import Log
from tests.topics import remake, widen


@pytest.fixture
def url(tmp_path: Path) -> str:
    """An embedded log."""
    return f"sqlite:{tmp_path / 'log.db'}"


@pytest.fixture
def log(url: str) -> Iterator[Log]:
    """The log, with three records in each of two partitions."""
    opened = open_log(url)
    opened.create_topic("t", 2)
    opened.append([Outgoing("t", None, b"%d" % n, partition=n % 2) for n in range(6)])
    yield opened
    opened.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file, which does not exist yet."""
    return tmp_path / "t.pos"


def opened(path: Path, log: Log, url: str, *, from_beginning: bool = True) -> Positions:
    """The positions in topic t."""
    return Positions.of_topic(path, log, url, "t", from_beginning=from_beginning)


@pytest.mark.parametrize(("from_beginning", "first"), [(True, 0), (False, 3)])
def test_first_start_writes_where_it_starts(path, log, url, from_beginning, first) -> None:
    """So that a reader that starts at the end loses nothing if it dies before its first record."""
    opened(path, log, url, from_beginning=from_beginning)

    again = opened(path, log, url, from_beginning=not from_beginning)
    assert again.next == {Partition("t", 0): first, Partition("t", 1): first}


def test_stored_positions_are_those_after_the_records(path, log, url) -> None:
    """What was only advanced is read again."""
    positions = opened(path, log, url)
    positions.advance(1, 1)
    positions.store()
    positions.advance(1, 2)

    assert opened(path, log, url).next == {Partition("t", 0): 0, Partition("t", 1): 2}
    assert [found.name for found in path.parent.glob("*.new")] == []


def test_positions_that_did_not_change_are_not_written(path, log, url) -> None:
    """A reader stores at each pause, and a pause without records costs no write."""
    positions = opened(path, log, url)
    path.unlink()
    positions.store()
    assert not path.exists()

    with pytest.raises(ConfigError, match=r"cannot be read \(No such file or directory\)"):
        Positions.read(path)


def test_busy_reader_stores_after_a_second(path, log, url) -> None:
    """Only if a position has changed."""
    now = 100.0
    first = opened(path, log, url)
    positions = Positions(path, first._stored, lambda: now)
    positions.advance(0, 0)
    before = positions.due
    now += 1.0
    due = positions.due
    positions.store()

    assert (before, due, positions.due) == (False, True, False)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"kind": "x"}', b"\xff\x00", b"[" * 100_000, b'{"next": {"0": 1}}']
)
def test_damaged_file_is_refused(path, log, url, content) -> None:
    """It is not replaced either: perhaps it is something else."""
    path.write_bytes(content)

    with pytest.raises(ConfigError, match="expected positions that headwater wrote"):
        opened(path, log, url)
    assert path.read_bytes() == content


def test_truncated_and_negative_positions_are_refused(path, log, url) -> None:
    """At every length; the file is one line of JSON."""
    opened(path, log, url)
    whole = path.read_bytes().rstrip()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ConfigError, match="damaged"):
            Positions.read(path)
    path.write_bytes(whole.replace(b'"0":0', b'"0":-1'))
    with pytest.raises(ConfigError, match="damaged"):
        Positions.read(path)


def test_file_of_another_topic_or_log_is_refused(path, log, url, tmp_path) -> None:
    """An offset of another topic would skip records silently."""
    log.create_topic("u", 1)
    Positions.of_topic(path, log, url, "u", from_beginning=True)
    with pytest.raises(
        ConfigError, match=r"expected positions of 't' in sqlite:.*got those of 'u'"
    ):
        opened(path, log, url)

    text = json.loads(path.read_text())
    path.write_text(json.dumps({**text, "topic": "t", "transport": "sqlite:/other.db"}))
    with pytest.raises(ConfigError, match=r"in sqlite:/other\.db; delete it"):
        opened(path, log, url)


def test_topic_that_was_created_again_is_refused(path, log, url) -> None:
    """By its id: it may have as many records as before."""
    opened(path, log, url)
    remake(log, "t", 2)

    with pytest.raises(ConfigError, match="created again after these positions"):
        opened(path, log, url)


def test_positions_outside_of_the_topic_are_refused(path, log, url) -> None:
    """Records are missing, which the user must know."""
    positions = opened(path, log, url)
    positions.advance(0, 7)
    positions.store()

    with pytest.raises(ConfigError, match=r"from 0 to 3, which t\[0\] retains, got 8"):
        opened(path, log, url)


def test_added_partition_is_read_from_its_beginning(path, log, url) -> None:
    """All its records are newer than the file."""
    opened(path, log, url, from_beginning=False)
    widen(log, "t", 3)

    assert opened(path, log, url).next[Partition("t", 2)] == 0


def test_file_that_cannot_be_written_is_one_line(tmp_path, log, url) -> None:
    """No directory."""
    with pytest.raises(TransportError, match=r"positions cannot be written \(No such file"):
        opened(tmp_path / "none" / "t.pos", log, url)


def test_relative_and_absolute_paths_of_a_log_are_the_same(path, log, url, monkeypatch) -> None:
    """A pipeline may start in another directory."""
    opened(path, log, url)
    monkeypatch.chdir(path.parent)

    assert opened(path, log, "sqlite:log.db").next[Partition("t", 0)] == 0
