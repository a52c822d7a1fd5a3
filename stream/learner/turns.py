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

    Examples
    --------
    >>> turns = Turns()
    >>> turns.begin(learns=False)
    >>> turns.begin(learns=True)
    Traceback (most recent call last):
        ...
    RuntimeError: this learner was used by another thread, and one of both learns; use it in one \
thread at a time, or guard it with a lock
    """

    __slots__ = ("_predict", "free")

    def __init__(self) -> None:
        self.free = [True]
        self._predict: list[bool] = []

    def __reduce__(self) -> tuple[type[Turns], tuple[()]]:
        return Turns, ()

    def begin(self, learns: bool) -> None:
        """RuntimeError if another call learns, or uses the learner and this one learns."""
        if not learns:
            self._predict.append(True)
            if self.free:
                return
            self._predict.pop()
            raise RuntimeError(SEVERAL)
        try:
            self.free.pop()
        except IndexError:
            raise RuntimeError(SEVERAL) from None
        if self._predict:
            self.free.append(True)
            raise RuntimeError(SEVERAL)

    def end(self, learns: bool) -> None:
        """Let others use the learner."""
        if learns:
            self.free.append(True)
        else:
            self._predict.pop()
