"""Kernels of text features: words, pairs of tokens and byte 4-grams as hashed sets."""

from __future__ import annotations

from typing import Any

from numpy import empty, int64, uint32, uint64, zeros

from stream.kernel import inlined, kernel

# Flags of a character. The lowest three bits are its kind.
SPACE, WORD, SIGN, IDEOGRAPH, DROPPED = 0, 1, 2, 3, 4
UPPER, DIGIT, LATIN, HIDDEN = 8, 16, 32, 64

GOLDEN = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio: Knuth's multiplicative hashing
MIXER = 0xBF58476D1CE4E5B9  # of Steele, Lea and Flood 2014 (SplitMix64)
TABLE = 0x20000  # code points with an entry; those beyond it are ideographs, or nobody sees them:
TAGS, TAGS_END = 0xE0000, 0xE1000  # tags, and selectors of variations
# Where a hash begins, by what is hashed.
TOKEN, SHAPE, CASED, INVISIBLE, START = 11, 13, 17, 19, 23
NEXT, NEXT_BUT_ONE = 29, 31  # the distance of the tokens of a pair
WORDS, GRAMS, PAIRS, FIELDS = 0, 1, 2, 3  # views
SENT = 4  # added to the view of a text that says how a message was sent
VIEWS = 7
MOST_BYTES = 1000  # of which 4-grams are taken, in each text
MOST_PAIRED = 400  # tokens of which pairs are taken, in each text
LETTERS = 4  # so many single letters in a row are read as one word too: "v i a g r a"
WIDEST = 3  # letters in capitals from which a word is read as written too


@inlined
def mixed(h: int, x: int) -> Any:
    """Hash h, uint64, with another value x in it."""
    product = (uint64(h) ^ uint64(x)) * uint64(GOLDEN)
    return product ^ (product >> uint64(29))


@inlined
def key_of(h: int, salt: int) -> Any:
    """The key, uint32 and never 0, of a hash in the field and view of this salt."""
    product = mixed(h, salt) * uint64(MIXER)
    return max(uint32(product >> uint64(32)), uint32(1))


@inlined
def places(keys: int) -> int:
    """How many places `once` needs for so many keys: a power of two."""
    size = 16
    while size < 3 * keys:
        size *= 2
    return size


@inlined
def place_by(k: int, secret: int) -> Any:
    """Where to look for a key in a scratch table, uint64, of which the lowest bits count.

    secret uint64, odd: of the process. Keys come from strangers, who could choose those of one
    place; each of them would be compared with all others.
    """
    return (uint64(k) * uint64(secret)) >> uint64(32)


@kernel
def once(key: Any, begin: int, end: int, seen: Any, secret: int) -> Any:
    """Keep the first of equal keys in key[begin:end], in their order; returns the new end.

    key, seen uint32. seen: all 0, before and after, with at least `places` of the number of keys.
    secret: see `place_by`. There are no branches on what cannot be predicted.
    """
    size = places(end - begin)
    mask, at = uint64(size - 1), uint64(begin)
    for i in range(begin, end):
        k = key[uint64(i)]
        p = place_by(k, secret) & mask
        while (seen[p] != uint32(0)) & (seen[p] != k):
            p = (p + uint64(1)) & mask
        key[at] = k
        at += uint64(seen[p] == uint32(0))
        seen[p] = k
    seen[:size] = uint32(0)
    return int64(at)


@inlined
def entry_of(c: int, table: Any) -> Any:
    """The entry of a code point in `characters()`, int64 (TABLE,)."""
    if c < TABLE:
        return table[uint64(c)]
    if TAGS <= c < TAGS_END:
        return (c << 20 | c) | ((DROPPED | HIDDEN) << 40)
    return (c << 20 | c) | (IDEOGRAPH << 40)


@kernel
def hash_of(code: Any, begin: int, end: int, table: Any, start: int) -> Any:
    """The hash of a token code[begin:end], from `start`: of its lower case (TOKEN); with each digit
    as 0 (SHAPE); as written (CASED); or of what it looks like (INVISIBLE)."""
    h = uint64(TOKEN if start == INVISIBLE else start)
    for i in range(begin, end):
        c = code[uint64(i)]
        entry = entry_of(c, table)
        if (entry >> 40) & 7 == DROPPED:
            continue
        if start == CASED:
            h = mixed(h, c)
        elif start == INVISIBLE:
            h = mixed(h, entry >> 20 & 0xFFFFF)
        elif start == SHAPE and (entry >> 40) & DIGIT:
            h = mixed(h, 48)
        else:
            h = mixed(h, entry & 0xFFFFF)
    return h


@inlined
def spell(
    code: Any,
    begin: int,
    end: int,
    table: Any,
    salt: int,
    capitals: bool,
    unlike: bool,
    key: Any,
    at: int,
) -> int:
    """Write a word as written, if in capitals, and as what it looks like, if that is not itself."""
    if capitals:
        key[at] = key_of(hash_of(code, begin, end, table, CASED), salt)
        at += 1
    if unlike:
        key[at] = key_of(hash_of(code, begin, end, table, INVISIBLE), salt)
        at += 1
    return at


@inlined
def pair_up(
    before: int, before_that: int, token: int, tokens: int, salt: int, pair: Any, n: int
) -> int:
    """Write a token, alone and with the one before, and the one before that if there is one."""
    pair[n] = key_of(token, salt)
    pair[n + 1] = key_of(mixed(mixed(before, NEXT), token), salt)
    if tokens == 0:
        return n + 2
    pair[n + 2] = key_of(mixed(mixed(before_that, NEXT_BUT_ONE), token), salt)
    return n + 3


@kernel
def scan(
    code: Any, first: int, last: int, table: Any, salt: Any, key: Any, at: int, pair: Any, n: int
) -> Any:
    """Write the words of a text to key[at:], and its tokens and pairs of tokens to pair[n:].

    The start of the text is a token of pairs. code int32: its characters are code[first:last].
    table: `characters()`. salt uint64 (SENT,).
    key, pair uint32: room for 4 a character, and 3. Returns the ends of both.
    """
    before, before_that, joined = uint64(START), uint64(0), uint64(0)
    tokens = letters = 0
    hidden, i = False, first
    while i < last:
        entry = entry_of(code[uint64(i)], table)
        kind = (entry >> 40) & 7
        if kind in (SPACE, DROPPED):
            hidden = hidden or ((entry >> 40) & HIDDEN) != 0
            i += 1
            continue
        h, begin, size, upper, digits, latin, unlike = uint64(TOKEN), i, 0, 0, 0, False, False
        while i < last:
            entry = entry_of(code[uint64(i)], table)
            flags = entry >> 40
            if flags & 7 == DROPPED:
                hidden = hidden or (flags & HIDDEN) != 0
                i += 1
                continue
            if flags & 7 != kind or (kind == IDEOGRAPH and size == 1):
                break
            low = entry & 0xFFFFF
            h = mixed(h, low)
            size += 1
            upper += (flags & UPPER) != 0
            digits += (flags & DIGIT) != 0
            latin = latin or (flags & LATIN) != 0
            unlike = unlike or low != (entry >> 20 & 0xFFFFF)
            i += 1
        key[at] = key_of(h, salt[WORDS])
        at += 1
        token = h
        if digits > 0:
            token = hash_of(code, begin, i, table, SHAPE)
            key[at] = key_of(token, salt[WORDS])
            at += 1
        capitals = upper >= WIDEST and upper + digits == size
        at = spell(code, begin, i, table, salt[WORDS], capitals, latin and unlike, key, at)
        if size == 1 and latin:
            look = entry_of(code[uint64(begin)], table) >> 20 & 0xFFFFF
            joined = mixed(uint64(TOKEN) if letters == 0 else joined, look)
            letters += 1
        elif kind != SIGN or size > 1:
            if letters >= LETTERS:
                key[at] = key_of(joined, salt[WORDS])
                at += 1
            letters = 0
        if tokens >= MOST_PAIRED:
            continue
        n = pair_up(before, before_that, token, tokens, salt[PAIRS], pair, n)
        before_that, before = before, token
        tokens += 1
    if letters >= LETTERS:
        key[at] = key_of(joined, salt[WORDS])
        at += 1
    if hidden:
        key[at] = key_of(uint64(INVISIBLE), salt[WORDS])
        at += 1
    return at, n


@inlined
def utf8_size(c: int) -> int:
    """How many bytes the character c uint64 has in UTF-8."""
    return 1 if c < 0x80 else 2 if c < 0x800 else 3 if c < 0x10000 else 4


@inlined
def utf8_byte(c: Any, size: int, k: int) -> Any:
    """Byte k of the `size` bytes of the character c uint64, as uint64."""
    if size == 1:
        return c
    if k == 0:
        return uint64(0xF00 >> size & 0xFF) | c >> uint64(6 * (size - 1))
    return uint64(0x80) | (c >> uint64(6 * (size - 1 - k)) & uint64(0x3F))


@kernel
def grams(code: Any, first: int, last: int, table: Any, salt: int, key: Any, at: int) -> int:
    """Write the 4-grams of the first MOST_BYTES bytes of a text to key[at:]; returns the end.

    The bytes are the UTF-8 of its characters in lower case, without invisible ones. Three zeros
    stand before them, as the start of the text.
    """
    window, done = uint64(0), 0
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
            done += 1
            key[at] = key_of(window, salt)
            at += 1
    return at


@kernel
def features(
    code: Any,
    end: Any,
    salt: Any,
    shift: Any,
    texts: Any,
    other: Any,
    others: Any,
    table: Any,
    most: int,
    secret: int,
    key: Any,
    start: Any,
) -> None:
    """The keys of each row, each once in a view, in the order in which they occur.

    code int32 (n,): the code points of all texts; end int64 (t,): the end of each text. salt uint64
    (t, SENT): of its field. shift int64 (t,): SENT or 0, added to its views. Row r has the texts
    texts[r] … texts[r + 1] - 1, int64 (rows + 1,), and the keys other[others[r]] …
    other[others[r + 1] - 1], uint32 and int64 (rows + 1,), of its other fields. table:
    `characters()`. most: characters of a row at most. secret: see `place_by`. key uint32: room for
    all keys. start int64 (rows · VIEWS + 1,): view v of row r is key[start[r · VIEWS + v]] ….
    """
    pair = empty(3 * most + 1, uint32)
    widest = 4 * most  # keys in a view of texts at most
    for r in range(texts.shape[0] - 1):
        widest = max(widest, others[r + 1] - others[r])
    seen = zeros(places(widest), uint32)
    at = 0
    start[0] = 0
    for r in range(texts.shape[0] - 1):
        for group in range(0, VIEWS, SENT):
            begin, n, of = at, 0, r * VIEWS + group
            for t in range(texts[r], texts[r + 1]):
                if shift[t] == group:
                    first = end[t - 1] if t > 0 else 0
                    at, n = scan(code, first, end[t], table, salt[t], key, at, pair, n)
            at = once(key, begin, at, seen, secret)
            start[of + GRAMS] = begin = at
            for t in range(texts[r], texts[r + 1]):
                if shift[t] == group:
                    first = end[t - 1] if t > 0 else 0
                    at = grams(code, first, end[t], table, salt[t, GRAMS], key, at)
            at = once(key, begin, at, seen, secret)
            start[of + PAIRS] = begin = at
            for k in range(n):
                key[at] = pair[k]
                at += 1
            at = once(key, begin, at, seen, secret)
            start[of + FIELDS] = begin = at
            if group == 0:
                for k in range(others[r], others[r + 1]):
                    key[at] = other[k]
                    at += 1
                at = once(key, begin, at, seen, secret)
                start[of + SENT] = at
