"""Counts of words by class, from another filter, as features of SpamScorer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Rows
from stream.data.parameters import number
from stream.data.schema import Label
from stream.errors import SchemaError
from stream.text._kernels.features import SENT, VIEWS, WORDS
from stream.text.features import features

__all__ = ["CountedWords", "WordCount", "counted_words"]

TOGETHER = 10_000  # words whose features are computed in one call
ONE_WORD = re.compile(r"[\w'’]+")


class WordCount(NamedTuple):
    """A word of a field, and how many records of each class have it."""

    field: str
    word: str
    records: Mapping[Label, float]


class CountedWords(NamedTuple):
    """Keys of the view of words, rising, uint32 (n,); of each, the records of each class, (n, C);
    and the words that are not one token, which are left out."""

    key: NDArray[np.uint32]
    records: NDArray[np.float64]
    left_out: int


def counted_words(
    counts: Iterable[WordCount], records: NDArray[np.float64], codes: Mapping[Label, int]
) -> CountedWords:
    """The features of words with the sums of their counts, each at most the records of its class.

    A word that is written in two ways (`Free` and `free`) has one feature for both, so the sum may
    count a record twice.

    Raises
    ------
    SchemaError
        A count is not a finite number of at least 0, or its class has no records.
    """
    key = np.empty(0, dtype=np.uint32)
    total = np.empty((0, records.size))
    left_out = 0
    every = iter(counts)
    while some := list(islice(every, TOGETHER)):
        words = [one for one in some if ONE_WORD.fullmatch(one.word)]
        left_out += len(some) - len(words)
        rows = Rows.from_dicts([{one.field: one.word} for one in words], strings="text")
        found = features(rows, np.arange(len(words)))
        sizes = np.diff(found.start)
        view = np.repeat(np.tile(np.arange(VIEWS), len(words)), sizes)
        at = np.flatnonzero(view % SENT == WORDS)
        of_word = np.repeat(np.repeat(np.arange(len(words)), VIEWS), sizes)[at]
        table = np.zeros((len(words), records.size))
        for i, one in enumerate(words):
            for label, n in one.records.items():
                if label not in codes:
                    raise SchemaError(f"expected records of the class {label!r}, got none")
                table[i, codes[label]] = number("a count", n, 0.0, 2.0**53)
        both = np.concatenate((key, found.key[at])), np.concatenate((total, table[of_word]))
        key, place = np.unique(both[0], return_inverse=True)
        total = np.zeros((key.size, records.size))
        np.add.at(total, place.ravel(), both[1])
    return CountedWords(key, np.minimum(total, records), left_out)
