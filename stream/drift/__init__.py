"""Drift: detectors that can be saved, what they watch, and what an alarm does."""

from stream.drift.adwin import ADWIN
from stream.drift.detectors import DETECTORS, RiverDetector, build
from stream.drift.rule import DriftRule, MonitorRule
from stream.drift.watch import DriftWatch

__all__ = ["ADWIN", "DETECTORS", "DriftRule", "DriftWatch", "MonitorRule", "RiverDetector", "build"]
