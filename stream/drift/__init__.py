"""Drift: detectors that can be saved, what they watch, and what an alarm does."""

from stream.drift.adwin import ADWIN
from stream.drift.detectors import DETECTORS, RiverDetector, build

__all__ = ["ADWIN", "DETECTORS", "RiverDetector", "build"]
