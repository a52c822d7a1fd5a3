"""Strange arguments, and every public call that takes one: what the API is fuzzed with.

A call with a strange argument either works or raises an error of `stream.errors`, in one line; in
the second case the learner is what it was.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from inspect import signature
from math import inf, nan
from random import Random
from typing import Any

import numpy as np

from stream import (
    BernoulliNB,
    Block,
    Calibrated,
    CategoricalBayes,
    CategoricalNB,
    ComplementNB,
    DecisionTreeClassifier,
    Field,
    GaussianBayes,
    GaussianNB,
    KNNClassifier,
    Learner,
    LogisticRegression,
    MixedBayes,
    MixedNB,
    Mixture,
    MultinomialNB,
    PoissonNB,
    RiverClassifier,
    Rows,
    Schema,
    SpamScorer,
    State,
    TargetEncoded,
)
from stream.checks import yield_laws
from stream.decision import BayesDecision, OverallRisk
from stream.drift import ADWIN, DriftRule, MonitorRule, build
from stream.errors import StreamError
from stream.evaluate import progressive
from stream.evaluate.progressive import Events, Progressive
from stream.join.join import LabelJoin
from stream.preprocessing import Discretized, Discretizer, MDLDiscretizer, QuantileSketch
from stream.text import bucket, encode, encode_many, tokens

LEARNERS: dict[str, Callable[[], Learner]] = {
    "GaussianNB": GaussianNB,
    "GaussianNB fading": lambda: GaussianNB(half_life=50),
    "GaussianBayes": GaussianBayes,
    "CategoricalNB": CategoricalNB,
    "CategoricalBayes": CategoricalBayes,
    "BernoulliNB": BernoulliNB,
    "MultinomialNB": MultinomialNB,
    "MultinomialNB exact": lambda: MultinomialNB(vocabulary="exact"),
    "ComplementNB": ComplementNB,
    "MixedNB": lambda: MixedNB(text=["t"]),
    "MixedBayes": MixedBayes,
    "MixedBayes conditional": lambda: MixedBayes(conditional=True),
    "Discretized": lambda: Discretized(Discretizer(), CategoricalNB()),
    "MDLDiscretizer": lambda: Discretized(MDLDiscretizer(), CategoricalNB()),
    "PoissonNB": PoissonNB,
    "LogisticRegression": lambda: LogisticRegression(text=["note"]),
    "SpamScorer": SpamScorer,
    "Calibrated": lambda: Calibrated(
        Mixture([MixedNB(text=["note"]), Calibrated(KNNClassifier(window=20))])
    ),
    "Mixture": lambda: Mixture([MixedNB(text=["note"]), KNNClassifier(window=20)]),
    "TargetEncoded": lambda: TargetEncoded(["a", "c"], MixedNB(text=["note"]), 1),
    "KNNClassifier": lambda: KNNClassifier(window=20, n_neighbors=3),
    "DecisionTreeClassifier": lambda: DecisionTreeClassifier(window=20, grace_period=5),
}


DECISION = BayesDecision(losses={"a": {"p": 0, "q": 1}, "b": {"p": 1, "q": 0}})


NONE = np.empty((1, 0), dtype=object)
COLUMNS = ("ids", "row", "labels", "weights", "times", "dead")
RULE = DriftRule((MonitorRule("error", "ADWIN"),)).to_json()
MONITOR = RULE["monitors"][0]


class Odd:
    """What no one expects: it compares with nothing and has no text."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    def __hash__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return "Odd()"


SCALARS: list[Any] = [
    None, True, False, 0, 1, -1, 2, 10**400, -(2**63), 2**63, 0.0, -0.0, 1.5, nan, inf, -inf, 1e300,
    5e-324, "", "a", "x" * 600, "\ud800", "\0", "nan", "2", b"a", 1j, Decimal(1), Fraction(1, 3),
    np.float32(1.5), np.int8(3), np.bool_(True), np.str_("a"), np.datetime64("2020-01-01"),
    np.array(1.0), dt.datetime(2020, 1, 1), dt.timedelta(1), object, Odd, print,
]  # fmt: skip
NESTED: list[Any] = [
    [], {}, (), set(), [1], ["a"], [None], [[1.0]], {"a": 1}, {"x": nan}, {1: 2, "1": 3}, {None: 1},
    {"x": {"y": 1}}, range(3), np.zeros(3), np.zeros((2, 2)), np.array(["a", "b"]), "ab",
    np.array([1, None], dtype=object), iter([1]), [{"x": 1.0}], [{"x": "a"}, {"x": 1.0}],
]  # fmt: skip


def strange(rng: Random) -> Any:
    """Any of them. Iterators and unusual objects are created for each call."""
    if rng.random() < 0.05:
        return Odd()
    found = rng.choice(SCALARS if rng.random() < 0.6 else NESTED)
    return iter([1]) if isinstance(found, type(iter([]))) else found


def strange_record(learner: Learner, rng: Random) -> Any:
    """A record with a strange name or value, or something else altogether."""
    if rng.random() < 0.2:
        return strange(rng)
    x: dict[Any, Any] = dict(record(learner, rng, 1))
    names = ["n", "c", "b", "t", "new", "", "\ud800", 1, None, ("a",), "x" * 300]
    for _ in range(rng.randint(1, 2)):
        x[rng.choice(names)] = strange(rng)
    return x


def strange_rows(rng: Random, learner: Learner) -> Any:
    """Rows of the learner, one thing of them changed; or something else."""
    if rng.random() < 0.1:
        return strange(rng)
    rows = learner.rows([record(learner, rng, i) for i in range(3)])
    names = ("numeric_names", "categorical_names", "text_names")
    columns: dict[str, list[Any]] = {
        "numeric": [np.zeros((3, 1)), np.zeros(3), np.full((3, 3), inf), rows.numeric[:2], None],
        "categorical": [np.full(rows.categorical.shape, 5, dtype=object), np.zeros((3, 9)), "a"],
        "text": [np.full((3, 1), 1.0, dtype=object), np.zeros((0, 0)), rows.text[:, :0]],
        **{name: [("a", "a"), ("n",), (), None, (1, 2)] for name in names},
    }
    field = rng.choice(list(columns))
    parts = {name: getattr(rows, name) for name in Rows.__slots__}
    return Rows(**{**parts, field: rng.choice([*columns[field], strange(rng)])})


def strange_block(rng: Random, learner: Learner) -> Any:
    """A block made by hand, one column of it wrong."""
    if rng.random() < 0.1:
        return strange(rng)
    rows = learner.rows([record(learner, rng, i) for i in range(4)])
    block = Block.of(rows, rng.choice([0, 1, 2]), ["p", "q", "p", "q"])
    at = rng.randrange(4)
    damage: dict[str, list[Any]] = {
        "op": [3, -1, 127],
        "row": [10**9, -1, 4, -(2**40)],
        "y": [50, -1, -2, 2**31 - 1],
        "w": [0.0, -1.0, nan, inf, 2.0**60],
    }
    field = rng.choice([*damage, *damage, "rows", "labels", "dtype", "length", "other"])
    if field in damage:
        getattr(block, field)[at] = rng.choice(damage[field])
    elif field == "rows":
        block.rows = strange_rows(rng, learner)
    elif field == "labels":
        block.labels = rng.choice([[], ["p"], ["p", "p"], [1, 2], [1.5, 2], ("p", "q"), None])
    else:
        name = rng.choice(list(damage))
        old = getattr(block, name)
        found = {"dtype": old.astype(np.float32), "length": old[:2], "other": strange(rng)}
        setattr(block, name, found[field])
    return block


def record(learner: Learner, rng: Random, i: int) -> dict[str, Any]:
    """A good record for this learner."""
    number = float(rng.randrange(9)) if isinstance(learner, PoissonNB) else rng.random()
    x: dict[str, Any] = {"n": number, "b": bool(i % 2)}
    if learner.strings == "categorical":
        x["c"] = f"v{i % 3}"
    if learner.strings == "text" or learner._texts:
        x["t"] = f"word{i % 4} and word{i % 3}"
    return x


def known(make: Callable[[], Learner]) -> Learner:
    """A learner that has learned a little."""
    rng, learner = Random(1), make()
    for i in range(12):
        learner.learn_one(record(learner, rng, i), "pq"[i % 2])
    return learner


def calls(learner: Learner, rng: Random) -> dict[str, Callable[[], Any]]:
    """Every public call of a learner, with strange arguments."""
    x, good = strange_record(learner, rng), record(learner, rng, 1)
    y, w = strange(rng), rng.choice([1.0, strange(rng)])
    xs = rng.choice([[good, x], [x], strange(rng)])
    label = rng.choice(["p", y])
    out: dict[str, Callable[[], Any]] = {
        "learn_one": lambda: learner.learn_one(x, label, w),
        "learn_one y": lambda: learner.learn_one(good, y),
        "learn_one w": lambda: learner.learn_one(good, "p", strange(rng)),
        "predict_one": lambda: learner.predict_one(x),
        "predict_proba_one": lambda: learner.predict_proba_one(x),
        "learn_many": lambda: learner.learn_many(xs, rng.choice([["p"] * 2, y]), w),
        "predict_proba_many": lambda: learner.predict_proba_many(xs),
        "progressive_many": lambda: learner.progressive_many(strange_block(rng, learner)),
        "joint_log_likelihood_one": lambda: learner.joint_log_likelihood_one(x),
        "log_evidence_one": lambda: learner.log_evidence_one(x),
        "unlearn_one": lambda: learner.unlearn_one(x, label, w, age=rng.choice([None, 0, y])),
        "unlearn_one y": lambda: learner.unlearn_one(good, y, w),
        "explain_one": lambda: learner.explain_one(x, label, rng.choice([None, "q", y])),
        "linear_view": lambda: learner.linear_view(y, rng.choice([None, "q", y])),
        "merge": lambda: learner.merge(strange(rng)),
        "load_state": lambda: learner.clone().load_state(rng.choice([strange(rng), State(x)])),
        "limit": lambda: learner.clone().limit(y, strange(rng), strange(rng)),
    }
    if isinstance(learner, KNNClassifier):
        out["learn_one id"] = lambda: learner.learn_one(good, "p", id=y)
        out["forget"] = lambda: learner.forget(y)
        out["neighbors_one"] = lambda: learner.neighbors_one(x)
        out["density_one"] = lambda: learner.density_one(x)
    return out


@dataclass(frozen=True)
class Broken:
    """A call that broke the promise."""

    learner: str
    call: str
    seed: int
    why: str


def attack(name: str, seed: int) -> tuple[int, list[Broken]]:
    """One learner, every call once: how many were made, and which broke the promise."""
    make, broken = LEARNERS[name], []
    made = 0
    for call in calls(make(), Random(0)):
        rng, learner = Random(f"{name} {call} {seed}"), known(make)
        before, overflow = learner.fingerprint(), learner.overflows
        made += 1
        why = outcome(calls(learner, rng)[call])
        if why is not None and why != "":
            broken.append(Broken(name, call, seed, why))
        elif why == "" and (learner.fingerprint(), learner.overflows) != (before, overflow):
            broken.append(Broken(name, call, seed, "refused, and yet the learner changed"))
        try:  # whatever was accepted can be saved, loaded and asked
            again = make().load_state(State.from_bytes(learner.to_state().to_bytes()))
            if again.fingerprint() != learner.fingerprint():
                raise AssertionError("another fingerprint after a load")
            shares = learner.predict_proba_one({"n": 1.0}).values()
            if not all(0 <= p <= 1 for p in shares):
                raise AssertionError(f"no probabilities: {list(shares)}")
        except Exception as error:
            broken.append(Broken(name, call, seed, f"cannot go on: {error!r:.300}"))
    return made, broken


def other_calls(rng: Random) -> dict[str, Callable[[], Any]]:
    """Every other public call that takes more than a learner does."""
    odd = [strange(rng) for _ in range(6)]
    data = [({"x": float(i)}, i % 2) for i in range(8)]
    one = rng.choice([odd[0], (odd[0], odd[1]), ({"x": 1.0}, odd[1], {"w": odd[2]})])
    broken = [*data[:3], one]
    rows = rng.choice([odd[3], [{"x": 1.0}], [{"x": odd[4]}]])
    say = ("delay", "moment", "step", "window", "block_size")
    part = rng.choice([*RULE])
    some: dict[str, Any] = dict(zip(rng.sample(say, 2), odd, strict=False))
    # A class would be called as a function of the caller, and what that raises is the caller's.
    some = {name: value for name, value in some.items() if not isinstance(value, type)}
    return {
        "progressive": lambda: list(progressive(data, GaussianNB(), **some)),
        "progressive records": lambda: list(progressive(broken, GaussianNB())),
        "progressive learner": lambda: list(progressive(data, odd[5])),
        "progressive data": lambda: list(progressive(odd[5], GaussianNB())),
        "RiverClassifier": lambda: RiverClassifier(odd[0], odd[1]),
        "Rows.from_dicts": lambda: Rows.from_dicts(rows),
        "Block.of": lambda: Block.of(GaussianNB().rows([{"x": 1.0}]), 1, odd[1], odd[2]),
        "Schema.of": lambda: Schema.of(x=odd[0]),
        "Field": lambda: Field(odd[0], odd[1]),
        "State.from_bytes": lambda: State.from_bytes(odd[0]),
        "Discretizer": lambda: Discretizer(odd[0], odd[1]),
        "Discretizer.learn_one": lambda: Discretizer().learn_one({"x": odd[0]}, odd[1]),
        "Discretized": lambda: Discretized(odd[0], odd[1]),
        "tokens": lambda: list(tokens(odd[0])),
        "bucket": lambda: bucket(odd[1]),
        "encode": lambda: encode(odd[2]),
        "encode_many": lambda: encode_many(odd[3]),
        "QuantileSketch.learn": lambda: QuantileSketch().learn(odd[0], odd[1]),
        "QuantileSketch.cuts": lambda: QuantileSketch().cuts(odd[2]),
        "BayesDecision": lambda: BayesDecision(odd[0]),
        "decide_one": lambda: DECISION.decide_one(rng.choice([odd[1], {"p": odd[2]}])),
        "loss": lambda: DECISION.loss(odd[3], odd[4]),
        "OverallRisk": lambda: OverallRisk(rng.choice([DECISION, odd[0]]), odd[1]),
        "ADWIN.update": lambda: ADWIN().update(odd[4]),
        "yield_laws": lambda: list(yield_laws(odd[0])),
        "Rows": lambda: Block.of(Rows(("a",), odd[0], (), NONE, (), NONE), 1),
        "State": lambda: State(odd[0], rng.choice([{}, odd[1], {"a": odd[2]}])).to_bytes(),
        **{
            f"process {column}": partial(_process, column, odd[k])
            for k, column in enumerate(COLUMNS)
        },
        **_each("DriftRule", DriftRule, {"monitors": (MonitorRule("error", "ADWIN"),)}, odd),
        **_each("from_json", DriftRule.from_json, {"document": RULE}, odd),
        "from_json part": lambda: DriftRule.from_json({**RULE, part: odd[0]}),
        **_each("MonitorRule", MonitorRule, {"on": "error", "type": "ADWIN"}, odd),
        **_each("build", build, {"name": "ADWIN", "parameters": {"delta": odd[5]}}, odd),
        "MonitorRule.from_json": lambda: DriftRule.from_json(
            {**RULE, "monitors": [rng.choice([odd[0], {"on": odd[1]}, {**MONITOR, "on": odd[2]}])]}
        ),
        **{
            f"{name}({parameter})": partial(type(make()), **{parameter: odd[i % 6]})
            for name, make in LEARNERS.items()
            if "Discret" not in name
            for i, parameter in enumerate(signature(type(make())).parameters)
        },
    }


def _each(
    name: str, call: Callable[..., Any], given: dict[str, Any], odd: list[Any]
) -> dict[str, Callable[[], Any]]:
    """The call as it is, and with each of its arguments a strange one."""
    strange_ones = {
        f"{name}({parameter})": partial(call, **{**given, parameter: odd[i % 6]})
        for i, parameter in enumerate(signature(call).parameters)
    }
    return {name: partial(call, **given), **strange_ones}


def _process(column: str, value: Any) -> None:
    """Hand-made events, one column of which holds a strange value, or is one."""
    machine = Progressive(GaussianNB(), LabelJoin(), GaussianNB().rows([{"x": 1.0}]))
    for whole in (False, True):
        events = Events(["a", "b", "a"], [0, 1, -1], [None, None, "p"], [1.0, 2.0, 1.0], [0, 1, 2])
        some = getattr(events, column) or [0, 0, 0, 0]
        setattr(events, column, value if whole else [*some[:-1], value])
        try:
            machine.process(machine.learner.rows([{"x": 1.0}, {"x": 2.0}]), events)
        except StreamError:
            if whole:
                raise


def attack_others(seed: int) -> tuple[int, list[Broken]]:
    """Each of the other calls once."""
    found = other_calls(Random(seed))
    whys = {name: outcome(call) for name, call in found.items()}
    return len(found), [Broken("", name, seed, why) for name, why in whys.items() if why]


def outcome(call: Callable[[], Any]) -> str | None:
    """None where it works, "" where it is refused as documented, else what is wrong with it."""
    try:
        call()
    except StreamError as error:
        text = str(error)
        return "" if text and "\n" not in text else f"not one line: {text!r:.300}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


def flipped(state: State, rng: Random) -> bytes:
    """The state as bytes, a few bits of them flipped, some lost or doubled."""
    data = bytearray(state.to_bytes())
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        at = rng.randrange(len(data))
        what = rng.random()
        if what < 0.9:
            data[at] ^= 1 << rng.randrange(8)
        elif what < 0.95:
            del data[at : at + rng.randint(1, 40)]
        else:
            data[at:at] = data[at : at + rng.randint(1, 40)]
    return bytes(data)


def altered(state: State, rng: Random) -> State:
    """The state with an array or a part of its header damaged, as no checksum would show."""
    arrays = {name: array.copy() for name, array in state.arrays.items()}
    header = json.loads(state.header_bytes())
    where = rng.random()
    if where < 0.6 and arrays:
        name = rng.choice(sorted(arrays))
        array = arrays[name]
        how = rng.random()
        if how < 0.6 and array.size:
            raw = bytearray(array.tobytes())
            for _ in range(rng.choice([1, 1, 3])):
                raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
            arrays[name] = np.frombuffer(bytes(raw), array.dtype).reshape(array.shape)
        elif how < 0.7:
            del arrays[name]
        elif how < 0.8:
            arrays[name] = array[:-1] if array.ndim else array
        elif how < 0.9:
            arrays[name] = array.astype(rng.choice([np.float32, np.int64, np.float64, "S4"]))
        else:
            arrays[name] = np.concatenate((array, array)) if array.ndim else array
        return State(header, arrays)
    node: Any = header
    while True:
        inner = [k for k, v in _items(node) if isinstance(v, dict | list) and v]
        if not inner or rng.random() < 0.2:
            break
        node = node[rng.choice(inner)]
    keys = [k for k, _ in _items(node)]
    if keys and rng.random() < 0.2:
        del node[rng.choice(keys)]
    elif keys:
        values = [None, True, -1, 2**70, 1e308, "", "\ud800", [], {}, [1], {"a": 1}, "x", 0]
        node[rng.choice(keys)] = rng.choice(values)
    return State(header, arrays)


def _items(node: Any) -> list[tuple[Any, Any]]:
    return list(node.items() if isinstance(node, dict) else enumerate(node))


def each_altered(names: Iterable[str], seeds: Sequence[int]) -> tuple[int, list[Broken]]:
    """A damaged state of each learner for each seed, loaded: refused as documented, or usable."""
    made, broken = 0, []
    for name in names:
        state = known(LEARNERS[name]).to_state()
        for seed in seeds:
            made += 1
            found = altered(state, Random(f"{name} {seed}"))

            def load(found: State = found, name: str = name) -> None:
                learner = LEARNERS[name]().load_state(found)
                good = record(learner, Random(0), 1)
                learner.predict_proba_one(good)
                learner.learn_one(good, "p")
                learner.to_state().to_bytes()

            why = outcome(load)
            if why:
                broken.append(Broken(name, "load_state", seed, why))
    return made, broken


def each_damage(
    states: Iterable[tuple[str, State]], seeds: Sequence[int]
) -> tuple[int, list[Broken]]:
    """A damage of each state for each seed: read, or refused as documented."""
    made, broken = 0, []
    for name, state in states:
        for seed in seeds:
            data = flipped(state, Random(f"{name} {seed}"))
            made += 1

            def load(data: bytes = data, name: str = name) -> None:
                found = State.from_bytes(data)
                if name in LEARNERS:
                    LEARNERS[name]().load_state(found).predict_proba_one({"n": 1.0})

            why = outcome(load)
            if why:
                broken.append(Broken(name, "from_bytes", seed, why))
    return made, broken
