"""The rules of the delayed-label join: state of an id × event → transition, as one table.

An observation and its label arrive apart: in either order, late, twice, or never. The join holds
what it knows under the observation's id, which is compared as text. Every id is in one state:

- UNKNOWN: the join has nothing for it.
- WAITING: its observation was predicted. Its row is kept until its label comes.
- EARLY: its label came first. The label is kept until its observation comes.
- UNFIT: as EARLY, but the label can no longer be learned, because labels that met their
  observations since then fixed another kind or filled `max_classes`.
- LABELLED: its label came, and its row is not kept.
- CORRECTABLE: its label was learned, and its row is kept so that another label can replace it.
- UNLABELLED: its observation was given up before a label came.

The last three are *settled*: the id is kept only to recognize what comes again. Events come from
three sides: the stream (an observation, with or without a label inside, or a label on its own),
time and bounds (`SILENCE`, `SILENCE_VOID`, `EXPIRY`, `OVERFLOW`), and the learner or the service
(`CORRECTED`, `NOT_CORRECTED`, `WITHDRAWN`, `OUTVOTED`). The rules, each with its reason:

1. The first label wins, because a prediction is scored once, against what was known first. An equal
   label is a duplicate, another one conflicts. Only a CORRECTABLE id takes another label.
2. An observation is predicted each time it comes, because somebody waits for the prediction. But an
   id is learned once, because a redelivered record is not new evidence. So the label inside a
   repeated observation is ignored, even while the id waits for a label; a label on its own counts.
3. A label is learned on the row as it was encoded when it was predicted. That row is kept.
4. A label inside an observation is judged first: if it cannot be learned, the whole record is a
   dead letter and the state of its id does not change, so that the record can be sent again.
5. A label on its own is first compared with the label of a settled id, and judged only where it
   may be learned, so that a late label is counted as late, not as a dead letter.
6. Only a label that met its observation fixes the kind of labels or takes one of `max_classes`,
   because an early label may be junk for an id that never comes. An early label is judged again
   when its observation, or another label of its id, comes. If it is UNFIT then, it is rejected, and
   the new record is handled as for an UNKNOWN id; but a new record that cannot be learned leaves
   the id UNFIT.
7. While labels are held back (the dead-letter breaker is open), an id is settled as if its label
   had been learned, but nothing is learned and no row is kept.
8. Waiting rows, early labels and settled ids are bounded by count, by bytes and by age. The oldest
   is removed first (`EXPIRY`, `OVERFLOW`). If an observation is removed, its id is settled, so that
   its label is counted as late. If an early label or a settled id is removed, the id becomes
   UNKNOWN.
9. With a label for silence, an observation that waits for more than `after` of stream time is
   learned with that label, as of that moment, before the event that moved stream time. It is then
   CORRECTABLE like any other. Silence is void if the record was decided otherwise, because nobody
   could object to what was put away. Then nothing changes, and the observation keeps waiting.
10. With reporters, a label on its own reaches the table only if its reporter may teach, and, where
   it differs from the label of the id, only if it outvotes that label. So an early label that is
   outvoted is dropped first (`OUTVOTED`).
11. A correction takes as long as hundreds of plain labels. So 1,000 are accepted at once, and then
   one for each eight labels that are learned (corrections are not counted among these). One above
   that (`LABEL_OVER_RATE`) is rejected, and the label of the id stands. So nobody can hold a shard
   by changing labels again and again.

`table` gives the transitions that hold with and without corrections and while labels are held back.
Pairs that are not in the table cannot occur. Kernels run what changes the state of an id. `COMMON`
names the transitions that they run many in one call. For all others `LabelJoin` finds state and
event, and runs the actions or has the kernel run them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Final, NamedTuple, TypeAlias

__all__ = ["COMMON", "IdEvent", "IdState", "JoinAction", "Table", "Transition", "table"]


class IdState(IntEnum):
    """The state of an id."""

    UNKNOWN = 0
    WAITING = 1
    EARLY = 2
    UNFIT = 3
    LABELLED = 4
    CORRECTABLE = 5
    UNLABELLED = 6


class IdEvent(IntEnum):
    """What happens to an id."""

    OBSERVATION = 0  # without a label inside
    OBSERVATION_LABEL = 1  # with a label inside that differs from an early one, if any
    OBSERVATION_SAME = 2  # with a label inside that equals the early one
    OBSERVATION_REFUSED = 3  # with a label inside that cannot be learned
    LABEL = 4  # on its own; it differs from the label of the id, if any
    LABEL_SAME = 5  # on its own; equal to the label of the id
    LABEL_REFUSED = 6  # on its own; it differs from the label of the id and cannot be learned
    EXPIRY = 7  # it is older than the horizon
    OVERFLOW = 8  # it is the oldest when a bound is reached
    WITHDRAWN = 9  # the record of its early label was rejected in a span removed by a rollback
    CORRECTED = 10  # the learner replaced its label by another one
    NOT_CORRECTED = 11  # the learner could not unlearn the label
    SILENCE = 12  # nobody labelled it in time
    SILENCE_VOID = 13  # as silence, but it was decided otherwise, or the label cannot be learned
    OUTVOTED = 14  # reporters whose votes weigh more gave another label
    LABEL_OVER_RATE = 15  # as label, but too many labels were corrected lately


class JoinAction(Enum):
    """What the join does."""

    COUNT = "count"  # only count the outcomes
    PREDICT = "predict"  # predict the row; no label will come for this prediction
    WAIT = "wait"  # predict the row, and keep it until its label comes
    LEARN_INSIDE = "learn_inside"  # predict the row, then learn it with the label inside
    LEARN_EARLY = "learn_early"  # predict the row, then learn it with the early label
    LEARN_KEPT = "learn_kept"  # learn the row that was kept with the label that came
    LEARN_SILENT = "learn_silent"  # learn the row that was kept with the label of silence
    HOLD_INSIDE = "hold_inside"  # as learn inside, but nothing is learned
    HOLD_EARLY = "hold_early"  # as learn early, but nothing is learned
    HOLD_KEPT = "hold_kept"  # as learn kept, but nothing is learned
    KEEP_LABEL = "keep_label"  # keep the label until its observation comes
    KEEP_FIRST = "keep_first"  # keep the early label of the id
    REJECT = "reject"  # the record is a dead letter
    PUT_OFF = "put_off"  # the record is a dead letter; send it again after more labels
    REFUSE_EARLY = "refuse_early"  # the record of the early label is a dead letter
    DROP_LABEL = "drop_label"  # remove the early label
    GIVE_UP = "give_up"  # remove the waiting row; its prediction gets no label
    FORGET = "forget"  # remove the settled id, and its row if it was kept
    CORRECT = "correct"  # the steps so far run first, and the correction after them, because only
    # the learner knows whether the old label can be unlearned
    RELABEL = "relabel"  # keep the new label, with the age of the first one


class Transition(NamedTuple):
    """What one event does to an id in one state.

    Parameters
    ----------
    then
        The next state. Bounds may remove the id at once: see `EXPIRY` and `OVERFLOW`.
    actions
        In order.
    outcomes
        Keys of `OUTCOMES` that are counted.
    """

    then: IdState
    actions: tuple[JoinAction, ...]
    outcomes: tuple[str, ...] = ()


Table: TypeAlias = Mapping[IdState, Mapping[IdEvent, Transition]]

UNKNOWN, WAITING, EARLY, UNFIT, LABELLED, CORRECTABLE, UNLABELLED = IdState
A = JoinAction


def _to(then: IdState, *actions: JoinAction, count: str = "") -> Transition:
    return Transition(then, actions, tuple(count.split()))


def _again(state: IdState) -> dict[IdEvent, Transition]:
    """An observation of a known id: rules 2 and 4."""
    return {
        IdEvent.OBSERVATION: _to(state, A.PREDICT, count="duplicate_observation"),
        IdEvent.OBSERVATION_LABEL: _to(state, A.PREDICT, count="duplicate_observation"),
        IdEvent.OBSERVATION_REFUSED: _to(state, A.REJECT, count="rejected"),
    }


# Removal of what is held: rule 8.
ROW_GOES = {
    IdEvent.EXPIRY: _to(UNLABELLED, A.GIVE_UP, count="expired"),
    IdEvent.OVERFLOW: _to(UNLABELLED, A.GIVE_UP, count="evicted"),
}
LABEL_GOES = {
    IdEvent.EXPIRY: _to(UNKNOWN, A.DROP_LABEL, count="early_expired"),
    IdEvent.OVERFLOW: _to(UNKNOWN, A.DROP_LABEL, count="early_evicted"),
    IdEvent.WITHDRAWN: _to(UNKNOWN, A.DROP_LABEL, count="rejected"),
}
SETTLED_GOES = {
    IdEvent.EXPIRY: _to(UNKNOWN, A.FORGET),  # nothing is lost: its horizon has passed
    IdEvent.OVERFLOW: _to(UNKNOWN, A.FORGET, count="forgotten"),
}
# Rule 9.
SILENCE_IGNORED = _to(WAITING, A.COUNT, count="silence_ignored")

# Without corrections, while labels are learned. `table` derives the other tables from it.
PLAIN: Final[Table] = {
    UNKNOWN: {
        IdEvent.OBSERVATION: _to(WAITING, A.WAIT),
        IdEvent.OBSERVATION_LABEL: _to(LABELLED, A.LEARN_INSIDE, count="joined"),
        IdEvent.OBSERVATION_REFUSED: _to(UNKNOWN, A.REJECT, count="rejected"),
        IdEvent.LABEL: _to(EARLY, A.KEEP_LABEL, count="early"),
        IdEvent.LABEL_REFUSED: _to(UNKNOWN, A.REJECT, count="rejected"),
    },
    WAITING: {
        **_again(WAITING),
        IdEvent.LABEL: _to(LABELLED, A.LEARN_KEPT, count="joined"),
        IdEvent.LABEL_REFUSED: _to(WAITING, A.REJECT, count="rejected"),
        IdEvent.SILENCE: _to(LABELLED, A.LEARN_SILENT, count="silence"),
        IdEvent.SILENCE_VOID: SILENCE_IGNORED,
        **ROW_GOES,
    },
    EARLY: {
        IdEvent.OBSERVATION: _to(LABELLED, A.LEARN_EARLY, count="joined"),
        IdEvent.OBSERVATION_LABEL: _to(LABELLED, A.LEARN_EARLY, count="conflicting joined"),
        IdEvent.OBSERVATION_SAME: _to(LABELLED, A.LEARN_EARLY, count="duplicate joined"),
        IdEvent.OBSERVATION_REFUSED: _to(EARLY, A.REJECT, count="rejected"),
        IdEvent.LABEL: _to(EARLY, A.KEEP_FIRST, count="conflicting"),
        IdEvent.LABEL_SAME: _to(EARLY, A.KEEP_FIRST, count="duplicate"),
        IdEvent.LABEL_REFUSED: _to(EARLY, A.REJECT, count="rejected"),
        IdEvent.OUTVOTED: _to(UNKNOWN, A.DROP_LABEL, count="outvoted"),
        **LABEL_GOES,
    },
    UNFIT: {  # the early label is rejected; then as UNKNOWN, except for refused records
        IdEvent.OBSERVATION: _to(WAITING, A.REFUSE_EARLY, A.WAIT, count="rejected"),
        IdEvent.OBSERVATION_LABEL: _to(
            LABELLED, A.REFUSE_EARLY, A.LEARN_INSIDE, count="rejected joined"
        ),
        IdEvent.OBSERVATION_REFUSED: _to(UNFIT, A.REJECT, count="rejected"),
        IdEvent.LABEL: _to(EARLY, A.REFUSE_EARLY, A.KEEP_LABEL, count="rejected early"),
        IdEvent.LABEL_REFUSED: _to(UNFIT, A.REJECT, count="rejected"),
        **LABEL_GOES,
    },
    LABELLED: {
        **_again(LABELLED),
        IdEvent.LABEL: _to(LABELLED, A.COUNT, count="conflicting"),
        IdEvent.LABEL_SAME: _to(LABELLED, A.COUNT, count="duplicate"),
        IdEvent.LABEL_REFUSED: _to(LABELLED, A.COUNT, count="conflicting"),
        **SETTLED_GOES,
    },
    CORRECTABLE: {
        **_again(CORRECTABLE),
        IdEvent.LABEL: _to(CORRECTABLE, A.CORRECT),
        IdEvent.LABEL_OVER_RATE: _to(CORRECTABLE, A.PUT_OFF, count="correction_over_rate"),
        IdEvent.LABEL_SAME: _to(CORRECTABLE, A.COUNT, count="duplicate"),
        IdEvent.LABEL_REFUSED: _to(CORRECTABLE, A.REJECT, count="rejected"),
        IdEvent.CORRECTED: _to(CORRECTABLE, A.RELABEL, count="corrected"),
        IdEvent.NOT_CORRECTED: _to(CORRECTABLE, A.COUNT, count="conflicting"),
        **SETTLED_GOES,
    },
    UNLABELLED: {
        **_again(UNLABELLED),
        IdEvent.LABEL: _to(UNLABELLED, A.COUNT, count="late"),
        IdEvent.LABEL_REFUSED: _to(UNLABELLED, A.COUNT, count="late"),
        **SETTLED_GOES,
    },
}

LEARNS = {A.LEARN_INSIDE, A.LEARN_EARLY, A.LEARN_KEPT, A.LEARN_SILENT}
HELD_BACK = {
    A.LEARN_INSIDE: A.HOLD_INSIDE,
    A.LEARN_EARLY: A.HOLD_EARLY,
    A.LEARN_KEPT: A.HOLD_KEPT,
    A.CORRECT: A.COUNT,
}

# What kernels plan if labels are learned and the label was learned before; so no label is refused,
# and no early label is unfit. They also remove what expires and what bounds no longer hold.
COMMON: Final = frozenset(
    (state, event)
    for state, row in PLAIN.items()
    for event in row
    if event
    in {
        IdEvent.OBSERVATION,
        IdEvent.OBSERVATION_LABEL,
        IdEvent.OBSERVATION_SAME,
        IdEvent.LABEL,
        IdEvent.LABEL_SAME,
    }
    and state != UNFIT
    and (state, event) != (CORRECTABLE, IdEvent.LABEL)
)


def table(*, corrections: bool = False, held_back: bool = False) -> Table:
    """The transitions that hold with or without corrections, and while labels are held back.

    Examples
    --------
    >>> table()[IdState.WAITING][IdEvent.LABEL].then.name
    'LABELLED'
    >>> table(corrections=True)[IdState.WAITING][IdEvent.LABEL].then.name
    'CORRECTABLE'
    >>> table(held_back=True)[IdState.WAITING][IdEvent.LABEL].outcomes
    ('held_back',)
    """
    change = _held_back if held_back else _with_corrections if corrections else None
    if change is None:
        return PLAIN
    return {
        state: {event: change(transition) for event, transition in row.items()}
        for state, row in PLAIN.items()
    }


def _with_corrections(transition: Transition) -> Transition:
    """Keep the row of a learned label, so that it can be corrected."""
    learns = LEARNS.intersection(transition.actions)
    return transition._replace(then=CORRECTABLE) if learns else transition


def _held_back(transition: Transition) -> Transition:
    """Rule 7. What is not learned cannot be corrected. Silence says nothing new, so it is void."""
    if A.LEARN_SILENT in transition.actions:
        return SILENCE_IGNORED
    if not HELD_BACK.keys() & set(transition.actions):
        return transition
    outcomes = [outcome for outcome in transition.outcomes if outcome != "joined"]
    return transition._replace(
        actions=tuple(HELD_BACK.get(action, action) for action in transition.actions),
        outcomes=(*outcomes, "held_back"),
    )
