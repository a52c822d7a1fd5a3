"""Create the empty shard that a configuration describes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib.metadata import version
from typing import Any

from consumers.base.errors import ConfigError
from consumers.codecs.registry import wire_format
from consumers.config import Config
from consumers.config.auto import DEFAULTS, Defaults, auto_of, learner_type
from consumers.shard.challengers import trusted
from consumers.shard.models import (
    build,
    build_model,
    check_fields,
    correcting,
    explainable,
    explained,
    limited,
)
from consumers.shard.shard import Shard, ShardSpec
from stream.data.schema import Schema
from stream.data.state import State
from stream.drift import DriftRule
from stream.learner.base import Learner

__all__ = ["shard_of", "with_settings"]


def shard_of(
    config: Config,
    schema: Schema,
    *,
    label_field: str | None,
    label_topics: Collection[str],
    predictions_partitions: int = 1,
    largest_dead_letter: int | None = None,
    number: int = 0,
    defaults: Defaults | None = None,
    wire: str | None = None,
    predictions_schema: int = 0,
    learned: State | None = None,
    imported: tuple[str, int] = ("", 0),
) -> Shard:
    """The empty shard of a configuration. `defaults`: those of its journal, or of this version.
    `wire`: by default the configured wire format. `learned`: the state of the model with which it
    begins; `imported`: the origin of that, and its labels."""
    changes = config.input.changes if wire is None else ()  # a file has the rows
    wire = config.input.format if wire is None else wire
    defaults = Defaults(auto_of(schema)) if defaults is None else defaults
    learner, classes = _learner(config, schema, defaults, number)
    if learned is not None:
        learner.load_state(learned)
    spec = ShardSpec(
        name=config.name,
        model=learner_type(config.model, defaults),
        schema=schema,
        id_field=config.input.id,
        label_field=label_field,
        label_topics=label_topics,
        predictions=config.predictions_topic,
        dead_letters=config.dead_letters_topic,
        predictions_partitions=predictions_partitions,
        top=config.output.top,
        explain=explained(config.output.explain, learner, config.model),
        largest_dead_letter=largest_dead_letter,
        number=number,
        max_pending=config.labels.max_pending,
        max_pending_bytes=config.labels.max_pending_bytes,
        horizon=config.labels.horizon_ms,
        max_classes=classes,
        defaults=defaults,
        missing=config.values.texts,
        as_text=config.input.numbers_as_text,
        changes=changes,
        skip_tombstones=config.input.tombstones == "skip",
        keep_bad=config.values.on_bad_value == "missing",
        corrections=correcting(config.labels.corrections, learner),
        silence=config.labels.meaning_of_silence,
        reporter_field=config.labels.reporter,
        reporters=None if config.labels.reporter is None else config.reporters.rules,
        max_dead_letter_ratio=config.output.max_dead_letter_ratio,
        version=version("headwater"),
        decision=config.decision.rule,
        budget=config.decision.budget,
        window=config.telemetry.window,
        trusted=trusted(config),
        drift=watched(config, schema),
        wire=wire,
        reader_schema=config.input.reader_schema,
        mail_field=config.input.mail_field(wire),
        parser=config.parser,
        predictions_schema=predictions_schema,
        cloudevents=config.output.cloudevents,
        imported=imported,
        mixes=0 if config.scale.mix is None else config.scale.shards,
        max_rows=0 if wire_format(wire).rows is None else config.commit.usual_records,
    )
    return Shard(spec, learner)


def _learner(
    config: Config, schema: Schema, defaults: Defaults, number: int
) -> tuple[Learner, int]:
    """The empty learner, and how many classes it may have."""
    learner = build_model(config, defaults, number)
    check_fields(config.model, schema)
    return learner, limited(config.model, learner, schema)


def with_settings(
    config: Config, identity: Mapping[str, Any], defaults: Defaults = DEFAULTS
) -> Config:
    """The configuration with the learned settings of a journaled identity."""
    own = config.with_settings(identity)
    if own is not config and not explainable(build(own.model, defaults)):
        # [output] explain is meant for the present model. What an earlier one wrote is journaled.
        own = own.model_copy(update={"output": own.output.model_copy(update={"explain": 0})})
    return own


def watched(config: Config, schema: Schema) -> DriftRule:
    """The [drift] rule of the configuration. ConfigError if a feature of it is not numeric."""
    try:
        return config.drift.of(schema)
    except ValueError as error:
        raise ConfigError(str(error)) from None
