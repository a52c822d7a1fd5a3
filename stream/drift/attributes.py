"""Save and load river's detectors by their attributes, without pickle.

Rule: what is a number, a queue of numbers or a generator's state is read; a constructor sets the
rest. An unknown kind of attribute is an error, because a detector that continues from half of its
state would raise other alarms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data.state import State
from stream.errors import StateError

__all__ = ["read", "write"]


def read(model: Any) -> State:
    """All numbers in a detector of river.

    Examples
    --------
    >>> from river.drift.binary import DDM
    >>> ddm, other = DDM(), DDM()
    >>> for x in (0, 1, 1):
    ...     ddm.update(x)
    >>> write(other, read(ddm))
    >>> other._p.n, other._p.get() == ddm._p.get()
    (3.0, True)
    """
    header: dict[str, Any] = {}
    arrays: dict[str, NDArray[Any]] = {}
    for path, owner, name in _leaves(model, ""):
        value = getattr(owner, name)
        if _is_mean(value):
            header[path] = value.get() if owner._is_init else None
        elif isinstance(value, deque):
            arrays[path] = np.array(list(value), dtype=np.float64)
        elif hasattr(value, "getstate"):
            arrays[path] = np.array(value.getstate()[1], dtype=np.int64)
        elif isinstance(value, float):
            header[path] = float(value) if isfinite(value) else str(float(value))
        else:
            header[path] = value
    return State(header, arrays)


def write(model: Any, state: State) -> None:
    """Set the numbers of a new detector with the same parameters.

    Raises
    ------
    StateError
        The state is damaged or belongs to another detector.
    """
    paths = set()
    for path, owner, name in list(_leaves(model, "")):
        paths.add(path)
        if path not in state.header and path not in state.arrays:
            raise StateError(f"the state of this {type(model).__name__} has no {path}")
        mine, theirs = getattr(owner, name), state.header.get(path)
        if _is_mean(mine):
            if theirs is not None:
                mine.update(theirs)  # the first value becomes the mean
        elif isinstance(mine, deque):
            mine.clear()
            mine.extend(state.array(path, np.float64, 1).tolist())
        elif hasattr(mine, "getstate"):
            version, _, gauss = mine.getstate()
            mine.setstate((version, tuple(state.array(path, np.int64, 1).tolist()), gauss))
        else:
            setattr(owner, name, float(theirs) if isinstance(theirs, str) else theirs)
    if more := (state.header.keys() | state.arrays.keys()) - paths:
        raise StateError(f"{type(model).__name__} has no {sorted(more)[0]}")


def _leaves(owner: Any, prefix: str) -> Iterator[tuple[str, Any, str]]:
    """Path, owner and name of each attribute that has numbers."""
    for name, value in vars(owner).items():
        path = prefix + name
        if isinstance(value, str) or callable(value):
            continue  # set by the constructor
        leaf = value is None or isinstance(value, bool | int | float | deque)
        if leaf or hasattr(value, "getstate") or _is_mean(value):
            yield path, owner, name
        elif hasattr(value, "__dict__") and type(value).__module__.startswith("river."):
            yield from _leaves(value, path + ".")
        else:
            raise StateError(f"cannot save {path}, a {type(value).__name__}")


def _is_mean(value: Any) -> bool:
    """Whether it is river's EWMean, which is opaque and has only its mean."""
    return hasattr(value, "_ewmean")
