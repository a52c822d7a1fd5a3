"""Drift: detectors with a state, what they watch, and the actions of an alarm."""

from stream.drift.adwin import ADWIN
from stream.drift.detectors import DETECTORS, RiverDetector, build
from stream.drift.rule import DriftRule, MonitorRule
from stream.drift.watch import DriftWatch

__all__ = ["ADWIN", "DETECTORS", "DriftRule", "DriftWatch", "MonitorRule", "RiverDetector", "build"]
