"""One byte budget a learner, which holds: measured, on programs that want it to grow."""

from __future__ import annotations

import pytest

from stream import CategoricalNB, GaussianNB, KNNClassifier, MixedBayes, MultinomialNB, Schema
from stream.data.schema import Dictionary
from stream.errors import SchemaError
from tests.seed import seeds
from tests.stream.learner.growth import GROWERS, grown, grown_join, limited, program

every = pytest.mark.parametrize("grower", GROWERS.values(), ids=GROWERS)
GROWING = ("CategoricalNB", "CategoricalBayes", "MultinomialNB exact", "MixedNB categories")


@every
def test_no_program_takes_more_bytes_than_allowed(grower) -> None:
    """Real ones, as the allocator counts them."""
    learner, taken = grown(grower, seed=1, records=400)

    assert len(learner.classes) >= 2
    assert taken <= grower.max_bytes


@seeds(0.03)
def test_join_takes_no_more_bytes_than_allowed(seed) -> None:
    """Ids, labels, rows and the records of early labels, and a constant for each id."""
    taken, allowed = grown_join(seed, 1500)

    assert taken <= allowed


def test_programs_of_the_join_reach_its_bound() -> None:
    """Without one, some of them take more."""
    beyond = [
        taken > allowed for taken, allowed in (grown_join(s, 1500, bounded=False) for s in range(6))
    ]

    assert any(beyond)


@pytest.mark.parametrize("name", GROWING)
def test_values_beyond_the_budget_are_refused_and_counted(name) -> None:
    """Else the test above does not reach the bound; classes that were promised are all taken."""
    learner, _ = grown(GROWERS[name], seed=2, records=1200)

    assert sum(learner.overflows.values()) > 0
    assert len(learner.classes) == 40


@pytest.mark.parametrize("name", GROWING)
def test_what_is_refused_does_not_depend_on_blocks_or_restarts(name) -> None:
    """One record a block, all in one, or with a save and a load in the middle: the same bits."""
    grower = GROWERS[name]
    (ones, classes), (whole, _), (cut, _) = (limited(grower) for _ in range(3))
    records = program(grower, 3, 300, classes)
    for x, y in records:
        ones.learn_one(x, y)
    whole.learn_many(*zip(*records, strict=True))
    cut.learn_many(*zip(*records[:150], strict=True))
    again = limited(grower)[0].load_state(cut.to_state())
    again.learn_many(*zip(*records[150:], strict=True))

    assert sum(whole.overflows.values()) > 0
    assert ones.fingerprint() == whole.fingerprint() == again.fingerprint()
    assert whole.overflows == again.overflows


@every
def test_learner_that_begins_again_keeps_its_bound(grower) -> None:
    """After an alarm of drift."""
    learner, classes = limited(grower)
    fresh = learner.restarted(proven=True)
    for x, y in program(grower, 4, 20, classes):
        learner.learn_one(x, y)
        fresh.learn_one(x, y)

    assert fresh._limited == learner._limited
    assert fresh.fingerprint() == learner.fingerprint()


@every
def test_budget_that_has_no_room_for_two_classes_is_refused(grower) -> None:
    """In one line that says how much it needs."""
    with pytest.raises(SchemaError, match=r"need [0-9,]+ bytes") as caught:
        grower.make().limit(100, grower.schema, 2)
    assert "\n" not in str(caught.value)


def test_names_of_features_are_bounded_by_their_bytes() -> None:
    """A name may have any length; all of them together not."""
    learner = GaussianNB()
    for i in range(80):
        learner.learn_one({f"{i}" + "n" * 1_000_000: 1.0, "x": 1.0}, i % 2)

    assert len(learner.features) == 1 + 67  # 64 MiB of names
    assert learner.overflows["features"] == 13


def test_tokens_kept_by_name_are_bounded_by_their_bytes() -> None:
    """A token may be a whole text."""
    learner = MultinomialNB(vocabulary="exact")
    for i in range(300):
        learner.learn_one({"t": f"{i}" + "t" * 1_000_000}, i % 2)

    assert learner.n_tokens == 268  # 256 MiB
    assert learner.overflows["vocabulary"] == 32


def test_categories_that_are_bounded_by_their_bytes_can_be_unlearned() -> None:
    """What was refused is counted back, and the room is free again."""
    learner = CategoricalNB()
    learner.limit(20_000, Schema.of(c="categorical"), 2)
    empty = learner.fingerprint()
    records = [({"c": f"{i}" + "c" * 100}, i % 2) for i in range(90)]
    for x, y in records:
        learner.learn_one(x, y)
    assert learner.overflows["values"] > 10
    for x, y in reversed(records):
        learner.unlearn_one(x, y)

    assert learner.fingerprint() == empty


def test_long_categories_of_neighbours_are_told_apart_by_their_hash() -> None:
    """Only equality counts: of 1 MB each, nothing but a hash is kept; the same after a load."""
    learner = KNNClassifier(n_neighbors=1)
    for i in range(50):
        learner.learn_one({"c": "x" * 1_000_000 + f"{i}"}, i)
    loaded = KNNClassifier(n_neighbors=1).load_state(learner.to_state())

    assert learner.predict_one({"c": "x" * 1_000_000 + "7"}) == 7
    assert loaded.predict_one({"c": "x" * 1_000_000 + "7"}) == 7
    assert sum(a.nbytes for a in learner.to_state().arrays.values()) < 20_000


def test_cell_of_long_categories_has_no_gaussian_of_its_own() -> None:
    """Its key would be kept; it is counted, and unlearned again."""
    learner = MixedBayes(conditional=True)
    learner.learn_one({"c": "short", "x": 1.0}, "a")
    learner.learn_one({"c": "c" * 513, "x": 1.0}, "a")

    assert learner.overflows["gaussians"] == 1
    learner.unlearn_one({"c": "c" * 513, "x": 1.0}, "a")
    assert learner.overflows["gaussians"] == 0


def test_refusals_are_counted_on_after_a_load() -> None:
    """Of features and classes; a state from before they were saved has none."""
    for make in (GaussianNB, KNNClassifier, CategoricalNB, MixedBayes):
        learner = make()
        for dictionary in _dictionaries(learner):
            dictionary.overflow = 3
        loaded = make().load_state(learner.to_state())
        assert [d.overflow for d in _dictionaries(loaded)] == [3] * len(_dictionaries(loaded))
        assert loaded.overflows == learner.overflows
        assert "refused" not in str(make().to_state().header)


def _dictionaries(learner) -> list[Dictionary]:
    """Of classes and features."""
    found = [learner._classes]
    if isinstance(learner, KNNClassifier):
        return [*found, learner._memory.features]
    for part in learner._parts:
        inner = getattr(part, "_class", part)
        own = getattr(inner, "_features", None)
        found.append(inner._categories.features if own is None else own)
    return found
