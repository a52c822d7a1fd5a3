"""A shard: one model with its join, scores and counters, fed by batches. No I/O, no clock.

`process` turns a batch of bytes into an outcome and has no other effect. It also decodes, so a
record that cannot be decoded becomes a dead letter in the outcome, never an exception.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf

import numpy as np
from numpy.typing import NDArray

from consumers.base.cells import chosen
from consumers.base.errors import RecordError
from consumers.base.records import NEVER, Batch, Partition, credible
from consumers.codecs.columns import ColumnRecords, in_order
from consumers.codecs.json import DecodedObservations
from consumers.codecs.raw import faults, faults_of
from consumers.codecs.schemas import SchemaBook
from consumers.shard.answer import ModelCopy, copied
from consumers.shard.batches import (
    PRESENT,
    Commit,
    EarlierPieces,
    SeenFields,
    digest,
    given_back,
    kept,
    of_rows,
    skipped,
    without_ignored,
)
from consumers.shard.challengers import ChallengerSet
from consumers.shard.drift import DriftAlarms
from consumers.shard.mix import ShardMix
from consumers.shard.outcome import EarlyLabel, Outcome, refusal
from consumers.shard.shape import OutputShape
from consumers.shard.spec import ShardSpec
from consumers.shard.views import (
    ChallengerView,
    LabelView,
    Promoted,
    RiskView,
    ShardView,
)
from stream.compat import RiverClassifier
from stream.contest.champion import ChampionChallenger, Contestant
from stream.contest.compare import Comparison
from stream.data.block import Rows
from stream.data.sequences import taken
from stream.data.state import State
from stream.decision import FalsePositiveBudget, OverallRisk
from stream.decision.risk import named
from stream.errors import Reason
from stream.evaluate.breaker import Breaker
from stream.evaluate.progressive import Events, Progressive, Result
from stream.evaluate.quality import windows
from stream.join.join import LabelJoin
from stream.join.reported import ReportedJoin
from stream.keyed import keys_view
from stream.learner.base import Learner

__all__ = ["Outcome", "Shard"]


class Shard:
    """One deterministic model with state, fed by batches in order.

    Parameters
    ----------
    spec
        Its settings.
    learner
        The model, empty. `load_state` may fill it.
    """

    def __init__(self, spec: ShardSpec, learner: Learner) -> None:
        self.spec = spec
        join = spec.join()
        self._keeps_bad = spec.config.values.on_bad_value == "missing"
        self._ratio = spec.config.output.max_dead_letter_ratio
        self._breaker = Breaker(self._ratio)
        like, window = Rows.empty(spec.schema), spec.config.telemetry.window
        self._machine = Progressive(learner, join, like, self._breaker, window, spec.decision)
        self._contest = ChampionChallenger(self._machine, like, spec.decision)
        self.mix = ShardMix(self._contest, join)
        self._challenger_set, self._types = ChallengerSet.empty(), dict[str, str]()
        self._hashed = [self._machine.quality]
        self._outputs: OutputShape | None = None  # by which the machine decides
        self.schemas = SchemaBook()
        self._observations = spec.decoder(self.schemas)
        self._labels = spec.label_decoder(self.schemas)
        self._by_row = spec.by_row(self._labels)
        self._counts: Counter[str] = Counter()
        self._dead: Counter[str] = Counter()
        self._bad: Counter[str] = Counter()  # by field
        self._actions: Counter[str] = Counter()
        self._alarms = DriftAlarms(self._machine)
        self.drift_change = self._alarms.change(spec.drift)  # to journal with the next batch
        self.positions: dict[Partition, int] = {}
        self.stream_time: int | None = None
        self.given_up: list[str] = []  # challengers of the snapshot that could not be loaded

    @property
    def learner(self) -> Learner:
        """The learner of [model], which need not be the champion."""
        return self._machine.learner

    @property
    def join(self) -> LabelJoin:
        """The join of labels and observations."""
        return self._machine.join

    @property
    def learned(self) -> int:
        """How many labels the model has learned."""
        return self._counts["learned"]

    @property
    def records(self) -> int:
        """How many records it has processed; of a message with rows each row counts."""
        return self._counts["records"]

    @property
    def challenger_set(self) -> ChallengerSet:
        """The challengers of [model], and when one is promoted."""
        return self._challenger_set

    @property
    def champion(self) -> str:
        """Name of the challenger that is champion; "" for [model]."""
        return self._contest.champion

    @property
    def champion_learner(self) -> Learner:
        """The learner whose predictions are written."""
        every = self._contest.contestants()
        return next(c for c in every if c.name == self.champion).machine.learner

    @property
    def running(self) -> str | None:
        """The model whose steps run, "" for [model]; after an error, the model that failed."""
        return self._contest.running

    @property
    def unsaved(self) -> list[str]:
        """Models whose state must not be saved. If there is one, the shard is not saved."""
        everyone = self._contest.contestants()
        return [c.name or self.spec.model for c in everyone if not c.machine.learner.can_save]

    @property
    def pickled(self) -> bool:
        """Whether the state contains a pickle. The same model may be pickled in other bytes."""
        return any(self._river_models(c) for c in self._contest.contestants())

    @contextmanager
    def pickling(self) -> Iterator[None]:
        """Let `to_state` save river models too, whether trusted or not.

        Only for a child process of this service, which receives the state directly.
        """
        found = [m for c in self._contest.contestants() for m in self._river_models(c)]
        unsaved = [model for model in found if not model.trust_pickle]
        for learner in unsaved:
            learner.trust_pickle = True
        try:
            yield
        finally:
            for learner in unsaved:
                learner.trust_pickle = False

    @property
    def repeatable(self) -> bool:
        """Whether a replay must repeat every bit, which the randomness of river may prevent.

        A river challenger may diverge unnoticed as long as it cannot become champion.
        """
        candidates = (c for c in self._contest.contestants() if c.name in self._contest.eligible)
        return not any(map(self._river_models, candidates))

    @staticmethod
    def _river_models(contestant: Contestant) -> list[RiverClassifier]:
        every = contestant.machine.learner.with_parts()
        return [learner for learner in every if isinstance(learner, RiverClassifier)]

    def set_challengers(self, challenger_set: ChallengerSet, champion: str | None = None) -> None:
        """Use these challengers from now on. New or changed challengers start empty.

        Parameters
        ----------
        champion
            The champion from now on; None: the present one.

        Raises
        ------
        SchemaError
            The champion is not one of the challengers.
        """
        spec, contest, asked = self.spec, self._contest, challenger_set
        needed = contest.published(asked.challengers, asked.threshold, champion)
        challenger_set = asked.imported(spec.trusted, needed)
        if champion is not None:
            contest.promote(champion)
        for name in self._challenger_set.gone(challenger_set):
            contest.dismiss(name)
        for name in challenger_set.challengers:
            if name not in contest.names:
                corrections, scale = spec.config.labels.corrections, spec.config.scale
                bounds = (spec.max_classes, corrections, spec.schema, spec.defaults)
                of = None if scale.mix is None else (spec.number, scale.shards)
                learner = challenger_set.learner(name, spec.trusted, *bounds, of)
                contest.enroll(name, learner, self._counts["learned"])
        contest.threshold = inf if challenger_set.threshold is None else challenger_set.threshold
        self._have(challenger_set)
        self.given_up = asked.gone(challenger_set)

    def _have(self, challenger_set: ChallengerSet) -> None:
        """Have these challengers, which are enrolled: their types, and the scores that a digest
        covers. It leaves out those of code of the user, and of river's models."""
        self._challenger_set, self._types = challenger_set, challenger_set.types(self.spec.defaults)
        coded = challenger_set.coded()
        self._hashed = [
            each.machine.quality
            for each in self._contest.contestants()
            if not each.name
            or (each.name not in coded and not isinstance(each.machine.learner, RiverClassifier))
        ]

    def records_within(self, max_bytes: int) -> int:
        """How many records fit into one call if predictions may take `max_bytes`."""
        labels, models = self._machine.join.labels.values, 1 + len(self._contest.names)
        return max(1, max_bytes // self.spec.prediction_bytes(labels, models))

    def process(
        self,
        batch: Batch,
        now: int,
        commit: Commit = PRESENT,
        pieces: EarlierPieces | None = None,
    ) -> Outcome:
        """Predict, score and learn a batch.

        Parameters
        ----------
        batch
            Records in order. A message with many rows becomes a record for each row.
        now
            The journaled wall clock in milliseconds.
        commit
            What else is journaled.
        pieces
            The earlier pieces, if a commit is processed in several. This piece is added.
        """
        spec, last = self._follow(commit), pieces is None or pieces.last
        passed = skipped(batch, commit.skips) if commit.skips else {}
        if self._by_row is not None:
            batch, passed = self._by_row(batch, passed, commit.max_rows or spec.max_rows)
        kind, times = self._labels_in(batch), self._times(batch, now, more=not last)
        events, at, (rows, x), rejected = self._decode(batch, kind, times, passed)
        events.origin = lambda event: kept(batch, at[event])
        learned_before, counted = self._counts["learned"], Counter(self._machine.join.outcomes)
        alarms = None if self._machine.drift is None else self._alarms
        features = None if alarms is None else alarms.features(x.rows)
        asked, said, only = commit.explain, None, None
        if commit.against is not None or asked.only is not None:
            places = batch, events.row, at, len(rows)
            said, only = of_rows(*places, commit.against, asked.only)
        top = max(asked.shares, spec.outputs.explain)
        result = self._contest.process(rows, events, x.rows, features, said, explain=top, only=only)
        rejected |= self._refused(result, events, at) if result.rejected else {}
        early = self._early(result, at) if result.refused else []
        observed = _observations(events, result)
        self._count(batch, x, int(np.count_nonzero(~kind)), result, rejected, early)
        parts = [result] if pieces is None else pieces.add(result, len(events.ids))
        return Outcome(
            spec,
            batch,
            result,
            observed if isinstance(at, range) else np.array(at, dtype=np.int64)[observed],
            taken(events.ids, observed),
            learned_before,
            rejected,
            self._machine.join.outcomes - counted,
            digest(parts, self._machine.join.labels, self._hashed) if last else b"",
            self._types,
            [] if alarms is None else alarms.locate(result.alarms, batch, at, events.times),
            self._promoted(result, batch, at) if result.promotions else [],
            early,
            now,
            SeenFields.of((self._observations, self._labels), batch, kind, passed, x),
        )

    def _follow(self, commit: Commit) -> ShardSpec:
        """Use what is journaled of a commit from here on. Returns the settings."""
        spec = self.spec if commit.outputs is None else self.spec.shaped(commit.outputs)
        if commit.drift is not None:
            self._alarms.watch(commit.drift)
            self.drift_change = self._alarms.change(self.spec.drift)
        if spec.outputs is not self._outputs:
            self._machine.decide_by(spec.decision, spec.budget)
            self._outputs = spec.outputs
        ratio = commit.max_dead_letter_ratio
        self._breaker.ratio = self._ratio if ratio is None else ratio
        return spec

    def _refused(self, result: Result, events: Events, at: Sequence[int]) -> dict[int, RecordError]:
        """Index in the batch to why the label of that record is refused."""
        return {
            at[event]: self._refusal(events.labels[event], reason)
            for event, reason in result.rejected.items()
        }

    def _early(self, result: Result, at: Sequence[int]) -> list[EarlyLabel]:
        """The early labels that were refused when their observation arrived."""
        return [
            EarlyLabel(at[r.event], given_back(r.origin), self._refusal(r.label, r.reason))
            for r in result.refused
        ]

    def _refusal(self, label: object, reason: Reason) -> RecordError:
        """Why a label is a dead letter. The first learned label fixed the kind."""
        learned = self._machine.join.labels.values
        return refusal(label, reason, learned[0] if learned else None)

    def forget_early(self, refused: Sequence[tuple[str, int, list[int]]]) -> None:
        """Drop early labels at these places: topic, partition, offsets."""
        places = {(topic, number, at) for topic, number, offsets in refused for at in offsets}

        def among(raw: bytes) -> bool:
            record = given_back(raw)
            return (record.topic, record.partition, record.offset) in places

        if places:
            self._machine.join.forget_early(among)

    def _promoted(self, result: Result, batch: Batch, at: Sequence[int]) -> list[Promoted]:
        return [
            Promoted(p.name or self.spec.config.name, p.e_value, *batch.place(at[p.event]))
            for p in result.promotions
        ]

    def _labels_in(self, batch: Batch) -> NDArray[np.bool_]:
        """Which records are labels."""
        is_label = [p.topic in self.spec.label_topics for p in batch.partitions]
        return np.array(is_label, dtype=bool)[batch.source]

    def _times(self, batch: Batch, now: int, *, more: bool) -> NDArray[np.int64]:
        """The stream time at each record. A timestamp in the future does not change it.

        Before the first usable timestamp it is the wall clock. The wall clock becomes the stream
        time only at the end of a commit.
        """
        usable = credible(batch.timestamps, now)
        if usable.size and self.stream_time is not None:
            usable[0] = max(int(usable[0]), self.stream_time)
        times = np.maximum.accumulate(usable)
        out: NDArray[np.int64] = np.where(times == NEVER, now, times)
        if out.size and not (more and times[-1] == NEVER):
            self.stream_time = int(out[-1])
        elif not out.size and not more and self.stream_time is None:  # messages without rows
            self.stream_time = now
        return out

    def _decode(
        self,
        batch: Batch,
        is_label: NDArray[np.bool_],
        times: NDArray[np.int64],
        passed: dict[int, RecordError],
    ) -> tuple[Events, Sequence[int], tuple[Rows, DecodedObservations], dict[int, RecordError]]:
        """The events of usable records, their indices in the batch, the observations (rows prepared
        for the learner, and all as decoded), and the errors of the others."""
        usable = np.ones(len(batch), dtype=np.bool_)
        usable[list(passed)] = False
        keys, values, skip = batch.keys, batch.values, self.spec.config.input.tombstones == "skip"
        places = [np.flatnonzero(usable & chosen) for chosen in (~is_label, is_label)]
        observed, labels = (each.tolist() for each in places)
        if isinstance(values, ColumnRecords) and not passed:
            x, y = values.observations, values.labels
        else:
            x = self._observations.decode(chosen(keys, places[0]), chosen(values, places[0]))
            y = self._labels.decode(chosen(keys, places[1]), chosen(values, places[1]))
        rows = self.learner.prepare(x.rows)
        for k, error in self.learner.refusals(rows).items():
            x.rejected.setdefault(k, RecordError(error.reason, error.detail))
        for each in (rows, x.rows):
            each.blank(list(x.rejected))
        rejected = passed | {observed[k]: e for k, e in x.rejected.items()}
        rejected |= {labels[k]: e for k, e in y.rejected.items()}
        events, at = in_order(times, (places[0], x), (places[1], y), rejected)
        return events, at, (rows, x), without_ignored(rejected, values, self._counts, skip)

    def _count(
        self,
        batch: Batch,
        x: DecodedObservations,
        observations: int,
        result: Result,
        rejected: dict[int, RecordError],
        early: list[EarlyLabel],
    ) -> None:
        counts = self._counts
        counts.update(records=len(batch), observations=observations, learned=result.learned)
        counts.update(predictions=len(result.predictions), cut=x.cut, converted=x.converted)
        self._bad.update(v.field for k, bad in x.bad.items() if k not in x.rejected for v in bad)
        if self.spec.parser:
            self._bad.update(faults(x.rows, self.spec.schema))
        if self.spec.decision is not None:
            acts = self.spec.decision.decide_many(result.predictions)
            known = result.predictions.known > 0  # before the first label there is no decision
            counts["rejected"] += int(np.count_nonzero(acts.rejected & known))
            chosen = np.bincount(acts.chosen[acts.chosen >= 0], minlength=len(acts.actions))
            for action, n in zip(acts.actions, chosen.tolist(), strict=True):
                self._actions[named(action)] += n
        self._dead.update(error.reason for error in rejected.values())
        self._dead.update(label.error.reason for label in early)
        self.positions |= {partition: end for partition, (_, end, _) in batch.ranges.items()}

    def view(self) -> ShardView:
        """A frozen copy for pages and metrics."""
        join = self._machine.join
        table = join.reporters if isinstance(join, ReportedJoin) else None
        everyone = {c.name: c for c in self._contest.contestants()}
        champion = everyone.pop(self.champion)
        keys, named = champion.machine.keys, self._name_and_type(champion.name)
        return ShardView(
            self.spec.config.name,
            named[1],
            self.spec.number,
            self._counts["observations"],
            self._counts["predictions"],
            self._counts["learned"],
            dict(join.outcomes),
            dict(self._dead),
            {**self.learner.overflows, "labels": join.labels.overflow, **self.schemas.overflow}
            | ({} if table is None else {"reporters": table.forgotten})
            | ({} if keys is None else {"scored_keys": keys.forgotten}),
            join.pending,
            join.early,
            champion.machine.view(),
            dict(self.positions),
            self.stream_time,
            None if champion.risk is None else self._risk_view(champion.risk),
            self._breaker.open,
            self._breaker.dead,
            self._label_view(champion.machine),
            self._counts["records"],
            named,
            [self._challenger_view(c) for c in everyone.values()],
            self._contest.promotions,
            None if self._machine.drift is None else self._alarms.view(self.spec.config.name),
            self.learner.expert_weights,
            bad_values=self._bad_values() if self._keeps_bad else {},
            mail_faults=faults_of(self._bad) if self.spec.parser else {},
            budget=None if self._machine.budget is None else self._machine.budget.view(),
            imported=self.spec.imported[0],
            reporters=None if table is None else table.view(),
            imported_labels=self.spec.imported[1],
            mix=None if self.spec.config.scale.mix is None else self.mix.view(),
            keys=None if keys is None else keys.frozen(),
            keys_on_disk=keys_view(self.learner),
            read_otherwise=dict(self._counts),
        )

    def _bad_values(self) -> dict[str, int]:
        """Declared field to the number of its values that were taken as missing."""
        return {f.name: self._bad[f.name] for f in self.spec.schema.fields}

    def _label_view(self, champion: Progressive) -> LabelView:
        join, delays = self._machine.join, self._machine.join.label_delays
        estimate, every = champion.estimate.view(), tuple(delays.delays)
        return LabelView(every, delays.delay_ms, delays.coverage, join.waited, estimate)

    def _challenger_view(self, of: Contestant) -> ChallengerView:
        return ChallengerView(
            *self._name_and_type(of.name),
            self._counts["learned"] - of.missed,
            of.skipped,
            of.machine.view(),
            (of.comparison or Comparison()).view(),
        )

    def _name_and_type(self, name: str) -> tuple[str, str]:
        """Name and type of a model, as predictions show them."""
        if name:
            return name, self._types[name]
        return self.spec.config.name, self.spec.model

    def _risk_view(self, risk: OverallRisk) -> RiskView:
        rejected, actions = self._counts["rejected"], dict(self._actions)
        by_window = dict(zip(windows(risk.window), risk.windows, strict=True))
        return RiskView(risk.value, risk.count, rejected, actions, risk.constant, by_window)

    def copied(self, journal: Partition, position: int) -> ModelCopy:
        """A copy of what the shard predicts with, at this journal position. O(bytes)."""
        learner, budget = self.champion_learner.predictor, self._machine.budget
        with self.pickling():
            kept = copied(learner)
        saved = None if budget is None else budget.to_state()
        named, learned = self._name_and_type(self.champion), self._counts["learned"]
        return ModelCopy(
            self.spec,
            *named,
            *kept,
            saved,
            learned,
            tuple(self._machine.join.labels.values),
            journal,
            position,
            self.repeatable and not self.unsaved,
            tuple(self.schemas),
        )

    def to_state(self) -> State:
        """The whole state, as a copy."""
        header = {
            "counts": dict(self._counts),
            "dead": dict(self._dead),
            "bad": dict(self._bad),
            "actions": dict(self._actions),
            "positions": [[p.topic, p.number, at] for p, at in sorted(self.positions.items())],
            "stream_time": self.stream_time,
        }
        if mix := self.mix.to_header():
            header["mix"] = mix
        parts = {"shard": State(header), "machine": self._machine.to_state()}
        parts["breaker"] = self._breaker.to_state()
        if len(self.schemas):
            parts["schemas"] = State(self.schemas.to_header())
        if self._machine.risk is not None:
            parts["risk"] = self._machine.risk.to_state()
        if self._machine.budget is not None:
            parts["budget"] = self._machine.budget.to_state()
        if (
            self._contest.names
            or self._contest.promotions
            or self._challenger_set.threshold is not None
        ):
            blocks = {name: self._challenger_set.challengers[name] for name in self._contest.names}
            rule = {"threshold": self._challenger_set.threshold, "champion": self.champion}
            challenger_set = {"challengers": blocks, **rule}
            parts |= {"challengers": State(challenger_set), "contest": self._contest.to_state()}
        return State.join(parts | self._alarms.to_state())

    def load_state(self, state: State) -> None:
        """Load what `to_state` returned.

        Raises
        ------
        StateError
            It is damaged, or of another model. This shard is then unusable.
        """
        header = state.nested("shard").header
        self._counts = Counter(header["counts"])
        self._dead = Counter(header["dead"])
        self._bad = Counter(header["bad"])
        self.mix.load(header.get("mix", {}))
        self._actions = Counter(header["actions"])
        self.positions = {Partition(t, n): at for t, n, at in header["positions"]}
        self.stream_time = header["stream_time"]
        self._machine.load_state(state.nested("machine"))
        self._breaker.load_state(state.nested("breaker"))
        # Without [decision] a snapshot has no risk. The configuration may add it at any start.
        if self._machine.risk is not None and "risk" in state.header:
            self._machine.risk.load_state(state.nested("risk"))
        saved = state.nested("budget") if "budget" in state.header else None
        self._machine.budget = None if saved is None else FalsePositiveBudget.from_state(saved)
        self._alarms.load_state(state)
        self.drift_change, self._outputs = self._alarms.change(self.spec.drift), None
        if "schemas" in state.header:
            self.schemas.load(state.nested("schemas").header)
        if "challengers" in state.header:
            self._load_challengers(state)

    def _load_challengers(self, state: State) -> None:
        saved = state.nested("challengers").header
        challenger_set = ChallengerSet(saved["challengers"], saved["threshold"])
        self.set_challengers(challenger_set)
        # A challenger that is no longer trusted is dropped, unless it can be champion.
        kept = {saved["champion"], *self._contest.eligible, *self.spec.trusted.pickles}
        gone = [*self.given_up, *(n for n in self._challenger_set.pickled() if n not in kept)]
        self._contest.load_state(state.nested("contest"), gone)
        self._have(challenger_set.without(gone))
        self.given_up = gone

    def fingerprint(self) -> str:
        """SHA-256 of the state. Shards with equal fingerprints are equal, bit for bit."""
        return self.to_state().fingerprint()


def _observations(events: Events, result: Result) -> NDArray[np.int64]:
    """The events of observations that were predicted."""
    predicted = np.asarray(events.row) >= 0
    predicted[list(result.rejected)] = False
    return np.flatnonzero(predicted)
