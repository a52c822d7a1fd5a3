"""Reporters and their votes, from the rules in words: lists of everything that ever happened."""

from __future__ import annotations

from typing import NamedTuple

HOUR_MS = 3_600_000


class Said(NamedTuple):
    """One label: time, id, label, its own weight, and who gave it (None: nobody is named)."""

    time: int
    id: str
    label: str
    w: float
    who: str | None


class ReporterTwin:
    """Every observation is known and waits; nothing expires; every correction succeeds."""

    def __init__(
        self,
        *,
        per_hour: int,
        min_trust: float,
        prior_trust: float,
        prior_labels: float,
        trusted: bool,
    ) -> None:
        self.per_hour, self.min_trust, self.trusted = per_hour, min_trust, trusted
        self.prior = (prior_trust, prior_labels)
        self.said: list[Said] = []  # all that came
        self.heard: list[tuple[str, str, str, float]] = []  # id, who, label, vote: all compared
        self.verdicts: dict[str, list[tuple[bool, float]]] = {}
        self.learned: dict[str, tuple[str, float]] = {}  # id to the label that stands, its weight
        self.outcomes: list[str] = []

    def trust(self, who: str) -> float:
        """Beta-binomial, where each verdict counts 1 % less than the next."""
        share, strength = self.prior
        given = list(reversed(self.verdicts.get(who, [])))
        right = sum(w * 0.99**age for age, (agreed, w) in enumerate(given) if agreed)
        wrong = sum(w * 0.99**age for age, (agreed, w) in enumerate(given) if not agreed)
        return (share * strength + right) / (strength + right + wrong)

    def votes(self, id_: str, label: str) -> float:
        """Of each reporter only what was said last counts."""
        last = {who: (y, vote) for i, who, y, vote in self.heard if i == id_}
        return sum(vote for y, vote in last.values() if y == label)

    def say(self, said: Said) -> None:
        self.said.append(said)
        who = said.who or ("TRUSTED" if self.trusted else "")
        if who == "TRUSTED":
            belief, weight, vote = 1.0, said.w, 8.0
        else:
            hour = said.time // HOUR_MS
            before = [s for s in self.said if (s.who or "") == who and s.time // HOUR_MS == hour]
            if len(before) > self.per_hour:
                self.outcomes.append("over_rate")
                return
            trust = self.trust(who)
            belief = 2 * trust - 1 if trust >= self.min_trust else 0.0
            weight = vote = belief * min(said.w, 1.0)
        earlier = {w: y for i, w, y, _ in self.heard if i == said.id}
        if belief and who not in earlier:
            for other, label in earlier.items():
                self.verdicts.setdefault(other, []).append((label == said.label, belief))
        self.heard.append((said.id, who, said.label, vote))
        self.outcomes.append(self.outcome(said, weight))

    def outcome(self, said: Said, weight: float) -> str:
        if not weight:
            return "quarantined"
        if said.id not in self.learned:
            self.learned[said.id] = (said.label, weight)
            return "joined"
        standing = self.learned[said.id][0]
        if standing == said.label:
            return "duplicate"
        if self.votes(said.id, standing) > self.votes(said.id, said.label):
            return "outvoted"
        self.learned[said.id] = (said.label, weight)
        return "corrected"
