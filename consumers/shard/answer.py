"""Answers outside the stream: a copy of the model predicts, and nothing is learned or written.

Rule: an answer is the prediction that the service would have written for the observation, had it
been the next record of the shard. It is encoded by the same encoder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from consumers.base.errors import RecordError
from consumers.base.records import Partition
from consumers.codecs.json import DecodedObservations
from consumers.codecs.predictions import PredictionEncoder
from consumers.codecs.schemas import StoredSchema
from consumers.codecs.unused import Note, bounded, noted
from consumers.shard.models import explainable
from consumers.shard.outcome import refusal
from consumers.shard.spec import ShardSpec
from stream.data.block import PREDICT, Block
from stream.data.rows import Rows
from stream.data.schema import Label
from stream.data.state import State
from stream.decision import FalsePositiveBudget
from stream.decision.budget import column, decisions
from stream.join.labels import AcceptedLabels
from stream.learner.base import Learner, Predictions
from stream.learner.predictions import Explanation

__all__ = ["SHARE", "Answerer", "ModelCopies", "ModelCopy", "ReadRecords", "copied"]

SHARE = 0.02  # of a processor that copies of the loop may take


@dataclass(frozen=True, slots=True)
class ModelCopy:
    """What a shard predicts with, after one journal record. Nothing in it changes.

    Parameters
    ----------
    spec
        The settings of the shard.
    name, kind
        Name and type of the champion, as predictions show them.
    learner
        An empty learner with its parameters; without a state, one that has learned everything.
    state
        What it has learned; None if the learner was copied as it is (`Learner.deep_copies`).
    budget
        The state of the budget of false positives; None without one.
    learned
        How many labels the shard had learned.
    labels
        The different ones, in the order in which they were learned; the first fixed the kind.
    journal, position
        Partition of the journal, and the offset after its last record.
    repeatable
        Whether another process can learn the same model from the journal.
    schemas
        The schemas of records that the shard knows, with their ids.
    """

    spec: ShardSpec
    name: str
    kind: str
    learner: Learner
    state: State | None
    budget: State | None
    learned: int
    labels: tuple[Label, ...]
    journal: Partition
    position: int
    repeatable: bool = True
    schemas: tuple[tuple[int, StoredSchema], ...] = ()

    def predictor(self) -> Learner:
        """The learner, for the caller alone: its arrays are copied, as it may change them.
        O(bytes)."""
        if self.state is None:
            return deepcopy(self.learner)
        learner = self.learner.restarted(proven=True)
        _trust(learner)
        return learner.load_state(self.state)


def copied(learner: Learner) -> tuple[Learner, State | None]:
    """`learner` and `state` of a copy. O(bytes)."""
    if learner.deep_copies:
        return deepcopy(learner), None
    return learner.restarted(proven=True), learner.to_state()


class ModelCopies:
    """The newest copy of a model, made by the loop for other threads.

    Parameters
    ----------
    max_age
        Seconds after which a copy is replaced, if the model has changed. A model that is slow to
        copy is copied less often.
    clock
        Seconds that never go back.
    share
        The share of a processor that copies may take.
    spent
        Processor seconds of the calling thread. Seconds of the clock would count the work of
        others, and beside load a copy would be made ever less often.

    Attributes
    ----------
    pause
        Seconds between two copies, unless they are slow.
    newest
        The newest copy; None before the first.
    current
        When it was the newest model, by the clock.
    slow
        Whether the newest copy took too long for `max_age`, so that copies are older.
    enabled
        Whether copies are made. Switch it off where another process makes them.
    """

    def __init__(
        self,
        max_age: float,
        clock: Callable[[], float],
        share: float = SHARE,
        spent: Callable[[], float] = time.thread_time,
    ) -> None:
        self.pause, self._clock = max_age / 2, clock  # a commit may take the other half
        self._share, self._spent = share, spent
        self._due = self.current = -np.inf
        self.newest: ModelCopy | None = None
        self.slow, self.enabled = False, True

    @property
    def age(self) -> float:
        """Seconds since the newest copy was the newest model."""
        return max(0.0, self._clock() - self.current)

    def lacks(self, position: int) -> bool:
        """Whether the model after this journal position should be copied now."""
        held = self.newest
        other = held is None or held.position != position
        return other and self.enabled and self._clock() >= self._due

    def offer(
        self,
        journal: Partition,
        position: int,
        copied: Callable[[], ModelCopy],
        since: float | None = None,
    ) -> None:
        """Copy the model if that is due. For the loop, between two commits.

        Parameters
        ----------
        journal, position
            Where the model is.
        copied
            Copies it.
        since
            When it was the newest model; None: it is now.
        """
        now, held = self._clock(), self.newest
        newest = now if since is None else since
        if held is not None and (held.journal, held.position) == (journal, position):
            self.current = newest
        elif self.enabled and now >= self._due:
            before = self._spent()
            self.newest = copied()
            pause = (self._spent() - before) / self._share
            self.current, self._due = newest, now + max(self.pause, pause)
            self.slow = pause > 2 * self.pause


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """Observations as an `Answerer` has read them.

    Parameters
    ----------
    values
        Their bytes.
    seen
        Their fields.
    """

    values: Sequence[bytes]
    seen: DecodedObservations


class Answerer:
    """Predicts by a copy of a model.

    Parameters
    ----------
    copy
        The copy.

    Notes
    -----
    Not safe for several threads: kernels use memory of the learner. Only `read` does not use the
    learner, so other threads may read meanwhile.
    """

    def __init__(self, copy: ModelCopy) -> None:
        self.copy = copy
        self._learner = copy.predictor()
        self._budget = None if copy.budget is None else FalsePositiveBudget.from_state(copy.budget)
        self._decoder = copy.spec.decoder()

    @property
    def threshold(self) -> float | None:
        """The probability from which a record is flagged now; None without a budget, or while
        nothing is flagged."""
        return None if self._budget is None else self._budget.threshold

    @property
    def explains(self) -> bool:
        """Whether the model explains its predictions."""
        return explainable(self._learner)

    @property
    def parses(self) -> bool:
        """Whether the observations are mails, whose parsers need a time to read them."""
        return bool(self.copy.spec.parser)

    def read(self, keys: Sequence[bytes | None], values: Sequence[bytes]) -> ReadRecords:
        """Decode observations.

        Parameters
        ----------
        keys, values
            The records, as they would be in the topic.
        """
        return ReadRecords(values, self._decoder.decode(keys, values))

    def answer(self, asked: ReadRecords, ts: int, *, explain: int = 0) -> list[bytes | RecordError]:
        """The prediction of each observation as JSON, or why it has none. O(records).

        The prediction also has `notes`, if the observation has fields that are not used.

        Parameters
        ----------
        asked
            The observations.
        ts
            Their timestamp in ms.
        explain
            How many features to explain, if the model can.
        """
        copy, seen = self.copy, asked.seen
        rows, rejected = self._prepared(seen)
        block, ids = Block.of(rows, PREDICT), seen.ids
        whys: list[Explanation | None] = [None] * len(ids)
        if explain and self.explains:
            made, whys = self._learner.run_explained(block, seen.rows, explain)
        else:
            made = self._learner.run(block)
        notes = self.notes(asked)
        best, top = made.best().tolist(), copy.spec.outputs.top
        ranked, evidence = made.ranked(top), made.ranked_evidence(top)
        decided = self._decided(made)
        encoder = PredictionEncoder(copy.name, copy.kind, explain)
        place = (copy.journal.topic, copy.journal.number, copy.position)
        out: list[bytes | RecordError] = []
        for i, id_ in enumerate(ids):
            if i in rejected:
                out.append(rejected[i])
                continue
            label = None if best[i] < 0 else made.classes[best[i]]
            about = (copy.learned, place, ts, decided[i], whys[i], None, evidence[i])
            answer = encoder.encode(id_, label, ranked[i], *about)
            out.append(noted(answer, notes[i]))
        return out

    def notes(self, asked: ReadRecords) -> list[list[Note]]:
        """What of each observation is not used; nothing for those that are rejected."""
        seen = asked.seen
        every: list[list[Note]] = []
        for i, value in enumerate(asked.values):
            bad = seen.bad.get(i, ())
            every.append([] if i in seen.rejected else bounded(self._decoder.notes(value, bad)))
        return every

    def predict(self, asked: ReadRecords) -> tuple[Predictions, dict[int, RecordError]]:
        """The predictions, and the records that the service would reject, by index.

        A rejected record has the prediction of one without values.
        """
        rows, rejected = self._prepared(asked.seen)
        return self._learner.run(Block.of(rows, PREDICT)), rejected

    def check_observations(
        self, asked: ReadRecords
    ) -> tuple[Sequence[str], dict[int, RecordError]]:
        """The ids, and the records that would be dead letters, also for the label inside."""
        seen = asked.seen
        _, rejected = self._prepared(seen)
        return seen.ids, self._refused_labels(seen.labels) | rejected

    def check_labels(self, values: Sequence[bytes]) -> tuple[Sequence[str], dict[int, RecordError]]:
        """The ids of label records, and the records that would be dead letters."""
        seen = self.copy.spec.label_decoder().decode([None] * len(values), values)
        return seen.ids, self._refused_labels(seen.labels) | seen.rejected

    def _refused_labels(self, labels: Sequence[object]) -> dict[int, RecordError]:
        """The labels that cannot be learned after those of the copy and those before them here."""
        known = AcceptedLabels(self.copy.spec.max_classes)
        known.load(self.copy.labels, 0)
        first, refused = next(iter(self.copy.labels), None), dict[int, RecordError]()
        for i, label in enumerate(labels):
            if label is None:
                continue
            accepted = known.accepted(label)
            if accepted is None:
                refused[i] = refusal(label, known.refuse(label), first)
            else:
                known.learned.add(accepted)
                first = accepted if first is None else first
        return refused

    def _prepared(self, seen: DecodedObservations) -> tuple[Rows, dict[int, RecordError]]:
        """The rows for the learner, and the records that are rejected."""
        rows = self._learner.prepare(seen.rows)
        rejected = dict(seen.rejected)
        for k, error in self._learner.refusals(rows).items():
            rejected.setdefault(k, RecordError(error.reason, error.detail))
        for each in (rows, seen.rows):
            each.blank(list(rejected))
        return rows, rejected

    def _decided(self, made: Predictions) -> Sequence[tuple[Label | None, float | None] | None]:
        """Action and risk of each prediction; None without decisions."""
        spec = self.copy.spec
        if self._budget is not None:
            rule = self._budget.rule
            known = column(rule, list(made.classes), made.judged)
            of = (self._budget.flags_one, self._budget.doubts_one)
            marks = [np.array([f(p) for p in known.tolist()], dtype=np.bool_) for f in of]
            return decisions(rule, made, *marks).done()
        if spec.decision is None:
            return [None] * len(made)
        return spec.decision.decide_many(made).done()


def _trust(learner: Learner) -> None:
    """Let the parts load pickles: those of a copy never left this program."""
    for part in learner.with_parts():
        if hasattr(part, "trust_pickle"):
            part.trust_pickle = True
