"""The learning curve and its panels, drawn into axes of matplotlib.

Rule: a curve has a bounded number of points. Colours are those of Okabe and Ito, which colour-blind
readers can distinguish, also by the line styles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from consumers.shard.views import ShardView
from stream.contest.compare import ComparisonView
from stream.evaluate.quality import QualityView, Scores, window_title

__all__ = [
    "GRID",
    "POINTS",
    "CurvePoint",
    "accuracy_panel",
    "loss_panel",
    "observation_axis",
    "plain",
    "point",
    "share_axis",
]

POINTS = 400  # of a curve at most: a chart has no room for others
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#7F7F7F"
GRID = "#DDDDDD"


class CurvePoint(NamedTuple):
    """Scores by window after `observations` observations, also of each challenger, by name, and
    the weight of each learner of a mixture."""

    observations: int
    scores: Mapping[str, Scores]
    challengers: Mapping[str, tuple[Mapping[str, Scores], ComparisonView]] = MappingProxyType({})
    experts: Mapping[str, float] = MappingProxyType({})


def point(view: ShardView) -> CurvePoint:
    """The present point of a shard."""
    others = {c.name: (_kept(c.quality), c.comparison) for c in view.challengers}
    return CurvePoint(view.observations, _kept(view.quality), others, view.experts)


def _kept(quality: QualityView) -> Mapping[str, Scores]:
    """The scores by window, without the data from which others are computed."""
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
    """A y-axis with shares up to 100 %."""
    plain(axes)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_ylim(top=min(axes.get_ylim()[1], 1.005))


def observation_axis(axes: Any, points: Sequence[CurvePoint]) -> None:
    """An x-axis with observations."""
    axes.set_xlabel("observations")
    axes.set_xlim(0, points[-1].observations)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def plain(axes: Any, grid: str = GRID) -> None:
    """A light grid in the background, and no box."""
    axes.grid(color=grid, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_line(axes: Any, points: Sequence[CurvePoint], line: _Line) -> None:
    found = _found(points, line)
    marker = "." if len(found) == 1 else ""  # a line of one point is invisible
    xs, ys = zip(*found, strict=True) if found else ((), ())
    label = line.label.format(last=window_title(_window(points[0], "last")))
    axes.plot(xs, ys, label=label, marker=marker, **line.style)


def _found(points: Sequence[CurvePoint], line: _Line) -> list[tuple[int, float]]:
    """The points at which the line has values."""
    window = _window(points[0], line.window)
    return [(p.observations, y) for p in points if (y := line.value(p.scores[window])) is not None]


def _window(point: CurvePoint, start: str) -> str:
    """The name of the window with this prefix."""
    return next(window for window in point.scores if window.startswith(start))


def _spikeless(values: Sequence[float]) -> float | None:
    """The top of an axis without the highest 1 %; None if these are no spike.

    Examples
    --------
    >>> _spikeless([0.5, 0.4] * 100), _spikeless([0.5, 0.4] * 100 + [36.0])
    (None, 0.55)
    """
    if not values:
        return None
    usual = sorted(values)[max(len(values) * 99 // 100 - 1, 0)]
    return 1.1 * usual if 0 < 2 * usual < max(values) else None
