"""One model over many shards: the merge of what each has learned."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from stream import (
    BernoulliNB,
    CategoricalNB,
    GaussianBayes,
    GaussianNB,
    KNNClassifier,
    LogisticRegression,
    MixedNB,
    MultinomialNB,
)
from stream.checks import check_laws, yield_laws
from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN, Block
from stream.data.schema import Schema
from stream.data.state import State
from stream.errors import NotSupportedError, SchemaError, StateError
from stream.learner.base import Learner
from stream.mix import (
    MixedLearner,
    mix,
    mixing,
    mixing_parts,
    peers_of,
    statistics,
    unmixed,
)
from stream.mixture import Calibrated, Mixture
from tests.seed import seeds

Record = tuple[dict[str, Any], str]


def records(n: int, seed: int = 0, learner: Learner | None = None) -> list[Record]:
    """Records of three classes, with the fields that the learner reads; the third class is rare."""
    names = FIELDS.get(type(learner), ("height", "job", "smokes"))
    rng = random.Random(seed)
    out = []
    for _ in range(n):
        y = rng.choices("abc", [5, 4, 1])[0]
        x = {
            "height": rng.gauss({"a": 1.0, "b": 2.0, "c": 4.0}[y], 0.7),
            "job": rng.choice({"a": "pq", "b": "qr", "c": "rs"}[y]),
            "smokes": rng.random() < {"a": 0.2, "b": 0.6, "c": 0.9}[y],
            "words": " ".join(rng.choices({"a": "xy", "b": "yz", "c": "zx"}[y], k=4)),
        }
        out.append(({k: x[k] for k in names if rng.random() < 0.9}, y))
    return out


class WithPeers(MixedLearner):
    """A mixed learner whose clones have statistics of another shard from their beginning."""

    def clone(self, *args: Any, **kwargs: Any) -> Any:
        out = super().clone(*args, **kwargs)
        other = out.learner.clone()
        for x, y in records(20, 7, out.learner):
            other.learn_one(x, y)
        out.mix({1: other})
        return out


FIELDS: dict[type | None, tuple[str, ...]] = {
    GaussianNB: ("height",),
    GaussianBayes: ("height",),
    BernoulliNB: ("smokes",),
    MultinomialNB: ("words",),
}
LEARNERS = [GaussianNB(), MixedNB(), GaussianBayes(), BernoulliNB(), MultinomialNB(max_tokens=64)]


@pytest.mark.parametrize("learner", LEARNERS[1:3], ids=lambda each: type(each).__name__)
def test_it_satisfies_the_laws_of_every_learner(learner: Learner) -> None:
    """Before anything is mixed in it is its learner."""
    check_laws(MixedLearner(learner.clone()))


def many_shards(learner: Learner, shards: int, rng: random.Random) -> list[MixedLearner]:
    """Shards that learned the records, dealt at random, and mixed at random moments."""
    every = [MixedLearner(learner.clone(), n, shards) for n in range(shards)]
    published: dict[int, Any] = {}
    for x, y in records(300, rng.randrange(2**32), learner):
        one = rng.choice(every)
        one.learn_one(x, y)
        if rng.random() < 0.1:
            published[one.shard] = one.learner.to_state()
        if published and rng.random() < 0.1:
            one = rng.choice(every)
            some = rng.sample(sorted(published), rng.randint(1, len(published)))
            one.mix({n: one.peer(published[n]) for n in some if n != one.shard})
    for one in every:
        left = one.mix({o.shard: o.peer(o.learner.to_state()) for o in every if o is not one})
        assert left == {}
    return every


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("shards", [2, 5])
@seeds(0.005)
def test_shards_that_know_all_statistics_are_one_model_that_saw_all_records(
    learner: Learner, shards: int, seed: int
) -> None:
    """To the same bits in each shard, and to 1e-9 of one learner."""
    rng = random.Random(f"{shards} {seed}")
    whole, again = learner.clone(), random.Random(f"{shards} {seed}")
    for x, y in records(300, again.randrange(2**32), learner):
        whole.learn_one(x, y)

    every = many_shards(learner, shards, rng)

    assert len({one.predictor.fingerprint() for one in every}) == 1
    for x, _ in records(50, 99, learner):
        expected = whole.predict_proba_one(x)
        found = every[-1].predict_proba_one(x)
        assert found.keys() == expected.keys()
        for label, p in expected.items():
            assert found[label] == pytest.approx(p, abs=1e-9)


def test_statistics_that_are_mixed_in_twice_count_once() -> None:
    """Newer statistics of a shard replace the older ones."""
    one, two = MixedLearner(GaussianNB(), 0, 2), GaussianNB()
    for x, y in records(30, 0, two):
        two.learn_one(x, y)
    one.mix({1: one.peer(two.to_state())})
    once = one.fingerprint()

    one.mix({1: one.peer(two.to_state())})

    assert one.fingerprint() == once


def test_what_was_mixed_in_is_not_given_on() -> None:
    """The own statistics are of the own records only."""
    one = mixing(MixedNB(), 0, 2)
    other = MixedNB()
    other.learn_one({"x": 1.0}, "b")
    one.learn_one({"x": 2.0}, "a")
    alone = MixedNB()
    alone.learn_one({"x": 2.0}, "a")

    mix(one, {1: [other]})

    assert statistics(one).nested("0") == alone.to_state()
    assert one.classes == ["a", "b"]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda each: type(each).__name__)
def test_a_restored_learner_continues_to_the_same_bits(learner: Learner) -> None:
    """Also in blocks of any size."""
    model = many_shards(learner, 3, random.Random(5))[1]
    again = MixedLearner(learner.clone(), 1, 3).load_state(model.to_state())
    assert again.fingerprint() == model.fingerprint()
    later = records(64, 11, learner)
    rows = model.rows([x for x, _ in later])
    codes = np.array(["abc".index(y) for _, y in later], dtype=np.int32)
    op = np.array([(LEARN, PREDICT, PREDICT_THEN_LEARN)[i % 3] for i in range(64)], dtype=np.int8)
    block = Block(rows, op, np.arange(64), codes, np.ones(64), ["a", "b", "c"])

    whole = model.run(block).proba
    parts = [again.run(block.slice(i, i + 1)).proba for i in range(64)]

    assert np.array_equal(whole, np.vstack(parts))
    assert again.fingerprint() == model.fingerprint()


@pytest.mark.parametrize("learner", [MixedNB()], ids=lambda each: type(each).__name__)
def test_a_mixed_learner_satisfies_the_laws_with_statistics_of_another_shard(
    learner: Learner,
) -> None:
    """Except those that expect nothing of an empty learner."""
    empty = {
        "posteriors_sum_to_one",
        "the_posterior_is_the_normalised_joint_likelihood",
        "the_evidence_normalises_the_joint_likelihood",
        "parameters_are_counted",
    }
    for law in yield_laws(WithPeers(learner.clone())):
        if law.__name__ not in empty:
            law(WithPeers(learner.clone()))


def test_a_correction_changes_the_statistics_of_this_shard_only() -> None:
    """And the merge as much."""
    every = many_shards(MixedNB(), 3, random.Random(2))
    one, x = every[0], {"height": 1.5, "job": "q"}
    one.learn_one(x, "a")
    peers = {n: peer.fingerprint() for n, peer in one.peers.items()}

    one.correct_rows(one.rows([x]), ("a", 1.0), ("b", 1.0), 0)

    assert {n: peer.fingerprint() for n, peer in one.peers.items()} == peers
    whole = MixedNB()
    for learner in (one.learner, *one.peers.values()):
        whole.merge(learner)
    for x, _ in records(20, seed=3):
        for label, p in whole.predict_proba_one(x).items():
            assert one.predict_proba_one(x)[label] == pytest.approx(p, abs=1e-9)


def test_statistics_of_another_kind_are_left_out_and_named() -> None:
    """Its own ones never are, whatever their place, and the others stay in."""
    for number, left_out in ((0, [2]), (2, [0])):
        one = MixedLearner(MixedNB(), number, 3)
        fits, other = MixedNB(), MixedNB()
        other.learn_one({"x": "text"}, "a")
        fits.learn_one({"x": 2.0}, "b")
        one.learn_one({"x": 1.0}, "a")

        left = one.mix({2 - number: other, 1: fits})

        assert [*left] == left_out
        assert "'x'" in left[left_out[0]]
        assert one.classes == ["a", "b"]
        assert one.predict_proba_one({"x": 1.0}) != one.predict_proba_one({"x": 2.0})


def test_statistics_of_other_parameters_are_refused() -> None:
    """They are of another model."""
    one = MixedLearner(GaussianNB(), 0, 2)
    with pytest.raises(StateError, match="var_smoothing"):
        one.peer(GaussianNB(var_smoothing=0.5).to_state())


def test_numbers_of_shards_are_checked() -> None:
    """A shard is not its own peer."""
    one = MixedLearner(GaussianNB(), 0, 2)
    for shard in (0, 2, -1):
        with pytest.raises(SchemaError, match="another shard"):
            one.mix({shard: GaussianNB()})
    with pytest.raises(SchemaError, match="shard must be"):
        MixedLearner(GaussianNB(), 2, 2)
    with pytest.raises(SchemaError, match="merges exactly"):
        MixedLearner(GaussianNB(half_life=10.0), 0, 2)


def test_bytes_are_divided_between_the_statistics() -> None:
    """One half for the merge, the other one for the shards."""
    schema = Schema.of(text="text")
    alone, one = MultinomialNB(), MixedLearner(MultinomialNB(), 0, 2)
    assert one.limit(200_000_000, schema, 4096) == alone.limit(50_000_000, schema, 4096) < 4096


def test_what_each_shard_has_room_for_fits_together() -> None:
    """So a shard predicts with all that it has learned itself, whatever the others have."""
    schema = Schema.of(job="categorical")
    every = [MixedLearner(CategoricalNB(), n, 2) for n in (0, 1)]
    for one in every:
        one.limit(300_000, schema, 3)
        for i in range(2000):
            one.learn_one({"job": f"{one.shard} {i}"}, "ab"[one.shard])

    every[1].mix({0: every[1].peer(every[0].learner.to_state())})

    def values(learner: Learner) -> int:
        return int(learner.to_state().arrays["categorical/lengths"].size)

    own, peer = every[1].learner, every[1].peers[0]
    assert own.overflows["values"] > 0  # it is full
    assert values(every[1].predictor) == values(own) + values(peer)


def test_at_a_bound_a_restored_learner_merges_to_the_same_bits() -> None:
    """Which tokens are kept does not depend on the order in memory."""
    made = lambda: MixedLearner(MultinomialNB(vocabulary="exact", max_tokens=4), 1, 2)  # noqa: E731
    one, peer = made(), MultinomialNB(vocabulary="exact", max_tokens=4)
    for word in "dba":
        one.learn_one({"words": word}, "x")
    for word in "zyw":
        peer.learn_one({"words": word}, "y")
    again = made().load_state(one.to_state())

    for each in (one, again):
        each.mix({0: each.peer(peer.to_state())})

    assert one.fingerprint() == again.fingerprint()


def test_statistics_whose_sums_overflow_are_left_out() -> None:
    """The state can be saved and loaded again."""
    one, huge = MixedLearner(GaussianNB(), 0, 3), []
    one.learn_one({"height": 1.0}, "a")
    for _ in range(2):
        other = GaussianNB()
        other.learn_one({"height": 1.0}, "a")
        state = other.to_state()
        arrays = {k: v * 1e308 if k == "prior/weight" else v for k, v in state.arrays.items()}
        huge.append(one.peer(State(state.header, arrays)))

    left = one.mix({1: huge[0], 2: huge[1]})

    assert left == {2: "its sums are too large"}
    MixedLearner(GaussianNB(), 0, 3).load_state(one.to_state())


def test_a_state_far_beyond_the_bound_is_refused() -> None:
    """It would be held in memory."""
    one, other = MixedLearner(CategoricalNB(), 0, 2), CategoricalNB()
    one.limit(20_000, Schema.of(job="categorical"), 3)
    for i in range(20_000):
        other.learn_one({"job": str(i)}, "a")
    with pytest.raises(StateError, match="at most"):
        one.peer(other.to_state())


def test_a_learner_without_exact_merge_is_refused_by_name() -> None:
    """And so is one with fading records."""
    for learner in (LogisticRegression(), KNNClassifier(), MixedNB(half_life=5.0)):
        with pytest.raises(NotSupportedError, match=type(learner).__name__):
            mixing(learner, 0, 2)


@pytest.mark.parametrize(
    "made",
    [
        lambda: Mixture([MixedNB(), LogisticRegression()]),
        lambda: Mixture([Calibrated(MixedNB()), Calibrated(LogisticRegression()), MixedNB()]),
        lambda: Calibrated(MixedNB()),
        lambda: Mixture([MixedNB(), KNNClassifier()], rest=True, stack=True),
    ],
)
def test_the_experts_of_a_mixture_that_merge_exactly_mix(made: Any) -> None:
    """It knows the classes of the others at once, and continues to the same bits."""
    one, two = mixing(made(), 0, 2), mixing(made(), 1, 2)
    for i, (x, y) in enumerate(records(200)):
        (one if y == "a" or i % 2 else two).learn_one(x, y)
    two.learn_one({"height": 9.0}, "d")
    assert "d" not in one.classes

    assert mix(one, {1: peers_of(one, statistics(two))}) == {}

    assert "d" in one.classes
    assert sum(one.predict_proba_one({"height": 1.0}).values()) == pytest.approx(1.0)
    again = mixing(made(), 0, 2).load_state(one.to_state())
    for x, y in records(50, seed=4):
        assert again.predict_proba_one(x) == one.predict_proba_one(x)
        one.learn_one(x, y)
        again.learn_one(x, y)
    assert again.fingerprint() == one.fingerprint()
    assert type(one.restarted(proven=True).parts[-1]) is type(one.parts[-1])


def test_an_unmixed_state_is_that_of_the_learner_alone() -> None:
    """Of each part it has the merge."""
    for made in (MixedNB, lambda: Mixture([MixedNB(), LogisticRegression()])):
        one, two = mixing(made(), 0, 2), mixing(made(), 1, 2)
        for x, y in records(50):
            one.learn_one(x, y)
            two.learn_one(x, y)
        before = made().load_state(unmixed(one.to_state()))
        assert before.predict_proba_one({"height": 1.2}) == one.predict_proba_one({"height": 1.2})

        mix(one, {1: peers_of(one, statistics(two))})

        plain = made().load_state(unmixed(one.to_state()))
        assert not mixing_parts(plain)
        for x, _ in records(20, seed=8):
            assert plain.predict_proba_one(x) == one.predict_proba_one(x)


def test_the_state_of_the_learner_alone_becomes_its_own_statistics() -> None:
    """So an imported model is what the shard has learned."""
    plain = MixedNB()
    for x, y in records(20):
        plain.learn_one(x, y)

    one = mixing(MixedNB(), 0, 2).load_state(plain.to_state())

    assert statistics(one).nested("0") == plain.to_state()
