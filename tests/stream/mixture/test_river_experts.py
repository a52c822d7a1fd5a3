"""Classifiers of river as experts of a mixture, by name and as objects."""

from __future__ import annotations

from typing import Any

import pytest
from river import base, tree

from stream import (
    Calibrated,
    Learner,
    MixedNB,
    Mixture,
    RiverClassifier,
    SchemaError,
    State,
    StateError,
)
from stream.compat import build_river
from stream.mixture.guesses import ClassShares
from tests.oracles.mixture import SlowMixture, SlowNoChange
from tests.stream.mixture.late import delayed, run_late

TREE: dict[str, Any] = {"type": "river:tree.HoeffdingTreeClassifier", "grace_period": 20}
ENCODED: dict[str, Any] = {
    "type": "river:linear_model.LogisticRegression",
    "pipeline": ["preprocessing.OneHotEncoder"],
}
TRUSTED = {"trust_pickle": True}


def learned(model: Learner, n: int = 120) -> list[dict[Any, float]]:
    """What it predicted for each record before it was learned."""
    out = []
    xs, _ = delayed(n, 0)
    for x in xs:
        out.append(model.predict_proba_one(x))
        model.learn_one(x, "pq"[x["a"] > 1])
    return out


def test_expert_by_name_is_that_classifier() -> None:
    """The same bits as with an object, and nearly the obvious mixture of what river says."""
    built = build_river("tree.HoeffdingTreeClassifier", {"grace_period": 20})
    river = RiverClassifier(built)
    ours = learned(Mixture(["MixedNB", TREE]))

    assert ours == learned(Mixture(["MixedNB", river]))
    assert river.classes == []  # a given learner does not learn itself

    slow = SlowMixture([ClassShares(), SlowNoChange(), MixedNB(), river])
    xs, _ = delayed(120, 0)
    for x, found in zip(xs, ours, strict=True):
        assert found == pytest.approx(slow.predict(x, 0), abs=1e-9)
        slow.learn(x, "pq"[x["a"] > 1], 1.0, 0)


def test_weights_are_named_by_the_class_of_river() -> None:
    """With its transformers; two of one class are numbered."""
    names = list(Mixture([TREE, ENCODED, "river:tree.HoeffdingTreeClassifier"]).expert_weights)

    assert names[2:] == [
        "HoeffdingTreeClassifier",
        "OneHotEncoder | LogisticRegression",
        "HoeffdingTreeClassifier 2",
    ]


@pytest.mark.parametrize("delay", [0, 7])
def test_blocks_and_restarts_change_no_prediction(delay) -> None:
    """The state differs, because equal models of river have many pickles."""
    xs, events = delayed(90, delay, 2)
    model = Mixture(["MixedNB", {**TREE, **TRUSTED}])
    one, _ = run_late(model.clone(), xs, events, 1, save=False)

    for size, save in ((13, False), (13, True), (1000, False)):
        assert run_late(model.clone(), xs, events, size, save)[0] == one


def test_mixture_is_saved_only_if_every_pickle_is_trusted() -> None:
    """Otherwise it says which expert, and has a fingerprint all the same."""
    some = Calibrated({"type": "Mixture", "experts": [{**TREE, **TRUSTED}, ENCODED]})
    every = Calibrated(
        {"type": "Mixture", "experts": [{**TREE, **TRUSTED}, {**ENCODED, **TRUSTED}]}
    )
    learned(some), learned(every)

    assert not some.can_save
    with pytest.raises(StateError, match=r"OneHotEncoder \| LogisticRegression: its state can be"):
        some.to_state()
    assert len(some.fingerprint()) == 64
    assert every.can_save
    again = every.clone().load_state(State.from_bytes(every.to_state().to_bytes()))
    assert learned(again) == learned(every)


def test_pickle_is_never_read_without_trust() -> None:
    """Of a state that was saved by a model that trusted it."""
    trusting = Mixture([{**TREE, **TRUSTED}])
    learned(trusting)

    with pytest.raises(StateError, match="can be saved only with trust_pickle"):
        Mixture([TREE]).load_state(trusting.to_state())


def test_trust_is_no_parameter_of_the_state() -> None:
    """How a state is kept does not change what is learned."""
    assert Mixture([{**TREE, **TRUSTED}])._saved_parameters()["experts"] == [TREE]


class Picky(tree.HoeffdingTreeClassifier):
    """Fails at every record with a field `warm`, as models of fixed fields do."""

    def learn_one(self, x: dict[Any, Any], y: Any, *, w: float = 1.0) -> None:
        if "warm" in x:
            raise ValueError("no such field")
        super().learn_one(x, y, w=w)


def test_kernels_are_compiled_beside_an_expert_that_rejects_the_trial_record() -> None:
    """The record is made up, so its failure says nothing."""
    model = Mixture([RiverClassifier(Picky()), "MixedNB"])
    model.compile_kernels()

    assert learned(model)[-1]
    assert model.overflows["learn_failures"] == 0


def test_expert_that_fails_after_a_restart_is_counted() -> None:
    """A stream that went on before must not end because the model begins again."""
    model = Mixture([RiverClassifier(Picky()), "MixedNB"]).restarted(proven=True)
    model.learn_one({"warm": 1.0}, "p")

    assert model.overflows["learn_failures"] == 1
    assert model.predict_proba_one({"warm": 1.0}) == {"p": 1.0}


@pytest.mark.parametrize(
    ("expert", "message"),
    [
        ("river:tree.HoefdingTree", "river has no classifier 'tree.HoefdingTree'; nearest: "),
        ("river:", "river has no classifier ''; nearest: "),
        ("river:linear_model.LinearRegression", "river has no classifier"),
        ({**TREE, "grace": 3}, "has no parameter 'grace'; nearest: grace_period"),
        ({**TREE, "pipeline": "preprocessing.StandardScaler"}, "expected a list of steps, got"),
        ({**TREE, "pipeline": ["tree.HoeffdingTreeClassifier"]}, "river has no transformer"),
        ({**TREE, "seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({**TREE, "seed": True}, "seed must be a whole number of at least 0, got True"),
        ({**TREE, "trust_pickle": "yes"}, "trust_pickle must be true or false"),
    ],
    ids=str,
)
def test_bad_expert_is_refused(expert, message) -> None:
    """In one line that names it."""
    with pytest.raises(SchemaError, match=message) as caught:
        Mixture([expert])

    assert str(caught.value).startswith("experts: ")
    assert "\n" not in str(caught.value)


class Failing(base.Classifier):
    """It can neither learn nor predict."""

    @property
    def _multiclass(self):
        return True

    def learn_one(self, x, y):
        raise ValueError("never")

    def predict_proba_one(self, x):
        raise ValueError("never")


@pytest.mark.parametrize(
    "make",
    [lambda part: part, Calibrated, lambda part: Mixture([part])],
    ids=["alone", "calibrated", "expert"],
)
def test_model_that_has_learned_nothing_since_a_restart_gives_equal_probabilities(make) -> None:
    """Shares of nothing are no shares: it ended with a division by zero."""
    model = make(RiverClassifier(Failing())).restarted(proven=True)
    for x, y in (({"a": 1.0}, "p"), ({"a": 2.0}, "q")):
        model.learn_one(x, y)
        p = model.predict_proba_one(x)
        assert sum(p.values()) == pytest.approx(1.0)

    river = model if isinstance(model, RiverClassifier) else model.parts[-1]
    assert river.predict_proba_one({"a": 1.0}) == {"p": 0.5, "q": 0.5}
