"""Categorical naive Bayes: the value of each feature is drawn from a distribution of the class."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from stream.bayes._kernels import categorical as kernels
from stream.bayes._kernels.categorical import CategoryCounts, Smoothing
from stream.bayes.categories import (
    Categories,
    CategoryClassifier,
    Domains,
    Shares,
    check_domains,
    check_estimate,
)
from stream.bayes.classifier import check_priors, left_after
from stream.bayes.part import Part, Steps, Term, UnlearnAmount
from stream.data.block import Block, Floats, Rows, learning, rows_used
from stream.data.columns import columns_for
from stream.data.parameters import check_half_life
from stream.data.schema import Label, Schema
from stream.data.state import Saved, State
from stream.learner.registry import Facts, registered

__all__ = ["CategoricalNB", "CategoricalPart", "smoothing"]

Ints = NDArray[np.int64]
ROOM = 3  # growing a table at least doubles it, and the old one exists until it is copied


class CategoricalPart(Part):
    """Categorical features, independent given the class. See `CategoricalNB`."""

    name: ClassVar[str] = "categorical"

    def __init__(
        self,
        alpha: float = 1.0,
        m: float | None = None,
        p: Shares = None,
        smooth: str = "all",
        domains: Domains = None,
    ) -> None:
        self._categories = Categories(domains, shares=p if isinstance(p, Mapping) else None)
        self._given = smoothing(alpha, m, p, smooth, self._categories)
        table, none = np.zeros((0, 0)), np.zeros(0, dtype=np.int64)
        self.counts = CategoryCounts(table, np.zeros(1, dtype=np.int64), table, none, np.ones(1))
        self._known = 0

    @property
    def features(self) -> list[str]:
        return list(self._categories.features)

    @property
    def overflows(self) -> dict[str, int]:
        return {
            "features": self._categories.features.overflow,
            "values": self._categories.refused,
        }

    @property
    def _smoothing(self) -> Smoothing:
        """The smoothing of the features that are known now."""
        return self._given._replace(start=self._categories.share_start)

    def tables(self, schema: Schema, classes: int) -> int:
        """Bytes of the weights of every field and of given domains."""
        given = self._categories.given
        return 8 * ROOM * classes * (len(schema.categorical) + given)

    def grows(self, schema: Schema) -> bool:
        """Whether a field has no given domain."""
        return self._categories.open_in(schema)

    def limit(self, room: int, classes: int) -> None:
        """See `Part.limit`. A value needs its text and one count for each class."""
        self._categories.limit(room, 8 * ROOM * classes)

    def execute(self, block: Block, steps: Steps, classes: int, joint: Floats) -> None:
        used, row = rows_used(block)
        coded = self._categories.admit(block.rows, used, row[learning(block)])
        self._make_room(classes)
        kernels.progressive(
            steps,
            row,
            coded.code,
            coded.column,
            self._categories.domain,
            self._smoothing,
            self.counts,
            joint,
        )

    def terms(self, rows: Rows, classes: int) -> list[Term]:
        coded = self._categories.encode(rows, np.zeros(1, dtype=np.int64))
        out = np.zeros((coded.column.size, classes))
        code = coded.code[0]
        kernels.terms(code, coded.column, classes, self._smoothing, self.counts, out)
        names = [rows.categorical_names[j] for j in coded.source.tolist()]
        return [(name, out[k]) for k, name in enumerate(names) if code[k] >= 0]

    def table(self, classes: int) -> list[tuple[str, str, Floats]]:
        """Each value of each feature, and its probability in each class, float64 (C,)."""
        s = self.counts
        column = np.repeat(np.arange(s.values.size), s.values)
        out = np.zeros((column.size, classes))
        code = _rows(np.zeros_like(s.values), s.values)
        kernels.terms(code, column, classes, self._smoothing, s, out)
        learned = enumerate(s.values.tolist())
        pairs = [(j, v) for j, m in learned for v in self._categories.values(j)[:m]]
        names = self.features
        return [
            (names[j], v, np.array([exp(t) for t in out[k].tolist()]))
            for k, (j, v) in enumerate(pairs)
        ]

    def lacks(self, rows: Rows, c: int, amount: UnlearnAmount) -> str | None:
        w = amount.w * amount.fade * float(self.counts.unit[0])
        for name, value, column, code in self._categories.cells(rows):
            if code < 0:
                if not self._categories.refuses(name, value):
                    return f"feature {name!r} never had the value {value!r}"
            elif (
                left_after(self.counts.counts[self.counts.start[column] + code, c], w, amount.slack)
                is None
            ):
                return f"feature {name!r} had {value!r} with less weight in its class"
        return None

    def unlearn(self, rows: Rows, c: int, amount: UnlearnAmount) -> None:
        s = self.counts
        w = amount.w * amount.fade * float(s.unit[0])
        touched = list(self._categories.cells(rows))
        self._categories.unlearn_refused(rows)
        for _, _, column, code in touched:
            if code >= 0:
                at = s.start[column] + code
                s.counts[at, c] = left_after(s.counts[at, c], w, amount.slack) or 0.0
                s.seen[column, c] = left_after(s.seen[column, c], w, amount.slack) or 0.0
                if not s.counts[at].any() and not self._categories.domain[column]:
                    self._remove_value(column, code)
        for column in sorted({column for _, _, column, _ in touched if column >= 0}, reverse=True):
            start, stop = self.counts.start[column : column + 2]
            if not self.counts.counts[start:stop].any():
                self._remove_feature(column)

    def _remove_value(self, column: int, code: int) -> None:
        start, stop = self.counts.start[column : column + 2].tolist()
        kept = self.counts.counts[start + code + 1 : stop].copy()
        self.counts.counts[start + code : stop - 1] = kept
        self.counts.counts[stop - 1] = 0.0
        self.counts.values[column] -= 1
        self._categories.remove(column, code)

    def _remove_feature(self, column: int) -> None:
        s = self.counts
        room = np.delete(np.diff(s.start), column)
        self.counts = s._replace(
            counts=np.delete(s.counts, slice(s.start[column], s.start[column + 1]), axis=0),
            start=np.append(0, np.cumsum(room)),
            seen=np.delete(s.seen, column, axis=0),
            values=np.delete(s.values, column),
        )
        self._categories.remove_feature(column)

    def drop_class(self, c: int) -> None:
        s = self.counts
        self.counts = s._replace(counts=np.delete(s.counts, c, 1), seen=np.delete(s.seen, c, 1))
        self._known -= 1

    def merge(self, other: Self, classes: Ints, size: int, fade: float) -> None:
        merged = self._categories.merge(other._categories)
        self._make_room(size)
        s, theirs, n = self.counts, other.counts, other._known
        s.counts[:] *= fade
        s.seen[:] *= fade
        for k, (column, code) in enumerate(merged):
            if column < 0:
                continue
            start, learned = int(theirs.start[k]), int(theirs.values[k])
            kept = np.flatnonzero(code[:learned] >= 0)
            s.counts[np.ix_(s.start[column] + code[kept], classes)] += theirs.counts[
                start + kept, :n
            ]
            seen = theirs.seen[k, :n].copy()
            for v in np.flatnonzero(
                code[:learned] < 0
            ).tolist():  # beyond a bound: counted as overflows
                seen = np.maximum(seen - theirs.counts[start + v, :n], 0.0)
            s.seen[column, classes] += seen
            if learned:
                s.values[column] = self._categories.sizes[column]
        self.counts = s._replace(unit=theirs.unit.copy())

    def n_parameters(self, classes: int) -> int:
        free: int = sum(max(m - 1, 0) for m in self.counts.values.tolist())
        return classes * free

    def export(self) -> State:
        # Spare room is left out, so that a state depends only on what was learned.
        s, own = self.counts, self._categories.export()
        count = s.counts[_rows(s.start[:-1], self._categories.sizes), : self._known]
        seen = s.seen[:, : self._known]
        arrays = {"counts": count, "seen": seen, "learned": s.values, "unit": s.unit}
        return State(own.header, {**own.arrays, **arrays})

    def restore(self, state: State, classes: int) -> None:
        self._categories.restore(state)
        sizes = self._categories.sizes
        table = {
            "counts": Saved(np.float64, (int(sizes.sum()), classes)),
            "seen": Saved(np.float64, (sizes.size, classes)),
            "learned": Saved(np.int64, (sizes.size,), 0, sizes),
            "unit": Saved(np.float64),
        }
        count, seen, values, unit = state.read(table).values()
        start = np.append(0, np.cumsum(sizes)).astype(np.int64)
        self.counts, self._known = CategoryCounts(count, start, seen, values, unit), classes

    def _make_room(self, classes: int) -> None:
        """Add zeros for new classes, features and values. The room for values at least doubles."""
        s, sizes = self.counts, self._categories.sizes
        room = s.start[1:] - s.start[:-1]
        counts = columns_for(s.counts, len(s.counts), classes, self.most_classes)
        seen = columns_for(s.seen, sizes.size, classes, self.most_classes)
        self._known = max(classes, self._known)
        s = self.counts = s._replace(counts=counts, seen=seen)
        if s.values.size == sizes.size and (sizes <= room).all():
            return
        room = np.append(room, np.zeros(sizes.size - room.size, dtype=np.int64))
        room = np.where(sizes > room, np.maximum(sizes, 2 * room), room)
        start = np.append(0, np.cumsum(room)).astype(np.int64)
        count = np.zeros((int(start[-1]), counts.shape[1]))
        values = np.zeros(sizes.size, dtype=np.int64)
        old = slice(0, s.values.size)
        to, at = _rows(start[old], s.values), _rows(s.start[:-1], s.values)
        count[to] = s.counts[at]
        values[old] = s.values
        self.counts = CategoryCounts(count, start, seen, values, s.unit)


@registered(
    Facts(
        model="categories, independent within a class",
        cost="C·D; D",
        memory="values × C",
        missing="no evidence",
        source="Zaki and Meira 18.2",
        reads={"numeric": "each value a category", "binary": "a category", "categorical": "used"},
    )
)
class CategoricalNB(CategoryClassifier):
    """Categorical naive Bayes, one record at a time.

    Every value is a category: a text, a number, a truth value, or a tuple of these. Numbers are
    names here, not amounts. 3, 3.0 and "3" are the same category.

    Parameters
    ----------
    alpha
        Added to every count: 1 is Laplace's rule, 0 maximum likelihood.
    m, p
        With m, the m-estimate is used instead of alpha: it adds m records, a share p of which has
        the value. p is one number for all values, or a mapping from feature to value to prior
        probability. The probabilities of a feature sum to 1. Its values are then the domain of the
        feature, unless `domains` has the feature; a value of the domain without a probability has
        0. Without p, and for features that p does not have, it is 1 / m_j.
    smooth
        ``"all"`` smooths every count. ``"zeros"`` smooths counts of 0 only, as example 18.4 of the
        source does; the probabilities of a feature then sum to more than 1.
    domains
        Feature to the list of values it can have. The domain of any other feature is the values
        learned so far, by any class.
    priors
        Label, or its text ("true", "1"), to prior probability. A class without an entry has prior
        0. None: priors are learned.
    half_life
        Number of records after which what was learned has half its weight. None: no fading.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    features : list of str
        Features in the order they were first learned.
    pmf : dict
        Label to feature to value to P(value | class).

    Raises
    ------
    SchemaError
        A parameter is out of range.
    InvalidRecordError
        By `learn_one` and the predictions: a value that is not a category, an infinite number.

    Notes
    -----
    P(v | class) = (n_v + alpha) / (n + alpha · m_j), or (n_v + m · p) / (n + m), where n is the
    weight of the class's records that have feature j, n_v is the weight of those with the value v,
    and m_j is the size of the domain. Source: Zaki and Meira, Data Mining and Machine Learning,
    chapter 18.2; Mitchell, Machine Learning, chapter 6.9 for the m-estimate.

    A missing value is not evidence, in learning and in predicting. A value that no class ever had,
    and that is in no given domain, is not evidence either, because the estimate covers only the
    values of the domain. (A probability of alpha / (n + alpha · m_j) for it would make each new
    value an argument for the class with fewer records.) If a class never had a feature, the counts
    over all classes are used for it; with the m-estimate, p is used. A count of 0 that is not
    smoothed makes the class impossible. If all classes are impossible, the posterior is the prior.

    O(C · D) to predict, O(D) to learn, for C classes and D features present; memory O(C · V) for
    V values. Bounds: 65,536 features, 4,096 values for each feature and 2**20 in total, 512
    characters for each value. Values beyond a bound or outside a given domain are not learned.
    `overflows` counts them.

    Examples
    --------
    >>> from stream import CategoricalNB
    >>> model = CategoricalNB()
    >>> for sky, y in [("sunny", "no"), ("sunny", "no"), ("rainy", "yes"), ("sunny", "yes")]:
    ...     model.learn_one({"sky": sky}, y)
    >>> model.predict_one({"sky": "sunny"})
    'no'
    >>> {value: round(p, 3) for value, p in model.pmf["no"]["sky"].items()}
    {'sunny': 0.75, 'rainy': 0.25}
    """

    def __init__(
        self,
        alpha: float = 1.0,
        m: float | None = None,
        p: Shares = None,
        smooth: Literal["all", "zeros"] = "all",
        domains: Domains = None,
        priors: Mapping[Label, float] | None = None,
        half_life: float | None = None,
    ) -> None:
        self.domains = check_domains(domains)
        self.alpha, self.m, self.p, self.smooth = check_estimate(alpha, m, p, smooth, self.domains)
        self.priors = check_priors(priors)
        self.half_life = check_half_life(half_life)
        self._begin()

    def _new_parts(self) -> tuple[Part, ...]:
        self._categorical = CategoricalPart(self.alpha, self.m, self.p, self.smooth, self.domains)
        return (self._categorical,)

    @property
    def pmf(self) -> dict[Label, dict[str, dict[str, float]]]:
        out: dict[Label, dict[str, dict[str, float]]] = {y: {} for y in self.classes}
        for name, value, shares in self._categorical.table(len(self.classes)):
            for y, share in zip(self.classes, shares.tolist(), strict=True):
                out[y].setdefault(name, {})[value] = share
        return out


def smoothing(
    alpha: float, m: float | None, p: Shares, smooth: str, categories: Categories
) -> Smoothing:
    """The checked parameters in the form that kernels take."""
    return Smoothing(
        float(alpha),
        -1.0 if m is None else float(m),
        -1.0 if p is None or isinstance(p, Mapping) else float(p),
        smooth == "zeros",
        categories.shares,
        categories.share_start,
    )


def _rows(start: Ints, sizes: Ints) -> Ints:
    """sizes[0] numbers from start[0] on, then sizes[1] numbers from start[1] on, …; int64."""
    ends = np.cumsum(sizes)
    return np.repeat(start - (ends - sizes), sizes) + np.arange(int(sizes.sum()), dtype=np.int64)
