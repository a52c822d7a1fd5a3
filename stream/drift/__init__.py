"""Drift: detectors that can be saved, what they watch, and what an alarm does."""

from stream.drift.adwin import ADWIN
from stream.drift.detectors import DETECTORS, RiverDetector, build
from stream.drift.rule import DriftRule, MonitorRule
from stream.drift.watch import Drift

__all__ = ["ADWIN", "DETECTORS", "Drift", "DriftRule", "MonitorRule", "RiverDetector", "build"]
