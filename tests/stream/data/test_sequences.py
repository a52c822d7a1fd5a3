"""Texts and labels as arrays behave as the lists that they stand for."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from stream.data.sequences import CodedColumn, TextColumn, joined, taken
from tests.seed import seeds

TEXTS = ("", "a", "né", "\0", "\0\0", "日本", "😀", "\ud800", "x" * 300, '"', "\\")


def some_texts(rng: Random, plain: bool) -> list[str]:
    alphabet = [text for text in TEXTS if text.isascii() or not plain]
    return [rng.choice(alphabet) * rng.randint(0, 3) for _ in range(rng.randint(0, 12))]


def places(rng: Random, n: int) -> np.ndarray:
    return np.array([rng.randrange(n) for _ in range(rng.randint(0, 20) if n else 0)], np.int64)


@seeds()
def test_texts_are_as_a_list_of_them(seed: int) -> None:
    rng = Random(seed)
    expected, more = (some_texts(rng, plain=rng.random() < 0.3) for _ in range(2))
    texts = TextColumn.of(expected)
    n = len(expected)
    assert list(texts) == expected
    assert texts == expected
    assert TextColumn.of(texts) == texts
    assert [texts[k] for k in range(-n, n)] == [expected[k] for k in range(-n, n)]
    some = slice(rng.randint(-9, 9), rng.randint(-9, 9), rng.choice([-2, -1, 1, 3]))
    assert list(texts[some]) == expected[some]
    assert (
        list(TextColumn.joined([texts, TextColumn.of(more), texts])) == expected + more + expected
    )
    at = places(rng, n)
    assert list(taken(texts, at)) == taken(expected, at) == [expected[k] for k in at]
    assert list(joined([texts, TextColumn.of(more)])) == joined([texts, more]) == expected + more
    with pytest.raises(IndexError):
        texts[n]


@seeds()
def test_coded_values_are_as_a_list_of_them(seed: int) -> None:
    rng = Random(seed)
    values = [rng.choice(["a", "b", 1, True, 1.5]) for _ in range(rng.randint(0, 4))]
    code = [rng.randint(-1, len(values) - 1) for _ in range(rng.randint(0, 12))]
    expected = [None if k < 0 else values[k] for k in code]
    coded = CodedColumn(values, np.array(code, dtype=np.int64))
    n = len(expected)
    assert list(map(repr, coded)) == list(map(repr, expected))
    assert coded == expected
    assert [coded[k] for k in range(-n, n)] == [expected[k] for k in range(-n, n)]
    assert list(coded[1:]) == expected[1:]
    other = CodedColumn(["z", "a"], np.array([1, -1, 0]))
    every = joined([coded, CodedColumn.nothing(2), other])
    assert isinstance(every, CodedColumn)
    assert list(map(repr, every)) == list(map(repr, [*expected, None, None, "a", None, "z"]))
    at = places(rng, n)
    assert list(taken(coded, at)) == taken(expected, at)
