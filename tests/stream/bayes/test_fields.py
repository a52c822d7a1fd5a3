"""A field of texts or numbers keeps its kind, and is forgotten with its last record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stream import (
    BernoulliNB,
    Block,
    ComplementNB,
    InvalidRecordError,
    Learner,
    MixedNB,
    MultinomialNB,
    NotLearnedError,
    Rows,
    Schema,
)
from stream.bayes.tokens import Fields
from stream.data.block import LEARN

KINDS: list[Learner] = [
    BernoulliNB(),
    MultinomialNB(),
    MultinomialNB(vocabulary="exact"),
    ComplementNB(),
    MixedNB(text=["body"]),
]
both = pytest.mark.parametrize(
    ("first", "second"),
    [({"body": "free money"}, {"body": 4}), ({"n": 4}, {"n": "free money"})],
    ids=["text then number", "number then text"],
)
each = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: repr(kind)[:30])


@each
@both
def test_value_of_another_kind_is_refused_and_leaves_it_untouched(kind, first, second) -> None:
    """In every call; the records before it and after it are learned."""
    model = kind.clone()
    model.learn_one(first, "a")
    before = model.fingerprint()

    expected = "field .* expects a (text|number), as it was learned, got a (text|number|category)"
    for call in (
        lambda: model.learn_one(second, "b"),
        lambda: model.learn_many([first, second], ["a", "b"]),
        lambda: model.predict_proba_one(second),
        lambda: model.unlearn_one(second, "a"),
    ):
        with pytest.raises(InvalidRecordError, match=expected) as caught:
            call()
        assert caught.value.reason == "wrong_kind"
    assert model.fingerprint() == before
    model.learn_one(first, "b")
    assert model.classes == ["a", "b"]


@each
@both
def test_one_field_of_two_kinds_in_a_block_is_refused_whole(kind, first, second) -> None:
    """Before anything of the block is learned."""
    model = kind.clone()
    before = model.fingerprint()

    with pytest.raises(InvalidRecordError, match="wrong_kind"):
        model.learn_many([first, second], ["a", "b"])
    assert model.fingerprint() == before


def test_declared_text_is_no_number_before_anything_was_learned() -> None:
    """`text` says what it is."""
    model = MixedNB(text=["body"])

    for value in (4, True):
        with pytest.raises(InvalidRecordError, match="'body' expects a text"):
            model.learn_one({"body": value}, "a")


@each
def test_rows_of_a_schema_are_learned_with_texts_and_numbers_side_by_side(kind) -> None:
    """The service's way in: each field is of its declared kind, whatever others are."""
    schema = Schema.of(body="text", n="numeric", urgent="binary", colour="categorical")
    rows = Rows.empty(schema, 3)
    rows.text[:2, 0] = ["free money", "see you"]
    rows.numeric[:, 0] = [1.0, 2.0, 0.0]
    model = kind.clone()

    model.progressive_many(Block.of(model.prepare(rows), LEARN, ["a", "b", "a"]))

    assert model.refusals(rows) == {}
    assert model.refusals(Rows.from_dicts([{"n": 1}, {"body": 1}])).keys() == {1}


@each
def test_unlearning_forgets_the_kind_of_a_field_with_its_last_record(kind) -> None:
    """The state is that before, to the bit; then the field may be of another kind."""
    model = kind.clone()
    model.learn_one({"n": 1, "body": "you"}, "a")
    before = model.fingerprint()

    model.learn_one({"q": 2, "body": "free money"}, "b", w=2.0)
    model.learn_one({"q": 2, "body": "free"}, "b")
    model.unlearn_one({"q": 2, "body": "free"}, "b")
    with pytest.raises(InvalidRecordError, match="'q'"):
        model.learn_one({"q": "two"}, "b")
    model.unlearn_one({"q": 2, "body": "free money"}, "b", w=2.0)

    assert model.fingerprint() == before
    model.learn_one({"q": "two"}, "b")


@each
def test_merged_learner_knows_the_fields_of_both(kind) -> None:
    """Whichever was first, and after saving and loading."""
    one, other, whole = kind.clone(), kind.clone(), kind.clone()
    first, second = {"body": "free"}, {"n": 2, "body": "home"}
    one.learn_one(first, "a")
    other.learn_one(second, "b")
    whole.learn_many([first, second], ["a", "b"])

    merged = kind.clone().load_state(one.merge(other).to_state())

    assert merged.fingerprint() == whole.fingerprint()
    for wrong in ({"body": 1}, {"n": "two"}):
        with pytest.raises(InvalidRecordError, match="wrong_kind"):
            merged.learn_one(wrong, "a")


@each
def test_learners_of_one_field_in_two_kinds_do_not_merge(kind) -> None:
    """Neither is changed; else no value of the field could be taken any more."""
    one, other = kind.clone(), kind.clone()
    one.learn_one({"n": "free money"}, "a")
    other.learn_one({"n": 1, "m": 1}, "b")
    before = one.fingerprint(), other.fingerprint()

    for mine, theirs in ((one, other), (other, one)):
        with pytest.raises(InvalidRecordError, match="'n' is"):
            mine.merge(theirs)
    assert (one.fingerprint(), other.fingerprint()) == before


def test_field_beyond_the_bound_is_counted_and_of_any_kind(monkeypatch) -> None:
    """By the record, in a block as one by one."""
    monkeypatch.setattr("stream.bayes.tokens.MAX_FEATURES", 2)
    xs: list[dict[str, Any]] = [{"a": 1, "b": 1, "c": 1}, {"c": 1, "d": 0}, {"d": 2}]
    block, single = MultinomialNB(), MultinomialNB()
    block.learn_many(xs, ["p"] * 3)
    for x in xs:
        single.learn_one(x, "p")

    assert block.overflows["fields"] == single.overflows["fields"] == 4
    assert block.fingerprint() == single.fingerprint()
    block.learn_one({"d": "text"}, "p")


def test_weights_of_fields_are_added_record_by_record() -> None:
    """So that blocks of any size give the same bits."""
    rng = np.random.default_rng(5)
    present, w = rng.random((500, 3)) < 0.7, rng.random(500) * 3
    whole, cut = Fields(), Fields()
    whole.learn(("a", "b", "c"), present, w)
    for start, stop in ((0, 1), (1, 130), (130, 500)):
        cut.learn(("a", "b", "c"), present[start:stop], w[start:stop])

    assert whole.export() == cut.export()


def test_unlearning_counts_refused_tokens_back() -> None:
    """Newest first, an exact vocabulary that overflowed is what it was before, to the bit."""
    model = MultinomialNB(vocabulary="exact", max_tokens=1)
    fresh = model.fingerprint()
    model.learn_one({"text": "a b c"}, "p")
    assert model.overflows["vocabulary"] == 2
    once = model.fingerprint()
    model.learn_one({"text": "b b d", "e": 2}, "q")
    assert model.overflows["vocabulary"] == 5

    model.unlearn_one({"text": "b b d", "e": 2}, "q")
    assert model.fingerprint() == once
    model.unlearn_one({"text": "a b c"}, "p")

    assert model.overflows["vocabulary"] == 0
    assert model.fingerprint() == fresh


@pytest.mark.parametrize("kind", [BernoulliNB(), MultinomialNB(), ComplementNB()])
def test_unlearning_error_names_the_token_not_its_bucket(kind) -> None:
    """The record has the word; nobody knows buckets by number."""
    model = kind.clone()
    model.learn_one({"text": "free money"}, "a")
    model.learn_one({"text": "home"}, "b")

    with pytest.raises(NotLearnedError, match="token 'zebra'"):
        model.unlearn_one({"text": "home zebra"}, "b")
