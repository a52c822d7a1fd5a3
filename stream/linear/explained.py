"""What SpamScorer says about records, features and parts of a text: explanations, names, evidence,
and which features of given messages have the strongest.

Rule: `SpamScorer.explain_rows` is the definition. `ExplainedSteps` gives the same contributions for
the predictions of a block, from compiled loops, and names only those that are kept.

Rule: the tables of SpamScorer have no names, so only features of given messages are found. Evidence
is looked up for all of them, and only the strongest are named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, Rows
from stream.data.schema import Label
from stream.learner.base import Learner
from stream.learner.predictions import BIAS, PRIOR, Explanation, TextSpan
from stream.linear._kernels import evidence as kernels
from stream.linear._kernels.evidence import Evidence
from stream.linear._kernels.explained import HEAD, Reasons
from stream.text._kernels.occurrences import PLACE
from stream.text.characters import characters
from stream.text.features import (
    VIEWS,
    Features,
    Named,
    Parts,
    Texts,
    TextSources,
    features,
    group_of,
    named_features,
    occurrences,
)

__all__ = [
    "VIEW_NAMES",
    "ExplainedSteps",
    "ShowsEvidence",
    "StrongFeature",
    "strongest",
    "views_of",
]


class FeatureEvidence(NamedTuple):
    """What is known about a feature.

    log_odds: what it adds to the log-odds of a record whose view has no other feature; of m
    features each adds its own divided by √m. It is 0 if the feature is not known. records: the
    present weight of the learned records of each class that have it, where older records weigh
    less.
    """

    log_odds: float
    records: Mapping[Label, float]


def contributions_of(
    named: Mapping[int, Named], terms: Sequence[float]
) -> tuple[dict[str, float], dict[int, float]]:
    """What each part of a record adds to the log-odds, by its name; and each feature, by its id.

    Parameters
    ----------
    named
        Each feature of the record by its id, where it occurs first.
    terms
        The class shares, the bias of each view, and what each feature adds.
    """
    (prior, *biases), of_feature = terms[:HEAD], terms[HEAD:]
    out = {PRIOR: prior}
    if bias := sum(biases):
        out[BIAS] = bias
    for first, term in zip(named.values(), of_feature, strict=True):
        if term:
            name = f"{first.field}: {first.span}" if first.span else first.field
            out[name] = out.get(name, 0.0) + term
    return out, dict(zip(named, of_feature, strict=True))


def spans_of(every: Sequence[Named], term: Mapping[int, float]) -> tuple[TextSpan, ...]:
    """The evidence of each token of the texts.

    Parameters
    ----------
    every
        The features of a record, as often as they occur.
    term
        What each adds, by its id. It is divided equally over the places of the feature.
    """
    times = Counter(found.id for found in every)
    out: dict[tuple[str, int, int], float] = {}
    for found in every:
        for begin, end in found.places:
            share = term[found.id] / (times[found.id] * len(found.places))
            at = found.field, begin, end
            out[at] = out.get(at, 0.0) + share
    return tuple(TextSpan(*at, total) for at, total in sorted(out.items()) if total)


class ExplainedSteps:
    """Explanations of the predictions of a block, as its steps are executed.

    Parameters
    ----------
    rows
        Those of the block.
    shares
        How many contributions each explanation keeps.

    Attributes
    ----------
    explanations : list of Explanation
        One for each prediction so far; None while fewer than two classes were known.
    """

    def __init__(self, rows: Rows, shares: int) -> None:
        self.explanations: list[Explanation | None] = []
        self._names, self._shares = rows.text_names, shares
        self._sources = TextSources(np.zeros(0, np.int64), [], [])
        self._reasons = _room(0, 0, shares)

    def arguments(
        self,
        texts: Texts,
        sources: TextSources,
        found: Features,
        op: NDArray[np.int8],
        bag: NDArray[np.int64],
    ) -> tuple[Texts, NDArray[np.uint64], NDArray[np.int64], int, Reasons]:
        """The last arguments of the kernel, for steps over rows with these texts and features."""
        told = bag[op != LEARN]
        views = (found.start.size - 1) // (texts.of_row.size - 1)
        features = found.start[(told + 1) * views] - found.start[told * views]
        self._sources = sources
        self._reasons = _room(told.size, int(features.sum()), self._shares)
        group = group_of(sources.others)
        return texts, group, characters(), len(self.explanations), self._reasons

    def add(self, classes: Sequence[Label]) -> None:
        """Add those of the steps that the kernel has executed; `classes` by code."""
        why, made, name = self._reasons, self.explanations, Parts(self._sources, self._names).name
        ends, head, value = why.end.tolist(), why.head.tolist(), why.value[: why.end[-1]].tolist()
        kept, tops, places = why.kept.tolist(), why.top.tolist(), why.place.tolist()
        for j, (a, b) in enumerate(why.pair.tolist()):
            if a < 0:
                made.append(None)
                continue
            parts, (prior, *biases) = value[ends[j] : ends[j + 1]], head[j]
            named = [(PRIOR, prior), (BIAS, bias)] if (bias := sum(biases)) else [(PRIOR, prior)]
            shares = named + [(name(*places[j][n]), parts[tops[j][n]]) for n in range(kept[j])]
            if len(parts) + len(named) > self._shares:
                shares.sort(key=lambda share: -abs(share[1]))
            contributions = dict(shares[: self._shares])
            total = sum([*dict(named).values(), *parts])
            made.append(Explanation(classes[a], classes[b], total, contributions))


def _room(predictions: int, parts: int, shares: int) -> Reasons:
    return Reasons(
        pair=np.empty((predictions, 2), dtype=np.int64),
        head=np.empty((predictions, HEAD)),
        value=np.empty(parts),
        end=np.zeros(predictions + 1, dtype=np.int64),
        top=np.empty((predictions, shares), dtype=np.int64),
        kept=np.zeros(predictions, dtype=np.int64),
        place=np.empty((predictions, shares, PLACE), dtype=np.int32),
    )


# The last three are those of texts that say how a message was sent.
VIEW_NAMES = ("words", "4-grams", "pairs", "fields", "sent words", "sent 4-grams", "sent pairs")
TOGETHER = 2**18  # characters whose features are computed in one call


class EvidenceTable(Protocol):
    """A learner with the evidence of features: see `SpamScorer`."""

    @property
    def classes(self) -> list[Label]:
        """The learned labels."""

    def evidence_columns(
        self, ids: NDArray[np.int64], label: Label | None = None, against: Label | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Log-odds, and the weight of the records of each class."""


class StrongFeature(NamedTuple):
    """A feature and what is known about it; see `FeatureEvidence`."""

    named: Named
    log_odds: float
    records: Mapping[Label, float]


class Strongest(NamedTuple):
    """The features with most evidence for a label and against it, the strongest first, and how many
    different ones were compared."""

    towards: list[StrongFeature]
    against: list[StrongFeature]
    compared: int


class _Found(NamedTuple):
    """Columns of candidates; `row` is the first row that has the feature."""

    id: NDArray[np.int64]
    row: NDArray[np.int64]
    odds: NDArray[np.float64]
    records: NDArray[np.float64]

    def at(self, place: NDArray[np.int64]) -> _Found:
        """Some of the candidates."""
        return _Found(self.id[place], self.row[place], self.odds[place], self.records[place])

    def beside(self, other: _Found) -> _Found:
        """Both."""
        return _Found(
            np.concatenate((self.id, other.id)),
            np.concatenate((self.row, other.row)),
            np.concatenate((self.odds, other.odds)),
            np.concatenate((self.records, other.records)),
        )


def strongest(
    learner: EvidenceTable,
    rows: Rows,
    most: int,
    label: Label,
    against: Label,
    *,
    views: Collection[int] = range(VIEWS),
    least: float = 0.0,
) -> Strongest:
    """The features of `rows` with the strongest evidence for and against `label`. Pure.

    Parameters
    ----------
    learner
        Has learned both labels.
    rows
        Messages; a feature is named as in the first of them that has it.
    most
        How many features on each side.
    views
        The views to look at.
    least
        The weight of records that a feature has at least, over all classes.

    Notes
    -----
    O(characters). Memory: 8 bytes for each different feature, and the features of 262,144
    characters or of one row.

    Examples
    --------
    >>> from stream import SpamScorer
    >>> model = SpamScorer()
    >>> model.learn_many([{"text": "free"}, {"text": "lunch"}], ["spam", "ham"])
    >>> rows = model.rows([{"text": "free lunch"}])
    >>> found = strongest(model, rows, 1, "spam", "ham", views=[0])
    >>> found.towards[0].named.written, found.against[0].named.written, found.compared
    ('free', 'lunch', 2)
    """
    best: _Found | None = None
    seen: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
    for first, last in _pieces(rows):
        ids, row = _ids(rows, first, last, views)
        new = ~np.isin(ids, seen, assume_unique=True)
        ids, row = ids[new], row[new]
        seen = np.union1d(seen, ids)
        odds, records = learner.evidence_columns(ids, label, against)
        known = np.flatnonzero((records.sum(axis=1) >= max(least, 1e-300)) & (odds != 0.0))
        found = _Found(ids, row, odds, records).at(known)
        found = found if best is None else best.beside(found)
        best = found.at(np.union1d(_top(found, 1.0, most), _top(found, -1.0, most)))
    if best is None:
        return Strongest([], [], 0)
    named = _named(rows, best)
    towards, against_ = (
        [_feature(best, k, named, learner.classes) for k in _top(best, sign, most).tolist()]
        for sign in (1.0, -1.0)
    )
    return Strongest(towards, against_, seen.size)


def views_of(kinds: Collection[str]) -> list[int]:
    """The views of these kinds of features, also of texts that say how a message was sent.

    Examples
    --------
    >>> views_of(["words", "fields"])
    [0, 3, 4]
    """
    return [i for i, name in enumerate(VIEW_NAMES) if name.removeprefix("sent ") in kinds]


def _pieces(rows: Rows) -> Iterator[tuple[int, int]]:
    """First and last + 1 of rows that have at most `TOGETHER` characters together, or are one."""
    size = [sum(len(cell or "") for cell in row) + 1 for row in rows.text.tolist()]
    first = together = 0
    for i, count in enumerate(size):
        if i > first and together + count > TOGETHER:
            yield first, i
            first, together = i, 0
        together += count
    if first < len(size):
        yield first, len(size)


def _ids(
    rows: Rows, first: int, last: int, views: Collection[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The features of these rows in these views, rising and each once, and the first row of
    each."""
    found = features(rows, np.arange(first, last))
    sizes = np.diff(found.start)
    view = np.repeat(np.tile(np.arange(VIEWS), last - first), sizes)
    row = np.repeat(np.repeat(np.arange(first, last), VIEWS), sizes)
    used = np.isin(view, list(views))
    ids, at = np.unique(view[used] << 32 | found.key[used].astype(np.int64), return_index=True)
    return ids, row[used][at]


def _top(found: _Found, sign: float, most: int) -> NDArray[np.int64]:
    """The places of the strongest on one side; among equals the most frequent first."""
    here = np.flatnonzero(sign * found.odds > 0)
    order = np.lexsort((found.id[here], -found.records[here].sum(axis=1), -sign * found.odds[here]))
    return here[order[:most]]


def _named(rows: Rows, best: _Found) -> dict[int, Named]:
    """The features by their ids; a row is read once."""
    wanted, out = set(best.id.tolist()), dict[int, Named]()
    for i in np.unique(best.row).tolist():
        for named in named_features(rows, i):
            if named.id in wanted:
                out.setdefault(named.id, named)
    return out


def _feature(
    best: _Found, k: int, named: Mapping[int, Named], classes: list[Label]
) -> StrongFeature:
    records = dict(zip(classes, best.records[k].tolist(), strict=True))
    return StrongFeature(named[int(best.id[k])], float(best.odds[k]), records)


class ShowsEvidence(Learner):
    """A learner with tables of evidence, as `SpamScorer`."""

    _tables: Evidence

    def explain_rows(
        self, rows: Rows, label: Label | None = None, against: Label | None = None
    ) -> Explanation:
        """`explain_one` of the one row of `rows`, as `columns` makes them.

        Contributions are by field and word. A 4-gram belongs to the word in which it begins, and a
        pair of tokens is one by itself. "(prior)" are the class shares, without which the sum is
        the evidence; "(bias)" are those of views. In `spans`, a pair belongs to its two tokens.
        """
        a, b = self._compared(label, against, rows)
        every = list(occurrences(self.prepare(rows), 0))
        named, view, place = self._found(every)
        terms = self._terms(place, view, a) - self._terms(place, view, b)
        contributions, of_feature = contributions_of(named, terms.tolist())
        classes, total = self.classes, sum(contributions.values())
        spans = spans_of(every, of_feature)
        return Explanation(classes[a], classes[b], total, contributions, spans)

    def _found(
        self, every: Iterable[Named]
    ) -> tuple[dict[int, Named], NDArray[np.int64], NDArray[np.int64]]:
        """Each feature by its id where it occurs first, its view, and its place in the table."""
        named: dict[int, Named] = {}
        for found in every:
            named.setdefault(found.id, found)
        view, place = self._places(np.array(list(named), dtype=np.int64))
        return named, view, place

    def _places(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The views of features and their places in the table, -1 if they are not there."""
        key, place = (ids & 0xFFFFFFFF).astype(np.uint32), np.empty(ids.size, dtype=np.int64)
        s = self._tables
        kernels.find(key, 0, key.size, s.key, s.cell, place)
        return ids >> 32, place

    def features_of(self, x: Mapping[Any, Any]) -> list[Named]:
        """The features of a record, each once: its names, its field, and its `id`. Pure.

        The tables have no names, so keep the ids of texts that you have seen, and ask
        `evidence_of` for them.

        Examples
        --------
        >>> from stream import SpamScorer
        >>> model = SpamScorer()
        >>> [(found.field, found.written) for found in model.features_of({"text": "hi"})]
        [('text', 'hi'), ('text', '‹h›'), ('text', '‹hi›'), ('text', 'hi'), ('text', '(start) hi')]
        """
        return self.features_of_rows(self.rows([x]))

    def features_of_rows(self, rows: Rows) -> list[Named]:
        """`features_of` of the one row of `rows`, as `rows` or `prepare` make them."""
        return named_features(self.prepare(rows), 0)

    def evidence_of(
        self, ids: Iterable[int], label: Label | None = None, against: Label | None = None
    ) -> list[FeatureEvidence]:
        """What is known now about features, for `label` against `against`. Pure. O(ids).

        Parameters
        ----------
        ids
            Of features, as `features_of` gives them.
        label, against
            Two known classes. By default the first two.

        Raises
        ------
        NotLearnedError
            Fewer than two classes are known, or a given class is not known.

        Examples
        --------
        >>> from stream import SpamScorer
        >>> model = SpamScorer()
        >>> model.learn_many([{"text": "free"}, {"text": "lunch"}], ["spam", "ham"])
        >>> free = model.features_of({"text": "free"})[0]
        >>> [found] = model.evidence_of([free.id], "spam", "ham")
        >>> found.log_odds > 0, found.records["spam"] > 0.9, found.records["ham"]
        (True, True, 0.0)
        """
        odds, counts = self.evidence_columns(np.array(list(ids), dtype=np.int64), label, against)
        classes = self.classes
        records = (dict(zip(classes, row, strict=True)) for row in counts.tolist())
        return [*map(FeatureEvidence, odds.tolist(), records)]

    def evidence_columns(
        self,
        ids: NDArray[np.int64],
        label: Label | None = None,
        against: Label | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """`evidence_of` as columns: log_odds (ids,), and records (ids, classes). Pure.

        Examples
        --------
        >>> from stream import SpamScorer
        >>> model = SpamScorer()
        >>> model.learn_many([{"text": "free"}, {"text": "lunch"}], ["spam", "ham"])
        >>> ids = np.array([found.id for found in model.features_of({"text": "free"})])
        >>> odds, records = model.evidence_columns(ids, "spam", "ham")
        >>> odds.shape == ids.shape, records.shape == (ids.size, 2)
        (True, True)
        """
        a, b = self._compared(label, against, None)
        view, place = self._places(ids)
        alone = np.ones(VIEWS, dtype=np.int64)
        terms = self._terms(place, view, a, alone) - self._terms(place, view, b, alone)
        s = self._tables
        counts = s.cell[place, : len(self.classes)] / s.unit[0]  # of the slow memory
        counts[place < 0] = 0.0
        return terms[1 + VIEWS :], counts

    def _terms(
        self,
        place: NDArray[np.int64],
        view: NDArray[np.int64],
        code: int,
        of_view: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float64]:
        """The parts of the log probability of a class, up to what all classes share. `of_view`: how
        many features a view has; by default those given."""
        s = self._tables
        two = s.bias.shape[1] == 1
        out = np.zeros(1 + VIEWS + place.size)
        if not two or code == 1:
            m = np.bincount(view, minlength=VIEWS) if of_view is None else of_view
            kernels.terms(place, view, m, 0 if two else code, s, out)
        return out if two else 0.5 * out
