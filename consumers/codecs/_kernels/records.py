"""JSON objects as columns. A record that is not plain is left to the slow path.

A plain record is a JSON object in UTF-8 whose declared names occur once, whose declared values have
their kind, and whose names have no escapes. A zero byte, which no JSON has, comes after each
record, so that no loop looks for the end: every byte is compared with what it may be.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy import nan, uint64

from consumers.codecs._kernels.numbers import NOT_PLAIN, ZERO, number, skip_number
from consumers.codecs._kernels.texts import (
    ESCAPED_SPAN,
    INTEGER_SPAN,
    QUOTE,
    TEXT_SPAN,
    TRUTH_SPAN,
    end_of_text,
    hashed,
    same,
)
from consumers.codecs._kernels.words import byte_at, word_at
from stream.kernel import inlined, kernel

__all__ = ["PADDING", "JsonKind", "Layout", "read_records"]

PADDING = 16  # bytes after the last record
LARGEST = 1e100  # of a number, see `stream.data.schema`
DEEPEST = 60  # levels of objects that are declared, and inside a value that is not
SHORT, LONG = 15, 18  # digits of a plain integer: all are below 2**53, or 2**63
OPEN, CLOSE, OPEN_LIST, CLOSE_LIST, COMMA, COLON = 123, 125, 91, 93, 44, 58
MINUS, NINE, LETTER_N, LETTER_T, LETTER_F = 45, 57, 110, 116, 102
NULL, TRUE, FALSE_END = 0x6C6C756E, 0x65757274, 0x65736C61  # four letters as a little-endian number
FOUR = 0xFFFFFFFF
START, END, OF_KIND = 0, 1, 2  # a span: where it starts and ends, and what is there


class JsonKind:
    """What a declared value may be. Every one may also be null, except a number that is given."""

    PATH = -1  # no value: an object on the path to others
    NUMBER = 0
    BINARY = 1  # true, false, 0 or 1
    GIVEN = 2  # a number, not null
    CATEGORY = 3  # text, integer or truth value; as `LABEL`
    TEXT = 4
    ID = 5  # text with 1 to `longest` bytes, or integer
    LABEL = 6


PATH, BINARY, GIVEN, CATEGORY, TEXT, ID = (
    JsonKind.PATH,
    JsonKind.BINARY,
    JsonKind.GIVEN,
    JsonKind.CATEGORY,
    JsonKind.TEXT,
    JsonKind.ID,
)


class Layout(NamedTuple):
    """The declared names. An entry is a name in an object; node 0 is the record.

    Parameters
    ----------
    names, start
        uint8 (n,): the names, with padding; int64 (entries + 1,): where each one starts.
    node, kind, column, child, longest
        int64 (entries,): the object that has it, what its value may be, the column of numbers or of
        spans, the node of its object or -1, and the longest id.
    field
        int64 (entries,): a number of its own for each field, which may have two entries.
    slots
        int64 (a power of two,): entries by `hashed` with their node as the seed; -1: none.
    follows
        int64 (entries + nodes,): which entry came last after each one, or first in each node; -1:
        none did. It changes.
    seen
        int64 (2 · entries,): the last record with each entry and with each field. It changes.
    path
        int64 (nodes, 2): room for the path to the current object. It changes.
    """

    names: Any
    start: Any
    node: Any
    kind: Any
    column: Any
    child: Any
    longest: Any
    field: Any
    slots: Any
    follows: Any
    seen: Any
    path: Any


@inlined
def _after_space(data: Any, at: int) -> int:
    """The next byte that is no space."""
    while True:
        byte = byte_at(data, at)
        if byte > 32 or not (byte == 32 or byte == 10 or byte == 13 or byte == 9):
            return at
        at += 1


@inlined
def _is_word(data: Any, at: int, letters: int) -> Any:
    return word_at(data, at) & uint64(FOUR) == uint64(letters)


@inlined
def _after_literal(data: Any, at: int) -> int:
    """Where null, true or false ends; else NOT_PLAIN."""
    if _is_word(data, at, NULL) or _is_word(data, at, TRUE):
        return at + 4
    if byte_at(data, at) == LETTER_F and _is_word(data, at + 1, FALSE_END):
        return at + 5
    return NOT_PLAIN


@inlined
def _after_integer(data: Any, at: int, most: int) -> int:
    """Where an integer of at most so many digits ends, if it is its own decimal text; else
    NOT_PLAIN."""
    negative = byte_at(data, at) == MINUS
    start = at + negative
    at = start
    while ZERO <= byte_at(data, at) <= NINE:
        at += 1
    if at == start or at - start > most:
        return NOT_PLAIN
    if byte_at(data, start) == ZERO and (negative or at - start > 1):
        return NOT_PLAIN
    return at


@inlined
def _after_name(data: Any, at: int) -> int:
    """The value after the undeclared name at `at` and its colon; else NOT_PLAIN."""
    if byte_at(data, at) != QUOTE:
        return NOT_PLAIN
    at, _ = end_of_text(data, at + 1)
    if at == NOT_PLAIN:
        return NOT_PLAIN
    at = _after_space(data, at + 1)
    return _after_space(data, at + 1) if byte_at(data, at) == COLON else NOT_PLAIN


@inlined
def _after_scalar(data: Any, at: int) -> Any:
    """Where the undeclared value at `at`, no object and no list, ends; else NOT_PLAIN."""
    byte = byte_at(data, at)
    if byte == QUOTE:
        at, _ = end_of_text(data, at + 1)
        return at + 1 if at != NOT_PLAIN else NOT_PLAIN
    return skip_number(data, at) if byte <= NINE else _after_literal(data, at)


@kernel
def _after_value(data: Any, at: int) -> int:
    """Where the undeclared value at `at` ends; else NOT_PLAIN."""
    depth, objects = 0, uint64(0)  # a bit for each level: whether it is an object
    while True:
        opened = byte_at(data, at)
        is_object = opened == OPEN
        if is_object or opened == OPEN_LIST:
            depth += 1
            objects = objects << uint64(1) | uint64(is_object)
            at = _after_space(data, at + 1)
            if depth > DEEPEST:
                return NOT_PLAIN
            if byte_at(data, at) != (CLOSE if is_object else CLOSE_LIST):
                at = _after_name(data, at) if is_object else at
                if at == NOT_PLAIN:
                    return NOT_PLAIN
                continue
        else:
            at = _after_scalar(data, at)
            if at == NOT_PLAIN:
                return NOT_PLAIN
        while depth:
            at = _after_space(data, at)
            is_object = objects & uint64(1) == uint64(1)
            byte = byte_at(data, at)
            if byte == COMMA:
                at = _after_space(data, at + 1)
                at = _after_name(data, at) if is_object else at
                break
            if byte != (CLOSE if is_object else CLOSE_LIST):
                return NOT_PLAIN
            objects >>= uint64(1)
            depth -= 1
            at += 1
        if not depth or at == NOT_PLAIN:
            return at


@inlined
def _entry(data: Any, at: int, node: int, last: int, layout: Layout) -> Any:
    """The entry of the name at `at`, -1 if it is undeclared, and its closing quote.

    The second value is NOT_PLAIN if the name is not plain. The entry that came last after the entry
    `last` is tried first.
    """
    likely = layout.follows[last]
    if likely >= 0:
        start = layout.start[likely]
        size = layout.start[likely + 1] - start
        if same(data, at, layout.names, start, size) and byte_at(data, at + size) == QUOTE:
            return likely, at + size
    end, escapes = end_of_text(data, at)
    if escapes or end == NOT_PLAIN:
        return -1, NOT_PLAIN
    size, mask = end - at, uint64(layout.slots.size - 1)
    slot = hashed(data, at, size, node) & mask
    while layout.slots[slot] >= 0:
        entry = layout.slots[slot]
        start = layout.start[entry]
        if (
            layout.node[entry] == node
            and layout.start[entry + 1] - start == size
            and same(data, at, layout.names, start, size)
        ):
            return entry, end
        slot = (slot + uint64(1)) & mask
    return -1, end


@inlined
def _read_number(data: Any, at: int, kind: int, fives: Any, tens: Any) -> Any:
    """The value of a numeric field, and where it ends; else NOT_PLAIN."""
    byte = byte_at(data, at)
    if byte <= NINE:
        value, at = number(data, at, fives, tens)
        whole = value == 0.0 or value == 1.0
        if not -LARGEST <= value <= LARGEST or (kind == BINARY and not whole):
            at = NOT_PLAIN
        return value + 0.0, at  # -0.0 becomes 0.0
    end = _after_literal(data, at)
    if byte == LETTER_N:
        return nan, end if kind != GIVEN else NOT_PLAIN
    return 1.0 if byte == LETTER_T else 0.0, end if kind == BINARY else NOT_PLAIN


@inlined
def _read_span(data: Any, at: int, kind: int, longest: int) -> Any:
    """Start (-1: no value), end and kind of a value that is a span, and where it ends; else
    NOT_PLAIN."""
    byte = byte_at(data, at)
    if byte == QUOTE:
        end, escapes = end_of_text(data, at + 1)
        if kind == ID and not 0 < end - at - 1 <= longest:
            end = NOT_PLAIN
        what = ESCAPED_SPAN if escapes else TEXT_SPAN
        return at + 1, end, what, end + 1 if end != NOT_PLAIN else NOT_PLAIN
    if byte == LETTER_N:
        return -1, -1, 0, _after_literal(data, at)
    if kind == TEXT:
        return -1, -1, 0, NOT_PLAIN
    if byte <= NINE:
        end = _after_integer(data, at, SHORT if kind == CATEGORY else LONG)
        return at, end, INTEGER_SPAN, end
    end = _after_literal(data, at) if kind != ID else NOT_PLAIN
    return at, end, TRUTH_SPAN, end


@inlined
def _read_field(
    data: Any, at: int, entry: int, layout: Layout, powers: Any, numbers: Any, spans: Any, i: int
) -> int:
    """Read the value of a declared field into row i; returns where it ends, else NOT_PLAIN."""
    kind, column = layout.kind[entry], layout.column[entry]
    if kind <= GIVEN:
        numbers[i, column], at = _read_number(data, at, kind, powers[0], powers[1])
        return at
    start, end, what, at = _read_span(data, at, kind, layout.longest[entry])
    spans[i, column, START], spans[i, column, END], spans[i, column, OF_KIND] = start, end, what
    return at


@inlined
def _is_new(layout: Layout, entry: int, stamp: int) -> bool:
    """Whether the record `stamp` has neither the entry nor another one of its field before."""
    seen, field = layout.seen, layout.kind.size + layout.field[entry]
    if seen[entry] == stamp or seen[field] == stamp:
        return False
    seen[entry] = seen[field] = stamp
    return True


@inlined
def _value_of(data: Any, at: int) -> int:
    """The value after the colon that comes after a name; else NOT_PLAIN."""
    at = _after_space(data, at)
    return _after_space(data, at + 1) if byte_at(data, at) == COLON else NOT_PLAIN


@inlined
def _read_record(
    data: Any, at: int, stamp: int, layout: Layout, powers: Any, numbers: Any, spans: Any, i: int
) -> int:
    """Read the record at `at` into row i; returns where it ends, else NOT_PLAIN."""
    entries, depth, node = layout.kind.size, 0, 0
    last = entries
    at = _after_space(data, at)
    if byte_at(data, at) != OPEN:
        return NOT_PLAIN
    at = _after_space(data, at + 1)
    done = byte_at(data, at) == CLOSE  # whether a value or nothing is before `at`, and not a name
    while True:
        if not done:
            if byte_at(data, at) != QUOTE:
                return NOT_PLAIN
            entry, at = _entry(data, at + 1, node, last, layout)
            if at != NOT_PLAIN:
                at = _value_of(data, at + 1)
            if at == NOT_PLAIN:
                return NOT_PLAIN
            if entry >= 0:
                if not _is_new(layout, entry, stamp):
                    return NOT_PLAIN
                layout.follows[last] = entry
                last = entry
                if byte_at(data, at) == OPEN and layout.kind[entry] == PATH:
                    if depth == DEEPEST:
                        return NOT_PLAIN
                    layout.path[depth, 0], layout.path[depth, 1] = node, entry
                    depth, node = depth + 1, layout.child[entry]
                    last = entries + node
                    at = _after_space(data, at + 1)
                    done = byte_at(data, at) == CLOSE
                    continue
            if entry >= 0 and layout.kind[entry] != PATH:
                at = _read_field(data, at, entry, layout, powers, numbers, spans, i)
            else:
                at = _after_value(data, at)
            if at == NOT_PLAIN:
                return NOT_PLAIN
            at = _after_space(data, at)
        done = byte_at(data, at) == CLOSE
        if not done and byte_at(data, at) != COMMA:
            return NOT_PLAIN
        at = _after_space(data, at + 1)
        if done:
            if not depth:
                return at
            depth -= 1
            node, last = layout.path[depth, 0], layout.path[depth, 1]


@kernel
def read_records(
    data: Any,
    starts: Any,
    stamp: int,
    layout: Layout,
    powers: Any,
    numbers: Any,
    spans: Any,
    plain: Any,
) -> int:
    """Read records into rows; returns how many are plain. Others have no spans, and numbers
    without a meaning.

    data uint8 (n,): each record with NUL after it, then PADDING more bytes; starts int64 (rows +
    1,): where each one starts, and where the next one would; stamp: more than in any call before,
    by the rows of it. Results: numbers float64 (rows, columns), NaN: missing; spans int64 (rows,
    columns, 3): start (-1: missing), end and kind; plain bool (rows,).
    """
    count = 0
    for i in range(plain.size):
        for column in range(numbers.shape[1]):
            numbers[i, column] = nan
        for column in range(spans.shape[1]):
            spans[i, column, START] = spans[i, column, END] = -1
        end = _read_record(data, starts[i], stamp + i, layout, powers, numbers, spans, i)
        plain[i] = end == starts[i + 1] - 1
        count += plain[i]
        if not plain[i]:
            for column in range(spans.shape[1]):
                spans[i, column, START] = spans[i, column, END] = -1
    return count
