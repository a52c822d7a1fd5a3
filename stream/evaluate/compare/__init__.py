"""Whether one model is better than another, looked at as often as one likes."""

from stream.evaluate.compare.paired import LEVEL, Comparison, ComparisonView, brier

__all__ = ["LEVEL", "Comparison", "ComparisonView", "brier"]
