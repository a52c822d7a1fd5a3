"""An alarm between a model and its challengers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from stream import (
    GaussianNB,
    KNNClassifier,
    Rows,
)
from stream.contest.champion import MODEL, ChampionChallenger
from stream.data.state import State
from stream.drift import DriftRule, MonitorRule
from stream.evaluate.progressive import Progressive
from tests.stream.test_drift import SCHEMA, Event, given, known, machine, run, turning


def beside(learner, **challengers) -> ChampionChallenger:
    """A model that is watched for a choice of champion, and its challengers."""
    rule = DriftRule((MonitorRule("error", "DDM", {}, "challenger"),), warm_up=20)
    own = machine(rule, learner)
    out = ChampionChallenger(own, Rows.empty(SCHEMA))
    for name, other in challengers.items():
        out.enroll(name, other.clone(), 0)
    return out


def chosen(contest: ChampionChallenger, events: list[Event], cuts=(), explain=0):
    """Who spoke at each prediction, in calls that end at `cuts`; and what was said."""
    spoke, said = [], []
    for start, stop in pairwise([0, *cuts, len(events)]):
        part = events[start:stop]
        rows, told, features = given(part, start)
        result = contest.process(rows, told, rows, features, explain=explain)
        n = len(result.predictions)
        champions = [*result.champions, (n, "")]
        for (first, name), (last, _) in pairwise(champions):
            spoke += [name] * (last - first)
        said += known(result.predictions.dicts())
    return spoke, said


def test_an_alarm_lets_the_one_that_did_best_of_late_speak() -> None:
    """Behind its record, by the scores of all up to it; a model that forgets does best then."""
    events = turning(700)
    contest = beside(GaussianNB(), quick=GaussianNB(half_life=20), blind=KNNClassifier(1, window=2))
    spoke, _ = chosen(contest, events)
    ((at, *_), *_) = run(beside_machine(), events).alarms

    assert spoke[: at + 1] == [MODEL] * (at + 1)
    assert spoke[at + 1] == "quick"
    assert contest.champion == "quick"
    assert contest.promotions == 0
    assert contest._machine.drift.actions["challenger"] == 1


def beside_machine() -> Progressive:
    """The same model alone."""
    return machine(DriftRule((MonitorRule("error", "DDM", {}, "challenger"),), warm_up=20))


@pytest.mark.parametrize(("delay", "explain"), [(0, 9), (13, 0)])
def test_any_cut_of_the_stream_chooses_the_same_champion(delay, explain) -> None:
    """At the same record, by the same scores; explained or not; saved and loaded between."""
    events = turning(700, seed=1, delay=delay, unlabelled=0.1)
    rivals = {"quick": GaussianNB(half_life=20), "near": KNNClassifier(window=30)}
    whole, cut = beside(GaussianNB(), **rivals), beside(GaussianNB(), **rivals)
    expected = chosen(whole, events, range(1, len(events)))
    cuts = np.sort(np.random.default_rng(2).integers(1, len(events), 9)).tolist()

    assert len(set(expected[0])) > 1
    assert chosen(cut, events, cuts, explain) == expected
    assert cut.to_state() == whole.to_state()
    again = beside(GaussianNB(), **rivals)
    again._machine.load_state(State.from_bytes(cut._machine.to_state().to_bytes()))
    again.load_state(State.from_bytes(cut.to_state().to_bytes()))
    assert again.to_state() == cut.to_state()


def test_alone_a_model_stays_champion() -> None:
    """An alarm that would choose has nobody to choose."""
    contest = beside(GaussianNB())
    chosen(contest, turning(700))

    assert contest.champion == MODEL
    assert not contest._machine.drift.actions
