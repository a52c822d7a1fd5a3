"""The accuracy of what is not labelled yet, estimated: against sums over everything, and restarts.

The twin keeps every posterior by id and adds them up again for each question.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.evaluate.estimate import LAST, AccuracyEstimate
from stream.evaluate.progressive import Progressive
from tests.stream.evaluate.test_progressive import Event, machine, run, scattered


def waiting_accuracy(going: Progressive) -> float | None:
    """The mean probability of the predicted class over what waits, read from the store."""
    slots = going.join.kept_slots()[: going.join.pending]
    store = going.waiting
    sure = [
        store.proba.array[s, store.predicted.array[s, 0]]
        for s in slots.tolist()
        if store.predicted.array[s, 0] >= 0
    ]
    return sum(sure) / len(sure) if sure else None


def test_estimate_is_the_mean_probability_of_what_waits() -> None:
    """By hand, from the posteriors that were said; a label of one takes that one out."""
    going = machine()
    said = run(going, [Event("a", {"a": 0.0}, "p"), Event("b", {"a": 1.0}, "q")])
    said = run(going, [Event(i, {"a": x}) for i, x in (("c", 0.2), ("d", 0.5), ("e", 0.9))])
    top = [max(posterior.values()) for posterior in said]
    assert going.estimate.view().accuracy == pytest.approx(sum(top) / 3, abs=1e-9)

    run(going, [Event("d", None, "p")], times=[9])

    seen = going.estimate.view()
    assert seen.waiting == 2
    assert seen.accuracy == pytest.approx((top[0] + top[2]) / 2, abs=1e-9)
    right = max(said[1], key=said[1].__getitem__) == "p"
    assert seen.errors["all"] == pytest.approx(top[1] - right, abs=1e-9)


@given(
    seed=st.integers(0, 50),
    cuts=st.lists(st.integers(0, 60), max_size=8),
    bound=st.sampled_from([2, 10, 100]),
    horizon=st.sampled_from([3, 20, 1000]),
    corrections=st.booleans(),
)
def test_estimate_is_that_of_the_store_whatever_expires_is_evicted_or_corrected(
    seed, cuts, bound, horizon, corrections
) -> None:
    """After every call it is the mean over what waits then, in any split of the stream."""
    events = scattered(40, seed)
    cuts = [cut for cut in cuts if cut <= len(events)]
    going = machine(max_pending=bound, horizon=horizon, corrections=corrections)
    for start, stop in pairwise([0, *sorted(cuts), len(events)]):
        run(going, events[start:stop], times=list(range(start, stop)))

        seen, expected = going.estimate.view(), waiting_accuracy(going)
        assert seen.accuracy == (None if expected is None else pytest.approx(expected, abs=1e-9))
        assert seen.waiting <= going.join.pending


STRANGE = st.one_of(st.floats(), st.sampled_from([2.0**31, 2.0**40, 1e300, -1.0, 1 + 2**-52]))


@given(sure=st.lists(STRANGE, min_size=1, max_size=9))
def test_what_is_no_probability_leaves_the_sums_as_they_were(sure) -> None:
    """Of somebody else's learner, or a state that was changed; with warnings as errors."""
    estimate = AccuracyEstimate()
    said, proba = np.zeros(len(sure), dtype=np.int64), np.array(sure)
    estimate.begin(np.array([0]), np.array([0.25]))
    estimate.begin(said, proba)
    assert 0.0 <= (estimate.view().accuracy or 0.0) <= 1.0
    estimate.end(said, proba)
    estimate.judge(said, said, proba)

    assert estimate.view().accuracy == 0.25
    assert -1.0 <= (estimate.view().errors["all"] or 0.0) <= 0.0


def test_nothing_waits_once_all_has_expired() -> None:
    """What was added is taken away to the last bit."""
    going = machine(horizon=20)
    run(going, [*scattered(100, seed=3), *(Event(f"w{i}", {"a": i / 7}) for i in range(5))])
    before = going.estimate.view().accuracy
    run(going, [Event("end", {"a": 0.0}, "p")], times=[10_000])

    assert before is not None
    assert going.estimate.view().accuracy is None
    assert going.estimate.to_state().header["sum"] == 0


def test_error_is_of_predictions_that_waited() -> None:
    """Labels inside an observation, and predictions that named nothing, are not judged."""
    going = machine()
    run(going, [Event("first", {"a": 0.0}), Event("first", None, "p")])
    run(going, [Event(str(i), {"a": float(i)}, "pq"[i % 2]) for i in range(9)])

    assert going.estimate.view().errors == {"all": None, "last_1000": None}


def test_errors_are_of_all_and_of_the_last_thousand() -> None:
    """Against sums over the whole list, in calls of any size, longer than the window too."""
    rng = np.random.default_rng(1)
    said, true = rng.integers(-1, 3, 5000), rng.integers(0, 3, 5000)
    sure = rng.random(5000)
    estimate = AccuracyEstimate()
    for start, stop in pairwise([0, 1, 7, 700, 3200, 3200, 4990, 5000]):
        estimate.judge(true[start:stop], said[start:stop], sure[start:stop])

    error = (sure - (said == true))[said >= 0]
    seen = estimate.view().errors
    assert seen["all"] == pytest.approx(error.mean(), abs=1e-9)
    assert seen["last_1000"] == pytest.approx(error[-LAST:].mean(), abs=1e-9)


def test_calibrated_model_is_estimated_right_and_an_overconfident_one_is_found_out() -> None:
    """Right as often as it says: no error; sure of everything: an error as large as its excess."""
    rng = np.random.default_rng(2)
    sure = rng.uniform(0.5, 1.0, 100_000)
    right = rng.random(100_000) < sure
    said = np.zeros(100_000, dtype=np.int64)
    honest, boasting = AccuracyEstimate(), AccuracyEstimate()
    honest.judge(np.where(right, 0, 1), said, sure)
    boasting.judge(np.where(right, 0, 1), said, np.ones(100_000))

    assert honest.view().errors["all"] == pytest.approx(0.0, abs=0.005)
    assert boasting.view().errors["all"] == pytest.approx(0.25, abs=0.005)
