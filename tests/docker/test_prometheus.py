"""Rules and dashboards on a real Prometheus that scrapes a real headwater on the real Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.exposition import generate_latest

from consumers.telemetry.metrics import METRICS
from tests.docker.live import (
    BAD,
    BUDGET,
    CONFUSION,
    UNLABELLED,
    Stack,
    answers,
    asked,
    started,
)
from tests.docker.prometheus import FOLDER, lacking, promtool
from tests.docker.queries import ROOT, Query, alerts, metrics_of, panels, recorded, rules, variables
from tests.telemetry.test_prometheus import full
from tests.waiting import PATIENCE, until

here = pytest.mark.skipif(lacking() is not None, reason=str(lacking()))
QUERIES = [*panels(), *recorded(), *alerts()]


def test_queries_are_of_metrics_that_there_are() -> None:
    """Of headwater's own, or recorded by a rule; and each recording rule is used."""
    recorded_names = {rule["record"] for rule in rules("recording.yml")}
    known = {spec.name for spec in METRICS} | recorded_names | {"up"}
    used = set().union(*(metrics_of(query.expression) for query in QUERIES))

    assert used - known == set()
    assert recorded_names - used == set()


def test_every_metric_is_on_a_dashboard() -> None:
    """In docker/grafana/make_dashboards.py: what nobody sees need not be counted."""
    shown = set().union(*(metrics_of(query.expression) for query in [*panels(), *recorded()]))

    assert {spec.name for spec in METRICS} - shown == set()


def test_every_alert_has_its_place_in_the_operations_page() -> None:
    """What to do about it stands there under its name, in the order of the file."""
    page = (ROOT / "docs/operations.md").read_text()
    told = re.findall(r"^\| `(Headwater\w+)` \|", page, re.MULTILINE)

    assert told == [rule["alert"] for rule in rules("alerts.yml")]


@here
def test_prometheus_takes_its_configuration_and_rules() -> None:
    """promtool's own check of both."""
    config = promtool("check", "config", FOLDER / "prometheus.yml")
    checked = promtool("check", "rules", FOLDER / "recording.yml", FOLDER / "alerts.yml")

    assert config.returncode == 0, config.stdout + config.stderr
    assert checked.returncode == 0, checked.stdout + checked.stderr


@here
def test_promtool_objects_to_no_metric() -> None:
    """Every metric as it is scraped: names, units, types, help."""
    found = promtool("check", "metrics", text=generate_latest(full()).decode())

    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, kafka_bootstrap: str) -> Iterator[Stack]:
    """Everything compose.yaml starts, but Grafana."""
    with started(tmp_path_factory.mktemp("stack"), kafka_bootstrap) as running:
        yield running


@here
@pytest.mark.kafka
def test_every_panel_rule_and_alert_gets_data(stack: Stack) -> None:
    """Each query of both dashboards, each recording rule and each alert's expression."""
    found = answers(stack.prometheus, asked(budget=False), seconds=PATIENCE)

    assert [answer.query for answer in found if not answer.series] == []


@here
@pytest.mark.kafka
def test_panels_of_a_budget_get_data(tmp_path: Path, kafka_bootstrap: str) -> None:
    """From the same service with [decision] max_false_positive_rate."""
    with started(tmp_path, kafka_bootstrap, BUDGET) as budgeted:
        found = answers(budgeted.prometheus, asked(budget=True), seconds=PATIENCE)

    assert len(found) > 3
    assert [answer.query for answer in found if not answer.series] == []


@here
@pytest.mark.kafka
def test_variables_of_the_dashboards_have_values(stack: Stack) -> None:
    """As Grafana asks for them."""
    for selector, label in variables():
        values = stack.prometheus.ask(f"label/{label}/values", **{"match[]": selector})
        assert values, (selector, label)


def share_right(confusion: list[tuple[dict[str, str], float]]) -> float:
    """Of predictions by cell, those on the diagonal."""
    right = sum(n for labels, n in confusion if labels["true"] == labels["predicted"])
    return right / sum(n for _, n in confusion)


@here
@pytest.mark.kafka
def test_recorded_scores_are_those_of_the_service(stack: Stack) -> None:
    """Over a window that holds everything; it begins with the first scrape of each cell.

    increase() reaches a little beyond the first and the last scrape of a cell, which counts less
    with each scrape; so wait for them.
    """

    def difference() -> float:
        asked = [Query("recorded", 'headwater:accuracy:ratio{window="1h"}')]
        [recorded] = answers(stack.prometheus, asked, seconds=120)
        rose = stack.prometheus.query(
            f"max_over_time({CONFUSION}[1h]) - min_over_time({CONFUSION}[1h])"
        )
        assert len(rose) > 7
        return abs(recorded.example - share_right(rose))

    until(lambda: difference() < 0.01, "a recorded score as the service counts it")
    cells = stack.prometheus.query(CONFUSION)
    [champion] = {labels["model"] for labels, _ in cells}
    of_it = f'headwater_accuracy_ratio{{window="all", model="{champion}"}}'
    [(_, own)] = stack.prometheus.query(of_it)

    assert share_right(cells) == pytest.approx(own, rel=1e-12)


@here
@pytest.mark.kafka
def test_no_alert_fires_on_a_service_that_is_well(stack: Stack) -> None:
    """Rules without patience would have told by now; two bad records in thousands are none."""
    firing = [
        alert["labels"]["alertname"]
        for alert in stack.prometheus.ask("alerts")["alerts"]
        if alert["state"] == "firing" and alert["labels"]["severity"] != "info"
    ]

    assert firing == []


@here
@pytest.mark.kafka
def test_dead_letter_can_be_found_by_its_exemplar(stack: Stack) -> None:
    """Prometheus keeps topic, partition and offset of the newest of each reason."""
    asked = {"query": "headwater_dead_letters_total", "start": "0", "end": "9999999999"}
    found = {
        series["seriesLabels"]["reason"]: series["exemplars"][-1]["labels"]
        for series in stack.prometheus.ask("query_exemplars", **asked)
    }

    assert set(found) == {"unparsable", "infinite"}
    assert len(BAD) == len(found)
    assert found["infinite"]["topic"] == stack.topic
    assert found["infinite"]["partition"] == "0"
    assert int(found["infinite"]["offset"]) >= 2310


@here
@pytest.mark.kafka
def test_what_has_no_label_is_estimated(stack: Stack) -> None:
    """Fifty observations without one wait, and their accuracy is estimated."""
    [(_, waiting)] = stack.prometheus.query("headwater_pending_labels")
    [(_, estimate)] = stack.prometheus.query("headwater_pending_accuracy_estimate_ratio")

    assert waiting == UNLABELLED
    assert 0.1 < estimate <= 1.0
