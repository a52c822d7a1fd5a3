"""How well posteriors rank the classes: exact areas under curves."""

from stream.evaluate.ranking.areas import Ranking, ranking

__all__ = ["Ranking", "ranking"]
