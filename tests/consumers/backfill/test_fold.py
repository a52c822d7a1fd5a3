"""The tree in which the models of splits are merged."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.backfill.fit import Fold
from consumers.base.errors import ConfigError
from stream import GaussianNB, Learner


class Named:
    """Stands for a learner: writes down how it was merged."""

    def __init__(self, text: str) -> None:
        self.text = text

    def merge(self, other: Named) -> Named:
        """Both texts in brackets."""
        return Named(f"({self.text} {other.text})")


def tree(texts: list[str]) -> str:
    """The slow twin: merge neighbours, level by level."""
    while len(texts) > 1:
        pairs = [texts[i : i + 2] for i in range(0, len(texts), 2)]
        texts = [f"({' '.join(pair)})" if len(pair) == 2 else pair[0] for pair in pairs]
    return texts[0]


@given(st.integers(1, 70), st.integers())
def test_any_order_of_arrival_gives_the_same_tree(count: int, seed: int) -> None:
    """Engines return splits in any order. Which models are merged depends on numbers only."""
    order = list(range(count))
    random.Random(seed).shuffle(order)
    fold = Fold(count)
    for number in order:
        fold.add(number, Named(str(number)))  # type: ignore[arg-type]

    assert fold.result().text == tree([str(n) for n in range(count)])  # type: ignore[attr-defined]


@given(st.integers(1, 5000))
def test_few_models_are_held_if_they_arrive_in_order(count: int) -> None:
    """So memory does not grow with the number of splits."""
    fold, most = Fold(count), 0
    for number in range(count):
        fold.add(number, Named("x"))  # type: ignore[arg-type]
        most = max(most, fold.held)

    assert most <= count.bit_length()


def test_models_that_do_not_fit_are_reported_by_their_splits() -> None:
    """Labels of one split are texts, those of the other are numbers."""
    models: list[Learner] = [GaussianNB() for _ in range(4)]
    for i, model in enumerate(models):
        model.learn_one({"x": 1.0}, i if i == 3 else "a")
    fold = Fold(4)
    for number in (0, 1, 2):
        fold.add(number, models[number])

    with pytest.raises(ConfigError, match=r"splits 2 to 3 cannot be merged: "):
        fold.add(3, models[3])
