"""The report of a replay for people: tables that fit 80 columns.

Rule: what decides whether the model is good comes first, beside guessing; the rest is one line
each, or a table with `details`. Data of records (labels, names) is shown as data, without markup
and control codes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from consumers.base.counts import counted, printable
from stream.decision.risk import named
from stream.evaluate.quality import window_title
from stream.evaluate.table import KINDS, Column, columns

__all__ = ["renderable", "show", "show_standings", "standings", "table_of"]

MOST_CLASSES = 20  # rows of a table, and columns of the confusion matrix
MOST_COLUMNS = 6  # of scores, in addition to the window
MOST_ALARMS = 5
LONGEST_LABEL = 24
MOST_LEARNERS = 3  # of a mixture in one line
SUMMED_UP = {  # scores in one line
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
    "mcc": "MCC",
    "prior_log_loss": "log loss of guessing by the class shares",
}


def show(results: Mapping[str, Any], *, details: bool = False) -> None:
    """Print the report on stdout; with `details` all scores by window, classes and confusion."""
    _print(renderable(results, details=details))


def show_standings(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print champion and challengers on stdout."""
    _print(standings(rows))


def _print(what: RenderableType) -> None:
    # Without a terminal rich assumes 80 columns, which would wrap a confusion matrix.
    width = None if sys.stdout.isatty() else 200
    Console(file=sys.stdout, width=width, highlight=False).print(what)


def renderable(results: Mapping[str, Any], *, details: bool = False) -> RenderableType:
    """The results of `consumers.offline.evaluate.report`, for rich."""
    scores, classes = results["scores"], results["classes"]
    parts: list[RenderableType] = [_head(results)]
    if scores["all"]["scored"] <= 0:
        parts.append(Text("scores: none, because no prediction has a label yet"))
    elif details:
        parts.append(_scores(scores))
    else:
        parts += [_beside_guessing(scores, "window", window_title), *_summed_up(scores["all"])]
    if details and classes:
        parts.append(_classes(classes, results["confusion"]["counts"]))
    if details and 0 < len(classes) <= MOST_CLASSES:
        parts.append(_confusion(results["confusion"]))
    elif details and classes:
        parts.append(Text(f"confusion matrix: {len(classes)} classes, too many to show; --json"))
    elif classes:
        parts.append(_weakest(classes))
    if results["experts"]:
        parts.append(_experts(results["experts"], None if details else MOST_LEARNERS))
    if results["keys"] is not None and results["keys"]["compared"]:
        parts += _keys(results["keys"])
    if results["challengers"]:
        parts.append(standings(results["challengers"]))
        parts += [
            Text(f"{row['name']} failed: {row['failed']}\n")
            for row in results["challengers"]
            if row.get("failed")
        ]
    if results["decision"] is not None:
        parts.append(_decision(results["decision"]))
    if results["budget"] is not None:
        parts.append(Text(f"{results['budget']['text']}\n"))
    parts += _counts(results)
    if not details:
        parts.append(Text("--details shows every score, the classes and the confusion matrix"))
    parts += _verification(results.get("verification"))
    return Group(*parts)


def _head(results: Mapping[str, Any]) -> Text:
    source = results["source"]
    if "journal" in source:
        of = f"journal {source['journal']} to position {source['position']:,}"
    else:
        when = _when(source["delay"])
        of = f"{source['file']}, labels from {source['label']!r}, {when}"
    rate = results["records_per_second"]
    labels = results["records"] - results["observations"]
    speed = f" in {results['seconds']:.2f} s: {rate:,.0f} records/s" if rate else ""
    if results["replayed"] != results["records"]:
        speed = f"; {results['replayed']:,} of them replayed after a snapshot{speed}"
    return Text(
        f"{results['name']} ({results['model']}) on {of}\n"
        f"{results['records']:,} records ({results['observations']:,} observations, "
        f"{labels:,} labels)"
        f"{_without(source.get('cut_out'))}{speed}{_imported(results['imported'])}"
    )


def _imported(source: str | None) -> str:
    """The origin of an imported model, whose earlier scores are not in the tables."""
    return f"\nit began with the model {source}: scores begin there" if source else ""


def _without(cut: Mapping[str, int] | None) -> str:
    """The records that rollbacks removed; they are not in the other counts.

    Examples
    --------
    >>> _without({"entries": 1, "records": 1200}), _without({"entries": 0, "records": 0})
    (', without 1 entry of 1,200 records removed by a rollback', '')
    """
    if not cut or not cut["entries"]:
        return ""
    what = f"{counted(cut['entries'], 'entry', 'entries')} of {counted(cut['records'], 'record')}"
    return f", without {what} removed by a rollback"


def _when(delay: int | str | None) -> str:
    """The delay of the labels as text.

    Examples
    --------
    >>> _when(None), _when(0), _when(100), _when("7d")
    ('inside', 'right after', '100 records late', '7d late')
    """
    if delay is None:
        return "inside"
    if isinstance(delay, str):
        return f"{delay} late"
    return f"{delay:,} records late" if delay > 1 else "right after"


def show_models(scores: Mapping[str, Any]) -> None:
    """Print the scores of several models on the same records, with their baselines, on stdout."""
    _print(_scores(scores, "model", str))


def _scores(
    scores: Mapping[str, Any], of: str = "window", title: Callable[[str], str] = window_title
) -> Group:
    """Scores of predicted classes with their baselines; then of probabilities with the prior."""
    parts = [part for kind in KINDS for part in _parts(columns(kind))]
    further = (_further(scores, part, of, title) for part in parts)
    return Group(_beside_guessing(scores, of, title), *further)


def _beside_guessing(scores: Mapping[str, Any], of: str, title: Callable[[str], str]) -> Table:
    """Accuracy and log loss, beside the accuracy of the two guesses."""
    table = table_of(of, "scored", "accuracy", "log loss", "majority", "no-change")
    for window, row in scores.items():
        shares = (row["accuracy"], *(row["baselines"][b] for b in ("majority", "no_change")))
        accuracy, majority, no_change = (_share(value) for value in shares)
        loss = _number(row["log_loss"])
        scored = f"{row['scored']:,.0f}"
        table.add_row(title(window), scored, accuracy, loss, majority, no_change)
    return table


def _summed_up(row: Mapping[str, Any]) -> list[Text]:
    """Further scores over all records, those that there are, in one line."""
    known = [c for kind in KINDS for c in columns(kind) if c.id in SUMMED_UP]
    cells = [
        f"{SUMMED_UP[c.id]} {(_share if c.unit == 'share' else _number)(row[c.id])}"
        for c in known
        if row[c.id] is not None
    ]
    return [Text(f"also: {', '.join(cells)}")] if cells else []


def _weakest(classes: Sequence[Mapping[str, Any]]) -> Text:
    """The class that is found least often."""
    there = [row for row in classes if row["support"]]
    if not there:
        return Text(f"classes: {len(classes)}")
    least = min(there, key=lambda row: row["recall"] or 0.0)
    return Text.assemble(
        f"classes: {len(classes)}; found least often: ",
        _plain(least["label"]),
        f", recall {_share(least['recall'])} of {least['support']:,}",
    )


def _further(
    scores: Mapping[str, Any], shown: Sequence[Column], of: str, title: Callable[[str], str]
) -> Table:
    """These scores of each window or model."""
    table = table_of(of, *(column.title for column in shown))
    for window, row in scores.items():
        cells = ((_share if c.unit == "share" else _number)(row[c.id]) for c in shown)
        table.add_row(title(window), *cells)
    return table


def _parts(shown: Sequence[Column]) -> list[Sequence[Column]]:
    """Split the columns into tables of at most 80 characters and similar width.

    Examples
    --------
    >>> [len(part) for part in _parts(columns("classes") * 3)]
    [6, 6, 6]
    """
    tables = -(-len(shown) // MOST_COLUMNS)
    size = -(-len(shown) // tables)
    return [shown[at : at + size] for at in range(0, len(shown), size)]


def _classes(classes: Sequence[Mapping[str, Any]], counts: Sequence[Sequence[int]]) -> Table:
    """Precision, recall and F1 by class; a dash without a case, such as the precision of a class
    that was never predicted."""
    table = table_of("class", "precision", "recall", "F1", "support")
    predicted = [sum(column) for column in zip(*counts, strict=True)]
    predicted += [0] * (len(classes) - len(predicted))
    rows = list(zip(classes, predicted, strict=True))
    if len(rows) > MOST_CLASSES:
        rows = sorted(rows, key=lambda row: -row[0]["support"])[:MOST_CLASSES]
    for row, times in rows:
        support = row["support"]
        measured = {"precision": times, "recall": support, "f1": times + support}
        shares = (_share(row[name] if cases else None) for name, cases in measured.items())
        table.add_row(_plain(row["label"]), *shares, f"{support:,}")
    if len(classes) > MOST_CLASSES:
        table.add_row(f"{len(classes) - MOST_CLASSES} more", "", "", "", "")
    return table


def _confusion(confusion: Mapping[str, Any]) -> Table:
    names = [_plain(label) for label in confusion["labels"]]
    table = table_of("true \\ predicted", *names)
    for name, counts in zip(names, confusion["counts"], strict=True):
        table.add_row(name, *(f"{count:,}" for count in counts))
    return table


def standings(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Champion and challengers, with the comparison of each challenger."""
    others = ("accuracy", "log loss", "won", "lost", "e-value", "Brier less", "95 % interval")
    table = table_of("model", *others)
    for row in rows:
        if row.get("failed"):
            table.add_row(row["name"], "failed")
            continue
        accuracy, loss = _share(row["accuracy"]), row["log_loss"]
        cells = [accuracy, "-" if loss is None else f"{loss:.4f}"]
        against = row["against"]
        if against is None:
            table.add_row(f"{row['name']} (champion)", *cells)
            continue
        evidence = "undecided" if against["undecided"] else f"{against['e_value']:.3g}"
        cells += [f"{against['won']:,}", f"{against['lost']:,}", evidence]
        if against["difference"] is not None and against["undecided"]:
            cells += [f"{against['difference']:+.4f}", against["undecided"]]
        elif against["difference"] is not None:
            lower, upper = against["lower"], against["upper"]
            cells += [f"{against['difference']:+.4f}", f"{lower:+.4f} … {upper:+.4f}"]
        table.add_row(row["name"], *cells)
    return table


def _experts(weights: Mapping[str, float], most: int | None) -> Text:
    """The weights of the learners of a mixture, the largest first."""
    found = sorted(weights.items(), key=lambda pair: -pair[1])
    shown = [f"{name} {weight:.1%}" for name, weight in found[:most]]
    if len(found) > len(shown):
        shown.append(f"{len(found) - len(shown)} more")
    return Text(f"weights of the learners: {', '.join(shown)}")


def _keys(found: Mapping[str, Any]) -> list[RenderableType]:
    """The worst keys, and how many are worse than guessing their usual label."""
    said = Text.assemble(
        f"{found['compared']:,} of {found['keys']:,} values of ",
        printable(found["per"]),
        f" are compared, {found['worse']:,} worse than guessing their usual label; each over about "
        "its last 500 records",
    )
    shown = ("accuracy", "usual label", "log loss", "errors at least", "worse than")
    table = table_of("key", "scored", *shown)
    for row in found["worst"]:
        shares = (_share(row[name]) for name in ("accuracy", "guess"))
        loss, least = _number(row["log_loss"]), _share(row["least"])
        than = row["worse_than"] or ""
        table.add_row(_plain(row["key"]), f"{row['scored']:,}", *shares, loss, least, than)
    return [said, table] if found["worst"] else [said]


def _decision(made: Mapping[str, Any]) -> Text:
    """The number of each action; the mean loss, and that of the best constant action."""
    most = sorted(made["actions"].items(), key=lambda done: -done[1])
    counts = [f"{_plain(action)} {n:,}" for action, n in most[:MOST_CLASSES]]
    if len(most) > MOST_CLASSES:
        counts.append(f"{sum(n for _, n in most[MOST_CLASSES:]):,} others")
    counts.append(f"rejected {made['rejected']:,} ({_share(made['rejected_share'])})")
    lines = [f"decisions: {', '.join(counts)}"]
    best = made["best_constant"]
    if best is not None:
        always = "rejecting" if best["action"] is None else repr(str(_plain(best["action"])))
        lines.append(
            f"mean loss per decision: {made['risk']:.4f} over {made['scored']:,} scored; "
            f"always {always}: {best['risk']:.4f}"
        )
    return Text("\n".join(lines) + "\n")


def _counts(results: Mapping[str, Any]) -> list[Text]:
    from consumers.offline.evaluate import fingerprint_text
    from consumers.telemetry.advice import explained, only_one_scored

    labels = {**results["labels"], "pending": results["pending"]}
    lines = {
        "labels": labels,
        "dead letters": results["dead_letters"],
        "bad values": {} if "fields_in_words" in results else results["bad_values"],
        "beyond bounds": {k: v for k, v in results["overflows"].items() if v},
    }
    out = [
        Text(f"{name}: " + (", ".join(f"{k} {v:,}" for k, v in counts.items()) or "none"))
        for name, counts in lines.items()
        if counts or name not in ("bad values", "beyond bounds")
    ]
    out += [Text(printable(line)) for line in results.get("fields_in_words", ())]
    out += [
        Text(f"  {bound}: {why}") for bound in lines["beyond bounds"] if (why := explained(bound))
    ]
    for reason, first in results["dead_letter_details"].items():
        where = f"{first['topic']} {first['offset']}" if "offset" in first else first["topic"]
        out.append(Text.assemble(f"  first {reason}, at {where}: ", printable(first["detail"])))
    confusion = results["confusion"]
    recall = only_one_scored(results["labels"], confusion["labels"], confusion["counts"])
    if recall is not None:
        out.append(Text(recall))
    if results["unscored"]:
        why = "no class was known yet"
        if results["imported"]:
            why += ", or their observations were in the history"
        out.append(Text(f"unscored: {results['unscored']:,} ({why})"))
    out += _drift(results["drift"])
    return [*out, Text(f"fingerprint: {fingerprint_text(results)}")]


def _drift(results: Mapping[str, Any] | None) -> list[Text]:
    """Alarms by detector, the actions, and the last alarm."""
    if results is None:
        return []
    counts = {f"{m['detector']} on {m['on']}": m["alarms"] for m in results["detectors"]}
    counts |= results["actions"]
    lines = ["drift: " + ", ".join(f"{what} {n:,}" for what, n in counts.items())]
    for alarm in results["last"][-MOST_ALARMS:]:
        what = f"{alarm['detector']} on {alarm['on']}"
        change = f"from {alarm['before']:.4g} to {alarm['after']:.4g}"
        lines.append(f"  {what} {change} at {alarm['topic']} {alarm['offset']}")
    return [Text(printable(line)) for line in lines]


def _verification(found: Mapping[str, Any] | None) -> list[Text]:
    """What river's own loop came to, if it was asked."""
    if found is None:
        return []
    lines = [
        f"verified by {found['by']}: {found['records']:,} records, {found['scored']:,} scored, in "
        f"{found['seconds']:.2f} s",
        f"largest difference: {_gap(found['largest_difference'])}",
    ]
    if found["first"] is not None:
        lines.append(f"  first prediction that differs: record {found['first'] + 1:,} of the file")
    lines += [f"  {id_}: {_gap(gap)}" for id_, gap in found["differences"].items() if gap != 0]
    if found["compared"] < found["records"]:
        lines.append(
            f"  single predictions: the first {found['compared']:,} were compared; scores: all"
        )
    left = [
        counted(n, f"dead letter among the {kind}", f"dead letters among the {kind}")
        for kind, n in found["left_out"].items()
        if n and kind != "challengers"
    ]
    if n := found["left_out"]["challengers"]:
        left.append(counted(n, "challenger"))
    if left:
        lines.append(f"  left out: {', '.join(left)}")
    return [Text(line) for line in lines]


def _gap(value: float | None) -> str:
    return "a score exists on one side only" if value is None else f"{value:.3g}"


def table_of(first: str, *others: str | Text) -> Table:
    """A table whose first column is on the left and whose others are on the right.

    Examples
    --------
    >>> len(table_of("class", "recall", "F1").columns)
    3
    """
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(Text(first))
    for name in others:
        table.add_column(name if isinstance(name, Text) else Text(name), justify="right")
    return table


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _plain(label: Any) -> Text:
    text = printable(named(label))
    return Text(text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…")
