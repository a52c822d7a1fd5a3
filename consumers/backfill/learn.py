"""From a history to a model file and what the journal says about the history.

    1. plan    the manifest: all splits, before anything is learned
    2. fit     each split, by an engine, in any order
    3. fold    merge the models in the order of the splits
    4. wait    collect the records that still wait for their counterpart

Nothing is written here. `consumers.service.importing` begins the journal with the result.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from consumers.backfill import files, logs
from consumers.backfill.fit import Fitted, Fold, Job, empty_shard, needs_order, newest
from consumers.backfill.manifest import Manifest, Reading
from consumers.base.errors import ConfigError
from consumers.base.fields import TimeField
from consumers.base.records import Partition, Record
from consumers.base.units import shown_url
from consumers.codecs.account import FieldAccount, FieldsView
from consumers.config import Config
from consumers.config.learner import uses_code, uses_river
from consumers.config.load import log_of
from consumers.config.sample import SAMPLE_SIZE
from consumers.files.places import is_url
from consumers.files.source import FileSource
from consumers.journal import model_parts
from consumers.offline.feed import encoded
from consumers.service.beginning import schema_from, schema_of_inputs
from consumers.service.importing import HistoryToImport, ModelToImport, checked
from consumers.service.live import Sources
from consumers.shard.models import one_vs_rest
from consumers.snapshots.exported import model_file_of
from consumers.transports.protocol import Log
from stream.data.schema import Label, Schema, plain_label
from stream.data.state import State
from stream.errors import InvalidRecordError
from stream.learner.base import Learner

__all__ = ["HistoryPlan", "Learned", "learned", "plan_files", "plan_log"]

SPLIT = 250_000  # records of a split: seconds of work, and a few hundred MB at most


@dataclass(frozen=True, slots=True)
class HistoryPlan:
    """A history that will be learned.

    Parameters
    ----------
    job
        What every split needs, with the manifest.
    ends
        The offsets at which the service continues after a history in a log; None: it is in files.
    absent
        Declared fields, and the id, that the first records of files do not have.
    """

    job: Job
    ends: dict[Partition, int] | None
    absent: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Learned:
    """A history that was learned.

    Parameters
    ----------
    model, history
        The model, and what the journal says about its history.
    splits
        The splits, in order, without their models.
    waiting, evicted
        How many records still wait, and how many more would beyond the bounds of what waits.
    """

    model: ModelToImport
    history: HistoryToImport
    splits: Sequence[Fitted]
    waiting: int
    evicted: int

    def total(self, name: str) -> int:
        """The sum of one of `Fitted.counts` over the splits."""
        return sum(split.counts[name] for split in self.splits)

    @property
    def fields(self) -> FieldsView | None:
        """The account of the fields of all records; None without records."""
        views = [split.fields for split in self.splits if split.fields is not None]
        if not views:
            return None
        account = FieldAccount(views[0].names)
        for view in views:
            account.join(view)
        return account.view()


def plan_log(
    config: Config,
    log: Log,
    found: Sources,
    *,
    until: int | None = None,
    as_of: int | None = None,
    size: int = SPLIT,
) -> HistoryPlan:
    """The history in the input topics of a shard.

    Parameters
    ----------
    until, as_of
        Where observations and labels end, times in ms; None: at the present end, and at `until`.
    size
        The records of a split.

    Raises
    ------
    ConfigError
        The records show no features, or their format needs a service.

    Notes
    -----
    A shard whose partitions have no observations before `until` has no splits.
    """
    logs.check_format(config)
    _check_model(config)
    schema = schema_of_inputs(config, log, found)
    why = needs_order(config, schema)
    as_of = until if as_of is None else as_of
    _check_order(why, until, as_of)
    now = time.time_ns() // 1_000_000
    splits, labels, ends = logs.planned(
        log, found, until=until, as_of=as_of, now=now, size=size, ordered=bool(why)
    )
    shard = empty_shard(config, schema)
    manifest = Manifest(
        service=config.name,
        label=_common(logs.sampled_labels(log, shard, splits, labels)),
        shard=found.journal.number,
        source=f"{config.input.observations} on {shown_url(config.input.transport)}",
        identity=config.identity(),
        fields=[(f.name, f.kind) for f in schema.fields],
        splits=splits,
        labels=labels,
        ordered=why,
        until=until,
        as_of=as_of,
        end=logs.end_of(log, now, splits, labels),
    )
    return HistoryPlan(Job(config, manifest), ends)


def plan_files(
    config: Config,
    place: str,
    labels: str | None = None,
    reading: Reading = Reading(),  # noqa: B008  immutable
    *,
    until: int | None = None,
    as_of: int | None = None,
    size: int = SPLIT,
) -> HistoryPlan:
    """The history in files.

    Parameters
    ----------
    place, labels
        The places of the files of the history and of their labels; None: labels are inside.
    reading
        How records are read.
    until, as_of, size
        See `plan_log`.

    Raises
    ------
    ConfigError
        There are no such files, or `until` is given and the records have no time.
    """
    if until is not None and reading.time_field is None:
        raise ConfigError("--until needs the time of the records: give --time-field")
    if as_of is not None and reading.label_time is None:
        raise ConfigError("--as-of needs the time of the labels: give --label-time")
    _check_model(config)
    source = files.opened(place, reading)
    beside = None if labels is None else FileSource(labels)
    draft = Manifest(
        service=config.name,
        shard=0,
        source=source.name,
        identity=config.identity(),
        fields=[],
        splits=files.planned(source, size=size, ordered=True),
        files=files.marked(source),
        label_files=[] if beside is None else files.marked(beside),
        reading=reading,
        until=until,
        as_of=until if as_of is None and reading.label_time else as_of,
    )
    schema = _schema_of_files(config, draft, source)
    history = files.FileHistory(config, draft, schema, source, beside)
    why = needs_order(config, schema)
    labels_found = history.sampled_labels(draft.splits[0])
    if not labels_found:
        raise ConfigError(_no_label(reading.label or config.input.label, source))
    found = {
        "fields": [(f.name, f.kind) for f in schema.fields],
        "splits": files.planned(source, size=size, ordered=bool(why)),
        "label": _common(labels_found),
        "ordered": why,
    }
    _check_order(why, until, draft.as_of)
    places = (_absolute(place), None if labels is None else _absolute(labels))
    absent, id_ = history.absent(draft.splits[0]), reading.id or config.input.id
    if beside is not None and id_ in absent:
        raise ConfigError(
            f"{source}: no record has the id in field {id_!r}, by which labels are joined; name it "
            "with --id-field"
        )
    return HistoryPlan(Job(config, replace(draft, **found), *places), None, absent)


def _common(values: Iterable[object]) -> Label | None:
    """The most common label; None without labels."""
    counts: Counter[tuple[type, Label]] = Counter()
    for value in values:
        with suppress(InvalidRecordError):
            label = plain_label(value)
            counts[type(label), label] += 1
    return counts.most_common(1)[0][0][1] if counts else None


def _check_order(why: str, until: int | None, as_of: int | None) -> None:
    """ConfigError if records that are learned in order would end at two times."""
    if why and as_of is not None and as_of != until:
        raise ConfigError(f"{why}, so observations and labels end together: remove --as-of")


def _check_model(config: Config) -> None:
    """ConfigError if the model cannot be written to the journal: before anything is learned."""
    block = {"type": config.model.type, "parameters": config.model.parameters}
    if uses_code(block):
        raise ConfigError(
            f"a model of {config.model.type} cannot be written to a journal, because its code is "
            "not in any file; start the service at [input] start instead"
        )
    if uses_river(block) and not config.model.trust_pickle:
        raise ConfigError(
            f"the state of {config.model.type} is a pickle; set [model] trust_pickle = true if "
            "you trust what you learn from"
        )


def _no_label(field: str | None, source: FileSource) -> str:
    """Where labels were looked for inside the records, and how to name another place."""
    if field is None:
        return (
            f"{source}: neither --label nor [input] label names the field of the label; give "
            "--label FIELD, or --labels with files of labels"
        )
    return (
        f"{source}: the first records have no label in the field {field!r}; name its field with "
        "--label"
    )


def _absolute(place: str) -> str:
    """A place as other processes find it."""
    return place if is_url(place) else str(Path(place).absolute())


def _schema_of_files(config: Config, draft: Manifest, source: FileSource) -> Schema:
    """The declared features; without any, those that the first records show."""
    if config.declared_schema is not None:
        return config.declared_schema
    history = files.FileHistory(config, draft, Schema(()), source, None)
    reading = draft.reading
    times = (TimeField.of(f).name for f in (reading.label_time, reading.time_field) if f)
    beside = {reading.label, *times, *reading.offsets}
    records = islice(history.records(draft.splits[0].spans), SAMPLE_SIZE)  # type: ignore[arg-type]
    rest = ({name: v for name, v in r.items() if name not in beside} for r in records)
    return schema_from(map(encoded, rest), config)


def learned(plan: HistoryPlan, fits: Iterable[Fitted]) -> Learned:
    """The model of a history.

    Parameters
    ----------
    plan
        The history.
    fits
        Its splits, learned in any order.

    Raises
    ------
    ConfigError
        Two models cannot be merged, or together they have too many classes.
    """
    job = plan.job
    empty = empty_shard(job.config, job.schema).learner
    fold, done = Fold(len(job.manifest.splits)), list[Fitted]()
    left: list[Record] = []
    evicted = 0
    for fitted in fits:
        learner = empty.restarted(proven=True)
        learner.load_state(State.from_bytes(fitted.state))
        fold.add(fitted.number, learner)
        # What waits is bounded all the time. The newest ones of all are the newest of the newest.
        left, lost = newest([*left, *fitted.waiting], job.config.labels)
        evicted += lost + fitted.evicted
        fitted.state, fitted.waiting = b"", []
        done.append(fitted)
    done.sort(key=lambda fitted: fitted.number)
    count = sum(fitted.counts["learned"] for fitted in done)
    data = _model_file(job, fold.result() if done else empty, count)
    left, lost = newest([*left, *_unmatched(plan, done)], job.config.labels)
    ends = _ends(job.config, done) if job.manifest.reading.offsets else plan.ends
    history = HistoryToImport(
        job.manifest.to_bytes(),
        model_parts.to_bytes(_in_order(job, left)) if left else None,
        ends,
        job.manifest.until,
        job.manifest.as_of,
        job.manifest.cut,
        ends is not None,
    )
    return Learned(checked(job.config, data), history, done, len(left), evicted + lost)


def _ends(config: Config, done: Sequence[Fitted]) -> dict[Partition, int]:
    """Where the files of all splits end in the topic of observations."""
    out: dict[Partition, int] = {}
    for number, end in (at for fitted in done for at in fitted.ends):
        partition = Partition(config.input.observations, number)
        out[partition] = max(out.get(partition, 0), end)
    return out


def _model_file(job: Job, learner: Learner, count: int) -> bytes:
    """The learner as a model file of this service."""
    config, manifest = job.config, job.manifest
    source = {
        "service": config.name,
        "shard": manifest.shard,
        "model": config.name,
        "position": 0,
        "learned": count,
        "history": manifest.source,
        "manifest": manifest.sha256,
    }
    several = one_vs_rest(config.model, None)
    return model_file_of(config, job.schema, learner, source, several=several)


def _in_order(job: Job, left: Sequence[Record]) -> list[Record]:
    """The records that still wait, in the order in which a service processes them."""
    topics = {span.topic for span in job.manifest.labels} or {files.label_topic(job.config)}
    return sorted(left, key=lambda r: (r.timestamp, r.topic in topics, r.topic, r.partition))


def _unmatched(plan: HistoryPlan, done: Sequence[Fitted]) -> list[Record]:
    """The newest labels whose observation is in no split."""
    job, manifest = plan.job, plan.job.manifest
    if plan.ends is None or not manifest.labels or manifest.ordered:
        return []
    matched: dict[Partition, set[int]] = {}
    for fitted in done:
        for topic, number, offsets in fitted.matched:
            matched.setdefault(Partition(topic, number), set()).update(offsets)
    shard = empty_shard(job.config, job.schema)
    with closing(logs.LogHistory(manifest, log_of(job.config), job.config)) as history:
        return history.unmatched(shard, matched)


def totals(done: Sequence[Fitted], name: str) -> dict[str, int]:
    """The sums over all splits of `dead_letters`, `overflows` or `outcomes`."""
    out: Counter[str] = Counter()
    for fitted in done:
        out.update(getattr(fitted, name))
    return dict(out)
