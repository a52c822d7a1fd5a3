"""The kinds of panels of the dashboards, their queries, and their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "LAST",
    "OF",
    "OF_SHARD",
    "SHARD",
    "SOURCE",
    "WINDOW",
    "Panel",
    "Query",
    "a_minute",
    "by_topic",
    "decision",
    "heatmap",
    "in_an_hour",
    "lines",
    "named",
    "number",
    "of_shard",
    "placed",
    "rates",
    "table",
]

SOURCE = {"type": "prometheus", "uid": "${source}"}
OF = 'job=~"$job"'
SHARD = f'{OF}, shard=~"$shard"'
LAST = f'{SHARD}, window=~"last_.+"'  # [telemetry] window sets the number and the name
WINDOW = f'{OF}, window="$window"'
OF_SHARD = "shard {{shard}}"  # legend

Query = tuple[str, str]
Panel = dict[str, Any]


def panel(kind: str, title: str, unit: str, queries: Sequence[Query], **more: Any) -> Panel:
    """A panel: its queries with their legends, a description, and the options of its kind."""
    width, height, about = more.pop("width", 12), more.pop("height", 8), more.pop("about", "")
    instant = kind != "timeseries" and kind != "heatmap"
    defaults: dict[str, Any] = {"unit": unit, **more.pop("defaults", {})}
    return {
        "type": kind,
        "title": title,
        "description": about,
        "datasource": SOURCE,
        "gridPos": {"x": 0, "y": 0, "w": width, "h": height},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": more.pop("options", {}),
        "targets": [
            {
                "refId": chr(ord("A") + i),
                "datasource": SOURCE,
                "expr": expr,
                "legendFormat": legend,
                "instant": instant,
                "range": not instant,
                "format": more.get("format", "time_series"),
            }
            for i, (expr, legend) in enumerate(queries)
        ],
        **{key: value for key, value in more.items() if key != "format"},
    }


def lines(title: str, unit: str, *queries: Query, **more: Any) -> Panel:
    """Values over time."""
    options = {
        "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return panel("timeseries", title, unit, queries, options=options, **more)


def number(title: str, unit: str, *queries: Query, **more: Any) -> Panel:
    """The newest value, large."""
    options = {
        "reduceOptions": {"calcs": ["lastNotNull"], "values": False, "fields": ""},
        "colorMode": "value",
        "graphMode": "none",
    }
    return panel("stat", title, unit, queries, options=options, width=4, height=4, **more)


def table(title: str, unit: str, *queries: Query, keep: Sequence[str], **more: Any) -> Panel:
    """The newest values, one row per series; `keep` are the labels to show."""
    organize = {"includeByName": dict.fromkeys(keep, True)}
    merged = [{"id": "merge", "options": {}}, {"id": "organize", "options": organize}]
    changes = more.pop("transformations", merged)
    return panel("table", title, unit, queries, format="table", transformations=changes, **more)


def heatmap(title: str, unit: str, buckets: str) -> Panel:
    """A histogram over time."""
    query = f"sum by (le) (increase({buckets}{{{SHARD}}}[$__rate_interval]))"
    options = {"calculate": False, "yAxis": {"unit": unit}, "legend": {"show": True}}
    shown = panel("heatmap", title, unit, [(query, "{{le}}")], options=options)
    shown["targets"][0]["format"] = "heatmap"
    return shown


def of_shard(metric: str, legend: str = "") -> Query:
    """A metric of each shard."""
    return f"{metric}{{{SHARD}}}", named(legend, OF_SHARD)


def by_topic(function: str, metric: str, legend: str) -> Query:
    """The sum or the maximum of a metric by topic."""
    return f"{function} by (topic) ({metric}{{{SHARD}}})", legend


def decision(metric: str, window: str) -> Query:
    """A score of decisions in a window."""
    return f'{metric}{{{SHARD}, window="{window}"}}', named(window, OF_SHARD)


def rates(counter: str, by: str, legend: str) -> Query:
    """The rate of a counter per second, by a label."""
    return f"sum by ({by}) (rate({counter}{{{SHARD}}}[$__rate_interval]))", legend


def in_an_hour(counter: str, by: str, legend: str) -> Query:
    """The increase of a counter in an hour, by labels."""
    return f"sum by ({by}) (increase({counter}{{{SHARD}}}[1h]))", legend


def a_minute(counter: str, legend: str) -> Query:
    """The rate per minute of a counter of the process."""
    return f"60 * rate({counter}{{{OF}}}[$__rate_interval])", f"{legend} a minute, {{{{instance}}}}"


def named(legend: str, series: str) -> str:
    """A legend with the labels of its series."""
    return f"{legend}, {series}" if legend else series


def placed(rows: dict[str, list[Panel]]) -> list[Panel]:
    """The panels from left to right; each group has a titled row."""
    out: list[Panel] = []
    y = 0
    for title, panels in rows.items():
        grid = {"x": 0, "y": y, "w": 24, "h": 1}
        row = {"type": "row", "title": title, "collapsed": False, "gridPos": grid, "panels": []}
        out.append({**row, "id": len(out) + 1})
        x, y, height = 0, y + 1, 0
        for each in panels:
            at = each["gridPos"]
            if x + at["w"] > 24:
                x, y, height = 0, y + height, 0
            out.append({**each, "id": len(out) + 1, "gridPos": {**at, "x": x, "y": y}})
            x, height = x + at["w"], max(height, at["h"])
        y += height
    return out
