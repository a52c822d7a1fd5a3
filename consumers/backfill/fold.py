"""Merge the models of all splits in one fixed tree.

Rule: which two models are merged depends on the numbers of their splits only, never on the order in
which they arrive. Rounding depends on the tree, so a fixed tree gives the same bits.
"""

from __future__ import annotations

from consumers.base.errors import ConfigError
from stream.errors import StreamError
from stream.learner.base import Learner

__all__ = ["Fold"]


class Fold:
    """A binary tree over `count` splits: neighbours are merged, then neighbours of those, and so
    on. One that has no neighbour moves up as it is.

    Parameters
    ----------
    count
        The number of splits.

    Notes
    -----
    A model is held until its neighbour has arrived. If they arrive in order, about log2(count) are
    held.

    Examples
    --------
    >>> from stream import GaussianNB
    >>> models = [GaussianNB() for _ in range(3)]
    >>> for i, model in enumerate(models):
    ...     model.learn_one({"x": float(i)}, "a")
    >>> fold = Fold(3)
    >>> for number in (2, 0, 1):
    ...     fold.add(number, models[number])
    >>> fold.held, fold.result().classes
    (1, ['a'])
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._held: dict[tuple[int, int], Learner] = {}

    @property
    def held(self) -> int:
        """How many models wait for their neighbours."""
        return len(self._held)

    def add(self, number: int, model: Learner) -> None:
        """Add the model of a split. The fold may change it.

        Raises
        ------
        ConfigError
            It cannot be merged with its neighbour.
        """
        level, place = 0, number
        while (width := self._width(level)) > 1:
            if place == width - 1 and width % 2:  # without a neighbour
                level, place = level + 1, place // 2
                continue
            neighbour = self._held.pop((level, place ^ 1), None)
            if neighbour is None:
                self._held[level, place] = model
                return
            left, right = (neighbour, model) if place % 2 else (model, neighbour)
            try:
                model = left.merge(right)
            except StreamError as error:
                raise ConfigError(
                    f"the models of the splits {self._range(level, place)} cannot be merged: "
                    f"{error}"
                ) from None
            level, place = level + 1, place // 2
        self._held[level, place] = model

    def result(self) -> Learner:
        """The model of all splits, after the last one was added."""
        assert len(self._held) == 1  # noqa: S101  every split was added once
        return next(iter(self._held.values()))

    def _width(self, level: int) -> int:
        """How many models a level has."""
        return -(-self._count >> level)

    def _range(self, level: int, place: int) -> str:
        size = 1 << (level + 1)
        first = (place // 2) * size
        return f"{first} to {min(first + size, self._count) - 1}"
