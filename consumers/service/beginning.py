"""Journal record 0: the beginning of a service, with an empty model or with an imported one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing, suppress
from typing import Any

from consumers.base.errors import ConfigError, RecordError
from consumers.base.records import Partition
from consumers.codecs.json import parse
from consumers.config import Config, infer, schema_of
from consumers.config.auto import DEFAULTS, Defaults, auto_of, learner_type
from consumers.config.sample import SAMPLE_SIZE
from consumers.journal import records as journal
from consumers.journal.records import History, IdentityRecord, ImportedModel, MovedFrom
from consumers.schemas.translate import Translator
from consumers.service.live import Sources
from consumers.transports.protocol import Log, Owner
from stream.data.schema import Schema

__all__ = ["begin", "schema_from", "schema_of_inputs", "starts_of_inputs"]


def begin(
    config: Config,
    log: Log,
    owner: Owner,
    found: Sources,
    *,
    now: int,
    replaced: list[str],
    schema: Schema | None = None,
    defaults: Defaults | None = None,
    model: ImportedModel | None = None,
    history: History | None = None,
    starts: Mapping[Partition, int] | None = None,
    moved: MovedFrom | None = None,
) -> int:
    """Write journal record 0. Returns the journal's end after it.

    Parameters
    ----------
    replaced
        Traces of an earlier run.
    schema, defaults, model, history
        Those of an imported model.
    starts
        Where consumption starts; None: where `[input] start` says.
    moved
        The shards of the service that had another number.
    """
    # Ids before offsets, so that a topic recreated in between has another id at the next check.
    described = log.describe(sorted({p.topic for p in found.inputs}))
    if starts is None:
        starts = starts_of_inputs(config, log, found)
    schema = schema or schema_of_inputs(config, log, found)
    entry = IdentityRecord(
        config.name,
        found.journal.number,
        config.identity(),
        [(f.name, f.kind) for f in schema.fields],
        [(p.topic, p.number, at) for p, at in sorted(starts.items())],
        born=uuid.uuid4().hex,
        replaces=replaced,
        topics={t: known.id for t, known in described.items() if known.id},
        auto=dict(auto_of(schema) if defaults is None else defaults.auto),
        model=model,
        history=history,
        moved=moved,
    )
    return owner.commit([], journal.written(entry, found.journal, now), starts) + 1


def starts_of_inputs(config: Config, log: Log, found: Sources) -> Mapping[Partition, int]:
    """The offsets that `[input] start` gives."""
    if config.input.start == "earliest":
        return log.beginning_offsets(found.inputs)
    if config.input.start == "latest":
        return log.end_offsets(found.inputs)
    return log.offsets_at(found.inputs, config.input.start_ms or 0)


def schema_of_inputs(config: Config, log: Log, found: Sources) -> Schema:
    """The declared features; without any, those that the first observations in the topic show.

    Raises
    ------
    ConfigError
        There are no observations yet, or none with a usable feature.
    """
    if config.declared_schema is not None:
        return config.declared_schema
    documents = Translator(config, config.input.reader_schema).document
    with closing(_sample(config, log, found)) as values:
        return schema_from(values, config, documents)


def schema_from(
    values: Iterable[bytes | None],
    config: Config,
    documents: Callable[[bytes | None], Mapping[str, Any]] = parse,
) -> Schema:
    """The features that the first observations in the topic show. Texts are not inferred.

    `documents` decodes a record.

    Raises
    ------
    ConfigError
        There are no observations yet, or none with a usable feature.
    """
    records: list[Mapping[str, Any]] = []
    for value in values:
        with suppress(RecordError):
            records.append(documents(value))
        if len(records) == SAMPLE_SIZE:  # hundreds of partitions have many times as many
            break
    exclude = {config.input.id, config.input.label or config.input.id}
    many = learner_type(config.model, DEFAULTS) == "auto"
    fields = infer(records, exclude, text=False, many=many, missing=config.values.texts)
    schema = schema_of(fields)
    if not schema.fields:
        raise ConfigError(
            f"[features] is missing, and the {len(records)} observations of "
            f"{config.input.observations} show no feature; declare [features] or fill the topic "
            "first"
        )
    return schema


def _sample(config: Config, log: Log, found: Sources) -> Generator[bytes | None, None, None]:
    """The first observations of each partition, read without consuming them."""
    parts = [p for p in found.inputs if p.topic == config.input.observations]
    starts, ends = log.beginning_offsets(parts), log.end_offsets(parts)
    ends = {p: min(end, starts[p] + SAMPLE_SIZE) for p, end in ends.items()}
    with closing(log.read(starts, ends)) as chunks:
        for fetched in chunks:
            yield from fetched.values
