"""Bins of numbers for LogisticRegression, with about the same weight in each. A value with more
weight has a bin of its own, and the others share the rest.

Rule: a number has a summary of its values, as a `QuantileSketch` has. While a number has little
weight, the summary learns each value. Later it learns one value for each 1/128 of the weight, with
all weight since the last one, and a quarter of these values move the bins. So bins cost little, and
the summary is that of a sample of some 250 values, or of all if they are fewer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data.columns import MAX_FEATURES, grown, padded
from stream.data.state import FINITE, Rules, Saved, State
from stream.errors import StateError
from stream.linear._kernels import crossed as kernels
from stream.linear._kernels.crossed import Bins

__all__ = ["Bins", "empty", "exported", "merged", "restored", "room", "widened"]

ENTRIES = 128  # of a summary; a quantile of a million values is then wrong by 2.4 %
ROUNDED = 1e-9
LARGEST = 1e290  # of a weight in a state; never reached
COLUMNS = ("value", "weight", "slack", "own")
BY_NUMBER = ("n", "waiting", "turn")


def empty(bins: int) -> Bins:
    """Those of no number; `bins` of each, or 0 for none."""
    out: dict[str, NDArray[np.float64]]
    out = {name: np.zeros((0, ENTRIES if bins else 0)) for name in COLUMNS}
    out |= {name: np.zeros(0) for name in BY_NUMBER}
    cut = np.zeros((0, max(bins - 1, 0)))
    return Bins(size=np.zeros(0, dtype=np.int64), cut=cut, **out)


def room(bins: int) -> int:
    """Bytes of a number."""
    return 8 * (len(COLUMNS) * ENTRIES + len(BY_NUMBER) + bins) if bins else 0


def widened(b: Bins, numbers: int) -> Bins:
    """`b` with room for that many numbers. Without bins there is nothing to keep."""
    rows = grown(numbers, b.n.size, MAX_FEATURES) if b.value.shape[1] else 0
    return b if rows == b.n.size else Bins(*(padded(a, (rows, *a.shape[1:])) for a in b))


def merged(mine: Bins, theirs: Bins, numbers: NDArray[np.int64], fade: float) -> None:
    """Add `theirs` to `mine`, which has room for it.

    numbers: for each number of `theirs`, its place in `mine`; -1 if it has none. fade: what remains
    of the weights of `mine`.
    """
    for name in ("weight", "slack", "own", "n", "waiting"):
        getattr(mine, name)[:] *= fade
    for k in range(min(numbers.size, theirs.n.size)):
        if numbers[k] >= 0:
            kernels.merge_number(mine, int(numbers[k]), theirs, k)


def exported(b: Bins, numbers: int) -> dict[str, NDArray[Any]]:
    """The arrays of a state."""
    size = b.size[:numbers]
    used = np.arange(b.value.shape[1]) < size[:, None]
    out: dict[str, NDArray[Any]] = {name: getattr(b, name)[:numbers] for name in BY_NUMBER}
    out |= {name: getattr(b, name)[:numbers][used] for name in COLUMNS}
    out |= {"size": size, "cut": b.cut[:numbers]}
    return {f"binned_{name}": a for name, a in out.items()}


def restored(state: State, bins: int, numbers: int) -> Bins:
    """The bins of a state made by `exported`.

    Raises
    ------
    StateError
        The state is damaged.
    """
    cuts = Saved(np.float64, (numbers, max(bins - 1, 0)), -FINITE)
    table = {"binned_size": Saved(np.int64, (numbers,), 0, ENTRIES), "binned_cut": cuts}
    table |= {f"binned_{n}": Saved(np.float64, (numbers,), 0.0, LARGEST) for n in BY_NUMBER}
    table["binned_value"] = Saved(np.float64, ("entries",), -FINITE)
    table |= {f"binned_{n}": Saved(np.float64, ("entries",), 0.0, LARGEST) for n in COLUMNS[1:]}
    rules: Rules = {
        "the entries of all numbers": lambda a: a["binned_size"].sum() == a["binned_value"].size,
        "weights of values within the weights of entries": lambda a: bool(
            (a["binned_own"] <= a["binned_weight"]).all()
        ),
    }
    found = {name.removeprefix("binned_"): a for name, a in state.read(table, rules).items()}
    out = widened(empty(bins), numbers)
    used = np.arange(out.value.shape[1]) < found["size"][:, None]
    for name in COLUMNS:
        getattr(out, name)[used] = found.pop(name)
    if (out.slack.max(axis=1, initial=0.0) > out.weight.sum(axis=1) * (1.0 + ROUNDED)).any():
        raise StateError("expected summaries that are unsure of at most their weight, got others")
    return out._replace(**found)
