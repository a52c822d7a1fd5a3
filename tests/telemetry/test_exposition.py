"""What a scraper gets: documented labels, both formats, and names it can trust."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from consumers.base.health import Health
from consumers.codecs.account import FieldsView
from consumers.shard.views import DriftView, MonitorView
from consumers.telemetry.metrics import METRICS
from consumers.telemetry.process import counted
from consumers.telemetry.prometheus import ShardCollector
from consumers.telemetry.spec import OTHER, MetricSpec, class_names, of_shard
from consumers.web.page import Page, PageCollector
from stream.decision.overall import RISK_SCORES
from stream.evaluate.quality import WINDOWS
from tests.telemetry.test_prometheus import OF, commit, full, samples, series, telemetry
from tests.telemetry.views import MOST_SERIES, RISK, challenger, quality, view


def test_hostile_feature_names_stay_distinct() -> None:
    """Two features whose names differ beyond the cut are two series."""
    monitors = [MonitorView("ADWIN", f"feature:{'x' * 200}{i}", i, False) for i in range(2)]
    _, registry = telemetry(view(drift=DriftView("mail", monitors, {}, (), 1000)))

    assert len(series(registry, "headwater_drift_alarms_total")) == 2


def test_bad_values_have_a_bounded_number_of_series() -> None:
    """The first hundred declared fields, and one for the others."""
    counts = {f"f{i:03}": i for i in range(103)}
    _, registry = telemetry(view(bad_values=counts))
    name = "headwater_bad_values_total"
    fields = [labels["field"] for labels in series(registry, name)]
    first, last, others = (
        registry.get_sample_value(name, {"shard": "0", "field": field})
        for field in ("f000", "f099", OTHER)
    )

    assert len(fields) == len(set(fields)) == 101
    assert (first, last, others) == (0, 99, 100 + 101 + 102)


def test_values_of_fields_are_counted_by_what_became_of_them() -> None:
    """Without a name or a value that a sender chose, and with a bounded number of series."""
    _, registry = telemetry(view())
    name = "headwater_field_values_total"
    found = {
        (labels["field"], labels["outcome"]): registry.get_sample_value(name, dict(labels))
        for labels in series(registry, name)
    }

    assert found == {
        ("a", "used"): 90,
        ("a", "missing"): 4,
        ("a", "bad"): 3,
        ("b", "used"): 40,
        ("b", "missing"): 57,
        ("b", "bad"): 0,
        ("__unknown__", "unknown"): 10,
        ("__unknown_of_labels__", "unknown"): 6,
    }
    names = tuple(f"f{i:03}" for i in range(103))
    many = FieldsView(names, 5, dict.fromkeys(names, 2), {}, 0, {}, 0)
    _, registry = telemetry(view(fields=many))
    assert len(list(series(registry, name))) == 3 * 101 + 1
    of = {"shard": "0", "field": OTHER, "outcome": "missing"}
    assert registry.get_sample_value(name, of) == 9


def test_the_shard_is_named_on_every_series_but_those_of_the_process() -> None:
    """Every shard series has `shard`, every quality series `model` too."""
    found = [(name, dict(labels)) for name, labels in samples(full())]

    assert {name for name, labels in found if "shard" not in labels} == {
        "headwater_build_info",
        "headwater_http_open_pages",
        "headwater_http_refused_total",
        "headwater_kernels_waiting",
        "headwater_log_lines_left_out_total",
    }
    scored = [s for n, s in found if "confusion" in n or "accuracy" in n or "log_loss" in n]
    mine = [labels for labels in scored if labels["model"] == "mail"]
    assert len(mine) == 4 + 3 + 3 + 3 + 6 + 2 + 3 + 1 + 2 + 2 + 2
    assert {labels["model"] for labels in scored} == {"mail", "tree"}


def test_labels_of_each_series_are_those_documented() -> None:
    """The table of metrics is what a scrape shows: names, types, labels, nothing else."""
    families = {f.name: f for f in full().collect()}

    shown = {
        (f.name + "_total" * (f.type == "counter"), f.type, f.documentation)
        for f in families.values()
    }
    assert shown == {(s.name, s.type, s.help) for s in METRICS}
    for spec in METRICS:
        family = families[spec.name.removesuffix("_total")]
        assert family.samples
        assert {frozenset(s.labels) - {"le"} for s in family.samples} == {frozenset(spec.labels)}


def test_an_entry_of_the_table_is_all_that_a_metric_of_the_view_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its name, type, labels and help are scraped with what it reads."""
    read = of_shard(lambda found: found.observations - found.predictions)
    entry = MetricSpec("headwater_unpredicted_total", "counter", ("shard",), "Not predicted.", read)
    monkeypatch.setattr("consumers.telemetry.prometheus.METRICS", (*METRICS, entry))
    _, registry = telemetry(view())
    found = [f for f in registry.collect() if f.name == "headwater_unpredicted"]

    assert [(f.type, f.documentation) for f in found] == [("counter", "Not predicted.")]
    assert [(s.labels, s.value) for s in found[0].samples] == [({"shard": "0"}, 1)]


def test_an_entry_and_the_line_that_counts_are_all_that_a_counter_of_the_process_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is scraped at 0 from the start, and with what was counted after that."""
    name = "headwater_looks_total"
    entry = MetricSpec(name, "counter", ("shard",), "Looks at the inputs.", process=counted())
    monkeypatch.setattr("consumers.telemetry.prometheus.METRICS", (*METRICS, entry))
    told, registry = telemetry(None)
    first = samples(registry)[name, frozenset({("shard", "0")})]
    told.facts.counts[name][""] += 3

    assert first == 0
    assert samples(registry)[name, frozenset({("shard", "0")})] == 3


def test_each_score_of_decisions_is_a_metric_with_the_help_of_its_entry() -> None:
    """One series a window, of the champion."""
    registry = full()
    helps = {spec.name: spec.help for spec in METRICS}

    assert [helps[score.metric] for score in RISK_SCORES] == [s.help for s in RISK_SCORES]
    for score in RISK_SCORES:
        found = {labels["window"]: labels for labels in series(registry, score.metric)}
        assert found == {window: OF | {"window": window} for window in WINDOWS}
        values = {registry.get_sample_value(score.metric, labels) for labels in found.values()}
        assert values == {score.value(RISK)}


def test_every_metric_has_one_reader_and_every_fact_of_the_process_an_entry() -> None:
    """A fact under a misspelt name would be in no scrape."""
    told, _ = telemetry(view())
    told.polled()
    told.committed(commit(), view())
    told.snapshot_written(990.0)
    told.snapshot_failed("copy")
    told.mixed(980_000)
    told.replay_remaining(0)
    told.unread(2)
    page_of = Page("mail", lambda: Health("live"), dict)
    list(PageCollector(page_of).collect())

    of_process = {spec.name for spec in METRICS if spec.process is not None}
    of_server = {spec.name for spec in METRICS if spec.server is not None}
    shard, server = (
        {*facts.counts, *facts.values, *facts.times, *facts.histograms}
        for facts in (told.facts, page_of.facts)
    )
    assert len(shard) == 11
    assert shard <= of_process
    assert server == of_server
    readers = [(s.read, s.process, s.server) for s in METRICS]
    assert all(sum(read is not None for read in each) == 1 for each in readers)


def test_families_come_in_the_order_of_the_page() -> None:
    """Those of the view as docs/metrics.md lists them."""
    scraped = ShardCollector(lambda: view(challengers=[challenger()]), lambda: 0.0).collect()
    names = [f.name + "_total" * (f.type == "counter") for f in scraped]

    assert names == [spec.name for spec in METRICS if spec.read is not None]


def test_both_expositions_parse_and_agree() -> None:
    """Text and OpenMetrics are valid, hold the same series, and each metric has its HELP."""
    registry = full()
    text = generate_latest(registry).decode()
    open_text = generate_openmetrics(registry).decode()

    plain, opened = list(parse_text(text)), list(parse_openmetrics(open_text))
    assert all(f.documentation and f.type != "unknown" for f in [*plain, *opened])
    held = {(s.name, frozenset(s.labels.items()), s.value) for f in plain for s in f.samples}
    assert held == {
        (s.name, frozenset(s.labels.items()), s.value) for f in opened for s in f.samples
    }
    assert len(held) == len(samples(registry))


def test_a_scrape_of_300_classes_stays_small() -> None:
    """Series are bounded by `max_classes`, whatever the labels are; no count is lost."""
    rng = np.random.default_rng(7)
    confusion = rng.integers(0, 9, (300, 300))
    labels = [f"class {i}" for i in range(300)]
    # A budget and costs of decisions exclude each other; few services have reporters or keys.
    absent = {"budget": None, "reporters": None, "mix": None, "keys": None, "keys_on_disk": None}
    # The series of fields have a bound, and a test, of their own.
    told = {"quality": quality(labels, confusion.tolist()), **absent, "fields": None}
    _, registry = telemetry(view(**told))

    found = samples(registry)
    counts = {tuple(sorted(k)): v for (n, k), v in found.items() if n.endswith("confusion_total")}
    assert len(found) <= MOST_SERIES
    assert len(counts) == 21 * 21
    assert sum(counts.values()) == confusion.sum()
    at = OF | {"true": OTHER, "predicted": "class 3"}
    assert registry.get_sample_value("headwater_confusion_total", at) == confusion[20:, 3].sum()
    at = OF | {"true": "class 19", "predicted": OTHER}
    assert registry.get_sample_value("headwater_confusion_total", at) == confusion[19, 20:].sum()


def test_class_learned_but_never_scored_is_shown_with_zeros() -> None:
    """The confusion may be smaller than the classes."""
    _, registry = telemetry(view(quality=quality(("a", "b", "c"), ((5, 1), (0, 2)))))

    counts = Counter(s["true"] for s in series(registry, "headwater_confusion_total"))
    assert counts == {"a": 3, "b": 3, "c": 3}
    at = OF | {"true": "c", "predicted": "c"}
    assert registry.get_sample_value("headwater_confusion_total", at) == 0


def test_names_of_the_first_classes_stay_when_more_are_learned() -> None:
    """A class never changes its name: its series would end and another begin."""
    labels = ["b", "a", *(f"c{i}" for i in range(40))]

    for n in range(1, len(labels)):
        assert class_names(labels[:n], 5) == labels[:n][:5]


def test_class_called_other_does_not_clash_with_the_rest() -> None:
    """A class literally named like the remainder has a series of its own."""
    _, registry = telemetry(view(quality=quality((OTHER, "a"), ((5, 0), (0, 9)))), max_classes=1)

    at = {n: OF | {"true": n, "predicted": n} for n in ("___other__", OTHER)}
    assert registry.get_sample_value("headwater_confusion_total", at["___other__"]) == 5
    assert registry.get_sample_value("headwater_confusion_total", at[OTHER]) == 9


def test_hostile_class_names_stay_distinct_and_parse() -> None:
    """Quotes, line ends, half surrogates, empty, long and near-equal names break nothing."""
    rng = random.Random(3)
    letters = ['"', "\\", "\n", "{", "}", ",", "=", " ", "#", "é", "\U0001f600", "\ud800", "a", "_"]
    labels = {"", OTHER, "_" + OTHER, "_", "x" * 500, "x" * 501, "\ud800", "\\ud800", "\u2028"}
    labels |= {"".join(rng.choices(letters, k=rng.randint(1, 12))) for _ in range(50)}
    ordered = sorted(labels)
    _, registry = telemetry(
        view(quality=quality(ordered, np.eye(len(ordered), dtype=int).tolist())), max_classes=99
    )

    names = class_names(ordered, 99)
    assert len(set(names)) == len(ordered)
    assert max(map(len, names)) < 700
    for families in (
        parse_text(generate_latest(registry).decode()),
        parse_openmetrics(generate_openmetrics(registry).decode()),
    ):
        found = {
            s.labels["true"] for f in families for s in f.samples if s.name.endswith("fusion_total")
        }
        assert found == set(names)


@pytest.mark.parametrize(
    ("labels", "names"), [([True, False], ["true", "false"]), ([1, -2], ["1", "-2"])]
)
def test_labels_of_other_kinds_are_written_as_json_would(
    labels: list[bool | int], names: list[str]
) -> None:
    """Booleans are lower case, integers are digits."""
    assert class_names(labels) == names
