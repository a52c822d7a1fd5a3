"""Records to write as columns are the same records as one by one, on every transport."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.base.records import Outgoing, OutgoingColumns, Partition, followed_by
from consumers.transports import open_log
from consumers.transports.sqlite.log import SqliteLog

DEAD = [Outgoing("dead", None, b"?", 5, (("reason", b"r"),), 0), Outgoing("dead", b"k", None, 7)]

cells = st.binary(max_size=5)
plain = st.lists(
    st.builds(
        Outgoing, st.just("out"), cells, cells, st.integers(0, 9), st.just(()), st.integers(0, 2)
    ),
    max_size=8,
)


def as_columns(records: list[Outgoing], gap: bytes = b"") -> OutgoingColumns:
    """The same records; `gap` lies before each of them."""
    data = b"".join(gap + (r.key or b"") + (r.value or b"") for r in records)
    lengths = np.array([(len(r.key or b""), len(r.value or b"")) for r in records], dtype=np.int64)
    sizes = lengths.reshape(-1, 2).sum(axis=1) + len(gap)
    columns = ([r.timestamp for r in records], [r.partition for r in records])
    return OutgoingColumns(
        "out",
        np.frombuffer(data, dtype=np.uint8),
        sizes.cumsum() - sizes + len(gap),
        lengths.reshape(-1, 2),
        *(np.array(column, dtype=np.int64) for column in columns),
    )


@given(plain, st.sampled_from([[], DEAD]), st.sampled_from([b"", b"--"]))
def test_columns_are_a_sequence_of_their_records(records, rest, gap) -> None:
    """Iteration, places, slices, partitions."""
    columns, expected = followed_by(as_columns(records, gap), rest), [*records, *rest]

    assert isinstance(columns, OutgoingColumns)
    assert list(columns) == expected == followed_by(records, rest)
    assert [columns[i] for i in range(-len(columns), len(columns))] == expected * 2
    assert columns[-3:] == expected[-3:]
    assert columns[::-2] == expected[::-2]
    by_partition: dict[int | None, list[Outgoing]] = {}
    for record in records:
        by_partition.setdefault(record.partition, []).append(record)
    assert [(n, list(own)) for n, own in columns.by_partition()] == list(by_partition.items())
    with pytest.raises(IndexError):
        columns[len(expected)]


@pytest.mark.parametrize("rest", [[], DEAD], ids=["alone", "with dead letters"])
@pytest.mark.parametrize("transport", ["sqlite:{}/log.db", "memory:columns-{}"])
def test_transport_writes_columns_as_it_writes_their_records(transport, rest, tmp_path) -> None:
    """Also in the same batches of the embedded log."""
    records = [Outgoing("out", b"%d" % i, b"v" * (i % 3), 100 - i, (), i % 3) for i in range(2500)]
    found = []
    for name, written in (("a", [*records, *rest]), ("b", followed_by(as_columns(records), rest))):
        (tmp_path / name).mkdir()
        with closing(open_log(transport.format(tmp_path / name))) as log:
            for topic, partitions in (("in", 1), ("out", 3), ("dead", 1), ("journal", 1)):
                log.create_topic(topic, partitions)
            log.append(written)
            journal = Outgoing("journal", b"1", b"{}", 5, (), 0)
            with closing(log.owner("svc", 0, [Partition("in", 0)])) as owner:
                owner.seek({Partition("in", 0): 0})
                assert owner.commit(written, journal, {Partition("in", 0): 0}) == 0
            places = [Partition("out", n) for n in range(3)] + [Partition("dead", 0)]
            ends = log.end_offsets(places)
            chunks = list(log.read(dict.fromkeys(places, 0), ends))
            found.append(
                sorted((c.partition, *map(list, (c.offsets, c.keys, c.values))) for c in chunks)
            )
            if isinstance(log, SqliteLog):
                query = "SELECT id, count, newest, data FROM batches ORDER BY id"
                found[-1] += log._database._connection.execute(query).fetchall()

    assert found[0] == found[1]
    assert sum(len(chunk[1]) for chunk in found[0] if isinstance(chunk[0], Partition)) > 5000 - 1
