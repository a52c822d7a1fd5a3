"""Which input records a start may need: those after the oldest snapshot that it could load."""

from __future__ import annotations

from collections.abc import Mapping

from consumers.base.errors import ConfigError
from consumers.base.records import Partition
from consumers.config import Config
from consumers.journal.records import mark_of
from consumers.service.journal_end import check_open
from consumers.service.partitioning import inputs_of
from consumers.snapshots.locate import locate
from consumers.snapshots.store import open_store
from consumers.transports.protocol import Log

__all__ = ["needed"]


def needed(config: Config, log: Log, topics: Mapping[str, int]) -> dict[Partition, int]:
    """The first offset of each input partition that a snapshot of its shard needs.

    It includes the last consumed records, by which a start recognizes an input.

    Raises
    ------
    ConfigError
        A shard has no snapshot that a start would load, so every record is needed. Or the service
        was moved to other shards, and the snapshots of these do not say what is needed.
    """
    offsets: dict[Partition, int] = {}
    for shard in range(config.scale.shards):
        offsets |= _needed(config, log, topics, shard)
    return offsets


def _needed(
    config: Config, log: Log, topics: Mapping[str, int], shard: int
) -> dict[Partition, int]:
    store, journal = open_store(config, shard), Partition(config.journal_topic, shard)
    inputs = inputs_of(config, topics, shard)
    check_open(log, journal)
    origin = locate(config, log, journal, store)
    oldest: dict[Partition, int] | None = None
    found = () if origin is None else store.of(mark_of(origin.identity)).newest(origin.objection)
    for about, state in found:
        at = {Partition(t, n): p for t, n, p in state.nested("shard").header["positions"]}
        for tail in about.tails:
            partition = Partition(tail.topic, tail.partition)
            at[partition] = min(at.get(partition, 0), tail.first)
        before = at if oldest is None else oldest
        oldest = {p: min(at.get(p, 0), before.get(p, 0)) for p in inputs}
    if oldest is None:
        raise ConfigError(
            f"shard {shard} of {config.name} has no snapshot that a start would load, so every "
            "input record is needed; a clean stop of the service writes one"
        )
    return oldest
