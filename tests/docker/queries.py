"""Every query that docker/ holds: of panels, variables, recording rules and alerts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

__all__ = ["ROOT", "Query", "alerts", "metrics_of", "panels", "recorded", "rules", "variables"]

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
# What Grafana puts in, chosen as someone would who looks for the first time.
GIVEN = {"$job": ".+", "$shard": ".+", "$window": "5m", "$__rate_interval": "30s"}


class Query(NamedTuple):
    """A query and where it stands."""

    where: str
    expression: str


def panels() -> Iterator[Query]:
    """Of both dashboards."""
    for path in sorted((DOCKER / "grafana/dashboards").glob("*.json")):
        made: dict[str, Any] = json.loads(path.read_text())
        for panel in made["panels"]:
            for target in panel.get("targets", ()):
                where = f"{path.stem}: {panel['title']} {target['refId']}"
                yield Query(where, _filled(target["expr"]))


def variables() -> Iterator[tuple[str, str]]:
    """Selector and label of each variable that asks for the values of a label."""
    for path in sorted((DOCKER / "grafana/dashboards").glob("*.json")):
        for variable in json.loads(path.read_text())["templating"]["list"]:
            if variable["type"] == "query":
                found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
                assert found, variable
                yield _filled(found[1]), found[2]


def rules(name: str) -> Iterator[dict[str, Any]]:
    """The rules of a file."""
    for group in yaml.safe_load((DOCKER / "prometheus" / name).read_text())["groups"]:
        yield from group["rules"]


def recorded() -> Iterator[Query]:
    """What each recording rule computes."""
    for rule in rules("recording.yml"):
        yield Query(f"rule: {rule['record']}", rule["expr"].strip())


def alerts() -> Iterator[Query]:
    """What each alert compares, told as 0 or 1 instead of nothing where it is quiet."""
    for rule in rules("alerts.yml"):
        told = re.sub(r" (==|!=|>=|<=|>|<)(?=\s)", r" \1 bool", " ".join(rule["expr"].split()))
        yield Query(f"alert: {rule['alert']}", told)


def metrics_of(expression: str) -> set[str]:
    """The series a query names, histograms by their own name."""
    names = set(re.findall(r"\b(?:headwater[_:][\w:]*|up)\b(?!\s*\()", expression))
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}


def _filled(expression: str) -> str:
    for name, value in GIVEN.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression
