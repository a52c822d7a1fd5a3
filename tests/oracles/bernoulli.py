"""The obvious twin of BernoulliNB: records kept, attributes counted again for each question."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import fsum, inf, isnan, log
from typing import Any

from stream.data.schema import Label
from stream.text import tokens
from tests.oracles.multinomial import softmax


def values(x: dict[str, Any], binarize: float) -> dict[str, bool]:
    """Fields that were looked at, and whether each is present."""
    given = {k: v for k, v in x.items() if v is not None and not isinstance(v, str)}
    return {k: v > binarize for k, v in given.items() if not isnan(v)}


def token_set(x: dict[str, Any]) -> set[str] | None:
    """The tokens of all texts of a record; None where it has no text."""
    texts = [v for v in x.values() if isinstance(v, str)]
    return {token for text in texts for token in tokens(text)} if texts else None


@dataclass
class SlowBernoulliNB:
    """Every learned record with its weight; (k + alpha) / (n + 2 alpha) counted when asked."""

    alpha: float = 1.0
    binarize: float = 0.0
    half_life: float | None = None
    learned: list[tuple[dict[str, Any], Label, float]] = field(default_factory=list)

    def learn_one(self, x: dict[str, Any], y: Label, w: float = 1.0) -> None:
        kept = 1.0 if self.half_life is None else 0.5 ** (1.0 / self.half_life)
        self.learned = [(x, y, w * kept) for x, y, w in self.learned] + [(x, y, w)]

    def trials(self, y: Label | None) -> dict[tuple[str, str], list[tuple[bool, float]]]:
        """Attribute to its trials in class y (None: in all): whether present, and the weight."""
        known = {t for x, _, _ in self.learned for t in token_set(x) or ()}
        out: dict[tuple[str, str], list[tuple[bool, float]]] = {}
        for x, label, w in self.learned:
            if y is not None and label != y:
                continue
            for name, there in values(x, self.binarize).items():
                out.setdefault(("field", name), []).append((there, w))
            found = token_set(x)
            for token in known if found is not None else ():
                out.setdefault(("token", token), []).append((token in (found or ()), w))
        return out

    def joint_log_likelihood_one(self, x: dict[str, Any]) -> dict[Label, float]:
        everywhere = self.trials(None)
        asked = {("field", name): there for name, there in values(x, self.binarize).items()}
        found = token_set(x)
        if found is not None:
            asked |= {key: key[1] in found for key in everywhere if key[0] == "token"}
        joint: dict[Label, float] = {}
        for y in dict.fromkeys(label for _, label, _ in self.learned):
            weight = fsum(w for _, label, w in self.learned if label == y)
            terms = [log(weight / fsum(w for _, _, w in self.learned))]
            mine = self.trials(y)
            for key, there in asked.items():
                if key not in everywhere:
                    continue
                trials = mine.get(key, everywhere[key])
                n = fsum(w for _, w in trials)
                k = fsum(w for present, w in trials if present == there)
                share = (k + self.alpha) / (n + 2 * self.alpha)
                terms.append(log(share) if share > 0 else -inf)
            joint[y] = fsum(terms)
        return joint

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Label, float]:
        joint = self.joint_log_likelihood_one(x)
        if joint and max(joint.values()) == -inf:
            joint = {y: log(fsum(w for _, of, w in self.learned if of == y)) for y in joint}
        return softmax(joint)
