"""The page of a report: one HTML file without scripts, fonts or links; one column that fits a
phone, in light or dark mode.

Rule: data of records and files (labels, names, reasons) is escaped by `_text`, never written into
the markup directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from consumers.base.counts import printable
from consumers.base.errors import ConfigError
from consumers.offline.evaluate import fingerprint_text
from consumers.offline.plot import CurvePoint
from consumers.report import charts
from consumers.telemetry.advice import explained
from stream.decision.risk import named
from stream.evaluate.quality import window_title
from stream.evaluate.table import arranged

__all__ = [
    "LACKING",
    "STYLE",
    "check_report",
    "drawn",
    "report_page",
    "write_report",
]


STYLE = """\
:root { color-scheme: light dark; --ink: #1c1c1e; --soft: #56565c; --paper: #ffffff;
  --grid: #dddddd; --heat: 0, 114, 178; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececf0; --soft: #a9a9b2; --paper: #141417; --grid: #3a3a40;
    --heat: 64, 156, 214; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 46rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; margin: 0.5rem 0 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2rem 0 0.3rem; }
p, li { color: var(--soft); margin: 0.3rem 0; overflow-wrap: anywhere; }
code { overflow-wrap: anywhere; }
svg { width: 100%; height: auto; display: block; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.92rem; }
caption { text-align: left; color: var(--soft); font-size: 0.85rem; }
th, td { padding: 0.25rem 0.7rem 0.25rem 0; text-align: right; white-space: nowrap; }
th[scope=row], th[scope=col]:first-child { text-align: left; font-weight: 600; }
thead th { border-bottom: 1px solid var(--grid); font-weight: 600; }
.heat td, .heat th { padding: 0.3rem 0.6rem; }
.heat tbody td { background: rgba(var(--heat), calc(var(--share) * 0.6)); }
@media print { body { font-size: 11pt; } section { break-inside: avoid; } }
"""


MOST_CLASSES = 20
LACKING = "matplotlib is not installed; pip install matplotlib, then a report has charts"
LONGEST = 60  # characters of a label or name
FURTHER = {
    score.id: score.long or score.title
    for score in arranged("balanced_accuracy", "macro_f1", "mcc")
    if not score.first
}


def drawn() -> bool:
    """Whether a report has charts; matplotlib is an optional dependency."""
    return find_spec("matplotlib") is not None


def check_report(path: Path) -> None:
    """Check that a report can be written there.

    Raises
    ------
    ConfigError
        The path does not end in .html, or its directory is missing.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"expected --report FILE ending in .html, got {str(path)!r}")
    if not path.parent.is_dir():
        raise ConfigError(f"--report {path}: no directory {str(path.parent)!r}; make it first")


def write_report(path: Path, results: Mapping[str, Any], points: Sequence[CurvePoint]) -> None:
    """Write the page.

    Raises
    ------
    ConfigError
        The file cannot be written.
    """
    try:
        path.write_text(report_page(results, points), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        why = error.strerror or error
        raise ConfigError(f"--report {path}: cannot be written ({why})") from None


def report_page(results: Mapping[str, Any], points: Sequence[CurvePoint]) -> str:
    """The page.

    Parameters
    ----------
    results
        The results of `consumers.offline.evaluate.report`, with the source.
    points
        The points of the curves, in order, at least one.
    """
    scored = results["scores"]["all"]["scored"] > 0
    parts = [_head(results), _figures(results)]
    if scored and not drawn():
        parts.append(_section("Charts", f"This page has no charts: {LACKING}.", ""))
    if scored:
        parts.append(_chart("Accuracy", "", lambda: charts.accuracy(points)))
        parts.append(_chart("Log loss", "", lambda: charts.log_loss(points)))
    if results["experts"]:
        note = "By how likely its past predictions were. ClassShares and NoChange are guesses."
        parts.append(_chart("Weights of the learners", note, lambda: charts.experts(points)))
    if results["challengers"]:
        parts += _contest(results["challengers"], points)
    if scored:
        parts += [_classes(results), _confusion(results["confusion"])]
        if results["calibration"]:
            parts.append(_calibration(results["calibration"]))
    if results["keys"] is not None and results["keys"]["compared"]:
        parts.append(_keys(results["keys"]))
    if results["decision"] is not None:
        parts.append(_decision(results["decision"]))
    if results["budget"] is not None:
        parts.append(_section("Decisions", results["budget"]["text"], ""))
    parts.append(_records(results))
    title = _text(f"{results['name']}: {results['source']['file']}")
    return _PAGE.format(title=title, style=STYLE, body="\n".join(parts))


def _head(results: Mapping[str, Any]) -> str:
    source, when = results["source"], "inside their observations"
    delay = source["delay"]
    if delay is not None:
        when = f"{delay} late" if isinstance(delay, str) else f"{delay:,} records late"
    lead = (
        f"{results['model']} on {source['file']}: {results['observations']:,} observations, "
        f"labels from {source['label']!r}, {when if delay != 0 else 'right after'}. "
        "Each was predicted before it was learned."
    )
    return f"<header><h1>{_text(results['name'])}</h1><p>{_text(lead, 400)}</p></header>"


def _figures(results: Mapping[str, Any]) -> str:
    """The most important numbers."""
    rows = [
        [
            window_title(window),
            f"{found['scored']:,.0f}",
            _share(found["accuracy"]),
            _number(found["log_loss"]),
            _share(found["baselines"]["majority"]),
            _share(found["baselines"]["no_change"]),
        ]
        for window, found in results["scores"].items()
    ]
    head = ("window", "scored", "accuracy", "log loss", "majority", "no-change")
    note = "Majority predicts the most frequent label, no-change the last label."
    more = [
        [words, *(_number(found[key]) for found in results["scores"].values())]
        for key, words in FURTHER.items()
    ]
    tables = _table("Scores by window", head, rows)
    tables += _table("Other scores", ("score", *(row[0] for row in rows)), more)
    return _section("How good", note, tables)


def _contest(models: Sequence[Mapping[str, Any]], points: Sequence[CurvePoint]) -> list[str]:
    names = [model["name"] for model in models if not model.get("failed")]
    rows = []
    for model in models:
        if model.get("failed"):
            rows.append([model["name"], model["type"], "failed", *[""] * 4, model["failed"]])
            continue
        against = model["against"]
        row = [model["name"], model["type"], _share(model["accuracy"])]
        row.append(_number(model["log_loss"]))
        if against is None:
            rows.append([*row, "champion", "", "", ""])
            continue
        saved = "–"
        if against["difference"] is not None and against["undecided"]:
            saved = f"{against['difference']:+.4f}"
        elif against["difference"] is not None:
            bounds = f"{against['lower']:+.4f} … {against['upper']:+.4f}"
            saved = f"{against['difference']:+.4f} ({bounds})"
        counts = [f"{against['won']:,}", f"{against['lost']:,}"]
        evidence = f"{against['e_value']:.3g}"
        if against["undecided"]:
            evidence = f"undecided: {against['undecided']}"
        rows.append([*row, *counts, evidence, saved])
    head = ("model", "type", "accuracy", "log loss", "won", "lost", "e-value", "Brier saved (95 %)")
    note = (
        "Won and lost count the records on which only the challenger, or only the champion, was "
        "right. If the challenger is no better, at most one in twenty such comparisons reaches an "
        "e-value of 20, however often you check. The interval is valid at all times. "
        "Undecided: the records so far do not show whether wins are more than a run of them."
    )
    section = _section("Models compared", note, _table("Models", head, rows))
    if len(names) == 1:
        return [section]
    return [
        section,
        _chart("Each model's accuracy", "", lambda: charts.accuracies(points, names)),
        _chart("Evidence for a challenger", "", lambda: charts.evidence(points, names)),
        _chart("Brier score saved", "", lambda: charts.differences(points, names)),
    ]


def _classes(results: Mapping[str, Any]) -> str:
    counts = results["confusion"]["counts"]
    predicted = [sum(column) for column in zip(*counts, strict=True)]
    predicted += [0] * (len(results["classes"]) - len(predicted))
    most = sorted(
        zip(results["classes"], predicted, strict=True), key=lambda row: -row[0]["support"]
    )
    rows = [
        [
            named(row["label"]),
            _share(row["precision"] if n else None),
            _share(row["recall"] if row["support"] else None),
            _share(row["f1"] if n + row["support"] else None),
            f"{row['support']:,}",
        ]
        for row, n in most[:MOST_CLASSES]
    ]
    head = ("class", "precision", "recall", "F1", "support")
    more = len(most) - MOST_CLASSES
    note = f"The {MOST_CLASSES} most frequent; {more:,} more." if more > 0 else ""
    return _section("Classes", note, _table("Scores by class", head, rows))


def _confusion(confusion: Mapping[str, Any]) -> str:
    """Counts of the most frequent classes, each shaded by its share of its row."""
    counts, labels = confusion["counts"], confusion["labels"]
    order = sorted(range(len(counts)), key=lambda c: -sum(counts[c]))[:MOST_CLASSES]
    head = "".join(f"<th scope=col>{_text(named(labels[c]))}</th>" for c in order)
    body = ""
    for t in order:
        total = sum(counts[t]) or 1
        cells = "".join(
            f'<td style="--share:{100 * counts[t][p] / total:.1f}%">{counts[t][p]:,}</td>'
            for p in order
        )
        body += f"<tr><th scope=row>{_text(named(labels[t]))}</th>{cells}</tr>"
    table = (
        '<div class="wide" tabindex=0 role=region aria-label="Confusion matrix"><table class=heat>'
        "<caption>True class by row, predicted class by column</caption>"
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    more = len(counts) - len(order)
    return _section("Confusion", f"{more:,} more classes." if more > 0 else "", table)


def _calibration(bins: Sequence[Mapping[str, Any]]) -> str:
    note = "On the dotted line, four of five predictions with a confidence of 80 % were right."
    return _chart("Calibration", note, lambda: charts.calibration(bins))


def _keys(found: Mapping[str, Any]) -> str:
    note = (
        f"{found['compared']:,} of {found['keys']:,} values of {found['per']!r} have enough scored "
        f"records; {found['worse']:,} of them are worse than guessing their usual label. Each row "
        "is over about the last 500 records of its key. Sorted by a lower bound of the error rate "
        "that holds for all keys together, with 99 %."
    )
    rows = [
        [
            row["key"],
            f"{row['scored']:,}",
            _share(row["accuracy"]),
            _share(row["guess"]),
            _number(row["log_loss"]),
            _share(row["least"]),
            row["worse_than"] or "",
        ]
        for row in found["worst"]
    ]
    head = ("key", "scored", "accuracy", "usual label", "log loss", "errors at least", "worse than")
    return _section("Worst keys", note, _table("Worst keys", head, rows))


def _decision(made: Mapping[str, Any]) -> str:
    best = made["best_constant"]
    rows = [[action, f"{n:,}"] for action, n in made["actions"].items()]
    rows.append(["rejected", f"{made['rejected']:,}"])
    note = ""
    if best is not None:
        always = "rejecting" if best["action"] is None else repr(named(best["action"]))
        note = f"Mean loss {made['risk']:.4f}; always {always}: {best['risk']:.4f}."
    return _section("Decisions", note, _table("Decisions", ("action", "times"), rows))


def _records(results: Mapping[str, Any]) -> str:
    counts = {
        "labels": {**results["labels"], "pending": results["pending"]},
        "dead letters": results["dead_letters"],
        "bad values, taken as missing": results["bad_values"],
        "beyond bounds": {k: n for k, n in results["overflows"].items() if n},
    }
    rows = [[kind, what, f"{n:,}"] for kind, of in counts.items() for what, n in of.items()]
    if results["unscored"]:
        rows.append(["unscored", "no class was known yet", f"{results['unscored']:,}"])
    table = _table("Records by outcome", ("", "what", "how many"), rows)
    first = [
        f"<li>{_text(reason)}: {_text(found['detail'], 300)}</li>"
        for reason, found in results["dead_letter_details"].items()
    ]
    beyond = [f"<li>{_text(k)}: {_text(explained(k))}</li>" for k in counts["beyond bounds"]]
    if beyond:
        table += f"<p>Beyond bounds:</p><ul>{''.join(beyond)}</ul>"
    if first:
        table += f"<p>The first of each reason:</p><ul>{''.join(first)}</ul>"
    mark = fingerprint_text(results)
    return _section("Records", "", table + f"<p>Fingerprint of the state: <code>{mark}</code></p>")


def _table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    cells = "".join(f"<th scope=col>{_text(name)}</th>" for name in head)
    body = ""
    for first, *others in rows:
        values = "".join(f"<td>{_text(value)}</td>" for value in others)
        body += f"<tr><th scope=row>{_text(first)}</th>{values}</tr>"
    return (
        f'<div class="wide" tabindex=0 role=region aria-label="{_text(caption)}">'
        f"<table><caption>{_text(caption)}</caption><thead><tr>{cells}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _chart(title: str, note: str, draw: Callable[[], str]) -> str:
    """A section with a chart; empty without matplotlib."""
    return _section(title, note, draw()) if drawn() else ""


def _section(title: str, note: str, body: str) -> str:
    paragraph = f"<p>{_text(note, 600)}</p>" if note else ""
    return f"<section><h2>{_text(title)}</h2>{paragraph}{body}</section>"


def _text(value: object, longest: int = LONGEST) -> str:
    text = "" if value == "" else printable(str(value))
    return escape(text if len(text) <= longest else text[: longest - 1] + "…")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f} %"


_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""
