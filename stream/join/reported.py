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
from stream.errors import StateError
from stream.join.join import Arrival, LabelJoin, same
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
    >>> from stream.join.events import EventFeed
    >>> from stream.join.events import Events
    >>> from stream.join.reporters import ReporterRules
    >>> join = ReportedJoin(ReporterRules(), corrections=True)
    >>> events = Events(["a", "a"], [0, -1], [None, "spam"], [1.0, 1.0], [0, 5])
    >>> events.reporters = [None, "ann"]
    >>> plan = join.begin(feed := EventFeed(events, [0]))
    >>> join.plan_next(plan, feed), join.plan_next(plan, feed)
    (True, True)
    >>> op, row, slot, code, weight = plan.columns()
    >>> op.tolist(), code.tolist(), [round(w, 3) for w in weight.tolist()]
    ([0, 1], [-1, 0], [1.0, 0.6])
    """

    def __init__(self, reporter_rules: ReporterRules, *join: Any, **more: Any) -> None:
        super().__init__(*join, **more)
        self.common = False
        self.reporters = Reporters(reporter_rules)

    def _decide(self, now: Arrival) -> None:
        """See `LabelJoin`. A label inside is trusted."""
        if now.row >= 0:
            self._decide_observation(now)
        else:
            self._decide_label(now)

    def _decide_observation(self, now: Arrival) -> None:
        held, id_ = self.state, now.id
        accepted = None if now.label is None else held.labels.accepted(now.label)
        votes: Votes | None = None
        if accepted is not None and (state := held.of(id_)) in (UNKNOWN, EARLY, UNFIT):
            votes = self._votes(id_) if state is EARLY else ()
            self._judge(votes, TRUSTED, accepted, 1.0)
            if state is EARLY and not same(held.early[id_][0], accepted):
                self.outvoted(id_)
        super()._decide(now)
        if accepted is not None and votes is not None:
            self._vote(id_, votes, TRUSTED, accepted, TRUSTED_VOTE)

    def _decide_label(self, now: Arrival) -> None:
        held, id_, names = self.state, now.id, now.feed.events.reporters
        reporter = None if names is None else names[now.event]
        number, trust, vote = TRUSTED, 1.0, TRUSTED_VOTE
        if reporter is not None or not self.reporters.rules.trusted:
            who = self.reporters.of(ANONYMOUS if reporter is None else reporter)
            if not self.reporters.count(who, held.time):
                held.outcomes["over_rate"] += 1
                now.plan.rejected[now.event] = "reporter_rate"
                return
            number, trust = who.number, self.reporters.weight(who)
            now.w = vote = max(min(now.w, 1.0) * trust, math.ulp(0.0)) if trust else 0.0
        state, accepted = held.of(id_), held.labels.accepted(now.label)
        votes: Votes | None = None
        if accepted is not None and state is not IdState.UNLABELLED:
            votes = () if state in (UNKNOWN, UNFIT) else self._votes(id_)
            self._judge(votes, number, accepted, trust)
            outcome = self._stopped(id_, state, (accepted, number, vote), votes)
            if outcome is not None:
                held.outcomes[outcome] += 1
                if state not in (UNKNOWN, UNFIT):
                    self._vote(id_, votes, number, accepted, vote)
                return
        now.w = now.w or 1.0  # an untrusted reporter's label comes here if it is rejected or late
        super()._decide(now)
        if accepted is not None and votes is not None:
            self._vote(id_, votes, number, accepted, vote)

    def to_state(self) -> State:
        """See `LabelJoin.to_state`."""
        name = self.state.table.id_of
        votes = {name(entry): cast for entry, cast in self.state.votes.items()}
        base, own = super().to_state(), self.reporters.to_state(votes)
        header = {**base.header, "reporters": own.header}
        return State(
            header, {**base.arrays, **{f"reporters/{k}": v for k, v in own.arrays.items()}}
        )

    def load_state(self, state: State) -> None:
        """See `LabelJoin.load_state`."""
        super().load_state(state)
        votes, find = self.reporters.load_state(state.nested("reporters")), self.state.table.find
        self.state.votes = {find(id_): cast for id_, cast in votes.items()}
        if -1 in self.state.votes:
            raise StateError("there are votes for an id that is not known")

    def _votes(self, id_: str) -> Votes:
        """The votes of an id that is known."""
        return self.state.votes.get(self.state.table.find(id_), ())

    def _judge(self, votes: Votes, number: int, label: Label, weight: float) -> None:
        """Compare a first label of a reporter with those that others gave before."""
        if weight and all(vote.number != number for vote in votes):
            mark = marked(label)
            for vote in votes:
                self.reporters.judge(vote.number, agrees=vote.mark == mark, weight=weight)

    def _stopped(
        self, id_: str, state: IdState, ballot: tuple[Label, int, float], votes: Votes
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
            self.outvoted(id_)
        return None

    def _vote(self, id_: str, votes: Votes, number: int, label: Label, weight: float) -> None:
        """Keep the votes of an id with this one, in place of an earlier one of the reporter."""
        entry = self.state.table.find(id_)
        if entry < 0:
            return  # a bound has removed it at once
        others = tuple(vote for vote in votes if vote.number != number)
        cast = (*others, Vote(number, marked(label), weight))
        if len(cast) > MOST_VOTES:  # the oldest goes, and never the trusted one
            first = int(cast[0].number == TRUSTED)
            cast = cast[:first] + cast[first + 1 :]
        self.state.votes[entry] = cast
