"""The ids of the label join in arrays.

Rule: the hash of an id decides only in which chain it lies. No result depends on it, because ids of
each kind are in a list of their own, ordered by time of arrival.
"""

from __future__ import annotations

from typing import Any

from numpy import int64, uint8, uint64

from stream.kernel import inlined, kernel

__all__: list[str] = []

# Kinds of entries. FREE: the entry has no id.
FREE, WAITING, EARLY, SETTLED = 0, 1, 2, 3
# Columns of `links`. CHAIN: the next entry with the same end of the hash, or the next free entry.
# BEFORE, AFTER: its neighbours in the list of its kind. LENGTH: bytes of the id. SLOT: of its row,
# or -1. CODE: of its label. -1 means none.
CHAIN, BEFORE, AFTER, HASH, LENGTH, SLOT, CODE, KIND = range(8)
# Columns of `values`. START: where the id begins, and in which store. SIZE: bytes of the entry
# towards `max_bytes`, without its row.
START, TIME, LEARNED, SIZE = range(4)
NO_LABEL, OTHER_LABEL = -1, -2  # codes; the other label is known to Python only
# Counters. FIRST, LAST and COUNT have one for each kind.
ENTRIES, FREE_ENTRY, BUCKETS, MASK, SIDE, USED, ID_BYTES = range(7)
SLOTS, FREE_SLOTS, ROW_BYTES = range(7, 10)
TEXT_BYTES, EARLY_BYTES, SETTLED_BYTES, NOW, OLDEST, RECORDS = range(10, 16)
FIRST, LAST, COUNT = 16, 20, 24
UNHEARD = 28  # the oldest waiting entry whose silence has not been heard
COUNTERS = 29
# LEARNED of a waiting entry: whether its silence has been heard, or will be void.
NOT_HEARD, IS_FLAGGED, HEARD = 0, 1, 2


# The hash: SipHash-1-3, whose key others do not know, so that nobody can choose ids that collide.


@inlined
def rotated(x: Any, n: Any) -> Any:
    """x, uint64, rotated left by n bits."""
    return (x << uint64(n)) | (x >> uint64(64 - n))


@inlined
def mixed(a: Any, b: Any, c: Any, d: Any) -> Any:
    """One round of SipHash."""
    a += b
    b = rotated(b, 13) ^ a
    a = rotated(a, 32)
    c += d
    d = rotated(d, 16) ^ c
    a += d
    d = rotated(d, 21) ^ a
    c += b
    b = rotated(b, 17) ^ c
    c = rotated(c, 32)
    return a, b, c, d


@inlined
def hash_of(data: Any, start: int, stop: int, key: Any) -> Any:
    """SipHash-1-3 of data[start:stop], uint8, with a key of two uint64."""
    a, b = key[0] ^ uint64(0x736F6D6570736575), key[1] ^ uint64(0x646F72616E646F6D)
    c, d = key[0] ^ uint64(0x6C7967656E657261), key[1] ^ uint64(0x7465646279746573)
    at, end = uint64(start), uint64(stop)
    last = (end - at) << uint64(56)
    while end - at >= uint64(8):
        word = uint64(0)
        for k in range(8):
            word |= uint64(data[at + uint64(k)]) << uint64(8 * k)
        d ^= word
        a, b, c, d = mixed(a, b, c, d)
        a ^= word
        at += uint64(8)
    for k in range(int64(end - at)):
        last |= uint64(data[at + uint64(k)]) << uint64(8 * k)
    d ^= last
    a, b, c, d = mixed(a, b, c, d)
    a ^= last
    c ^= uint64(0xFF)
    for _ in range(3):
        a, b, c, d = mixed(a, b, c, d)
    return a ^ b ^ c ^ d


# The table: chains of entries. It grows by one chain for each id that is added (linear hashing), so
# that no call moves all ids.


@inlined
def short_hash(hashed: Any) -> Any:
    """The part of a hash that an entry keeps, int64 from 0 to 2**31 - 1."""
    return int64(hashed & uint64(0x7FFFFFFF))


@inlined
def bucket_of(t: Any, short: int) -> Any:
    """The chain of a short hash."""
    mask = t.counts[MASK]
    at = short & (2 * mask + 1)
    return at if at < t.counts[BUCKETS] else short & mask


@inlined
def is_id(t: Any, entry: int, data: Any, start: int, stop: int) -> Any:
    """Whether the bytes of an entry's id are data[start:stop]."""
    place = t.values[entry, START]
    store = t.first if place & 1 == 0 else t.second
    at, begin = uint64(place >> 1), uint64(start)
    length, k = uint64(stop - start), uint64(0)
    while k < length and store[at + k] == data[begin + k]:
        k += uint64(1)
    return k == length


@inlined
def found(t: Any, data: Any, start: int, stop: int, short: int) -> Any:
    """The entry of the id data[start:stop]; -1 without one."""
    entry = int64(t.heads[bucket_of(t, short)])
    while entry >= 0:
        alike = t.links[entry, HASH] == short and t.links[entry, LENGTH] == stop - start
        if alike and is_id(t, entry, data, start, stop):
            return entry
        entry = int64(t.links[entry, CHAIN])
    return entry


@kernel
def look_up(t: Any, data: Any) -> Any:
    """The entry of one id, uint8 (bytes,); -1 without one."""
    return found(t, data, 0, data.size, short_hash(hash_of(data, 0, data.size, t.key)))


@inlined
def split(t: Any) -> None:
    """One more chain: entries of the chain that comes first are divided between both."""
    c = t.counts
    new, mask = c[BUCKETS], c[MASK]
    old = new - mask - 1
    entry, stay, leave = int64(t.heads[old]), int64(-1), int64(-1)
    while entry >= 0:
        following = int64(t.links[entry, CHAIN])
        if t.links[entry, HASH] & (mask + 1):
            t.links[entry, CHAIN] = leave
            leave = entry
        else:
            t.links[entry, CHAIN] = stay
            stay = entry
        entry = following
    t.heads[old], t.heads[new] = stay, leave
    c[BUCKETS] = new + 1
    if new + 1 == 2 * (mask + 1):
        c[MASK] = 2 * mask + 1


@inlined
def append(t: Any, entry: int, kind: int) -> None:
    """Put an entry at the end of the list of a kind."""
    c, last = t.counts, t.counts[LAST + kind]
    t.links[entry, KIND], t.links[entry, BEFORE], t.links[entry, AFTER] = kind, last, -1
    if last >= 0:
        t.links[last, AFTER] = entry
    else:
        c[FIRST + kind] = entry
    c[LAST + kind] = entry
    c[COUNT + kind] += 1
    if kind == WAITING and c[UNHEARD] < 0:
        c[UNHEARD] = entry


@inlined
def leave(t: Any, entry: int) -> None:
    """Take an entry out of the list of its kind."""
    c, kind = t.counts, int64(t.links[entry, KIND])
    before, after = int64(t.links[entry, BEFORE]), int64(t.links[entry, AFTER])
    if entry == c[UNHEARD]:
        c[UNHEARD] = after
    if before >= 0:
        t.links[before, AFTER] = after
    else:
        c[FIRST + kind] = after
    if after >= 0:
        t.links[after, BEFORE] = before
    else:
        c[LAST + kind] = before
    c[COUNT + kind] -= 1


@inlined
def add(t: Any, data: Any, start: int, stop: int, short: int, kind: int) -> Any:
    """A new entry for an id that is not there; returns it. `IdTable` has made room."""
    c = t.counts
    entry = c[FREE_ENTRY]
    if entry >= 0:
        c[FREE_ENTRY] = t.links[entry, CHAIN]
    else:
        entry = c[ENTRIES]
        c[ENTRIES] += 1
    store = t.first if c[SIDE] == 0 else t.second
    at, begin, length = uint64(c[USED]), uint64(start), stop - start
    for k in range(uint64(length)):
        store[at + k] = data[begin + k]
    t.values[entry, START] = 2 * c[USED] + c[SIDE]
    c[USED] += length
    c[ID_BYTES] += length
    if c[COUNT + WAITING] + c[COUNT + EARLY] + c[COUNT + SETTLED] >= c[BUCKETS]:
        split(t)
    bucket = bucket_of(t, short)
    t.links[entry, HASH], t.links[entry, LENGTH] = short, length
    t.links[entry, CHAIN] = t.heads[bucket]
    t.heads[bucket] = entry
    append(t, entry, kind)
    return entry


@inlined
def remove(t: Any, entry: int) -> None:
    """Remove an entry."""
    c = t.counts
    leave(t, entry)
    bucket = bucket_of(t, int64(t.links[entry, HASH]))
    other = int64(t.heads[bucket])
    if other == entry:
        t.heads[bucket] = t.links[entry, CHAIN]
    else:
        while t.links[other, CHAIN] != entry:
            other = int64(t.links[other, CHAIN])
        t.links[other, CHAIN] = t.links[entry, CHAIN]
    c[ID_BYTES] -= t.links[entry, LENGTH]
    t.links[entry, KIND] = FREE
    t.links[entry, CHAIN] = c[FREE_ENTRY]
    c[FREE_ENTRY] = entry


@kernel
def hashed(data: Any, key: Any) -> Any:
    """See `hash_of`."""
    return hash_of(data, 0, data.size, key)


@kernel
def delete(t: Any, entry: int) -> None:
    """See `remove`."""
    remove(t, entry)


@kernel
def insert_all(t: Any, data: Any, starts: Any, kind: int, entries: Any) -> Any:
    """Add ids that are data[starts[k]:starts[k + 1]] in order; False if one is there."""
    for k in range(entries.size):
        start, stop = starts[k], starts[k + 1]
        short = short_hash(hash_of(data, start, stop, t.key))
        if found(t, data, start, stop, short) >= 0:
            return False
        entries[k] = add(t, data, start, stop, short, kind)
    return True


@kernel
def ordered(t: Any, kind: int, entries: Any) -> None:
    """Fill `entries`, int64 (count,), with those of a kind, the oldest first."""
    entry = t.counts[FIRST + kind]
    for k in range(entries.size):
        entries[k] = entry
        entry = int64(t.links[entry, AFTER])


@kernel
def copy_ids(t: Any, entries: Any, starts: Any, out: Any) -> None:
    """Copy the ids of entries to out[starts[k]:], uint8."""
    for k in range(entries.size):
        place, length = t.values[entries[k], START], t.links[entries[k], LENGTH]
        store = t.first if place & 1 == 0 else t.second
        at, to = uint64(place >> 1), uint64(starts[k])
        for b in range(uint64(length)):
            out[to + b] = store[at + b]


@kernel
def move_ids(t: Any, start: int, stop: int) -> None:
    """Move the ids of entries start … stop - 1 to the present store, if they are in the other."""
    c = t.counts
    store = t.first if c[SIDE] == 0 else t.second
    other = t.second if c[SIDE] == 0 else t.first
    for entry in range(start, stop):
        place = t.values[entry, START]
        if t.links[entry, KIND] == FREE or place & 1 == c[SIDE]:
            continue
        at, to, length = uint64(place >> 1), uint64(c[USED]), uint64(t.links[entry, LENGTH])
        for k in range(length):
            store[to + k] = other[at + k]
        t.values[entry, START] = 2 * c[USED] + c[SIDE]
        c[USED] += t.links[entry, LENGTH]


@inlined
def bytes_of(data: Any, start: int, stop: int) -> Any:
    """The bytes of an id for bounds: see `text_bytes`."""
    characters, ascii_only = int64(0), True
    for k in range(uint64(start), uint64(stop)):
        byte = data[k]
        ascii_only &= byte < uint8(128)
        characters += int64(byte & uint8(0xC0) != uint8(0x80))
    return characters if ascii_only else 4 * characters


@kernel
def weigh_ids(t: Any, entries: Any, sizes: Any) -> None:
    """Fill `sizes`, int64, with the bytes of the ids of entries for bounds."""
    for k in range(entries.size):
        place, length = t.values[entries[k], START], int64(t.links[entries[k], LENGTH])
        store = t.first if place & 1 == 0 else t.second
        sizes[k] = bytes_of(store, place >> 1, (place >> 1) + length)
