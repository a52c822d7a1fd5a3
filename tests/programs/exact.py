"""The oracle: what a learner of numbers should answer, to a hundred digits, and how near it can be.

Written from the formulas of the docstrings in mpmath, and it shares no code with what it checks.
Every record is kept; moments are sums over records (naive Bayes) or the documented recursion (a
covariance). Beside each log density stands the error that double precision may make of it, from
the condition of the problem; an answer that has no digits left is not compared, but counted.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from math import isnan
from typing import Any

from mpmath import inf, log, matrix, mp, mpf, pi

__all__ = ["Answer", "CategoryOracle", "CovarianceOracle", "GaussianOracle", "Oracle", "plain"]

mp.prec = 400
EPS = mpf(2) ** -53
UNDERFLOW = mpf(10) ** -307
NEAR = mpf(2) ** -200  # differences below it are magnified, where all of a feature are
SPARE = 64  # how often the error estimated may be made

Term = tuple[Any, Any]  # a log density, and what may be wrong with it


@dataclass(frozen=True, slots=True)
class Answer:
    """The posterior, and how far a double may be from it."""

    posterior: dict[Hashable, float]
    error: float


@dataclass(slots=True)
class Record:
    """One learned record: features as text, when it was learned, whether it still counts."""

    x: dict[str, Any]
    y: Hashable
    w: Any
    at: int
    counts: bool = True


def plain(x: Mapping[Any, Any]) -> dict[str, Any]:
    """The numbers of a record by name, exact; what is missing is left out."""
    out = {}
    for name, value in x.items():
        if value is not None and not isinstance(value, str) and not isnan(value):
            out[str(name)] = mpf(float(value))
    return out


class Oracle:
    """A prior and terms of features; every record that was learned."""

    def __init__(self, half_life: float | None = None, priors: Any = None) -> None:
        self.half_life = None if half_life is None else mpf(half_life)
        self.priors = priors
        self.records: list[Record] = []
        self.learned = 0
        self.rough = False  # whether sums were put together, not learned in turn

    def features(self, x: Mapping[Any, Any]) -> dict[str, Any]:
        """What of a record is evidence."""
        return plain(x)

    def learn(self, x: Mapping[Any, Any], y: Hashable, w: float) -> None:
        """Learn one record."""
        self.learned += 1
        self.records.append(Record(self.features(x), y, mpf(w), self.learned))

    def unlearn(self, i: int) -> None:
        """Take the i-th record that was learned back."""
        self.records[i].counts = False

    def weight(self, record: Record) -> Any:
        """What a record counts now; one learned last counts its own weight."""
        if not record.counts:
            return mpf(0)
        if self.half_life is None:
            return record.w
        return record.w * mpf(2) ** (-(self.learned - record.at) / self.half_life)

    def classes(self) -> list[Hashable]:
        """Those with a record, in the order of their first one."""
        return list(dict.fromkeys(r.y for r in self.records if r.counts))

    def log_prior(self, y: Hashable) -> Any:
        if self.priors is not None:
            named = str(y).lower() if isinstance(y, bool) else str(y)
            p = mpf(self.priors.get(y, self.priors.get(named, 0.0)))
        else:
            own = sum(self.weight(r) for r in self.records if r.y == y)
            p = own / sum(self.weight(r) for r in self.records)
        return log(p) if p > 0 else -inf

    def likelihood(self, x: dict[str, Any], y: Hashable) -> Term:
        """log p(x | y), and its error."""
        raise NotImplementedError

    def answer(self, x: Mapping[Any, Any]) -> Answer:
        """The posterior of a record."""
        known, given = self.classes(), self.features(x)
        if not known:
            return Answer({}, 0.0)
        prior = {y: self.log_prior(y) for y in known}
        joint, error = dict(prior), 16 * EPS
        for y in known:
            value, wrong = self.likelihood(given, y)
            joint[y] += value
            error += wrong
        top = max(joint.values())
        if top == -inf:
            joint = prior
            top = max(joint.values())
        if top == -inf:
            joint, top = dict.fromkeys(known, mpf(0)), mpf(0)
        share = {y: mp.exp(v - top) if v > -inf else mpf(0) for y, v in joint.items()}
        total = sum(share.values())
        return Answer({y: float(p / total) for y, p in share.items()}, float(SPARE * error))


def normal(v: Any, mean: Any, var: Any, mean_error: Any, var_error: Any) -> Term:
    """Log normal density, and what an error of its mean and variance makes of it."""
    if var <= 0:
        return (mpf(0), mpf(0)) if v == mean else (-inf, mpf(0))
    z2 = (v - mean) ** 2 / var
    value = -(log(2 * pi * var) + z2) / 2
    # A z that is far away is far away: only its logarithm's share counts.
    slope = abs(v - mean) / var * mean_error + (1 + z2) / 2 * var_error / var
    return value, slope + EPS * (abs(value) + z2)


@dataclass(slots=True)
class Spread:
    """Moments of one feature, of all records or of a class, and their errors in doubles."""

    n: Any
    mean: Any
    var: Any
    mean_error: Any
    var_error: Any


class GaussianOracle(Oracle):
    """Gaussian naive Bayes: moments are sums over the records that count."""

    def __init__(
        self,
        variance: str = "ml",
        var_smoothing: float = 1e-9,
        half_life: float | None = None,
        priors: Any = None,
    ) -> None:
        super().__init__(half_life, priors)
        self.ddof, self.smoothing = int(variance == "sample"), mpf(var_smoothing)

    def spread(self, name: str, y: Hashable | None, ddof: int) -> Spread | None:
        """Of the values of a feature, in one class or (None) in all; None: none was learned."""
        ever = [r for r in self.records if name in r.x]
        held = [r for r in ever if r.counts and (y is None or r.y == y)]
        if not held:
            return None
        weights = [self.weight(r) for r in held]
        n = sum(weights)
        mean = sum(w * r.x[name] for w, r in zip(weights, held, strict=True)) / n
        if len({r.x[name] for r in held}) == 1:
            mean, m2 = held[0].x[name], mpf(0)
        else:
            m2 = sum(w * (r.x[name] - mean) ** 2 for w, r in zip(weights, held, strict=True))
        var = m2 / (n - ddof) if n > ddof else mpf(0)
        # In doubles: values less the first one; sums of as many as there are.
        anchor = ever[0].x[name]
        wide = max(abs(r.x[name] - anchor) for r in ever)
        # What was taken back was held: its digits are gone from the sums.
        taken = self.rough or any(not r.counts for r in ever)
        reach = wide if taken else max(abs(r.x[name] - anchor) for r in held)
        share = EPS * (len(ever) + (self.learned if self.half_life is not None else 0) + 4)
        share *= max(n / min(weights), 1) ** mpf("0.5") if taken else 1
        lost = mpf(0) if wide < NEAR else UNDERFLOW
        mean_error = share * reach
        var_error = share * (reach**2 if taken else var + reach * mp.sqrt(var)) + lost
        if n > ddof:
            var_error *= n / (n - ddof)
        if var == 0 and not taken:
            mean_error, var_error = mpf(0), mpf(0)
        return Spread(n, mean, var, mean_error, var_error)

    def likelihood(self, x: dict[str, Any], y: Hashable) -> Term:
        value, error = mpf(0), mpf(0)
        for name, v in x.items():
            total = self.spread(name, None, 0)
            if total is None or (total.var == 0 and total.var_error == 0):
                continue
            own = self.spread(name, y, self.ddof) or total
            var = own.var + self.smoothing * total.var
            wrong = own.var_error + self.smoothing * total.var_error
            more = normal(v, own.mean, var, own.mean_error, wrong)
            if total.var == 0 or (var == 0 and wrong > 0):  # rounding decides what is a point
                more = more[0] if more[0] > -inf else mpf(0), inf
            value, error = value + more[0], error + more[1]
        return value, error


@dataclass(slots=True)
class Joint:
    """Moments of a class, by feature."""

    n: dict[str, Any] = field(default_factory=dict)
    mean: dict[str, Any] = field(default_factory=dict)


class CovarianceOracle(Oracle):
    """Full Bayes: sums of products by their documented recursion, record by record."""

    FEW, FINEST, SKEW = 256, 5, mpf(1.00070711)

    def __init__(
        self,
        covariance: str = "full",
        ridge: float = 1e-9,
        shrinkage: float = 0.0,
        variance: str = "ml",
        missing: str = "conditional",
        half_life: float | None = None,
        priors: Any = None,
    ) -> None:
        super().__init__(half_life, priors)
        self.pooled, self.diagonal = "pooled" in covariance, "diagonal" in covariance
        self.ridge, self.shrinkage = mpf(ridge), mpf(shrinkage)
        self.ddof, self.fill = int(variance == "sample"), missing == "conditional"
        self.own: dict[Hashable, Joint] = {}
        self.products: dict[Hashable, dict[tuple[str, str], Any]] = {}
        self.total: dict[str, list[Any]] = {}  # n, mean, m2
        self.level: dict[Hashable, dict[str, Any]] = {}  # of each group, as of the last record
        self.unsure = mpf(0)  # an answer rests on what doubles cannot decide

    def group(self, y: Hashable) -> Hashable:
        return "all" if self.pooled else y

    def learn(self, x: Mapping[Any, Any], y: Hashable, w: float) -> None:
        super().learn(x, y, w)
        self._fade()
        self._take(plain(x), y, mpf(w))
        self.level = {self.group(label): self.levels(label) for label in self.own}

    def unlearn(self, i: int) -> None:
        """Learn all others again: what a record without gaps did does not depend on its place."""
        super().unlearn(i)
        left = [r for r in self.records if r.counts]
        self.own, self.products, self.total, self.level = {}, {}, {}, {}
        for record in left:
            self._take(record.x, record.y, record.w)
        self.level = {self.group(label): self.levels(label) for label in self.own}

    def _take(self, given: dict[str, Any], y: Hashable, weight: Any) -> None:
        own, g = self.own.setdefault(y, Joint()), self.products.setdefault(self.group(y), {})
        if not given:
            return
        for name, v in given.items():
            n, mean, m2 = self.total.get(name, [mpf(0), mpf(0), mpf(0)])
            d, after = v - mean, n + weight
            self.total[name] = [after, mean + d * weight / after, m2 + d * d * weight * n / after]
        gaps = [name for name in own.n if name not in given]
        extra: dict[tuple[str, str], Any] = {}
        if gaps and not self.diagonal:
            if not self.fill:
                return
            given = {**given, **self._filled(given, gaps, y, weight, extra)}
        root = {}
        for name, v in given.items():
            n, mean = own.n.get(name, mpf(0)), own.mean.get(name, mpf(0))
            d = v - mean
            own.n[name] = n + weight
            own.mean[name] = mean + d * weight / (n + weight)
            root[name] = d * mp.sqrt(weight * n / (n + weight))
        for a in given:
            for b in given:
                g[a, b] = g.get((a, b), mpf(0)) + root[a] * root[b] + extra.get((a, b), mpf(0))

    def _fade(self) -> None:
        if self.half_life is None:
            return
        by = mpf(2) ** (-1 / self.half_life)
        for own in self.own.values():
            own.n = {name: n * by for name, n in own.n.items()}
        for g in self.products.values():
            for pair in g:
                g[pair] *= by
        for moments in self.total.values():
            moments[0], moments[2] = moments[0] * by, moments[2] * by
        for level in self.level.values():
            for name in level:
                level[name] *= by

    def divisors(self, y: Hashable, ddof: int) -> dict[str, Any]:
        """What sums of squares are divided by."""
        out: dict[str, Any] = {}
        for label, own in self.own.items():
            if self.pooled or label == y:
                for name, n in own.n.items():
                    out[name] = out.get(name, mpf(0)) + n - ddof
        return out

    def levels(self, y: Hashable) -> dict[str, Any]:
        """The ridge on the diagonal, in so few binary digits as it is documented to have."""
        if self.ridge == 0 or self.diagonal:
            return {}
        m, features = self.divisors(y, self.ddof), len(self.total)
        most, digits = max([mpf(self.FEW), *m.values()]), 0
        while digits < self.FINEST and most >= (2 << digits) * features:
            digits += 1
        if digits < self.FINEST and abs(most / ((2 << digits) * features) - 1) < 1e-9:
            self.unsure = inf
        return {
            name: self._rounded(self.ridge * self.SKEW * self._variance(name) * max(n, 0), digits)
            for name, n in m.items()
        }

    def _variance(self, name: str) -> Any:
        n, _, m2 = self.total[name]
        return m2 / n

    def _rounded(self, t: Any, digits: int) -> Any:
        if t == 0:
            return t
        if self.half_life is not None:  # in units of the first record
            t *= mpf(2) ** (self.learned / self.half_life)
        unit = mpf(2) ** (mp.floor(log(t, 2)) - digits)
        if abs(abs(t / unit - mp.floor(t / unit)) - mpf("0.5")) < mpf(10) ** -7:
            self.unsure = inf
        rounded = mp.nint(t / unit) * unit
        if self.half_life is not None:
            rounded /= mpf(2) ** (self.learned / self.half_life)
        return rounded

    def _filled(
        self,
        given: dict[str, Any],
        gaps: list[str],
        y: Hashable,
        weight: Any,
        extra: dict[tuple[str, str], Any],
    ) -> dict[str, Any]:
        """Conditional means of the gaps; to extra, their conditional covariance."""
        own, g, m = self.own[y], self.products[self.group(y)], self.divisors(y, 0)
        level = self.level.get(self.group(y), {})
        there = [name for name in given if name in own.n]
        if self.ridge == 0:
            self.unsure = inf

        def product(a: str, b: str) -> Any:
            return g.get((a, b), mpf(0)) + (level.get(a, mpf(0)) if a == b else 0)

        e = [(given[a] - own.mean[a]) * mp.sqrt(m[a]) for a in there]
        inside = matrix([[product(a, b) for b in there] for a in there])
        out = {}
        solved = {b: _solve(inside, [product(a, b) for a in there]) for b in gaps}
        if any(column is None for column in solved.values()):
            self.unsure = inf
            return dict.fromkeys(gaps, mpf(0))
        for b in gaps:
            shift = sum(s * v for s, v in zip(solved[b], e, strict=True))
            out[b] = own.mean[b] + shift / mp.sqrt(m[b])
        for b in gaps:
            for c in gaps:
                left = product(b, c) - sum(
                    s * product(a, c) for s, a in zip(solved[b], there, strict=True)
                )
                left -= level.get(b, mpf(0)) if b == c else 0
                extra[b, c] = left * weight / mp.sqrt(m[b] * m[c])
        return out

    def likelihood(self, x: dict[str, Any], y: Hashable) -> Term:
        own, m = self.own[y], self.divisors(y, self.ddof)
        g, level = self.products.get(self.group(y), {}), self.level.get(self.group(y), {})
        value, error, used = mpf(0), self.unsure, []
        share = EPS * (self.learned + 8)
        for name, v in x.items():
            spread = self._variance(name) if name in self.total else mpf(0)
            if spread <= 0:
                continue
            if own.n.get(name, mpf(0)) > 0 and m[name] > 0:
                used.append(name)
                continue
            middle, wide = own.mean.get(name), self.ridge * spread
            if name not in own.n:
                middle, wide = self.total[name][1], spread + wide
            reach = self._reach(name)
            more = normal(v, middle, wide, share * reach, share * wide)
            value, error = value + more[0], error + more[1]
        if self.diagonal:
            for name in used:
                var = g[name, name] / m[name] + self.ridge * self._variance(name)
                reach = self._reach(name)
                wrong = share * (var + reach * mp.sqrt(var))
                more = normal(x[name], own.mean[name], var, share * reach, wrong)
                value, error = value + more[0], error + more[1]
            return value, error
        return self._full(x, y, used, g, level, m, (value, error))

    def _reach(self, name: str) -> Any:
        values = [r.x[name] for r in self.records if name in r.x]
        return max(abs(v - values[0]) for v in values)

    def _full(
        self,
        x: dict[str, Any],
        y: Hashable,
        used: list[str],
        g: dict[tuple[str, str], Any],
        level: dict[str, Any],
        m: dict[str, Any],
        so_far: Term,
    ) -> Term:
        value, error = so_far
        if not used:
            return value, error
        own, d = self.own[y], len(used)
        sigma = matrix(d, d)
        for i, a in enumerate(used):
            for k, b in enumerate(used):
                product = g.get((a, b), mpf(0)) * (1 if i == k else 1 - self.shrinkage)
                product += level.get(a, mpf(0)) if i == k else 0
                sigma[i, k] = product / mp.sqrt(m[a] * m[b])
        e = [x[a] - own.mean[a] for a in used]
        found = _joint(sigma, e)
        if found is None:
            return value, inf
        density, condition, far = found
        reach = max(
            self._reach(a) / mp.sqrt(sigma[i, i]) if sigma[i, i] > 0 else mpf(1)
            for i, a in enumerate(used)
        )
        share = EPS * (self.learned + 8) * d * mp.sqrt(condition)
        return value + density, error + share * (1 + far) * (1 + reach)


def _joint(sigma: Any, e: list[Any]) -> tuple[Any, Any, Any] | None:
    """Log density, condition and squared distance; None where doubles cannot know the rank.

    Of a singular matrix: on its support, with the pseudo-determinant.
    """
    d = sigma.rows
    scale = [mp.sqrt(sigma[i, i]) if sigma[i, i] > 0 else mpf(1) for i in range(d)]
    likeness = matrix(d, d)
    for i in range(d):
        for k in range(d):
            likeness[i, k] = sigma[i, k] / (scale[i] * scale[k])
    values, vectors = mp.eigsy(likeness)
    values = [values[i] for i in range(d)]
    # Of unit diagonal, so what is left of an exact dependence is at the working precision.
    zero = [v < mpf(10) ** -80 for v in values]
    if any(not z and v < mpf(10) ** -22 for z, v in zip(zero, values, strict=True)):
        return None
    u = [e[i] / scale[i] for i in range(d)]
    parts = [sum(vectors[i, k] * u[i] for i in range(d)) for k in range(d)]
    live = [k for k in range(d) if not zero[k]]
    length = mp.sqrt(sum(v * v for v in u))
    off = [abs(parts[k]) for k in range(d) if zero[k]]
    if any(v > mpf(10) ** -6 for v in off):
        return -inf, mpf(1), mpf(0)
    if any(v > mpf(10) ** -14 * (1 + length) for v in off):
        return None  # on the support or off it: a matter of rounding
    far = sum(parts[k] ** 2 / values[k] for k in live)
    condition = 1 / min([values[k] for k in live], default=mpf(1))
    if len(live) < d:
        spectrum, _ = mp.eigsy(sigma)
        largest = max(abs(spectrum[i]) for i in range(d))
        alive = sorted(spectrum[i] for i in range(d))[d - len(live) :]
        if alive and alive[0] < largest * mpf(10) ** -80:
            return None
        volume = sum(log(v) for v in alive)
        # A singular matrix has its support in other units: distances along it do not change.
        far = _pseudo_far(sigma, e, len(live))
    else:
        volume = sum(log(values[k]) for k in live) + 2 * sum(log(v) for v in scale)
    return -(len(live) * log(2 * pi) + volume + far) / 2, condition, far


def _pseudo_far(sigma: Any, e: list[Any], rank: int) -> Any:
    values, vectors = mp.eigsy(sigma)
    d = sigma.rows
    order = sorted(range(d), key=lambda k: values[k])[d - rank :]
    return sum(sum(vectors[i, k] * e[i] for i in range(d)) ** 2 / values[k] for k in order)


def _solve(a: Any, b: list[Any]) -> list[Any] | None:
    if not b:
        return []
    try:
        found = mp.lu_solve(a, matrix(b))
    except ZeroDivisionError:
        return None
    return [found[i] for i in range(len(b))]


class CategoryOracle(Oracle):
    """Categorical naive Bayes by the formula: (n_v + alpha) / (n + alpha · m_j)."""

    def __init__(
        self, alpha: float = 1.0, half_life: float | None = None, priors: Any = None
    ) -> None:
        super().__init__(half_life, priors)
        self.alpha = mpf(alpha)

    def features(self, x: Mapping[Any, Any]) -> dict[str, Any]:
        out = {}
        for name, value in x.items():
            if isinstance(value, str):
                out[str(name)] = value
            elif isinstance(value, bool):
                out[str(name)] = "true" if value else "false"
            elif value is not None and not isnan(value):
                out[str(name)] = str(int(value)) if float(value).is_integer() else repr(value)
        return out

    def likelihood(self, x: dict[str, Any], y: Hashable) -> Term:
        value, error = mpf(0), mpf(0)
        for name, v in x.items():
            held = [r for r in self.records if name in r.x and r.counts]
            domain = len({r.x[name] for r in held})
            if v not in {r.x[name] for r in held}:
                continue
            own = [r for r in held if r.y == y] or held
            n = sum(self.weight(r) for r in own)
            n_v = sum((self.weight(r) for r in own if r.x[name] == v), mpf(0)) + self.alpha
            value += log(n_v / (n + self.alpha * domain)) if n_v > 0 else -inf
            error += EPS * (len(held) + self.learned + 8)
        return value, error
