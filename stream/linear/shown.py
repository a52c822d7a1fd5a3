"""What SpamScorer says about records and features: explanations, names, evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Rows
from stream.data.schema import Label
from stream.learner.base import Learner
from stream.learner.explain import Explanation
from stream.linear._kernels import evidence as kernels
from stream.linear._kernels.evidence import Evidence
from stream.linear.explained import FeatureEvidence, contributions_of, spans_of
from stream.text.features import VIEWS, Named, named_features, occurrences

__all__ = ["ShowsEvidence"]


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
