"""The detectors by name, with checks of their parameters; river and kernels are not imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple

from stream.data.parameters import flag, mapping, number, one_of, shown, whole
from stream.errors import SchemaError

__all__ = ["DETECTORS", "checked"]

LONGEST = 10_000  # largest window of a detector, in values

share = partial(number, low=1e-300, high=1 - 1e-9)
count = partial(whole, low=1, high=2**31 - 1)
window = partial(whole, low=1, high=LONGEST)
positive = partial(number, low=0.0, above=True)

Check = Callable[[str, Any], Any]


class Kind(NamedTuple):
    """A kind of detector: whether it accepts only errors, and the checks of its parameters."""

    binary: bool
    parameters: Mapping[str, Check]


_HDDM: Mapping[str, Check] = {
    "drift_confidence": share,
    "warning_confidence": share,
    "two_sided_test": flag,
}
DETECTORS: Mapping[str, Kind] = {
    "ADWIN": Kind(
        False,
        {
            "delta": share,
            "clock": count,
            "max_buckets": partial(whole, low=2, high=1000),
            "min_window_length": count,
            "grace_period": count,
        },
    ),
    "PageHinkley": Kind(
        False,
        {
            "min_instances": count,
            "delta": partial(number, low=0.0),
            "threshold": positive,
            "alpha": partial(number, low=0.0, high=1.0, above=True),
            "mode": partial(one_of, known=("up", "down", "both")),
        },
    ),
    "KSWIN": Kind(
        False,
        {
            "alpha": share,
            "window_size": window,
            "stat_size": window,
            "seed": partial(whole, low=0, high=2**32 - 1),
        },
    ),
    "DDM": Kind(
        True,
        {"warm_start": count, "warning_threshold": positive, "drift_threshold": positive},
    ),
    "EDDM": Kind(
        True,
        {"warm_start": count, "alpha": share, "beta": share},
    ),
    "HDDM_A": Kind(True, _HDDM),
    "HDDM_W": Kind(True, {**_HDDM, "lambda_val": share}),
    "FHDDM": Kind(
        True,
        {"sliding_window_size": window, "confidence_level": share, "short_window_size": window},
    ),
}


def checked(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a detector, each checked alone.

    Parameters
    ----------
    name
        One of `DETECTORS`.
    parameters
        By their names in river.

    Raises
    ------
    SchemaError
        The detector or a parameter does not exist, or a parameter is out of range.

    Examples
    --------
    >>> checked("ADWIN", {"delta": 0.01})
    {'delta': 0.01}
    """
    if not isinstance(name, str) or name not in DETECTORS:
        near = get_close_matches(name, DETECTORS, n=1) if isinstance(name, str) else []
        hint = f"; did you mean {near[0]!r}?" if near else ""
        expected = f"expected a detector of {', '.join(DETECTORS)}"
        raise SchemaError(f"{expected}, got {shown(name)}{hint}")
    known = DETECTORS[name].parameters
    mapping("parameters", parameters, "name to value")
    for key in sorted(parameters.keys() - known.keys(), key=str):
        near = get_close_matches(str(key), known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
        raise SchemaError(f"{name} has no parameter {shown(key)}; {hint}")
    return {key: known[key](key, value) for key, value in parameters.items()}
