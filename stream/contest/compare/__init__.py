"""Compare two models, with results that are valid however often they are read."""

from stream.contest.compare.paired import (
    LEVEL,
    Comparison,
    ComparisonView,
    brier,
    compile_comparison,
)
from stream.contest.compare.recent_scores import RecentScores

__all__ = ["LEVEL", "Comparison", "ComparisonView", "RecentScores", "brier", "compile_comparison"]
