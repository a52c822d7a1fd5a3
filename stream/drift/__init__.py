"""Drift: detectors with a state, what they watch, and the actions of an alarm."""

from typing import TYPE_CHECKING

from stream.lazy import lazy

if TYPE_CHECKING:
    from stream.drift.detectors import ADWIN, RiverDetector, build
    from stream.drift.parameters import DETECTORS
    from stream.drift.rule import DriftRule, MonitorRule
    from stream.drift.watch import DriftWatch

__all__ = ["ADWIN", "DETECTORS", "DriftRule", "DriftWatch", "MonitorRule", "RiverDetector", "build"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "stream.drift.detectors": ("ADWIN", "RiverDetector", "build"),
        "stream.drift.parameters": ("DETECTORS",),
        "stream.drift.rule": ("DriftRule", "MonitorRule"),
        "stream.drift.watch": ("DriftWatch",),
    },
)
