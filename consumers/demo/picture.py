"""The data of the demo after a commit: one immutable picture, made from committed data only; and
its learning curve in braille characters of 2 x 4 dots. Pure.

Rule: the numbers are those of the shard's view, as in the metrics; the records are read from the
topics. The clock is an argument. The lines of the curve differ without colours: the model is solid,
majority is dashed, no-change is dotted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import floor
from typing import Any

import msgspec
from rich.text import Text

from consumers.base.records import Fetched, Partition
from consumers.config import Config
from consumers.demo.turns import Turn, TurnSearch
from consumers.shard.views import Committed, ShardView
from consumers.transports.protocol import Log

__all__ = ["LINES", "DemoPoint", "Line", "Picture", "PictureListener", "curve", "lowest"]


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


WINDOW = "last_1000"  # all of them while there are fewer
RATE_SECONDS = 2.0  # time over which records/s are measured
FIRST = 20  # scored predictions; with fewer an accuracy is mostly chance
POINTS = 400  # of the curve at most: a terminal has fewer columns


@dataclass(frozen=True, slots=True)
class DemoPoint:
    """Accuracies after `scored` scored predictions."""

    scored: int
    model: float
    majority: float
    no_change: float


@dataclass(frozen=True, slots=True)
class Picture:
    """The demo at one moment.

    Parameters
    ----------
    name, model, label
        The feed, the learner, and the field that it predicts.
    total
        Number of observations of the feed.
    rate
        Present observations per second.
    seconds
        Seconds since the first record was sent.
    points
        The learning curve.
    view
        The view of the shard; None before the first commit.
    turn
        A wrongly predicted record and a similar, rightly predicted one.
    """

    name: str
    model: str
    label: str
    total: int
    rate: float = 0.0
    seconds: float = 0.0
    points: tuple[DemoPoint, ...] = ()
    view: ShardView | None = None
    turn: Turn | None = None

    @property
    def observations(self) -> int:
        """Number of observations predicted or rejected."""
        return 0 if self.view is None else self.view.observations

    @property
    def scored(self) -> int:
        """Number of scored predictions."""
        return 0 if self.view is None else round(self.view.quality.scores["all"].scored)

    @property
    def window(self) -> str:
        """The window of the accuracies."""
        return "last 1,000" if self.scored > 1000 else "so far"


@dataclass(slots=True)
class PictureListener:
    """Listens to the runner and keeps the newest picture.

    Parameters
    ----------
    config
        Configuration of the service.
    log
        Its log; it is read in the runner's thread.
    label
        The field that holds the label in the feed.
    total
        Number of observations of the feed.
    clock
        Seconds from any start.
    """

    config: Config
    log: Log
    label: str
    total: int
    clock: Callable[[], float]
    picture: Picture = field(init=False)
    _turns: TurnSearch = field(default_factory=TurnSearch, init=False)
    _read: dict[Partition, int] = field(default_factory=dict, init=False)
    _rates: deque[tuple[float, int]] = field(default_factory=deque, init=False)
    _points: list[DemoPoint] = field(default_factory=list, init=False)
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        name, model = self.config.name, self.config.model.type
        self.picture = Picture(name, model, self.label, self.total)
        self.begin()

    def begin(self) -> None:
        """Note that the first record is sent now."""
        self._began = self.clock()
        self._rates.clear()
        self._rates.append((self._began, 0))

    def committed(self, _: Committed, view: ShardView) -> None:
        """Make the picture of a commit."""
        now = self.clock()
        self._read_back(view)
        self._extend(view)
        self.picture = replace(
            self.picture,
            rate=self._rate(now, view.observations),
            seconds=now - self._began,
            points=tuple(self._points),
            view=view,
            turn=self._turns.best,
        )

    def _rate(self, now: float, observations: int) -> float:
        rates = self._rates
        rates.append((now, observations))
        while len(rates) > 2 and now - rates[1][0] >= RATE_SECONDS:
            rates.popleft()
        then, before = rates[0]
        return (observations - before) / (now - then) if now > then else 0.0

    def _extend(self, view: ShardView) -> None:
        """Add the newest point to the curve; it replaces points that are too close."""
        scores = view.quality.scores[WINDOW]
        model, baselines = scores.accuracy, scores.baselines
        majority, no_change = baselines["majority"], baselines["no_change"]
        scored = round(view.quality.scores["all"].scored)
        if model is None or majority is None or no_change is None or scored < FIRST:
            return
        points = self._points
        if len(points) > 1 and points[-1].scored - points[-2].scored < self.total / POINTS:
            points.pop()
        points.append(DemoPoint(scored, model, majority, no_change))

    def _read_back(self, view: ShardView) -> None:
        """The records of this commit: observations, then predictions, then labels."""
        topics = self.config.input_topics
        observations = Partition(topics[0], 0)
        for fetched in self._news(observations, view.positions.get(observations, 0)):
            for id_, value in _objects(fetched):
                features = {k: v for k, v in value.items() if k != self.config.input.id}
                self._turns.observe(id_, features)
        predictions = Partition(self.config.predictions_topic, 0)
        for fetched in self._news(predictions, self.log.end_offsets([predictions])[predictions]):
            for id_, value in _objects(fetched):
                self._turns.predict(
                    id_,
                    value["prediction"],
                    tuple((label, p) for label, p in value["probabilities"]),
                    value["model"]["learned"],
                )
        for topic in topics[1:]:
            labels = Partition(topic, 0)
            for fetched in self._news(labels, view.positions.get(labels, 0)):
                for id_, value in _objects(fetched):
                    self._turns.answer(id_, value["label"])

    def _news(self, partition: Partition, end: int) -> list[Fetched]:
        start = self._read.get(partition, 0)
        if end <= start:
            return []
        self._read[partition] = end
        return list(self.log.read({partition: start}, {partition: end}))


def _objects(fetched: Fetched) -> list[tuple[str, dict[str, Any]]]:
    """Key and JSON object of each record; records that are not JSON objects are left out."""
    found = []
    for key, value in zip(fetched.keys, fetched.values, strict=True):
        try:
            object_ = msgspec.json.decode(value or b"")
        except (msgspec.DecodeError, RecursionError):
            continue
        if isinstance(object_, dict):
            found.append(((key or b"").decode("utf-8", "replace"), object_))
    return found
