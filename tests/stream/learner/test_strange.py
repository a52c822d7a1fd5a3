"""The public API under strange arguments: documented errors only, learners left as they were."""

from __future__ import annotations

import datetime as dt
from math import inf, nan

import numpy as np
import pytest
from hypothesis import example
from river import active, naive_bayes

from stream import Block, GaussianNB, KNNClassifier, MixedNB, RiverClassifier, Rows, State
from stream.data.block import LEARN, PREDICT
from stream.drift import DriftRule, MonitorRule
from stream.errors import InvalidRecordError, SchemaError, StateError
from stream.evaluate import progressive
from stream.evaluate.progressive import Events, Progressive
from stream.join.join import LabelJoin
from tests.seed import seeds
from tests.stream.learner.strange import (
    LEARNERS,
    attack,
    attack_others,
    each_altered,
    each_damage,
    known,
)

every = pytest.mark.parametrize("name", LEARNERS)
DATA = [({"x": float(i)}, i % 2) for i in range(20)]
WEIGHTS = [0, -1, nan, inf, None, 2**60, "2", 10**400, True, [1.0, 2.0], {}]


@every
@seeds(0.005)
def test_learners_refuse_strange_arguments_as_documented(name, seed) -> None:
    """Every public call; `python -m tests.long.api_fuzz` does it many times."""
    made, broken = attack(name, seed)

    assert made >= 17
    assert broken == []


@example(seed=3373312782)  # a label is a matrix, whose text has two lines
@example(seed=1930549411)  # ids are an array of numbers
@example(seed=3245544249)  # a delay compares with nothing
@seeds(0.02)
def test_other_calls_refuse_strange_arguments_as_documented(seed) -> None:
    """Constructors, blocks, rows, states, progressive validation."""
    made, broken = attack_others(seed)

    assert made > 80
    assert broken == []


@every
@seeds(0.01)
def test_damaged_states_are_read_or_refused(name, seed) -> None:
    """Bits flipped in the file, where a checksum shows it, and behind that, where none does."""
    state, ten = known(LEARNERS[name]).to_state(), range(seed, seed + 10)
    _, in_files = each_damage([(name, state)], ten)
    _, loaded = each_altered([name], ten)

    assert in_files == loaded == []


@pytest.mark.parametrize(
    ("column", "value"),
    [("row", 10**9), ("row", -1), ("y", 50), ("y", -1), ("op", 3), ("w", nan), ("w", -1.0)],
)
def test_block_made_by_hand_is_checked_before_it_is_run(column, value) -> None:
    """Rows and labels that are not there ended the process."""
    learner = known(GaussianNB)
    before = learner.fingerprint()
    block = Block.of(learner.rows([{"n": 1.0}, {"n": 2.0}]), LEARN, ["p", "q"])
    getattr(block, column)[1] = value

    with pytest.raises(SchemaError):
        learner.progressive_many(block)
    assert learner.fingerprint() == before


@pytest.mark.parametrize("w", WEIGHTS, ids=repr)
def test_weights_of_events_made_by_hand_are_checked_before_they_are_joined(w) -> None:
    """Learned with its observation, a NaN would stay in the moments for good."""
    machine = Progressive(GaussianNB(), LabelJoin(), GaussianNB().rows([{"n": 1.0}]))
    events = Events(["a", "b"], [0, 1], ["p", "q"], [1.0, w], [0, 0])

    with pytest.raises(SchemaError, match="a weight must be a number above 0"):
        machine.process(machine.learner.rows([{"n": 1.0}, {"n": 2.0}]), events)
    assert machine.learner.classes == []
    assert machine.join.pending == 0


ONES = np.ones(2, dtype=np.int64)


@pytest.mark.parametrize(
    ("column", "values", "rule"),
    [
        ("weights", np.array([1.0, nan]), "a weight must be a number above 0"),
        ("weights", np.array([1.0, 2.0**53 + 2]), "a weight must be a number above 0"),
        ("weights", np.array([1.0, 0.0]), "a weight must be a number above 0"),
        ("weights", np.ones((2, 2)), "a weight must be a number above 0"),
        ("weights", np.array([True, True]), "a weight must be a number above 0"),
        ("row", np.array([0, 2]), "row must be from -1 to 1, got 2"),
        ("row", np.array([-2, 0]), "row must be from -1 to 1, got -2"),
        ("row", np.array([0.0, 1.0]), "row must be from -1 to 1, got np.float64"),
        ("times", np.array([0, -(2**63)]), "a time must be a whole number of ms"),
        ("times", np.array([0.5, 1.0]), "a time must be a whole number of ms, got np.float64"),
        ("times", ONES[:1], "2 events need 2 values in each column"),
    ],
)
def test_arrays_of_events_are_checked_as_lists_are(column, values, rule) -> None:
    """With a row that does not exist a kernel would read outside of its memory."""
    machine = Progressive(GaussianNB(), LabelJoin(), GaussianNB().rows([{"n": 1.0}]))
    columns = {"row": ONES.cumsum() - 1, "weights": np.ones(2), "times": ONES} | {column: values}
    events = Events(ids=["a", "b"], labels=["p", "q"], **columns)

    with pytest.raises(SchemaError, match=rule):
        machine.process(machine.learner.rows([{"n": 1.0}, {"n": 2.0}]), events)
    assert machine.learner.classes == []


@pytest.mark.parametrize("monitors", [5, None, [MonitorRule("error", "ADWIN")], (5,)], ids=repr)
def test_a_rule_for_drift_says_what_its_monitors_are(monitors) -> None:
    """No traceback from inside."""
    with pytest.raises(SchemaError, match="monitors must be a tuple of MonitorRule"):
        DriftRule(monitors=monitors)


@pytest.mark.parametrize("value", [inf, -inf, 1e200])
def test_rows_made_by_hand_are_checked_before_they_are_learned(value) -> None:
    """An infinity would stay in the moments for good."""
    none = np.empty((1, 0), dtype=object)
    rows = Rows(("n",), np.array([[value]]), (), none, (), none)
    learner = known(GaussianNB)
    before = learner.fingerprint()

    with pytest.raises(InvalidRecordError):
        learner.progressive_many(Block.of(rows, LEARN, ["p"]))
    assert learner.fingerprint() == before


def test_rows_of_another_shape_than_their_names_are_refused() -> None:
    """The kernels would read beyond them."""
    none = np.empty((1, 0), dtype=object)
    rows = Rows(("a", "b"), np.array([[1.0]]), (), none, (), none)

    with pytest.raises(SchemaError, match="numeric must be an array of float64 of shape"):
        known(GaussianNB).progressive_many(Block.of(rows, PREDICT))


@pytest.mark.parametrize("w", WEIGHTS, ids=repr)
def test_weights_are_numbers_above_0_wherever_they_are_given(w) -> None:
    """In records, in lists and in data sets; texts and truth values are no numbers."""
    learner = known(GaussianNB)
    before = learner.fingerprint()

    with pytest.raises(SchemaError):
        learner.learn_one({"n": 1.0}, "p", w)
    with pytest.raises(SchemaError):
        learner.learn_many([{"n": 1.0}] * 3, ["p"] * 3, [1.0, w, 1.0])
    with pytest.raises(SchemaError):
        list(progressive([({"n": 1.0}, "p", {"w": w})], learner))
    assert learner.fingerprint() == before


@pytest.mark.parametrize(
    "arguments",
    [
        {"step": 0},
        {"step": -1},
        {"block_size": 0},
        {"window": 0},
        {"moment": "not there"},
        {"delay": "not there"},
        {"delay": nan},
        {"delay": dt.timedelta(1)},
        {"moment": lambda x: x["x"] if x["x"] < 3 else "later"},
        {"learner": naive_bayes.GaussianNB()},
        {"learner": None},
        {"dataset": None},
        {"dataset": [(None, 1)]},
    ],
    ids=lambda arguments: str(arguments) if "moment" not in arguments else "moment",  # no address
)
def test_progressive_says_in_one_line_what_it_expects(arguments) -> None:
    """No traceback from inside."""
    given = {"dataset": DATA, "learner": GaussianNB(), **arguments}

    with pytest.raises(SchemaError) as caught:
        list(progressive(given.pop("dataset"), given.pop("learner"), **given))
    assert "\n" not in str(caught.value)


def test_moments_may_be_datetimes() -> None:
    """With a timedelta for the delay, or none at all."""
    day = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    data = [({**x, "at": day + dt.timedelta(i)}, y) for i, (x, y) in enumerate(DATA)]
    by_number = list(progressive(DATA, GaussianNB(), delay=3))[-1]

    later = list(progressive(data, GaussianNB(), moment="at", delay=dt.timedelta(3)))[-1]
    at_once = list(progressive(data, GaussianNB(), moment="at"))[-1]
    assert later.scores == by_number.scores
    assert at_once.scores == list(progressive(DATA, GaussianNB()))[-1].scores


def test_river_models_that_ask_for_labels_are_refused() -> None:
    """They answer a pair, and would decide which labels they learn."""
    with pytest.raises(SchemaError, match="EntropySampler asks for labels"):
        RiverClassifier(active.EntropySampler(naive_bayes.GaussianNB()))


def test_names_that_are_one_as_text_are_refused() -> None:
    """The last of them was kept, without a word."""
    learner = known(MixedNB)
    before = learner.fingerprint()
    for x in ({1: 2.0, "1": 3.0}, {"1": 3.0, 1: 2.0}, {True: 1.0, "True": 2.0}):
        with pytest.raises(InvalidRecordError, match="two features have the name"):
            learner.learn_one(x, "p")
    learner.predict_one({1: 2.0, 2: 3.0})

    assert learner.fingerprint() == before


def test_forgetting_no_id_forgets_nothing() -> None:
    """Records without an id have none that could be named."""
    learner = KNNClassifier()
    learner.learn_one({"n": 1.0}, "p")
    learner.learn_one({"n": 2.0}, "q", id="named")

    with pytest.raises(SchemaError, match="an id must be text or an integer"):
        learner.forget(None)
    assert learner.forget("named") == 1
    assert learner.classes == ["p"]


@pytest.mark.parametrize("data", [b"", b"PK\3\4", None, 5, "text", bytes(100)], ids=repr)
def test_state_of_anything_else_is_a_state_error(data) -> None:
    """Also where it is not even bytes."""
    with pytest.raises(StateError, match="expected a state made by to_bytes"):
        State.from_bytes(data)
