"""MDLDiscretizer: bins with cut points that separate classes, by minimum description length.

Rule: a cut never moves, and a bin is named by its interval, so the counts of a bin stay valid. Cuts
are searched only at given numbers of records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, Floats
from stream.data.columns import names_in
from stream.data.parameters import whole
from stream.data.schema import Dictionary, Label, plain_label
from stream.data.state import FINITE, Rules, Saved, State, count_in
from stream.errors import StateError
from stream.learner.header import labels_of
from stream.preprocessing import _kernels as kernels
from stream.preprocessing._kernels import Histogram
from stream.preprocessing.binner import Binner, Codes, taught

__all__ = ["FIRST_SEARCH", "INTERVALS", "MAX_BINNED", "MOST_CLASSES", "MDLDiscretizer"]

MAX_BINNED = 1024  # largest number of features
MOST_BINS = 64
INTERVALS = 256  # largest number of intervals in a histogram
MOST_CLASSES = 64  # classes that are distinguished when cuts are chosen
FIRST_SEARCH = 32  # number of records with a value


class MDLDiscretizer(Binner):
    """Replace numbers by bins that separate the classes; a supervised river transformer.

    Parameters
    ----------
    n_bins
        The largest number of bins of a feature, 2 to 64.

    Attributes
    ----------
    bins : dict
        Feature to the names of its bins in order, for features that have cuts.
    overflow : int
        Number of values without a bin because their feature was beyond the bound.
    other_classes : int
        Number of records of classes that are not distinguished because there are too many.

    Raises
    ------
    SchemaError
        A parameter is out of range.
    InvalidRecordError
        By learning and transforming: an infinite number, a number beyond 1e100, or an invalid
        label. Nothing was learned.

    Notes
    -----
    Cuts follow Fayyad and Irani (1993): the cut that leaves the least class entropy is accepted if
    it gains more than its description costs, and the search continues on both sides. Cuts are
    searched when value number 32, 64, 128, … of a feature is learned, within the present bins. A
    cut never moves, and a bin is named by its interval, ``"(2.45, 4.75]"``. Before the first cut,
    or if the feature is not informative, a value becomes None, which is not evidence. If a bin is
    cut in two, its counts are not used any longer, and the learner starts with two new categories.
    Missing values, texts and truth values do not change.

    A feature is kept as a histogram of at most 256 intervals, which is exact up to 256 distinct
    values. A full histogram merges the neighbours that separate the classes least. The first 63
    classes are distinguished; all others count as one. Features beyond 1,024 get no bins. O(256) to
    learn in the worst order, O(256 · C · bins) for a search. Memory for each feature: 4 kB, plus 2
    kB for each class. It cannot be merged. Source: Fayyad and Irani, Multi-interval discretization
    of continuous-valued attributes for classification learning, IJCAI 1993; the two layers are
    those of Gama and Pinto, Discretization from data streams, SAC 2006.

    Examples
    --------
    >>> from stream.preprocessing import MDLDiscretizer
    >>> bins = MDLDiscretizer()
    >>> for i in range(32):
    ...     bins.learn_one({"size": i}, "small" if i < 10 else "large")
    >>> bins.cuts("size"), bins.transform_one({"size": 9.7})
    ([9.5], {'size': '(9.5, inf)'})
    """

    def __init__(self, n_bins: int = 64) -> None:
        self.n_bins = whole("n_bins", n_bins, 2, MOST_BINS)
        self._classes = Dictionary(MOST_CLASSES - 1)
        self._histograms: dict[str, Histogram] = {}
        self.overflow = 0

    def __repr__(self) -> str:
        return f"MDLDiscretizer(n_bins={self.n_bins})"

    @property
    def _supervised(self) -> bool:
        """For river's pipelines: learning needs the label."""
        return True

    @property
    def learns(self) -> bool:
        """Always true: the cuts are learned."""
        return True

    def room(self, features: int, classes: int) -> int:
        """Bytes of a histogram for each feature, and of its copy in a snapshot."""
        one = 8 * (INTERVALS * (2 + min(classes, MOST_CLASSES)) + MOST_BINS)
        return 2 * one * min(features, MAX_BINNED)

    @property
    def other_classes(self) -> int:
        """Number of records of classes that are not distinguished."""
        return self._classes.overflow

    @property
    def overflows(self) -> dict[str, int]:
        """How many values each bound has rejected, by the bound's name."""
        return {**super().overflows, "binned_classes": self.other_classes}

    @property
    def bins(self) -> dict[str, list[str]]:
        out = {}
        for name in sorted(self._histograms):
            ends = [-inf, *self.cuts(name), inf]
            if len(ends) > 2:
                out[name] = [_name(a, b) for a, b in pairwise(ends)]
        return out

    def cuts(self, feature: str) -> list[float]:
        """The present cut points of a feature; empty if it has none."""
        s = self._histograms.get(feature)
        return [] if s is None else s.cut[: int(s.cuts[0])].tolist()

    def learn_one(  # type: ignore[override]  # as in river's SupervisedTransformer
        self, x: Mapping[Any, Any], y: Any, w: float = 1.0
    ) -> None:
        """Learn the numbers of one record of class y."""
        self._follow_one(x, LEARN, w, [plain_label(y)])

    def classes_of(self, labels: Sequence[Label], y: Codes, op: NDArray[np.int8]) -> Codes:
        """The class of each learning step. New classes are added; those beyond the bound share a
        last one."""
        codes = np.full(y.size, -1, dtype=np.int64)
        learning = np.flatnonzero(op == LEARN)
        # Added step by step, so that counts of classes beyond the bound do not depend on the block.
        learned = [self._classes.add(labels[code]) for code in y[learning].tolist()]
        codes[learning] = [at if at >= 0 else self._classes.bound for at in learned]
        return codes

    def _admit(self, names: list[str], columns: list[Floats], op: NDArray[np.int8]) -> None:
        for _, name, values in taught(names, columns, op):
            if name in self._histograms:
                continue
            if len(self._histograms) < MAX_BINNED:
                self._histograms[name] = _empty(self.n_bins, 0)
            else:
                self.overflow += values

    def _bins_of(
        self, name: str, x: Floats, op: NDArray[np.int8], y: Codes, w: Floats
    ) -> NDArray[Any]:
        found: NDArray[Any] = np.full(x.size, None, dtype=object)
        s = self._histograms.get(name)
        if s is None:
            return found
        classes = int(y.max(initial=-1)) + 1
        if s.counts.shape[1] < classes:
            counts = np.zeros((INTERVALS, classes))
            counts[:, : s.counts.shape[1]] = s.counts
            s = self._histograms[name] = s._replace(counts=counts)
        low, high = np.empty((2, x.size))
        kernels.follow(x, op, y, w, FIRST_SEARCH, s, low, high)
        names: dict[tuple[float, float], str | None] = {}
        for i, ends in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
            if ends[0] == ends[0]:
                if ends not in names:
                    names[ends] = _name(*ends)
                found[i] = names[ends]
        return found

    def to_state(self) -> State:
        """A copy of the whole state."""
        names, classes = sorted(self._histograms), self._columns
        held = [self._histograms[name] for name in names]
        sizes = [int(s.size[0]) for s in held]
        cuts = [int(s.cuts[0]) for s in held]
        counts = np.zeros((sum(sizes), classes))
        ends = np.cumsum(sizes).tolist()
        for s, n, end in zip(held, sizes, ends, strict=True):
            counts[end - n : end, : s.counts.shape[1]] = s.counts[:n]
        none = [np.empty(0)]
        arrays: dict[str, NDArray[Any]] = {
            "low": np.concatenate(none + [s.low[:n] for s, n in zip(held, sizes, strict=True)]),
            "high": np.concatenate(none + [s.high[:n] for s, n in zip(held, sizes, strict=True)]),
            "counts": counts,
            "sizes": np.array(sizes, dtype=np.int64),
            "cut": np.concatenate(none + [s.cut[:n] for s, n in zip(held, cuts, strict=True)]),
            "cuts": np.array(cuts, dtype=np.int64),
            "learned": np.array([int(s.learned[0]) for s in held], dtype=np.int64),
        }
        header = {
            "features": names,
            "classes": list(self._classes.values),
            "other_classes": self._classes.overflow,
            "n_bins": self.n_bins,
            "overflow": self.overflow,
        }
        return State(header, arrays)

    @property
    def _columns(self) -> int:
        """Columns of the counts: one for each class, and one for all others if there are any."""
        return len(self._classes) + int(self._classes.overflow > 0)

    def load_state(self, state: State) -> Self:
        """Load what `to_state` saved.

        Raises
        ------
        StateError
            The state is damaged or has another number of bins.
        """
        header, names = state.header, names_in(state)
        bins, overflow = header.get("n_bins"), count_in(header, "overflow")
        classes = Dictionary(MOST_CLASSES - 1, labels_of(header))
        classes.overflow = count_in(header, "other_classes")
        if bins != self.n_bins:
            raise StateError(
                f"expected the state of an MDLDiscretizer of {self.n_bins} bins, got {bins}"
            )
        self._classes, self.overflow, self._histograms = classes, overflow, {}
        table = {
            "low": Saved(np.float64, ("intervals",), -FINITE),
            "high": Saved(np.float64, ("intervals",), -FINITE),
            "counts": Saved(np.float64, ("intervals", self._columns), 0.0),
            "sizes": Saved(np.int64, (len(names),), 0, INTERVALS),
            "cut": Saved(np.float64, ("cuts",), -FINITE),
            "cuts": Saved(np.int64, (len(names),), 0, bins - 1),
            "learned": Saved(np.int64, (len(names),), 0),
        }
        rules: Rules = {
            "the intervals of all features": lambda a: a["sizes"].sum() == a["low"].size,
            "the cuts of all features": lambda a: a["cuts"].sum() == a["cut"].size,
            "rising intervals of each feature": lambda a: _rises(a["low"], a["sizes"]),
            "rising cuts of each feature": lambda a: _rises(a["cut"], a["cuts"]),
        }
        low, high, counts, sizes, cut, cuts, learned = state.read(table, rules).values()
        ends, last = np.cumsum(sizes).tolist(), np.cumsum(cuts).tolist()
        for k, name in enumerate(names):
            s = _empty(bins, self._columns)
            part = slice(ends[k] - int(sizes[k]), ends[k])
            own = slice(last[k] - int(cuts[k]), last[k])
            s.low[: sizes[k]], s.high[: sizes[k]] = low[part], high[part]
            s.counts[: sizes[k]], s.cut[: cuts[k]] = counts[part], cut[own]
            s.size[0], s.cuts[0], s.learned[0] = sizes[k], cuts[k], learned[k]
            self._histograms[name] = s
        return self


def _rises(values: Floats, sizes: NDArray[np.int64]) -> bool:
    """Whether the values rise within each of the parts that have these sizes."""
    ends = np.cumsum(sizes)
    return bool((np.delete(np.diff(values), ends[(ends > 0) & (ends < values.size)] - 1) > 0).all())


def _empty(bins: int, classes: int) -> Histogram:
    low, high = np.zeros((2, INTERVALS))
    one = np.zeros((3, 1), dtype=np.int64)
    counts = np.zeros((INTERVALS, classes))
    return Histogram(low, high, counts, one[0], np.zeros(bins - 1), one[1], one[2])


def _name(low: float, high: float) -> str:
    """The name "(low, high]"; with an infinite end the bin is open above."""
    return f"({low}, {high})" if high == inf else f"({low}, {high}]"
