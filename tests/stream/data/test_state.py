"""State: equality by bits, parts, checked arrays."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import pytest

from stream import GaussianNB, State, StateError
from stream.data.state import Saved, count_in, list_in, pack, texts, unpack

BASE = State({"n": 2, "name": "x"}, {"a": np.array([1.0, 2.0]), "b": np.arange(4).reshape(2, 2)})


@pytest.mark.parametrize(
    "other",
    [
        State({"n": 3, "name": "x"}, BASE.arrays),
        State(BASE.header, {"a": BASE.arrays["a"]}),
        State(BASE.header, {**BASE.arrays, "a": np.array([1.0, np.nextafter(2.0, 3.0)])}),
        State(BASE.header, {**BASE.arrays, "a": np.array([1.0, 2.0], dtype="float32")}),
        State(BASE.header, {**BASE.arrays, "b": np.arange(4)}),
        State(BASE.header, {"A": BASE.arrays["a"], "b": BASE.arrays["b"]}),
        State(BASE.header, {**BASE.arrays, "c": np.empty(0)}),
    ],
    ids=["header", "array gone", "last bit", "dtype", "shape", "name", "empty array"],
)
def test_states_that_differ_have_other_fingerprints(other) -> None:
    """Header, names, dtypes, shapes and every bit count."""
    assert other != BASE
    assert other.fingerprint() != BASE.fingerprint()


def test_fingerprint_does_not_depend_on_order_or_layout() -> None:
    """Equal states are equal however their dicts and arrays are laid out."""
    other = State(
        {"name": "x", "n": 2},
        {"b": np.asfortranarray(BASE.arrays["b"]), "a": np.array([1.0, 0.0, 2.0])[::2]},
    )

    assert other == BASE
    assert hash(other) == hash(BASE)


def test_fingerprint_is_the_same_in_every_run() -> None:
    """It may be stored and compared later, by other processes."""
    hashed = b'{"n":1}' + b"\0a\0<f8\0(1,)\0" + bytes(8)

    assert State({"n": 1}, {"a": np.zeros(1)}).fingerprint() == sha256(hashed).hexdigest()


def test_header_must_be_finite_json() -> None:
    """NaN has no JSON; it never enters a header."""
    with pytest.raises(ValueError, match="JSON"):
        State({"n": float("nan")}).fingerprint()


def test_copy_shares_no_array() -> None:
    """The original may go on changing."""
    state = State({}, {"a": np.zeros(2)})
    copied = state.copy()
    state.arrays["a"][0] = 1.0

    assert copied == State({}, {"a": np.zeros(2)})


def test_joined_parts_come_apart_again() -> None:
    """Each part is what went in."""
    parts = {"model": BASE, "join": State({"n": 0}, {"a": np.ones(3)})}
    whole = State.join(parts)

    assert {name: whole.nested(name) for name in parts} == parts


def test_parts_with_dots_in_their_names_stay_apart() -> None:
    """Names are the operator's: one may be another with a dot and more behind it."""
    parts = {"model": State({}, {"a": np.ones(1)}), "model.b": State({}, {"a": np.ones(2)})}
    whole = State.join(parts)

    assert {name: whole.nested(name) for name in parts} == parts


def test_part_that_is_not_there_is_named() -> None:
    """A state saved by another program says which part is missing."""
    with pytest.raises(StateError, match="'join'"):
        State.join({"model": BASE}).nested("join")


@pytest.mark.parametrize(
    ("name", "dtype", "ndim"), [("gone", "f8", 1), ("a", "f4", 1), ("a", "f8", 2), ("b", "f8", 2)]
)
def test_array_of_another_kind_is_refused(name, dtype, ndim) -> None:
    """Name, dtype and dimensions are checked on the way in."""
    with pytest.raises(StateError, match=f"array '{name}'"):
        BASE.array(name, dtype, ndim)


TABLE = {
    "count": Saved(np.int64, ("k",), 0),
    "mean": Saved(np.float64, ("k", 2), -9.0, 9.0),
    "key": Saved(np.uint32, ("k",), rising=True),
    "least": Saved(np.float64, ("k",), np.array([0.0, 1.0])),
    "free": Saved(np.float64),
    "scale": Saved(np.float64, ("k",), absent=1.0),
}
SOUND = {
    "count": np.array([3, 0]),
    "mean": np.zeros((2, 2)),
    "key": np.array([1, 7], dtype=np.uint32),
    "least": np.array([0.0, 1.0]),
    "free": np.array([np.nan]),
}


def test_table_gives_copies_of_its_arrays_in_its_order() -> None:
    """Lengths may be given or come from the arrays, and what was not saved has its one value."""
    state = State({}, {"more": np.zeros(9), **SOUND})

    found = state.read(TABLE)
    found["count"][0] = 5

    assert list(found) == list(TABLE)
    assert found["scale"].tolist() == [1.0, 1.0]
    assert state.arrays["count"].tolist() == [3, 0]
    assert state.read(TABLE, k=2)["mean"].shape == (2, 2)


@pytest.mark.parametrize(
    ("name", "array", "why"),
    [
        ("count", [3, -1], "numbers from 0 to 1"),
        ("count", [3], "mean': expected shape"),
        ("mean", np.full((2, 2), np.nan), "numbers from -9 to 9"),
        ("mean", np.full((2, 2), np.nextafter(9.0, 10.0)), "numbers from -9 to 9"),
        ("mean", np.zeros((2, 3)), "expected shape"),
        ("key", np.array([7, 7], dtype=np.uint32), "rising"),
        ("key", np.array([7, 1], dtype=np.uint32), "rising"),
        ("least", [0.0, 0.5], "its own bound"),
        ("least", [0.0, np.inf], "its own bound"),
        ("free", [], "expected shape"),
        ("scale", [1.0], "expected shape"),
    ],
)
def test_array_that_is_not_as_its_table_says_is_refused(name, array, why) -> None:
    """One error that names the array, and says what it must be."""
    given = np.asarray(array, dtype=TABLE[name].dtype)

    with pytest.raises(StateError, match=f"array '.*{why}"):
        State({}, {**SOUND, name: given}).read(TABLE)


def test_length_that_is_known_is_not_that_of_the_arrays() -> None:
    """The caller knows its classes; a state of others fits together and is not its own."""
    with pytest.raises(StateError, match=r"array 'count': expected shape \(3,\), got \(2,\)"):
        State({}, SOUND).read(TABLE, k=3)


def test_arrays_that_break_a_rule_are_refused_in_its_words() -> None:
    """A rule is asked once all arrays are as the table says."""
    rules = {"at most as many as the key": lambda a: a["count"] <= a["key"]}

    with pytest.raises(StateError, match="expected at most as many as the key, got others"):
        State({}, SOUND).read(TABLE, rules)
    with pytest.raises(StateError, match="array 'key': expected rising"):
        State({}, {**SOUND, "key": SOUND["key"][::-1].copy()}).read(TABLE, rules)


@pytest.mark.parametrize("found", [-1, 8, True, 1.0, "1", None])
def test_count_of_a_header_is_a_whole_number_within_its_bounds(found) -> None:
    """A count that is absent may have a value of its own."""
    with pytest.raises(StateError, match="n: expected 0 to 7, got"):
        count_in({"n": found}, "n", 7)

    assert [count_in({"n": n}, "n", 7) for n in (0, 7)] == [0, 7]
    assert count_in({}, "n", 7, absent=0) == 0


@pytest.mark.parametrize(
    ("lengths", "data"),
    [([1, 1], b"abc"), ([-1, 3], b"ab"), ([1, 2], b"a\xff\xfe"), ([1, 1], b"aa")],
    ids=["too few", "negative", "no UTF-8", "twice"],
)
def test_damaged_texts_are_refused(lengths, data) -> None:
    """Distinct texts only where they must be."""
    arrays = {"lengths": np.array(lengths), "bytes": np.frombuffer(data, dtype=np.uint8)}

    with pytest.raises(StateError):
        texts(State({}, arrays), distinct=True)


def test_array_is_a_private_copy() -> None:
    """What is loaded may be written to without touching the state."""
    BASE.array("a", np.float64, 1)[:] = 0.0

    assert BASE.arrays["a"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("values", [[], [None], ["", None, "é\0x"], ["\ud800"], ["a"] * 3])
def test_texts_survive_packing(values) -> None:
    """Empty, missing, odd and broken texts come back as they were."""
    assert unpack(pack(values)) == values


def test_state_of_a_learner_holds_no_object() -> None:
    """Numbers and texts only: loading one can run no code."""
    model = GaussianNB()
    model.learn_one({"a": 1.0}, "x")
    state = model.to_state()

    assert all(array.dtype != object for array in state.arrays.values())
    assert state.header_bytes()


def test_state_of_other_parameters_is_refused() -> None:
    """The same sums mean something else under another smoothing."""
    model = GaussianNB()
    model.learn_one({"a": 1.0}, "x")

    with pytest.raises(StateError, match=r"with var_smoothing = 0\.5, got 1e-09"):
        GaussianNB(var_smoothing=0.5).load_state(model.to_state())


def test_state_with_nan_is_refused() -> None:
    """No NaN gets in by way of a file (I4)."""
    model = GaussianNB()
    model.learn_one({"a": 1.0}, "x")
    state = model.to_state()
    state.arrays["gaussian/mean"][0, 0] = float("nan")

    with pytest.raises(StateError, match="'mean' of gaussian"):
        GaussianNB().load_state(state)


@pytest.mark.parametrize("name", ["prior/unit", "gaussian/unit"])
@pytest.mark.parametrize("value", [0.5, 1e300])
def test_state_with_a_unit_out_of_bounds_is_refused(name, value) -> None:
    """Weights overflowed later, and the state that was saved then was refused."""
    model = GaussianNB(half_life=5)
    model.learn_one({"a": 1.0}, "x")
    state = model.to_state()
    state.arrays[name][0] = value

    with pytest.raises(StateError, match="unit"):
        GaussianNB(half_life=5).load_state(state)


@pytest.mark.parametrize("damage", [b"", b"junk", slice(100), slice(-40)])
def test_bytes_that_are_no_state_are_refused(damage) -> None:
    """Cut anywhere or never one."""
    model = GaussianNB()
    model.learn_one({"a": 1.0}, "x")
    data = model.to_state().to_bytes()

    assert State.from_bytes(data) == model.to_state()
    with pytest.raises(StateError, match="made by to_bytes"):
        State.from_bytes(data[damage] if isinstance(damage, slice) else damage)


def deep() -> list[object]:
    """A list in a list, and so on; Python cannot print it."""
    out: list[object] = []
    for _ in range(100_000):
        out = [out]
    return out


@pytest.mark.parametrize("value", [deep(), "x" * 10**6, [0] * 10**5], ids=["deep", "text", "list"])
def test_header_of_any_size_is_refused_in_one_short_line(value) -> None:
    """The message had all of it, or ended with RecursionError."""
    state = GaussianNB().to_state()
    prior = {"prior": {"peaks": value}}
    spoiled = [
        {"learner": value},
        {"parameters": {**state.header["parameters"], "half_life": value}},
        {"parameters": {**state.header["parameters"], "x" * 10**6: value}},
        {"inner": {**state.header["inner"], **prior}},
    ]
    said = []
    for change in spoiled:
        with pytest.raises(StateError) as error:
            GaussianNB().load_state(State({**state.header, **change}, state.arrays))
        said.append(str(error.value))
    for read in (lambda: count_in({"n": value}, "n"), lambda: list_in({"n": value}, "n", 3)):
        with pytest.raises(StateError) as error:
            read()
        said.append(str(error.value))

    assert max(map(len, said)) < 300
    assert not any("\n" in each for each in said)


def test_header_that_json_cannot_hold_is_named() -> None:
    """Its fingerprint cannot be computed."""
    with pytest.raises(StateError, match="expected a header of JSON values"):
        State({"n": deep()}).fingerprint()
