"""Keys: metrics of the scores of each key, and of where the keys are. A key is never a label of a
metric, because keys come from outside and have no bound; the live page names the worst ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from consumers.telemetry.spec import MetricSpec, Read, Sample, ScrapeView, of_shard
from stream.evaluate.key_scores import FEWEST, KeyScoresView
from stream.keyed import KeysView

__all__ = ["KEY_METRICS"]

ENOUGH = f"with at least {FEWEST} scored records"


def _of(value: Callable[[KeyScoresView], int]) -> Read:
    """A number of keys of the champion; absent without `[model] per`."""

    def read(look: ScrapeView) -> list[Sample] | None:
        keys = look.view.keys
        return None if keys is None else [(look.champion, value(keys.view))]

    return read


def _accuracies(look: ScrapeView) -> Iterator[Sample]:
    if look.view.keys is not None:
        for quantile, accuracy in look.view.keys.view.accuracies.items():
            yield (*look.champion, f"{quantile:g}"), accuracy


def _on_disk(value: Callable[[KeysView], float]) -> Read:
    """A number of the keys; absent unless they are on disk."""
    return of_shard(lambda v: None if v.keys_on_disk is None else value(v.keys_on_disk))


KEY_METRICS = (
    MetricSpec(
        "headwater_scored_keys",
        "gauge",
        ("shard", "model"),
        f"Keys {ENOUGH}, without quiet ones; only with `[model] per`.",
        _of(lambda keys: keys.compared),
    ),
    MetricSpec(
        "headwater_keys_worse_than_guessing",
        "gauge",
        ("shard", "model"),
        "Of these, keys for which their usual label would be right more often than the model, "
        "beyond chance; only with `[model] per`. The live page names the worst keys.",
        _of(lambda keys: keys.worse),
    ),
    MetricSpec(
        "headwater_key_accuracy_ratio",
        "gauge",
        ("shard", "model", "share"),
        "Accuracy that this share of these keys does not exceed, each over about its last 500 "
        "records; only with `[model] per`.",
        _accuracies,
    ),
    MetricSpec(
        "headwater_keys",
        "gauge",
        ("shard",),
        "Keys with a model; absent without `[model] keys_on_disk`, as are the others of keys.",
        _on_disk(lambda keys: keys.known),
    ),
    MetricSpec(
        "headwater_keys_in_memory",
        "gauge",
        ("shard",),
        "Keys whose model is in memory.",
        _on_disk(lambda keys: keys.in_memory),
    ),
    MetricSpec(
        "headwater_keys_loaded_total",
        "counter",
        ("shard",),
        "Models of keys that were read from disk. If it grows nearly as fast as the records, a "
        "larger `[model] max_state_bytes` saves time.",
        _on_disk(lambda keys: keys.loads),
    ),
    MetricSpec(
        "headwater_keys_evicted_total",
        "counter",
        ("shard",),
        "Models of keys that left memory, because the least recently used ones make room.",
        _on_disk(lambda keys: keys.evictions),
    ),
    MetricSpec(
        "headwater_keys_disk_bytes",
        "gauge",
        ("shard",),
        "Size of the file of keys beside the snapshots.",
        _on_disk(lambda keys: keys.size),
    ),
)
