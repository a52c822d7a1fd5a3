"""Models of river: any classifier as a Learner, and pipelines by the names of their classes."""

from __future__ import annotations

from stream.compat.build import CLASS_PATH, RIVER, build_river, check_steps
from stream.compat.classifier import RiverClassifier

__all__ = ["CLASS_PATH", "RIVER", "RiverClassifier", "build_river", "check_steps"]
