"""Metrics of the fields of observations.

Rule: no metric has a value of a record, nor the name of a field that nobody declared: the sender
chooses both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from consumers.telemetry.spec import OTHER, MetricSpec, Sample, ScrapeView, class_names

__all__ = ["FIELD_METRICS"]

MOST_FIELDS = 100  # fields with their own series
UNKNOWN = "__unknown__"
OF_LABELS = "__unknown_of_labels__"
BOUND = "The first 100 declared fields by name have series of their own, the others are `__other__`"


def _by_field(counts: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """The order of the fields never changes, so that no series becomes another."""
    of = list(counts.values())
    yield from zip(class_names(list(counts), MOST_FIELDS), of, strict=False)
    if len(of) > MOST_FIELDS:
        yield OTHER, sum(of[MOST_FIELDS:])


def _bad_values(look: ScrapeView) -> list[Sample]:
    return [((*look.shard, name), n) for name, n in _by_field(look.view.bad_values)]


def _values(look: ScrapeView) -> list[Sample] | None:
    fields = look.view.fields
    if fields is None:
        return None
    bad = {name: each.found for name, each in fields.bad.items()}
    counts = {
        "used": fields.used,
        "missing": {name: fields.missing(name) for name in fields.names},
        "bad": {name: bad.get(name, 0) for name in fields.names},
    }
    found: list[Sample] = [
        ((*look.shard, name, outcome), n)
        for outcome, of in counts.items()
        for name, n in _by_field(of)
    ]
    for name, view in ((UNKNOWN, fields), (OF_LABELS, fields.labels)):
        if view is not None:
            unknown = sum(each.found for each in view.unknown.values()) + view.unnamed
            found.append(((*look.shard, name, "unknown"), unknown))
    return found


FIELD_METRICS = (
    MetricSpec(
        "headwater_bad_values_total",
        "counter",
        ("shard", "field"),
        "Values that did not fit the kind of their field and were taken as missing, by field; only "
        f'with `[values] on_bad_value = "missing"`. {BOUND}.',
        _bad_values,
    ),
    MetricSpec(
        "headwater_field_values_total",
        "counter",
        ("shard", "field", "outcome"),
        "Observations since the process started, by declared field and what became of its value: "
        "`used`, `missing` (absent, null or a text for no value) or `bad` (it did not fit). "
        f"{BOUND}. `__unknown__` counts fields that are not declared, in the first 100 "
        "observations and in every 512th; `__unknown_of_labels__` likewise fields of label records "
        "that nobody reads.",
        _values,
    ),
)
