"""Detectors by name with checked parameters: those of river, and our own ADWIN; and their states.

river.drift loads scipy, so it is imported only when one of its detectors is made. Its detectors are
saved by their attributes, without pickle. What is a number, a queue of numbers or a generator's
state is read; a constructor sets the rest. An unknown kind of attribute is an error, because a
detector that continues from half of its state would raise other alarms.

ADWIN: a window that grows while its mean is stable, and is cut where the mean has changed.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from river.base import DriftDetector

from stream.data.block import Floats
from stream.data.parameters import number, whole
from stream.data.state import Rules, Saved, State
from stream.drift import _kernels as kernels
from stream.drift._kernels import AFTER, BEFORE, ROWS, TOTAL, VARIANCE, WIDTH, BucketWindow
from stream.drift.parameters import checked
from stream.errors import SchemaError, StateError

__all__ = ["ADWIN", "RiverDetector", "build", "compile_detectors", "read", "write"]

MAX_ROWS = 64  # a bucket of the last row has 2**63 values


class ADWIN(DriftDetector):
    """Adaptive windowing: drift is detected if the means of two parts of the window differ.

    Parameters
    ----------
    delta
        Confidence: about the probability of a false alarm at one check of the window. Between 0 and
        1.
    clock
        The window is checked every `clock` values, so an alarm is late by less than that.
    max_buckets
        Number of buckets of each size, at least 2. More buckets locate a change more exactly.
    min_window_length
        The least number of values on either side of a cut.
    grace_period
        The window is not checked before it has more values than this.

    Attributes
    ----------
    width, total, variance : float
        Values in the window, their sum, and the sum of their squared deviations.
    estimation : float
        Their mean; 0 if there are no values.
    before, after : float
        At an alarm: the means of the removed values and of the rest.

    Notes
    -----
    Alarms and sums are equal to those of river's `drift.ADWIN`, bit for bit. River's state can only
    be saved by pickle; this one is a `State`. As in river, the window restarts after an alarm. The
    bound assumes values between 0 and 1. Larger values do no harm. Changes of much smaller values
    are not detected.

    O(log width) memory, at most 12 KiB. Amortised O(log width / clock) for each value, 0.2 µs.
    Source: Bifet and Gavaldà 2007, "Learning from time-changing data with adaptive windowing"
    (ADWIN2), with the variance in the bound.

    Examples
    --------
    >>> from random import Random
    >>> rng = Random(12345)
    >>> adwin = ADWIN()
    >>> for i, x in enumerate(rng.choices([0, 1], k=1000) + rng.choices(range(4, 8), k=1000)):
    ...     adwin.update(x)
    ...     if adwin.drift_detected:
    ...         print(f"at {i}: from {adwin.before:.2f} to {adwin.after:.2f}")
    at 1023: from 0.49 to 4.50
    """

    def __init__(
        self,
        delta: float = 0.002,
        clock: int = 32,
        max_buckets: int = 5,
        min_window_length: int = 5,
        grace_period: int = 10,
    ) -> None:
        super().__init__()
        self.delta = number("delta", delta, 1e-300, 1 - 1e-9)
        self.clock = whole("clock", clock, 1, 2**31 - 1)
        self.max_buckets = whole("max_buckets", max_buckets, 2, 1000)
        self.min_window_length = whole("min_window_length", min_window_length, 1, 2**31 - 1)
        self.grace_period = whole("grace_period", grace_period, 1, 2**31 - 1)
        self._reset()

    def _reset(self) -> None:
        super()._reset()
        room = (MAX_ROWS, self.max_buckets + 1)
        used, clock = np.zeros(MAX_ROWS, dtype=np.int64), np.array([1, 0], dtype=np.int64)
        self._window = BucketWindow(np.zeros(room), np.zeros(room), used, np.zeros(5), clock)

    def update(self, x: float) -> None:
        """Add one finite value."""
        self.update_many(np.array([number("x", x)]))

    def update_many(self, values: Floats) -> int:
        """Add values up to the first alarm.

        Returns
        -------
        int
            Index of the value that raised the alarm; later values were not added. -1: no alarm.
        """
        if self.drift_detected:
            self._reset()
        at = kernels.adwin(
            values, self.delta, self.clock, self.min_window_length, self.grace_period, self._window
        )
        self._drift_detected = at >= 0
        return int(at)

    @property
    def width(self) -> float:
        return float(self._window.sums[WIDTH])

    @property
    def total(self) -> float:
        return float(self._window.sums[TOTAL])

    @property
    def variance(self) -> float:
        return float(self._window.sums[VARIANCE])

    @property
    def estimation(self) -> float:
        return self.total / self.width if self.width else 0.0

    @property
    def before(self) -> float:
        return float(self._window.sums[BEFORE])

    @property
    def after(self) -> float:
        return float(self._window.sums[AFTER])

    def to_state(self) -> State:
        """A copy of the window."""
        w = self._window
        arrays = {name: array[: w.clock[ROWS]] for name, array in w._asdict().items()}
        arrays |= {"sums": w.sums, "clock": w.clock}
        return State({"drift_detected": self._drift_detected}, arrays).copy()

    def load_state(self, state: State) -> None:
        """Load what `to_state` saved.

        Raises
        ------
        StateError
            The state is damaged or has another `max_buckets`.
        """
        self._reset()
        w = self._window
        buckets = Saved(np.float64, ("rows", self.max_buckets + 1))
        table = {
            "total": buckets,
            "variance": buckets,
            "used": Saved(np.int64, ("rows",), 0, self.max_buckets),
            "sums": Saved(np.float64, w.sums.shape),
            "clock": Saved(np.int64, w.clock.shape),
        }
        rules: Rules = {
            "the rows of a window": lambda a: 1 <= a["clock"][ROWS] == len(a["used"]) <= MAX_ROWS
        }
        for name, theirs in state.read(table, rules).items():
            getattr(w, name)[: len(theirs)] = theirs
        self._drift_detected = bool(state.header["drift_detected"])


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


RECENT = 1 / 32  # weight of the newest value in the mean `after`


class Detector(Protocol):
    """The methods of a detector that a monitor uses."""

    @property
    def before(self) -> float:
        """At an alarm: the mean before the change."""
        ...

    @property
    def after(self) -> float:
        """At an alarm: the mean after the change."""
        ...

    def update_many(self, values: Floats) -> int:
        """Add values up to the first alarm. Returns the index of the value that raised it, or
        -1."""
        ...

    def to_state(self) -> State:
        """A copy of the whole state."""
        ...

    def load_state(self, state: State) -> None:
        """Load what `to_state` saved. StateError: the state is damaged."""
        ...


class RiverDetector:
    """A detector of river that can be saved and reports the mean before and after a change.

    Parameters
    ----------
    model
        The new detector.
    falls
        Whether it detects a decrease, as river's FHDDM does (contrary to its documentation). It
        then gets 1 - x.

    Attributes
    ----------
    before, after : float
        The mean since the last alarm, and a fading mean of about the last 32 values.

    Notes
    -----
    About 0.5 µs for each value; HDDM_A 4 µs, HDDM_W 6 µs.

    Examples
    --------
    >>> import numpy as np
    >>> from river.drift.binary import DDM
    >>> ddm = RiverDetector(DDM())
    >>> ddm.update_many(np.array([0.0, 0.0, 0.0, 1.0] * 50 + [1.0] * 50))
    216
    >>> round(ddm.before, 2), round(ddm.after, 2)
    (0.31, 0.57)
    """

    def __init__(self, model: Any, falls: bool = False) -> None:
        self._model = model
        self._falls = falls
        self._n = 0
        self.before = self.after = 0.0

    def update_many(self, values: Floats) -> int:
        """Add values up to the first alarm. Returns the index of the value that raised it, or
        -1."""
        model, take, falls = self._model, self._take, self._falls
        if model.drift_detected:
            self._n, self.before, self.after = 0, 0.0, 0.0
        for i, x in enumerate(values.tolist()):
            take(1.0 - x if falls else x)
            self._n += 1
            self.before += (x - self.before) / self._n
            self.after += (x - self.after) * max(1.0 / self._n, RECENT)
            if model.drift_detected:
                return i
        return -1

    def _take(self, x: float) -> None:
        self._model.update(x)

    def to_state(self) -> State:
        """A copy of the whole state."""
        own = State({"n": self._n, "before": self.before, "after": self.after})
        return State.join({"own": own, "model": read(self._model)})

    def load_state(self, state: State) -> None:
        """Become what `to_state` saved.

        Raises
        ------
        StateError
            The state is damaged or belongs to another detector.
        """
        own = state.nested("own").header
        self._n, self.before, self.after = own["n"], own["before"], own["after"]
        write(self._model, state.nested("model"))


class Kswin(RiverDetector):
    """River's KSWIN, with cached p-values.

    Parameters
    ----------
    model
        The new detector.

    Notes
    -----
    Alarms are equal to river's. The p-value depends only on the statistic, and two samples of n
    values have n + 1 possible statistics. About 15 µs for each value instead of 250.

    Examples
    --------
    >>> import numpy as np
    >>> from river.drift import KSWIN
    >>> kswin = Kswin(KSWIN(alpha=0.0001, seed=42))
    >>> kswin.update_many(np.repeat([0.5, 0.6], 200) + np.linspace(0, 1, 400) % 0.1)
    206
    """

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._known: dict[int, tuple[float, float]] = {}  # at most n + 1

    def _take(self, x: float) -> None:
        model, n, size = self._model, self._model.stat_size, self._model.window_size
        if model.drift_detected:
            model._reset()
        model.n += 1
        model.window.append(x)
        model._drift_detected = False
        if len(model.window) < size:
            return
        window = np.array(model.window, dtype=np.float64)
        before = window[model._rng.sample(range(size - n), n)]
        apart = kernels.farthest(np.sort(before), np.sort(window[size - n :]))
        if apart not in self._known:
            self._known[apart] = _tested(before, window[size - n :])
        statistic, model.p_value = self._known[apart]
        if model.p_value <= model.alpha and statistic > 0.1:
            model._drift_detected = True
            model.window = deque(window[size - n :].tolist(), maxlen=size)


def _tested(before: Floats, after: Floats) -> tuple[float, float]:
    """The statistic of Kolmogorov and Smirnov and its p-value."""
    from scipy.stats import ks_2samp

    with warnings.catch_warnings():  # scipy warns of large samples
        warnings.simplefilter("ignore", category=RuntimeWarning)
        statistic, p = ks_2samp(before, after, method="auto")
    return float(statistic), float(p)


def build(name: str, parameters: Mapping[str, Any]) -> Detector:
    """A new detector.

    Parameters
    ----------
    name
        One of `DETECTORS`.
    parameters
        By their names in river, with river's defaults. The default of KSWIN's `seed` is 42.

    Raises
    ------
    SchemaError
        The detector or a parameter does not exist, or a parameter is out of range.

    Examples
    --------
    >>> build("KSWIN", {"alfa": 0.1})
    Traceback (most recent call last):
    stream.errors.SchemaError: KSWIN has no parameter 'alfa'; did you mean 'alpha'?
    """
    given = checked(name, parameters)
    if name == "ADWIN":
        return ADWIN(**given)
    if name == "KSWIN":
        return Kswin(_river(name, given))
    return RiverDetector(_river(name, given), falls=name == "FHDDM")


def _river(name: str, parameters: dict[str, Any]) -> Any:
    from river import drift

    if name == "PageHinkley":
        return drift.PageHinkley(**parameters)
    if name == "KSWIN":
        made = drift.KSWIN(**{"seed": 42, **parameters})
        if 2 * made.stat_size > made.window_size:  # river draws the sample from the older values
            raise SchemaError(
                f"KSWIN: window_size must be at least twice stat_size, got {made.window_size} "
                f"and {made.stat_size}"
            )
        return made
    try:
        made = getattr(drift.binary, name.replace("_", ""))(**parameters)
    except ValueError as error:
        raise SchemaError(f"{name}: {error}") from None
    short = getattr(made, "short_window_size", None)
    if short is not None and short > made.sliding_window_size:
        raise SchemaError(
            f"FHDDM: short_window_size must be at most sliding_window_size, got {short} and "
            f"{made.sliding_window_size}"
        )
    return cast("Any", made)


def compile_detectors() -> None:
    """Compile the kernels by running them on throw-away detectors."""
    one = np.zeros(1)
    ADWIN().update_many(one)
    kernels.farthest(one, one)
