"""Full Bayes on categories: the joint distribution of all features, given the class."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, inf, prod
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from stream.bayes._kernels import joint as kernels
from stream.bayes._kernels.categorical import Smoothing
from stream.bayes._kernels.joint import Cells
from stream.bayes.categorical import smoothing
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
from stream.data.parameters import check_half_life, whole
from stream.data.schema import PER_NAME, Label, Schema
from stream.data.state import Rules, Saved, State
from stream.learner.registry import Facts, registered

__all__ = ["CategoricalBayes", "JointPart"]

MAX_FEATURES = 64
MOST_CELLS = 2**24
ROOM = 3  # growing a table at least doubles it, and the old one exists until it is copied

Ints = NDArray[np.int64]
Table = dict[Label, dict[tuple[str, ...], float]]


class JointPart(Part):
    """Categorical features, jointly distributed given the class. See `CategoricalBayes`."""

    name: ClassVar[str] = "joint"

    def __init__(
        self,
        alpha: float = 1.0,
        domains: Domains = None,
        max_cells: int = 2**20,
        m: float | None = None,
        p: Shares = None,
        smooth: str = "all",
    ) -> None:
        self._limit = max_cells
        self._categories = Categories(domains, MAX_FEATURES, p if isinstance(p, Mapping) else None)
        self._given = smoothing(alpha, m, p, smooth, self._categories)
        self.cells = _cells(0, 0, 0)

    @property
    def features(self) -> list[str]:
        return list(self._categories.features)

    @property
    def overflows(self) -> dict[str, int]:
        return {
            "features": self._categories.features.overflow,
            "values": self._categories.refused,
            "cells": int(self.cells.refused[0]),
        }

    @property
    def _smoothing(self) -> Smoothing:
        """The smoothing of the features that are known now."""
        return self._given._replace(start=self._categories.share_start)

    def grows(self, schema: Schema) -> bool:
        """Whether there are categories: new combinations need new cells."""
        return bool(schema.categorical)

    def tables(self, schema: Schema, classes: int) -> int:
        """Bytes of given domains."""
        return PER_NAME * self._categories.given

    def limit(self, room: int, classes: int) -> None:
        """See `Part.limit`. Cells get three quarters, the values get the rest."""
        cell = ROOM * (4 * MAX_FEATURES + 8 * classes) + 64
        self._limit = min(self._limit, max(room * 3 // 4 // cell, 1))
        self._categories.limit(room // 4, 0)

    def execute(self, block: Block, steps: Steps, classes: int, joint: Floats) -> None:
        used, row = rows_used(block)
        learned = row[learning(block)]
        code = self._categories.wide(self._categories.admit(block.rows, used, learned))
        self._make_room(classes, int(self.cells.size[0]) + learned.size)
        domain = self._categories.domain
        given = self._smoothing
        kernels.progressive(steps, row, code, domain, given, self._limit, self.cells, joint)

    def terms(self, rows: Rows, classes: int) -> list[Term]:
        """Terms of the chain rule: each feature is conditioned on those before it."""
        coded = self._categories.encode(rows, np.zeros(1, dtype=np.int64))
        whole = self._categories.wide(coded)[0]
        known = [k for k in coded.column.tolist() if 0 <= whole[k] < self.cells.values[k]]
        code = np.full((len(known), whole.size), -1, dtype=np.int64)
        for i, k in enumerate(known):
            code[i:, k] = whole[k]
        joint = np.zeros((len(known), classes))
        kernels.terms(code, classes, self._smoothing, self.cells, joint)
        out = np.zeros_like(joint)
        for c in range(classes):
            out[:, c] = _steps(joint[:, c].tolist())
        return [(self.features[k], out[i]) for i, k in enumerate(known)]

    def shares(self, code: Ints, classes: int) -> Floats:
        """The probability of each tuple of codes, int64 (q, D), as float64 (q, C)."""
        out = np.zeros((len(code), classes))
        kernels.terms(code, classes, self._smoothing, self.cells, out)
        return np.array([[exp(t) for t in row] for row in out.tolist()]).reshape(out.shape)

    def tuples(self) -> tuple[Ints, list[tuple[str, ...]]]:
        """The cells that have a value of every feature, as codes and as values."""
        s = self.cells
        code = s.code[: s.size[0]].astype(np.int64)
        code = code[((code >= 0) | (s.values == 0)).all(axis=1)]
        values = [self._categories.values(k) for k in range(s.values.size)]
        names = [
            tuple(values[k][v] for k, v in enumerate(cell) if v >= 0) for cell in code.tolist()
        ]
        return code, names

    def singles(self) -> tuple[Ints, list[tuple[str, str]]]:
        """Each value of each feature alone, as codes and as names."""
        learned = self.cells.values.tolist()
        at = [(k, v) for k, m in enumerate(learned) for v in range(m)]
        code = np.full((len(at), len(learned)), -1, dtype=np.int64)
        for i, (k, v) in enumerate(at):
            code[i, k] = v
        return code, [(self.features[k], self._categories.values(k)[v]) for k, v in at]

    def lacks(self, rows: Rows, c: int, amount: UnlearnAmount) -> str | None:
        w = amount.w * amount.fade * float(self.cells.unit[0])
        _, r = self._find(rows)
        if r < 0 and (self.cells.refused[0] > 0 or not self._learnable(rows)):
            return None  # its tuple may have been beyond a bound
        if r < 0 or left_after(self.cells.counts[r, c], w, amount.slack) is None:
            return "this combination of values has less weight in its class"
        return None

    def unlearn(self, rows: Rows, c: int, amount: UnlearnAmount) -> None:
        s = self.cells
        w = amount.w * amount.fade * float(s.unit[0])
        key, r = self._find(rows)
        lost = bool(self._learnable(rows))
        self._categories.unlearn_refused(rows)
        if r < 0:
            s.refused[0] -= lost
            return
        s.counts[r, c] = left_after(s.counts[r, c], w, amount.slack) or 0.0
        if kernels.is_complete(key, s.values):
            s.complete[c] = left_after(s.complete[c], w, amount.slack) or 0.0
        if not s.counts[r].any():
            self._remove_cell(r, key)

    def _remove_cell(self, r: int, key: Ints) -> None:
        """Forget a cell, and the values that only it had. O(cells)."""
        s = self.cells
        n = int(s.size[0])
        kept = np.delete(np.arange(n), r)
        code, count, values = s.code[kept], s.counts[kept], s.values
        domain = self._categories.domain
        for k in np.flatnonzero(key >= 0)[::-1].tolist():
            v = int(key[k])
            if not domain[k] and not (code[:, k] == v).any():
                code[:, k] -= code[:, k] > v
                values[k] -= 1
                self._categories.remove(k, v)
            if not (code[:, k] >= 0).any():
                code, values = np.delete(code, k, axis=1), np.delete(values, k)
                self._categories.remove_feature(k)
        widened = values.size != s.values.size
        self.cells = _filled(s._replace(values=values), code, count, len(s.code))
        if widened:  # with one feature less, more cells may be complete
            kernels.recount(self.cells)

    def drop_class(self, c: int) -> None:
        s = self.cells
        self.cells = s._replace(counts=np.delete(s.counts, c, 1), complete=np.delete(s.complete, c))

    def merge(self, other: Self, classes: Ints, size: int, fade: float) -> None:
        theirs = other.cells
        n = int(theirs.size[0])
        merged = self._categories.merge(other._categories)
        self._make_room(size, int(self.cells.size[0]) + n)
        s = self.cells
        s.counts[:] *= fade
        code = np.full((n, s.values.size), -1, dtype=np.int64)
        for k, (column, codes) in enumerate(merged):
            if column >= 0 and theirs.values[k]:
                s.values[column] = self._categories.sizes[column]
                code[:, column] = np.append(codes, -1)[theirs.code[:n, k]]
        for i, key in enumerate(np.maximum(code, -1)):
            r = kernels.add(key, self._limit, s) if (key >= 0).any() else -1
            if r >= 0:
                s.counts[r, classes] += theirs.counts[i, : classes.size]
            else:
                s.refused[0] += 1
        s.refused[0] += theirs.refused[0]
        kernels.recount(s)
        self.cells = s._replace(unit=theirs.unit.copy())

    def n_parameters(self, classes: int) -> int:
        cells: int = prod(m for m in self.cells.values.tolist() if m)
        return classes * (cells - 1)

    def export(self) -> State:
        s, own = self.cells, self._categories.export()
        n = int(s.size[0])
        arrays: dict[str, NDArray[Any]] = {
            "code": s.code[:n],
            "counts": s.counts[:n, : s.complete.size],
            "complete": s.complete,
            "learned": s.values,
            "cells_refused": s.refused,
            "unit": s.unit,
        }
        return State(own.header, {**own.arrays, **arrays})

    def restore(self, state: State, classes: int) -> None:
        self._categories.restore(state)
        sizes = self._categories.sizes
        table = {
            "code": Saved(np.int32, ("cells", sizes.size), -1),
            "counts": Saved(np.float64, ("cells", classes)),
            "complete": Saved(np.float64, (classes,)),
            "learned": Saved(np.int64, (sizes.size,), 0, sizes),
            "cells_refused": Saved(np.int64),
            "unit": Saved(np.float64),
        }
        known: Rules = {"codes of learned values": lambda a: a["code"] < a["learned"]}
        code, counts, complete, values, refused, unit = state.read(table, known).values()
        fresh = _cells(0, sizes.size, classes)
        fresh = fresh._replace(complete=complete, values=values, refused=refused, unit=unit)
        self.cells = _filled(fresh, code, counts, len(counts))

    def _find(self, rows: Rows) -> tuple[Ints, int]:
        """The one row of `rows` as codes, and its cell; -1 if it cannot have one."""
        coded = self._categories.encode(rows, np.zeros(1, dtype=np.int64))
        key = np.maximum(self._categories.wide(coded)[0], -1)
        lost = any(code < 0 for _, _, _, code in self._learnable(rows))
        return key, -1 if lost or (key < 0).all() else int(kernels.find(key, self.cells))

    def _learnable(self, rows: Rows) -> list[tuple[str, str, int, int]]:
        """The values of the one row of `rows` that were learned or could be."""
        refuses = self._categories.refuses
        return [
            cell for cell in self._categories.cells(rows) if cell[3] >= 0 or not refuses(*cell[:2])
        ]

    def _make_room(self, classes: int, cells: int) -> None:
        """Add zeros for new classes, features and cells. The room for cells at least doubles."""
        s, d = self.cells, self._categories.sizes.size
        needed = min(cells, self._limit)
        if s.complete.size < classes:
            complete = np.append(s.complete, np.zeros(classes - s.complete.size))
            counts = columns_for(s.counts, len(s.counts), classes, self.most_classes)
            self.cells = s = s._replace(complete=complete, counts=counts)
        if s.values.size == d and needed <= len(s.code):
            return
        n = int(s.size[0])
        code = np.full((n, d), -1, dtype=np.int32)
        code[:, : s.values.size] = s.code[:n]
        values = np.append(s.values, np.zeros(d - s.values.size, dtype=np.int64))
        room = max(needed, 2 * len(s.code)) if needed > len(s.code) else len(s.code)
        self.cells = _filled(s._replace(values=values), code, s.counts[:n], room)


@registered(
    Facts(
        model="the joint table of the categories",
        cost="C; 1 (with gaps: cells)",
        memory="cells × C",
        missing="marginalised",
        source="Zaki and Meira 18.1, eq. 18.6",
        reads={"numeric": "each value a category", "binary": "a category", "categorical": "used"},
    )
)
class CategoricalBayes(CategoryClassifier):
    """Full Bayes on categories: a probability for each tuple of values, one record at a time.

    Every value is a category: a text, a number, a truth value, or a tuple of these. Numbers are
    names here, not amounts. 3, 3.0 and "3" are the same category. No independence is assumed, so
    the learner needs many records and few features, at most 64.

    Parameters
    ----------
    alpha
        Added to the count of every possible tuple: 1 is Laplace's rule, 0 maximum likelihood.
    domains
        Feature to the list of values it can have. The domain of any other feature is the values
        learned so far, by any class.
    max_cells
        The largest number of different tuples. Records of further tuples change only the prior of
        their class; `overflows["cells"]` counts them.
    priors
        Label, or its text ("true", "1"), to prior probability. A class without an entry has prior
        0. None: priors are learned.
    half_life
        Number of records after which what was learned has half its weight. None: no fading.
    m, p
        With m, the m-estimate is used instead of alpha: it adds m records, a share p of which has
        the tuple. p is one number for all tuples, or a mapping from feature to value to prior
        probability, as in `CategoricalNB`; the prior of a tuple is then the product of those of its
        values. The default of p is 1 / Π m_j.
    smooth
        ``"all"`` smooths every count. ``"zeros"`` smooths counts of 0 only, as example 18.2 of the
        source does.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    features : list of str
        Features in the order they were first learned.
    joint : dict
        Label to tuple of values (in the order of `features`) to P(tuple | class), for the tuples
        that any class has had.
    marginal : dict
        Label to feature to value to P(value | class).

    Raises
    ------
    SchemaError
        A parameter is out of range.
    InvalidRecordError
        By `learn_one` and the predictions: a value that is not a category, an infinite number.

    Notes
    -----
    P(x | class) = (n_x + alpha) / (n + alpha · Π m_j), or (n_x + m · p) / (n + m), where n is the
    weight of the class's records, n_x is the weight of those equal to x, and m_j is the number of
    values of feature j. Source: Zaki and Meira, Data Mining and Machine Learning, chapter 18.1,
    equation 18.6.

    A record with gaps is learned with its gaps. A prediction uses the learned records that have all
    the features of x: n is their weight. alpha is added for each tuple that agrees with x, which is
    the sum over the values of the features that x does not have. The same holds for p, up to 1. A
    value that no class ever had, and that is in no given domain, is a gap. If a class has no record
    with all features of x, the records of all classes are used for it. If no class has one, x is
    not evidence. With the m-estimate, p is used in both cases. A class is impossible if its
    estimate is 0. If all classes are impossible, the posterior is the prior.

    O(D) to learn. O(C + D) to predict, or O(cells · D) if a feature is missing. Memory O(cells · (C
    + D)). `unlearn_one` is O(cells · D) for the last record of a tuple. `explain_one` uses the
    chain rule: each feature is conditioned on those before it. The contributions depend on the
    order of `features`, their sum does not.

    Examples
    --------
    >>> from stream import CategoricalBayes
    >>> model = CategoricalBayes(alpha=0)
    >>> for a, b in [(0, 0), (0, 1), (1, 0), (1, 1)] * 5:
    ...     model.learn_one({"a": a, "b": b}, "odd" if a != b else "even")
    >>> model.predict_one({"a": 1, "b": 0})
    'odd'
    >>> model.predict_proba_one({"a": 1})
    {'even': 0.5, 'odd': 0.5}
    >>> {cell: round(p, 3) for cell, p in model.joint["odd"].items() if p}
    {('0', '1'): 0.5, ('1', '0'): 0.5}
    """

    def __init__(
        self,
        alpha: float = 1.0,
        domains: Domains = None,
        max_cells: int = 2**20,
        priors: Mapping[Label, float] | None = None,
        half_life: float | None = None,
        m: float | None = None,
        p: Shares = None,
        smooth: Literal["all", "zeros"] = "all",
    ) -> None:
        self.domains = check_domains(domains)
        self.alpha, self.m, self.p, self.smooth = check_estimate(alpha, m, p, smooth, self.domains)
        self.max_cells = whole("max_cells", max_cells, 1, MOST_CELLS)
        self.priors = check_priors(priors)
        self.half_life = check_half_life(half_life)
        self._begin()

    def _new_parts(self) -> tuple[Part, ...]:
        table = (self.alpha, self.domains, self.max_cells, self.m, self.p, self.smooth)
        self._joint = JointPart(*table)
        return (self._joint,)

    @property
    def joint(self) -> Table:
        code, names = self._joint.tuples()
        shares = self._joint.shares(code, len(self.classes))
        return {
            y: dict(zip(names, shares[:, c].tolist(), strict=True))
            for c, y in enumerate(self.classes)
        }

    @property
    def marginal(self) -> dict[Label, dict[str, dict[str, float]]]:
        out: dict[Label, dict[str, dict[str, float]]] = {y: {} for y in self.classes}
        code, names = self._joint.singles()
        shares = self._joint.shares(code, len(self.classes)).tolist()
        for (name, value), row in zip(names, shares, strict=True):
            for y, share in zip(self.classes, row, strict=True):
                out[y].setdefault(name, {})[value] = share
        return out


def _cells(room: int, d: int, c: int) -> Cells:
    """Empty cells with room for some."""
    return Cells(
        np.full((room, d), -1, dtype=np.int32),
        np.zeros((room, c)),
        np.zeros(1, dtype=np.int64),
        np.zeros(c),
        np.zeros(d, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.zeros(2 << (2 * room).bit_length(), dtype=np.int32),
        np.ones(1),
    )


def _filled(s: Cells, code: NDArray[np.int32], count: Floats, room: int) -> Cells:
    """`s` with these cells, and room for that many."""
    empty = _cells(room, code.shape[1], count.shape[1])
    empty.code[: len(code)] = code
    empty.counts[: len(count)] = count
    empty.size[0] = len(code)
    new = s._replace(code=empty.code, counts=empty.counts, size=empty.size, slot=empty.slot)
    kernels.rehash(np.empty(code.shape[1], dtype=np.int64), new)
    return new


def _steps(joint: list[float]) -> list[float]:
    """The differences between neighbours. They sum to the last value, even if it is -inf."""
    out, last = [0.0] * len(joint), 0.0
    for i, value in enumerate(joint):
        if value > -inf:
            out[i], last = value - last, value
    if joint and joint[-1] == -inf:
        finite = [i for i, value in enumerate(joint) if value > -inf]
        out[finite[-1] + 1 if finite else 0] = -inf
    return out
