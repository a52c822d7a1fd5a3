"""The mix of the shards: its metrics."""

from __future__ import annotations

from collections.abc import Callable

from consumers.shard.views import MIX_REFUSALS, MixView
from consumers.telemetry.process import age
from consumers.telemetry.spec import MetricSpec, Read, Sample, ScrapeView

__all__ = ["MIX_AGE", "MIX_METRICS"]

MIX_AGE = "headwater_mix_age_seconds"


def _of(value: Callable[[MixView], float]) -> Read:
    """A number of the mix; absent for a model that does not mix."""

    def read(look: ScrapeView) -> list[Sample] | None:
        mix = look.view.mix
        return None if mix is None else [(look.shard, value(mix))]

    return read


def _refused(look: ScrapeView) -> list[Sample] | None:
    mix = look.view.mix
    if mix is None:
        return None
    return [((*look.shard, reason), mix.refused.get(reason, 0)) for reason in MIX_REFUSALS]


MIX_METRICS = (
    MetricSpec(
        "headwater_mix_peers",
        "gauge",
        ("shard",),
        "Other shards whose statistics the shard predicts with; absent without `[scale] mix`.",
        _of(lambda mix: len(mix.peers)),
    ),
    MetricSpec(
        "headwater_mix_peer_labels",
        "gauge",
        ("shard",),
        "Labels that the other shards had learned when they published.",
        _of(lambda mix: mix.learned),
    ),
    MetricSpec(
        MIX_AGE,
        "gauge",
        ("shard",),
        "Time since the statistics were published that are the oldest of the other shards. It "
        "grows while that shard learns nothing, or is away; what it had learned stays.",
        process=age,
    ),
    MetricSpec(
        "headwater_mix_refused_total",
        "counter",
        ("shard", "reason"),
        "Statistics of other shards that were not taken over, by reason: of another `model`; "
        "labels of another kind (`label_kind`); more classes than allowed (`max_classes`); fields "
        "of another kind (`merge`).",
        _refused,
    ),
)
