"""Create the empty shard that a configuration describes, and give it the records that wait when it
begins with a model of their history. Pure.

Rule: such an observation was never published, and the model has learned from later records. So what
the model says of it is not a prediction: its label is learned, and counts as unscored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from consumers.base.errors import ConfigError
from consumers.base.records import Batch
from consumers.config import Config
from consumers.config.auto import DEFAULTS, Defaults, auto_of, learner_type
from consumers.shard.challengers import trusted
from consumers.shard.models import (
    build,
    build_model,
    check_able,
    check_fields,
    explainable,
    limited,
)
from consumers.shard.shape import OutputShape
from consumers.shard.shard import Shard
from consumers.shard.spec import ShardSpec
from stream.data.schema import Schema
from stream.data.state import State

__all__ = [
    "check_drift",
    "let_wait",
    "shard_of",
    "with_settings",
]


def shard_of(
    config: Config,
    schema: Schema,
    *,
    outputs: OutputShape | None = None,
    number: int = 0,
    defaults: Defaults | None = None,
    wire: str | None = None,
    learned: State | None = None,
    imported: tuple[str, int] = ("", 0),
) -> Shard:
    """The empty shard of a configuration.

    Parameters
    ----------
    outputs
        The settings of outputs; None: those of the configuration.
    defaults
        Those of its journal; None: those of this version.
    wire
        The format of its records; None: that of the configuration.
    learned, imported
        The state of the model with which it begins, the origin of that model, and its labels.
    """
    defaults = Defaults(auto_of(schema)) if defaults is None else defaults
    learner = build_model(config, defaults, number)
    check_fields(config.model, schema)
    classes = limited(config.model, learner, schema)
    if learned is not None:
        learner.load_state(learned)
    check_able(config, learner)
    check_drift(config, schema)
    spec = ShardSpec(
        config,
        schema,
        learner_type(config.model, defaults),
        OutputShape.of(config) if outputs is None else outputs,
        config.input.format if wire is None else wire,
        number,
        classes,
        defaults,
        trusted(config),
        imported,
        config.input.changes if wire is None else (),  # a file has the rows
    )
    return Shard(spec, learner)


def check_drift(config: Config, schema: Schema) -> None:
    """ConfigError if a feature of [drift] is not numeric."""
    try:
        config.drift.of(schema)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def with_settings(
    config: Config, identity: Mapping[str, Any], defaults: Defaults = DEFAULTS
) -> Config:
    """The configuration with the learned settings of a journaled identity."""
    own = config.with_settings(identity)
    if own is not config and not explainable(build(own.model, defaults)):
        # [output] explain is meant for the present model. What an earlier one wrote is journaled.
        own = own.model_copy(update={"output": own.output.model_copy(update={"explain": 0})})
    return own


def let_wait(shard: Shard, other: Shard, batch: Batch, time: int) -> None:
    """Have the records of a batch wait in a shard that has processed nothing.

    Parameters
    ----------
    shard, other
        Two equal shards, except that the other one has no horizon and no bounds of what waits. It
        must not be used afterwards.
    batch
        The records, in the order of their times.
    time
        The stream time in ms at which the shard continues. Records of the batch may be later: a
        history may have labels of a later time than its observations, or of an earlier one.

    Notes
    -----
    Counters and scores begin with the records of the service, so only what waits is taken over, and
    what a record of the batch has taught by its counterpart.
    """
    other.process(batch, int(batch.timestamps.max()))
    empty, used = _parts(shard.to_state()), _parts(other.to_state())
    header = {**empty["shard"].header, "stream_time": time}
    machine, processed = _parts(empty["machine"]), _parts(used["machine"])
    counted = {name: machine["join"].header[name] for name in ("outcomes", "account")}
    join = {**processed["join"].header, **counted, "time": time}
    machine["join"] = State(join, processed["join"].arrays)
    machine["learner"] = processed["learner"]
    rows = dict(processed["waiting"].arrays)
    rows["predicted"] = np.full_like(rows["predicted"], -1)
    rows |= {name: np.zeros_like(rows[name]) for name in ("proba", "prior", "squares")}
    machine["waiting"] = State(processed["waiting"].header, rows)
    shard.load_state(State.join({**empty, "shard": State(header), "machine": State.join(machine)}))


def _parts(state: State) -> dict[str, State]:
    return {name: state.nested(name) for name in state.header}
