"""Questions of people to the model; the loop answers them between two commits.

Rule: the thread of the server never uses a learner. It queues a question and waits. The loop
answers one at a time and at most four per second, so that questions cannot slow learning down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from consumers.base.records import Partition
from consumers.shard.answer import ModelCopy
from consumers.shard.models import explainable
from consumers.shard.views import PublishedPrediction

if TYPE_CHECKING:
    from consumers.shard.shard import Shard
    from stream.learner.predictions import Explanation

__all__ = ["Answer", "Questions"]

WAITING = 8  # questions in the queue; a further one is rejected
PAUSE_SECONDS = 0.25  # between two answers; an explanation takes about 0.3 ms

Answer = tuple["Explanation", int]


class Questions:
    """The questions to one shard, at most `WAITING`.

    Examples
    --------
    >>> questions = Questions()
    >>> answers = [questions.ask(PublishedPrediction(None, b"{}", b"")) for _ in range(9)]
    >>> answers[0].done(), answers[8]
    (False, None)
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[Shard], Any], Future[Any]]] = deque()
        self._next = 0.0

    def ask(self, prediction: PublishedPrediction) -> Future[Answer | None] | None:
        """Ask why the present model predicts as it does for an observation. For the server.

        Returns
        -------
        Future or None
            A future of the explanation and the number of labels learned by then, or of None for a
            model without explanations. None if too many questions wait.
        """
        return self.put(partial(_answered, prediction))

    def copy(self) -> Future[ModelCopy] | None:
        """Ask for a copy of the model. For the server, which asks rarely: a copy is O(bytes).

        None if too many questions wait.
        """
        return self.put(_copied)

    @property
    def waiting(self) -> bool:
        """Whether a question waits."""
        return bool(self._waiting)

    def put(self, asked: Callable[[Shard], Any]) -> Future[Any] | None:
        """Queue a question; None if too many wait."""
        if len(self._waiting) >= WAITING:
            return None
        answer: Future[Any] = Future()
        self._waiting.append((asked, answer))
        return answer

    def answer(self, shard: Shard, clock: Callable[[], float]) -> None:
        """Answer one question, if one waits. For the loop, between two commits.

        Parameters
        ----------
        shard
            The live shard; it is not changed.
        clock
            Seconds that never go back.
        """
        if not self._waiting or (now := clock()) < self._next:
            return
        self._next = now + PAUSE_SECONDS
        asked, answer = self._waiting.popleft()
        if not answer.set_running_or_notify_cancel():  # cancelled by the server
            return
        try:
            answer.set_result(asked(shard))
        except Exception as error:  # a click must not end the service
            answer.set_exception(error)


def _answered(prediction: PublishedPrediction, shard: Shard) -> Answer | None:
    found = _explained(shard, prediction)
    return None if found is None else (found, shard.learned)


def _copied(shard: Shard) -> ModelCopy:
    return shard.copied(Partition("", 0), 0)


def _explained(shard: Shard, prediction: PublishedPrediction) -> Explanation | None:
    spec, learner = shard.spec, shard.learner
    if not explainable(learner) or len(learner.classes) < 2:
        return None
    seen = spec.decoder(shard.schemas).decode([prediction.key], [prediction.observation])
    if seen.rejected:
        return None
    return learner.explain_rows(seen.rows)
