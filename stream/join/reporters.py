"""Reporters: who labels, how much each of them is trusted, and which label each gave to an id.

Rule: trust is counted from labels only. A reporter is judged by reporters who label the same
observation later, never by what a model predicts. Every number here is a function of the labels
in their order, so that any split of the stream and any replay give the same bits.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from heapq import nlargest
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream.data.schema import Label
from stream.data.state import Rules, Saved, State, pack, texts
from stream.errors import SchemaError

__all__ = [
    "LONGEST_REPORTER",
    "ReporterRules",
    "ReporterView",
    "Reporters",
    "ReportersView",
    "Vote",
    "Votes",
    "marked",
]

HOUR_MS = 3_600_000
LONGEST_REPORTER = 256  # characters
FADING = 0.99  # the share of a verdict that is left after the next one: about 100 verdicts count
MOST_VOTES = 8  # of an id
TRUSTED = 0  # the number of the trusted reporter; the others have numbers from 1
TRUSTED_VOTE = float(MOST_VOTES)  # more than all other votes together
ANONYMOUS = ""  # the name of the anonymous reporter
TOP = 20  # reporters in a view
LAST = (0, 0)  # below the rank of every reporter who gave a label


class Vote(NamedTuple):
    """A label that a reporter gave to an observation: number of the reporter, `marked` label, and
    how much the vote counts (0: the reporter was not trusted)."""

    number: int
    mark: int
    weight: float


Votes: TypeAlias = tuple[Vote, ...]  # of an id, the oldest first


@lru_cache(maxsize=1024, typed=True)
def marked(label: Label) -> int:
    """64 bits that stand for a label in a vote, because a label may be a long text.

    Examples
    --------
    >>> marked("spam") == marked("spam"), marked(1) == marked(True)
    (True, False)
    """
    text = f"{type(label).__name__} {label}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True)


class ReporterRules(NamedTuple):
    """The settings about reporters.

    Parameters
    ----------
    max_reporters
        How many are remembered.
    per_hour
        How many labels of one reporter are accepted in an hour of stream time.
    min_trust
        Labels of a reporter with less trust are not learned; above 0.5.
    prior_trust
        The trust of a new reporter.
    prior_labels
        How many verdicts that counts as.
    trusted
        Whether a label without a reporter is trusted; otherwise it is of the anonymous reporter.
    """

    max_reporters: int = 10_000
    per_hour: int = 1_000
    min_trust: float = 0.6
    prior_trust: float = 0.8
    prior_labels: float = 5.0
    trusted: bool = False

    def check(self) -> None:
        """SchemaError if a setting is out of range."""
        whole = self.max_reporters >= 1 and self.per_hour >= 1
        shares = 0.5 < self.min_trust < 1.0 and 0.0 < self.prior_trust < 1.0
        if not (whole and shares and 0.0 < self.prior_labels < 2**53):
            raise SchemaError(
                "expected bounds of at least 1, min_trust above 0.5 and below 1, prior_trust "
                f"between 0 and 1, and prior_labels above 0, got {self}"
            )


@dataclass(slots=True)
class Reporter:
    """One reporter.

    Parameters
    ----------
    name, number
        The name, and a number that no other reporter ever has.
    labels
        How many labels came.
    agreed, disagreed
        How many verdicts of later reporters there were.
    right, wrong
        The same, by the weight of those who judged, fading.
    hour, in_hour
        The last hour of stream time in which labels came, and how many.
    """

    name: str
    number: int
    labels: int = 0
    agreed: int = 0
    disagreed: int = 0
    right: float = 0.0
    wrong: float = 0.0
    hour: int = 0
    in_hour: int = 0


COUNTS = ("number", "labels", "agreed", "disagreed", "hour", "in_hour")
SUMS = ("right", "wrong")


class ReporterView(NamedTuple):
    """A reporter for pages: labels that came, verdicts of later reporters, trust, and whether new
    labels are not learned. The anonymous reporter has no name."""

    name: str
    labels: int
    agreed: int
    disagreed: int
    trust: float
    quarantined: bool


class ReportersView(NamedTuple):
    """All reporters.

    Parameters
    ----------
    known
        How many are remembered.
    agreed, disagreed
        Verdicts so far, also on reporters that are no longer remembered.
    top
        Those with the most labels, at most 20.
    """

    known: int
    agreed: int
    disagreed: int
    top: tuple[ReporterView, ...]


class Reporters:
    """A bounded table of reporters.

    Parameters
    ----------
    rules
        The settings.

    Attributes
    ----------
    forgotten : int
        Reporters that were removed because the table was full.
    agreed, disagreed : int
        Verdicts so far.

    Examples
    --------
    >>> table = Reporters(ReporterRules(prior_trust=0.8, prior_labels=5.0))
    >>> ann = table.of("ann")
    >>> table.trust(ann), round(table.weight(ann), 3)
    (0.8, 0.6)
    >>> for _ in range(10):
    ...     table.judge(ann.number, agrees=False, weight=1.0)
    >>> round(table.trust(ann), 3), table.weight(ann)
    (0.275, 0.0)
    """

    def __init__(self, rules: ReporterRules) -> None:
        rules.check()
        self.rules = rules
        self.forgotten = self.agreed = self.disagreed = 0
        self._numbers = 0  # given so far
        # The least recently used first; with the first verdict a reporter moves to `_judged`.
        self._unjudged: OrderedDict[str, Reporter] = OrderedDict()
        self._judged: OrderedDict[str, Reporter] = OrderedDict()
        self._by_number: dict[int, Reporter] = {}
        # Those with the most labels, and a lower bound of their ranks: a view looks at no others.
        self._top: dict[int, Reporter] = {}
        self._least = LAST

    def __len__(self) -> int:
        return len(self._by_number)

    def __iter__(self) -> Iterator[Reporter]:
        return chain(self._unjudged.values(), self._judged.values())

    def of(self, name: str) -> Reporter:
        """The reporter with this name, who is now the most recently used; a new one if needed."""
        for each in (self._judged, self._unjudged):
            if name in each:
                each.move_to_end(name)
                return each[name]
        if len(self) >= self.rules.max_reporters:
            _, gone = (self._unjudged or self._judged).popitem(last=False)
            del self._by_number[gone.number]
            self.forgotten += 1
            if gone.number in self._top:
                self._find_top()
        self._numbers += 1
        found = Reporter(name, self._numbers)
        self._unjudged[name] = self._by_number[found.number] = found
        return found

    def count(self, reporter: Reporter, time: int) -> bool:
        """Count a label that came at this stream time. Returns whether it is within the cap."""
        hour = time // HOUR_MS
        if hour != reporter.hour:
            reporter.hour, reporter.in_hour = hour, 0
        reporter.labels += 1
        reporter.in_hour += 1
        if _rank(reporter) > self._least and reporter.number not in self._top:
            self._rise(reporter)
        return reporter.in_hour <= self.rules.per_hour

    def trust(self, reporter: Reporter) -> float:
        """The expected share of the labels of a reporter that are right."""
        rules = self.rules
        right = rules.prior_trust * rules.prior_labels + reporter.right
        return right / (rules.prior_labels + (reporter.right + reporter.wrong))

    def weight(self, reporter: Reporter) -> float:
        """The weight of a label of this reporter, from 0 (not learned) to 1."""
        trust = self.trust(reporter)
        return 2.0 * trust - 1.0 if trust >= self.rules.min_trust else 0.0

    def judge(self, number: int, *, agrees: bool, weight: float) -> None:
        """Somebody else labelled the same observation later. Nothing happens if the reporter is no
        longer remembered, or is the trusted one."""
        reporter = self._by_number.get(number)
        if reporter is None:
            return
        if reporter.name in self._unjudged:
            self._judged[reporter.name] = self._unjudged.pop(reporter.name)
        reporter.right *= FADING
        reporter.wrong *= FADING
        if agrees:
            self.agreed += 1
            reporter.agreed += 1
            reporter.right += weight
        else:
            self.disagreed += 1
            reporter.disagreed += 1
            reporter.wrong += weight

    def _rise(self, reporter: Reporter) -> None:
        """A reporter with more labels takes the place of the last one of `_top`."""
        top = self._top
        if len(top) >= TOP:
            last = min(top.values(), key=_rank)
            self._least = _rank(last)
            if self._least > _rank(reporter):
                return
            del top[last.number]
        top[reporter.number] = reporter

    def _find_top(self) -> None:
        self._top = {one.number: one for one in nlargest(TOP, self, key=_rank)}
        self._least = LAST

    def view(self) -> ReportersView:
        """A frozen copy of those with the most labels."""
        top = sorted(self._top.values(), key=_rank, reverse=True)
        shown = (
            ReporterView(
                *(one.name, one.labels, one.agreed, one.disagreed),
                trust=self.trust(one),
                quarantined=not self.weight(one),
            )
            for one in top
        )
        return ReportersView(len(self), self.agreed, self.disagreed, tuple(shown))

    def to_state(self, votes: Mapping[str, Votes]) -> State:
        """The table and the votes of all ids. O(reporters + votes)."""
        header = {
            "numbers": self._numbers,
            "judged": len(self._judged),
            "forgotten": self.forgotten,
            "agreed": self.agreed,
            "disagreed": self.disagreed,
        }
        every, cast = list(self), list(chain.from_iterable(votes.values()))
        arrays: dict[str, NDArray[Any]] = {}
        for name, some in (("name", (one.name for one in every)), ("id", votes)):
            arrays |= {f"{name}_{k}": v for k, v in pack(some).items()}
        for names, kind in ((COUNTS, np.int64), (SUMS, np.float64)):
            for name in names:
                arrays[name] = np.array([getattr(one, name) for one in every], dtype=kind)
        arrays["votes"] = np.array([len(each) for each in votes.values()], dtype=np.int64)
        for name, kind in (("number", np.int64), ("mark", np.int64), ("weight", np.float64)):
            arrays[f"vote_{name}"] = np.array([getattr(v, name) for v in cast], dtype=kind)
        return State(header, arrays)

    def load_state(self, state: State) -> dict[str, Votes]:
        """Load what `to_state` saved. Returns the votes.

        Raises
        ------
        StateError
            The state is damaged.
        """
        header = state.header
        names = texts(state, "name_")
        table = dict.fromkeys(COUNTS, Saved(np.int64, (len(names),)))
        table |= dict.fromkeys(SUMS, Saved(np.float64, (len(names),)))
        columns = [column.tolist() for column in state.read(table).values()]
        self._unjudged, self._judged, self._by_number = OrderedDict(), OrderedDict(), {}
        split = len(names) - header["judged"]
        for i, (name, values) in enumerate(zip(names, zip(*columns, strict=True), strict=True)):
            one = Reporter(name, **dict(zip((*COUNTS, *SUMS), values, strict=True)))
            (self._unjudged if i < split else self._judged)[name] = one
            self._by_number[one.number] = one
        self._find_top()
        self._numbers, self.forgotten = header["numbers"], header["forgotten"]
        self.agreed, self.disagreed = header["agreed"], header["disagreed"]
        return _votes(state)


def _rank(reporter: Reporter) -> tuple[int, int]:
    """More labels first, then who came first."""
    return reporter.labels, -reporter.number


def _votes(state: State) -> dict[str, Votes]:
    ids = texts(state, "id_")
    table = {
        "votes": Saved(np.int64, (len(ids),), 0, MOST_VOTES),
        "vote_number": Saved(np.int64, ("votes",)),
        "vote_mark": Saved(np.int64, ("votes",)),
        "vote_weight": Saved(np.float64, ("votes",)),
    }
    whole: Rules = {"the votes of all ids": lambda a: a["votes"].sum() == a["vote_mark"].size}
    counts, *columns = (column.tolist() for column in state.read(table, whole).values())
    cast = [Vote(*each) for each in zip(*columns, strict=True)]
    out, at = dict[str, Votes](), 0
    for id_, count in zip(ids, counts, strict=True):
        out[id_] = tuple(cast[at : at + count])
        at += count
    return out
