"""Gaussian naive Bayes: given the class, features are normal and independent.

A state has the moments as `Moments`. Kernels have them in cells: chunks of eight lanes.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan, prod
from struct import pack_into
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stream.bayes._kernels import gaussian as kernels
from stream.bayes._kernels.lanes import HEAD, LANES
from stream.bayes.classifier import BayesClassifier, check_priors, left_after
from stream.bayes.moments import SCALE, SCALES, too_far
from stream.bayes.part import Part, Steps, Term, UnlearnAmount
from stream.data.block import Block, Floats, Rows, learning
from stream.data.columns import MAX_FEATURES, admit, amounts, find, grown, named, restored
from stream.data.parameters import check_half_life, number, one_of
from stream.data.schema import HEAVIEST, LARGEST, Dictionary, Kind, Label, Schema
from stream.data.state import Saved, State
from stream.learner.base import Predictions
from stream.learner.registry import Facts, registered

__all__ = ["GaussianNB", "GaussianPart"]

LINE = 64  # bytes of a cache line


class Moments(NamedTuple):
    """The moments under their names in a state, all float64.

    n, mean, m2 (C, D): weight, mean and sum of squared deviations of (x - anchor) · scale for each
    class. anchor, scale (D,): the first value learned, and a power of two, see the kernels.
    total_n, total_mean, total_m2 (D,): the same over all classes. unit (1,): the present value of a
    weight of 1 learned last.
    """

    n: Floats
    mean: Floats
    m2: Floats
    anchor: Floats
    scale: Floats
    total_n: Floats
    total_mean: Floats
    total_m2: Floats
    unit: Floats


def height(classes: int) -> int:
    """The number of rows in cells for that many classes."""
    return HEAD + kernels.PER_CLASS * (classes + 1)


def cells(chunks: int, classes: int) -> Floats:
    """Empty cells, float64 (chunks, height, LANES).

    Eight lanes are one cache line. Without alignment each read and write touches two lines.
    """
    shape = (chunks, height(classes), LANES)
    size = 8 * prod(shape)
    room = np.zeros(size + LINE, dtype=np.uint8)
    start = -room.ctypes.data % LINE
    out = room[start : start + size].view(np.float64).reshape(shape)
    out[:, 1] = 1.0
    return out


def room_for(
    old: Floats, features: int, classes: int, most_features: int, most_classes: int
) -> Floats:
    """`old` if it has room for that many features and classes, otherwise a copy with twice the
    room.

    Doubling makes the copies for C classes cost O(C · D) in total, not O(C² · D).
    """
    known = (old.shape[1] - height(0)) // kernels.PER_CLASS
    chunks = grown(-(-features // LANES), old.shape[0], -(-most_features // LANES))
    most = grown(classes, known, most_classes)
    if (chunks, most) == (old.shape[0], known):
        return old
    out = cells(chunks, most)
    out[: old.shape[0], : old.shape[1]] = old
    return out


def packed(moments: Moments) -> Floats:
    """The cells of these moments."""
    classes, d = moments.n.shape
    out, each = cells(-(-d // LANES), classes), kernels.PER_CLASS
    rows = np.zeros((out.shape[1], len(out) * LANES))
    rows[1] = 1.0
    rows[0, :d], rows[1, :d] = moments.anchor, moments.scale
    for i, total in enumerate((moments.total_n, moments.total_mean, moments.total_m2)):
        rows[HEAD + i, :d] = total
        rows[HEAD + each + i :: each, :d] = moments[i]
    out[:] = rows.reshape(len(rows), -1, LANES).transpose(1, 0, 2)
    return out


def unpacked(s: Floats, features: int, classes: int, unit: Floats) -> Moments:
    """A copy of the moments in the cells."""
    each = kernels.PER_CLASS
    rows = s[:, : height(classes)].transpose(1, 0, 2)
    rows = rows.reshape(height(classes), -1)[:, :features]
    tables = [rows[HEAD + each + i :: each] for i in range(3)]
    ours = [*tables, rows[0], rows[1], *rows[HEAD : HEAD + 3], unit]
    return Moments._make(a.copy() for a in ours)


def rescaled(moments: Moments, scale: Floats) -> Moments:
    """The same moments with another scale (D,). A mean is never -0.0, see `fit_scale`."""
    by = scale / moments.scale
    return moments._replace(
        mean=moments.mean * by + 0.0,
        m2=moments.m2 * by * by,
        scale=scale,
        total_mean=moments.total_mean * by + 0.0,
        total_m2=moments.total_m2 * by * by,
    )


NUMBERS = (float, int)  # compared with `type`, because isinstance(True, int) holds
LABELS = (str, int, bool)


class GaussianPart(Part):
    """Numeric features, each normal given the class. See `GaussianNB`."""

    name: ClassVar[str] = "gaussian"

    def __init__(self, ddof: float, smoothing: float) -> None:
        self._ddof, self._smoothing = ddof, smoothing
        self._features = Dictionary(MAX_FEATURES)
        self._have(cells(0, 0), 0)
        self._unit = np.ones(1)
        self._taken: dict[str, float] = {}

    @property
    def moments(self) -> Moments:
        """A copy of the moments."""
        return unpacked(self._cells, len(self._features), self._classes, self._unit)

    def _take(self, moments: Moments) -> None:
        """Replace the moments. The number of features stays the same."""
        self._have(packed(moments), len(moments.n))
        self._unit = moments.unit

    def _have(self, room: Floats, classes: int) -> None:
        """Replace the cells. They may have room for more chunks and classes than there are."""
        self._room, self._classes = room, classes
        self._cells = room[: -(-len(self._features) // LANES)]
        self._most = (room.shape[1] - height(0)) // kernels.PER_CLASS
        self._format = f"{len(self._cells) * LANES}d"

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._have(self._room, self._classes)  # the cells of a copy are a view of its own room

    @property
    def features(self) -> list[str]:
        return list(self._features)

    @property
    def overflows(self) -> dict[str, int]:
        return {"features": self._features.overflow}

    def tables(self, schema: Schema, classes: int) -> int:
        """Bytes of its cells: one line of lanes for every eight features."""
        return 8 * LANES * height(classes) * -(-len(schema.numeric) // LANES)

    def execute(self, block: Block, steps: Steps, classes: int, joint: Floats) -> None:
        used, s, x = self._lanes(block, classes)
        how = self._ddof, self._smoothing
        downs = kernels.progressive(tuple(steps), x, *how, s, self._unit, joint)
        if s is self._cells:
            return
        self._cells[used] = s
        idle = np.setdiff1d(np.arange(len(self._cells)), used)
        for _ in range(downs if idle.size else 0):  # the weights of all features have the same unit
            others = self._cells[idle]
            kernels.scale_down(others)
            self._cells[idle] = others

    def answer(
        self, block: Block, code: NDArray[np.int64], known: int, weight: Floats, out: Predictions
    ) -> None:
        """Run the whole classifier in one kernel, if nothing fades.

        weight (C,): the weight of each class; it is learned too."""
        used, s, x = self._lanes(block, weight.size)
        steps = (block.op, block.row, block.y, block.w, known)
        how = self._ddof, self._smoothing
        kernels.posterior(steps, code, weight, x, how, s, out.proba, out.known)
        if s is not self._cells:
            self._cells[used] = s

    def _lanes(self, block: Block, classes: int) -> tuple[Any, Floats, Floats]:
        """The chunks of features that a block has, their cells, and its values in their lanes.

        A feature is always in the same lane, whatever other features a block has: see the kernels.
        """
        x, before = block.rows.numeric, len(self._features)
        if list(block.rows.numeric_names) == self._features.values:  # the common case
            self._widen(classes)
            size = len(self._cells) * LANES
            if before == size:
                return None, self._cells, np.ascontiguousarray(x)
            lanes = np.full((len(x), size), nan)
            lanes[:, :before] = x
            return None, self._cells, lanes
        source, column = admit(self._features, block)
        self._widen(classes)
        self._anchor(block, source, column, before)
        used = np.unique(column // LANES)
        lanes = np.full((len(x), used.size * LANES), nan)
        lanes[:, np.searchsorted(used, column // LANES) * LANES + column % LANES] = x[:, source]
        return used, self._cells if used.size == len(self._cells) else self._cells[used], lanes

    def _anchor(
        self, block: Block, source: NDArray[np.int64], column: NDArray[np.int64], before: int
    ) -> None:
        """Set the anchor of each feature that is new in this block to the first learned value."""
        rows = block.row[learning(block)]
        for i in np.flatnonzero(column >= before).tolist():
            values = block.rows.numeric[rows, source[i]]
            j, k = divmod(int(column[i]), LANES)
            self._cells[j, 0, k] = values[np.argmax(~np.isnan(values))]

    # One record of known features without a block: the same kernels on scratch buffers.

    def lay(self, x: Mapping[Any, Any], classes: int) -> Floats | None:
        """A plain record in its lanes, float64 (1, 8 · chunks); None if it is not plain.

        A plain record is a dict of finite Python floats and ints with only learned features, and
        with enough of them. The array belongs to the caller, so several threads may call this at
        once.
        """
        codes, size = self._features.codes, len(self._cells) * LANES
        d = len(codes)
        if type(x) is not dict or not 0 < d <= 4 * len(x) or d > size or classes > self._most:
            return None
        values = [nan] * size
        for name, value in x.items():
            j = codes.get(name)
            if j is None or type(value) not in NUMBERS or not -LARGEST <= value <= LARGEST:
                return None
            values[j] = value + 0.0  # -0.0 becomes 0.0, as in `number`
        out = np.empty((1, size))
        pack_into(self._format, out.data, 0, *values)
        return out

    def learn_laid(self, x: Floats, c: int, w: float, weight: Floats) -> None:
        """Learn a result of `lay` for the known class c. weight (C,): the weight of each class."""
        kernels.learn_row(x, c, w, weight, self._smoothing, self._cells)

    def answer_laid(self, x: Floats, weight: Floats) -> list[float]:
        """The posterior of a result of `lay`. weight (C,): the weight of each class."""
        out, ddof = np.empty((1, weight.size)), self._ddof
        kernels.answer_row(x, weight, ddof, self._smoothing, self._cells, self._unit, out)
        found: list[float] = out[0].tolist()
        return found

    def _widen(self, classes: int) -> None:
        """Make room for new classes and features."""
        d = len(self._features)
        if classes > self._classes or d > len(self._cells) * LANES:
            most = self.most_numbers, self.most_classes
            self._have(room_for(self._room, d, classes, *most), max(classes, self._classes))

    def terms(self, rows: Rows, classes: int) -> list[Term]:
        source, column = find(self._features, rows)
        out = np.zeros((source.size, classes))
        x, ddof = rows.numeric[0], self._ddof * float(self._unit[0])
        kernels.terms(x, source, column, ddof, self._smoothing, self._cells, out)
        names = [rows.numeric_names[j] for j in source.tolist()]
        return [(n, out[k]) for k, n in enumerate(names) if not np.isnan(x[source[k]])]

    def lacks(self, rows: Rows, c: int, amount: UnlearnAmount) -> str | None:
        w = amount.w * amount.fade * float(self._unit[0])
        present = {n: v for n, v in zip(rows.numeric_names, rows.numeric[0], strict=True) if v == v}
        m = self.moments
        for name, value in present.items():
            j = self._features.codes.get(name)
            if j is None or left_after(m.n[c, j], w, amount.slack) is None:
                return f"feature {name!r} has less weight in its class"
            anchor, scale = float(m.anchor[j]), float(m.scale[j])
            largest = abs(value) + abs(anchor) + self._taken.get(name, 0.0)
            at = (value - anchor) * scale, w, largest * scale
            for slack, held in (
                (amount.slack, (m.n[c, j], m.mean[c, j], m.m2[c, j])),
                (amount.slack_of_all, (m.total_n[j], m.total_mean[j], m.total_m2[j])),
            ):
                if too_far(*at, slack, *map(float, held)):
                    return f"{name!r} = {value!r} is too far from the mean of the learned values"
        return None

    def unlearn(self, rows: Rows, c: int, amount: UnlearnAmount) -> None:
        w = amount.w * amount.fade * float(self._unit[0])
        source, column = find(self._features, rows)
        for i, j in zip(source.tolist(), column.tolist(), strict=True):
            value, name = float(rows.numeric[0, i]), self._features.values[j]
            if value == value:
                size = abs(value - float(self._cells[j // LANES, 0, j % LANES]))
                self._taken[name] = max(self._taken.get(name, 0.0), size)
        rounding = w * amount.slack, w * amount.slack_of_all
        kernels.unlearn(rows.numeric[0], source, column, c, w, *rounding, self._cells)
        moments = self.moments
        gone = np.flatnonzero(moments.total_n == 0.0)
        if gone.size:
            for j in gone[::-1].tolist():
                self._taken.pop(self._features.values[j], None)
                self._features.remove(self._features.values[j])
            left = [np.delete(a, gone, axis=-1) for a in moments[:-1]]
            self._take(Moments._make([*left, moments.unit]))

    def drop_class(self, c: int) -> None:
        moments = self.moments
        left = [np.delete(a, c, axis=0) for a in moments[:3]]
        self._take(Moments._make([*left, *moments[3:]]))

    def merge(self, other: Self, classes: NDArray[np.int64], size: int, fade: float) -> None:
        column = np.array([self._features.add(f) for f in other.features], dtype=np.int64)
        self._widen(size)
        a, b = self.moments, other.moments
        kept = np.flatnonzero(column >= 0)  # features beyond the bound are counted as overflows
        j = column[kept]
        a.anchor[j] = np.where(a.total_n[j] > 0, a.anchor[j], b.anchor[kept])
        shift = b.anchor[kept] - a.anchor[j]
        far = dict(zip(kept.tolist(), np.abs(shift).tolist(), strict=True))
        a, b, shift = _one_scale(a, b, shift, j, kept)
        for weights in (a.n, a.m2, a.total_n, a.total_m2):
            weights *= fade
        at = np.ix_(classes, j)
        theirs = (b.n[:, kept], b.mean[:, kept] + shift, b.m2[:, kept])
        a.n[at], a.mean[at], a.m2[at] = _united((a.n[at], a.mean[at], a.m2[at]), theirs)
        everywhere = (b.total_n[kept], b.total_mean[kept] + shift, b.total_m2[kept])
        a.total_n[j], a.total_mean[j], a.total_m2[j] = _united(
            (a.total_n[j], a.total_mean[j], a.total_m2[j]), everywhere
        )
        self._take(a._replace(unit=b.unit))
        # A change of anchor rounds means as much as unlearning values that far away does.
        for k, apart in far.items():
            name = other._features.values[k]
            size = max(self._taken.get(name, 0.0), other._taken.get(name, 0.0), apart)
            if size > 0.0:
                self._taken[name] = size

    def n_parameters(self, classes: int) -> int:
        return 2 * classes * len(self._features)

    def export(self) -> State:
        arrays = self.moments._asdict()
        if (arrays["scale"] == 1.0).all():  # the common case
            del arrays["scale"]
        taken = {"taken": self._taken} if self._taken else {}
        return State({**named(self._features), **taken}, arrays)

    def restore(self, state: State, classes: int) -> None:
        features = restored(self._features, state)
        vector = Saved(np.float64, ("features",))
        table = dict.fromkeys(Moments._fields, vector) | {"unit": Saved(np.float64), "scale": SCALE}
        table |= dict.fromkeys(("n", "mean", "m2"), Saved(np.float64, (classes, "features")))
        moments = Moments(**state.read(table, SCALES, features=len(features)))
        self._features, self._taken = features, amounts(state, "taken", features)
        self._take(moments)


@registered(
    Facts(
        model="numbers, independent and normal within a class",
        cost="C·D; D",
        memory="C·D",
        missing="no evidence",
        source="Zaki and Meira 18.2",
        reads={"numeric": "used", "binary": "the numbers 0 and 1"},
    )
)
class GaussianNB(BayesClassifier):
    """Gaussian naive Bayes (diagonal covariance), one record at a time.

    Parameters
    ----------
    variance
        ``"ml"`` divides the squared deviations by n (maximum likelihood), ``"sample"`` by n - 1.
    var_smoothing
        This share of a feature's *total* variance, over all classes, is added to its variance in
        each class. 0 gives the exact estimate. A class with zero variance on a feature is then a
        point, with density 1 at the point and 0 elsewhere.
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
    means, variances : dict
        Label to a dict from feature to its mean, or to its variance before smoothing.

    Raises
    ------
    SchemaError
        A parameter is out of range.
    InvalidRecordError
        By `learn_one` and the predictions: an infinite number, a text, a number beyond 1e100.

    Notes
    -----
    O(C · D) to predict, O(D) to learn, for C classes and D features present; memory O(C · D).
    Moments are those of x minus the first learned value (Chan, Golub and LeVeque 1983 on shifted
    data; Welford 1962 for the update). A feature that is missing in the record, constant so far, or
    never learned is not evidence. If a class has never had a feature, the feature's distribution
    over all classes is used for it. Source: Zaki and Meira, Data Mining and Machine Learning,
    chapter 18.2.

    `merge` and `unlearn_one` are exact to about 1e-9 of the largest magnitude. A feature keeps its
    anchor until its last value is unlearned.

    Examples
    --------
    >>> from stream import GaussianNB
    >>> model = GaussianNB()
    >>> for height, y in [(1.6, "a"), (1.7, "a"), (1.9, "b"), (2.0, "b")]:
    ...     model.learn_one({"height": height}, y)
    >>> model.predict_one({"height": 1.62})
    'a'
    >>> model.predict_one({"height": 1.97, "weight": None})
    'b'
    """

    strings = "refused"
    kinds: ClassVar[frozenset[Kind]] = frozenset(("numeric", "binary"))

    def __init__(
        self,
        variance: Literal["ml", "sample"] = "ml",
        var_smoothing: float = 1e-9,
        priors: Mapping[Label, float] | None = None,
        half_life: float | None = None,
    ) -> None:
        variance = one_of("variance", variance, ("ml", "sample"))
        var_smoothing = number("var_smoothing", var_smoothing, 0.0)
        priors = check_priors(priors)
        half_life = check_half_life(half_life)
        self.variance = variance
        self.var_smoothing = var_smoothing
        self.priors = priors
        self.half_life = half_life
        self._begin()

    @property
    def not_applicable(self) -> Mapping[str, str]:
        """Laws that do not apply to this learner, with the reason."""
        if self.var_smoothing > 0:
            return super().not_applicable
        why = "without smoothing a class may be a point, and a rounding error of its mean moves it"
        return {**super().not_applicable, "unlearning_is_the_inverse_of_learning": why}

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        c = self._classes.codes.get(y, -1) if type(y) in LABELS else -1
        known = c >= 0 and type(self._classes.values[c]) is type(y)
        usual = self.half_life is None and type(w) in NUMBERS and 0 < w <= HEAVIEST
        laid = self._laid(x) if known and usual and self._turns.free else None
        if laid is not None:
            self._gaussian.learn_laid(laid, c, float(w), self._prior.weight)
        else:
            super().learn_one(x, y, w)

    def predict_proba_one(self, x: Mapping[Any, Any], **_: Any) -> dict[Label, float]:
        laid = self._laid(x) if self.priors is None and self._turns.free else None
        if laid is None:
            return super().predict_proba_one(x)
        posterior = self._gaussian.answer_laid(laid, self._prior.weight)
        # Another thread may have added a class since, but only at the end.
        return dict(zip(self._classes.values, posterior, strict=False))

    def _execute(
        self, block: Block, label: NDArray[np.int64], before: int, out: Predictions
    ) -> None:
        if self.priors is not None or self.half_life is not None:
            super()._execute(block, label, before, out)
            return
        self._widen(len(self._classes))
        weight = self._prior.weight
        self._gaussian.answer(block, label, before, weight, out)

    def _laid(self, x: Mapping[Any, Any]) -> Floats | None:
        """The record in the form that the kernels take without a block, or None."""
        classes = len(self._classes)
        return self._gaussian.lay(x, classes) if self._prior.weight.size == classes else None

    def compile_kernels(self) -> None:
        """Compile the kernels for blocks and for single records by running them on a throw-away
        copy."""
        trial = self.clone()
        for _ in range(2):  # the first has a new feature, so it runs as a block
            trial.learn_one({"warm": 1.0}, "warm")
        trial.predict_proba_one({"warm": 1.0})
        trial.predict_proba_many([{"warm": 1.0}])

    def _new_parts(self) -> tuple[Part, ...]:
        self._gaussian = GaussianPart(float(self.variance == "sample"), float(self.var_smoothing))
        return (self._gaussian,)

    @property
    def means(self) -> dict[Label, dict[str, float]]:
        s = self._gaussian.moments
        return self._table(s.mean / s.scale + s.anchor)

    @property
    def variances(self) -> dict[Label, dict[str, float]]:
        s = self._gaussian.moments
        ddof = float(self.variance == "sample") * s.unit[0]
        m2 = s.m2 / s.scale / s.scale
        return self._table(m2 / np.maximum(s.n - ddof, np.finfo(float).tiny))

    def _table(self, values: Floats) -> dict[Label, dict[str, float]]:
        seen = self._gaussian.moments.n > 0
        return {
            label: {f: float(values[c, j]) for j, f in enumerate(self.features) if seen[c, j]}
            for c, label in enumerate(self.classes)
        }


def _united(a: tuple[Floats, ...], b: tuple[Floats, ...]) -> tuple[Floats, Floats, Floats]:
    """Weight, mean and sum of squares of the union of two sets of records (Chan, Golub and LeVeque
    1983)."""
    n = a[0] + b[0]
    share = np.divide(b[0], n, out=np.zeros_like(n), where=n > 0)
    d = b[1] - a[1]
    theirs = np.where(b[0] > 0, b[1], 0.0)
    return n, np.where(a[0] > 0, a[1] + d * share, theirs), a[2] + b[2] + d * d * (a[0] * share)


def _one_scale(
    a: Moments, b: Moments, shift: Floats, j: NDArray[np.int64], kept: NDArray[np.int64]
) -> tuple[Moments, Moments, Floats]:
    """Both moments, and the distance of their anchors, in one scale that fits both.

    j: columns in a of b's features `kept`. A mean can be far from its anchor if the record of the
    anchor was unlearned.
    """
    size, varied, ordinary = np.abs(shift), np.zeros(j.size, bool), np.zeros(j.size, bool)
    for of, at in (a, j), (b, kept):
        means = np.vstack((of.total_mean, of.mean))[:, at]
        size = np.maximum(size, np.abs(means).max(axis=0) / of.scale[at])
        varies = (np.vstack((of.total_m2, of.m2))[:, at] > 0.0).any(axis=0)
        varied |= varies
        ordinary |= varies & (of.scale[at] == 1.0)
    near = (size < kernels.NEAR) & ~ordinary
    scale = np.where(near & (varied | (size > 0.0)), kernels.MAGNIFIED, 1.0)
    mine, theirs = a.scale.copy(), b.scale.copy()
    mine[j], theirs[kept] = scale, scale
    return rescaled(a, mine), rescaled(b, theirs), shift * scale
