"""The learning curve in braille characters of 2 x 4 dots. Pure.

Rule: the lines differ without colours: the model is solid, majority is dashed, no-change is dotted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor

from rich.text import Text

from consumers.demo.picture import DemoPoint

__all__ = ["LINES", "Line", "curve", "lowest"]

_EMPTY = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # [column][row] of a character


@dataclass(frozen=True, slots=True)
class Line:
    """The style of a line; `period` and `on` are in dot columns, 1 and 1 is solid."""

    name: str
    sample: str
    style: str
    of: Callable[[DemoPoint], float]
    period: int = 1
    on: int = 1


# Colours of Okabe and Ito's palette, which colour-blind readers can distinguish. In a character
# with several lines the first line has the colour.
LINES = (
    Line("model", "━", "bold #56b4e9", lambda p: p.model),
    Line("majority", "╌", "#e69f00", lambda p: p.majority, 6, 3),
    Line("no-change", "·", "#999999", lambda p: p.no_change, 4, 1),
)


def lowest(points: Sequence[DemoPoint]) -> float:
    """The start of the axis: the lowest accuracy, rounded down to 10 %."""
    values = [line.of(p) for p in points for line in LINES]
    return max(floor(min(values, default=0.5) * 10) / 10, 0.0) if values else 0.5


def curve(points: Sequence[DemoPoint], total: int, width: int, height: int) -> list[Text]:
    """The lines from 0 to `total` scored predictions, `lowest` to 1; `height` rows of `width`.

    Examples
    --------
    >>> points = [DemoPoint(20, 0.5, 0.5, 0.5), DemoPoint(100, 1.0, 0.5, 0.5)]
    >>> for row in curve(points, 100, 8, 2):
    ...     print(row.plain.replace(chr(0x2800), "_"))
    ____⢀⣠⠴⠚
    _⢀⡴⣚⡉_⣀⡀
    """
    bits = [[0] * width for _ in range(height)]
    owner = [[len(LINES)] * width for _ in range(height)]
    low = lowest(points)
    top = 4 * height - 1
    for number, line in enumerate(LINES):
        last: int | None = None
        for x, y in _columns(points, line.of, total, 2 * width):
            row = top - round((y - low) / (1 - low) * top) if low < 1 else 0
            if x % line.period < line.on:
                # A solid line has no gaps where it is steep.
                near = row if last is None or line.period > 1 else last
                for dot in range(min(near, row), max(near, row) + 1):
                    bits[dot // 4][x // 2] |= _DOTS[x % 2][dot % 4]
                    owner[dot // 4][x // 2] = min(owner[dot // 4][x // 2], number)
            last = row
    return [_row(*both) for both in zip(bits, owner, strict=True)]


def _columns(
    points: Sequence[DemoPoint], of: Callable[[DemoPoint], float], total: int, columns: int
) -> list[tuple[int, float]]:
    """(dot column, value) from the first point to the last, linear in between."""
    out = []
    after = 0
    for x in range(columns):
        at = (x + 1) * total / columns
        while after < len(points) and points[after].scored < at:
            after += 1
        if after == len(points):
            # The last point is in the last column, not after it.
            if points and after and at - points[-1].scored < total / columns:
                out.append((x, of(points[-1])))
            break
        if after == 0:
            if points[0].scored == at:
                out.append((x, of(points[0])))
            continue
        a, b = points[after - 1], points[after]
        share = (at - a.scored) / (b.scored - a.scored)
        out.append((x, of(a) + share * (of(b) - of(a))))
    return out


def _row(bits: list[int], owners: list[int]) -> Text:
    text = Text(no_wrap=True)
    for pattern, owner in zip(bits, owners, strict=True):
        text.append(chr(_EMPTY + pattern), LINES[owner].style if owner < len(LINES) else "")
    return text
