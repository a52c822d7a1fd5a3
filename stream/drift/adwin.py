"""ADWIN: a window that grows while its mean is stable, and is cut where the mean has changed."""

from __future__ import annotations

import numpy as np
from river.base import DriftDetector

from stream.data.block import Floats
from stream.data.parameters import number, whole
from stream.data.state import Rules, Saved, State
from stream.drift import _kernels as kernels
from stream.drift._kernels import AFTER, BEFORE, ROWS, TOTAL, VARIANCE, WIDTH, BucketWindow

__all__ = ["ADWIN"]

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
