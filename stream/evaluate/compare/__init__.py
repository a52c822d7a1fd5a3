"""Whether one model is better than another, looked at as often as one likes."""

from stream.evaluate.compare.paired import LEVEL, Comparison, ComparisonView

__all__ = ["LEVEL", "Comparison", "ComparisonView"]
