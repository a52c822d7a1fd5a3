"""Fewer shards by merging the models of the old ones.

Nothing is learned again, so the inputs need not have the records any more, except those that still
wait for their counterpart. Scores start empty.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np

from consumers.backfill.fit import Fold, needs_order
from consumers.base.counts import counted
from consumers.base.errors import ConfigError
from consumers.base.records import Fetched, Partition, Record
from consumers.codecs.registry import wire_format
from consumers.journal import model_parts
from consumers.service.importing import HistoryToImport, ModelToImport, checked, import_model
from consumers.service.live import LiveShard, Sources
from consumers.service.recovery import rebuild
from consumers.shard.models import one_vs_rest
from consumers.shard.shard import Shard
from consumers.snapshots.exported import model_file_of
from consumers.snapshots.store import open_store
from consumers.timetravel.old_shards import OldShard, OldShards
from consumers.transports.protocol import Log
from stream.data.schema import Schema

__all__ = ["begin_joined", "check_joinable", "joined"]


class Joined(NamedTuple):
    """A new shard: its partitions, its model, what its journal says of it, and how many records
    wait. `lost` is how many more waited whose records the inputs no longer have."""

    found: Sources
    model: ModelToImport
    history: HistoryToImport
    waiting: int
    lost: int


def check_joinable(old: OldShards) -> None:
    """Check that the models of the old shards can be merged.

    Raises
    ------
    ConfigError
        They cannot.
    """
    shards, wanted = old.config.scale.shards, old.new.scale.shards
    if shards % wanted:
        fits = ", ".join(str(n) for n in range(1, shards) if shards % n == 0)
        raise ConfigError(
            f"--merge joins whole shards, so of {shards} shards it can make {fits}; without it "
            "the records are learned again"
        )
    wire = wire_format(old.config.input.format)
    if wire.schema_type or wire.rows is not None:
        raise ConfigError(
            "--merge reads what waits from topics of JSON, text or mail, and [input] format is "
            f"{wire.name!r}: leave --merge out"
        )
    first = old.shards[0].live
    if why := needs_order(old.config, Schema(first.fields)):
        raise ConfigError(f"{why}, so models cannot be merged: leave --merge out")


def joined(old: OldShards, number: int) -> Joined:
    """The new shard of this number.

    Raises
    ------
    ConfigError
        Together the models have too many classes.
    """
    inputs = tuple(old.inputs(number))
    journaled = Partition(old.new.journal_topic, number)
    found = replace(old.shards[0].found, inputs=inputs, journal=journaled)
    parts = [o for n, o in enumerate(old.shards) if n % old.new.scale.shards == number]
    records, lost = list[Record](), 0
    for part in parts:
        some, gone = _waiting(old.log, part)
        records += some
        lost += gone
    order = found.label_topics
    records.sort(key=lambda r: (r.timestamp, r.topic in order, r.topic, r.partition, r.offset))
    positions = {p: at for o in parts for p, at in o.live.shard.positions.items()}
    times = [o.live.shard.stream_time for o in parts]
    prints = [(o.live.position, o.live.shard.learner.fingerprint()) for o in parts]
    history = HistoryToImport(
        msgspec.json.encode({"journal": old.config.journal_topic, "merged": prints}),
        model_parts.to_bytes(records) if records else None,
        {p: positions[p] for p in inputs if p in positions},
        None,
        None,
        max((time for time in times if time is not None), default=None),
        offsets=True,
        moved=old.origin,
    )
    return Joined(found, _model(old, number, parts), history, len(records), lost)


def begin_joined(old: OldShards, new: Joined, now: int) -> LiveShard:
    """Begin the journal of a new shard. The old ones are closed. Returns the shard.

    Raises
    ------
    ConfigError
        Its journal is not empty, or its inputs hold labels of another kind.
    FencedError, TransportError
        From the log. The journal shows whether it was begun; repeat the call.
    """
    at = new.found.journal
    store = open_store(old.new, at.number)
    begin = old.new, old.log, new.found, store, new.model
    import_model(*begin, now=now, new_journal=True, history=new.history)
    return rebuild(old.new, old.log, new.found, store, end=old.log.end_offsets([at])[at])


def _model(old: OldShards, number: int, parts: Sequence[OldShard]) -> ModelToImport:
    """The merged models as a model file."""
    fold = Fold(len(parts))
    for i, part in enumerate(parts):
        learner = part.live.shard.learner
        copy = learner.restarted(proven=True)
        copy.load_state(learner.to_state())
        fold.add(i, copy)
    config, names = old.new, ", ".join(str(o.found.journal.number) for o in parts)
    source = {
        "service": config.name,
        "shard": number,
        "model": config.name,
        "position": 0,
        "learned": sum(part.live.shard.learned for part in parts),
        "history": f"{'shards' if len(parts) > 1 else 'shard'} {names} of "
        f"{counted(old.config.scale.shards, 'shard')}",
    }
    several = one_vs_rest(config.model, None)
    schema = Schema(parts[0].live.fields)
    data = model_file_of(config, schema, fold.result(), source, several=several)
    return checked(config, data)


def _waiting(log: Log, old: OldShard) -> tuple[list[Record], int]:
    """The records of a shard that wait for their counterpart, and how many are no longer there."""
    shard, out, lost = old.live.shard, list[Record](), 0
    state, labels = shard.join.state, old.found.label_topics
    for of_labels, ids in (
        (False, {id_: time for id_, (_, time) in state.waiting.items()}),
        (True, {id_: time for id_, (_, time, _, _) in state.early.items()}),
    ):
        parts = [p for p in shard.positions if (p.topic in labels) == of_labels]
        found = _found(log, shard, parts, ids, of_labels=of_labels)
        out += found
        lost += len(ids) - len(found)
    return out, lost


def _found(
    log: Log, shard: Shard, parts: Sequence[Partition], ids: Mapping[str, int], *, of_labels: bool
) -> list[Record]:
    """The consumed records with these ids. `ids` has the stream time at which each came."""
    if not ids or not parts:
        return []
    first = max(0, min(ids.values()) - shard.spec.config.labels.horizon_ms)
    begins, since = log.beginning_offsets(parts), log.offsets_at(parts, first)
    ends = {p: shard.positions[p] for p in parts}
    starts = {p: min(max(begins[p], since[p]), ends[p]) for p in parts}
    out: dict[str, Record] = {}
    with closing(log.read(starts, ends)) as chunks:
        for chunk in chunks:
            for record, id_ in _with_ids(shard, chunk, ids, of_labels=of_labels):
                # An id may have been used before; those of the last horizon are duplicates.
                if record.timestamp > ids[id_] - shard.spec.config.labels.horizon_ms:
                    known = out.get(id_)
                    if known is None or record.offset < known.offset:
                        out[id_] = record
    return list(out.values())


def _with_ids(
    shard: Shard, chunk: Fetched, ids: Collection[str], *, of_labels: bool
) -> Iterator[tuple[Record, str]]:
    decoder = (
        shard.spec.label_decoder(shard.schemas) if of_labels else shard.spec.decoder(shard.schemas)
    )
    found = decoder.decode(chunk.keys, chunk.values)
    for i, id_ in enumerate(found.ids):
        if i not in found.rejected and id_ in ids:
            offset, time = int(chunk.offsets[i]), int(np.asarray(chunk.timestamps)[i])
            yield Record(*chunk.partition, offset, time, chunk.keys[i], chunk.values[i]), id_
