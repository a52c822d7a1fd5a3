"""The newest observations that a shard has consumed, decoded as the shard decoded them.

Rule: how many are read is bounded in records and in bytes, and only the newest are kept.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from consumers.base.errors import ConfigError
from consumers.base.records import record_bytes
from consumers.codecs.registry import wire_format
from consumers.config import Config
from consumers.service.live import LiveShard, Sources
from consumers.transports.protocol import Log
from stream.data.rows import Rows

__all__ = ["MOST_BYTES", "check_format", "newest"]

MOST_BYTES = 2**26  # of the kept records

_Held = tuple[int, bytes | None, bytes | None]  # timestamp, key, value


def check_format(config: Config) -> None:
    """Raise ConfigError for messages with many rows, which are not read here."""
    name = config.input.format
    if wire_format(name).rows is not None:
        raise ConfigError(
            f'[input] format = "{name}": names of features are read from records of one '
            "observation each; give a message by --text"
        )


def newest(log: Log, found: Sources, live: LiveShard, most: int) -> Rows:
    """At most `most` observations before the positions of `live`, the newest first.

    Records that the shard has refused are left out. Each partition contributes an equal number, or
    all it has.

    Raises
    ------
    TransportError
        The log cannot be read.
    """
    inputs = [p for p in found.inputs if p.topic not in found.label_topics]
    begin, each = log.beginning_offsets(inputs), -(-most // max(len(inputs), 1))
    ends = {p: max(live.shard.positions.get(p, 0), begin[p]) for p in inputs}
    starts = {p: max(begin[p], ends[p] - each) for p in inputs}
    kept: deque[_Held] = deque()
    size = 0
    for part in log.read(starts, ends):
        for held in zip(part.timestamps, part.keys, part.values, strict=True):
            kept.append(held)
            size += record_bytes(*held[1:])
            while size > MOST_BYTES:
                size -= record_bytes(*kept.popleft()[1:])
    records = sorted(kept, key=lambda held: -held[0])[:most]
    decoder = live.shard.spec.decoder(live.shard.schemas)
    seen = decoder.decode([key for _, key, _ in records], [value for *_, value in records])
    good = [i for i in range(len(records)) if i not in seen.rejected]
    return seen.rows.take(np.array(good, dtype=np.int64))
