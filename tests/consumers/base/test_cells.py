"""Numbers and cells behave as the lists that they stand for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.base.cells import (
    ByteCells,
    Numbers,
    as_texts,
    chosen,
    joined,
    joined_numbers,
    packed,
    sizes,
)
from consumers.base.records import Fetched, FetchedColumns, Partition
from consumers.base.records import joined as joined_records
from consumers.codecs.compiled import CompiledDecoder, JsonField, JsonKind
from consumers.journal.checksum import RangeChecksum, checksum, checksums
from consumers.journal.merge import Merge

CELL = st.one_of(st.none(), st.binary(max_size=9))
LISTS = st.lists(CELL, max_size=9)
VISITS = Partition("visits", 0)
LABELS = Partition("labels", 0)


def cells_of(values, seed: int = 0) -> ByteCells:
    """The values in bytes that have gaps, in another order."""
    rng = np.random.default_rng(seed)
    data, starts = bytearray(rng.bytes(rng.integers(0, 5))), [0] * len(values)
    for i in rng.permutation(len(values)):
        starts[i] = len(data)
        data += (values[i] or b"") + rng.bytes(rng.integers(0, 5))
    lengths = [-1 if value is None else len(value) for value in values]
    columns = (np.array(column, dtype=np.int64) for column in (starts, lengths))
    return ByteCells(np.frombuffer(bytes(data), dtype=np.uint8), *columns)


@given(values=LISTS, seed=st.integers(0, 9), low=st.integers(-9, 9), high=st.integers(-9, 9))
def test_cells_are_the_values_of_a_list(values, seed, low, high) -> None:
    cells = cells_of(values, seed)
    assert list(cells) == values
    assert cells == values
    assert values == cells
    assert [cells[i] for i in range(len(cells))] == values
    assert cells[low:high] == values[low:high]
    assert cells.compact() == values
    assert sizes(cells).tolist() == sizes(values).tolist()
    assert cells != [*values, b"one more"]
    assert repr(cells) == repr(values)


@given(values=st.lists(CELL, min_size=1, max_size=9), data=st.data())
def test_cells_are_chosen_and_packed(values, data) -> None:
    cells = cells_of(values)
    at = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=12))
    places = np.array(at, dtype=np.int64)
    assert chosen(cells, places) == [values[i] for i in at] == chosen(values, places)
    whole = b"".join(value or b"" for value in values)
    terminated = b"".join((value or b"") + b"\0" for value in values)
    for each in (cells, values):
        assert packed(each).tobytes() == whole
        assert packed(each, gap=1, padding=3).tobytes() == terminated + bytes(3)


@given(parts=st.lists(st.tuples(LISTS, st.booleans()), min_size=1, max_size=4))
def test_cells_are_joined(parts) -> None:
    given_parts = [cells_of(values) if as_cells else values for values, as_cells in parts]
    assert joined(given_parts) == [value for values, _ in parts for value in values]


@given(
    texts=st.lists(st.one_of(st.none(), st.binary(max_size=4), st.text(max_size=4).map(str.encode)))
)
def test_texts_are_those_of_each_cell(texts) -> None:
    """One that is not UTF-8, or holds a zero byte, does not change the others."""
    expected = []
    for text in texts:
        try:
            expected.append((text or b"").decode())
        except UnicodeDecodeError:
            expected.append("")
    assert as_texts(texts) == as_texts(cells_of(texts)) == expected


@given(parts=st.lists(st.lists(st.integers(-(2**62), 2**62)), min_size=1, max_size=3))
def test_numbers_are_the_values_of_a_list(parts) -> None:
    every = [number for part in parts for number in part]
    numbers = joined_numbers([Numbers(np.array(part, dtype=np.int64)) for part in parts])
    assert numbers == every
    assert [numbers[i] for i in range(len(numbers))] == every
    assert all(type(number) is int for number in numbers)
    assert np.array(numbers, dtype=np.float64).tolist() == [float(number) for number in every]
    assert numbers[1:] == every[1:]


def fetched(values, *, as_cells: bool, partition: Partition = VISITS, keys=None) -> Fetched:
    """Records with these values."""
    n = len(values)
    keys = [b"k%d" % i if i % 3 else None for i in range(n)] if keys is None else keys
    offsets, times = list(range(5, 5 + n)), [10 * (i % 4) for i in range(n)]
    if not as_cells:
        return Fetched(partition, offsets, times, keys, values)
    numbers = (Numbers(np.array(each, dtype=np.int64)) for each in (offsets, times))
    return Fetched(partition, *numbers, cells_of(keys, 1), cells_of(values, 2))


@given(values=LISTS, at=st.integers(0, 9), bound=st.integers(1, 1000))
def test_records_are_split_and_joined_as_lists(values, at, bound) -> None:
    plain, columns = (fetched(values, as_cells=each) for each in (False, True))
    assert columns == plain
    assert columns.as_lists() == plain
    assert columns.within(bound) == plain.within(bound)
    assert columns.nbytes == plain.nbytes
    head, rest = columns.split(at)
    assert (head, rest) == plain.split(at)
    assert columns == plain, "a split changes nothing"
    assert joined_records(VISITS, [head, rest]) == plain
    assert columns.shift(at) == head
    assert columns == rest


@given(values=st.lists(CELL, min_size=1, max_size=30), cuts=st.lists(st.integers(1, 9), max_size=5))
def test_checksum_is_that_of_lists(values, cuts) -> None:
    rest = fetched(values, as_cells=True)
    whole = checksum(fetched(values, as_cells=False))
    assert checksum(rest) == whole
    pieces = RangeChecksum()
    for cut in cuts:
        head, rest = rest.split(cut)
        if len(head):
            pieces.add(head)
    pieces.add(rest)
    assert pieces.value == whole


PARTS = st.lists(st.tuples(st.lists(CELL, max_size=9), st.booleans()), max_size=5)


@given(drawn=PARTS, plain=st.booleans(), data=st.data())
def test_checksums_of_all_partitions_are_those_of_each(drawn, plain, data) -> None:
    """Of all records, and from any record on. In lists, in bytes with gaps and without."""
    parts = [
        fetched(values, as_cells=as_cells or not plain, partition=Partition("visits", number))
        for number, (values, as_cells) in enumerate(drawn)
    ]
    columns, some = FetchedColumns.of(parts), [part for part in parts if len(part)]

    assert list(columns) == some
    assert columns[:] == some
    assert columns.partitions == [part.partition for part in some]
    assert columns.ranges() == {p.partition: (5, 5 + len(p), len(p)) for p in some}
    assert checksums(columns) == [checksum(part) for part in some]
    starts = [data.draw(st.integers(0, len(part) - 1)) for part in some]
    rests = [part.split(start)[1] for part, start in zip(some, starts, strict=True)]
    assert checksums(columns, starts) == [checksum(part) for part in rests]


@given(drawn=st.lists(LISTS, min_size=1, max_size=6))
def test_joined_cells_are_the_joined_lists(drawn) -> None:
    cells = joined([cells_of(values, seed) for seed, values in enumerate(drawn)])
    assert cells == [value for values in drawn for value in values]
    if len(drawn) > 1:
        assert packed(cells) is cells.data, "they are one after another already"


@given(
    values=st.lists(CELL, min_size=1, max_size=20),
    others=st.lists(CELL, min_size=1, max_size=20),
    taken=st.lists(st.integers(1, 9), min_size=1, max_size=6),
)
def test_merge_of_cells_is_that_of_lists(values, others, taken) -> None:
    """The parts that were added stay as they are: a trial merges the same ones several times."""
    batches = []
    for as_cells in (False, True):
        parts = [fetched(values, as_cells=as_cells)]
        parts.append(fetched(others, as_cells=as_cells, partition=LABELS))
        merge = Merge([VISITS, LABELS], {"labels"})
        merge.add(parts)
        found = [merge.take(count, {}, wait=False) for count in taken]
        batches.append(
            [
                (
                    list(each.keys),
                    list(each.values),
                    each.offsets.tolist(),
                    each.timestamps.tolist(),
                    each.ranges,
                    [part.as_lists() for part in each.parts],
                )
                for each in found
                if each is not None
            ]
        )
        assert parts[0] == fetched(values, as_cells=False)
        assert parts[1] == fetched(others, as_cells=False, partition=LABELS)
    assert batches[0] == batches[1]


def test_rest_of_a_large_fetch_does_not_hold_it() -> None:
    """What waits in the merge holds about twice its bytes, however large its batch was."""
    large = Fetched(
        VISITS, range(100), range(100), cells_of([b"k"] * 100), cells_of([bytes(10_000)] * 100)
    )
    merge = Merge([VISITS], ())
    merge.add([large])
    merge.take(99, {}, wait=False)
    (rest,) = merge._buffers[VISITS]._parts
    assert rest.values.data.size <= 20_000
    assert rest.keys.data.size <= 2


VALUE = st.one_of(
    CELL,
    st.builds(lambda x, name: b'{"x":%d,"id":"%s"}' % (x, name), st.integers(-9, 9), st.just(b"a")),
    st.just(b'{"x":1.5}' + b" " * 100),
)


@given(values=st.lists(VALUE, min_size=1, max_size=12))
def test_decoder_reads_cells_as_it_reads_lists(values) -> None:
    fields = [JsonField("x", JsonKind.NUMBER, 0), JsonField("id", JsonKind.TEXT, 0)]
    every = range(len(values))
    for largest in (64, 1 << 20):
        read = [CompiledDecoder(fields, largest).read(each) for each in (values, cells_of(values))]
        (a, spans_a, plain_a), (b, spans_b, plain_b) = read
        assert plain_a.tolist() == plain_b.tolist()
        np.testing.assert_array_equal(a[plain_a], b[plain_a])
        assert spans_a.texts(0, every) == spans_b.texts(0, every)


def test_cells_have_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(cells_of([b"a"]))


def test_buffer_of_a_merge_holds_at_most_twice_the_bytes_that_wait() -> None:
    """Records that were taken are not kept by those after them in the same fetch."""
    values = [bytes(1000)] * 400
    merge = Merge([VISITS], set())
    merge.add([fetched(values, as_cells=True)])
    (buffer,) = merge._buffers.values()
    while len(merge) > 20:
        merge.take(20, {}, wait=False)
        assert buffer._parts[0].values.data.size <= 2.1 * 1000 * len(merge)
