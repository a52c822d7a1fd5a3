"""The view of the demo: a picture and a size -> an object that rich prints. Pure.

Rule: it fits into 80 x 24 and is clear without colours. Narrower terminals show fewer parts; no
line wraps.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from consumers.demo.picture import LINES, Picture, curve, lowest
from consumers.demo.turns import PredictedRecord, Turn
from stream.data.schema import Label
from stream.evaluate.quality import QualityView

__all__ = [
    "TITLE",
    "TITLE_UNLIKE",
    "alikeness",
    "confusion",
    "frame",
    "label_text",
    "likely",
    "percent",
]

TITLE = "wrong, then right"
TITLE_UNLIKE = "wrong, later right: same class"

WIDEST = 110  # columns; longer lines are hard to read
MOST_ROWS = 15
LEAST_CURVE = 42  # columns, so that the legend fits
LEAST_MATRIX = 23  # so that its title fits and its width stays constant
BESIDE = 66  # columns at which the confusion matrix fits next to the curve
ABOVE = 3  # rows left for the lines above, such as the address of the metrics
AROUND = 6  # rows of the frame in addition to those of the curve
TURN_ROWS = 5
SHORT = 4  # letters of a class name
GOOD, BAD, QUIET = "bold #56b4e9", "#e69f00", "dim"


def frame(picture: Picture, width: int, height: int) -> RenderableType:
    """The whole picture in at most `height` rows of at most `width` columns."""
    width = min(width, WIDEST)
    room = height - ABOVE - AROUND
    with_turn = room >= TURN_ROWS + 3 and width >= 50
    rows = min(room - (TURN_ROWS if with_turn else 0), MOST_ROWS)
    rows -= 1 - rows % 2  # odd, so that the axis has a middle
    parts: list[RenderableType] = [_header(picture, width)]
    if rows >= 3 and width >= 30:
        parts.append(_scores(picture, width, rows))
    else:
        parts.append(_figures(picture))
    if with_turn:
        parts.append(_turn(picture.turn, picture.label, width))
    return Group(*parts)


def percent(value: float | None) -> str:
    """A share as text.

    Examples
    --------
    >>> percent(0.8917), percent(None)
    ('89.2 %', '-')
    """
    return "-" if value is None else f"{100 * value:.1f} %"


def likely(p: float) -> str:
    """A probability as text; only 0 and 1 become 0 % and 100 %.

    Examples
    --------
    >>> likely(0.972), likely(0.9999), likely(1e-9)
    ('97 %', '>99 %', '<1 %')
    """
    if 0 < p < 0.01:
        return "<1 %"
    return ">99 %" if 0.99 < p < 1 else f"{100 * p:.0f} %"


def label_text(label: Label | None) -> str:
    """A label as in its record.

    Examples
    --------
    >>> label_text("sky"), label_text(True), label_text(None)
    ('sky', 'true', 'nothing')
    """
    if label is None:
        return "nothing"
    return str(label).lower() if isinstance(label, bool) else str(label)


def _header(picture: Picture, width: int) -> RenderableType:
    done, total = picture.observations, picture.total
    pending = 0 if picture.view is None else picture.view.pending
    title = Text.assemble((picture.name, "bold"), f"  {picture.model}", no_wrap=True)
    count = Text(f"{done:,} of {total:,} observations", no_wrap=True, justify="right")
    facts = f"{picture.rate:,.0f} records/s   {pending:,} labels pending"
    dead = 0 if picture.view is None else sum(picture.view.dead_letters.values())
    if dead:
        facts += f"   {dead:,} dead letter{'' if dead == 1 else 's'}"
    top = Table.grid(expand=False, padding=(0, 1))
    top.add_column(width=max(width - 2 - len(count), 8), overflow="ellipsis", no_wrap=True)
    top.add_column(justify="right", no_wrap=True)
    top.add_row(title, count)
    bar = Table.grid(expand=False, padding=(0, 1))
    bar.add_column()
    bar.add_column(no_wrap=True, justify="right")
    bar.add_row(
        ProgressBar(
            total=max(total, 1),
            completed=done,
            width=max(width - 2 - len(facts), 8),
            complete_style="#56b4e9",
            finished_style="#56b4e9",
        ),
        facts,
    )
    return Group(top, bar)


def _scores(picture: Picture, width: int, rows: int) -> RenderableType:
    """The curve, with the confusion matrix next to it if there is room."""
    quality = None if picture.view is None else picture.view.quality
    matrix = None
    if quality is not None and quality.classes and width >= BESIDE:
        room = min(width // 2, width - LEAST_CURVE) - 4
        matrix = confusion(quality, picture.label, room, rows - 1)
    title = f"accuracy, {picture.window}"
    # A grid measures its cells first, so the widths are known before the curve is drawn.
    beside = 0 if matrix is None else max(_width(matrix), LEAST_MATRIX) + 4
    chart = Panel(
        _curve(picture, width - beside - 4, rows),
        title=title,
        title_align="left",
        box=box.ROUNDED,
        border_style=QUIET,
        width=width - beside,
        height=rows + 4,
    )
    if matrix is None:
        return chart
    table = Panel(
        Group(matrix, *_losses(picture, rows - len(matrix.rows))),
        title="confusion: truth down",
        title_align="left",
        box=box.ROUNDED,
        border_style=QUIET,
        width=beside,
        height=rows + 4,
    )
    both = Table.grid(expand=False)
    both.add_row(chart, table)
    return both


def _losses(picture: Picture, room: int) -> list[RenderableType]:
    """The log loss below the matrix, if there is room."""
    if picture.view is None or room < 3:
        return []
    scores = picture.view.quality.scores
    shown = [("log loss", scores["all"]), ("last 1,000", scores["last_1000"])]
    table = Table.grid(padding=(0, 2))
    for name, score in shown if picture.scored > 1000 else shown[:1]:
        table.add_row(name, "-" if score.log_loss is None else f"{score.log_loss:.3f}")
    return ["", table]


def _width(table: Table) -> int:
    return sum((column.width or 0) for column in table.columns) + len(table.columns) - 1


def _curve(picture: Picture, width: int, rows: int) -> RenderableType:
    low = lowest(picture.points)
    across = max(width - 6, 4)
    lines = _legend(picture, width)
    rows -= len(lines) - 1
    for number, row in enumerate(curve(picture.points, picture.total, across, rows)):
        mark = ""
        if number in (0, rows - 1) or (rows >= 7 and 2 * number == rows - 1):
            mark = f"{100 * (1 - (1 - low) * number / (rows - 1)):.0f} %"
        lines.append(Text.assemble((f"{mark:>5} ", QUIET), row))
    end = f"{picture.total:,} labels"
    lines.append(Text(" " * 6 + "0" + end.rjust(across - 1), style=QUIET, no_wrap=True))
    return Text("\n", no_wrap=True, overflow="crop").join(lines)


def _legend(picture: Picture, width: int) -> list[Text]:
    """The name and value of each line, in two rows if one is too short."""
    point = picture.points[-1] if picture.points else None
    words = [
        Text(f"{line.sample} {line.name} {percent(line.of(point) if point else None)}", line.style)
        for line in LINES
    ]
    one = Text("  ").join(words)
    return [one] if len(one) <= width else [words[0], Text("  ").join(words[1:])]


def _figures(picture: Picture) -> RenderableType:
    """The view without room for a curve."""
    point = picture.points[-1] if picture.points else None
    table = Table.grid(padding=(0, 2))
    for line in LINES:
        table.add_row(line.name, percent(line.of(point)) if point is not None else "-")
    return table


def confusion(quality: QualityView, label: str, width: int, rows: int) -> Table:
    """Rows are true classes, columns predicted classes; those without room become "rest".

    Parameters
    ----------
    label
        The field of the classes, for the corner.
    width
        Its maximum width in columns.
    rows
        Maximum number of classes.
    """
    longest = max((len(label_text(label)) for label in quality.classes), default=1)
    first = min(max(longest, min(len(label), 14), 5), 14)
    for most in range(max(rows, 2), 1, -1):
        names, counts = _folded(quality, most)
        digits = [max(len(f"{row[i]:,}") for row in counts) for i in range(len(names))]
        cells = [max(n, min(len(name), SHORT)) for n, name in zip(digits, names, strict=True)]
        spare = width - first - sum(cells) - len(cells)
        if spare >= 0:
            break
    cells = [
        max(n, min(len(name), n + max(spare, 0) // len(cells)))
        for n, name in zip(cells, names, strict=True)
    ]
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, show_header=True)
    table.add_column(Text(_cut(label, first), style=QUIET), width=first, no_wrap=True)
    for name, cell in zip(names, cells, strict=True):
        heading = Text(name[:cell], style=QUIET)
        table.add_column(heading, justify="right", width=cell, no_wrap=True)
    for i, name in enumerate(names):
        shown = [
            Text(f"{n:,}", style=GOOD if i == j else BAD if n else QUIET)
            for j, n in enumerate(counts[i])
        ]
        table.add_row(_cut(name, first), *shown)
    return table


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _folded(quality: QualityView, most: int) -> tuple[list[str], list[list[int]]]:
    """The largest classes by name, and the counts with all other classes in one."""
    counts = quality.confusion
    names = [label_text(label) for label in quality.classes[: len(counts)]]
    if not names:
        return ["-"], [[0]]
    order = sorted(range(len(names)), key=names.__getitem__)
    if len(names) > most:
        kept = sorted(order, key=lambda c: -int(counts[c].sum()))[: most - 1]
        kept.sort(key=names.__getitem__)
        groups = [[c] for c in kept] + [[c for c in order if c not in kept]]
    else:
        groups = [[c] for c in order]
    folded = [
        [sum(int(counts[t, p]) for t in true for p in predicted) for predicted in groups]
        for true in groups
    ]
    return [names[g[0]] if len(g) == 1 else "rest" for g in groups], folded


def _turn(turn: Turn | None, label: str, width: int) -> RenderableType:
    body: RenderableType
    if turn is None:
        body = Text("waiting for a wrong prediction, and a right one of a similar record", QUIET)
    else:
        inside = width - 4
        lines = [
            _record("wrong", BAD, turn.wrong, turn.truth, inside),
            _record("right", GOOD, turn.right, turn.truth, inside),
            Text(_likeness(turn, label, inside)),
        ]
        body = Text("\n", no_wrap=True, overflow="ellipsis").join(lines)
    return Panel(
        body,
        title=TITLE if turn is None or turn.alike else TITLE_UNLIKE,
        title_align="left",
        box=box.ROUNDED,
        border_style=QUIET,
        width=width,
        height=TURN_ROWS,
    )


def _record(word: str, style: str, prediction: PredictedRecord, truth: Label, width: int) -> Text:
    """One record: the probability of its true label, and its prediction."""
    p = prediction.probability(truth)
    line = Text(f"#{prediction.number:<7,} ")
    line.append(f"{word}  ", style)
    if width >= 60:
        line.append(f"P({_cut(label_text(truth), 12)}) ")
        line.append(_bar(p, 10), GOOD)
        line.append(f" {likely(p):>5}   ")
    named = ", ".join(
        f"{label_text(label)} {likely(q)}" for label, q in prediction.probabilities[:3]
    )
    return line.append(f"predicted {label_text(prediction.label)} ({named})")


def _bar(share: float, width: int) -> str:
    """A bar in eighths of a character, on a background of dots."""
    eighths = round(share * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width, "·")


def _likeness(turn: Turn, label: str, width: int) -> str:
    later = f"{turn.right.number - turn.wrong.number:,} records later"
    alike = f"{alikeness(turn)}, " if turn.alike else ""
    text = f"both {_cut(label, 16)} = {label_text(turn.truth)}; {alike}{later}"
    return text + _shown(turn, width - len(text) - 2)


def alikeness(turn: Turn) -> str:
    """The similarity of the two records."""
    if not turn.distance:
        return "the same field" if turn.fields == 1 else f"the same {turn.fields} fields"
    return f"similar: {turn.near} of {turn.fields} fields equal or close"


def _shown(turn: Turn, width: int) -> str:
    """The fields of the later record that fit, equal ones first."""
    a, b = turn.wrong.features, turn.right.features
    names: Sequence[str] = sorted(b, key=lambda name: a.get(name) != b[name])
    out = ""
    for name in names:
        more = f"{name}={b[name]}"
        if len(out) + len(more) + 2 > width:
            break
        out += (", " if out else "") + more
    return f": {out}" if out else ""
