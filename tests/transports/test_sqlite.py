"""What only the file can do or get wrong; the common promises are in tests/contract."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
from itertools import islice
from pathlib import Path

import pytest

from consumers.base.errors import TransportError
from consumers.base.records import Outgoing, Partition
from consumers.transports import open_log
from consumers.transports.sqlite.log import SqliteLog
from tests.waiting import PATIENCE

FEED = Partition("feed", 0)

WRITER = """
import sys
from consumers.base.records import Outgoing
from consumers.transports import open_log
log = open_log(sys.argv[1])
log.create_topic("feed", 1)
for number in range(20):
    log.append([Outgoing("feed", None, sys.argv[2].encode()) for _ in range(5)])
log.close()
"""

OWNER = """
import sys
from consumers.base.records import Partition
from consumers.transports import open_log
log = open_log(sys.argv[1])
owner = log.owner("svc", 0, [Partition("feed", 0)])
print(repr(owner.fenced), flush=True)
sys.stdin.readline()
log.close()
"""

FOLLOWER = """
import sys
from consumers.base.records import Partition
from consumers.transports import open_log
for record in open_log(sys.argv[1]).follow({Partition("feed", 0): 0}, poll_seconds=0.05):
    print(record.value, flush=True)
"""


@pytest.fixture
def path(tmp_path):
    """Where the log is."""
    return str(tmp_path / "log.db")


@pytest.fixture
def log(path):
    """An open log with a topic of one partition and one of three; its clock stands still."""
    log = SqliteLog(path, clock=lambda: 1234.5678, busy_seconds=0.05)
    log.create_topic("feed", 1)
    log.create_topic("wide", 3)
    yield log
    log.close()


def values(log, partition=FEED):
    """Everything of a partition."""
    chunks = log.read({partition: 0}, log.end_offsets([partition]))
    return [value for chunk in chunks for value in chunk.values]


def test_offsets_are_dense_from_zero_in_every_partition(log):
    """Neighbouring partitions do not touch."""
    partitions = [Partition("wide", number) for number in range(3)]
    for _ in range(2):
        log.append([Outgoing("wide", None, b"x", partition=0)] * 3)
        log.append([Outgoing("wide", None, b"y", partition=2)])
    chunks = list(log.read(dict.fromkeys(partitions, 0), log.end_offsets(partitions)))

    assert {chunk.partition.number: chunk.offsets for chunk in chunks} == {
        0: [0, 1, 2, 3, 4, 5],
        2: [0, 1],
    }
    assert log.end_offsets(partitions)[partitions[1]] == 0


def test_records_without_key_take_turns(log):
    """Over appends too."""
    for _ in range(3):
        log.append([Outgoing("wide", None, b"x")] * 2)

    ends = log.end_offsets([Partition("wide", number) for number in range(3)])

    assert list(ends.values()) == [2, 2, 2]


def test_record_without_timestamp_gets_the_clock(log):
    """In whole milliseconds."""
    log.append([Outgoing("feed", None, b"x")])

    (chunk,) = log.read({FEED: 0}, {FEED: 1})

    assert chunk.timestamps == [1_234_567]


def test_everything_is_there_after_reopening(log, path):
    """Topics, records, headers and positions are in the file."""
    owner = log.owner("app", 0, [FEED])
    log.create_topic("journal", 1)
    record = Outgoing("feed", b"k", b"v", 7, (("h", b"\xff"),))
    owner.commit([record], Outgoing("journal", None, b"e"), {FEED: 3})
    log.close()

    again = SqliteLog(path)
    (found,) = islice(again.follow({FEED: 0}, poll_seconds=0.01), 1)
    committed = again.owner("app", 0, [FEED]).committed()
    topics = again.topics()
    again.close()

    assert found == ("feed", 0, 0, 7, b"k", b"v", (("h", b"\xff"),))
    assert committed == {FEED: 3}
    assert topics == {"feed": 1, "journal": 1, "wide": 3}


def test_append_with_an_unknown_topic_writes_nothing(log):
    """Not even the records before it."""
    with pytest.raises(TransportError, match=r"'nowhere'.*headwater check CONFIG --create"):
        log.append([Outgoing("feed", None, b"x"), Outgoing("nowhere", None, b"y")])

    assert values(log) == []


@pytest.mark.parametrize("number", [-1, 3])
def test_unknown_partition_is_refused(log, number):
    """To write and to read."""
    partition = Partition("wide", number)

    with pytest.raises(TransportError, match="from 0 to 2"):
        log.append([Outgoing("wide", None, b"x", partition=number)])
    with pytest.raises(TransportError, match="from 0 to 2"):
        log.end_offsets([partition])


def test_topic_without_partitions_is_refused(log):
    """It could hold nothing."""
    with pytest.raises(TransportError, match="partitions > 0"):
        log.create_topic("none", 0)


def test_owner_of_an_unknown_topic_is_refused(log):
    """Before it fences anybody."""
    old = log.owner("app", 0, [FEED])

    with pytest.raises(TransportError, match="'nowhere'"):
        log.owner("app", 0, [Partition("nowhere", 0)])

    assert old.commit([], Outgoing("feed", None, b"e"), {}) == 0


def test_read_past_the_end_says_where_the_log_ends(log):
    """A replay must not take a shorter log for the whole."""
    log.append([Outgoing("feed", None, b"x")])

    with pytest.raises(TransportError, match=r"up to offset 5 .* it ends at 1"):
        list(log.read({FEED: 0}, {FEED: 5}))


def test_poll_shares_what_was_asked_among_the_inputs(log):
    """A backlog in one partition does not keep the others waiting."""
    inputs = [Partition("wide", number) for number in range(3)]
    log.append([Outgoing("wide", None, b"x", partition=n) for n in range(3) for _ in range(100)])
    owner = log.owner("app", 0, inputs)
    owner.seek(dict.fromkeys(inputs, 0))

    fetched = owner.poll(max_records=30, timeout=1)

    assert {chunk.partition: len(chunk) for chunk in fetched} == dict.fromkeys(inputs, 10)


def test_poll_with_fewer_records_than_inputs_serves_each_in_turn(log):
    """No input is forgotten for ever."""
    inputs = [Partition("wide", number) for number in range(3)]
    log.append([Outgoing("wide", None, b"x", partition=n) for n in range(3) for _ in range(100)])
    owner = log.owner("app", 0, inputs)
    owner.seek(dict.fromkeys(inputs, 0))

    served = {owner.poll(max_records=1, timeout=1)[0].partition for _ in range(3)}

    assert served == set(inputs)


def test_missing_directory_is_named(tmp_path):
    """The log makes its file, not the way there."""
    with pytest.raises(TransportError, match=r"expected a directory .*nowhere"):
        SqliteLog(str(tmp_path / "nowhere" / "log.db"))


def test_directory_in_place_of_the_file_is_refused(tmp_path):
    """In one line."""
    with pytest.raises(TransportError, match="unable to open") as caught:
        SqliteLog(str(tmp_path))

    assert "\n" not in str(caught.value)


def test_damage_that_sqlite_reports_in_no_utf8_is_one_line(log, path):
    """Its message quotes the name of a damaged table."""
    log.close()
    file, name = Path(path), b"CREATE TABLE topics"
    whole = file.read_bytes()
    assert whole.count(name) == whole.count(b"tabletopicstopics") == 1
    harmed = whole.replace(name, b"CREATE TABL( topics")
    file.write_bytes(harmed.replace(b"tabletopicstopics", b"table\xcc\xcc\xcc\xcc\xcc\xcctopics"))

    with pytest.raises(TransportError, match="the file is damaged"):
        SqliteLog(path)


def test_file_that_is_no_database_is_refused(tmp_path):
    """The file is not changed."""
    text = tmp_path / "data.csv"
    text.write_text("a,b\n" * 1000)

    with pytest.raises(TransportError, match="is not a database"):
        SqliteLog(str(text))

    assert text.read_text() == "a,b\n" * 1000


def test_database_of_another_program_is_refused(path):
    """Nothing is added to it."""
    foreign = sqlite3.connect(path)
    foreign.execute("CREATE TABLE theirs (a)")
    foreign.commit()

    with pytest.raises(TransportError, match="another program"):
        SqliteLog(path)

    assert foreign.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    assert foreign.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    foreign.close()


def test_lock_held_too_long_is_an_error_that_wrote_nothing(log, path):
    """The log works again when the lock is released."""
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")

    with pytest.raises(TransportError, match=r"kept it locked for 0\.05 s"):
        log.append([Outgoing("feed", None, b"during")])
    holder.execute("ROLLBACK")
    holder.close()
    log.append([Outgoing("feed", None, b"after")])

    assert values(log) == [b"after"]


def test_reading_and_polling_go_on_while_another_writes(log, path):
    """The write lock of one keeps no reader waiting."""
    log.append([Outgoing("feed", None, b"x")])
    owner = log.owner("app", 0, [FEED])
    owner.seek({FEED: 0})
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    holder.execute("DELETE FROM batches")

    polled = [chunk.values for chunk in owner.poll(max_records=10, timeout=0)]
    read = values(log)
    holder.close()

    assert polled == [[b"x"]]
    assert read == [b"x"]


def test_reader_that_stops_in_the_middle_keeps_no_writer_waiting(log, path):
    """No statement stays open between two chunks."""
    log.append([Outgoing("feed", None, b"x")] * 2500)
    reading = log.read({FEED: 0}, log.end_offsets([FEED]))
    next(reading)
    other = SqliteLog(path, busy_seconds=0.05)
    other.append([Outgoing("feed", None, b"y")])
    other.close()
    checkpoint = sqlite3.connect(path)
    busy, _, _ = checkpoint.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    checkpoint.close()

    assert busy == 0
    assert sum(map(len, reading)) == 1500


def test_full_disk_is_one_line_and_keeps_what_was_there(log):
    """The write that did not fit left nothing behind."""
    log.append([Outgoing("feed", None, b"small")])
    log._database._connection.execute("PRAGMA max_page_count = 30")

    with pytest.raises(TransportError, match="the disk is full"):
        log.append([Outgoing("feed", None, random.Random(1).randbytes(10**6))])

    assert values(log) == [b"small"]


class Interrupting(dict):
    """Positions during whose writing the user presses Ctrl-C."""

    def items(self):
        raise KeyboardInterrupt


def test_interrupted_commit_writes_nothing(log):
    """It is rolled back and the lock is free."""
    owner = log.owner("app", 0, [FEED])

    with pytest.raises(KeyboardInterrupt):
        owner.commit([], Outgoing("feed", None, b"half"), Interrupting())
    log.append([Outgoing("feed", None, b"whole")])

    assert values(log) == [b"whole"]


def test_processes_that_open_a_new_file_together_all_write(path):
    """Nobody fails on the switch to WAL or the tables; every append stays whole."""
    names = ["a", "b", "c", "d"]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, f"sqlite:{path}", name]) for name in names
    ]
    try:
        codes = [writer.wait(timeout=PATIENCE) for writer in writers]
    finally:
        for writer in writers:
            writer.kill()

    log = SqliteLog(path)
    found = values(log)
    log.close()

    assert codes == [0, 0, 0, 0]
    assert {name: found.count(name.encode()) for name in names} == dict.fromkeys(names, 100)
    assert all(len(set(found[at : at + 5])) == 1 for at in range(0, 400, 5))


def test_following_ends_at_ctrl_c(log, path):
    """Also while it waits for more."""
    log.append([Outgoing("feed", None, b"x")])
    command = [sys.executable, "-c", FOLLOWER, f"sqlite:{path}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as follower:
        try:
            first = follower.stdout.readline()

            follower.send_signal(signal.SIGINT)
            _, errors = follower.communicate(timeout=PATIENCE)
        finally:
            follower.kill()  # or leaving would wait for one that follows for ever

    assert first == b"b'x'\n"
    assert b"KeyboardInterrupt" in errors


def test_log_may_be_used_by_another_thread_than_its_maker(log):
    """One at a time."""
    writer = threading.Thread(target=log.append, args=[[Outgoing("feed", None, b"x")]])
    writer.start()
    writer.join()

    assert values(log) == [b"x"]


def test_synchronous_is_full_and_the_journal_is_wal(log):
    """What was acknowledged survives a power cut."""
    connection = log._database._connection

    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_relative_path_stays_as_given(tmp_path, monkeypatch):
    """Relative to where the process is."""
    monkeypatch.chdir(tmp_path)

    open_log("sqlite:here.db").close()

    assert (tmp_path / "here.db").is_file()


def test_path_the_system_refuses_is_one_clear_error(tmp_path) -> None:
    """A name that is too long is no directory."""
    with pytest.raises(TransportError, match="create it or use another path"):
        SqliteLog(str(tmp_path / ("a" * 300) / "log.db"))


def test_file_that_has_lost_its_owners_fails_as_a_transport_does(log, path) -> None:
    """So that the service starts over instead of ending as if by a fault of its own."""
    owner = log.owner("svc", 0, [FEED])
    with sqlite3.connect(path) as other:
        other.execute("DROP TABLE owners")
    other.close()

    with pytest.raises(TransportError, match="no such table"):
        owner.confirm({})


@pytest.mark.parametrize("end", ["none", "close", "kill"])
def test_new_owner_knows_the_process_it_fences(log, path, end):
    """Only one that still runs and has not closed the shard; never itself."""
    command = [sys.executable, "-c", OWNER, f"sqlite:{path}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout.readline() == b"''\n", "nobody was there"
        if end == "close":
            first.communicate(b"\n")
        elif end == "kill":
            first.kill()
            first.wait()

        taken = log.owner("svc", 0, [FEED])
        again = log.owner("svc", 0, [FEED])
        first.kill()

    assert taken.fenced == (str(first.pid) if end == "none" else "")
    assert again.fenced == ""


def test_new_log_is_its_owners_alone(path, log):
    """Whatever the umask allows: records may be personal."""
    modes = {name.name: name.stat().st_mode & 0o777 for name in Path(path).parent.glob("*.db*")}

    assert len(modes) >= 2
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("replaced", [False, True])
def test_log_that_is_removed_while_in_use_is_an_error(log, path, suffix, replaced):
    """SQLite goes on writing into a file nobody can find again; and none is made in its place."""
    owner = log.owner("app", 0, [FEED])
    owner.seek({FEED: 0})
    gone = Path(f"{path}{suffix}")
    gone.unlink()
    if replaced:
        gone.write_bytes(b"")

    for use in (
        lambda: log.append([Outgoing("feed", None, b"lost")]),
        lambda: owner.commit([], Outgoing("feed", None, b"lost"), {}),
        lambda: owner.confirm({}),
        lambda: owner.poll(max_records=1, timeout=0),
        lambda: log.owner("app", 0, [FEED]),
        log.topics,
    ):
        with pytest.raises(TransportError, match="was removed or replaced while it was in use"):
            use()
    assert gone.exists() == replaced
    owner.close()


def test_commit_during_which_the_log_is_removed_is_not_acknowledged(log, path):
    """It is looked at behind the last write of a transaction, too."""
    database = log._database

    def removing() -> None:
        with database.transaction():
            Path(path).unlink()

    with pytest.raises(TransportError, match="was removed or replaced"):
        removing()
