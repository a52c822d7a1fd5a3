"""SpamScorer: its table stays within its bytes, and what it counts is bounded."""

from __future__ import annotations

import pytest

from stream import Schema, SpamScorer, State
from stream.data.block import PREDICT_THEN_LEARN, Block
from stream.linear import evidence
from tests.stream.linear.test_spam import crowd, learned, messages


def limited(places: int = 2**13) -> SpamScorer:
    """A scorer whose table has at most so many places."""
    model = SpamScorer()
    model.limit(evidence.bytes_of(places, 2), Schema.of(text="text"), 2)
    return model


def test_table_stays_within_its_bound_and_keeps_what_is_seen() -> None:
    """However many distinct tokens come, what has been seen lately is still known."""
    model = limited()
    for i, (x, y) in enumerate(crowd(600)):
        model.learn_one(x, y)
        if i % 5 == 0:
            model.learn_one({"text": "viagra"}, "spam")
            model.learn_one({"text": "lunch"}, "ham")

    assert model.overflows["features"] > 10_000
    assert model._tables.key.size == 2**13
    assert int(model._tables.size[0]) <= evidence.room(2**13)
    assert model.predict_proba_one({"text": "viagra"})["spam"] > 0.9


def test_evictions_do_not_depend_on_blocks_or_restarts() -> None:
    """One record a block, all in one, or a save and a load in between: the same bits."""
    ones, whole, cut = limited(), limited(), limited()
    records = crowd(120)
    for x, y in records:
        ones.learn_one(x, y)
    whole.learn_many(*zip(*records, strict=True))
    cut.learn_many(*zip(*records[:60], strict=True))
    again = limited().load_state(State.from_bytes(cut.to_state().to_bytes()))
    again.learn_many(*zip(*records[60:], strict=True))

    assert whole.overflows["features"] > 0
    assert ones.fingerprint() == whole.fingerprint() == again.fingerprint()


def test_message_with_more_features_than_the_table_is_learned_in_part() -> None:
    """It takes the room there is, and it is counted."""
    model = limited(2**12)
    x = {"text": " ".join(f"w{i:x}" for i in range(4000))}
    model.learn_one({"text": "lunch"}, "ham")

    model.learn_one(x, "spam")

    assert int(model._tables.size[0]) == evidence.room(2**12)
    assert model.overflows["features"] > 0
    assert model.predict_one(x) == "spam"


def test_new_class_shrinks_the_table_to_its_bytes() -> None:
    """More classes have wider rows, so fewer fit."""
    model = SpamScorer()
    assert model.limit(evidence.bytes_of(2**12, 3), Schema.of(text="text"), 3) == 3
    for x, y in crowd(150):
        model.learn_one(x, y)
    model.learn_one({"text": "a third kind"}, "phishing")

    assert model._tables.key.size == 2**12
    assert model.predict_one({"text": "a third kind"}) == "phishing"


def test_counts_fade_and_the_unit_starts_again() -> None:
    """After many half-lives all counts are divided, and predictions go on."""
    model = learned(messages(1700, 2), half_life=100)
    twin = learned(messages(1700, 2)[-800:], half_life=100)

    assert (model._tables.unit >= 1.0).all()
    assert (model._tables.unit <= 2.0**16).all()
    of, other = (m._tables.totals.sum(axis=1) / m._tables.unit for m in (model, twin))
    assert of == pytest.approx(other, rel=0.05)


def test_truncated_texts_are_counted_once_learned() -> None:
    """A prediction counts nothing, and what waits is short."""
    model, long = SpamScorer(), {"text": "a " * 40_000}
    rows = model.rows([long])
    block = Block.of(rows, PREDICT_THEN_LEARN, ["ham"])

    model.predict_proba_one(long)
    assert model.overflows["tokens"] == 0
    model.run(block)
    assert model.overflows["tokens"] == 1
    assert len(rows.text[0, 0]) < 33_000
    assert model.prepare(rows) is rows or model.prepare(rows).text[0, 0] == rows.text[0, 0]
