"""Kernels of text features with the places where they occur, for explanations."""

from __future__ import annotations

from typing import Any

from numpy import int64, uint64

from stream.kernel import inlined, kernel
from stream.text._kernels.features import (
    CASED,
    DIGIT,
    DROPPED,
    FIELDS,
    GRAMS,
    HIDDEN,
    IDEOGRAPH,
    INVISIBLE,
    LATIN,
    LETTERS,
    MOST_BYTES,
    MOST_PAIRED,
    NEXT,
    NEXT_BUT_ONE,
    PAIRS,
    SHAPE,
    SIGN,
    SPACE,
    START,
    TOKEN,
    UPPER,
    WIDEST,
    WORDS,
    entry_of,
    hash_of,
    key_of,
    mixed,
    utf8_byte,
    utf8_size,
)

# What a part of a record is: a token, two tokens, single letters in a row, what is between the
# tokens, characters that cannot be seen, and another field.
ONE, TWO, JOINED, BETWEEN, UNSEEN, OTHER = 0, 1, 2, 3, 4, 5
PLACE = 6  # numbers of a part: its text or field, what it is, and the ends of one or two tokens


@inlined
def note(view: int, key: int, part: int, found: Any, n: int) -> int:
    """Write a feature and the hash of its part to found[0] and found[1], uint64 (any,)."""
    found[0][n] = uint64(view) << uint64(32) | uint64(key)
    found[1][n] = part
    return n + 1


@inlined
def put(place: Any, n: int, t: int, kind: int, a: int, b: int, c: int, d: int) -> None:
    """Write a part to place int32 (any, PLACE)."""
    place[n, 0], place[n, 1] = t, kind
    place[n, 2], place[n, 3], place[n, 4], place[n, 5] = a, b, c, d


@kernel
def tokens(code: Any, first: int, last: int, table: Any, where: Any, hashes: Any) -> int:
    """The tokens of a text: where int64 (7, any) has the begin and end of each, how many
    characters, capitals and digits it has, its kind, and flags (LATIN; 1: it looks like another
    word); hashes uint64 (any,) of its lower case. Returns how many there are."""
    n, i = 0, first
    while i < last:
        kind = (entry_of(code[uint64(i)], table) >> 40) & 7
        if kind in (SPACE, DROPPED):
            i += 1
            continue
        h, begin, size, upper, digits, flags_of = uint64(TOKEN), i, 0, 0, 0, 0
        while i < last:
            entry = entry_of(code[uint64(i)], table)
            flags = entry >> 40
            if flags & 7 == DROPPED:
                i += 1
                continue
            if flags & 7 != kind or (kind == IDEOGRAPH and size == 1):
                break
            low = entry & 0xFFFFF
            h = mixed(h, low)
            size += 1
            upper += (flags & UPPER) != 0
            digits += (flags & DIGIT) != 0
            flags_of |= (flags & LATIN) | int64(low != (entry >> 20 & 0xFFFFF))
            i += 1
        hashes[n] = h
        where[0, n], where[1, n], where[2, n], where[3, n] = begin, i, size, upper
        where[4, n], where[5, n], where[6, n] = digits, kind, flags_of
        n += 1
    return n


@kernel
def words(
    code: Any, t: int, first: int, count: int, table: Any, salt: Any, tokens: Any, out: Any, n: int
) -> int:
    """Write the words and pairs of a text in the order of its tokens to out from n on.

    tokens: where and hashes of `tokens`, of which there are `count`. out: `found` and `place` as in
    `occurrences`. Returns the end.
    """
    where, hashes = tokens
    found, place = out
    salted = salt[WORDS]
    joined, letters, begins, ends = uint64(0), 0, 0, 0
    before, before_that = uint64(START), uint64(0)
    for k in range(count + 1):
        kind, size, flags = SPACE, 2, 0
        if k < count:
            begin, end, size, upper = where[0, k], where[1, k], where[2, k], where[3, k]
            digits, kind, flags = where[4, k], where[5, k], where[6, k]
            h = hashes[k]
            part, token = mixed(h, salted), h
            put(place, n, t, ONE, begin - first, end - first, 0, 0)
            n = note(WORDS, key_of(h, salted), part, found, n)
            if digits > 0:
                token = hash_of(code, begin, end, table, SHAPE)
                put(place, n, t, ONE, begin - first, end - first, 0, 0)
                n = note(WORDS, key_of(token, salted), part, found, n)
            if upper >= WIDEST and upper + digits == size:
                cased = hash_of(code, begin, end, table, CASED)
                put(place, n, t, ONE, begin - first, end - first, 0, 0)
                n = note(WORDS, key_of(cased, salted), part, found, n)
            if flags == LATIN | 1:
                look = hash_of(code, begin, end, table, INVISIBLE)
                put(place, n, t, ONE, begin - first, end - first, 0, 0)
                n = note(WORDS, key_of(look, salted), part, found, n)
        if size == 1 and flags & LATIN:
            look_of = entry_of(code[uint64(begin)], table) >> 20 & 0xFFFFF
            joined = mixed(uint64(TOKEN) if letters == 0 else joined, look_of)
            begins = begin if letters == 0 else begins
            letters, ends = letters + 1, end
        elif kind != SIGN or size > 1:
            if letters >= LETTERS:
                put(place, n, t, JOINED, begins - first, ends - first, 0, 0)
                n = note(WORDS, key_of(joined, salted), mixed(joined, salted), found, n)
            letters = 0
        if k >= min(count, MOST_PAIRED):
            continue
        put(place, n, t, ONE, begin - first, end - first, 0, 0)
        n = note(PAIRS, key_of(token, salt[PAIRS]), part, found, n)
        for distance in range(1, min(k + 1, 2) + 1):
            other, sign = (before, NEXT) if distance == 1 else (before_that, NEXT_BUT_ONE)
            key = key_of(mixed(mixed(other, sign), token), salt[PAIRS])
            a = k - distance
            if a < 0:
                put(place, n, t, ONE, begin - first, end - first, 0, 0)
                n = note(PAIRS, key, part, found, n)
            else:
                c, d = where[0, a] - first, where[1, a] - first
                put(place, n, t, TWO, c, d, begin - first, end - first)
                both = mixed(mixed(mixed(hashes[a], NEXT), h), salted)
                n = note(PAIRS, key, both, found, n)
        before_that, before = before, token
    return n


@kernel
def grams(
    code: Any,
    t: int,
    first: int,
    last: int,
    count: int,
    table: Any,
    salt: Any,
    tokens: Any,
    out: Any,
    n: int,
) -> int:
    """Write the 4-grams of a text to out from n on, each with the token in which it begins."""
    where, hashes = tokens
    found, place = out
    window, done, token = uint64(0), 0, 0
    b1, b2, b3 = first, first, first  # where the last three bytes come from
    for i in range(first, last):
        entry = entry_of(code[uint64(i)], table)
        if (entry >> 40) & HIDDEN:
            continue
        c = uint64(entry & 0xFFFFF)
        size = utf8_size(c)
        if done + size > MOST_BYTES:
            break
        for k in range(size):
            window = (window << uint64(8) | utf8_byte(c, size, k)) & uint64(0xFFFFFFFF)
            begins = i if done == 0 else b1 if done == 1 else b2 if done == 2 else b3
            b3 = i if done == 0 else b1 if done == 1 else b2
            b2 = i if done == 0 else b1
            b1 = i
            done += 1
            while token < count and where[1, token] <= begins:
                token += 1
            key = key_of(window, salt[GRAMS])
            if token < count and where[0, token] <= i:
                put(place, n, t, ONE, where[0, token] - first, where[1, token] - first, 0, 0)
                n = note(GRAMS, key, mixed(hashes[token], salt[WORDS]), found, n)
            else:
                put(place, n, t, BETWEEN, 0, 0, 0, 0)
                n = note(GRAMS, key, mixed(uint64(SPACE), salt[WORDS]), found, n)
    return n


@kernel
def occurrences(texts: Any, group: Any, r: int, table: Any, tokens_of: Any, out: Any) -> int:
    """The features of row r as often as they occur, in the order of their definition.

    texts: `stream.text.features.Texts`. group uint64: of each of its other keys. tokens_of: where
    int64 (7, any) and hashes uint64 (any,), room for the tokens of a text. out: found, two arrays
    uint64 (any,), view · 2**32 + key and the hash of the part that it stands for; and place int32
    (any, PLACE) of that part. Returns how many there are.
    """
    found, place = out
    n = 0
    for t in range(texts.of_row[r], texts.of_row[r + 1]):
        first, last, salt = (texts.end[t - 1] if t > 0 else 0), texts.end[t], texts.salt[t]
        count = tokens(texts.code, first, last, table, tokens_of[0], tokens_of[1])
        begin, shift = n, texts.shift[t]
        n = words(texts.code, t, first, count, table, salt, tokens_of, out, n)
        for i in range(first, last):
            if (entry_of(texts.code[uint64(i)], table) >> 40) & HIDDEN:
                put(place, n, t, UNSEEN, 0, 0, 0, 0)
                unseen = key_of(uint64(INVISIBLE), salt[WORDS])
                n = note(WORDS, unseen, mixed(uint64(INVISIBLE), salt[WORDS]), found, n)
                break
        n = grams(texts.code, t, first, last, count, table, salt, tokens_of, out, n)
        for i in range(begin, n):
            found[0][uint64(i)] += uint64(shift) << uint64(32)
    for k in range(texts.others[r], texts.others[r + 1]):
        put(place, n, k, OTHER, 0, 0, 0, 0)
        n = note(FIELDS, texts.other[k], group[k], found, n)
    return n
