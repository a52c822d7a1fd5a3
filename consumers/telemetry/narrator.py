"""What the loop says to people: progress, trouble by kind, and how it stood at the end.

Each kind of trouble is told when it first happens and then at most once a minute, with the total so
far: a log that repeats itself a thousand times a second hides what it says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from consumers.events import Committed, RiskView, ShardView

__all__ = ["Narrator"]

log = logging.getLogger("headwater")

PROGRESS_SECONDS = 10.0
REPEAT_SECONDS = 60.0
TROUBLE = {
    "duplicate_observation": "observations repeat an id: predicted, not learned again",
    "duplicate": "labels repeat the label of their id: not learned again",
    "conflicting": "labels contradict the first one of their id: the first one stands",
    "late": "labels came after their observation had expired",
    "expired": "observations got no label within [labels] horizon",
    "evicted": "observations or early labels went because [labels] max_pending was reached",
    "early_expired": "labels whose observation never came",
}


class Narrator:
    """Tells a run to the log.

    Parameters
    ----------
    clock
        Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told: dict[str, float] = {"progress": clock()}

    def committed(self, event: Committed, view: ShardView) -> None:
        """Tell what is new in a commit."""
        for reason, detail in event.details.items():
            if self._due(f"dead letter {reason}", REPEAT_SECONDS):
                total = view.dead_letters[reason]
                log.warning("dead letter (%s): %s; %d so far", reason, detail, total)
        for outcome, words in TROUBLE.items():
            if event.labels.get(outcome) and self._due(outcome, REPEAT_SECONDS):
                log.warning("%d %s", view.labels[outcome], words)
        self.progress("%d observations, %d learned", view.observations, view.learned)

    def progress(self, message: str, *values: object) -> None:
        """Tell how far it is, now and then."""
        if self._due("progress", PROGRESS_SECONDS):
            log.info(message, *values)

    def ended(self, why: str, position: int, view: ShardView) -> None:
        """Tell how it stood at the end."""
        scores = view.quality.scores["all"]
        words = [
            f"{why} at journal position {position}: {view.observations:,} observations",
            f"{view.learned:,} learned",
        ]
        if scores.accuracy is not None:
            majority = scores.baselines["majority"] or 0.0
            words.append(f"accuracy {scores.accuracy:.1%} (majority {majority:.1%})")
        words += _decided(view.risk)
        if view.dead_letters:
            words.append(f"{sum(view.dead_letters.values()):,} dead letters")
        if view.pending:
            words.append(f"{view.pending:,} wait for labels")
        log.info("%s", ", ".join(words))

    def _due(self, what: str, every: float) -> bool:
        now = self._clock()
        if what in self._told and now - self._told[what] < every:
            return False
        self._told[what] = now
        return True


def _decided(risk: RiskView | None) -> list[str]:
    """What decisions cost, beside what doing always the same would have; how many were made."""
    if risk is None or risk.overall is None or risk.constant is None:
        return []
    action, best = risk.constant
    always = "rejecting" if action is None else repr(action)
    counts = [f"{name} {n:,}" for name, n in risk.actions.items()]
    share = risk.rejected / max(1, risk.rejected + sum(risk.actions.values()))
    told = f"mean loss {risk.overall:.4g} a decision (always {always}: {best:.4g})"
    return [told, *counts, f"rejected {risk.rejected:,} ({share:.1%})"]
