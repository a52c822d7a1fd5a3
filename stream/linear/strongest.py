"""The features of messages with the strongest evidence, with their names.

Rule: the tables of SpamScorer have no names, so only features of given messages are found. Evidence
is looked up for all of them, and only the strongest are named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream.data.rows import Rows
from stream.data.schema import Label
from stream.text.features import VIEWS, Named, features, named_features

__all__ = ["VIEW_NAMES", "StrongFeature", "Strongest", "strongest", "views_of"]

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
    for i, characters in enumerate(size):
        if i > first and together + characters > TOGETHER:
            yield first, i
            first, together = i, 0
        together += characters
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
