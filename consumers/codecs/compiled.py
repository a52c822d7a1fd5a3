"""JSON objects to columns in one compiled call a block, without a Python object for each record.

Rule: the kernel takes only records that are plain (see `_kernels.records`), and makes of them what
the slow path makes of them. It leaves every other record to the caller, which takes the slow path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumers.base.cells import ByteCells, lengths, packed
from consumers.codecs._kernels.numbers import EXACT_POWER, LEAST, MOST
from consumers.codecs._kernels.records import (
    PADDING,
    PATH,
    JsonKind,
    Layout,
    read_records,
)
from consumers.codecs._kernels.texts import GOLDEN, INTEGER_SPAN, TRUTH_SPAN, copy, group
from stream.data.rows import Floats
from stream.data.sequences import CodedColumn, TextColumn

__all__ = ["CompiledDecoder", "JsonField", "JsonKind", "Spans", "label_of"]

WORD = 2**64 - 1


@dataclass(frozen=True, slots=True)
class JsonField:
    """A field to read.

    Parameters
    ----------
    name
        Of the field.
    kind
        What its value may be, see `JsonKind`.
    column
        Of the numbers, or else of the spans.
    nested
        Whether a dotted name is also a path into nested objects.
    longest
        Bytes of an id.
    """

    name: str
    kind: int
    column: int
    nested: bool = True
    longest: int = 0


class CompiledDecoder:
    """Decodes blocks of JSON records.

    Parameters
    ----------
    declared
        The fields, with distinct names.
    largest
        Bytes of the largest record that is read. A larger one is not plain.

    Examples
    --------
    >>> fields = [JsonField("x", JsonKind.NUMBER, 0), JsonField("id", JsonKind.TEXT, 0)]
    >>> decoder = CompiledDecoder(fields)
    >>> numbers, spans, plain = decoder.read([b'{"id":"a","x":1.5}', b'{"x":"?"}'])
    >>> numbers[0].tolist(), spans.texts(0, [0]), plain.tolist()
    ([1.5], ['a'], [True, False])
    """

    def __init__(self, declared: Sequence[JsonField], largest: int = 1 << 20) -> None:
        self._largest = largest
        self._layout = _layout(declared)
        numbers = [each.column for each in declared if each.kind <= JsonKind.GIVEN]
        spans = [each.column for each in declared if each.kind > JsonKind.GIVEN]
        self._numbers, self._spans = 1 + max(numbers, default=-1), 1 + max(spans, default=-1)
        self._stamp = 1

    def read(self, values: Sequence[bytes | None]) -> tuple[Floats, Spans, NDArray[np.bool_]]:
        """The numbers and the spans of the plain records, and which ones are plain."""
        n = len(values)
        sizes = lengths(values)
        if n and sizes.max() > self._largest:
            sizes[sizes > self._largest] = 0
            values = _emptied(values, sizes)
        blob = packed(values, gap=1, padding=PADDING)
        starts = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(sizes + 1, out=starts[1:])
        numbers = np.empty((n, self._numbers))
        spans = np.empty((n, self._spans, 3), dtype=np.int64)
        plain = np.empty(n, dtype=np.bool_)
        read_records(blob, starts, self._stamp, self._layout, _powers(), numbers, spans, plain)
        self._stamp += n
        return numbers, Spans(blob, spans), plain


class Spans:
    """Values of a block as places in its bytes.

    Parameters
    ----------
    blob
        uint8 (n,): the bytes.
    spans
        int64 (rows, columns, 3): start (-1: no value), end, and kind of each value.
    """

    def __init__(self, blob: NDArray[np.uint8], spans: NDArray[np.int64]) -> None:
        self.blob, self.spans = blob, spans

    def missing(self, column: int) -> NDArray[np.bool_]:
        """Which rows have no value."""
        found: NDArray[np.bool_] = self.spans[:, column, 0] < 0
        return found

    def given(self, columns: int) -> NDArray[np.bool_]:
        """Which rows have a value in each of the first columns."""
        found: NDArray[np.bool_] = self.spans[:, :columns, 0] >= 0
        return found

    def integers(self, column: int) -> NDArray[np.bool_]:
        """Which rows have an integer."""
        found: NDArray[np.bool_] = self.spans[:, column, 2] == INTEGER_SPAN
        return found & ~self.missing(column)

    def texts(self, column: int, rows: Any) -> TextColumn:
        """The values of these rows as texts; "" for no value."""
        at = np.asarray(rows, dtype=np.int64)
        chosen, start = self.spans[at, column], np.zeros(at.size + 1, dtype=np.int64)
        sizes = np.where(chosen[:, 0] < 0, 0, chosen[:, 1] - chosen[:, 0])
        out = np.empty(int(sizes.sum()) + 8, dtype=np.uint8)
        copy(self.blob, self.spans, column, at, out, start[1:])
        return TextColumn(out[: start[-1]], start)

    def each(self, column: int) -> Any:
        """All values as an array of texts; None: no value."""
        out = np.empty(len(self.spans), dtype=object)
        out[:] = list(self.texts(column, np.arange(len(out))))
        out[self.missing(column)] = None
        return out

    def distinct(self, column: int) -> tuple[list[str], list[int], NDArray[np.int64]]:
        """The distinct values as texts, their kinds, and for each row which one it has; -1: none.

        Equal values may be there twice.
        """
        n = len(self.spans)
        code, first = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        table = np.full(1 << max(2 * n, 1).bit_length(), -1, dtype=np.int64)
        first = first[: group(self.blob, self.spans, column, code, first, table)]
        kinds: list[int] = self.spans[first, column, 2].tolist()
        return list(self.texts(column, first)), kinds, code

    def objects(self, column: int) -> Any:
        """The values as an array of texts; None: no value. Equal ones are mostly one object."""
        texts, _, code = self.distinct(column)
        out = np.empty(len(texts) + 1, dtype=object)
        out[:-1] = texts
        return out[code]  # the last one is None

    def labels(self, column: int) -> CodedColumn:
        """The values as labels; None: no value."""
        texts, kinds, code = self.distinct(column)
        return CodedColumn(list(map(label_of, texts, kinds)), code)


def _emptied(values: Sequence[bytes | None], sizes: NDArray[np.int64]) -> Sequence[bytes | None]:
    """The values; those with size 0 without their bytes."""
    if isinstance(values, ByteCells):
        return ByteCells(values.data, values.starts, sizes)
    return [value if size else b"" for value, size in zip(values, sizes.tolist(), strict=True)]


def label_of(text: str, kind: int) -> str | int | bool:
    """A label from its text and the kind of its span.

    Examples
    --------
    >>> label_of("7", INTEGER_SPAN), label_of("true", TRUTH_SPAN), label_of("true", -1)
    (7, True, 'true')
    """
    if kind == TRUTH_SPAN:
        return text == "true"
    return int(text) if kind == INTEGER_SPAN else text


def _layout(declared: Sequence[JsonField]) -> Layout:
    """The tables of these fields."""
    entries: dict[tuple[int, str], list[int]] = {}  # kind, column, child, longest, field
    nodes = 1
    for field, each in enumerate(declared):
        value = [each.kind, each.column, -1, each.longest, field]
        *path, last = each.name.split(".") if each.nested else [each.name]
        at = 0
        for name in path:
            entry = entries.setdefault((at, name), [PATH, -1, -1, 0, -1])
            if entry[2] < 0:
                entry[2], nodes = nodes, nodes + 1
            at = entry[2]
        for key in dict.fromkeys([(0, each.name), (at, last)]):
            entry = entries.setdefault(key, [PATH, -1, -1, 0, -1])
            entry[:] = [*value[:2], entry[2], *value[3:]]
    fields = len(declared)
    for entry in entries.values():
        if entry[4] < 0:
            entry[4], fields = fields, fields + 1
    names = [name.encode() for _, name in entries]
    table = np.array(list(entries.values()), dtype=np.int64).reshape(-1, 5).T.copy()
    node = np.array([at for at, _ in entries], dtype=np.int64)
    count = len(entries)
    follows = np.full(count + nodes, -1, dtype=np.int64)
    return Layout(
        np.frombuffer(b"".join(names) + bytes(PADDING), dtype=np.uint8),
        np.array(list(accumulate(map(len, names), initial=0)), dtype=np.int64),
        node,
        table[0],
        table[1],
        table[2],
        table[3],
        table[4],
        _slots(names, node.tolist()),
        follows,
        np.zeros(count + fields, dtype=np.int64),
        np.zeros((nodes, 2), dtype=np.int64),
    )


@cache
def _powers() -> tuple[NDArray[np.uint64], Floats]:
    """The powers of five and of ten, see `_kernels.numbers.number`."""
    table = np.empty((MOST - LEAST + 1, 2), np.uint64)
    for row, power in enumerate(range(LEAST, MOST + 1)):
        five: int = 5 ** abs(power)
        size = five.bit_length()
        if power >= 0:
            value = five << 128 - size if size <= 128 else five >> size - 128
        else:
            value = (1 << (size + 127 if power >= -27 else 2 * size + 128)) // five + 1
            value >>= max(value.bit_length() - 128, 0)
        table[row] = value >> 64, value & (2**64 - 1)
    return table, np.array([float(10**power) for power in range(EXACT_POWER + 1)])


def _slots(names: Sequence[bytes], nodes: Sequence[int]) -> NDArray[np.int64]:
    """The entries in a hash table, as `_kernels.records` looks for them."""
    size = 1 << (2 * len(names) + 1).bit_length()
    out = np.full(size, -1, dtype=np.int64)
    for entry, (name, node) in enumerate(zip(names, nodes, strict=True)):
        at = _hashed(name, node) % size
        while out[at] >= 0:
            at = (at + 1) % size
        out[at] = entry
    return out


def _hashed(name: bytes, seed: int) -> int:
    """As `_kernels.texts.hashed`."""
    h = seed ^ len(name)
    for at in range(0, len(name), 8):
        part = name[at : at + 8]
        word = int.from_bytes(part, "little") << 8 * (8 - len(part))
        both = (h ^ word) * GOLDEN
        h = (both & WORD) ^ (both >> 64)
    return h ^ (h >> 32)
