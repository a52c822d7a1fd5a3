"""The dashboards: generated, whole by Grafana's schema, and of metrics that there are."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.docker.grafana import faults

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docker/grafana/dashboards"
NAMES = ("quality.json", "operations.json")


def stored(name: str) -> dict[str, Any]:
    """A dashboard as it is committed."""
    return json.loads((FOLDER / name).read_text())


@pytest.mark.parametrize("name", NAMES)
def test_dashboard_is_one_by_grafanas_schema(name: str) -> None:
    """No key that Grafana would drop, no value of another type."""
    assert faults(stored(name)) == []


BREAKS: dict[str, Any] = {
    "a key of the dashboard": (("titel",), "x"),
    "a type of the dashboard": (("schemaVersion",), "39"),
    "a choice of the dashboard": (("graphTooltip",), 7),
    "a key of a panel": (("panels", 1, "gridpos"), {}),
    "a type of a panel": (("panels", 1, "title"), 5),
    "a place of a panel": (("panels", 1, "gridPos", "w"), "twelve"),
    "a key of a query": (("panels", 1, "targets", 0, "exp"), "up"),
    "a type of a query": (("panels", 1, "targets", 0, "instant"), "yes"),
    "an option of a panel": (("panels", 1, "options", "colourMode"), "value"),
    "a choice of an option": (("panels", 1, "options", "colorMode"), "purple"),
    "a unit": (("panels", 1, "fieldConfig", "defaults", "unit"), 1),
    "a variable": (("templating", "list", 1, "kind"), "query"),
    "a variable's type": (("templating", "list", 1, "multi"), "all"),
    "a link": (("links", 0, "type"), "dashboard"),
    "no list of panels": (("panels",), {"a": 1}),
}


@pytest.mark.parametrize("broken", BREAKS, ids=lambda name: name.replace(" ", "_"))
def test_broken_dashboard_is_found_out(broken: str) -> None:
    """The check itself: each kind of slip is told by where it is."""
    made = copy.deepcopy(stored("quality.json"))
    path, value = BREAKS[broken]
    inside: Any = made
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value

    assert faults(made)


@pytest.mark.parametrize("name", NAMES)
def test_panels_do_not_overlap_and_have_numbers_of_their_own(name: str) -> None:
    """Each stands in the grid of 24 columns, beside the others."""
    panels = stored(name)["panels"]
    taken: dict[tuple[int, int], str] = {}

    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        for cell in (
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        ):
            assert cell not in taken, f"{panel['title']} lies on {taken[cell]}"
            taken[cell] = panel["title"]
