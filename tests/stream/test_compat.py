"""Any river classifier as a Learner: river's own answers, our rules of state and failure."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Hashable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from river import base, datasets

from stream import (
    Block,
    GaussianNB,
    InvalidRecordError,
    RiverClassifier,
    Rows,
    SchemaError,
    State,
    StateError,
    StreamError,
)
from stream.checks import yield_laws
from stream.compat import build_river
from stream.data.block import PREDICT_THEN_LEARN
from stream.evaluate.progressive import progressive

PHISHING = [(dict(sorted(x.items())), y) for x, y in islice(datasets.Phishing(), 300)]

# What holds of river's models too. Left out: laws that compare fingerprints (river keeps unseeded
# generators and, in trees, defaultdicts that a question fills with zeros) and those of weights.
LAWS = {
    "posteriors_sum_to_one",
    "a_record_without_evidence_gets_an_answer",
    "asking_twice_gives_the_same_answer",
    "a_bad_value_is_refused_whole",
    "a_bad_label_is_refused_whole",
    "a_bad_weight_is_refused_whole",
    "one_bad_record_leaves_its_block_unlearned",
    "another_learners_state_is_refused",
}
NAMES = (
    ("tree.HoeffdingTreeClassifier", {}, []),
    ("forest.ARFClassifier", {"n_models": 3}, []),
    ("linear_model.LogisticRegression", {}, ["preprocessing.StandardScaler"]),
    ("ensemble.BaggingClassifier", {"model": "river:naive_bayes.GaussianNB", "n_models": 3}, []),
)


class Stub(base.Classifier):
    """A river model that answers what it is told to, and records what it was taught."""

    def __init__(self, answer: Any = None, fails: str = "") -> None:
        self.answer = answer
        self.fails = fails
        self.taught: list[tuple[dict[Hashable, Any], Any]] = []

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Hashable, Any], y: Any) -> None:
        if self.fails == "learn":
            raise TypeError("no\nsuch feature")
        self.taught.append((dict(x), y))

    def predict_proba_one(self, x: dict[Hashable, Any], **_: Any) -> dict[Any, float]:
        if self.fails == "predict":
            raise ZeroDivisionError("division by zero")
        return self.answer


class Silent(Stub):
    """It has no probabilities, only labels."""

    def predict_proba_one(self, x: dict[Hashable, Any], **_: Any) -> dict[Any, float]:
        raise NotImplementedError

    def predict_one(self, x: dict[Hashable, Any], **_: Any) -> Any:
        return self.answer


def taught(model: base.Classifier) -> RiverClassifier:
    """A learner that learned one "a" and three "b"."""
    learner = RiverClassifier(model)
    learner.learn_many([{"v": 1.0}] * 4, ["a", "b", "b", "b"])
    return learner


@pytest.mark.parametrize(("name", "parameters", "pipeline"), NAMES)
def test_answers_are_those_of_the_river_model(
    name: str, parameters: dict[str, Any], pipeline: list[str]
) -> None:
    """Step by step in one block, the probabilities are the river model's own, bit for bit."""
    bare = build_river(name, parameters, pipeline, seed=3)
    learner = RiverClassifier(build_river(name, parameters, pipeline, seed=3))
    xs, ys = zip(*PHISHING, strict=True)
    said = learner.progressive_many(Block.of(learner.rows(xs), PREDICT_THEN_LEARN, ys)).dicts()
    expected: list[dict[Any, float]] = []
    for x, y in zip(xs, ys, strict=True):
        floats = {k: float(v) for k, v in x.items()}
        expected.append(bare.predict_proba_one(floats))
        bare.learn_one(floats, y)

    assert len(said[-1]) == 2
    assert said[0] == {}
    assert said[20:] == expected[20:]


@pytest.mark.parametrize(("name", "parameters", "pipeline"), NAMES)
def test_blocks_and_single_calls_say_the_same(
    name: str, parameters: dict[str, Any], pipeline: list[str]
) -> None:
    """However the stream is cut, and in whatever order the features come."""
    whole, single = (RiverClassifier(build_river(name, parameters, pipeline, 5)) for _ in "12")
    *_, view = progressive(PHISHING, whole, delay=3)
    counts = np.zeros((2, 2), dtype=np.int64)
    answers: list[Any] = []
    for i, (x, y) in enumerate(PHISHING):
        if i >= 3:
            single.learn_one(*PHISHING[i - 3])
        said = single.predict_one(dict(reversed(x.items())))
        answers.append((y, said))
    for y, said in answers:
        if said is not None:
            counts[view.classes.index(y), view.classes.index(said)] += 1

    assert counts.sum() == 297
    assert view.confusion.tolist() == counts.tolist()


def laws() -> list[Any]:
    """Each law that holds, for models that take numbers and text."""
    out = []
    for name, parameters, pipeline in NAMES[:2]:
        learner = RiverClassifier(build_river(name, parameters, pipeline), trust_pickle=True)
        found = [law for law in yield_laws(learner) if law.__name__ in LAWS]
        assert len(found) == len(LAWS)
        out += [pytest.param(learner, law, id=f"{name}-{law.__name__}") for law in found]
    return out


@pytest.mark.parametrize(("learner", "law"), laws())
def test_river_model_satisfies_law(learner: RiverClassifier, law: Any) -> None:
    """The laws of a Learner that do not depend on river's state."""
    law(learner)


@pytest.mark.parametrize(("name", "parameters", "pipeline"), NAMES)
def test_questions_leave_no_trace_in_later_answers(
    name: str, parameters: dict[str, Any], pipeline: list[str]
) -> None:
    """A model that was asked about everything, from the start, answers as one that was not."""
    asked, silent = (RiverClassifier(build_river(name, parameters, pipeline, 1)) for _ in "12")
    xs, ys = zip(*PHISHING[:120], strict=True)
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        asked.predict_proba_many([x, {"stranger": float(i)}, {}])
        asked.learn_one(x, y)
    silent.learn_many(xs, ys)

    assert asked.predict_proba_many(xs) == silent.predict_proba_many(xs)


def test_river_gets_only_what_is_there() -> None:
    """No key for NaN and None, floats for numbers and truth values, the label as it came."""
    learner = RiverClassifier(stub := Stub({}))
    learner.learn_many([{"b": True, "a": 2, "n": None}, {"c": "x", "a": float("nan")}], [7, 8])

    assert stub.taught == [({"a": 2.0, "b": 1.0}, 7), ({"c": "x"}, 8)]


@pytest.mark.parametrize("nothing", [{}, None])
def test_empty_answer_of_river_is_no_class_known(nothing: Any) -> None:
    """What river does not answer is not made up."""
    assert taught(Stub(nothing)).predict_proba_one({}) == {}
    assert taught(Silent(None)).predict_one({}) is None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"a": float("nan"), "b": 1.0}, {"a": 0.25, "b": 0.75}),
        ({"a": float("inf"), "b": 1.0}, {"a": 0.25, "b": 0.75}),
        ({"a": -0.5, "b": 1.5}, {"a": 0.25, "b": 0.75}),
        ({"a": 0.0, "b": 0.0}, {"a": 0.25, "b": 0.75}),
        ({"stranger": 1.0}, {"a": 0.25, "b": 0.75}),
        ({"stranger": 0.5, "a": 0.5}, {"a": 1.0, "b": 0.0}),
        ({"b": 3.0, "a": 1.0}, {"a": 0.25, "b": 0.75}),
        ({"b": 0.2, "a": 0.8}, {"a": 0.8, "b": 0.2}),
    ],
)
def test_answer_becomes_a_distribution_over_what_was_learned(
    answer: dict[Any, float], expected: dict[Any, float]
) -> None:
    """Impossible probabilities give the share of each class; strangers are left out."""
    said = taught(Stub(answer)).predict_proba_one({})

    assert said == pytest.approx(expected)
    assert list(said) == ["a", "b"]


def test_label_of_a_model_without_probabilities_has_probability_1() -> None:
    """predict_one stands in for predict_proba_one."""
    assert taught(Silent("b")).predict_proba_one({}) == {"a": 0.0, "b": 1.0}


@pytest.mark.parametrize("labels", [("no", "yes"), (5, 3), (True, False)])
def test_model_of_two_classes_takes_any_two_labels(labels: tuple[Any, Any]) -> None:
    """A linear model knows False and True; other labels stand for them as they come."""
    learner = RiverClassifier(build_river("linear_model.LogisticRegression"))
    for i in range(60):
        learner.learn_one({"v": float(i % 2)}, labels[i % 2])

    assert learner.predict_one({"v": 0.0}) == labels[0]
    assert learner.predict_one({"v": 1.0}) == labels[1]
    assert list(learner.predict_proba_one({"v": 1.0})) == list(labels)


def test_third_label_of_a_model_of_two_classes_is_refused() -> None:
    """It is one class too many, and leaves no trace."""
    learner = RiverClassifier(build_river("linear_model.LogisticRegression"))
    learner.learn_many([{"v": 1.0}, {"v": 2.0}], ["a", "b"])
    weights = dict(learner.model.weights)  # type: ignore[attr-defined]

    with pytest.raises(InvalidRecordError, match="max_classes"):
        learner.learn_one({"v": 9.0}, "c")
    assert learner.classes == ["a", "b"]
    assert dict(learner.model.weights) == weights  # type: ignore[attr-defined]


def test_label_of_another_kind_is_refused() -> None:
    """Labels keep the kind of the first."""
    learner = taught(Stub({}))

    with pytest.raises(InvalidRecordError, match="label_kind"):
        learner.learn_one({}, 1)


def test_weight_goes_to_models_that_take_one_and_is_counted_otherwise() -> None:
    """LogisticRegression has a `w`, also behind a scaler; the stub has none."""
    scaled = build_river("linear_model.LogisticRegression", {}, ["preprocessing.StandardScaler"])
    heavy, light = RiverClassifier(scaled), RiverClassifier(scaled.clone())
    unaware = RiverClassifier(stub := Stub({}))
    for v, y in [(1.0, False), (2.0, True), (3.0, True)]:
        heavy.learn_one({"v": v}, y, w=5.0)
        light.learn_one({"v": v}, y)
        unaware.learn_one({"v": v}, y, w=5.0)

    assert heavy.predict_proba_one({"v": 3.0}) != light.predict_proba_one({"v": 3.0})
    assert heavy.overflows["weights"] == 0
    assert unaware.overflows["weights"] == len(stub.taught) == 3


def test_failure_at_the_first_record_is_one_line_that_says_what_to_do() -> None:
    """It would fail at every record, so it is no fault of this one: not an InvalidRecordError."""
    learner = RiverClassifier(Stub(fails="learn"))

    with pytest.raises(StreamError, match="river model Stub failed to learn ") as raised:
        learner.learn_one({}, "a")
    assert not isinstance(raised.value, InvalidRecordError)
    assert "\n" not in str(raised.value)
    assert "put a transformer before it" in str(raised.value)


def test_record_that_a_working_model_fails_at_is_counted_and_passed_over() -> None:
    """One bad record must not end a service: it gets the share of each class."""
    learner = taught(stub := Stub({"a": 1.0}))
    before = learner.predict_proba_one({})
    stub.fails = "predict"
    shares = learner.predict_proba_one({})
    stub.fails = "learn"
    learner.learn_one({}, "a")
    stub.fails = ""

    assert sum(shares.values()) == pytest.approx(1.0)
    assert learner.predict_proba_one({}) == before
    assert learner.overflows["predict_failures"] == learner.overflows["learn_failures"] == 1


def test_model_is_not_asked_before_it_was_taught() -> None:
    """Some models build themselves around the first question: predicting would leave a trace."""
    assert RiverClassifier(Stub(fails="predict")).predict_proba_one({"v": 1.0}) == {}


def test_state_cannot_be_saved_or_loaded_without_trust() -> None:
    """And says what happens instead."""
    trusting = RiverClassifier(build_river("naive_bayes.GaussianNB"), trust_pickle=True)
    wary = RiverClassifier(build_river("naive_bayes.GaussianNB"))

    assert (trusting.can_save, wary.can_save, GaussianNB().can_save) == (True, False, True)
    with pytest.raises(StateError, match="only with trust_pickle = true; otherwise it is rebuilt"):
        wary.to_state()
    with pytest.raises(StateError, match="only with trust_pickle = true"):
        wary.load_state(trusting.to_state())


@pytest.mark.parametrize(("name", "parameters", "pipeline"), NAMES)
def test_trusted_state_goes_on_where_it_was_saved(
    name: str, parameters: dict[str, Any], pipeline: list[str]
) -> None:
    """Classes, counters and answers, through the bytes of a pickle."""
    saved, loaded = (
        RiverClassifier(build_river(name, parameters, pipeline, 2), trust_pickle=True) for _ in "12"
    )
    saved.learn_many(*zip(*PHISHING[:100], strict=True))
    state = saved.to_state()
    loaded.load_state(State(dict(state.header), dict(state.arrays)))
    for learner in (saved, loaded):
        learner.learn_many(*zip(*PHISHING[100:200], strict=True))
    xs = [x for x, _ in PHISHING[200:]]

    assert state.arrays["pickle"].dtype == np.uint8
    assert loaded.classes == saved.classes
    assert loaded.predict_proba_many(xs) == saved.predict_proba_many(xs)


def test_restored_model_of_two_classes_still_refuses_a_third() -> None:
    """The bound is the model's, not the state's."""
    saved, loaded = (
        RiverClassifier(build_river("linear_model.LogisticRegression"), True) for _ in "12"
    )
    saved.learn_many([{"v": 1.0}, {"v": 2.0}], ["a", "b"])
    loaded.load_state(saved.to_state())

    with pytest.raises(InvalidRecordError, match="max_classes"):
        loaded.learn_one({"v": 9.0}, "c")


def test_state_of_another_model_version_or_damaged_is_refused() -> None:
    """Header first: a foreign pickle is not even opened."""
    tree = RiverClassifier(build_river("tree.HoeffdingTreeClassifier"), trust_pickle=True)
    tree.learn_one({"v": 1.0}, "a")
    state = tree.to_state()
    inner = dict(state.header["inner"])
    other = RiverClassifier(build_river("naive_bayes.GaussianNB"), trust_pickle=True)

    with pytest.raises(StateError, match="rebuild it"):
        other.load_state(state)
    with pytest.raises(StateError, match="rebuild it"):
        tree.clone().load_state(
            State({**state.header, "inner": {**inner, "river": "0.1"}}, state.arrays)
        )
    with pytest.raises(StateError, match="pickle of HoeffdingTreeClassifier"):
        tree.clone().load_state(
            State(state.header, {**state.arrays, "pickle": state.arrays["pickle"][:-9]})
        )


def test_model_that_cannot_be_pickled_says_so() -> None:
    """A StateError, in one line."""
    learner = RiverClassifier(Stub(answer=lambda: None), trust_pickle=True)

    with pytest.raises(StateError, match="Stub cannot be pickled"):
        learner.to_state()


def test_fingerprint_shows_learning_also_where_state_is_not_saved() -> None:
    """It needs no trust, for nothing is loaded."""
    learner = RiverClassifier(build_river("naive_bayes.GaussianNB"))
    learner.learn_one({"v": 1.0}, "a")
    before = learner.fingerprint()
    learner.predict_proba_one({"v": 2.0, "new": 1.0})

    assert learner.fingerprint() == before
    learner.learn_one({"v": 2.0}, "a")
    assert learner.fingerprint() != before


def test_anything_but_a_river_classifier_is_refused() -> None:
    """Regressors, classes and other objects are rejected."""
    for wrong in (build_river, Stub, datasets.Phishing()):
        with pytest.raises(SchemaError, match="expected a river classifier"):
            RiverClassifier(wrong)  # type: ignore[arg-type]


def test_importing_compat_loads_no_model_of_river() -> None:
    """river's rooms are loaded when one of their models is asked for."""
    code = (
        "import sys, stream.compat; "
        "print([m for m in sys.modules if m in ('river.tree', 'river.compose', 'river.api')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_rows_columns_in_any_order_are_one_record() -> None:
    """Rows of a schema stand in its order; river sees names in order."""
    rows = Rows.from_dicts([{"b": 1.0, "a": 2.0}])
    turned = Rows(("b", "a"), rows.numeric[:, ::-1], (), rows.categorical, (), rows.text)
    stubs = [Stub({}), Stub({})]
    for stub, each in zip(stubs, (rows, turned), strict=True):
        RiverClassifier(stub).progressive_many(Block.of(each, PREDICT_THEN_LEARN, ["y"]))

    assert [list(stub.taught[0][0]) for stub in stubs] == [["a", "b"], ["a", "b"]]
