"""What a person asks of the model: handed to the loop, answered by it between two commits.

Rule: the web's thread never touches a learner. It leaves a question and waits; the loop answers one
at a time and a few a second at most, so that no number of questions slows the learning down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from consumers.codecs.json import JsonObservations
from consumers.shard.models import explainable
from consumers.shard.views import PublishedPrediction

if TYPE_CHECKING:
    from consumers.shard.shard import Shard
    from stream.learner.explain import Explanation

__all__ = ["Answer", "Questions"]

WAITING = 8  # questions that may wait; one more is refused
PAUSE_SECONDS = 0.25  # between two answers: an explanation takes some 0.3 ms

Answer = tuple["Explanation", int]


class Questions:
    """The questions of one shard, `WAITING` at most.

    Examples
    --------
    >>> questions = Questions()
    >>> answers = [questions.ask(PublishedPrediction(None, b"{}", b"")) for _ in range(9)]
    >>> answers[0].done(), answers[8]
    (False, None)
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[PublishedPrediction, Future[Answer | None]]] = deque()
        self._next = 0.0

    def ask(self, said: PublishedPrediction) -> Future[Answer | None] | None:
        """Why the model, as it is now, says what it says of an observation. For the web.

        Returns
        -------
        Future or None
            Of the explanation and how many labels it had learned from by then; of None where it
            has none to give. None itself: too many questions wait.
        """
        if len(self._waiting) >= WAITING:
            return None
        answer: Future[Answer | None] = Future()
        self._waiting.append((said, answer))
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
        said, answer = self._waiting.popleft()
        if not answer.set_running_or_notify_cancel():  # nobody waits for it any more
            return
        try:
            found = _explained(shard, said)
            answer.set_result(None if found is None else (found, shard.learned))
        except Exception as error:  # somebody's click must not end a service that learns
            answer.set_exception(error)


def _explained(shard: Shard, said: PublishedPrediction) -> Explanation | None:
    spec, learner = shard.spec, shard.learner
    if not explainable(learner) or len(learner.classes) < 2:
        return None
    decoder = JsonObservations(spec.schema, spec.id_field, spec.label_field, spec.codec_rules)
    seen = decoder.decode([said.key], [said.observation])
    if seen.rejected:
        return None
    return learner.explain_rows(seen.rows)
