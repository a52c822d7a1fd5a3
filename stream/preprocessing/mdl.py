"""MDLDiscretizer: bins whose cut points the classes choose, by minimum description length.

Rule: a cut, once made, stays, and a bin is named by its interval; so what a learner counted in a
bin stays true of it. Cuts are searched at given numbers of records only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, Floats
from stream.data.parameters import whole
from stream.data.schema import Dictionary, Label, plain_label
from stream.data.state import State
from stream.errors import InvalidRecordError, StateError
from stream.preprocessing._kernels import histogram as kernels
from stream.preprocessing._kernels.histogram import Histogram
from stream.preprocessing.binner import Binner, Codes, taught

__all__ = ["FIRST_SEARCH", "INTERVALS", "MAX_BINNED", "MOST_CLASSES", "MDLDiscretizer"]

MAX_BINNED = 1024  # features
MOST_BINS = 64
INTERVALS = 256  # of a feature's histogram
MOST_CLASSES = 64  # told apart in choosing cuts
FIRST_SEARCH = 32  # records with a value


class MDLDiscretizer(Binner):
    """Numbers to bins that tell the classes apart; a supervised river transformer.

    Parameters
    ----------
    n_bins
        How many bins a feature has at most, 2 to 64.

    Attributes
    ----------
    bins : dict
        Feature to the names of its bins in order, of the features that have cuts.
    overflow : int
        Values that got no bin because their feature was one too many.
    other_classes : int
        Records of classes that are not told apart because there are too many.

    Raises
    ------
    SchemaError
        A parameter out of its range.
    InvalidRecordError
        From learning and transforming: an infinity, a number beyond 1e100, or a label that is
        none; nothing was learned.

    Notes
    -----
    Cuts are those of Fayyad and Irani (1993): the one that leaves the least class entropy, accepted
    where it gains more than it costs to describe, and again on both sides. They are searched when
    a feature's value number 32, 64, 128, … is learned, within the bins there are: a cut stays, and
    a bin is named by its interval, ``"(2.45, 4.75]"``. Before the first cut, or where the feature
    says nothing about the class, a value becomes None: no evidence. A bin that is cut in two leaves
    its counts behind: the learner after it begins with the two new ones. A missing value, a text
    and a truth value pass through.

    What is kept of a feature is a histogram of at most 256 intervals, exact up to 256 distinct
    values; a full one merges those neighbours that tell the classes apart least. The first 63
    classes are told apart, all others count as one. Of more than 1,024 features the others get no
    bin. O(256) to learn in the worst order, O(256 · C · bins) at a search; 4 kB and 2 kB a class
    each feature. It cannot be merged. Source: Fayyad and Irani, Multi-interval discretization of
    continuous-valued attributes for classification learning, IJCAI 1993; the two layers are those
    of Gama and Pinto, Discretization from data streams, SAC 2006.

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
        """To river's pipelines: learning needs the label."""
        return True

    @property
    def learns(self) -> bool:
        """Always: the cuts are learned."""
        return True

    def room(self, features: int, classes: int) -> int:
        """Of a histogram each, and its copy in a snapshot."""
        one = 8 * (INTERVALS * (2 + min(classes, MOST_CLASSES)) + MOST_BINS)
        return 2 * one * min(features, MAX_BINNED)

    @property
    def other_classes(self) -> int:
        """Records of classes that are not told apart."""
        return self._classes.overflow

    @property
    def overflows(self) -> dict[str, int]:
        """What was refused, by the bound's name."""
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
        """What separates the bins of a feature now; empty where none are known."""
        s = self._histograms.get(feature)
        return [] if s is None else s.cut[: int(s.cuts[0])].tolist()

    def learn_one(  # type: ignore[override]  # as of river's SupervisedTransformer
        self, x: Mapping[Any, Any], y: Any, w: float = 1.0
    ) -> None:
        """Learn the numbers of one record of class y."""
        self._follow_one(x, LEARN, w, [plain_label(y)])

    def classes_of(self, labels: Sequence[Label], y: Codes, op: NDArray[np.int8]) -> Codes:
        """The class of each learning step; a new one is learned. Beyond the bound: a last one."""
        codes = np.full(y.size, -1, dtype=np.int64)
        learning = np.flatnonzero(op == LEARN)
        # Added step by step: one beyond the bound is counted once a record, whatever the block.
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
        """The whole state, as a copy."""
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
        """Of the counts: a class each, and one for all others once there are such."""
        return len(self._classes) + int(self._classes.overflow > 0)

    def load_state(self, state: State) -> Self:
        """Become the discretizer that `to_state` saved.

        Raises
        ------
        StateError
            It is damaged, or of another number of bins.
        """
        try:
            header = state.header
            names, bins = list(header["features"]), header["n_bins"]
            classes = Dictionary(MOST_CLASSES - 1, [plain_label(y) for y in header["classes"]])
            classes.overflow = int(header["other_classes"])
            overflow = int(header["overflow"])
            if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
                raise ValueError("names of features that are none, or twice the same")
        except (KeyError, TypeError, ValueError, InvalidRecordError) as error:
            raise StateError(f"the state of this MDLDiscretizer is damaged: {error!r}") from None
        if bins != self.n_bins:
            raise StateError(
                f"expected the state of an MDLDiscretizer of {self.n_bins} bins, got {bins}"
            )
        self._classes, self.overflow, self._histograms = classes, overflow, {}
        low, high, cut = (state.array(key, np.float64, 1) for key in ("low", "high", "cut"))
        sizes, cuts = state.array("sizes", np.int64, 1), state.array("cuts", np.int64, 1)
        counts, learned = state.array("counts", np.float64, 2), state.array("learned", np.int64, 1)
        d, n = len(names), low.size
        shapes = (sizes.size, cuts.size, learned.size, int(sizes.sum()), high.size, counts.shape)
        if shapes != (d, d, d, n, n, (n, self._columns)) or int(cuts.sum()) != cut.size:
            raise StateError(f"expected the histograms of {d} features, got others")
        within = ((sizes >= 0) & (sizes <= INTERVALS) & (cuts >= 0) & (cuts < bins)).all()
        sound = all(np.isfinite(a).all() for a in (low, high, counts, cut))
        if not within or not sound or (learned < 0).any() or (counts < 0).any():
            raise StateError("expected finite intervals, weights and cuts within bounds")
        ends, last = np.cumsum(sizes).tolist(), np.cumsum(cuts).tolist()
        for k, name in enumerate(names):
            s = _empty(bins, self._columns)
            part = slice(ends[k] - int(sizes[k]), ends[k])
            own = slice(last[k] - int(cuts[k]), last[k])
            s.low[: sizes[k]], s.high[: sizes[k]] = low[part], high[part]
            s.counts[: sizes[k]], s.cut[: cuts[k]] = counts[part], cut[own]
            s.size[0], s.cuts[0], s.learned[0] = sizes[k], cuts[k], learned[k]
            if not (np.diff(low[part]) > 0).all() or not (np.diff(cut[own]) > 0).all():
                raise StateError(f"expected intervals and cuts of {name!r} that rise, got others")
            self._histograms[name] = s
        return self


def _empty(bins: int, classes: int) -> Histogram:
    low, high = np.zeros((2, INTERVALS))
    one = np.zeros((3, 1), dtype=np.int64)
    counts = np.zeros((INTERVALS, classes))
    return Histogram(low, high, counts, one[0], np.zeros(bins - 1), one[1], one[2])


def _name(low: float, high: float) -> str:
    """(low, high], open above at infinity."""
    return f"({low}, {high})" if high == inf else f"({low}, {high}]"
