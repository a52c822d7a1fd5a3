"""A model and its challengers on the same steps. One of them is champion: it is published.

Rule: the champion only decides whose predictions are published. What is learned, rejected,
corrected and scored is the same with any challengers and any champion. So adding, promoting or
removing one does not change a bit of the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import inf, isfinite

import numpy as np
from numpy.typing import NDArray

from stream.contest import MOST
from stream.contest.compare import Comparison, RecentScores
from stream.contest.shadow import EarlierPredictions, Shadow, ShadowPredictions, ShadowSteps
from stream.data.block import Floats, Rows
from stream.data.state import State
from stream.decision import BayesDecision, OverallRisk
from stream.errors import SchemaError, StateError
from stream.evaluate.executed import ExplanationSettings
from stream.evaluate.progressive import Features, Progressive, Result
from stream.evaluate.result import Promotion, joined
from stream.join.events import EventFeed, Events
from stream.join.plan import Correction, Plan
from stream.learner.base import Learner
from stream.learner.predictions import connected

__all__ = ["MODEL", "ChampionChallenger", "Contestant"]

MODEL = ""  # the name of the model itself


@dataclass(frozen=True, slots=True)
class Contestant:
    """The champion or a challenger, with its current state.

    Parameters
    ----------
    name
        `MODEL` for the model itself.
    machine
        The learner and its scores.
    risk
        The risk of its decisions; None without decisions.
    missed
        Number of labels that the model learned and this one did not.
    skipped
        Number of other skipped steps, by kind.
    comparison
        Its comparison with the champion; None for the champion itself.
    """

    name: str
    machine: Progressive
    risk: OverallRisk | None
    missed: int
    skipped: dict[str, int]
    comparison: Comparison | None


class ChampionChallenger:
    """A champion and its challengers on one stream.

    Parameters
    ----------
    machine
        The machine of the model. It decides about records, whichever model is champion.
    like
        Rows with the columns of the stream, before any learner prepared them.
    rule
        The decision rule. None: no decisions.

    Attributes
    ----------
    champion : str
        Name of the champion.
    threshold : float
        e-value at which a challenger becomes champion, from the record at which it is reached. With
        k challengers each needs k times as much, so that the probability of a wrong promotion is 1
        / threshold for all of them together. inf: no promotion.
    promotions : int
        Number of promotions.
    running : str or None
        Name of the model whose steps run. After an error, of the model that raised it.

    Notes
    -----
    Every model runs on every block, so the cost is the sum over the models. Comparisons restart
    with every new champion.

    Drift is watched in the model itself. If the action of an alarm is ``"challenger"``, the model
    with the lowest Brier score over about the last hundred labels becomes champion after the
    alarm's record.
    """

    def __init__(self, machine: Progressive, like: Rows, rule: BayesDecision | None = None) -> None:
        self._machine, self._like, self._rule = machine, like, rule
        self._shadows: dict[str, Shadow] = {}
        self._comparisons: dict[str, Comparison] = {}
        self._lately = RecentScores()
        self.champion = MODEL
        self.running: str | None = None
        self.threshold = inf
        self.promotions = 0

    @property
    def names(self) -> list[str]:
        """Names of the challengers, in the order in which they were added."""
        return list(self._shadows)

    @property
    def eligible(self) -> set[str]:
        """Names of the model, the champion, and those that may be promoted automatically."""
        return {MODEL, *self.published(self._shadows, self.threshold, None)}

    def published(
        self, names: Collection[str], threshold: float | None, champion: str | None
    ) -> set[str]:
        """Those of the challengers whose predictions may be published, and the champion."""
        drift = self._machine.drift
        any_may = threshold is not None and isfinite(threshold)
        any_may |= drift is not None and drift.rule.chooses
        return {champion or self.champion, *(names if any_may else ())}

    def enroll(self, name: str, learner: Learner, learned: int) -> None:
        """Add an empty challenger. `learned`: number of labels the model has learned so far.

        Raises
        ------
        SchemaError
            The name exists already, or there are too many challengers.
        """
        if name in (MODEL, *self._shadows):
            raise SchemaError(f"challenger {name!r} exists already")
        if self._machine.join.silence is not None:
            # What silence teaches depends on what was published, so on who is champion.
            raise SchemaError(f"silence and challengers exclude each other; remove {name!r}")
        if len(self._shadows) >= MOST:
            raise SchemaError(f"expected at most {MOST} challengers, got {name!r} as one more")
        self._shadows[name] = Shadow(self._machine_of(learner), learned)
        self._comparisons[name] = Comparison()

    def dismiss(self, name: str) -> None:
        """Remove a challenger.

        Raises
        ------
        SchemaError
            It is the champion, or there is no such challenger.
        """
        if name == self.champion:
            raise SchemaError(f"{name!r} is the champion; promote another one first")
        self._shadows.pop(name, None)  # absent if its state is loaded without it
        del self._comparisons[name]
        self._lately.forget(name)

    def promote(self, name: str) -> None:
        """Make another model champion. The previous champion becomes its challenger.

        Raises
        ------
        SchemaError
            There is no model with this name.
        """
        if name not in (MODEL, *self._shadows):
            raise SchemaError(f"expected one of {', '.join(self._shadows)}, got {name!r}")
        if name != self.champion:
            self.champion = name
            rivals = (n for n in (MODEL, *self._shadows) if n != name)
            self._comparisons = {rival: Comparison() for rival in rivals}

    def process(
        self,
        rows: Rows,
        events: Events,
        raw: Rows,
        features: Features | None = None,
        published: NDArray[np.bool_] | None = None,
        *,
        explain: int = 0,
        only: NDArray[np.bool_] | None = None,
    ) -> Result:
        """Predict, score and learn, event by event. See `Progressive.process`.

        Parameters
        ----------
        rows, raw
            Rows prepared by the model, and the same rows unprepared.
        features
            The features watched for drift.
        published
            As there. It needs silence, with which there are no challengers.
        explain
            How many contributions the explanation of each prediction keeps. 0: no explanations.
        only
            For which rows it is made; None: for each.
        """
        why = ExplanationSettings(raw, explain, only) if explain else None
        if not self._shadows:
            self.running = MODEL
            result = self._machine.process(rows, events, why, features, published)
            self.running = None
            return result
        parts: list[Result] = []
        feed = EventFeed(events, rows.sizes())
        stops = [feed.stop]
        drift = self._machine.drift
        chosen = drift is not None and drift.rule.chooses
        if explain and (isfinite(self.threshold) or chosen):
            # Only the champion explains, so it must be known before the steps run.
            stops = list(range(1, feed.stop + 1))
        for stop in stops:
            feed.stop = stop
            while True:
                plan = self._machine.plan(feed)
                self._follow(plan.corrected)
                at = plan.renumber()
                watched = {name: values[at] for name, values in (features or {}).items()}
                taken = None if why is None else why.take(at)
                parts.append(self._run(plan, rows.take(at), raw.take(at), watched, taken))
                if plan.correction is None:
                    break
                if self._machine.correct(plan.correction):
                    self._follow([plan.correction])
        return joined(parts, list(self._machine.join.labels))

    def _run(
        self,
        plan: Plan,
        rows: Rows,
        raw: Rows,
        features: Features,
        why: ExplanationSettings | None,
    ) -> Result:
        """Run the steps of one plan on every model."""
        asked = ShadowSteps(plan, len(rows))
        earlier = EarlierPredictions(asked, self._machine.waiting)
        self.running = MODEL
        own = self._machine.run(plan, rows, why if self.champion == MODEL else None, features)
        answers = {MODEL: earlier.answers(own)}
        for name, shadow in self._shadows.items():
            self.running, explaining = name, why if name == self.champion else None
            answers[name] = shadow.follow(asked, plan, raw, explaining)
        self.running = None
        first, turns = self.champion, self._compare(asked, answers, self._choices(plan, own))
        return _published(asked, plan.events, answers, first, turns, why is not None)

    def _choices(self, plan: Plan, own: Result) -> list[int]:
        """The steps after which an alarm chooses the champion."""
        if self._machine.drift is None:
            return []
        monitors = self._machine.drift.rule.monitors
        called = [a.at for a in own.alarms if monitors[a.monitor].action == "challenger"]
        return sorted({plan.events.index(event) for event in called})

    def _compare(
        self, asked: ShadowSteps, answers: dict[str, ShadowPredictions], choices: list[int]
    ) -> list[tuple[int, str, float]]:
        """Add labelled predictions to the comparisons. Returns after which step who became
        champion."""
        start, due = 0, list(choices)
        turns: list[tuple[int, str, float]] = []
        lately = {name: (a.right, a.brier) for name, a in answers.items()}
        while True:
            stop = asked.answered.size
            if due:
                stop = int(np.searchsorted(asked.answered, due[0], side="right"))
            end, winner = self._first(asked, answers, start, stop)
            for name, comparison in self._comparisons.items():
                pair = _pair(answers, self.champion, name)
                comparison.advance(*pair, start, end, true=asked.true)
            self._lately.advance(lately, start, end)
            if winner is not None:
                turns.append((int(asked.answered[end - 1]), *self._turn(winner)))
                self.promotions += 1
            elif due:
                step, best = due.pop(0), self._lately.best(self.champion)
                if best != self.champion and self._machine.drift is not None:
                    turns.append((step, *self._turn(best)))
                    self._machine.drift.actions["challenger"] += 1
            else:
                return turns
            start = end

    def _turn(self, winner: str) -> tuple[str, float]:
        """Promote a challenger. Returns its name and the evidence."""
        e_value = self._comparisons[winner].e_value
        self.promote(winner)
        return winner, e_value

    def _first(
        self, asked: ShadowSteps, answers: dict[str, ShadowPredictions], start: int, stop: int
    ) -> tuple[int, str | None]:
        """The first step at which a challenger reaches the threshold, and its name."""
        winner = None
        needed = self.threshold * len(self._comparisons)
        for name, comparison in self._comparisons.items() if isfinite(needed) else ():
            trial = comparison.copy()
            pair = _pair(answers, self.champion, name)
            at = trial.advance(*pair, start, stop, needed, true=asked.true)
            if at is not None and (winner is None or at + 1 < stop):
                stop, winner = at + 1, name
        return stop, winner

    def _follow(self, corrected: list[Correction]) -> None:
        """Make the corrections in the challengers that the model has made."""
        for due in corrected:
            for shadow in self._shadows.values():
                shadow.correct(due)

    def _machine_of(self, learner: Learner) -> Progressive:
        join, window, keys = self._machine.join, self._machine.quality.window, self._machine.keys
        per = None if keys is None else keys.per  # of the same keys, also as champion
        return Progressive(learner, join, self._like, window=window, rule=self._rule, per=per)

    def contestants(self) -> Iterator[Contestant]:
        """All models, the base model first."""
        everyone: dict[str, tuple[Progressive, int, dict[str, int]]] = {
            MODEL: (self._machine, 0, {})
        }
        for name, shadow in self._shadows.items():
            everyone[name] = (shadow.machine, shadow.missed, dict(shadow.skipped))
        for name, (machine, missed, skipped) in everyone.items():
            with_champion = self._comparisons.get(name)
            yield Contestant(name, machine, machine.risk, missed, skipped, with_champion)

    def to_state(self) -> State:
        """A copy of the challengers and the comparisons, without the model's own machine."""
        order = list(self._comparisons)
        header = {
            "names": self.names,
            "champion": self.champion,
            "threshold": self.threshold if isfinite(self.threshold) else None,
            "promotions": self.promotions,
            "compared": order,
        }
        parts = {"contest": State(header), "lately": self._lately.to_state()}
        for i, shadow in enumerate(self._shadows.values()):
            parts[f"shadow {i}"] = shadow.to_state()
        for i, name in enumerate(order):
            parts[f"comparison {i}"] = self._comparisons[name].to_state()
        return State.join(parts)

    def load_state(self, state: State, without: Collection[str] = ()) -> None:
        """Load what `to_state` saved. The same challengers must exist and the join be loaded
        before.

        Parameters
        ----------
        without
            Challengers whose state is not loaded. They are removed, if they exist.

        Raises
        ------
        StateError
            The state is damaged or has other challengers. This object is then unusable.
        """
        header = state.nested("contest").header
        names = header["names"]
        unknown = {header["champion"], *header["compared"]} - {MODEL, *names}
        present = [name for name in names if name in self._shadows or name not in without]
        if present != self.names or unknown:
            raise StateError(f"expected challengers {self.names}, got {names}, {sorted(unknown)}")
        for name, shadow in self._shadows.items():
            if name not in without:
                shadow.load_state(state.nested(f"shadow {names.index(name)}"))
        self.champion, self.promotions = header["champion"], header["promotions"]
        self.threshold = inf if header["threshold"] is None else header["threshold"]
        self._comparisons = {name: Comparison() for name in header["compared"]}
        for i, comparison in enumerate(self._comparisons.values()):
            comparison.load_state(state.nested(f"comparison {i}"))
        self._lately.load_state(state.nested("lately"))
        for name in without:
            self.dismiss(name)


def _pair(
    answers: dict[str, ShadowPredictions], champion: str, challenger: str
) -> tuple[NDArray[np.int8], NDArray[np.int8], Floats, Floats]:
    """The arguments of `Comparison.advance` for two models."""
    one, other = answers[champion], answers[challenger]
    return one.right, other.right, one.brier, other.brier


def _published(
    asked: ShadowSteps,
    events: list[int],
    answers: dict[str, ShadowPredictions],
    first: str,
    turns: list[tuple[int, str, float]],
    explain: bool,
) -> Result:
    """The predictions of the champions, each from its promotion on. `events`: those of the
    steps."""
    own, old = answers[MODEL].result, answers[first].result
    why = old.explanations
    if explain and why is None:  # it cannot explain
        why = [None] * len(old.predictions)
    made, n = old.predictions, len(old.predictions)
    predicted, learned = old.predicted, old.learned_before
    champions, promotions = [(0, first)], []
    for step, name, e_value in turns:
        # The previous champion still made the prediction of the deciding step.
        at = int(np.searchsorted(asked.steps, step, side="right"))
        theirs, later = answers[name].result, np.arange(n) >= at
        made = connected([made.part(0, at), theirs.predictions.part(at, n)], made.classes)
        predicted = np.where(later, theirs.predicted, predicted)
        learned = np.where(later, theirs.learned_before, learned)
        champions.append((at, name))
        promotions.append(Promotion(at, name, e_value, events[step]))
    counts = (own.learned, learned, own.rejected, own.refused)
    # A budget knows only the predictions of the model itself.
    verdicts = own.verdicts if champions == [(0, MODEL)] else None
    more = (why, champions, promotions, own.alarms)
    return Result(made, predicted, *counts, *more, verdicts=verdicts)
