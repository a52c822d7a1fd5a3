"""Linear classifiers whose weights are learned by gradient steps."""

from stream.linear.evidence import WordCount
from stream.linear.logistic import LogisticRegression
from stream.linear.spam import SpamScorer

__all__ = ["LogisticRegression", "SpamScorer", "WordCount"]
