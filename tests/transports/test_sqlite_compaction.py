"""Compaction of the embedded log: nothing moves, nothing else is deleted, others go on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumers.base.errors import TransportError
from consumers.base.records import UNBOUNDED, Outgoing, Partition
from consumers.transports.sqlite.log import SqliteLog
from tests.seed import share
from tests.transports.test_sqlite_layouts import FEED, everything, path

__all__ = ["path"]  # a fixture


@pytest.fixture
def log(path: str) -> Iterator[SqliteLog]:
    """A batch of ten records, then batches of one record, then a full one."""
    with closing(SqliteLog(path, busy_seconds=0.05)) as log:
        for n in range(10, 40):
            append(log, [n])
        append(log, range(40, 1540))
        yield log


def append(log: SqliteLog, numbers: range | list[int]) -> None:
    log.append(
        [Outgoing("feed", b"k%d" % n, b"v%d" % n, timestamp=1000 + n, partition=0) for n in numbers]
    )


def counts(log: SqliteLog) -> list[int]:
    return [n for (n,) in log._database.connection.execute("SELECT count FROM batches ORDER BY id")]


def test_packing_changes_no_record_and_leaves_few_batches(log: SqliteLog) -> None:
    """Single records become batches; a full batch is not written again."""
    before = everything(log)
    passed = sum(log.compactor().pack(FEED))

    assert everything(log) == before
    assert passed == len(before) == 1540
    assert counts(log) == [40, 1000, 500]
    assert sum(log.compactor().pack(FEED)) == 1540  # again: nothing to do
    assert counts(log) == [40, 1000, 500]


@pytest.mark.parametrize("start", [0, 4, 10, 12, 40, 700, 1039, 1540])
def test_only_records_before_the_offset_are_deleted(log: SqliteLog, start: int) -> None:
    """Whole batches, and a part of one; offsets stay."""
    records = everything(log)
    deleted = sum(log.compactor().delete(FEED, start))

    assert deleted == start
    assert log.beginning_offsets([FEED]) == {FEED: start}
    assert log.end_offsets([FEED]) == {FEED: 1540}
    assert everything(log) == records[start:]


def test_partition_without_records_continues_at_its_end(log: SqliteLog, path: str) -> None:
    """Also after it is opened again: an offset is given out once."""
    assert sum(log.compactor().delete(FEED, 10**9)) == 1540

    with closing(SqliteLog(path)) as again:
        assert again.beginning_offsets([FEED]) == again.end_offsets([FEED]) == {FEED: 1540}
        assert again.append([Outgoing("feed", None, b"x", partition=0)]) == [(0, 1540)]
        assert [record.offset for record in everything(again)] == [1540]


def test_reader_behind_the_cut_gets_a_clear_error(log: SqliteLog) -> None:
    """Instead of later records, as if there had been none."""
    for _ in log.compactor().delete(FEED, 40):
        pass
    message = r"expected records of feed\[0\] from offset 39 in sqlite:.*, but it starts at 40"

    with pytest.raises(TransportError, match=message):
        list(log.read({FEED: 39}, {FEED: 50}))
    with pytest.raises(TransportError, match=message):
        next(log.follow({FEED: 39}, poll_seconds=0.0))
    owner = log.owner("svc", 0, [FEED])
    owner.seek({FEED: 39})
    with pytest.raises(TransportError, match=message):
        owner.poll(max_records=10, timeout=0.0)
    owner.seek({FEED: 40})
    assert owner.poll(max_records=10, timeout=0.0)[0].offsets[0] == 40


def test_service_commits_and_reads_between_slices(log: SqliteLog, path: str) -> None:
    """The write lock is free between two slices; a reader sees every record once."""
    with closing(SqliteLog(path, busy_seconds=0.05)) as other:
        owner = other.owner("svc", 0, [FEED])
        owner.seek({FEED: 600})
        seen: list[int] = []
        for at, _ in enumerate(log.compactor().delete(FEED, 35)):
            append(other, [1540 + at])
        for _ in log.compactor().pack(FEED):
            for chunk in owner.poll(max_records=200, timeout=0.0):
                seen += chunk.offsets
            owner.commit([], Outgoing("feed", None, b"journal", partition=1), {FEED: 800})
        while chunks := owner.poll(max_records=200, timeout=0.0):
            seen += chunks[0].offsets

    assert seen == list(range(600, log.end_offsets([FEED])[FEED]))


def test_crash_in_a_slice_undoes_that_slice(log: SqliteLog) -> None:
    """Deleted and not yet written again: the transaction is rolled back."""
    before = everything(log)

    def crash(*_: object) -> int:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log._database, "insert_at", crash)
        with pytest.raises(KeyboardInterrupt):
            next(log.compactor().pack(FEED))
    deleting = log.compactor().delete(FEED, 700)
    next(deleting)
    deleting.close()

    start = log.beginning_offsets([FEED])[FEED]
    assert 0 < start < 700
    assert everything(log) == before[start:]


def test_file_shrinks_while_it_is_used(log: SqliteLog) -> None:
    """Unused pages are returned in slices."""
    value = random.Random(5).randbytes(2_000_000)
    log.append([Outgoing("feed", None, value, partition=0)])
    for _ in log.compactor().delete(FEED, 10**9):
        pass
    full = log.compactor().size()
    returned = sum(log.compactor().shrink())
    after = log.compactor().size()

    assert returned == full.unused > 0
    assert after.unused == 0
    assert after.file < full.file


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from([1, 2, 30, 999, 1001])),
        st.tuples(st.just("delete"), st.integers(0, 3000)),
        st.tuples(st.just("pack"), st.integers(1, 3)),
        st.tuples(st.just("reopen"), st.just(0)),
    ),
    max_size=8,
)


@settings(max_examples=share(0.1))
@given(steps=STEPS)
def test_any_history_of_a_partition_is_a_list_without_its_front(
    steps: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The twin is a list: appended at its end, deleted from its front, otherwise unchanged."""
    where = str(tmp_path_factory.mktemp("law") / "log.db")
    log = SqliteLog(where)
    log.create_topic("feed", 1)
    twin: list[bytes] = []
    for step, n in steps:
        if step == "append":
            fresh = [b"%d" % (len(twin) + at) for at in range(n)]
            log.append([Outgoing("feed", None, value) for value in fresh])
            twin += fresh
        elif step == "delete":
            for _ in log.compactor().delete(FEED, min(n, len(twin))):
                pass
        elif step == "pack":
            slices = log.compactor().pack(FEED)
            with suppress(StopIteration):
                for _ in range(n):
                    next(slices)
            slices.close()  # type: ignore[attr-defined]
        else:
            log.close()
            log = SqliteLog(where)
        start = log.beginning_offsets([FEED])[FEED]
        assert step != "delete" or start >= min(n, len(twin))
        chunk = log._database.fetch(FEED, start, UNBOUNDED, UNBOUNDED)
        found = [] if chunk is None else chunk.values
        assert found == twin[start:]
        assert log.end_offsets([FEED]) == {FEED: len(twin)}
    log.close()


def test_services_of_a_topic_are_known(log: SqliteLog) -> None:
    """Those that committed offsets, so that none loses records that it has not read."""
    owner = log.owner("other", 0, [FEED])
    owner.commit([], Outgoing("feed", None, b"j", partition=1), {Partition("feed", 0): 3})

    assert log.compactor().readers("feed") == {"other"}
