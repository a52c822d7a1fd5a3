"""The last records of each partition of a batch, by which its log is recognized later."""

from __future__ import annotations

import random

from consumers.base.records import Fetched, FetchedColumns, Partition
from consumers.journal import records as journal
from consumers.journal.checksum import checksum
from consumers.journal.reader import TAIL_BYTES, TAIL_RECORDS, tails
from tests.consumers.feeds import NOW, batch
from tests.seed import seeds

OBS = Partition("obs", 0)


def test_tails_of_a_batch_are_bounded_by_records_and_bytes() -> None:
    """One record at least, however large."""

    def tail(sizes: list[int]):
        part = Fetched(OBS, [*range(len(sizes))], [NOW] * len(sizes), [None] * len(sizes), [])
        part.values += [b"x" * size for size in sizes]
        made = batch([])
        made.parts = FetchedColumns.of([part])
        kept = tails(made)[OBS]
        return kept.first, kept.end, kept.count

    assert tail([1] * 200) == (200 - TAIL_RECORDS, 200, TAIL_RECORDS)
    assert tail([TAIL_BYTES] * 3) == (2, 3, 1)
    assert tail([10, 10 * TAIL_BYTES]) == (1, 2, 1)


@seeds()
def test_tails_are_those_of_each_partition_alone(seed) -> None:
    """Counted one by one from the last record."""
    rng, parts, expected = random.Random(seed), [], {}
    for number in range(rng.randrange(1, 6)):
        count = rng.choice([1, 2, TAIL_RECORDS - 1, TAIL_RECORDS, TAIL_RECORDS + 9])
        largest = rng.choice([3, TAIL_BYTES // 20, TAIL_BYTES // 2, TAIL_BYTES + 1])
        values = [rng.choice([None, bytes(rng.randrange(largest))]) for _ in range(count)]
        keys = [rng.choice([None, b"", b"k"]) for _ in range(count)]
        offsets = sorted(rng.sample(range(1000), count))
        place = Partition(OBS.topic, number)
        part = Fetched(place, offsets, [NOW] * count, keys, values)
        parts.append(part)
        kept = size = 0
        for key, value in zip(reversed(keys), reversed(values), strict=True):
            size += len(key or b"") + len(value or b"")
            if kept and (size > TAIL_BYTES or kept == TAIL_RECORDS):
                break
            kept += 1
        rest = part.split(count - kept)[1]
        first, end = offsets[count - kept], offsets[-1] + 1
        expected[place] = journal.Range(*place, first, end, kept, checksum(rest))
    made = batch([])
    made.parts = FetchedColumns.of(parts)

    assert tails(made) == expected


def test_tails_of_a_journaled_batch_are_those_computed_anew() -> None:
    """Its checksums are used only where a tail is a whole range."""
    made, ranges, parts = batch([]), [], []
    for number, count in enumerate((1, TAIL_RECORDS, TAIL_RECORDS + 1)):
        values = [b"%d" % i for i in range(count)]
        place = Partition(OBS.topic, number)
        part = Fetched(place, [*range(5, 5 + count)], [NOW] * count, [b"k"] * count, values)
        parts.append(part)
        # From an earlier position: the log has a gap before the first record.
        ranges.append(journal.Range(*place, 2, 5 + count, count, checksum(part)))

    made.parts = FetchedColumns.of(parts)

    assert tails(made, ranges) == tails(made)
