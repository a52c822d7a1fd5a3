"""The learning curve as a picture, by matplotlib, which is loaded only here and only when asked.

Rule: what is wrong with the wish for a picture is found by `check`, before any work is done.
Colours are those of Okabe and Ito, which colour-blind eyes tell apart; so do the line styles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from consumers.errors import ConfigError
from consumers.replay import Checkpoint
from stream.evaluate.quality import Scores

__all__ = ["FORMATS", "POINTS", "check", "draw"]

FORMATS = (".pdf", ".png", ".svg")
POINTS = 400  # checkpoints of a curve: more than the picture has room to show
WINDOW = "last_1000"
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#7F7F7F"
# Label, style and value of each line of the upper picture, then of the lower one.
ACCURACY: tuple[tuple[str, dict[str, Any], str, Callable[[Scores], float | None]], ...] = (
    ("model, last 1,000", {"color": BLUE, "lw": 1.8}, WINDOW, lambda s: s.accuracy),
    ("model, all so far", {"color": GREY, "lw": 1.2}, "all", lambda s: s.accuracy),
    (
        "no-change, last 1,000",
        {"color": GREEN, "lw": 1.2, "ls": (0, (1.2, 1.2))},
        WINDOW,
        lambda s: s.baselines["no_change"],
    ),
    (
        "majority, last 1,000",
        {"color": ORANGE, "lw": 1.2, "ls": "--"},
        WINDOW,
        lambda s: s.baselines["majority"],
    ),
)
LOG_LOSS: tuple[tuple[str, dict[str, Any], str, Callable[[Scores], float | None]], ...] = (
    ("model, last 1,000", {"color": BLUE, "lw": 1.8}, WINDOW, lambda s: s.log_loss),
    ("model, all so far", {"color": GREY, "lw": 1.2}, "all", lambda s: s.log_loss),
)


def check(path: Path) -> None:
    """Whether a picture can be drawn there.

    Raises
    ------
    ConfigError
        matplotlib is missing, or the path is none to write a picture to.
    """
    if find_spec("matplotlib") is None:
        raise ConfigError("--plot needs matplotlib; pip install 'headwater[plot]'")
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"expected --plot FILE ending in {', '.join(FORMATS)}, got {str(path)!r}")
    if not path.parent.is_dir():
        raise ConfigError(f"--plot {path}: no directory {str(path.parent)!r}; make it first")


def draw(path: Path, checkpoints: Sequence[Checkpoint], *, data: str) -> None:
    """Accuracy of model and baselines over the observations, and the log loss below.

    Parameters
    ----------
    checkpoints
        In order, one at least.
    data
        What the data is called in the title.

    Raises
    ------
    ConfigError
        The file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(5, 3))
    last = checkpoints[-1].view
    figure.suptitle(_title(last.name, last.model, data, last.quality.scores["all"].accuracy))
    for axes, lines, name in ((upper, ACCURACY, "accuracy"), (lower, LOG_LOSS, "log loss (nats)")):
        _lines(axes, checkpoints, lines)
        axes.set_ylabel(name)
        axes.grid(color="#DDDDDD", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    upper.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    upper.set_ylim(top=min(upper.get_ylim()[1], 1.005))
    lower.set_ylim(bottom=0)
    lower.set_xlabel("observations")
    lower.set_xlim(0, last.observations)
    lower.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    upper.legend(loc="upper center", bbox_to_anchor=(0.5, 1.13), ncols=4, frameon=False, fontsize=9)
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise ConfigError(f"--plot {path}: cannot be written ({error.strerror or error})") from None


def _title(name: str, model: str, data: str, accuracy: float | None) -> str:
    """The title's text; a dollar sign would begin mathematics.

    Examples
    --------
    >>> _title("phishing", "gaussian_nb", "pages.csv", 0.88125)
    'phishing (gaussian_nb) on pages.csv: 88.12 % right'
    """
    right = "nothing scored" if accuracy is None else f"{100 * accuracy:.2f} % right"
    return f"{name} ({model}) on {data}: {right}".replace("$", r"\$")


def _lines(
    axes: Any,
    checkpoints: Sequence[Checkpoint],
    lines: Sequence[tuple[str, dict[str, Any], str, Callable[[Scores], float | None]]],
) -> None:
    for label, style, window, value in lines:
        found = [
            (c.view.observations, y)
            for c in checkpoints
            if (y := value(c.view.quality.scores[window])) is not None
        ]
        if len(found) == 1:
            style = {**style, "marker": "."}  # a line of one point would not be seen
        axes.plot(*zip(*found, strict=True) if found else ((), ()), label=label, **style)
