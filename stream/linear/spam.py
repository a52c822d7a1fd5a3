"""SpamScorer: log-odds of spam as a sum over words, byte 4-grams and pairs of tokens."""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import log
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, PREDICT, Block, Rows
from stream.data.parameters import number
from stream.data.schema import Label, Schema
from stream.data.state import State
from stream.errors import NotLearnedError, SchemaError
from stream.kernel.interrupts import uninterrupted
from stream.learner.base import Learner, Predictions
from stream.learner.predictions import Explanation
from stream.learner.registry import Facts, registered
from stream.linear import evidence as tables
from stream.linear._kernels import evidence as kernels
from stream.linear._kernels import explained, progress
from stream.linear.evidence import FEWEST, MOST, WordCount, counted_words
from stream.linear.explained import VIEW_NAMES, ExplainedSteps, ShowsEvidence
from stream.linear.logistic import NOT_APPLICABLE
from stream.text.features import (
    MOST_CHARACTERS,
    VIEWS,
    Features,
    features,
    features_in,
    of_texts,
    pieces,
    read,
    sizes,
)

__all__ = ["SpamScorer"]

FAST = 0.075  # half-life of the fast memory, as a share of the other


@registered(
    Facts(
        model="the log-odds are a weighted sum of words, byte 4-grams, pairs of tokens, and fields",
        cost="characters; characters (× C if C > 2)",
        memory="36 bytes × 2 × features (× C if C > 2)",
        merge_unlearn="averaged, no",
        missing="no evidence",
        source="Goodman and Yih 2006; Zaidi et al. 2013; Siefkes et al. 2004",
        reads={
            "numeric": "its octave",
            "binary": "a category",
            "categorical": "used",
            "text": "its words, pairs of tokens and byte 4-grams",
        },
    )
)
class SpamScorer(ShowsEvidence):
    """A classifier of messages: it adds the log-odds of logistic regressions over several views.

    The views of a text are its words, the pairs of its tokens, and its 4-grams of bytes. A fourth
    view has the other fields. Texts named `received`, `headers` or `structure` say how a message
    was sent, and have three views of their own. It is meant for two classes, such as spam and ham,
    in any language; more classes are one against the rest.

    Parameters
    ----------
    half_life
        Number of records after which counts and squared gradients have half their weight, from 100
        to 1,000,000, so that steps do not become ever shorter.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    view_weights : dict
        How much the log-odds of each view count in the sum.
    fast_share : float
        How much the fast memory counts, from 0 to 1.

    Raises
    ------
    SchemaError
        A parameter is out of range.
    InvalidRecordError
        By `learn_one` and the predictions: an infinite number.

    Notes
    -----
    Features are sets: a feature that occurs twice counts once. Each field has its own.

    * *words*: runs of letters and digits in lower case, and runs of signs; also, a word in capitals
      as written, a word with digits with each digit as 0, a word with look-alikes (``v1agra``, а
      Cyrillic а, accents) as Latin letters, and single letters in a row as one word. Zero-width
      characters are left out and are a feature. In scripts without spaces each character is a word.
    * *pairs*: the first 400 tokens of each text, alone and with the one before and the one before
      that (orthogonal sparse bigrams). The start of a text is a token here.
    * *4-grams*: of the first 1,000 bytes of each text in lower case, after three bytes 0.
    * *fields*: categories, truth values, and the octave and half octave of numbers.

    For each view with m features, z = b · min(4 · share of its features that are known, 1) + Σ
    weight / √m. A weight is 0.8 · log(share of the class's records with the feature / that of the
    other class), as naive Bayes has it, plus a correction. Each share has 0.25 / records added, so
    a feature that was never seen is no evidence for either class. A learned record moves b by 0.2 ·
    e, where e is the label (1 or 0) minus the probability by z and the class shares. It takes 0.002
    of each correction away and adds r · g / √(0.001 · (1 + n / 20) + Σ g²), where g = e / √m
    (AdaGrad), r is 1.2, and 2 in the fast memory, and n is the records with the feature, 0 in the
    fast memory: what many records say moves slowly.

    The evidence is Σ weight of the view · z, and nothing known is no evidence. The log-odds are the
    evidence + the log-odds of the class shares + a bias. The weights of the views begin at 1/3,
    that of *fields* at 1, and those of how a message was sent at 1/9, together as one view. They
    and the bias are learned by the log loss, which calibrates it.

    A label of a probability p below 0.01 by the evidence teaches p / 0.01 of what it says, at least
    0.02 of it: wrong labels move little. Where s of the newest labels contradicted the evidence
    (0.98 of the sum is left at each record), and u is what is usual (0.998), with d = s - 1.5 - 2 u
    > 0 all labels teach 1 / (1 + 2 d) of that. A record whose other labels have a probability p
    below 1e-7, and of whose features a share q below 0.05 is new to its class, says again what is
    known: it weighs the larger of p / 1e-7 and q / 0.05, at least 0.02 of it. A class with n
    records teaches at least 5 / (5 + n).
    `correct_rows` takes back the steps of one of the newest 4,096 records, and then learns the
    other label in its place.

    Each z is of two memories: the slow one has this half-life, the fast one 0.075 of it, and there
    all labels teach as much. It counts as the logistic function of 0.2 · the difference of their
    recent losses - 5, where a loss is that of the evidence and at most 2, and 0.99 of the sum is
    left at each record. So after a change the newest messages decide, and nothing is forgotten.

    With C > 2 classes each class has these weights against all others, and a probability is the
    softmax of half the sums; for two classes that is the same.

    A label that comes late is learned with the weights of that time. Records cannot be unlearned.
    `merge` is not exact: a weight becomes the mean of both, weighted by their Σ g². Only the first
    32,768 characters of each text are read; a longer text is counted in ``overflows["tokens"]``.

    O(characters) to predict and to learn. Memory: a table of 36 bytes a place, up to 2**22 places
    or as `limit` allows, which is filled to three quarters at most. A new feature beyond that
    evicts the half of all features with the least weight of records, where older records weigh
    less; ``overflows["features"]`` counts the evicted.

    Source: Goodman and Yih 2006, Online Discriminative Spam Filter Training; Siefkes et al. 2004,
    Combining Winnow and Orthogonal Sparse Bigrams for Incremental Spam Filtering; the naive-Bayes
    start: Zaidi et al. 2013, Alleviating Naive Bayes Attribute Independence Assumption by Attribute
    Weighting; Robinson 2003, A Statistical Approach to the Spam Problem (unseen words); Herbster
    and Warmuth 1998, Tracking the Best Expert (the memories).

    Examples
    --------
    >>> from stream import SpamScorer
    >>> model = SpamScorer()
    >>> for _ in range(3):
    ...     model.learn_one({"text": "see you at noon"}, "ham")
    ...     model.learn_one({"text": "FREE money, call now"}, "spam")
    >>> model.predict_one({"text": "call for free money"})
    'spam'
    >>> model.explain_one({"text": "free call"}, "spam").top(1)[0][0]
    'text: free'
    """

    truths: ClassVar[str] = "categorical"
    strings: ClassVar[str] = "text"
    deep_copies: ClassVar[bool] = True

    def __init__(self, half_life: float = 2_000.0) -> None:
        self.half_life = number("half_life", half_life, 100.0, 1e6)
        self._begin()

    @property
    def not_applicable(self) -> Mapping[str, str]:
        """Laws that do not apply to this learner, with the reason."""
        return NOT_APPLICABLE

    def _start(self) -> None:
        growth = (2.0 ** (1.0 / self.half_life), 2.0 ** (1.0 / (FAST * self.half_life)), 1.0)
        self._growth = np.array(growth)
        self._tables = tables.empty()
        self._most_bytes = 2**62

    # Learning and predicting.

    @property
    def overflows(self) -> dict[str, int]:
        """How many values each bound has rejected, by the bound's name."""
        s = self._tables
        lost = int(s.evicted[0] + s.refused[0])
        return {**super().overflows, "features": lost, "tokens": int(s.cut[0])}

    @property
    def fast_share(self) -> float:
        return float(kernels.fast_share(self._tables.losses))

    @property
    def view_weights(self) -> dict[str, float]:
        return dict(zip(VIEW_NAMES, self._tables.slope.tolist(), strict=True))

    def prepare(self, rows: Rows) -> Rows:
        """Truncate texts, since they wait for their label as they are. Pure."""
        rows = super().prepare(rows)
        longest = MOST_CHARACTERS + 1  # one more, so that a truncated text is known as such
        long = [i for i, cell in enumerate(rows.text.ravel().tolist()) if len(cell or "") > longest]
        if not long:
            return rows
        text = rows.text.ravel().copy()
        for i in long:
            text[i] = text[i][:longest]
        return replace(rows, text=text.reshape(rows.text.shape))

    def limit(self, max_bytes: int, schema: Schema, max_classes: int) -> int:
        """See `Learner.limit`. With more classes there is room for fewer features."""
        super().limit(max_bytes, schema, max_classes)
        self._most_bytes = max_bytes
        fit = bisect_right(
            range(1, max_classes + 1), max_bytes, key=partial(tables.bytes_of, FEWEST)
        )
        if fit < 2:
            least = tables.bytes_of(FEWEST, 2)
            raise SchemaError(f"two classes need {least:,} bytes, but {max_bytes:,} are allowed")
        return super().limit(max_bytes, schema, fit)

    def _fits(self, places: int, classes: int) -> bool:
        return tables.bytes_of(places, classes) <= self._most_bytes

    @property
    def _most_places(self) -> int:
        """How many places the table can have with the present number of classes."""
        places, classes = MOST, self._tables.totals.shape[1]
        while places > FEWEST and not self._fits(places, classes):
            places //= 2
        return places

    def _execute(
        self,
        block: Block,
        label: NDArray[np.int64],
        before: int,
        out: Predictions,
        why: ExplainedSteps | None = None,
    ) -> None:
        y, at = label[block.y], tables.beginning(before)
        size, even = sizes(block.rows), np.zeros_like(out.proba)
        out.even = even
        steps = block.row.size
        for first, last in [(0, 1)] if steps == 1 else pieces(size.sum(axis=1)[block.row]):
            row, bag = block.row[first:last], np.zeros(1, dtype=np.int64)
            if row.size > 1:
                row, bag = np.unique(row, return_inverse=True)
                bag = bag.ravel()
            texts, sources = read(block.rows, row)
            found = features_in(texts)
            cut = np.count_nonzero(size[row] > MOST_CHARACTERS, axis=1)
            op, w = block.op[first:last], block.w[first:last]
            given = op, bag, y[first:last], w, cut, found.key, found.start
            more = () if why is None else why.arguments(texts, sources, found, op, bag)
            run = progress.progressive if why is None else explained.progressive
            at[:2] = 0
            at[4:] = 0
            self._through(run, given, at, self._growth, out.proba, even, out.known, *more)
            if why is not None:
                why.add(self.classes)

    def _through(
        self, run: Any, given: Sequence[Any], at: NDArray[np.int64], growth: Any, *more: Any
    ) -> None:
        """Run all steps of a kernel, with room for what they learn."""
        while True:
            s = self._tables
            run(*given, growth, at, tables.room(s.key.size), s, *more)
            if at[0] == given[0].size:
                return
            self._make_room(at)

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """See `Learner.learn_one`. A record of texts is learned without a block."""
        plain = type(y) is str and type(w) in (float, int) and w == 1
        code = self._classes.codes.get(y) if plain else None
        found = None if code is None or self._declared else of_texts(x)
        if code is None or found is None:
            super().learn_one(x, y, w)
        else:
            with uninterrupted():
                self._alone(LEARN, code, *found)

    def predict_proba_one(self, x: Mapping[Any, Any], **_: Any) -> dict[Label, float]:
        """See `Learner.predict_proba_one`. A record of texts is predicted without a block."""
        found = None if self._declared or not len(self._classes) else of_texts(x)
        if found is None:
            return super().predict_proba_one(x)
        return dict(zip(self.classes, self._alone(PREDICT, -1, *found), strict=True))

    def _alone(self, op: int, code: int, found: Features, cut: int) -> list[float]:
        """Do one step with these features; the probabilities, 0 if it only learns."""
        at, w = tables.beginning(len(self._classes)), np.ones(1)
        made: list[float] = self._step(op, code, w, (*found, cut), at, self._growth)[0].tolist()
        return made

    def _step(
        self,
        op: int,
        code: int,
        w: NDArray[np.float64],
        found: tuple[NDArray[np.uint32], NDArray[np.int64], int],
        at: NDArray[np.int64],
        growth: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """One step with features of one row and how many texts were cut; the probabilities."""
        key, start, cut = found
        proba, even = np.zeros((2, 1, len(self._classes)))
        bag, y, cuts, known = np.array([[0], [code], [cut], [0]], dtype=np.int64)
        given = np.array([op], dtype=np.int8), bag, y, w, cuts, key, start
        self._through(progress.progressive, given, at, growth, proba, even, known)
        return proba

    def run_explained(
        self, block: Block, raw: Rows, shares: int
    ) -> tuple[Predictions, list[Explanation | None]]:
        """See `Learner.run_explained`; without `spans`. Whole blocks in compiled loops."""
        for refusal in self.refusals(block.rows).values():
            raise refusal
        why = ExplainedSteps(block.rows, shares)
        with uninterrupted():
            before, label, out = self._admitted(block)
            self._execute(block, label, before, out, why)
        return out, why.explanations

    def _make_room(self, at: NDArray[np.int64]) -> None:
        """Make room for one more class, or for the at[5] new features of the step at[0]."""
        s = self._tables
        if at[5] < 0:
            self._tables = s = tables.widened(s, s.totals.shape[1] + 1)
            if s.key.size > (most := self._most_places):
                self._tables = tables.swept(s, tables.room(most) // 2, most)
            return
        places, most = s.key.size, self._most_places
        while tables.room(places) < s.size[0] + at[5] and places < most:
            places *= 2
        if places > s.key.size:
            self._tables = tables.enlarged(s, places)
        else:
            self._tables = tables.swept(s, tables.room(most) // 2, most)
            at[4] = at[0] + 1

    def compile_kernels(self) -> None:
        """Compile the kernels of this learner by running them on a throw-away copy."""
        trial = self.restarted(proven=True)
        trial.learn_many([{"warm": "up"}, {"warm": "down"}], ["a", "b"])
        trial.explain_one({"warm": "up"})
        raw = trial.rows([{"warm": "up"}])
        trial.run_explained(Block.of(raw, PREDICT), raw, 1)
        tables.enlarged(trial._tables, 2 * FEWEST)

    # Counts of another filter.

    def learn_counts(
        self, counts: Iterable[WordCount], records: Mapping[Label, float]
    ) -> dict[str, int]:
        """Begin with the counts of words of another filter, such as bogofilter.

        They are counts of the view of words, as if records with these words had been learned, but
        without corrections. More records than the half-life lets a long stream weigh, half_life /
        log 2, count as that many.

        Parameters
        ----------
        counts
            For each word of a field the records of each class that have it. A word that is not one
            token is left out.
        records
            The records of each class.

        Returns
        -------
        dict
            How many features were ``learned``, how many words were ``left_out``, and how many
            features were ``refused`` because the table has no room, those with the least records.

        Raises
        ------
        SchemaError
            A count is not a finite number of at least 0, or there are no records.
        InvalidRecordError
            A label differs in kind from the known ones, or is beyond their bound.

        Examples
        --------
        >>> from stream.linear import WordCount
        >>> model = SpamScorer()
        >>> words = [WordCount("text", "viagra", {"spam": 8, "ham": 0})]
        >>> model.learn_counts(words, {"spam": 10, "ham": 10})
        {'learned': 1, 'left_out': 0, 'refused': 0}
        >>> model.predict_one({"text": "viagra"})
        'spam'
        """
        given = {label: number("records", n, 0.0, 2.0**53) for label, n in records.items()}
        if not sum(given.values()):
            raise SchemaError("expected at least one record of a class")
        trial = copy.deepcopy(self)  # a wrong count or label changes nothing
        codes = dict(zip(given, trial._admit_classes(list(given)).tolist(), strict=True))
        every = np.zeros(max(len(trial.classes), tables.TWO))
        for label, n in given.items():
            every[codes[label]] = n
        words = counted_words(counts, every, codes)
        trial._tables = tables.widened(trial._tables, len(trial.classes))
        most = trial._most_places
        lives = self.half_life, FAST * self.half_life
        weights = [min(1.0, life / log(2.0) / float(every.sum())) for life in lives]
        trial._tables, kept = tables.counted(trial._tables, words, every, weights, most)
        self._classes, self._tables = trial._classes, trial._tables
        refused = words.key.size - kept
        return {"learned": kept, "left_out": words.left_out, "refused": refused}

    @property
    def n_parameters(self) -> int:
        """The weights of features and views, and the biases."""
        s = self._tables
        columns: int = s.bias.shape[1]
        of_sum = VIEWS * (columns + 1) + columns if len(self._classes) else 0
        return int(s.size[0]) * columns + of_sum

    # Merging and state.

    def faded(self, age: int) -> float:
        """The share of a record's weight that is left after `age` more records were learned."""
        return self._left(age)[0]

    def _left(self, age: int) -> list[float]:
        """`faded` in each memory."""
        return [float(growth**-age) for growth in self._growth[:2].tolist()]

    @property
    def can_correct(self) -> bool:
        """True, although records cannot be unlearned exactly."""
        return True

    def correct_rows(
        self, rows: Rows, old: tuple[Label, float], new: tuple[Label, float], age: int
    ) -> None:
        """See `Learner.correct_rows`; not exact.

        What the old label taught is taken back, and the new one is learned in its place. A record
        that is no longer noted is taken out of the counts, and what its features have learned fades
        by its share. A correction is no news about the stream.
        """
        left = self._left(age)
        if (w := new[1] * left[0]) == 0.0:
            raise NotLearnedError("its weight has faded to 0")
        if old[0] not in self._classes:
            raise NotLearnedError(f"{old[0]!r} was not learned")
        rows, code = self.prepare(rows), self.classes.index(old[0])
        block = Block.of(rows, LEARN, [new[0]], w)
        before, label, _ = self._admitted(block)
        found = features(rows, np.zeros(1, dtype=np.int64))
        slot = tables.noted(self._tables, found.key, code)
        if slot < 0:
            tables.uncounted(self._tables, found.key, code, [old[1] * each for each in left])
        else:
            tables.retracted(self._tables, found.key, found.start, code, slot)
        at, growth = tables.beginning(before), np.array([1.0, 1.0, left[1] / left[0]])
        at[6] = -1 if slot < 0 else 1 + slot
        self._step(LEARN, int(label[block.y[0]]), block.w, (*found, 0), at, growth)

    def merge(self, other: Learner) -> Self:
        """Add what `other` has learned, as if its records came after those of this learner.

        Counts are added. A weight becomes the mean of both, weighted by their sums of squared
        gradients; O(bytes).

        Raises
        ------
        SchemaError
            The other learner has another type or other parameters.
        InvalidRecordError
            Labels differ in kind, or there are more classes than the bound. Nothing was merged.
        """
        other = self._alike(other)
        if other is self:
            other = copy.deepcopy(self)
        codes = self._admit_classes(other.classes)
        theirs, mine = other._tables, tables.widened(self._tables, len(self._classes))
        left = self._left(int(theirs.records[0]))
        self._tables = mine = tables.merged(mine, theirs, codes, left)
        if mine.size[0] > tables.room(most := self._most_places) or mine.key.size > most:
            self._tables = tables.swept(mine, tables.room(most) // 2, most)
        return self

    def _export(self) -> State:
        return State({}, tables.exported(self._tables))

    def _restore(self, state: State) -> None:
        self._tables = tables.restored(state, len(self._classes))
