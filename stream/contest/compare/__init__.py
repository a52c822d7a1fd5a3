"""Whether one model is better than another, looked at as often as one likes."""

from stream.contest.compare.lately import Lately
from stream.contest.compare.paired import (
    LEVEL,
    Comparison,
    ComparisonView,
    brier,
    compile_comparison,
)

__all__ = ["LEVEL", "Comparison", "ComparisonView", "Lately", "brier", "compile_comparison"]
