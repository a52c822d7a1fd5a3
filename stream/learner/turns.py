"""Turns: a learner learns while no other thread uses it, and who breaks that gets an error.

Rule: no call waits for another one. Predictions in several threads at once are allowed. A call
first makes its mark and then looks for those of others, so of two calls at least one sees the
other. Marks are elements of lists, because adding and removing one is atomic.
"""

from __future__ import annotations

__all__ = ["Turns"]

SEVERAL = (
    "this learner was used by another thread, and one of both learns; use it in one thread at a "
    "time, or guard it with a lock"
)


class Turns:
    """Who uses a learner now. A copy is used by nobody.

    Attributes
    ----------
    free : list
        Empty while a call learns.
    learning, predicting : context manager
        The turn of a call. RuntimeError at its begin if another call learns, or uses the learner
        and this one learns.

    Examples
    --------
    >>> turns = Turns()
    >>> with turns.predicting, turns.learning:
    ...     pass
    Traceback (most recent call last):
        ...
    RuntimeError: this learner was used by another thread, and one of both learns; use it in one \
thread at a time, or guard it with a lock
    """

    __slots__ = ("free", "learning", "predicting")

    def __init__(self) -> None:
        self.free = [True]
        predict: list[bool] = []  # an element for each call that predicts
        self.learning = _Learning(self.free, predict)
        self.predicting = _Predicting(self.free, predict)

    def __reduce__(self) -> tuple[type[Turns], tuple[()]]:
        return Turns, ()


class _Turn:
    __slots__ = ("_free", "_predict")

    def __init__(self, free: list[bool], predict: list[bool]) -> None:
        self._free, self._predict = free, predict


class _Learning(_Turn):
    __slots__ = ()

    def __enter__(self) -> None:
        try:
            self._free.pop()
        except IndexError:
            raise RuntimeError(SEVERAL) from None
        if self._predict:
            self._free.append(True)
            raise RuntimeError(SEVERAL)

    def __exit__(self, *_: object) -> None:
        self._free.append(True)


class _Predicting(_Turn):
    __slots__ = ()

    def __enter__(self) -> None:
        self._predict.append(True)
        if not self._free:
            self._predict.pop()
            raise RuntimeError(SEVERAL)

    def __exit__(self, *_: object) -> None:
        self._predict.pop()
