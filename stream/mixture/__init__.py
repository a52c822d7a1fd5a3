"""Learners made of learners: weighed by Bayes' rule, or with calibrated probabilities."""

from typing import TYPE_CHECKING

from stream.lazy import lazy

if TYPE_CHECKING:
    from stream.mixture.calibrated import Calibrated
    from stream.mixture.mixture import Mixture

__all__ = ["Calibrated", "Mixture"]

__getattr__, __dir__ = lazy(
    __name__,
    {"stream.mixture.calibrated": ("Calibrated",), "stream.mixture.mixture": ("Mixture",)},
)
