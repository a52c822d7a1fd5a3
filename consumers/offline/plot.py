"""The learning curve as a picture, by matplotlib, which is loaded only here and only when asked.

Rule: what is wrong with the wish for a picture is found by `check`, before any work is done.
Colours are those of Okabe and Ito, which colour-blind eyes tell apart; so do the line styles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from consumers.base.errors import ConfigError
from consumers.shard.views import ShardView
from stream.contest.compare import ComparisonView
from stream.evaluate.quality import QualityView, Scores, spoken

__all__ = [
    "FORMATS",
    "GRID",
    "POINTS",
    "CurvePoint",
    "accuracy_panel",
    "check",
    "draw",
    "loss_panel",
    "observation_axis",
    "plain",
    "point",
    "share_axis",
]

FORMATS = (".pdf", ".png", ".svg")
POINTS = 400  # of a curve: more than the picture has room to show
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#7F7F7F"
GRID = "#DDDDDD"


class CurvePoint(NamedTuple):
    """The scores by window after so many observations; the same of each challenger, by name."""

    observations: int
    scores: Mapping[str, Scores]
    challengers: Mapping[str, tuple[Mapping[str, Scores], ComparisonView]] = MappingProxyType({})


def point(view: ShardView) -> CurvePoint:
    """Where a shard stands."""
    others = {c.name: (_kept(c.quality), c.comparison) for c in view.challengers}
    return CurvePoint(view.observations, _kept(view.quality), others)


def _kept(quality: QualityView) -> Mapping[str, Scores]:
    """The scores by window, without what others could be computed from."""
    return {window: scores.plain() for window, scores in quality.scores.items()}


class _Line(NamedTuple):
    label: str
    window: str
    value: Callable[[Scores], float | None]
    style: Mapping[str, Any]


_MODEL = {"color": BLUE, "linewidth": 1.8}
_SO_FAR = {"color": GREY, "linewidth": 1.2}
_MAJORITY = {"color": ORANGE, "linewidth": 1.4, "linestyle": "--"}
_NO_CHANGE = {"color": GREEN, "linewidth": 1.4, "linestyle": ":"}
ACCURACY = (
    _Line("model, all so far", "all", lambda s: s.accuracy, _SO_FAR),
    _Line("majority, {last}", "last", lambda s: s.baselines["majority"], _MAJORITY),
    _Line("no-change, {last}", "last", lambda s: s.baselines["no_change"], _NO_CHANGE),
    _Line("model, {last}", "last", lambda s: s.accuracy, _MODEL),
)
LOG_LOSS = (
    _Line("model, all so far", "all", lambda s: s.log_loss, _SO_FAR),
    _Line("model, {last}", "last", lambda s: s.log_loss, _MODEL),
)


def check(path: Path) -> None:
    """Whether a picture can be drawn there.

    Raises
    ------
    ConfigError
        matplotlib is missing, or the path is none to write a picture to.
    """
    if find_spec("matplotlib") is None:
        raise ConfigError("--plot needs matplotlib; pip install matplotlib")
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"expected --plot FILE ending in {', '.join(FORMATS)}, got {str(path)!r}")
    if not path.parent.is_dir():
        raise ConfigError(f"--plot {path}: no directory {str(path.parent)!r}; make it first")


def draw(path: Path, points: Sequence[CurvePoint], title: str) -> None:
    """Accuracy of model and baselines over the observations, and the log loss below.

    Parameters
    ----------
    points
        In order, one at least.
    title
        Stands above.

    Raises
    ------
    ConfigError
        The file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(5, 3))
    accuracy_panel(upper, points)
    loss_panel(lower, points)
    observation_axis(lower, points)
    figure.align_ylabels()
    # A dollar sign would begin mathematics.
    upper.set_title(title.replace("$", r"\$"), loc="left", pad=30, fontweight="bold")
    upper.legend(
        loc="lower left", bbox_to_anchor=(0, 1.01), ncols=4, frameon=False, borderaxespad=0
    )
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise ConfigError(f"--plot {path}: cannot be written ({error.strerror or error})") from None


def accuracy_panel(axes: Any, points: Sequence[CurvePoint]) -> None:
    """Accuracy of model and baselines, as lines."""
    for line in ACCURACY:
        _draw_line(axes, points, line)
    axes.set_ylabel("accuracy")
    share_axis(axes)


def loss_panel(axes: Any, points: Sequence[CurvePoint]) -> None:
    """The log loss, as lines."""
    for line in LOG_LOSS:
        _draw_line(axes, points, line)
    top = _spikeless([y for line in LOG_LOSS for _, y in _found(points, line)])
    axes.set_ylabel("log loss (nats)" + ("\nwithout the highest 1 %" if top is not None else ""))
    plain(axes)
    axes.set_ylim(bottom=0, top=top)


def share_axis(axes: Any) -> None:
    """Shares up to 100 % upwards."""
    plain(axes)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_ylim(top=min(axes.get_ylim()[1], 1.005))


def observation_axis(axes: Any, points: Sequence[CurvePoint]) -> None:
    """Observations to the right."""
    axes.set_xlabel("observations")
    axes.set_xlim(0, points[-1].observations)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def plain(axes: Any, grid: str = GRID) -> None:
    """A light grid behind, and no box around."""
    axes.grid(color=grid, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_line(axes: Any, points: Sequence[CurvePoint], line: _Line) -> None:
    found = _found(points, line)
    marker = "." if len(found) == 1 else ""  # a line of one point would not be seen
    xs, ys = zip(*found, strict=True) if found else ((), ())
    label = line.label.format(last=spoken(_window(points[0], "last")))
    axes.plot(xs, ys, label=label, marker=marker, **line.style)


def _found(points: Sequence[CurvePoint], line: _Line) -> list[tuple[int, float]]:
    """Where the line has values."""
    window = _window(points[0], line.window)
    return [(p.observations, y) for p in points if (y := line.value(p.scores[window])) is not None]


def _window(point: CurvePoint, start: str) -> str:
    """The name of the window that begins so."""
    return next(window for window in point.scores if window.startswith(start))


def _spikeless(values: Sequence[float]) -> float | None:
    """The top of an axis that one spike does not flatten; None where there is no such spike.

    Examples
    --------
    >>> _spikeless([0.5, 0.4] * 100), _spikeless([0.5, 0.4] * 100 + [36.0])
    (None, 0.55)
    """
    if not values:
        return None
    usual = sorted(values)[max(len(values) * 99 // 100 - 1, 0)]
    return 1.1 * usual if 0 < 2 * usual < max(values) else None
