"""Obvious twins of the categorical learners: every record is kept, every share is a Fraction.

Rule: written from the formulas, counting again for each question; no code of the learners is used.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod

Record = Mapping[str, str]


@dataclass
class _Kept:
    """Records as they came, and what can be asked of them."""

    alpha: Fraction = Fraction(1)
    domains: Mapping[str, list[str]] = field(default_factory=dict)
    m: Fraction | None = None
    p: Fraction | None = None
    zeros: bool = False
    priors_of_values: Mapping[str, Mapping[str, Fraction]] = field(default_factory=dict)
    records: list[tuple[Record, Hashable, Fraction]] = field(default_factory=list)

    def learn(self, x: Record, y: Hashable, w: float = 1.0) -> None:
        self.records.append((dict(x), y, Fraction(w)))

    def classes(self) -> list[Hashable]:
        return list(dict.fromkeys(y for _, y, _ in self.records))

    def domain(self, name: str) -> set[str]:
        """The values a feature can have; none before its first."""
        learned = {x[name] for x, _, _ in self.records if name in x}
        return set(self.domains.get(name, learned)) if learned else set()

    def known(self, x: Record) -> Record:
        """What of x is evidence: values that some class had, or that a domain names."""
        return {name: v for name, v in x.items() if v in self.domain(name)}

    def weight(self, y: Hashable, features: Record, *, equal: bool) -> Fraction:
        """Weight of the records of class y (None: of all) that have these features."""
        return sum(
            (
                w
                for x, of, w in self.records
                if y in (None, of)
                and all(n in x and (not equal or x[n] == v) for n, v in features.items())
            ),
            Fraction(0),
        )

    def value_prior(self, name: str, value: str) -> Fraction:
        """The m-estimate's p of one value, where a feature's values have their own."""
        given = self.priors_of_values
        if name not in given:
            return Fraction(1, len(self.domain(name)))
        return given[name].get(value, Fraction(0))

    def prior(self, y: Hashable) -> Fraction:
        return self.weight(y, {}, equal=False) / self.weight(None, {}, equal=False)

    def posterior(self, x: Record) -> dict[Hashable, Fraction]:
        joint = {y: self.prior(y) * self.likelihood(x, y) for y in self.classes()}
        if joint and not any(joint.values()):
            joint = {y: self.prior(y) for y in joint}
        return {y: p / sum(joint.values()) for y, p in joint.items()}

    def likelihood(self, x: Record, y: Hashable) -> Fraction:
        """What its subclasses differ in."""
        raise NotImplementedError


@dataclass
class CategoricalTwin(_Kept):
    """CategoricalNB."""

    def likelihood(self, x: Record, y: Hashable) -> Fraction:
        return prod(
            (self.share(name, value, y) for name, value in self.known(x).items()), start=Fraction(1)
        )

    def share(self, name: str, value: str, y: Hashable) -> Fraction:
        m_j = len(self.domain(name))
        n = self.weight(y, {name: value}, equal=False)
        if n == 0 and self.m is not None:
            return self.value_prior(name, value) if self.p is None else self.p
        if n == 0:  # the class never had the feature: as all classes together
            y = None
            n = self.weight(y, {name: value}, equal=False)
        n_v = self.weight(y, {name: value}, equal=True)
        if self.zeros and n_v > 0:
            return n_v / n
        if self.m is not None:
            p = self.value_prior(name, value) if self.p is None else self.p
            return (n_v + self.m * p) / (n + self.m)
        return (n_v + self.alpha) / (n + self.alpha * m_j)


@dataclass
class JointTwin(_Kept):
    """CategoricalBayes: the smoothed probability of a tuple, summed over what the record lacks."""

    def likelihood(self, x: Record, y: Hashable) -> Fraction:
        x = self.known(x)
        names = {name for of, _, _ in self.records for name in of}
        lacking = prod(len(self.domain(name)) for name in names if name not in x)
        if self.m is not None:
            return self.estimate(x, y, lacking) if x else Fraction(1)
        if self.weight(None, x, equal=False) == 0:
            return Fraction(1)
        n = self.weight(y, x, equal=False)
        if n == 0:  # no record of the class has these features together
            y = None
            n = self.weight(y, x, equal=False)
        n_x = self.weight(y, x, equal=True)
        if self.zeros and n_x > 0:
            return n_x / n
        pseudo = self.alpha * lacking
        tuples = prod(len(self.domain(name)) for name in x)
        return (n_x + pseudo) / (n + pseudo * tuples)

    def estimate(self, x: Record, y: Hashable, lacking: int) -> Fraction:
        """(n_x + m p) / (n + m), p summed over the tuples that agree with x."""
        p = prod((self.value_prior(name, v) for name, v in x.items()), start=Fraction(1))
        if self.p is not None:
            p = min(self.p * lacking, Fraction(1))
        n, n_x = self.weight(y, x, equal=False), self.weight(y, x, equal=True)
        if n == 0:
            return p
        return n_x / n if self.zeros and n_x > 0 else (n_x + self.m * p) / (n + self.m)
