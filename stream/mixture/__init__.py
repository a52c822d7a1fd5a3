"""Learners made of learners: weighed by Bayes' rule, or with calibrated probabilities."""

from typing import TYPE_CHECKING

from stream.lazy import lazy

if TYPE_CHECKING:
    from stream.mixture.calibrated import Calibrated
    from stream.mixture.mixture import Mixture
    from stream.mixture.target_encoded import TargetEncoded

__all__ = ["Calibrated", "Mixture", "TargetEncoded"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "stream.mixture.calibrated": ("Calibrated",),
        "stream.mixture.mixture": ("Mixture",),
        "stream.mixture.target_encoded": ("TargetEncoded",),
    },
)
