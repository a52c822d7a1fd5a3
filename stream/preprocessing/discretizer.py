"""Discretizer: replace numbers by the names of bins.

Rule: a bin is open below and closed above, (a, b], as in the table of the source. So an edge is in
the bin below it, and a further edge moves no value to the other side of an edge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, Floats
from stream.data.columns import names_in
from stream.data.parameters import mapping, number, one_of, shown, whole
from stream.data.state import Rules, Saved, State, count_in
from stream.errors import SchemaError, StateError
from stream.preprocessing.binner import Binner, Codes, taught
from stream.quantiles.sketch import ENTRIES, QuantileSketch, Span

__all__ = ["MAX_FEATURES", "Discretizer"]

MAX_FEATURES = 4096
MOST_BINS = 64  # a quarter of the entries of a sketch


class Discretizer(Binner):
    """Replace numbers by bins with fixed or learned edges; a river transformer.

    Parameters
    ----------
    edges
        Feature to rising edges e₀ < e₁ < … < eₖ. Its bins are ``"(-inf, e₀]"``, ``"(e₀, e₁]"``, …
        and ``"(eₖ, inf)"``, so the edges are those between bins, without the ends of the first and
        last one. Other features do not change, and nothing is learned. None: every number gets
        learned bins.
    strategy
        How bins are learned: ``"quantile"`` makes bins of equal weight, ``"uniform"`` makes bins of
        equal width between the lowest and the highest value. Learned bins are named by position,
        ``"0"``, ``"1"``, …, because their edges change with the stream.
    n_bins
        Number of learned bins, 2 to 64.

    Attributes
    ----------
    bins : dict
        Feature to the names of its bins in order.
    overflow : int
        Number of values without a bin because their feature was beyond the bound.

    Raises
    ------
    SchemaError
        Edges do not rise, or a parameter is out of range.
    InvalidRecordError
        By learning and transforming: an infinite number or a number beyond 1e100. Nothing was
        learned.

    Notes
    -----
    Missing values, texts and truth values do not change. A number becomes None, which is not
    evidence, while its feature has no bins. Features beyond 4,096 get no bins. O(log edges) for
    each value; with quantiles O(256), see `QuantileSketch`. One outlier permanently makes most bins
    of equal width empty; it hardly affects quantiles. Source: Zaki and Meira, Data Mining and
    Machine Learning, Table 18.1.

    Examples
    --------
    >>> from stream.preprocessing import Discretizer
    >>> table = Discretizer({"length": [5.2, 6.1, 7.0]})
    >>> table.transform_one({"length": 5.2, "colour": "blue"})
    {'length': '(-inf, 5.2]', 'colour': 'blue'}
    >>> table.transform_one({"length": 8.0})
    {'length': '(7.0, inf)'}
    >>> thirds = Discretizer(n_bins=3)
    >>> for x in range(1, 10):
    ...     thirds.learn_one({"length": x})
    >>> [thirds.transform_one({"length": x})["length"] for x in (3, 4, 100)]
    ['0', '1', '2']
    """

    def __init__(
        self,
        edges: Mapping[str, Sequence[float]] | None = None,
        strategy: Literal["quantile", "uniform"] = "quantile",
        n_bins: int = 8,
    ) -> None:
        self.edges = None if edges is None else mapping("edges", edges, "feature to its edges")
        self.strategy = one_of("strategy", strategy, ("quantile", "uniform"))
        self.n_bins = whole("n_bins", n_bins, 2, MOST_BINS)
        self._fixed = {str(f): _checked(f, found) for f, found in (self.edges or {}).items()}
        self._names = {f: _names_of(found) for f, found in self._fixed.items()}
        self._sketches: dict[str, QuantileSketch | Span] = {}
        self.overflow = 0

    def __repr__(self) -> str:
        if self.edges is not None:
            return f"Discretizer({dict(self.edges)!r})"
        return f"Discretizer(strategy={self.strategy!r}, n_bins={self.n_bins})"

    @property
    def learns(self) -> bool:
        """Whether bins are learned; fixed edges are not."""
        return self.edges is None

    def room(self, features: int, classes: int) -> int:
        """Bytes of a sketch for each feature, and of its copy in a snapshot."""
        return 2 * 32 * ENTRIES * min(features, MAX_FEATURES)

    @property
    def bins(self) -> dict[str, list[str]]:
        fixed = {f: list(found) for f, found in self._names.items()}
        return fixed | {f: [*map(str, range(self.n_bins))] for f in sorted(self._sketches)}

    def cuts(self, feature: str) -> list[float]:
        """The present cut points of a feature; empty if it has none."""
        if feature in self._fixed:
            return list(self._fixed[feature])
        sketch = self._sketches.get(feature)
        return sketch.cuts(self.n_bins) if sketch is not None else []

    def learn_one(self, x: Mapping[Any, Any], w: float = 1.0) -> None:
        """Learn the numbers of one record; with fixed edges nothing."""
        self._follow_one(x, LEARN, w)

    def _bins(self, name: str) -> bool:
        return self.learns or name in self._fixed

    def _bins_of(
        self, name: str, x: Floats, op: NDArray[np.int8], y: Codes, w: Floats
    ) -> NDArray[Any]:
        if name in self._fixed:
            edges, bins = self._fixed[name], self._names[name]
            code = np.searchsorted(edges, x, side="left")
            code[np.isnan(x)] = -1
        else:
            bins = tuple(str(k) for k in range(self.n_bins))
            sketch = self._sketches.get(name)
            if sketch is None:
                return np.full(x.size, None, dtype=object)
            code = sketch.follow(x, op, w, self.n_bins)
        found: NDArray[Any] = np.array([*bins, None], dtype=object)[code]
        return found

    def _admit(self, names: list[str], columns: list[Floats], op: NDArray[np.int8]) -> None:
        for _, name, values in taught(names, columns, op):
            if name in self._sketches:
                continue
            if len(self._sketches) < MAX_FEATURES:
                self._sketches[name] = QuantileSketch() if self.strategy == "quantile" else Span()
            else:
                self.overflow += values

    def merge(self, other: Discretizer) -> Self:
        """Learn what `other` has learned.

        Raises
        ------
        SchemaError
            `other` has other bins. Nothing was merged.
        """
        if type(other) is not type(self) or other._get_params() != self._get_params():
            raise SchemaError(f"expected another {self!r} to merge with, got {other!r}")
        for name in sorted(other._sketches):
            if name not in self._sketches and len(self._sketches) >= MAX_FEATURES:
                self.overflow += 1
                continue
            mine = self._sketches.setdefault(name, type(other._sketches[name])())
            mine.merge(other._sketches[name])  # type: ignore[arg-type]
        return self

    def to_state(self) -> State:
        """A copy of the whole state."""
        names = sorted(self._sketches)
        held = [self._sketches[name].arrays() for name in names]
        arrays: dict[str, NDArray[Any]] = {
            key: np.concatenate([np.empty(0), *(part[key] for part in held)])
            for key in self._kind.columns
        }
        arrays["sizes"] = np.array([part["value"].size for part in held], dtype=np.int64)
        header = {"features": names, "n_bins": self.n_bins, "overflow": self.overflow}
        return State(header, arrays)

    def load_state(self, state: State) -> Self:
        """Load what `to_state` saved.

        Raises
        ------
        StateError
            The state is damaged or has bins of another kind.
        """
        names, bins = names_in(state), state.header.get("n_bins")
        overflow = count_in(state.header, "overflow")
        if bins != self.n_bins:
            raise StateError(
                f"expected the state of a Discretizer of {self.n_bins} bins, got {bins}"
            )
        table = {"sizes": Saved(np.int64, (len(names),), 0, ENTRIES)}
        table |= dict.fromkeys(self._kind.columns, Saved(np.float64, ("entries",)))
        rules: Rules = {
            "the entries of all features": lambda a: a["sizes"].sum() == a["value"].size
        }
        columns = state.read(table, rules)
        sizes = columns.pop("sizes")
        ends = np.cumsum(sizes)
        self._sketches, self.overflow = {}, overflow
        for name, start, stop in zip(names, (ends - sizes).tolist(), ends.tolist(), strict=True):
            sketch = self._kind()
            sketch.load({key: column[start:stop] for key, column in columns.items()})
            self._sketches[name] = sketch
        return self

    @property
    def _kind(self) -> type[QuantileSketch] | type[Span]:
        return QuantileSketch if self.strategy == "quantile" else Span


def _checked(feature: str, edges: Any) -> tuple[float, ...]:
    listed = edges.tolist() if isinstance(edges, np.ndarray) else edges
    if not isinstance(listed, list | tuple) or not listed:
        raise SchemaError(
            f"edges[{feature!r}] must be a list of rising numbers, got {shown(edges)}"
        )
    found = tuple(number(f"edges[{feature!r}]", edge) + 0.0 for edge in listed)
    if any(a >= b for a, b in pairwise(found)):
        raise SchemaError(f"edges[{feature!r}] must rise, got {list(found)}")
    return found


def _names_of(edges: tuple[float, ...]) -> tuple[str, ...]:
    """The names of the bins in order, one more than edges."""
    inside = (f"({a}, {b}]" for a, b in pairwise(edges))
    return f"(-inf, {edges[0]}]", *inside, f"({edges[-1]}, inf)"
