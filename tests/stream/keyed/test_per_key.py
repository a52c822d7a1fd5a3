"""`PerKeyNB` equals its slow twin, and existing learners at both ends of the strength."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream import (
    Block,
    CategoricalNB,
    GaussianNB,
    InvalidRecordError,
    MixedNB,
    Mixture,
    PerKeyNB,
    Schema,
)
from stream.checks import check_laws
from stream.checks.streams import Records, Step, delayed, run_blocks, run_one_by_one
from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN
from stream.errors import SchemaError, StateError
from stream.keyed import _kernels as kernels
from tests.seed import seeds, share
from tests.stream.keyed import twin
from tests.stream.keyed.twin import Twin

ALL = 1e100  # the strength of one model for all keys
KEYED = {
    "learned": PerKeyNB(per="words"),
    "fixed": PerKeyNB(per="words", strength=5),
    "alone": PerKeyNB(per="words", strength=0),
    "whole": PerKeyNB(per="words", strength=ALL),
    "unsmoothed": PerKeyNB(per="words", alpha=0, var_smoothing=0),
    "few": PerKeyNB(per="words", max_keys=3),
    "on disk": PerKeyNB(per="words", keys_on_disk=True),
}


def stream(n: int, seed: int, keys: int = 6) -> tuple[list[dict[str, Any]], list[str], list[float]]:
    """Records of keys that differ, with gaps, late classes and records without a key."""
    rng = np.random.default_rng(seed)
    xs: list[dict[str, Any]] = []
    ys: list[str] = []
    shift = rng.normal(scale=3.0, size=(keys, 2))
    for i in range(n):
        k = min(int(rng.zipf(1.5)) - 1, keys - 1)
        c = int(rng.integers(3 if i > n // 2 else 2))
        x: dict[str, Any] = {
            "tenant": f"t{k}" if rng.random() < 0.95 else None,
            "a": float(rng.normal(c + shift[k, 0])),
            "b": float(rng.normal(100 * shift[k, 1] - c)) if rng.random() < 0.8 else None,
            "c": "xyz"[int(rng.integers(3)) if k % 2 else c] if rng.random() < 0.9 else None,
        }
        xs.append(x)
        ys.append("pqr"[c])
    return xs, ys, rng.choice([1.0, 1.0, 2.0, 0.5], size=n).tolist()


@pytest.mark.parametrize("strength", [None, 0.0, 0.5, 3.0, 40.0, ALL])
def test_predictions_are_those_of_the_slow_twin(strength: float | None) -> None:
    """Sums that are updated, subtracted and scaled equal sums over all records."""
    xs, ys, ws = stream(160, seed=1)
    model = PerKeyNB(per="tenant", strength=strength)
    slow = Twin("tenant", strength, 1.0, 1e-9)
    for x, y, w in zip(xs, ys, ws, strict=True):
        expected = slow.predict(x)
        assert model.predict_proba_one(x) == pytest.approx(expected, rel=1e-7, abs=1e-9)
        model.learn_one(x, y, w)
        slow.learn(x, y, w)
    if strength is None:
        pick, last = slow.chosen(), len(twin.GRID) - 1
        own = [n == "(prior)" or pick == last + 1 for n in ("(prior)", *"abc")]
        best = {
            n: twin.GRID[slow.best(n) if by and pick > last else min(pick, last)]
            for n, by in zip(("(prior)", *"abc"), own, strict=True)
        }
        assert model.strengths == best
        assert model._table.strengths.evidence == pytest.approx(slow.evidence, rel=1e-7)


def test_comparisons_become_rarer(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first thousand labels every eighth is compared."""
    model, rng = PerKeyNB(per="k"), np.random.default_rng(3)
    seen = []
    for i in range(1024):
        before = model._table.strengths.evidence.copy()
        model.learn_one({"k": f"{i % 7}", "a": float(rng.normal(i % 2))}, "pq"[i % 2])
        if (model._table.strengths.evidence != before).any():
            seen.append(i)
    assert seen[-995:] == [*range(8, 1000), 1000, 1008, 1016]  # the first ones may be certain


def test_strength_0_is_a_model_of_each_key() -> None:
    """As many `GaussianNB` as keys: the same probabilities for classes that the key has."""
    rng = np.random.default_rng(5)
    model, alone = PerKeyNB(per="k", strength=0), dict[str, GaussianNB]()
    for i in range(300):
        c, key = int(rng.integers(2)), f"{rng.integers(5)}"
        x = {"a": float(rng.normal(c)), "b": float(rng.normal(1e9 + int(key), 1e-3))}
        if i > 50:
            own = alone[key].predict_proba_one(x)
            assert model.predict_proba_one({**x, "k": key}) == pytest.approx(own, rel=1e-6)
        model.learn_one({**x, "k": key}, c)
        alone.setdefault(key, GaussianNB()).learn_one(x, c)


@seeds(0.005)
def test_infinite_strength_is_one_model_for_all_keys(seed: int) -> None:
    """The probabilities of `MixedNB` without the key."""
    xs, ys, ws = stream(300, seed)
    model, one = PerKeyNB(per="tenant", strength=ALL), MixedNB()
    for x, y, w in zip(xs, ys, ws, strict=True):
        plain = {name: v for name, v in x.items() if name != "tenant"}
        expected = one.predict_proba_one(plain)
        assert model.predict_proba_one(x) == pytest.approx(expected, rel=1e-8, abs=1e-12)
        model.learn_one(x, y, w)
        one.learn_one(plain, y, w)


def test_categories_of_a_key_alone_are_those_of_categorical_nb() -> None:
    """One key of two, strength 0, with all values known to both."""
    rng = np.random.default_rng(6)
    model, alone = PerKeyNB(per="k", strength=0), {"1": CategoricalNB(), "2": CategoricalNB()}
    for i in range(200):
        key, x = "12"[i % 2], {"c": "uvw"[int(rng.integers(3))], "d": "xy"[int(rng.integers(2))]}
        y = bool(rng.integers(2))
        if i > 60:
            expected = alone[key].predict_proba_one(x)
            assert model.predict_proba_one({**x, "k": key}) == pytest.approx(expected, rel=1e-9)
        model.learn_one({**x, "k": key}, y)
        alone[key].learn_one(x, y)


@pytest.mark.parametrize("learner", KEYED.values(), ids=KEYED)
def test_laws_hold_with_keys(learner) -> None:
    """The laws' records have texts, which are the keys here."""
    check_laws(learner)


@settings(max_examples=share(0.25))
@given(
    name=st.sampled_from(sorted(KEYED)),
    drawn=st.lists(
        st.tuples(
            st.sampled_from([PREDICT, LEARN, PREDICT_THEN_LEARN]),
            st.sampled_from([None, "k", "l", "m", "n"]),
            st.sampled_from([None, 0.0, 1.0, -1e100, 1e100, 5e-324, 3.5]),
            st.sampled_from([None, "u", "v", ""]),
            st.sampled_from("pqr"),
            st.sampled_from([1.0, 0.25, 2.0**53]),
        ),
        min_size=1,
        max_size=40,
    ),
    cuts=st.lists(st.integers(0, 40), max_size=8),
)
def test_any_split_of_any_stream_gives_the_same_bits(name, drawn, cuts) -> None:
    """Blocks cut anywhere, and one-record calls, say and keep the same, also a copy (I1, I2)."""
    data = Records(
        [{"words": k, "a": a, "c": c} for _, k, a, c, _, _ in drawn],
        [y for *_, y, _ in drawn],
        [w for *_, w in drawn],
    )
    steps = [Step(op, i) for i, (op, *_) in enumerate(drawn)]
    whole, cut, single = (KEYED[name].clone() for _ in range(3))

    said = run_blocks(whole, data, steps, [])

    assert run_blocks(cut, data, steps, [c for c in cuts if c <= len(steps)]) == said
    assert run_one_by_one(single, data, steps) == said
    assert whole.fingerprint() == cut.fingerprint() == single.fingerprint()
    again = KEYED[name].clone().load_state(whole.to_state())
    assert again.fingerprint() == whole.fingerprint()
    more = Step(PREDICT_THEN_LEARN, 0)
    assert run_blocks(again, data, [more], []) == run_blocks(whole, data, [more], [])
    for p in said:
        assert all(0.0 <= v <= 1.0 for v in p.values())


def test_later_keys_have_no_model_and_are_counted() -> None:
    """They are predicted by, and learned for, all keys together."""
    xs, ys, _ = stream(400, seed=2, keys=40)
    model, one = PerKeyNB(per="tenant", max_keys=4), PerKeyNB(per="none", strength=ALL)
    for x, y in zip(xs, ys, strict=True):
        model.learn_one(x, y)
        one.learn_one({k: v for k, v in x.items() if k != "tenant"}, y)
    assert len(model.keys) == 4
    later = [x for x in xs if x["tenant"] is not None and x["tenant"] not in model.keys]
    assert model.overflows["keys"] == len(later) > 0
    assert model.learned(later[0]["tenant"]) == {}
    plain = {k: v for k, v in later[0].items() if k != "tenant"}
    assert model.predict_proba_one(plain) == model.predict_proba_one(later[0])
    assert model.predict_proba_one(plain) == pytest.approx(one.predict_proba_one(plain), rel=1e-6)


def test_values_of_a_key_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """All keys together still learn them."""
    model = PerKeyNB(per="k")
    model._entries = 40
    model.learn_many(
        [{"k": f"{i % 5}", "c": f"{i}"} for i in range(60)], ["pq"[i % 2] for i in range(60)]
    )
    assert model.overflows["entries"] > 0
    assert model._table.slots.seen[0].sum() == 60
    assert model._table.slots.seen[1:].sum() == 60 - model.overflows["entries"]


def test_limit_bounds_the_state() -> None:
    """With many keys and values, the arrays stay within the bytes."""
    schema = Schema.of(k="categorical", a="numeric", b="numeric", c="categorical")
    model = PerKeyNB(per="k")
    assert model.limit(400_000, schema, 3) == 3
    rng = np.random.default_rng(8)
    for start in range(0, 20_000, 2000):
        xs = [
            {"k": f"key {i}", "a": float(i), "b": 1.0, "c": f"value {rng.integers(3000)}"}
            for i in range(start, start + 2000)
        ]
        model.learn_many(xs, ["pqr"[i % 3] for i in range(2000)])
    t = model._table
    held = sum(a.nbytes for group in (t.slots, t.entries, t.strengths) for a in group)
    texts = model._keys.bytes + model._categories._bytes
    assert held + texts <= 400_000
    assert 50 < len(model.keys) == model.room_for_keys
    assert {k for k, v in model.overflows.items() if v} >= {"keys", "values"}


def test_limit_refuses_too_few_bytes() -> None:
    """The error says how many one key needs, and that many are enough."""
    schema = Schema.of(k="categorical", a="numeric", c="categorical")
    with pytest.raises(SchemaError, match="one key with these fields and 3 classes needs") as error:
        PerKeyNB(per="k").limit(100, schema, 3)
    needed = int(str(error.value).split("needs ")[1].split(" ")[0].replace(",", ""))
    assert PerKeyNB(per="k").limit(needed, schema, 3) == 3


@pytest.mark.parametrize(
    ("x", "says"),
    [
        ({"k": 7, "a": 1.0}, "'k'"),
        ({"k": "x", "a": "text"}, "'a'"),
        ({"k": "x", "c": 3.0}, "'c'"),
        ({"k": "x", "a": inf}, "'a'"),
    ],
)
def test_bad_records_are_refused_and_nothing_changes(x: dict[str, Any], says: str) -> None:
    """A key that is a number, and values of another kind than before."""
    model = PerKeyNB(per="k")
    model.learn_one({"k": "x", "a": 1.0, "c": "u"}, "p")
    before = model.fingerprint()
    for call in (lambda: model.learn_one(x, "q"), lambda: model.predict_proba_one(x)):
        with pytest.raises(InvalidRecordError, match=says):
            call()
    assert model.fingerprint() == before


def test_an_explanation_names_what_the_key_knows() -> None:
    """It sums to the log-odds, and the key is no feature."""
    xs, ys, ws = stream(200, seed=4)
    model = PerKeyNB(per="tenant")
    model.learn_many(xs, ys, ws)
    why = model.explain_one(xs[0])
    p = model.predict_proba_one(xs[0])
    assert why.log_odds == pytest.approx(np.log(p[why.label] / p[why.against]))
    assert set(why.contributions) <= {"(prior)", "a", "b", "c"}


def test_keys_that_differ_are_told_apart_and_equal_ones_are_not() -> None:
    """The learned strength is small for shifted features, and large for those that all share."""
    rng = np.random.default_rng(9)
    model, one, hits = PerKeyNB(per="k"), PerKeyNB(per="k", strength=ALL), np.zeros(2)
    for i in range(4000):
        k, c = int(rng.integers(40)), int(rng.integers(2))
        x = {
            "k": f"{k}",
            "own": float(rng.normal(3.0 * (k % 7) + c, 0.5)),
            "same": float(rng.normal(c)),
        }
        if i > 1000:
            hits += [model.predict_one(x) == c, one.predict_one(x) == c]
        model.learn_one(x, c)
        one.learn_one(x, c)
    assert hits[0] / 3000 > hits[1] / 3000 + 0.05
    assert model.strengths["own"] < 20 < model.strengths["same"]


def broken(array: str, change) -> Any:
    """A state in which one array was changed."""
    model = PerKeyNB(per="tenant")
    model.learn_many(*stream(60, seed=7)[:2])
    state = model.to_state()
    state.arrays[array] = change(state.arrays[array])  # type: ignore[index]
    return state


@pytest.mark.parametrize(
    ("array", "change"),
    [
        ("keys/lengths", lambda a: a[:-1]),
        ("keys/lengths", lambda a: -a),
        ("table/weight", lambda a: -a),
        ("table/moments", lambda a: a * np.nan),
        ("table/moments", lambda a: a[:-1]),
        ("table/tag", lambda a: a + 2**40),
        ("table/tag", lambda a: a * 0),
        ("table/tag", lambda a: -a),
        ("table/counts", lambda a: a[:-1]),
        ("table/counts", lambda a: a + np.inf),
        ("table/records", lambda a: a * 0 + (2**63 - 1)),
        ("table/values", lambda a: a + 100),
        ("table/evidence", lambda a: a[:-1]),
        ("table/records", lambda a: a - 1000),
    ],
)
def test_damaged_states_are_refused(array: str, change) -> None:
    """With a StateError, not later."""
    with pytest.raises(StateError):
        PerKeyNB(per="tenant").load_state(broken(array, change))


def test_state_of_a_larger_model_is_refused_with_the_reason() -> None:
    """Too many keys, or too many values of keys: more would be learned than there is room for."""
    schema = Schema.of(t="categorical", c="categorical")
    for keys, values, why in ((60, 1, "there is room for 37; allow more"), (30, 4, "more values")):
        large, small = PerKeyNB(per="t"), PerKeyNB(per="t")
        for i in range(keys * values):
            large.learn_one({"t": f"{i % keys}", "c": f"{i // keys}"}, "pq"[i % 2])
        small.limit(20_000, schema, 2)
        with pytest.raises(StateError, match=why):
            small.load_state(large.to_state())


def test_values_beyond_the_room_of_keys_are_learned_for_all() -> None:
    """A full table of entries still has room for new values of all keys together."""
    schema = Schema.of(t="categorical", c="categorical")
    model = PerKeyNB(per="t")
    model.limit(20_000, schema, 2)
    for i in range(3000):
        model.learn_one({"t": f"{i % 37}", "c": f"value {i}"}, "pq"[i % 2])
    t = model._table
    assert int(t.entries.used[0]) <= t.entries.tag.size
    assert t.slots.seen[0].sum() == model._categories.sizes.sum()
    again = PerKeyNB(per="t")
    again.limit(20_000, schema, 2)
    assert again.load_state(model.to_state()).fingerprint() == model.fingerprint()


@pytest.mark.parametrize("name", ["warm", "key"])
def test_kernels_compile_whatever_the_key_is_called(name: str) -> None:
    """The record that compiles them has no number in the field of the key."""
    PerKeyNB(per=name).compile_kernels()
    Mixture(experts=[{"type": "PerKeyNB", "per": name}, "MixedNB"]).compile_kernels()


def test_a_key_that_has_nearly_everything_leaves_no_rounding_error() -> None:
    """Categories of other keys are those of a model without it, or none."""
    model = PerKeyNB(per="k", strength=5)
    for y in "pq":
        model.learn_one({"k": "A", "c": "u"}, y, w=2.0**53)
    for _ in range(100):
        model.learn_one({"k": "B", "c": "v"}, "p")
    p = model.predict_proba_one({"k": "A", "c": "v"})
    assert sum(p.values()) == pytest.approx(1.0)
    assert p["p"] == pytest.approx(0.5, abs=0.01)


def test_strength_that_is_nearly_0_is_refused() -> None:
    """By name."""
    with pytest.raises(SchemaError, match="strength"):
        PerKeyNB(strength=5e-324)


def test_hash_table_with_many_collisions() -> None:
    """Entries are found whatever their number; compared with a dict."""
    rng = np.random.default_rng(1)
    model, counts = PerKeyNB(per="k"), dict[tuple[str, str], float]()
    for _ in range(10):
        xs = [{"k": f"{rng.integers(30)}", "c": f"{rng.integers(50)}"} for _ in range(200)]
        for x in xs:
            counts[x["k"], x["c"]] = counts.get((x["k"], x["c"]), 0.0) + 1.0
        model.progressive_many(Block.of(model.rows(xs), LEARN, ["p"] * 200))
    codes = {v: i for i, v in enumerate(model._categories.values(0))}
    for (key, value), count in counts.items():
        at = kernels.entry(model._keys.codes[key] + 1, 0, codes[value], model._table.entries)
        assert model._table.entries.counts[at, 0] == count
    assert len(delayed(3)) > 0
