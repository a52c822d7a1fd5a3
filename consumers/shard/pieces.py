"""A commit that is processed in several pieces, and the digest of its results.

Rule: the digest does not depend on the pieces.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from stream.compat import RiverClassifier
from stream.contest.champion import ChampionChallenger
from stream.evaluate.progressive import Progressive, Result
from stream.evaluate.result import joined

__all__ = ["EarlierPieces", "digest"]


@dataclass(slots=True)
class EarlierPieces:
    """The results of earlier pieces of a commit that is processed in several pieces.

    Parameters
    ----------
    parts
        Their results.
    events
        How many events they had.
    """

    parts: list[Result] = field(default_factory=list)
    events: int = 0

    def add(self, result: Result, events: int) -> None:
        """Add the result of one piece."""
        alarms = [alarm._replace(at=alarm.at + self.events) for alarm in result.alarms]
        self.parts.append(replace(result, alarms=alarms, explanations=None))
        self.events += events


def digest(
    parts: Sequence[Result],
    machine: Progressive,
    contest: ChampionChallenger,
    coded: Collection[str],
) -> bytes:
    """Eight bytes of the predictions of all pieces and of the scores after them.

    Parameters
    ----------
    parts
        The results of the pieces.
    machine, contest
        The model and the champion with its challengers, after the last piece.
    coded
        Challengers from code of the user, whose scores are left out as those of river's models.
    """
    result = parts[0] if len(parts) == 1 else joined(list(parts), list(machine.join.labels))
    made = result.predictions
    hashed = blake2b(digest_size=8)
    for part in (made.proba, made.known, result.predicted, result.learned_before):
        hashed.update(part.tobytes())
    if result.verdicts is not None:
        hashed.update(result.verdicts.flagged.tobytes())
        hashed.update(result.verdicts.unsure.tobytes())
    hashed.update(machine.quality.bits())
    for c in contest.contestants():
        river = isinstance(c.machine.learner, RiverClassifier)
        if c.name and not river and c.name not in coded:
            hashed.update(c.machine.quality.bits())
    for alarm in result.alarms:
        hashed.update(repr(tuple(alarm)).encode())
    return hashed.digest()
