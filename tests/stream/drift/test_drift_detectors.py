"""Detectors: river's alarms, any cut of the values, and a state that goes on bit for bit."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from river import drift

from stream.data.state import State
from stream.drift import ADWIN, DETECTORS, RiverDetector, build
from stream.errors import SchemaError, StateError
from tests.seed import seeds

LENGTH = 100_000


def rate(shape: str, n: int) -> np.ndarray:
    """The mean of each of n values: abrupt changes, a gradual one, or none."""
    if shape == "abrupt":
        return np.where(np.arange(n) % (2 * n // 5) < n // 5, 0.1, 0.3)
    return np.linspace(0.1, 0.5, n) if shape == "gradual" else np.full(n, 0.2)


def values_of(shape: str, seed: int, n: int = LENGTH) -> np.ndarray:
    """Errors (even seeds) or losses (odd ones) about that mean."""
    rng = np.random.default_rng(seed)
    p = rate(shape, n)
    return (rng.random(n) < p).astype(float) if seed % 2 == 0 else rng.exponential(p)


def alarms_of(detector, values: np.ndarray, cuts=()) -> list[int]:
    """Where it alarms, given the values in calls that end at `cuts`."""
    found = []
    for start, stop in pairwise([0, *cuts, len(values)]):
        at = start
        while (i := detector.update_many(values[at:stop])) >= 0:
            at += i + 1
            found.append(at - 1)
    return found


def rivers(model: Any, values: np.ndarray) -> list[int]:
    """Where river's alarms, asked value by value."""
    found = []
    for i, x in enumerate(values.tolist()):
        model.update(x)
        if model.drift_detected:
            found.append(i)
    return found


def short(name: str) -> np.ndarray:
    """Values on which each detector alarms within the test's time."""
    n = 700 if name == "KSWIN" else 6000
    values = values_of("abrupt", 3 if not DETECTORS[name].binary else 4, n)
    return np.where(np.arange(n) % 500 < 250, values, 1.0 - values)


@pytest.mark.parametrize("shape", ["abrupt", "gradual", "none"])
@seeds(0.05)
def test_adwin_raises_rivers_alarms(shape, seed) -> None:
    """On 100,000 values: the same alarms, the same window, bit for bit."""
    values = values_of(shape, seed)
    ours, theirs = ADWIN(), drift.ADWIN()
    expected = rivers(theirs, values)

    assert alarms_of(ours, values) == expected
    theirs.update(1.0)  # after an alarm river forgets its window only now
    ours.update_many(np.ones(1))
    assert (ours.width, ours.total) == (theirs.width, theirs.total)
    assert ours.variance == theirs.variance
    assert expected or shape == "none"


@pytest.mark.parametrize(
    "parameters",
    [
        {"delta": 0.3, "clock": 1},
        {"max_buckets": 2},
        {"max_buckets": 9, "min_window_length": 40, "clock": 7},
        {"grace_period": 3000, "delta": 1e-9},
    ],
    ids=str,
)
def test_adwin_takes_rivers_parameters(parameters) -> None:
    """Each of them means what it means in river."""
    values = values_of("abrupt", 5, 20_000)
    ours, theirs = ADWIN(**parameters), drift.ADWIN(**parameters)

    assert alarms_of(ours, values) == rivers(theirs, values) != []
    assert ours.variance == theirs.variance


def test_adwin_says_from_what_to_what_the_mean_went() -> None:
    """The means of what was cut off and of what was left, at the alarm."""
    rng = np.random.default_rng(1)
    adwin = ADWIN()
    values = (rng.random(4000) < np.repeat([0.1, 0.5], 2000)).astype(float)
    at = adwin.update_many(values)

    assert 2000 < at < 2100
    assert adwin.before == pytest.approx(0.1, abs=0.02)
    assert adwin.after > adwin.before + 0.05  # what is left begins before the change


def test_adwin_stays_small() -> None:
    """A million values without a change are a few dozen buckets."""
    adwin = ADWIN()
    adwin.update_many(np.zeros(1_000_000))

    assert adwin.width == 1_000_000
    assert sum(a.nbytes for a in adwin.to_state().arrays.values()) < 3000


@pytest.mark.parametrize("name", [n for n in DETECTORS if n not in ("ADWIN", "FHDDM")])
def test_rivers_detectors_alarm_as_in_river(name) -> None:
    """What stands around a detector changes none of its alarms."""
    values = short(name)
    made = build(name, {})
    assert isinstance(made, RiverDetector)
    seeded = {"seed": 42} if name == "KSWIN" else {}
    model = getattr(drift, name, None) or getattr(drift.binary, name.replace("_", ""))

    assert alarms_of(made, values) == rivers(model(**seeded), values) != []


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(
    "parameters",
    [
        {"alpha": 0.05, "window_size": 40, "stat_size": 10, "seed": 3},
        {"alpha": 0.01, "window_size": 300, "stat_size": 100, "seed": 0},
    ],
    ids=str,
)
def test_kswin_asks_for_each_p_value_once_and_alarms_as_in_river(parameters, ties) -> None:
    """Whatever the sizes, and with values that are equal."""
    n = 1200
    rng = np.random.default_rng(7)
    values = np.round(rng.normal(np.arange(n) // 300 % 2), 1 if ties else 12)
    found = alarms_of(build("KSWIN", parameters), values)

    assert found == rivers(drift.KSWIN(**parameters), values) != []


def test_fhddm_alarms_when_errors_get_more() -> None:
    """river: told the errors, as its documentation says, FHDDM alarms where they get fewer."""
    worse = (np.random.default_rng(2).random(2000) < np.repeat([0.1, 0.6], 1000)).astype(float)

    assert rivers(drift.binary.FHDDM(), worse) == []
    assert rivers(drift.binary.FHDDM(), 1 - worse) == alarms_of(build("FHDDM", {}), worse)
    assert 1000 < alarms_of(build("FHDDM", {}), worse)[0] < 1100


@pytest.mark.parametrize("name", DETECTORS)
def test_any_cut_of_the_values_gives_the_same_alarms_and_state(name) -> None:
    """Value by value, in blocks or at once; and saved and loaded between them."""
    values = short(name)
    cuts = np.sort(np.random.default_rng(9).integers(1, len(values), 40)).tolist()
    at_once, in_calls, restored = (build(name, {}) for _ in range(3))
    expected = alarms_of(at_once, values)
    found = []
    for start, stop in pairwise([0, *cuts, len(values)]):
        found += [start + i for i in alarms_of(restored, values[start:stop])]
        saved = State.from_bytes(restored.to_state().to_bytes())
        restored = build(name, {})
        restored.load_state(saved)

    assert len(expected) > 0
    assert alarms_of(in_calls, values, cuts) == expected == found
    assert at_once.to_state() == in_calls.to_state() == restored.to_state()


@pytest.mark.parametrize("name", DETECTORS)
def test_the_state_of_another_detector_is_refused(name) -> None:
    """Never half a state: a name that is missing, or one too many, is told."""
    other = "DDM" if name != "DDM" else "ADWIN"

    with pytest.raises(StateError):
        build(name, {}).load_state(build(other, {}).to_state())


def test_an_adwin_of_other_buckets_is_refused() -> None:
    """The arrays of the state must be those of its parameters."""
    with pytest.raises(StateError, match="expected"):
        ADWIN(max_buckets=5).load_state(ADWIN(max_buckets=7).to_state())


@pytest.mark.parametrize(
    ("name", "parameters", "told"),
    [
        ("ADVIN", {}, "did you mean 'ADWIN'"),
        ("ADWIN", {"delta": 2.0}, "delta must be a number"),
        ("ADWIN", {"max_buckets": 1}, "max_buckets must be a whole number from 2"),
        ("DDM", {"warmstart": 3}, "did you mean 'warm_start'"),
        ("KSWIN", {"window_size": 50}, "at least twice stat_size"),
        ("FHDDM", {"short_window_size": 200}, "at most sliding_window_size"),
        ("EDDM", {"alpha": 0.5}, "alpha"),
        ("PageHinkley", {"mode": "sideways"}, "mode must be one of"),
    ],
)
def test_what_a_detector_cannot_use_is_one_line(name, parameters, told) -> None:
    """What was expected, what came; KSWIN of river would fail at its hundredth value."""
    with pytest.raises(SchemaError, match=told) as caught:
        build(name, parameters)

    assert "\n" not in str(caught.value)
