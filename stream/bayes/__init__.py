"""Bayes classifiers."""

from stream.bayes.gaussian import GaussianNB
from stream.bayes.multinomial import MultinomialNB

__all__ = ["GaussianNB", "MultinomialNB"]
