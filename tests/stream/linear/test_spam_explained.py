"""Explanations of a block by compiled loops against those of single records."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from stream import SpamScorer
from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN, Block, Rows
from stream.learner.base import Learner
from stream.text._kernels import occurrences as kernels
from stream.text.characters import characters
from stream.text.features import Parts, group_of, occurrences, read
from tests.stream.text.test_features import LETTERS

WORDS = (
    "v i a g r a",
    "v.1.a.g.r.a",
    "FREE",
    "v1agra",
    "£1,000",
    "don't",
    "lunch",
    "世界",
    "a\u200bb",
)


def record(rng: random.Random) -> dict[str, Any]:
    """Two texts of words and noise, and other fields; each may be missing."""

    def text() -> str | None:
        if rng.random() < 0.1:
            return None
        if rng.random() < 0.5:
            return "".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 50)))
        return " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, 9)))

    texts = {name: text() for name in ("subject", "body", "headers")}
    return {**texts, "n": rng.choice([None, 3.0, 0.0]), "kind": True}


def rows_of(xs: list[dict[str, Any]]) -> Rows:
    return Rows.from_dicts(xs, strings="text", truths="categorical")


def test_occurrences_are_those_of_the_definition() -> None:
    """Each feature as often as it occurs, in its order, with its part and its name."""
    rng = random.Random(3)
    rows = rows_of([record(rng) for _ in range(400)])
    used = np.arange(len(rows))
    texts, sources = read(rows, used)
    group, name = group_of(sources.others), Parts(sources, rows.text_names).name
    size = texts.room + 1000
    tokens = np.empty((7, size), np.int64), np.empty(size, np.uint64)
    found, part = np.empty(size, np.uint64), np.empty(size, np.uint64)
    place = np.empty((size, kernels.PLACE), np.int32)
    for i in used.tolist():
        n = kernels.occurrences(texts, group, i, characters(), tokens, ((found, part), place))
        slow = list(occurrences(rows, i))
        names = [f"{one.field}: {one.span}" if one.span else one.field for one in slow]

        assert found[:n].tolist() == [one.id for one in slow]
        assert [name(*p) for p in place[:n].tolist()] == names
        pairs = set(zip(part[:n].tolist(), names, strict=True))
        assert len(pairs) == len(set(names)) == len({p for p, _ in pairs})


def block_of(rng: random.Random, rows: Rows, labels: list[str]) -> Block:
    """Predictions and labels in any order, rows repeatedly."""
    n = 3 * len(rows)
    op = np.array([rng.choice([PREDICT, LEARN, PREDICT_THEN_LEARN]) for _ in range(n)], np.int8)
    row = np.array([rng.randrange(len(rows)) for _ in range(n)])
    code = {label: c for c, label in enumerate(dict.fromkeys(labels))}
    y = np.array([code[labels[r]] for r in row.tolist()], np.int32)
    return Block(rows, op, row, y, np.ones(n), list(code))


@pytest.mark.parametrize("shares", [1, 4, 40, 1000])
@pytest.mark.parametrize("classes", [2, 3])
def test_explanations_of_a_block_are_those_of_its_steps(classes: int, shares: int) -> None:
    """To the bit, with the same predictions and state: the steps one by one are the twin."""
    rng = random.Random(classes + shares)
    raw = rows_of([record(rng) for _ in range(40)])
    labels = [f"c{rng.randrange(classes)}" for _ in range(40)]
    fast, slow = SpamScorer(), SpamScorer()
    block = block_of(rng, fast.prepare(raw), labels)

    made, why = fast.run_explained(block, raw, shares)
    expected, reasons = Learner.run_explained(slow, block, raw, shares)

    assert np.array_equal(made.proba, expected.proba)
    assert np.array_equal(made.known, expected.known)
    assert fast.fingerprint() == slow.fingerprint()
    assert [one is None for one in why] == [one is None for one in reasons]
    for one, twin in zip(why, reasons, strict=True):
        if one is not None and twin is not None:
            assert (one.label, one.against, one.log_odds) == (
                twin.label,
                twin.against,
                twin.log_odds,
            )
            assert list(one.contributions.items()) == list(twin.contributions.items())


def test_blocks_of_long_texts_are_explained_in_pieces() -> None:
    """More characters than one call takes; a text beyond its bound is cut."""
    rng = random.Random(8)
    texts = [" ".join(rng.choices(WORDS, k=12_000)) for _ in range(6)]
    model, cut = SpamScorer(), SpamScorer()
    raw = rows_of([{"text": text} for text in texts])
    block = Block.of(model.prepare(raw), PREDICT_THEN_LEARN, ["a", "b"] * 3)

    whole = model.run_explained(block, raw, 5)[1]
    single = [cut.run_explained(block.slice(i, i + 1), raw, 5)[1][0] for i in range(6)]

    assert whole == single
    assert whole[-1] is not None
    assert len(whole[-1].contributions) == 5
