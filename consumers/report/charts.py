"""The charts of a report, as SVG with the colours of the page, for light and dark mode.

matplotlib draws with placeholder colours, which are then replaced by those of the page. Every id
gets the prefix of its chart, because one document has several charts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import Any

from consumers.offline import plot
from consumers.offline.plot import CurvePoint

__all__ = ["accuracies", "accuracy", "calibration", "differences", "evidence", "log_loss"]

INK = "#010203"  # placeholder for the text colour of the page
SIZE = (6.4, 3.2)  # inches; the text of 9 points is legible on a phone
# Those of Okabe and Ito that are visible on black and on white; line styles differ too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
STYLES = ("-", "--", ":", "-.")
ENOUGH = 20.0  # the usual threshold of the e-value
LARGEST = 1e12  # drawn e-value; larger ones add nothing


def accuracy(points: Sequence[CurvePoint]) -> str:
    """Accuracy of model and baselines."""

    def draw(axes: Any) -> None:
        plot.accuracy_panel(axes, points)
        plot.observation_axis(axes, points)
        _legend(axes)

    return _svg("accuracy", "Accuracy of the model and its baselines", draw)


def log_loss(points: Sequence[CurvePoint]) -> str:
    """The log loss of the model."""

    def draw(axes: Any) -> None:
        plot.loss_panel(axes, points)
        plot.observation_axis(axes, points)
        _legend(axes)

    return _svg("log-loss", "Log loss of the model", draw)


def accuracies(points: Sequence[CurvePoint], names: Sequence[str]) -> str:
    """Recent accuracy of each model, the champion first."""
    champion, *others = names

    def draw(axes: Any) -> None:
        window = _last(points[-1].scores)
        _line(axes, points, champion, 0, lambda p: p.scores[window].accuracy)
        for i, name in enumerate(others, 1):
            _line(axes, points, name, i, _of(name, lambda scored: scored[0][window].accuracy))
        axes.set_ylabel("accuracy, recent")
        plot.share_axis(axes)
        plot.observation_axis(axes, points)
        _legend(axes)

    return _svg("accuracies", "Recent accuracy of each model", draw)


def experts(points: Sequence[CurvePoint]) -> str:
    """The weight of each learner of a mixture over time."""

    def draw(axes: Any) -> None:
        for i, name in enumerate(points[-1].experts):
            _line(axes, points, name, i, lambda p, name=name: p.experts.get(name))  # type: ignore[misc]
        axes.set_ylabel("weight")
        plot.share_axis(axes)
        plot.observation_axis(axes, points)
        _legend(axes)

    return _svg("experts", "Weight of each learner", draw)


def evidence(points: Sequence[CurvePoint], names: Sequence[str]) -> str:
    """The e-value of each challenger."""

    def draw(axes: Any) -> None:
        for i, name in enumerate(names[1:], 1):
            _line(axes, points, name, i, _of(name, lambda scored: min(scored[1].e_value, LARGEST)))
        axes.axhline(ENOUGH, color=INK, linewidth=0.8, linestyle=(0, (1, 2)))
        axes.set_yscale("log")
        axes.set_ylabel("e-value (dotted: 20)")
        plot.plain(axes)
        plot.observation_axis(axes, points)
        _legend(axes)

    return _svg("evidence", "Evidence that a challenger is right more often", draw)


def differences(points: Sequence[CurvePoint], names: Sequence[str]) -> str:
    """The difference of each challenger's Brier score, with its interval."""

    def draw(axes: Any) -> None:
        for i, name in enumerate(names[1:], 1):
            compared = [(p.observations, p.challengers[name][1]) for p in points]
            found = [(x, v) for x, v in compared if v.difference is not None]
            sure = [(x, v) for x, v in found if not v.undecided]
            axes.fill_between(
                [x for x, _ in sure], [v.lower for _, v in sure], [v.upper for _, v in sure],
                color=_colour(i), alpha=0.15, linewidth=0,
            )  # fmt: skip
            _line(axes, points, name, i, _of(name, lambda scored: scored[1].difference))
        axes.axhline(0.0, color=INK, linewidth=0.8)
        last = [point for p in points[-1:] for point in p.challengers.values()]
        ends = [
            abs(b)
            for _, v in last
            for b in ((v.difference,) if v.undecided else (v.lower, v.upper))
            if b  # an axis has a length
        ]
        most = max(ends, default=1)
        axes.set_ylim(-2.5 * most, 2.5 * most)
        axes.set_ylabel("Brier score saved, and 95 %")
        plot.plain(axes)
        plot.observation_axis(axes, points)
        _legend(axes)

    return _svg("differences", "By how much each challenger's Brier score is lower", draw)


def calibration(bins: Sequence[Mapping[str, Any]]) -> str:
    """Share of right predictions against their confidence."""
    found = [b for b in bins if b["confidence"] is not None]
    most = max((b["weight"] for b in found), default=1)

    def draw(axes: Any) -> None:
        axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=(0, (1, 2)))
        xs, ys = [b["confidence"] for b in found], [b["accuracy"] for b in found]
        axes.plot(xs, ys, color=_colour(0), linewidth=1.2)
        sizes = [12 + 120 * b["weight"] / most for b in found]
        axes.scatter(xs, ys, s=sizes, color=_colour(0), zorder=3)
        axes.set_xlim(0, 1.02)
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("confidence of the prediction")
        axes.set_ylabel("share that was right")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:.0%}")
        plot.plain(axes)

    return _svg("calibration", "Share of right predictions by their confidence", draw)


def _last(scores: Mapping[str, Any]) -> str:
    return next(window for window in scores if window.startswith("last_"))


def _colour(i: int) -> str:
    return COLOURS[i % len(COLOURS)]


def _of(name: str, value: Callable[[Any], float | None]) -> Callable[[CurvePoint], float | None]:
    """A value of one challenger."""
    return lambda point: value(point.challengers[name])


def _line(
    axes: Any,
    points: Sequence[CurvePoint],
    name: str,
    i: int,
    value: Callable[[CurvePoint], float | None],
) -> None:
    found = [(p.observations, y) for p in points if (y := value(p)) is not None]
    xs, ys = zip(*found, strict=True) if found else ((), ())
    marker = "." if len(found) == 1 else ""  # a line of one point is invisible
    style = STYLES[i % len(STYLES)]
    shown = name.replace("$", r"\$").lstrip("_")  # $ starts mathematics, _ hides a line
    axes.plot(xs, ys, label=shown, color=_colour(i), linestyle=style, linewidth=1.6, marker=marker)


def _legend(axes: Any) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, frameon=False, fontsize=8)


def _svg(key: str, label: str, draw: Callable[[Any], None]) -> str:
    """A chart as one element, as wide as its container."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    ink = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    style = dict.fromkeys(ink, INK) | {
        "svg.fonttype": "none",  # text stays text, for search and screen readers
        "svg.hashsalt": key,
        "font.size": 9,
        "font.family": "sans-serif",
    }
    out = StringIO()
    with mpl.rc_context(style):
        figure = Figure(figsize=SIZE, layout="constrained")
        draw(figure.subplots())
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))  # reproducible
        figure.savefig(out, format="svg", transparent=True, metadata=nothing)
    return _inlined(out.getvalue(), key, label)


def _inlined(svg: str, key: str, label: str) -> str:
    svg, _, described = svg[svg.index("<svg") :].partition("<metadata>")
    svg += described.partition("</metadata>")[2]
    svg = re.sub(r' id="([^"]+)"', rf' id="{key}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{key}-\1"', svg)
    svg = re.sub(r"url\(#([^()]+)\)", rf"url(#{key}-\1)", svg)
    size = f' role="img" aria-label="{label}"'
    svg = re.sub(r'(<svg[^<>]*?) (?:width|height)="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^<>]*?) (?:width|height)="[^"]*"', rf"\1{size}", svg, count=1)
    for colour, ours in ((INK, "currentColor"), (plot.GRID.lower(), "var(--grid)")):
        svg = svg.replace(colour, ours)
    return re.sub(r"\bfont: ([\d.]+)px [^;\"]*", r"font: \1px sans-serif", svg)
