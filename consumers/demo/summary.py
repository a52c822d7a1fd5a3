"""The plain lines of the demo: progress without a terminal, and the summary. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

from rich.console import Console

from consumers.config import Config
from consumers.demo.picture import Picture
from consumers.demo.view import (
    TITLE,
    TITLE_UNLIKE,
    alikeness,
    confusion,
    label_text,
    likely,
    percent,
)
from consumers.transports.registry import local_path
from stream.evaluate.quality import WINDOWS

__all__ = ["files", "outcome", "progress"]

WIDEST = 80  # columns of a terminal that nobody has changed
_WINDOWS = dict(zip(WINDOWS, ("all", "last 1,000", "fading"), strict=True))


def progress(picture: Picture) -> str:
    """One line of progress."""
    line = f"{picture.observations:>7,} of {picture.total:,} observations"
    if not picture.points:
        return f"{line}   too few labels yet"
    point = picture.points[-1]
    return (
        f"{line}   {picture.window}: accuracy {percent(point.model)}   "
        f"majority {percent(point.majority)}   no-change {percent(point.no_change)}"
    )


def outcome(picture: Picture, *, seen: bool) -> Iterator[str]:
    """The summary, line by line.

    Parameters
    ----------
    seen
        Whether the terminal already shows the confusion matrix and the pair of records.
    """
    view = picture.view
    if view is None:
        yield "stopped before the first record"
        return
    scores = view.quality.scores
    yield (
        f"{view.observations:,} observations predicted, {view.learned:,} labels learned "
        f"within {picture.seconds:.1f} s of the first record"
    )
    if view.observations < picture.total:
        yield f"stopped after {view.observations:,} of {picture.total:,} observations"
    yield ""
    width = max(len(view.model), 10)
    yield f"{'accuracy':<{width}}" + "".join(f"{name:>12}" for name in _WINDOWS.values())
    yield f"{view.model:<{width}}" + "".join(
        f"{percent(scores[window].accuracy):>12}" for window in _WINDOWS
    )
    for baseline, name in (("majority", "majority"), ("no_change", "no-change")):
        values = (scores[window].baselines[baseline] for window in _WINDOWS)
        yield f"{name:<{width}}" + "".join(f"{percent(value):>12}" for value in values)
    losses = (scores[window].log_loss for window in _WINDOWS)
    shown = ("-" if loss is None else f"{loss:.3f}" for loss in losses)
    yield f"{'log loss':<{width}}" + "".join(f"{loss:>12}" for loss in shown)
    if view.quality.unscored:
        yield f"not scored: {view.quality.unscored:,} predicted before any label was known"
    for reason, count in sorted(view.dead_letters.items()):
        yield f"dead letters: {count:,} {reason}"
    if not seen:
        yield from _details(picture)


def _details(picture: Picture) -> Iterator[str]:
    view, turn = picture.view, picture.turn
    if view is not None and view.quality.classes:
        yield ""
        yield "confusion (rows: true, columns: predicted)"
        console = Console(file=StringIO(), width=80, color_system=None, legacy_windows=False)
        with console.capture() as capture:
            console.print(confusion(view.quality, picture.label, 76, 20))
        yield from (line.rstrip() for line in capture.get().rstrip("\n").split("\n"))
    if turn is not None:
        yield ""
        yield TITLE if turn.alike else TITLE_UNLIKE
        for word, turned in (("wrong", turn.wrong), ("right", turn.right)):
            named = ", ".join(f"{label_text(y)} {likely(p)}" for y, p in turned.probabilities[:3])
            yield f"  #{turned.number:<6,} {word}: predicted {label_text(turned.label)} ({named})"
        alike = f", {alikeness(turn)}" if turn.alike else ""
        yield f"  both {picture.label} = {label_text(turn.truth)}{alike}"


def files(config: Config, path: Path, program: str = "headwater") -> Iterator[str]:
    """The files that were written, and the next commands to try.

    Parameters
    ----------
    config
        Configuration of the service.
    path
        Path of its file.
    program
        The command that starts this program.
    """
    directory, quoted = path.parent, shlex.quote(str(path))
    url = config.input.transport
    yield f"files in {directory}"
    yield f"  {path.name:<16} the configuration, which you can change and run"
    log = Path(local_path(url) or url).name
    yield f"  {log:<16} the log: inputs, predictions, the journal"
    yield f"  {config.snapshots.directory.name + '/':<16} snapshots of the model"
    yield ""
    yield "next"
    tail = (f"tail {config.predictions_topic}", "--from-beginning", "--drain")
    yield from in_lines(program, *tail, f"--config {quoted}")
    yield from in_lines(program, "replay", quoted, "--journal")
    yield from in_lines(program, "run", quoted)


def in_lines(*words: str) -> Iterator[str]:
    """A command in lines of at most 80 columns, which a shell reads as one command.

    Parameters
    ----------
    words
        What stays in one line: each word, or an option with its value.

    Examples
    --------
    >>> print(*in_lines("headwater", "tail", "--config " + 60 * "x"), sep="\\n")
      headwater tail \\
          --config xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
    """
    line = " "
    for word in words:
        if line.strip() and len(f"{line} {word} \\") > WIDEST:
            yield f"{line} \\"
            line = "     "
        line = f"{line} {word}"
    yield line
