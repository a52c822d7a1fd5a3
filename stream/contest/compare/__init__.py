"""Compare two models, with results that are valid however often they are read."""

from stream.contest.compare.paired import (
    LEVEL,
    Comparison,
    ComparisonView,
    RecentScores,
    brier,
    compile_comparison,
)

__all__ = ["LEVEL", "Comparison", "ComparisonView", "RecentScores", "brier", "compile_comparison"]
