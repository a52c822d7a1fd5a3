"""The texts inside JSON: where they end, which are equal, and copies of them in a row."""

from __future__ import annotations

from typing import Any

from numpy import int64, uint64

from consumers.codecs._kernels.numbers import NOT_PLAIN, ZERO
from consumers.codecs._kernels.words import byte_at, high_product, low_zeros, put_word, word_at
from stream.kernel import inlined, kernel

__all__ = ["copy", "end_of_text", "group", "hashed", "same"]

ONES, HIGH = 0x0101010101010101, 0x8080808080808080
QUOTES, SLASHES = 0x2222222222222222, 0x5C5C5C5C5C5C5C5C
QUOTE, BACKSLASH, SLASH, SPACE, ASCII_END = 34, 92, 47, 32, 128
LETTER_A, LETTER_B, LETTER_F, LETTER_N, LETTER_R, LETTER_T, LETTER_U = b"abfnrtu"
SURROGATES, HIGH_SURROGATE, LOW_SURROGATE = 0xFC00, 0xD800, 0xDC00
TEXT_SPAN, INTEGER_SPAN, TRUTH_SPAN, ESCAPED_SPAN = 0, 1, 2, 3  # what is in a span
GOLDEN = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio: Knuth's multiplicative hashing
MOST_PROBES = 64  # then a value has a group of its own, so that no values can make it slow


@inlined
def _zero_bytes(word: int) -> Any:
    """A word whose lowest bit is in the first byte that is 0; else 0. word uint64."""
    return (word - uint64(ONES)) & ~word & uint64(HIGH)


@inlined
def _follows(data: Any, at: int, low: int, high: int) -> Any:
    """Whether the byte at `at` is from `low` to `high`."""
    byte = byte_at(data, at)
    return low <= byte <= high


@inlined
def _end_of_character(data: Any, at: int) -> int:
    """Where the UTF-8 of the character at `at`, which is not ASCII, ends; else NOT_PLAIN."""
    first = byte_at(data, at)
    low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
    high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
    size = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if first < 0xC2 or first > 0xF4 or not _follows(data, at + 1, low, high):
        return NOT_PLAIN
    for k in range(2, size):
        if not _follows(data, at + k, 0x80, 0xBF):
            return NOT_PLAIN
    return at + size


@inlined
def _letter(byte: int) -> int:
    """What an escape of one letter stands for; NOT_PLAIN if there is no such escape."""
    if byte in (QUOTE, BACKSLASH, SLASH):
        return byte
    if byte == LETTER_N:
        return 10
    if byte == LETTER_T:
        return 9
    return 13 if byte == LETTER_R else 8 if byte == LETTER_B else 12 if byte == LETTER_F else -1


@inlined
def _unit(data: Any, at: int) -> int:
    """The value of the escape of six characters at `at`; else NOT_PLAIN."""
    if byte_at(data, at) != BACKSLASH or byte_at(data, at + 1) != LETTER_U:
        return NOT_PLAIN
    value = 0
    for k in range(2, 6):
        byte = byte_at(data, at + k)
        digit = byte - ZERO
        if digit < 0 or digit > 9:
            digit = (byte | 32) - LETTER_A + 10
            if digit < 10 or digit > 15:
                return NOT_PLAIN
        value = 16 * value + digit
    return value


@kernel
def _character(data: Any, at: int) -> Any:
    """The code point of the escape at `at`, and where it ends; else NOT_PLAIN.

    NUL and half of a surrogate pair are not plain.
    """
    letter = _letter(byte_at(data, at + 1))
    if letter != NOT_PLAIN:
        return letter, at + 2
    unit = _unit(data, at)
    if unit <= 0:
        return unit, NOT_PLAIN
    if unit & SURROGATES != HIGH_SURROGATE:
        return unit, at + 6 if unit & SURROGATES != LOW_SURROGATE else NOT_PLAIN
    other = _unit(data, at + 6)
    if other < 0 or other & SURROGATES != LOW_SURROGATE:
        return unit, NOT_PLAIN
    return 0x10000 + ((unit & 0x3FF) << 10) + (other & 0x3FF), at + 12


@kernel
def end_of_text(data: Any, at: int) -> Any:
    """The closing quote of the text from `at`, and whether it has escapes; NOT_PLAIN if it is not
    plain.

    A plain text is UTF-8 without control characters, and its escapes stand for something else than
    NUL. data uint8 (n,): a control character comes before eight more bytes.
    """
    escapes = False
    while True:
        word = word_at(data, at)
        special = _zero_bytes(word ^ uint64(QUOTES)) | _zero_bytes(word ^ uint64(SLASHES))
        special |= (word - uint64(SPACE * ONES)) & ~word & uint64(HIGH)  # a control character
        special |= word & uint64(HIGH)
        if special == uint64(0):
            at += 8
            continue
        at += low_zeros(special) >> 3
        byte = byte_at(data, at)
        if byte == QUOTE:
            return at, escapes
        if byte >= ASCII_END:
            at = _end_of_character(data, at)
        elif byte == BACKSLASH:
            escapes = True
            _, at = _character(data, at)
        else:
            at = NOT_PLAIN
        if at == NOT_PLAIN:
            return NOT_PLAIN, escapes


@inlined
def _put_character(point: int, out: Any, end: int) -> int:
    """Write a code point in UTF-8; returns where it ends."""
    if point < ASCII_END:
        out[end] = point
        return end + 1
    size = 2 if point < 0x800 else 3 if point < 0x10000 else 4
    for k in range(size - 1, 0, -1):
        out[end + k] = 0x80 | point & 0x3F
        point >>= 6
    out[end] = (0xF00 >> size) & 0xFF | point
    return end + size


@kernel
def _copy_escaped(data: Any, at: int, stop: int, out: Any, end: int) -> int:
    """Copy a plain text and replace its escapes; returns where the copy ends."""
    while at < stop:
        word = word_at(data, at)
        slashes = _zero_bytes(word ^ uint64(SLASHES))
        size = min(low_zeros(slashes) >> 3 if slashes != uint64(0) else 8, stop - at)
        put_word(out, end, word)  # what is too much is written over
        end, at = end + size, at + size
        if slashes != uint64(0) and at < stop:
            point, at = _character(data, at)
            end = _put_character(point, out, end)
    return end


@inlined
def same(data: Any, at: int, other: Any, start: int, size: int) -> bool:
    """Whether `size` bytes from `at` of data and from `start` of other are equal; uint8 (n,)."""
    while size >= 8:
        if word_at(data, at) != word_at(other, start):
            return False
        at, start, size = at + 8, start + 8, size - 8
    different = word_at(data, at) ^ word_at(other, start)
    return size == 0 or different << uint64(64 - 8 * size) == uint64(0)


@inlined
def hashed(data: Any, at: int, size: int, seed: int) -> Any:
    """A hash, uint64, of `size` bytes from `at` of data, uint8 (n,), and of a seed."""
    h = uint64(seed) ^ uint64(size)
    while size > 0:
        word = word_at(data, at)
        if size < 8:
            word <<= uint64(64 - 8 * size)
        h ^= word
        h = h * uint64(GOLDEN) ^ high_product(h, uint64(GOLDEN))
        at, size = at + 8, size - 8
    return h ^ h >> uint64(32)


@kernel
def group(data: Any, spans: Any, column: int, code: Any, first: Any, table: Any) -> int:
    """Number the distinct values of a column, from 0, in their order. Returns how many there are.

    data uint8 (n,); spans int64 (rows, columns, 3): start, end and kind of each value; a start of
    -1 is no value. Results: code int64 (rows,), the number of each value or -1; first int64
    (rows,), the first row of each number. table int64 (a power of two, above rows): all -1.
    """
    count, mask = 0, uint64(table.size - 1)
    for i in range(code.size):
        start, kind = spans[i, column, 0], spans[i, column, 2]
        code[i] = -1
        if start < 0:
            continue
        size = spans[i, column, 1] - start
        at = hashed(data, start, size, kind) & mask
        for _ in range(MOST_PROBES):
            if table[at] < 0:
                table[at] = count
                break
            k = table[at]
            j = first[k]
            begin = spans[j, column, 0]
            if (
                spans[j, column, 1] - begin == size
                and spans[j, column, 2] == kind
                and same(data, start, data, begin, size)
            ):
                code[i] = k
                break
            at = (at + uint64(1)) & mask
        if code[i] < 0:
            code[i], first[count] = count, i
            count += 1
    return count


@kernel
def copy(data: Any, spans: Any, column: int, rows: Any, out: Any, ends: Any) -> Any:
    """Copy the values of these rows without escapes, one after the other.

    data, spans: as in `group`; no value is copied as an empty one. rows int64 (n,); out uint8, with
    room for the values and eight bytes more; ends int64 (n,): where each ends.
    """
    end = int64(0)
    for k in range(rows.size):
        start = spans[rows[k], column, 0]
        size = spans[rows[k], column, 1] - start
        if start >= 0 and spans[rows[k], column, 2] == ESCAPED_SPAN:
            end = _copy_escaped(data, start, start + size, out, end)
        elif start >= 0:
            for at in range(0, size, 8):  # the last word may be too long: the next value is over it
                put_word(out, end + at, word_at(data, start + at))
            end += size
        ends[k] = end
