"""TargetEncoded: its obvious twin, what it is for, late labels, bounds, damaged states."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream import (
    Block,
    InvalidRecordError,
    KNNClassifier,
    Learner,
    MixedNB,
    Mixture,
    Schema,
    SchemaError,
    State,
    StateError,
    TargetEncoded,
)
from stream.checks import check_laws
from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN
from stream.mixture.targets import Targets, tag_of
from tests.oracles.targets import SlowTargetEncoded
from tests.seed import share
from tests.stream.mixture.late import late, run_late

SHOPS = st.sampled_from([None, *"abcdefgh"])
RECORD = st.fixed_dictionaries(
    {"shop": SHOPS}, optional={"town": SHOPS, "a": st.sampled_from([0.0, 1.0, -3.0])}
)
STREAM = st.lists(
    st.tuples(RECORD, st.sampled_from("pqr"), st.sampled_from([1.0, 0.5, 2.0])),
    min_size=1,
    max_size=40,
)


def shops(n: int, seed: int, each: float = 1.5) -> tuple[list[dict[str, Any]], list[str]]:
    """Purchases in 2,000 shops, in a few of which many are frauds; `each`: how much they differ."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(-1.0, each, 2000)
    popular = 1.0 / np.arange(1, 2001) ** 0.8
    shop = rng.choice(2000, n, p=popular / popular.sum())
    amount = rng.normal(size=n)
    fraud = rng.random(n) < 1.0 / (1.0 + np.exp(-odds[shop] - 0.5 * amount))
    xs = [
        {"amount": a, "shop": f"s{s}"} for a, s in zip(amount.tolist(), shop.tolist(), strict=True)
    ]
    return xs, np.where(fraud, "fraud", "fine").tolist()


def losses(learner: Learner, xs: Sequence[dict[str, Any]], ys: Sequence[str]) -> np.ndarray:
    """The log loss of each record, labels at once."""
    block = Block.of(learner.rows(xs), PREDICT_THEN_LEARN, ys)
    found = learner.progressive_many(block).dicts()
    return np.array([-log(max(p.get(y, 0.5), 1e-9)) for p, y in zip(found, ys, strict=True)])


def trained(**parameters: Any) -> TargetEncoded:
    """A model with two encoded fields."""
    model = TargetEncoded(["shop", "town"], max_categories=2, **parameters)
    xs = [{"shop": f"s{i % 7}", "town": f"t{i % 5}"} for i in range(70)]
    model.learn_many(xs, ["pq"[i % 7 < 3] for i in range(70)])
    return model


@settings(max_examples=share(0.25))
@given(STREAM, st.sampled_from([1, 2, 5, 100]))
def test_posterior_is_that_of_the_obvious_twin(stream, limit) -> None:
    """Labels at once, before and after fields are encoded; missing values and new classes."""
    fast = TargetEncoded(["shop", "town"], "MixedNB", limit)
    twin = SlowTargetEncoded(["shop", "town"], MixedNB(), limit)
    for i, (x, y, w) in enumerate(stream):
        assert fast.predict_proba_one(x) == pytest.approx(twin.predict(x, i), abs=1e-9)
        fast.learn_one(x, y, w)
        twin.learn(x, y, w, i)
        assert fast.encoded == twin.encoded


@pytest.mark.parametrize("delay", [1, 7, 40])
def test_late_label_is_learned_with_what_was_known_then(delay) -> None:
    """The twin keeps the numbers of a prediction by id; they are never made again at the label."""
    xs, ys = shops(150, delay)
    events = late(ys, delay)
    model = TargetEncoded(["shop"], "MixedNB", 10)
    found, _ = run_late(model, xs, events, 1000, save=False)
    twin, expected = SlowTargetEncoded(["shop"], MixedNB(), 10), []
    for row, id_, label in zip(events.row, events.ids, events.labels, strict=True):
        if row >= 0:
            expected.append(twin.predict(xs[row], id_))
        else:
            twin.learn(xs[int(id_)], label, 1.0, id_)

    assert model.encoded == ["shop"]
    assert all(p == pytest.approx(q, abs=1e-9) for p, q in zip(found, expected, strict=True))


@pytest.mark.parametrize("delay", [0, 7, 25])
@pytest.mark.parametrize(
    "learner",
    ["MixedNB", Mixture(["MixedNB", KNNClassifier(window=20)], stack=True, rest=True)],
    ids=["single", "mixture"],
)
def test_blocks_and_restarts_change_no_bit_of_late_labels(delay, learner) -> None:
    """Also where the table grows, and a field is encoded, in the middle of a block."""
    model = TargetEncoded(["shop"], learner, 20)
    xs, ys = shops(180, delay)
    events = late(ys, delay)
    whole = run_late(model.clone(), xs, events, 1000, save=False)
    for size, save in ((1, False), (13, True)):
        assert run_late(model.clone(), xs, events, size, save) == whole


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_laws_hold_before_and_after_a_field_is_encoded(limit) -> None:
    """`python -m stream.checks` has the defaults, which encode nothing."""
    check_laws(TargetEncoded(["words"], "MixedNB", limit))


def test_row_that_is_predicted_twice_is_learned_with_its_last_prediction() -> None:
    """A label came between, so the row has other numbers. Split after each step it is the same."""
    xs = [{"shop": f"s{i % 4}"} for i in range(12)]
    model = TargetEncoded(["shop"], "MixedNB", 1)
    model.learn_many(xs, list("pqpqpppqqqpq"))
    op = np.array([PREDICT, PREDICT_THEN_LEARN, PREDICT, LEARN, LEARN, PREDICT], dtype=np.int8)
    row = np.array([0, 1, 0, 0, 1, 1])
    y = np.array([-1, 0, -1, 1, 1, -1], dtype=np.int32)
    whole, split = model.clone(), model.clone()
    for each in (whole, split):
        each.load_state(model.to_state())
    block = Block(whole.rows(xs[:2]), op, row, y, np.ones(6), ["p", "q"])
    found = whole.progressive_many(block).dicts()
    block = Block(split.rows(xs[:2]), op, row, y, np.ones(6), ["p", "q"])
    parts = [split.progressive_many(block.slice(i, i + 1)).dicts() for i in range(6)]

    assert found == [p for part in parts for p in part]
    assert whole.fingerprint() == split.fingerprint()


def test_few_values_stay_categories() -> None:
    """Then it is its learner, to the last bit."""
    xs, ys = shops(300, 1)
    xs = [{**x, "shop": x["shop"][:2]} for x in xs]  # at most ten
    model, alone = TargetEncoded(["shop"], "MixedNB"), MixedNB()
    for learner in (model, alone):
        learner.learn_many(xs, ys)

    assert model.encoded == []
    assert model._parts[0].fingerprint() == alone.fingerprint()
    assert model.predict_proba_many(xs[:9]) == alone.predict_proba_many(xs[:9])


def test_values_that_say_much_are_worth_much() -> None:
    """Beside the best that is known without them."""
    xs, ys = shops(8000, 1)
    kinds = {"amount": "numeric", "shop": "categorical"}
    without = [{"amount": x["amount"]} for x in xs]
    encoded = TargetEncoded(["shop"], "LogisticRegression").declare(Schema.of(**kinds))
    found = losses(encoded, xs, ys)[1000:].mean()

    assert found < losses(MixedNB(), without, ys)[1000:].mean() - 0.02


def test_values_that_say_nothing_cost_next_to_nothing() -> None:
    """At most 0.002 nats."""
    xs, ys = shops(8000, 1, each=0.0)
    without = losses(
        TargetEncoded([], "LogisticRegression"), [{"amount": x["amount"]} for x in xs], ys
    )
    encoded = losses(TargetEncoded(["shop"], "LogisticRegression"), xs, ys)

    assert encoded[1000:].mean() < without[1000:].mean() + 0.002


def test_what_is_new_of_a_value_counts_more() -> None:
    """Its class changed after 2,000 records of it; by all labels it would take as many again."""
    rng = np.random.default_rng(1)
    shop = rng.integers(0, 200, 6000).tolist()
    ys = ["pq"[(s % 2) ^ (i >= 4000)] for i, s in enumerate(shop)]
    model = TargetEncoded(["shop"], "LogisticRegression", 50)
    found = losses(model, [{"shop": f"s{s}"} for s in shop], ys)

    assert found[3000:4000].mean() < 0.05
    assert found[5500:].mean() < 0.2


def test_missing_value_is_no_evidence() -> None:
    """The learner gets no number for it."""
    model = trained()

    assert model.predict_proba_one({"shop": None}) == model.predict_proba_one({})
    assert model.predict_proba_one({"shop": "s1"}) != model.predict_proba_one({})


def test_correction_moves_the_label_in_the_counts() -> None:
    """To the last bit for counts of all labels, and nearly for those that fade."""
    xs, ys = shops(200, 3)
    model, right = (TargetEncoded(["shop"], "MixedNB", 5) for _ in range(2))
    model.learn_many(xs, ["fine", "fraud", *ys[2:]])
    right.learn_many(xs, ["fine", "fine", *ys[2:]])
    model.correct_rows(model.rows(xs[1:2]), ("fraud", 1.0), ("fine", 1.0), 198)
    counts, expected = (m.to_state().arrays["own/counts"] for m in (model, right))

    assert (counts[0] == expected[0]).all()
    assert counts[1] == pytest.approx(expected[1], abs=1e-9)


def test_explanation_names_the_field() -> None:
    """And no column of it; the contributions sum to the log-odds."""
    model = trained()
    why = model.explain_one({"shop": "s1", "town": "t1"})

    assert set(why.contributions) == {"(prior)", "shop", "town", "(together)"}
    p = model.predict_proba_one({"shop": "s1", "town": "t1"})
    odds = log(p[why.label] / p[why.against])
    assert sum(why.contributions.values()) == pytest.approx(odds)
    assert abs(why.contributions["shop"]) > abs(why.contributions["town"])
    assert model.features == ["shop", "town"]


@pytest.mark.parametrize("kind", [1.0, "x"])
def test_field_with_the_name_of_a_column_is_refused(kind) -> None:
    """It would be learned as the same column."""
    with pytest.raises(InvalidRecordError, match="rename it"):
        trained().predict_proba_one({"shop\x1fall\x1fq": kind})


def test_values_are_bounded() -> None:
    """The newest are kept, and what made room is counted. The state does not grow."""
    model = TargetEncoded(["shop"], "MixedNB", 3)
    model._targets.most = 128
    sizes = set()
    for at in range(0, 2000, 50):
        block = range(at, at + 50)
        model.learn_many([{"shop": f"s{i}"} for i in block], ["pq"[i % 2] for i in block])
        sizes.add(model.to_state().arrays["own/tag"].size)

    kept = set(model.to_state().arrays["own/tag"].tolist())
    assert sizes == {128}
    assert model.overflows["values"] == 2000 - 128
    assert tag_of("s1999", "shop") in kept
    assert tag_of("s0", "shop") not in kept
    assert sum(tag_of(f"s{i}", "shop") in kept for i in range(1900, 2000)) > 50


def test_limit_bounds_the_counts() -> None:
    """A sixteenth of the bytes; not even two classes fit in too few."""
    schema = Schema.of(shop="categorical", a="numeric")
    model = TargetEncoded(["shop"], "MixedNB", 3)
    classes = model.limit(1 << 20, schema, 10)
    n = range(3000)
    model.learn_many([{"shop": f"s{i}", "a": 1.0} for i in n], [f"c{i % classes}" for i in n])
    own = model._targets.export()

    assert classes == 10
    assert own.arrays["counts"].nbytes + 2 * own.arrays["tag"].nbytes <= (1 << 20) / 16
    assert model.overflows["values"] > 0
    with pytest.raises(SchemaError, match="allowed"):
        TargetEncoded(["shop"]).limit(10_000, schema, 10)


def test_state_continues() -> None:
    """To the last bit."""
    model = trained()
    state = State.from_bytes(model.to_state().to_bytes())
    other = model.clone().load_state(state)
    for each in (model, other):
        each.learn_many([{"shop": "s1"}, {"shop": "new", "town": "t9"}], ["p", "q"])

    assert other.encoded == ["shop", "town"]
    assert other.fingerprint() == model.fingerprint()


def _damaged(name: str, change: Any) -> State:
    state = trained().to_state()
    array = state.arrays[f"own/{name}"].copy()
    return State(state.header, {**state.arrays, f"own/{name}": change(array)})


def _moved(tag: Any) -> Any:
    at = np.flatnonzero(tag)[0]
    tag[(at + 8) % tag.size], tag[at] = tag[at], 0
    return tag


def _twice(tag: Any) -> Any:
    at = np.flatnonzero(tag)[0]
    free = next(k for k in range(at // 8 * 8, at // 8 * 8 + 8) if tag[k] == 0)
    tag[free] = tag[at]
    return tag


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("tag", lambda a: a[:32]),
        ("tag", lambda a: np.append(a, a)),
        ("tag", lambda a: -a),
        ("tag", _moved),
        ("tag", _twice),
        ("tag", lambda a: np.where(a == a.max(), 0, a)),
        ("used", lambda a: a + 1000),
        ("used", lambda a: a * 0),
        ("used", lambda a: np.ones_like(a)),
        ("counts", lambda a: a - 1.0),
        ("counts", lambda a: a * np.nan),
        ("counts", lambda a: a + 1.0),
        ("counts", lambda a: a[:1]),
        ("total", lambda a: a * np.inf),
        ("total", lambda a: a[:, :1]),
        ("distinct", lambda a: a + 1),
        ("distinct", lambda a: a[:1]),
    ],
)
def test_damaged_state_is_refused(name, change) -> None:
    """Other shapes, values out of bounds, and values that are not where they are looked for."""
    with pytest.raises(StateError):
        trained().clone().load_state(_damaged(name, change))


@pytest.mark.parametrize("header", [{"learned": -1}, {"learned": 1.5}, {"forgotten": None}])
def test_damaged_counts_of_labels_are_refused(header) -> None:
    """They are in the header."""
    state = trained().to_state()
    own = {**state.header["inner"]["own"], **header}
    inner = {**state.header["inner"], "own": own}
    with pytest.raises(StateError):
        trained().clone().load_state(State({**state.header, "inner": inner}, state.arrays))


@pytest.mark.parametrize("value", [0.0, 1.0, np.nan])
@pytest.mark.parametrize("known", [1.0, 2.0, 100.0])
def test_damaged_note_of_a_waiting_row_is_never_read_beyond_its_end(value, known) -> None:
    """More classes than it has shares of, and shares that no count gives."""
    model = trained()
    rows = model.rows([{"shop": "s1", "town": "t1"}])
    rows.memo = np.full((1, 3, model.memo_size), value)
    rows.memo[:, 0] = known
    model.run(Block.of(rows, LEARN, ["q"]))
    model.correct_rows(rows.with_memo(np.full((1, 2, 1), 0.5)), ("q", 1.0), ("p", 1.0), 0)

    assert sum(model.predict_proba_one({"shop": "s1"}).values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"fields": "shop"}, "list of names"),
        ({"fields": ["shop", "shop"]}, "twice"),
        ({"fields": ["a\x1fb"]}, "character"),
        ({"fields": [f"f{i}" for i in range(65)]}, "at most 64"),
        ({"learner": "NoSuch"}, "learner"),
        ({"max_categories": 0}, "max_categories"),
    ],
)
def test_wrong_parameter_is_refused(given, says) -> None:
    """With what is right."""
    with pytest.raises(SchemaError, match=says):
        TargetEncoded(**{"fields": ["shop"], **given})


def test_tables_that_grow_have_the_same_counts() -> None:
    """Each value is found after its group was divided."""
    counted = Targets(["shop"])
    model = TargetEncoded(["shop"], "MixedNB", 10**6)
    n = 3000
    model.learn_many([{"shop": f"s{i}"} for i in range(n)], ["pq"[i % 2] for i in range(n)])
    found = model._targets.export().arrays
    tags = found["tag"].tolist()

    assert counted.export().arrays["tag"].size == 64
    assert model.overflows["values"] == 0
    for i in range(n):
        at = tags.index(tag_of(f"s{i}", "shop"))
        assert found["counts"][0, at].tolist() == [float(i % 2 == 0), float(i % 2)]
        assert found["used"][at] == i + 1
