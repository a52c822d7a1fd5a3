"""A shard: one model with its join, scores and counters, fed by batches. No I/O, no clock.

`process` turns a batch of bytes into an outcome and touches nothing else. Decoding happens
inside, so a record that cannot be decoded is an outcome too: a dead letter, never an exception.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from consumers.codecs.json import JsonLabels, JsonObservations, PredictionEncoder
from consumers.errors import RecordError
from consumers.events import RiskView, ShardView
from consumers.records import NEVER, Batch, Header, Outgoing, Partition, credible
from stream.base import Learner
from stream.block import Rows
from stream.decision import BayesDecision, OverallRisk
from stream.decision.risk import named
from stream.evaluate.decided import DecidedProgressive
from stream.evaluate.progressive import Events, Progressive, Result
from stream.join import LabelJoin
from stream.schema import Schema
from stream.state import State

__all__ = ["Outcome", "Shard", "Spec"]


@dataclass(frozen=True, slots=True)
class Spec:
    """What a shard is told about its service.

    Parameters
    ----------
    name, model, number
        The service, the model's type, the shard's number.
    schema
        The features.
    id_field, label_field
        Fields of an observation.
    label_topics
        Topics whose records are labels.
    predictions, dead_letters
        Output topics.
    predictions_partitions
        How many partitions the predictions topic has.
    top
        How many classes a prediction tells.
    explain
        How many shares of features it tells; 0: it is not explained.
    largest_dead_letter
        Bytes of the original a dead letter keeps at most; None: all.
    max_pending, horizon, max_classes
        Bounds of the join.
    decision
        What decides by risk; None: nothing does.
    """

    name: str
    model: str
    schema: Schema
    id_field: str
    label_field: str | None
    label_topics: Collection[str]
    predictions: str
    dead_letters: str
    predictions_partitions: int = 1
    number: int = 0
    top: int = 10
    explain: int = 0
    largest_dead_letter: int | None = None
    max_pending: int = 100_000
    horizon: int = 7 * 86_400_000
    max_classes: int = 256
    decision: BayesDecision | None = None


@dataclass(slots=True)
class Outcome:
    """What came of a batch.

    Parameters
    ----------
    batch, result
        What went in, and what the model made of it.
    observed
        Index in the batch of each predicted observation, in order.
    ids
        Its id.
    learned_before
        How many labels had been learned before the first step.
    rejected
        Index in the batch to why that record is a dead letter.
    labels
        Label outcome to how many this batch added.
    digest
        64 bits of every bit that was said and scored.
    """

    spec: Spec
    batch: Batch
    result: Result
    observed: list[int]
    ids: list[str]
    learned_before: int
    rejected: dict[int, RecordError]
    labels: Mapping[str, int]
    digest: bytes

    def predictions(self) -> Iterator[Outgoing]:
        """The prediction records, in order. Encoded here: a muted replay never asks."""
        spec, batch, made = self.spec, self.batch, self.result.predictions
        encoder = PredictionEncoder(spec.name, spec.model, spec.top, spec.explain)
        classes = made.classes
        n = len(self.observed)
        decided = [None] * n if spec.decision is None else spec.decision.decide_many(made).done()
        columns = zip(
            self.observed,
            self.ids,
            self.result.said.tolist(),
            made.proba.tolist(),
            made.known.tolist(),
            self.result.learned_before.tolist(),
            decided,
            self.result.explanations or [None] * n,
            strict=True,
        )
        for i, id_, said, proba, known, learned, decision, why in columns:
            partition = batch.partitions[batch.source[i]]
            ts = int(batch.timestamps[i])
            value = encoder.encode(
                id_,
                None if said < 0 else classes[said],
                list(zip(classes[:known], proba, strict=False)),
                self.learned_before + learned,
                (partition.topic, partition.number, int(batch.offsets[i])),
                ts,
                decision,
                why,
            )
            out = partition.number % spec.predictions_partitions
            yield Outgoing(spec.predictions, id_.encode(), value, ts, (), out)

    def dead_letters(self) -> Iterator[Outgoing]:
        """The dead letters: the original bytes, with reason and source in the headers."""
        batch = self.batch
        for i, error in sorted(self.rejected.items()):
            source = batch.partitions[batch.source[i]]
            headers: tuple[Header, ...] = (
                ("reason", error.reason.encode()),
                ("detail", error.detail.encode("utf-8", "backslashreplace")[:500]),
                ("topic", source.topic.encode()),
                ("partition", str(source.number).encode()),
                ("offset", str(int(batch.offsets[i])).encode()),
            )
            value, limit = batch.values[i], self.spec.largest_dead_letter
            if value is not None and limit is not None and len(value) > limit:
                headers = (*headers, ("cut_from_bytes", str(len(value)).encode()))
                value = value[:limit]
            yield Outgoing(
                self.spec.dead_letters,
                batch.keys[i],
                value,
                int(batch.timestamps[i]),
                headers,
                0,
            )


class Shard:
    """One deterministic model with state, fed by batches in order.

    Parameters
    ----------
    spec
        What it is told about its service.
    learner
        The model, empty or to be loaded.
    """

    def __init__(self, spec: Spec, learner: Learner) -> None:
        self.spec = spec
        join = LabelJoin(spec.max_pending, spec.horizon, spec.max_classes)
        like = learner.prepare(Rows.empty(spec.schema))
        self._risk: OverallRisk | None = None
        if spec.decision is None:
            self._machine = Progressive(learner, join, like)
        else:
            deciding = DecidedProgressive(learner, join, like, spec.decision)
            self._machine, self._risk = deciding, deciding.risk
        self._observations = JsonObservations(spec.schema, spec.id_field, spec.label_field)
        self._labels = JsonLabels()
        self._counts: Counter[str] = Counter()
        self._dead: Counter[str] = Counter()
        self._actions: Counter[str] = Counter()
        self.positions: dict[Partition, int] = {}
        self.stream_time: int | None = None

    @property
    def learner(self) -> Learner:
        return self._machine.learner

    def process(self, batch: Batch, now: int) -> Outcome:
        """Predict, score and learn a batch.

        Parameters
        ----------
        batch
            Records in order.
        now
            The journaled wall clock in milliseconds.
        """
        is_label = [p.topic in self.spec.label_topics for p in batch.partitions]
        kind = np.array(is_label, dtype=bool)[batch.source]
        events, at, (rows, raw), rejected = self._decode(
            batch, kind.tolist(), self._times(batch, now)
        )
        learned_before = self._counts["learned"]
        before = Counter(self._machine.join.outcomes)
        result = self._machine.process(rows, events, raw if self.spec.explain else None)
        for event, reason in result.rejected.items():
            detail = f"label {events.labels[event]!r} was refused"
            rejected[at[event]] = RecordError(reason, detail)
        observed = [e for e, row in enumerate(events.row) if row >= 0 and e not in result.rejected]
        self._count(batch, int(np.count_nonzero(~kind)), result, rejected)
        labels = self._machine.join.outcomes - before
        return Outcome(
            self.spec,
            batch,
            result,
            [at[e] for e in observed],
            [events.ids[e] for e in observed],
            learned_before,
            rejected,
            labels,
            self._digest(result),
        )

    def _digest(self, result: Result) -> bytes:
        made = result.predictions
        digest = blake2b(digest_size=8)
        for part in (made.proba, made.known, result.said, result.learned_before):
            digest.update(part.tobytes())
        digest.update(self._machine.quality.bits())
        return digest.digest()

    def _times(self, batch: Batch, now: int) -> list[int]:
        """Stream time at each record: a timestamp in the future does not move it."""
        told = credible(batch.timestamps, now)
        if told.size and self.stream_time is not None:
            told[0] = max(int(told[0]), self.stream_time)
        times = np.maximum.accumulate(told)
        out: list[int] = np.where(times == NEVER, now, times).tolist()
        if out:
            self.stream_time = out[-1]
        return out

    def _decode(
        self, batch: Batch, is_label: list[bool], times: list[int]
    ) -> tuple[Events, list[int], tuple[Rows, Rows], dict[int, RecordError]]:
        """Events of the records that can be used, their places in the batch, rows (as the learner
        takes them, and as they came), and why not."""
        seen = [i for i, label in enumerate(is_label) if not label]
        told = [i for i, label in enumerate(is_label) if label]
        x = self._observations.decode(
            [batch.keys[i] for i in seen], [batch.values[i] for i in seen]
        )
        y = self._labels.decode([batch.keys[i] for i in told], [batch.values[i] for i in told])
        rows = self.learner.prepare(x.rows)
        for k, refusal in self.learner.refusals(rows).items():
            x.rejected.setdefault(k, RecordError(refusal.reason, refusal.detail))
        for each in (rows, x.rows):
            each.blank(list(x.rejected))
        rejected = {seen[k]: e for k, e in x.rejected.items()}
        rejected |= {told[k]: e for k, e in y.rejected.items()}
        ids, row, labels, weights = [], [], [], []
        at = []
        next_x, next_y = 0, 0
        for i, label in enumerate(is_label):
            k = next_y if label else next_x
            if label:
                next_y += 1
            else:
                next_x += 1
            if i in rejected:
                continue
            at.append(i)
            ids.append(y.ids[k] if label else x.ids[k])
            row.append(-1 if label else k)
            labels.append(y.labels[k] if label else x.labels[k])
            weights.append(y.weights[k] if label else 1.0)
        events = Events(ids, row, labels, weights, [times[i] for i in at])
        return events, at, (rows, x.rows), rejected

    def _count(
        self, batch: Batch, observations: int, result: Result, rejected: dict[int, RecordError]
    ) -> None:
        self._counts["observations"] += observations
        self._counts["predictions"] += len(result.predictions)
        self._counts["learned"] += result.learned
        if self.spec.decision is not None:
            made = self.spec.decision.decide_many(result.predictions)
            known = result.predictions.known > 0  # before the first label it rejects unasked
            self._counts["rejected"] += int(np.count_nonzero(made.rejected & known))
            chosen = np.bincount(made.chosen[made.chosen >= 0], minlength=len(made.actions))
            for action, n in zip(made.actions, chosen.tolist(), strict=True):
                self._actions[named(action)] += n
        self._dead.update(error.reason for error in rejected.values())
        for partition, (_, end, _) in batch.ranges.items():
            self.positions[partition] = end

    def view(self) -> ShardView:
        """A frozen copy of what there is to tell."""
        join = self._machine.join
        return ShardView(
            self.spec.name,
            self.spec.model,
            self.spec.number,
            self._counts["observations"],
            self._counts["predictions"],
            self._counts["learned"],
            dict(join.outcomes),
            dict(self._dead),
            {**self.learner.overflows, "labels": join.labels.overflow},
            join.pending,
            self._machine.view(),
            dict(self.positions),
            self.stream_time,
            self._risk_view(),
        )

    def _risk_view(self) -> RiskView | None:
        risk = self._risk
        if risk is None:
            return None
        rejected = self._counts["rejected"]
        return RiskView(risk.value, risk.count, rejected, dict(self._actions), risk.constant)

    def to_state(self) -> State:
        """The whole state, as a copy."""
        header = {
            "counts": dict(self._counts),
            "dead": dict(self._dead),
            "actions": dict(self._actions),
            "positions": [[p.topic, p.number, at] for p, at in sorted(self.positions.items())],
            "stream_time": self.stream_time,
        }
        parts = {"shard": State(header), "machine": self._machine.to_state()}
        if self._risk is not None:
            parts["risk"] = self._risk.to_state()
        return State.join(parts)

    def load_state(self, state: State) -> None:
        """Become the shard that `to_state` saved.

        Raises
        ------
        StateError
            It is damaged or of another model; this shard is then unusable.
        """
        header = state.nested("shard").header
        self._counts = Counter(header["counts"])
        self._dead = Counter(header["dead"])
        self._actions = Counter(header["actions"])
        self.positions = {Partition(t, n): at for t, n, at in header["positions"]}
        self.stream_time = header["stream_time"]
        self._machine.load_state(state.nested("machine"))
        # Saved by a service that did not decide yet: the risk begins here.
        if self._risk is not None and "risk" in state.header:
            self._risk.load_state(state.nested("risk"))

    def fingerprint(self) -> str:
        """SHA-256 of the state: equal fingerprints are equal shards, bit for bit."""
        return self.to_state().fingerprint()
