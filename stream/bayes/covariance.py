"""CovariancePart: numeric features, jointly normal given the class. See `GaussianBayes`.

Rule: the state is what was learned, plus the level of the ridge. The level follows from what was
learned and is updated after each change. Code that reads sums of products subtracts it from the
diagonal of the factor's product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from stream.bayes._kernels import comoments as kernels
from stream.bayes._kernels import factor as factors
from stream.bayes.classifier import left_after
from stream.bayes.moments import (
    SCALE,
    SCALES,
    Comoments,
    Room,
    Settings,
    before,
    denied,
    solved,
    united,
    widened,
)
from stream.bayes.part import Part, Steps, Term, UnlearnAmount
from stream.data.block import PREDICT, Block, Floats, Rows
from stream.data.columns import MAX_FEATURES, admit, find, named, restored, rows_for
from stream.data.schema import LARGEST, Dictionary, Schema
from stream.data.state import Saved, State
from stream.errors import NotSupportedError

__all__ = ["MAX_JOINT_FEATURES", "Covariance", "CovariancePart", "Missing", "Settings"]

MAX_JOINT_FEATURES = 512  # 2 MiB for each matrix
SCALED_FIELDS = ("mean", "factor", "level", "scale", "total_mean", "total_m2", "low", "high")

Covariance = Literal["full", "pooled", "diagonal", "pooled_diagonal"]
Missing = Literal["conditional", "complete"]


class CovariancePart(Part):
    """Numeric features, jointly normal given the class.

    Parameters
    ----------
    covariance
        The kind of matrix, see `GaussianBayes`.
    settings
        The parameters that kernels need.
    """

    name: ClassVar[str] = "covariance"

    def __init__(self, covariance: Covariance, settings: Settings) -> None:
        self._pooled = covariance.startswith("pooled")
        self._diagonal = covariance.endswith("diagonal")
        self.settings = settings
        self._features = Dictionary(MAX_FEATURES if self._diagonal else MAX_JOINT_FEATURES)
        vectors = [np.zeros(0) for _ in range(7)]
        counters = [np.zeros(1, dtype=np.int64) for _ in range(2)]
        tables = [np.zeros(shape) for shape in self._shapes(0, 0)]
        self.moments = Comoments._make([*tables, *vectors, np.ones(1), *counters])

    def _shapes(self, classes: int, d: int) -> list[tuple[int, ...]]:
        """The shapes of n, mean, factor and level."""
        groups = 1 if self._pooled else classes
        level = groups if self.settings.ridge > 0 and not self._diagonal else 0
        factor = (groups, d, 1 if self._diagonal else d)
        return [(classes, d), (classes, d), factor, (level, d)]

    @property
    def features(self) -> list[str]:
        return list(self._features)

    @property
    def overflows(self) -> dict[str, int]:
        """Features rejected at the bound, and records not learned because of gaps."""
        return {"features": self._features.overflow, "incomplete": int(self.moments.passed[0])}

    def tables(self, schema: Schema, classes: int) -> int:
        """Bytes of its moments and of its working memory."""
        d = min(len(schema.numeric), self._features.bound)
        shapes = [*self._shapes(classes, d), (d, 1 if self._diagonal else d), (20, d)]
        return 8 * sum(prod(shape) for shape in shapes)

    def execute(self, block: Block, steps: Steps, classes: int, joint: Floats) -> None:
        source, column = admit(self._features, block)
        self._resize(classes)
        x = block.rows.numeric
        s, r = self.moments, self._room()
        kernels.progressive(steps, x, source, column, s, self.settings, r, joint, np.empty((0, 0)))

    def _room(self) -> Room:
        _, d, w = self.moments.factor.shape
        used, order = np.zeros(d, dtype=np.bool_), np.zeros(d, dtype=np.int64)
        return Room(used, order, np.empty((d, w)), *np.zeros((10, d)))

    def _resize(self, classes: int) -> None:
        """Add zeros for new classes and features."""
        s, d = self.moments, len(self._features)
        known = len(s.anchor)
        shapes = self._shapes(classes, d)
        if s.n.shape == shapes[0] and known == d:
            return
        most = self.most_classes
        tables = [rows_for(a, shape, most) for a, shape in zip(s[:4], shapes, strict=True)]
        if known < d:
            vectors = [widened(a, (d,)) for a in s[4:11]]
            s = Comoments._make([*tables, *vectors, *s[11:]])
            s.scale[known:] = 1.0
        self.moments = Comoments._make([*tables, *s[4:]])

    def _serve(self) -> None:
        """Update the levels of the ridge; at most O(G D³)."""
        kernels.serve(self.moments, self.settings, self._room())

    def _level(self, g: int) -> Floats:
        """What is added to the diagonal of group g's sums of products before they are factored."""
        return self.moments.level[g] if len(self.moments.level) else np.zeros(len(self._features))

    def terms(self, rows: Rows, classes: int) -> list[Term]:
        source, column = find(self._features, rows)
        out = np.zeros((len(self._features), classes))
        one = np.zeros(1, dtype=np.int64)
        steps = Steps(np.full(1, PREDICT, np.int8), one, one - 1, np.ones(1), classes, 1.0)
        x, s, r, joint = rows.numeric, self.moments, self._room(), np.zeros((1, classes))
        kernels.progressive(steps, x, source, column, s, self.settings, r, joint, out)
        for j in np.flatnonzero(s.scale != 1.0).tolist():
            out[j] += np.log(s.scale[j]) * (out[j] != 0.0)
        pairs = zip(source.tolist(), column.tolist(), strict=True)
        return [(rows.numeric_names[i], out[j]) for i, j in pairs if not np.isnan(x[0, i])]

    def become(self, names: Sequence[str], means: Floats, matrices: Sequence[Floats]) -> None:
        """Set the empty part to these distributions, with a weight of 1 (+ ddof) for each class."""
        for name in names:
            self._features.add(name)
        classes, ddof = len(means), self.settings.ddof
        self._resize(classes)
        s = self.moments
        s.anchor[:] = means[0]
        s.n[:], s.mean[:] = 1.0 + ddof, means - means[0]
        for g in range(len(s.factor)):
            total = sum(matrices) if self._pooled else matrices[g]
            self._become_factor(g, np.asarray(total, dtype=np.float64))
        s.total_n[:] = s.n.sum(axis=0)
        s.total_mean[:] = s.mean.mean(axis=0)
        within = np.array([np.diag(m) for m in matrices])
        s.total_m2[:] = (1.0 + ddof) * (within + (s.mean - s.total_mean) ** 2).sum(axis=0)
        s.low[:], s.high[:] = -LARGEST, LARGEST
        self._serve()

    def _become_factor(self, g: int, matrix: Floats) -> None:
        own = self.moments.factor[g]
        if self._diagonal:
            own[:, 0] = np.sqrt(np.diag(matrix))
        else:
            held = np.diag(matrix).copy()
            factors.cholesky(matrix.copy(), held, np.zeros(len(held)), own)

    # Reading the model.

    def covariance(self, c: int) -> Floats:
        """The estimated covariance matrix of class c, float64 (D, D), or (D,) if diagonal."""
        s, r = self.moments, self._room()
        kernels.weigh(c, s, self.settings.ddof, r)
        g = 0 if self._pooled else c
        own = s.factor[g]
        scale = np.sqrt(np.maximum(r.m, 0.0))
        scale = np.divide(1.0, scale * s.scale, out=np.zeros_like(scale), where=scale > 0)
        if self._diagonal:
            out: Floats = (own[:, 0] * scale) ** 2
            return out
        upper = np.empty_like(own)
        factors.products(own, upper)
        joint: Floats = np.triu(upper) + np.triu(upper, 1).T
        squares = np.diag(joint) - self._level(g)
        squares[squares <= factors.EMPTIED * np.diag(joint)] = 0.0  # rounding errors
        joint[squares == 0.0] = joint[:, squares == 0.0] = 0.0
        np.fill_diagonal(joint, squares)
        joint *= np.outer(scale, scale)
        return joint

    def line(self, a: int, b: int) -> tuple[Floats, float]:
        """Weights float64 (D,) and bias of log p(x | a) - log p(x | b), for a pooled matrix.

        Raises
        ------
        NotSupportedError
            It is not linear: one of the classes has never had some feature, or the covariance is
            singular.
        """
        s, r = self.moments, self._room()
        seen = s.n[[a, b]] > 0
        if (seen[0] != seen[1]).any():
            raise NotSupportedError("no linear view: one of the classes has never had some feature")
        if not seen.any():
            return np.zeros(len(self._features)), 0.0
        kernels.weigh(a, s, self.settings.ddof, r)
        kernels.spreads(s, r)
        used = seen[0] & (r.spread > 0.0) & (r.m > 0.0)
        off = (s.mean[a] - s.mean[b])[used] * np.sqrt(r.m[used])
        weights = np.zeros(len(self._features))
        weights[used] = np.sqrt(r.m[used]) * self._solved(
            used, off, self.settings.ridge * r.spread * r.m
        )
        weights *= s.scale
        middle = s.anchor + (s.mean[a] + s.mean[b]) / (2 * s.scale)
        return weights, -float(weights @ middle)

    def _solved(self, used: NDArray[np.bool_], off: Floats, floor: Floats) -> Floats:
        """The inverse of the pooled matrix over the used features, times `off`."""
        s, shrinkage, out = self.moments, self.settings.shrinkage, None
        if not self._diagonal:
            root = s.factor[0]
            if shrinkage > 0.0:
                held = shrinkage * (root * root).sum(axis=0)
                root = np.vstack((np.sqrt(1.0 - shrinkage) * root, np.diag(np.sqrt(held))))
            out = solved(root[:, used], off)
        elif ((squares := (s.factor[0, :, 0] ** 2 + floor)[used]) > 0.0).all():
            out = off / squares
        if out is None:
            raise NotSupportedError("no linear view: the covariance is singular; set ridge above 0")
        return out

    def n_parameters(self, classes: int) -> int:
        d = len(self._features)
        matrix = d if self._diagonal else d * (d + 1) // 2
        return classes * d + (min(classes, 1) if self._pooled else classes) * matrix

    # Unlearning and merging.

    def lacks(self, rows: Rows, c: int, amount: UnlearnAmount) -> str | None:
        s = self.moments
        w = amount.w * amount.fade * float(s.unit[0])
        present = _present(rows)
        slack = amount.slack, amount.slack_of_all
        passed = self._passes(present, c, w, slack[0])
        for name in present:
            j = self._features.codes.get(name)
            have = 0.0 if j is None else float(s.total_n[j] if passed else s.n[c, j])
            if left_after(have, w, amount.slack_of_all if passed else amount.slack) is None:
                return f"feature {name!r} has less weight in its class"
        known = {name: (self._features.codes[name], v) for name, v in present.items()}
        return denied(s, known, c, w, slack, passed)

    def _passes(self, present: Mapping[str, float], c: int, w: float, slack: float) -> bool:
        """Whether such a record of class c was skipped when it came, because of gaps.

        Raises
        ------
        NotSupportedError
            Its effect on the moments is not known.
        """
        s, n = self.moments, self.moments.n[c]
        gaps = [f for j, f in enumerate(self._features) if n[j] > 0 and f not in present]
        if self._diagonal or not present:
            return False
        if not gaps:  # it was skipped only if a feature that it lacked was unlearned since
            known = [self._features.codes.get(f, -1) for f in present]
            learned = all(j >= 0 and left_after(n[j], w, slack) is not None for j in known)
            return not (learned or self.settings.fill or -1 in known) and bool(s.passed[0])
        if self.settings.fill:
            raise NotSupportedError(
                f"expected a record without gaps, got one without {gaps[0]!r}: the value that "
                'filled the gap is not kept; use missing="complete"'
            )
        if any(n[self._features.codes[f]] < n.max() for f in gaps):
            raise NotSupportedError(
                f"expected a record without gaps, got one without {gaps[0]!r}, a feature that "
                "came late: it is not known whether the record was skipped"
            )
        return True

    def unlearn(self, rows: Rows, c: int, amount: UnlearnAmount) -> None:
        s, g = self.moments, 0 if self._pooled else c
        w = amount.w * amount.fade * float(s.unit[0])
        present = _present(rows)
        passed = self._passes(present, c, w, amount.slack)
        x = np.zeros(len(self._features))
        for name, value in present.items():
            j = self._features.codes[name]
            v = (value - s.anchor[j]) * s.scale[j]
            at = float(s.total_n[j]), float(s.total_mean[j])
            s.total_n[j], s.total_mean[j], d = before(v, w, amount.slack_of_all, *at)
            s.total_m2[j] = max(s.total_m2[j] - d * d, 0.0) if s.total_n[j] else 0.0
            if not passed:
                at = float(s.n[c, j]), float(s.mean[c, j])
                s.n[c, j], s.mean[c, j], x[j] = before(v, w, amount.slack, *at)
        if passed:
            s.passed[0] -= 1
        else:
            self._subtract(g, x)
        self._drop_empty()
        self._serve()

    def _subtract(self, g: int, x: Floats) -> None:
        """Subtract x x' from group g's sums of products."""
        s = self.moments
        own = s.factor[g]
        if self._diagonal:
            left = (own[:, 0] - x) * (own[:, 0] + x)
            own[:, 0] = np.sqrt(np.where(left > factors.EMPTIED * own[:, 0] ** 2, left, 0.0))
        else:
            trial = own.copy()
            if factors.downdate(trial, x.copy()):
                own[:] = trial
            else:
                factors.rebuild(own, x, self._level(g), trial)
                own[:] = trial
                s.rebuilt[0] += 1
        weight = s.n.sum(axis=0) if self._pooled else s.n[g]
        own[weight == 0.0] = 0.0
        if not self._diagonal:
            own[:, weight == 0.0] = 0.0
            s.level[g : g + 1, weight == 0.0] = 0.0

    def _drop_empty(self) -> None:
        """Remove features that have no value left."""
        for j in np.flatnonzero(self.moments.total_n == 0.0)[::-1].tolist():
            self._features.remove(self._features.values[j])
            n, mean, factor, level, *vectors, unit, passed, rebuilt = self.moments
            factor = np.delete(factor, j, axis=1)
            factor = factor if self._diagonal else np.delete(factor, j, axis=2)
            n, mean, level, *vectors = (np.delete(a, j, -1) for a in (n, mean, level, *vectors))
            rest = [*vectors, unit, passed, rebuilt]
            self.moments = Comoments._make([n, mean, factor, level, *rest])

    def drop_class(self, c: int) -> None:
        s = self.moments
        less: dict[str, Any] = {"n": np.delete(s.n, c, 0), "mean": np.delete(s.mean, c, 0)}
        for name in () if self._pooled else ("factor", "level"):
            of = getattr(s, name)
            less[name] = np.delete(of, c, 0) if len(of) else of
        self.moments = s._replace(**less)
        self._serve()

    def merge(self, other: Self, classes: NDArray[np.int64], size: int, fade: float) -> None:
        column = np.array([self._features.add(f) for f in other.features], dtype=np.int64)
        self._resize(size)
        a, b = self.moments, other.moments
        kept = np.flatnonzero(column >= 0)  # features beyond the bound are counted as overflows
        j = column[kept]
        a.anchor[j] = np.where(a.total_n[j] > 0, a.anchor[j], b.anchor[kept])
        shift = b.anchor[kept] - a.anchor[j]
        b = _alike(a, b, shift, j, kept)
        shift = shift * a.scale[j]
        for weights in (a.n, a.total_n, a.total_m2):
            weights *= fade
        a.factor[:] *= np.sqrt(fade)
        a.level[:] *= fade
        at = np.ix_(classes, j)
        a.low[j] = np.minimum(a.low[j], b.low[kept] + shift)
        a.high[j] = np.maximum(a.high[j], b.high[kept] + shift)
        n, mean = np.zeros_like(a.n), np.zeros_like(a.n)
        n[at], mean[at] = b.n[:, kept], b.mean[:, kept] + shift
        theirs = b.total_n[kept], b.total_mean[kept] + shift
        a.total_n[j], a.total_mean[j], d = united(a.total_n[j], a.total_mean[j], *theirs)
        a.total_m2[j] += b.total_m2[kept] + d * d
        a.n[:], a.mean[:], apart = united(a.n, a.mean, n, mean)
        for c, x in enumerate(apart):
            self._add(0 if self._pooled else c, x)
        for g, factor in enumerate(b.factor):
            for row in factor[kept].T if self._diagonal else factor[:, kept]:
                x = np.zeros(len(self._features))
                x[j] = row
                self._add(0 if self._pooled else int(classes[g]), x)
        for g, level in enumerate(b.level[:, kept]):
            a.level[0 if self._pooled else int(classes[g]), j] += level
        a.passed[:] += b.passed
        a.rebuilt[:] += b.rebuilt
        self.moments = a._replace(unit=b.unit.copy())
        self._serve()

    def _add(self, g: int, x: Floats) -> None:
        """Add x x' to group g's sums of products; x is overwritten."""
        own = self.moments.factor[g]
        if self._diagonal:
            own[:, 0] = np.hypot(own[:, 0], x)
        else:
            kernels.update(own, x, 0)

    def export(self) -> State:
        arrays = self.moments._asdict()
        if (arrays["scale"] == 1.0).all():  # the common case
            del arrays["scale"]
        return State(named(self._features), arrays)

    def restore(self, state: State, classes: int) -> None:
        features = restored(self._features, state)
        d = len(features)
        shapes: list[tuple[int, ...]] = [*self._shapes(classes, d), *[(d,)] * 7, (1,)]
        table = {k: Saved(np.float64, n) for k, n in zip(Comoments._fields, shapes, strict=False)}
        table |= {"scale": SCALE} | dict.fromkeys(("passed", "rebuilt"), Saved(np.int64))
        self.moments = Comoments(**state.read(table, SCALES, features=d))
        self._features = features


def _alike(
    a: Comoments, b: Comoments, shift: Floats, j: NDArray[np.int64], kept: NDArray[np.int64]
) -> Comoments:
    """Bring a's moments (in place) and b's (a copy) to one scale that fits both.

    shift: distance of b's anchors from a's. j: columns in a of b's features `kept`.
    """
    b = b._replace(**{name: getattr(b, name).copy() for name in SCALED_FIELDS})
    for k, (mine, theirs) in enumerate(zip(j.tolist(), kept.tolist(), strict=True)):
        sizes = abs(float(shift[k])), _extent(a, mine), _extent(b, theirs)
        for size in sorted(sizes):  # the largest decides, as in learning
            kernels.fit_scale(size, mine, a)
            kernels.fit_scale(size, theirs, b)
    return b


def _extent(s: Comoments, j: int) -> float:
    """The largest distance of a value of feature j from its anchor."""
    return max(abs(float(s.low[j])), abs(float(s.high[j]))) / float(s.scale[j])


def _present(rows: Rows) -> dict[str, float]:
    """The present values of the one row."""
    pairs = zip(rows.numeric_names, rows.numeric[0].tolist(), strict=True)
    return {name: value for name, value in pairs if value == value}
