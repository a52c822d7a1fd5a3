"""Metrics of records that are read otherwise than they were written, or left out."""

from __future__ import annotations

from consumers.telemetry.spec import MetricSpec, of_shard

__all__ = ["OTHERWISE"]

OTHERWISE = (
    MetricSpec(
        "headwater_cut_texts_total",
        "counter",
        ("shard",),
        "JSON observations with a text that a program cut within a character (half of a surrogate "
        "pair, as of an emoji), which was read with U+FFFD there.",
        of_shard(lambda view: view.read_otherwise.get("cut", 0)),
    ),
    MetricSpec(
        "headwater_numbers_as_text_total",
        "counter",
        ("shard",),
        "Texts that were read as numbers, in the fields of `[input] numbers_as_text`.",
        of_shard(lambda view: view.read_otherwise.get("converted", 0)),
    ),
    MetricSpec(
        "headwater_ignored_records_total",
        "counter",
        ("shard",),
        "Records that the configuration leaves out, and that are no dead letters: tombstones and "
        "change events of other operations.",
        of_shard(lambda view: view.read_otherwise.get("ignored", 0)),
    ),
)
