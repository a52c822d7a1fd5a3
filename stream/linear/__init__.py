"""Linear classifiers whose weights are learned by gradient steps."""

from stream.linear.logistic import LogisticRegression
from stream.linear.spam import SpamScorer
from stream.linear.word_counts import WordCount

__all__ = ["LogisticRegression", "SpamScorer", "WordCount"]
