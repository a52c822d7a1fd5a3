"""Counts of words of another filter: what SpamScorer makes of them."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from stream import InvalidRecordError, Schema, SchemaError, SpamScorer
from stream.linear import WordCount, evidence

WORDS = ["free", "money", "lunch", "noon", "привет", "v1agra", "don't", "2026"]


def counted(records: list[tuple[list[str], str]]) -> tuple[list[WordCount], dict[str, int]]:
    """The words of these records with their counts, and the records of each class."""
    found = Counter((word, label) for words, label in records for word in set(words))
    counts = [
        WordCount("text", word, {label: found[word, label] for label in ("spam", "ham")})
        for word in sorted({word for word, _ in found})
    ]
    return counts, Counter(label for _, label in records)


def records_of(n: int) -> list[tuple[list[str], str]]:
    """Records whose classes prefer other words."""
    rng, out = Random(4), []
    for i in range(n):
        often = [3 if k % 2 == i % 2 else 1 for k in range(len(WORDS))]
        out.append((rng.choices(WORDS, often, k=3), ("spam", "ham")[i % 2]))
    return out


def test_counts_are_those_of_the_records() -> None:
    """Of each word and class; half-lives are so long that nothing fades."""
    records = records_of(200)
    model = SpamScorer(half_life=1e6)
    counts, totals = counted(records)

    found = model.learn_counts(counts, totals)

    named = [n for n in model.features_of({"text": " ".join(WORDS)}) if n.view == 0]
    expected = {one.word: one.records for one in counts}
    assert found["learned"] == len(named)
    for one, name in zip(model.evidence_of([n.id for n in named]), named, strict=True):
        if name.written in expected:
            assert dict(one.records) == expected[name.written]
    assert model._tables.totals.tolist() == [[100, 100], [100, 100]]


def test_counts_in_any_order_or_in_parts_are_the_same() -> None:
    """Half of the messages twice, or all at once."""
    counts, records = counted(records_of(200))
    halves = [WordCount(f, w, {y: n / 2 for y, n in c.items()}) for f, w, c in counts]
    half = {label: n / 2 for label, n in records.items()}
    whole, turned, parts = SpamScorer(), SpamScorer(), SpamScorer()

    whole.learn_counts(counts, records)
    turned.learn_counts(counts[::-1], records)
    parts.learn_counts(halves, half)
    parts.learn_counts(halves, half)

    assert whole.fingerprint() == turned.fingerprint() == parts.fingerprint()


def test_first_messages_are_classified_by_the_counts() -> None:
    """And the scorer learns on."""
    counts, records = counted(records_of(200))
    model = SpamScorer()
    model.learn_counts(counts, records)

    assert model.predict_one({"text": "free lunch for the people"}) == "spam"
    assert model.predict_one({"text": "money at noon"}) == "ham"
    for _ in range(30):
        model.learn_one({"text": "free lunch"}, "ham")
        model.learn_one({"text": "money at noon"}, "spam")
    assert model.predict_one({"text": "free lunch"}) == "ham"


def test_many_records_weigh_as_much_as_a_long_stream() -> None:
    """Else new messages could never change what a large dump says."""
    model = SpamScorer(half_life=100)
    model.learn_counts(
        [WordCount("text", "free", {"spam": 5e6, "ham": 1e6})], {"spam": 6e6, "ham": 3e6}
    )

    lives = [100 / np.log(2), 7.5 / np.log(2)]
    assert model._tables.totals.sum(axis=1) == pytest.approx(lives)
    free = model.features_of({"text": "free"})[0].id
    [found] = model.evidence_of([free])
    assert found.records["spam"] / found.records["ham"] == pytest.approx(5.0, rel=1e-5)


def test_two_spellings_are_one_word_with_at_most_all_records() -> None:
    """And what is no word is left out."""
    model = SpamScorer()
    counts = [WordCount("text", word, {"spam": 6, "ham": 1}) for word in ("Free", "free", "a.b")]

    assert model.learn_counts(counts, {"spam": 10, "ham": 10})["left_out"] == 1
    free = model.features_of({"text": "free"})[0].id
    assert dict(model.evidence_of([free])[0].records) == {"spam": 10.0, "ham": 2.0}


def test_words_beyond_the_bound_are_refused_the_rarest_first() -> None:
    """The table stays within its bytes."""
    model = SpamScorer()
    model.limit(evidence.bytes_of(2**13, 2), Schema.of(text="text"), 2)
    counts = [
        WordCount("text", f"w{chr(97 + i % 26)}{i:x}q", {"spam": 1 + i % 9}) for i in range(9000)
    ]

    found = model.learn_counts([*counts, WordCount("text", "often", {"spam": 90})], {"spam": 99})

    assert model._tables.key.size == 2**13
    assert found["learned"] == evidence.room(2**13)
    assert found["refused"] == model.overflows["features"] > 0
    often = model.features_of({"text": "often"})[0]
    model.learn_one({"text": "x"}, "ham")
    assert model.evidence_of([often.id], "spam", "ham")[0].records["spam"] > 80


@pytest.mark.parametrize(
    ("counts", "records", "error"),
    [
        ([], {}, SchemaError),
        ([], {"spam": 0}, SchemaError),
        ([WordCount("text", "a", {"spam": -1})], {"spam": 1}, SchemaError),
        ([WordCount("text", "a", {"spam": float("nan")})], {"spam": 1}, SchemaError),
        ([WordCount("text", "a", {1: 1})], {1: 1}, InvalidRecordError),
        ([WordCount("text", "a", {"news": 1})], {"spam": 1}, SchemaError),
    ],
)
def test_wrong_counts_change_nothing(counts, records, error) -> None:
    """The model is as before."""
    model = SpamScorer()
    model.learn_one({"text": "free"}, "spam")
    before = model.fingerprint()

    with pytest.raises(error):
        model.learn_counts(counts, records)
    assert model.fingerprint() == before


def test_words_of_how_a_mail_was_sent_are_counted_in_their_own_view() -> None:
    """bogofilter has those of `Received` headers."""
    model = SpamScorer()
    words = [WordCount("received", "dynamic", {"spam": 8}), WordCount("text", "hi", {"ham": 8})]

    assert model.learn_counts(words, {"spam": 10, "ham": 10})["learned"] == 2
    assert model.predict_proba_one({"received": "dynamic"})["spam"] > 0.55
    assert model.predict_proba_one({"text": "hi"})["spam"] < 0.45
