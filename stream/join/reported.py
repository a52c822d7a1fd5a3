"""The label join where labels name their reporter: who may teach, and which label stands.

`ReportedJoin` is `LabelJoin` with rules in front of it: it decides whether a label is learned, and
with which weight, and passes it on. What it knows about reporters is in `reporters.py`; the votes
of an id are in the state of the join, and are removed with the id.
"""

from __future__ import annotations

import math
from typing import Any

from stream.data.schema import Label
from stream.data.state import State
from stream.join.join import LabelJoin, same
from stream.join.plan import Plan
from stream.join.reporters import (
    ANONYMOUS,
    MOST_VOTES,
    TRUSTED,
    TRUSTED_VOTE,
    ReporterRules,
    Reporters,
    Vote,
    Votes,
    marked,
)
from stream.join.transitions import IdState

__all__ = ["ReportedJoin"]

UNKNOWN, EARLY, UNFIT = IdState.UNKNOWN, IdState.EARLY, IdState.UNFIT
LABELLED, CORRECTABLE = IdState.LABELLED, IdState.CORRECTABLE


class ReportedJoin(LabelJoin):
    """Joins labels of reporters to the observations they belong to.

    Parameters
    ----------
    reporter_rules
        The settings about reporters.
    join, more
        The parameters of `LabelJoin`.

    Attributes
    ----------
    reporters : Reporters
        Who labelled, and how much each is trusted.

    Examples
    --------
    >>> from stream.join.plan import Plan
    >>> from stream.join.reporters import ReporterRules
    >>> join, plan = ReportedJoin(ReporterRules(), corrections=True), Plan()
    >>> join.on_observation(plan, event=0, row=0, id="a", time=0)
    >>> join.on_label(plan, event=1, id="a", label="spam", w=1.0, time=5, reporter="ann")
    >>> [(op, label, round(weight, 3)) for op, row, slot, label, weight in plan.steps]
    [(0, None, 1.0), (1, 'spam', 0.6)]
    """

    def __init__(self, reporter_rules: ReporterRules, *join: Any, **more: Any) -> None:
        super().__init__(*join, **more)
        self.common = False
        self.reporters = Reporters(reporter_rules)

    def on_observation(
        self,
        plan: Plan,
        *,
        event: int,
        row: int,
        id: str,  # noqa: A002  the wire's name
        time: int,
        label: object = None,
        w: float = 1.0,
        learn: bool = True,
        size: int = 0,
    ) -> None:
        """See `LabelJoin.on_observation`. A label inside is trusted."""
        held = self.state
        votes: Votes | None = None
        accepted: Label | None = None
        if label is not None:
            if time > held.time:
                self.pass_time(plan, time)
            state, accepted = held.of(id), held.labels.accepted(label)
            if accepted is not None and state in (UNKNOWN, EARLY, UNFIT):
                votes = held.votes.get(id, ()) if state is EARLY else ()
                self._judge(votes, TRUSTED, accepted, 1.0)
                if state is EARLY and not same(held.early[id][0], accepted):
                    self.outvoted(plan, id)
        super().on_observation(
            plan, event=event, row=row, id=id, time=time, label=label, w=w, learn=learn, size=size
        )
        if accepted is not None and votes is not None:
            self._vote(id, votes, TRUSTED, accepted, TRUSTED_VOTE)

    def on_label(
        self,
        plan: Plan,
        *,
        event: int,
        id: str,  # noqa: A002  the wire's name
        label: object,
        w: float,
        time: int,
        learn: bool = True,
        reporter: str | None = None,
    ) -> None:
        """See `LabelJoin.on_label`. `reporter` None: the label names nobody."""
        held = self.state
        if time > held.time:
            self.pass_time(plan, time)
        number, trust, vote = TRUSTED, 1.0, TRUSTED_VOTE
        if reporter is not None or not self.reporters.rules.trusted:
            who = self.reporters.of(ANONYMOUS if reporter is None else reporter)
            if not self.reporters.count(who, held.time):
                held.outcomes["over_rate"] += 1
                plan.rejected[event] = "reporter_rate"
                return
            number, trust = who.number, self.reporters.weight(who)
            w = vote = max(min(w, 1.0) * trust, math.ulp(0.0)) if trust else 0.0
        state, accepted = held.of(id), held.labels.accepted(label)
        votes: Votes | None = None
        if accepted is not None and state is not IdState.UNLABELLED:
            votes = () if state in (UNKNOWN, UNFIT) else held.votes.get(id, ())
            self._judge(votes, number, accepted, trust)
            outcome = self._stopped(plan, id, state, (accepted, number, vote), votes)
            if outcome is not None:
                held.outcomes[outcome] += 1
                if state not in (UNKNOWN, UNFIT):
                    self._vote(id, votes, number, accepted, vote)
                return
        # A label of an untrusted reporter comes here only if it is rejected or late.
        super().on_label(plan, event=event, id=id, label=label, w=w or 1.0, time=time, learn=learn)
        if accepted is not None and votes is not None:
            self._vote(id, votes, number, accepted, vote)

    def to_state(self) -> State:
        """See `LabelJoin.to_state`."""
        base, own = super().to_state(), self.reporters.to_state(self.state.votes)
        header = {**base.header, "reporters": own.header}
        return State(
            header, {**base.arrays, **{f"reporters/{k}": v for k, v in own.arrays.items()}}
        )

    def load_state(self, state: State) -> None:
        """See `LabelJoin.load_state`."""
        super().load_state(state)
        self.state.votes = self.reporters.load_state(state.nested("reporters"))

    def _judge(self, votes: Votes, number: int, label: Label, weight: float) -> None:
        """Compare a first label of a reporter with those that others gave before."""
        if weight and all(vote.number != number for vote in votes):
            mark = marked(label)
            for vote in votes:
                self.reporters.judge(vote.number, agrees=vote.mark == mark, weight=weight)

    def _stopped(
        self, plan: Plan, id_: str, state: IdState, ballot: tuple[Label, int, float], votes: Votes
    ) -> str | None:
        """The outcome of a label that is not learned; None if it is passed on. An early label that
        it outvotes is dropped."""
        label, number, vote = ballot
        if not vote:
            return "quarantined"
        held = self.state
        if state in (LABELLED, CORRECTABLE):
            standing = held.settled[id_][0]
        elif state is EARLY:
            standing = held.early[id_][0]
        else:
            return None
        if standing is None or same(standing, label):
            return None
        others = [each for each in votes if each.number != number]
        mark, other = marked(label), marked(standing)
        for_it = sum((v.weight for v in others if v.mark == mark), vote)
        if sum(v.weight for v in others if v.mark == other) > for_it:
            return "outvoted"
        if state is EARLY:
            self.outvoted(plan, id_)
        return None

    def _vote(self, id_: str, votes: Votes, number: int, label: Label, weight: float) -> None:
        """Keep the votes of an id with this one, in place of an earlier one of the reporter."""
        if self.state.of(id_) is UNKNOWN:
            return  # a bound has removed it at once
        others = tuple(vote for vote in votes if vote.number != number)
        cast = (*others, Vote(number, marked(label), weight))
        if len(cast) > MOST_VOTES:  # the oldest goes, and never the trusted one
            first = int(cast[0].number == TRUSTED)
            cast = cast[:first] + cast[first + 1 :]
        self.state.votes[id_] = cast
