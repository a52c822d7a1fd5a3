"""Whether one model is better than another, looked at as often as one likes."""

from stream.contest.compare.paired import (
    LEVEL,
    Comparison,
    ComparisonView,
    brier,
    compile_comparison,
)
from stream.contest.compare.recent_scores import RecentScores

__all__ = ["LEVEL", "Comparison", "ComparisonView", "RecentScores", "brier", "compile_comparison"]
