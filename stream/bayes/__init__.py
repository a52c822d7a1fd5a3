"""Bayes classifiers."""

from stream.bayes.gaussian import GaussianNB

__all__ = ["GaussianNB"]
