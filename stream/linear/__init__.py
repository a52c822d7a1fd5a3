"""Linear classifiers whose weights are learned by gradient steps."""

from stream.linear.logistic import LogisticRegression

__all__ = ["LogisticRegression"]
