"""Ranking of classes by posteriors: exact areas under curves."""

from stream.evaluate.ranking.areas import Ranking, ranking

__all__ = ["Ranking", "ranking"]
