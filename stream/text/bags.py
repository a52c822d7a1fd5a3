"""The tokens of rows, from texts and counts: in buckets, or exact by a vocabulary.

Rule: the order of a row's tokens depends on the row only, so sums over them do too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Floats, Rows
from stream.text import bucket, encode_many, tokens
from stream.text.vocabulary import Vocabulary, token_counts

__all__ = [
    "Bags",
    "counted_tokens",
    "exact_bags",
    "hashed_bags",
    "hashed_texts",
    "named_buckets",
    "without_numbers",
]


class Bags(NamedTuple):
    """Tokens of rows: row r has the tokens from start[r] to start[r+1] - 1.

    bucket: rising buckets, or codes in the order of the tokens; -1 marks a truncated text.
    """

    start: NDArray[np.int64]
    bucket: NDArray[np.int64]
    times: Floats


def hashed_texts(rows: Rows) -> Rows:
    """Replace each text by its buckets and counts, int64 (2, k), so that it is read once."""
    if not rows.text_names:
        return rows
    encoded = rows.text.ravel()
    at = [i for i, cell in enumerate(encoded.tolist()) if isinstance(cell, str)]
    if not at:
        return rows
    encoded = encoded.copy()
    start, found, times = encode_many([encoded[i] for i in at])
    both = np.array((found, times))
    for i, (a, b) in zip(at, pairwise(start.tolist()), strict=True):
        # A copy, because a row that waits for its label must not keep the whole block in memory.
        encoded[i] = both[:, a:b].copy()
    return replace(rows, text=encoded.reshape(rows.text.shape))


def hashed_bags(rows: Rows, used: NDArray[np.int64]) -> Bags:
    """The tokens of the rows at `used`, as buckets. Texts may be encoded or not."""
    if not rows.text_names and not rows.numeric_names:
        none = np.zeros(0, dtype=np.int64)
        return Bags(np.zeros(used.size + 1, dtype=np.int64), none, np.zeros(0))
    cells = rows.text[used].ravel().tolist()
    kinds = set(map(type, cells)) if len(cells) == used.size and not rows.numeric_names else set()
    if kinds == {str}:  # one text for each row, and so its tokens are in order
        read = encode_many(cells)
        return Bags(read.start, read.bucket, read.times.astype(np.float64))
    if kinds == {np.ndarray}:
        ends = np.array([0, *(cell.shape[1] for cell in cells)], dtype=np.int64).cumsum()
        bucket_of, times_of = np.concatenate(cells, axis=1)
        return Bags(ends, bucket_of, times_of.astype(np.float64))
    texts = [k for k, cell in enumerate(cells) if isinstance(cell, str)]
    read = encode_many([cells[k] for k in texts])
    known = [k for k, cell in enumerate(cells) if isinstance(cell, np.ndarray)]
    pairs = np.concatenate([np.empty((2, 0), np.int64), *(cells[k] for k in known)], axis=1)
    owners = np.array(texts + known, dtype=np.int64) // max(len(rows.text_names), 1)
    sizes = np.append(np.diff(read.start), [cells[k].shape[1] for k in known]).astype(np.int64)
    numeric = rows.numeric[used]
    at, column = np.nonzero(numeric > 0)  # not NaN and not 0
    names = np.array([bucket(name) for name in rows.numeric_names], dtype=np.int64)
    row = np.concatenate((np.repeat(owners, sizes), at))
    found = np.concatenate((read.bucket, pairs[0], names[column]))
    times = np.concatenate((read.times, pairs[1], numeric[at, column]), dtype=np.float64)
    start = np.append(0, np.cumsum(np.bincount(row, minlength=used.size))).astype(np.int64)
    # Sorted also by count: two columns may share a bucket, and their order must not matter.
    order = np.lexsort((times, found, row))
    return Bags(start, found[order], times[order])


def exact_bags(
    rows: Rows, used: NDArray[np.int64], vocabulary: Vocabulary, learned: Iterable[int] = ()
) -> Bags:
    """The known tokens of the rows at `used`, as codes in the order of the tokens.

    Tokens of the rows used[i], for i in `learned`, first get codes, in that order.
    """
    read = [counted_tokens(rows, i) for i in used.tolist()]
    for r in learned:
        for token in dict.fromkeys(token for token, _ in read[r][0]):
            vocabulary.add(token)
    codes = vocabulary.codes
    found: list[int] = []
    times: list[float] = []
    start = [0]
    for counted, cut in read:
        known = [(codes[token], n) for token, n in counted if token in codes]
        found += [-1] * cut + [code for code, _ in known]
        times += [1.0] * cut + [n for _, n in known]
        start.append(len(found))
    return Bags(
        np.array(start, dtype=np.int64),
        np.array(found, dtype=np.int64),
        np.array(times, dtype=np.float64),
    )


def counted_tokens(rows: Rows, i: int) -> tuple[list[tuple[str, float]], int]:
    """Tokens of row i with their counts, sorted, and the number of truncated texts."""
    counts, cut = token_counts(cell for cell in rows.text[i].tolist() if cell is not None)
    numbers = zip(rows.numeric_names, rows.numeric[i].tolist(), strict=True)
    return sorted([*counts.items(), *((name, v) for name, v in numbers if v > 0)]), cut


def named_buckets(rows: Rows) -> dict[str, str]:
    """ "bucket N" to its tokens, for the texts that are not yet encoded.

    Examples
    --------
    >>> named_buckets(Rows.from_dicts([{"text": "free money", "n": 3}], strings="text"))
    {'bucket 967112': 'free', 'bucket 988132': 'money'}
    """
    named: defaultdict[int, set[str]] = defaultdict(set)
    for text in rows.text.ravel().tolist():
        if isinstance(text, str):
            for token in set(tokens(text)):
                named[bucket(token)].add(token)
    return {f"bucket {b}": " or ".join(sorted(named[b])) for b in sorted(named)}


def without_numbers(rows: Rows) -> Rows:
    """The rows without their numbers."""
    return replace(rows, numeric_names=(), numeric=np.empty((len(rows), 0)))
