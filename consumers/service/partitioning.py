"""Check that an observation and its label arrive in the same shard.

Shard s owns partition p of every input where p mod S = s. A label meets its observation only if
the common key decides the partition of both, in topics with equal numbers of partitions.
"""

from __future__ import annotations

from collections.abc import Mapping

from consumers.base.errors import ConfigError
from consumers.base.records import Partition
from consumers.config import Config
from consumers.transports.placement import partition_of
from consumers.transports.protocol import Log

__all__ = ["check_partitioning", "input_objections", "inputs_of", "objections"]

PROBED = 100  # recent keys of each topic


def check_partitioning(config: Config, log: Log) -> None:
    """ConfigError with the first objection."""
    for objection in objections(config, log):
        raise ConfigError(objection)


def objections(config: Config, log: Log) -> list[str]:
    """Why the topics cannot be divided among `[scale] shards`. Empty for one shard.

    Parameters
    ----------
    log
        A log that has the topics.
    """
    shards, known = config.scale.shards, log.describe(config.topics.values())
    topics = {topic: about.partitions for topic, about in known.items()}
    out = []
    if topics[config.journal_topic] != shards:
        out.append(
            f"[scale] shards = {shards} needs a journal of {shards} partitions, "
            f"{config.journal_topic} has {topics[config.journal_topic]}: recreate the topic"
        )
    mix = config.mix_topic
    if topics.get(mix, shards) < shards:
        out.append(
            f"[scale] mix needs a topic of {shards} partitions, {mix} has {topics[mix]}: recreate "
            "the topic"
        )
    return out + input_objections(config, log)


def input_objections(config: Config, log: Log) -> list[str]:
    """Why the inputs cannot be divided among `[scale] shards`. Empty for one shard."""
    shards, known = config.scale.shards, log.describe(config.input_topics)
    out = list[str]()
    if shards == 1:
        return out
    if config.features is None:
        out.append("[scale] shards above 1 needs [features], because each shard infers its own")
    counts = {topic: about.partitions for topic, about in known.items()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{topic} has {count}" for topic, count in counts.items())
        out.append(
            f"[scale] shards above 1 needs inputs with equal numbers of partitions, but {found}; a "
            "label would not meet its observation: make them equal, or use one shard"
        )
    if min(counts.values()) < shards:
        out.append(
            f"[scale] shards = {shards} is more than the {min(counts.values())} partitions of "
            f"{min(counts, key=counts.__getitem__)}: some shards would have no input; use fewer "
            "shards, or inputs with more partitions"
        )
    if len(counts) > 1:  # a label inside its observation is always in the same shard
        out += filter(None, (_misplaced(log, topic, count) for topic, count in counts.items()))
    return out


def _misplaced(log: Log, topic: str, partitions: int) -> str | None:
    """Why the keys of a topic do not decide the partition, judged by the newest records."""
    parts = [Partition(topic, n) for n in range(partitions)]
    begins, ends = log.beginning_offsets(parts), log.end_offsets(parts)
    each = -(-PROBED // partitions)
    starts = {p: max(begins[p], ends[p] - each) for p in parts}
    for chunk in log.read(starts, ends):
        for offset, key in zip(chunk.offsets, chunk.keys, strict=True):
            where = f"{chunk.partition} offset {offset}"
            if key is None:
                return f"{where} has no key, so with several shards its label may be in another"
            right = partition_of(key, partitions)
            if right != chunk.partition.number:
                return (
                    f"{where}: its key belongs to partition {right} by murmur2, Kafka's default; "
                    "records and labels that are placed otherwise do not meet in one shard"
                )
    return None


def inputs_of(config: Config, topics: Mapping[str, int], shard: int) -> tuple[Partition, ...]:
    """The input partitions of a shard."""
    return tuple(
        Partition(t, n)
        for t in config.input_topics
        for n in range(shard, topics[t], config.scale.shards)
    )
