"""Learners made of learners: weighed by Bayes' rule, or with calibrated probabilities."""

from stream.mixture.calibrated import Calibrated
from stream.mixture.mixture import Mixture

__all__ = ["Calibrated", "Mixture"]
