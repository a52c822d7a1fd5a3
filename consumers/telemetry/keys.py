"""The keys of a model that has one for each key: where they are, as metrics."""

from __future__ import annotations

from collections.abc import Callable

from consumers.telemetry.spec import MetricSpec, Read, of_shard
from stream.keyed import KeysView

__all__ = ["KEYS_METRICS"]


def _of(value: Callable[[KeysView], float]) -> Read:
    """A number of the keys; absent unless they are on disk."""
    return of_shard(lambda view: None if view.keys is None else value(view.keys))


KEYS_METRICS = (
    MetricSpec(
        "headwater_keys",
        "gauge",
        ("shard",),
        "Keys with a model; absent without `[model] keys_on_disk`, as are the others of keys.",
        _of(lambda keys: keys.known),
    ),
    MetricSpec(
        "headwater_keys_in_memory",
        "gauge",
        ("shard",),
        "Keys whose model is in memory.",
        _of(lambda keys: keys.in_memory),
    ),
    MetricSpec(
        "headwater_keys_loaded_total",
        "counter",
        ("shard",),
        "Models of keys that were read from disk. If it grows nearly as fast as the records, a "
        "larger `[model] max_state_bytes` saves time.",
        _of(lambda keys: keys.loads),
    ),
    MetricSpec(
        "headwater_keys_evicted_total",
        "counter",
        ("shard",),
        "Models of keys that left memory, because the least recently used ones make room.",
        _of(lambda keys: keys.evictions),
    ),
    MetricSpec(
        "headwater_keys_disk_bytes",
        "gauge",
        ("shard",),
        "Size of the file of keys beside the snapshots.",
        _of(lambda keys: keys.size),
    ),
)
