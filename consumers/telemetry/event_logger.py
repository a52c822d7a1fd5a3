"""Logs the run for people: progress, trouble by kind, and a summary at the end.

Each kind of trouble is logged when it first happens and then at most once per minute, with the
total so far, because a flood of equal lines hides all others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from operator import itemgetter

from consumers.base.counts import counted
from consumers.base.records import CLOCK_SLACK_MS, Partition, Uncommitted
from consumers.codecs.account import FieldsView
from consumers.codecs.unused import like_one
from consumers.shard.views import Committed, DriftAlarm, RiskView, ShardView
from consumers.telemetry.advice import only_one_class, only_one_scored, sentence, unmet_labels
from consumers.telemetry.optional import budget_sentence
from stream.data.schema import Label
from stream.decision import BudgetView
from stream.decision.risk import named

__all__ = ["EventLogger"]

log = logging.getLogger("headwater")

PROGRESS_SECONDS = 10.0
REPEAT_SECONDS = 60.0
LOOKED_AT = 1000  # observations; a field in fewer than 0.1 % of the records adds almost nothing
OPEN_SECONDS = 60.0  # age at which an open transaction is reported; Kafka's clients end it by then
MOST_ACTIONS = 5  # in one line
DONE = {
    "forget": "; the model restarts with the last records it learned, at most {keep:,}",
    "reset": "; the model restarts empty",
    "challenger": "; the model with the best recent score is champion from here on",
}
TROUBLE = {  # of one, and of more
    "duplicate_observation": (
        "observation repeats an id: predicted, not learned again",
        "observations repeat an id: predicted, not learned again",
    ),
    "duplicate": (
        "label repeats the label of its id: not learned again",
        "labels repeat the label of their id: not learned again",
    ),
    "conflicting": (
        "label contradicts the first one of its id: the first one counts",
        "labels contradict the first one of their id: the first one counts",
    ),
    "held_back": (
        "label was not learned: too many of the last records were dead letters",
        "labels were not learned: too many of the last records were dead letters",
    ),
    "late": (
        "label came after its observation had expired",
        "labels came after their observation had expired",
    ),
    "expired": (
        "observation got no label within [labels] horizon",
        "observations got no label within [labels] horizon",
    ),
    "evicted": (
        "observation was evicted without a label because [labels] max_pending was reached",
        "observations were evicted without a label because [labels] max_pending was reached",
    ),
    "early_expired": (
        "label found no observation within [labels] horizon",
        "labels found no observation within [labels] horizon",
    ),
    "early_evicted": (
        "early label was evicted because [labels] max_pending was reached",
        "early labels were evicted because [labels] max_pending was reached",
    ),
}


class EventLogger:
    """Logs the events of a run.

    Parameters
    ----------
    clock
        Seconds that never go back.
    losses, priors
        Labels that [decision] losses and [model] priors name, as text; None if they are not
        configured.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        losses: Collection[str] | None = None,
        priors: Collection[str] | None = None,
    ) -> None:
        self._clock = clock
        self._losses, self._priors = losses, priors
        self._named = losses is not None or priors is not None
        self._known = 0
        self._held_back = False
        self._bad = 0  # values that were reported
        self._guessing: tuple[str, bool] = ("", False)  # the champion, and whether it is worse
        self._looked = False  # for fields that are not used
        self._flags: bool | None = None  # whether there is a threshold
        self._logged_at: dict[str, float] = {"progress": clock()}

    def committed(self, event: Committed, view: ShardView) -> None:
        """Log the news of a commit."""
        for reason, detail in event.details.items():
            if self._due(f"dead letter {reason}", REPEAT_SECONDS):
                total = view.dead_letters[reason]
                log.warning("dead letter (%s): %s; %s so far", reason, detail, f"{total:,}")
        for outcome, (one, more) in TROUBLE.items():
            if event.labels.get(outcome) and self._due(outcome, REPEAT_SECONDS):
                log.warning("%s", counted(view.labels[outcome], one, more))
        for name, e_value, partition, offset in event.promoted:
            log.warning(
                "%s is champion after %s offset %d: e-value %.1f", name, partition, offset, e_value
            )
        if event.furthest is not None:
            self._ahead(*event.furthest)
        if view.drift is not None:
            self._drift(event.alarms, view.drift.keep)
        if self._named and len(view.quality.classes) != self._known:
            self._labels(view.quality.classes)
        if view.bad_values:
            self._bad_values(view)
        if not self._looked and view.fields is not None:
            self._fields(view.fields)
        if view.held_back != self._held_back:
            self._breaker(view)
        if self._guessing[1] or view.worse_than_guessing(view.champion[0]):
            self._guesses(view)
        for what, wrong in (
            ("one class", only_one_class(view)),
            ("orphans", unmet_labels(view, LOOKED_AT)),
        ):
            if wrong is not None and self._due(what, REPEAT_SECONDS):
                log.warning("%s", wrong)
        if view.budget is not None:
            self._budget(view.budget, view.quality.classes)
        self.progress(
            "%s, %s learned", counted(view.observations, "observation"), f"{view.learned:,}"
        )

    def _ahead(self, partition: Partition, offset: int, ms: int) -> None:
        """Report a timestamp far in the future; small differences of clocks are normal."""
        if ms > CLOCK_SLACK_MS and self._due("ahead", REPEAT_SECONDS):
            log.warning(
                "%s offset %d has a timestamp %.0f s after the clock of its commit; its output "
                "has that clock instead; correct the clock of its producer",
                partition,
                offset,
                ms / 1000,
            )

    def _drift(self, alarms: Sequence[DriftAlarm], keep: int) -> None:
        """Log a drift alarm: the change, its position, and the action."""
        for alarm in alarms:
            what = f"{alarm.detector} on {alarm.on}"
            if self._due(f"drift {what}", REPEAT_SECONDS):
                log.warning(
                    "drift: %s from %.4g to %.4g at %s offset %d%s",
                    what,
                    alarm.before,
                    alarm.after,
                    alarm.partition,
                    alarm.offset,
                    DONE.get(alarm.action, "").format(keep=keep),
                )

    def _fields(self, fields: FieldsView) -> None:
        """Log, once there are enough observations, each declared field that none of them uses."""
        if fields.observations < LOOKED_AT:
            return
        self._looked = True
        first = f"the first {fields.observations:,} observations since this start"
        for name in (name for name in fields.names if not fields.used[name]):
            bad = fields.bad.get(name)
            if bad is not None:
                log.warning(
                    "no value of field %r of [features] fits its kind (%s) in %s: "
                    "declare another kind, or change what is sent",
                    name,
                    bad.reason,
                    first,
                )
                continue
            like = like_one(name, fields.unknown)
            log.warning(
                "field %r of [features] has no value in %s; check its name%s",
                name,
                first,
                "" if like is None else f": they have {like!r}",
            )

    def unread(self, inputs: Mapping[Partition, Uncommitted]) -> None:
        """Report the records that a drain did not read."""
        for partition, (offset, records, _) in sorted(inputs.items()):
            log.warning(
                "%s was not read from offset %d on: %s in transactions that their producers have "
                "not ended; run again when they have",
                partition,
                offset,
                counted(records, "record waits", "records wait"),
            )

    def uncommitted(self, inputs: Mapping[Partition, Uncommitted]) -> None:
        """Report the longest open transaction that holds an input back."""
        late = {p: at for p, at in inputs.items() if at.seconds >= OPEN_SECONDS}
        if not late or not self._due("uncommitted", REPEAT_SECONDS):
            return
        worst = max(late, key=lambda p: late[p].seconds)
        offset, records, seconds = late[worst]
        log.warning(
            "%s is not read beyond offset %d: a transaction of its producer has been open for "
            "%.0f s, %s after it%s; end it, or find it by "
            "kafka-transactions.sh find-hanging",
            worst,
            offset,
            seconds,
            counted(records, "record waits", "records wait"),
            f" (and {counted(len(late) - 1, 'more partition')})" if len(late) > 1 else "",
        )

    def _labels(self, classes: Sequence[Label]) -> None:
        """Log, once per label, that the configuration does not name a learned label."""
        fresh, self._known = classes[self._known :], len(classes)
        for name in map(named, fresh):
            if self._losses is not None and name not in self._losses:
                log.warning(
                    "label %r is not named in [decision] losses, so it does not affect the "
                    "decision: %s",
                    name,
                    _meant(name, self._losses, "add its costs"),
                )
            if self._priors is not None and name not in self._priors:
                log.warning(
                    "label %r has no prior in [model] priors and is never predicted: %s",
                    name,
                    _meant(name, self._priors, "give it one, under a new name for the service"),
                )

    def _breaker(self, view: ShardView) -> None:
        """Log when learning stops because of dead letters, and when it resumes."""
        self._held_back = view.held_back
        log.warning(
            "%s: %s of the last 1,000 records were dead letters ([output] max_dead_letter_ratio)",
            "learning has stopped, predictions continue" if view.held_back else "learning resumes",
            f"{view.recent_dead_letters:,}",
        )

    def _guesses(self, view: ShardView) -> None:
        """Log when the champion becomes worse than guessing, and when it no longer is."""
        worse, before = sentence(view), self._guessing
        self._guessing = (view.champion[0], worse is not None)
        if worse is not None and before != self._guessing:
            log.warning("%s", worse)
        elif worse is None and before == (view.champion[0], True):
            log.warning("%s is no longer worse than guessing", view.champion[1])

    def _budget(self, budget: BudgetView, classes: Sequence[Label]) -> None:
        """Log how far the evidence of a budget is: at intervals, and when flagging starts or
        ends."""
        flags, before = budget.threshold is not None, self._flags
        self._flags = flags
        if self._due("budget", PROGRESS_SECONDS) or (before is not None and flags != before):
            log.info("%s", budget_sentence(budget, classes))

    def _bad_values(self, view: ShardView) -> None:
        """Log that values of a field do not fit its kind, if more came since the last line."""
        total = sum(view.bad_values.values())
        if total > self._bad and self._due("bad values", REPEAT_SECONDS):
            self._bad = total
            name, most = max(view.bad_values.items(), key=itemgetter(1))
            log.warning(
                "%s taken as missing so far, %s of them in %r ([values] on_bad_value)",
                counted(total, "bad value"),
                f"{most:,}",
                name,
            )

    def progress(self, message: str, *values: object) -> None:
        """Log the progress at intervals."""
        if self._due("progress", PROGRESS_SECONDS):
            log.info(message, *values)

    def ended(self, why: str, position: int, view: ShardView) -> None:
        """Log the final summary, and what is wrong with the champion or its labels."""
        scores = view.quality.scores["all"]
        words = [
            f"{why} at journal position {position}: {counted(view.observations, 'observation')}",
            f"{view.learned:,} learned",
        ]
        if scores.accuracy is not None:
            guess, share = max(scores.baselines.items(), key=lambda pair: pair[1] or 0.0)
            guessed = f"{guess.replace('_', '-')} {share or 0.0:.1%}"
            words.append(f"accuracy {scores.accuracy:.1%} ({guessed})")
        confusion = view.quality.confusion.tolist()
        recall = only_one_scored(view.labels, view.quality.classes, confusion)
        words += [] if recall is None else [recall]
        words += _decided(view.risk)
        if view.budget is not None:
            words.append(budget_sentence(view.budget, view.quality.classes))
        if view.dead_letters:
            words.append(counted(sum(view.dead_letters.values()), "dead letter"))
        if ignored := view.read_otherwise.get("ignored"):
            words.append(f"{ignored:,} ignored")
        if view.pending:
            words.append(counted(view.pending, "waits for its label", "wait for labels"))
        log.info("%s", ", ".join(words))
        for wrong in (sentence(view), only_one_class(view), unmet_labels(view)):
            if wrong is not None:
                log.warning("%s", wrong)

    def _due(self, what: str, every: float) -> bool:
        now = self._clock()
        if what in self._logged_at and now - self._logged_at[what] < every:
            return False
        self._logged_at[what] = now
        return True


def _meant(name: str, known: Collection[str], otherwise: str) -> str:
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else otherwise


def _decided(risk: RiskView | None) -> list[str]:
    """The cost of the decisions, that of the best constant action, and their numbers."""
    if risk is None or risk.overall is None or risk.constant is None:
        return []
    action, best = risk.constant
    always = "rejecting" if action is None else repr(action)
    most = sorted(risk.actions.items(), key=lambda done: -done[1])
    counts = [f"{name} {n:,}" for name, n in most[:MOST_ACTIONS]]
    if len(most) > MOST_ACTIONS:
        counts.append(f"{sum(n for _, n in most[MOST_ACTIONS:]):,} others")
    share = risk.rejected / max(1, risk.rejected + sum(risk.actions.values()))
    line = f"mean loss {risk.overall:.4g} per decision (always {always}: {best:.4g})"
    return [line, *counts, f"rejected {risk.rejected:,} ({share:.1%})"]
