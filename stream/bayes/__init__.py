"""Bayes classifiers: full and naive, on every kind of attribute."""

from stream.bayes.bernoulli import BernoulliNB
from stream.bayes.categorical import CategoricalNB
from stream.bayes.gaussian import GaussianNB
from stream.bayes.gaussian_bayes import GaussianBayes
from stream.bayes.joint import CategoricalBayes
from stream.bayes.mixed import MixedBayes, MixedNB
from stream.bayes.multinomial import ComplementNB, MultinomialNB
from stream.bayes.poisson import PoissonNB

__all__ = [
    "BernoulliNB",
    "CategoricalBayes",
    "CategoricalNB",
    "ComplementNB",
    "GaussianBayes",
    "GaussianNB",
    "MixedBayes",
    "MixedNB",
    "MultinomialNB",
    "PoissonNB",
]
