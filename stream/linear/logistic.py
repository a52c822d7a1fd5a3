"""LogisticRegression: log-odds that are linear in the fields, learned by gradient steps."""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from stream.data.block import PREDICT, Block, Rows, learning, rows_used
from stream.data.columns import MAX_FEATURES, admit, find, named, restored
from stream.data.parameters import check_half_life, flag, names, number, one_of, whole
from stream.data.schema import BUCKETS, Dictionary, Label, Schema
from stream.data.state import State
from stream.errors import NotSupportedError, SchemaError
from stream.learner.base import Learner, Predictions
from stream.learner.predictions import PRIOR, Explanation, LinearView
from stream.learner.registry import Facts, registered
from stream.linear import bins, weights
from stream.linear._kernels import logistic as kernels
from stream.linear._kernels.logistic import Linear, LinearRule
from stream.linear.indicators import (
    MOST_PAIRED,
    Crossing,
    Indicators,
    crossed,
    indicators,
    named_crossed,
    named_indicators,
)
from stream.text.bags import hashed_texts

__all__ = ["NOT_APPLICABLE", "LogisticRegression"]

_STEP = "a step depends on the steps before it"
_CONDITIONAL = "it models P(class | x) only"
# Laws that do not apply to learners of log-odds by gradient steps, with the reason.
NOT_APPLICABLE: Mapping[str, str] = {
    "weight_two_is_twice": _STEP,
    "merging_equals_learning_both": _STEP,
    "unlearning_is_the_inverse_of_learning": _STEP,
    "unlearning_what_was_not_learned_is_refused": _STEP,
    "the_posterior_is_the_normalised_joint_likelihood": _CONDITIONAL,
    "the_evidence_normalises_the_joint_likelihood": _CONDITIONAL,
}

STARTS = ("naive_bayes", "zero")
ROOM = 2  # growing a table at least doubles it, and the old one exists until it is copied
# What `limit` reserves for each class.
LEAST_CATEGORIES, LEAST_PAIRS, LEAST_TOKENS = 2**12, 2**14, 2**18
MOST_BINS = 64


@registered(
    Facts(
        model="the log-odds are a weighted sum of the fields",
        cost="C·(D + tokens); C·(D + tokens)",
        memory="3·C·(D + values + tokens)",
        merge_unlearn="averaged, no",
        missing="no evidence",
        source="Duchi, Hazan and Singer 2011; Goodman and Yih 2006",
        reads={
            "numeric": "in standard deviations from the mean",
            "binary": "a category",
            "categorical": "used",
            "text": "its set of words",
        },
    )
)
class LogisticRegression(Learner):
    """Multinomial logistic regression on any mix of fields, one gradient step a record.

    Unlike naive Bayes it does not count the same evidence twice if fields depend on each other, so
    its probabilities are close to the shares of the classes.

    Parameters
    ----------
    learning_rate
        The length of the first step of a weight. Later steps are shorter: they are divided by the
        root of the sum of the weight's squared gradients. 0.5 was best, or close to it, on streams
        of each kind.
    l2
        The penalty of a weight, as a share of it: at each record that has the feature, the gradient
        loses `l2` times the weight.
    start
        Where a weight starts. ``"naive_bayes"``: at half of its log-odds in naive Bayes, which
        follow what is counted; gradients add what dependence between the fields changes. It is
        better on few records. ``"zero"``: at 0; it needs less memory.
    text
        Features whose strings are texts. Other strings are categories. (In the service, fields are
        declared.)
    half_life
        Number of records after which counts, moments and squared gradients have half their weight,
        so that steps do not become ever shorter. Weights do not fade. None: no fading.
    n_bins
        2 to 64: also a weight for each of that many bins of a number, so that the log-odds need not
        rise with it. About the same weight of the learned values is in each bin, however they are
        distributed, and a value with more weight has a bin of its own, see Notes. None: no bins.
    pairs
        Also a weight for each pair of values (bins, categories and truth values, no texts) that a
        record has in two fields, among its first 16 values by the name of the field. This finds
        what fields show only together. Pairs of numbers need `n_bins`.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    features : list of str
        Numbers in the order they were first learned. Categories and tokens have no names in the
        state.

    Raises
    ------
    SchemaError
        A parameter is out of range.
    InvalidRecordError
        By `learn_one` and the predictions: an infinite number.

    Notes
    -----
    The score of a class is the log of its share of the records, plus a bias, plus the sum of
    weight · value / √m over the m features that the record has. Probabilities are the softmax of
    the scores. So before weights are learned, the prediction is the share of each class.

    A number is a feature with the value (x - mean) / standard deviation, over the records learned
    before, and at most 3 in size; a number that never differed is 0. A category or truth value,
    each word of a text (once), a bin and a pair of values are features with the value 1. These are
    hashed into 2**20 buckets; features in the same bucket share their weight. A truncated text
    counts in ``overflows["tokens"]``.

    Each learned record moves each of its weights by learning_rate · g / √(0.01 + Σ g²), where g is
    its gradient of the log loss, times the weight of the record (AdaGrad). In later steps a record
    of weight w > 1 counts with g² / w, which is that of w records. The order of the records
    matters. `merge` is not exact: a weight becomes the mean of both, weighted by their Σ g².
    Records cannot be unlearned.

    Bins end at quantiles of a number: those of its first 64 values or more, and then those of a
    sample of some 250 values, of which newer ones take the place of older ones. A quantile is then
    wrong by about 3 % of the weight. `merge` adds at most the errors of the summaries of both,
    see `QuantileSketch`, which with 128 entries are 2.4 % each.

    O(C · features) to predict and to learn, with at most 120 pairs. Memory: 32 · C bytes for each
    number and 24 · C for each category, word, bin and pair that was learned (16 · C for both with
    ``start="zero"``), 4 kB for each number with bins, and 4 MiB.

    Source: Duchi, Hazan and Singer 2011, Adaptive Subgradient Methods (AdaGrad, diagonal); Goodman
    and Yih 2006, Online Discriminative Spam Filter Training; the naive-Bayes start: Zaidi et al.
    2013, Alleviating Naive Bayes Attribute Independence Assumption by Attribute Weighting; bins:
    Greenwald and Khanna 2001, Space-Efficient Online Computation of Quantile Summaries; pairs of
    bins: Lou et al. 2013, Accurate Intelligible Models with Pairwise Interactions.

    Examples
    --------
    >>> from stream import LogisticRegression
    >>> model = LogisticRegression(text=["body"])
    >>> for _ in range(3):
    ...     model.learn_one({"body": "free money", "hops": 7.5}, "spam")
    ...     model.learn_one({"body": "see you at noon", "hops": 2.0}, "ham")
    >>> model.predict_one({"body": "free at noon?", "hops": 2.5})
    'ham'
    """

    truths: ClassVar[str] = "categorical"

    def __init__(
        self,
        learning_rate: float = 0.5,
        l2: float = 0.0,
        start: Literal["naive_bayes", "zero"] = "naive_bayes",
        text: Sequence[str] = (),
        half_life: float | None = None,
        n_bins: int | None = None,
        pairs: bool = False,
    ) -> None:
        self.learning_rate = number("learning_rate", learning_rate, 0.0, 100.0, above=True)
        self.l2 = number("l2", l2, 0.0, 1.0)
        self.start = one_of("start", start, STARTS)
        self.text = names("text", text)
        self.half_life = check_half_life(half_life)
        self.n_bins = None if n_bins is None else whole("n_bins", n_bins, 2, MOST_BINS)
        self.pairs = flag("pairs", pairs)
        self._begin()

    @property
    def not_applicable(self) -> Mapping[str, str]:
        """Laws that do not apply to this learner, with the reason."""
        return NOT_APPLICABLE

    def _start(self) -> None:
        growth = 1.0 if self.half_life is None else float(2.0 ** (1.0 / self.half_life))
        self._rule = LinearRule(self.learning_rate, self.l2, growth, self.start == "naive_bayes")
        self._crossing = Crossing(self.n_bins or 0, self.pairs, growth)
        self._numbers = Dictionary(MAX_FEATURES)
        self._tables, self._bins = weights.empty(), bins.empty(self.n_bins or 0)
        self._most_classes, self._most_indicators = self.max_classes, BUCKETS

    # Learning and predicting.

    @property
    def features(self) -> list[str]:
        return list(self._numbers)

    @property
    def overflows(self) -> dict[str, int]:
        """How many values each bound has rejected, by the bound's name."""
        s = self._tables
        own = {"features": self._numbers.overflow, "tokens": int(s.cut[0])}
        return {**super().overflows, **own, "indicators": int(s.refused[0])}

    @property
    def _texts(self) -> Sequence[str]:
        return self.text

    def prepare(self, rows: Rows) -> Rows:
        """Hash texts once. Pure."""
        return hashed_texts(super().prepare(rows))

    def limit(self, max_bytes: int, schema: Schema, max_classes: int) -> int:
        """See `Learner.limit`. As many classes as fit are reserved beside a least number of
        categories and tokens; these may use the rest."""
        super().limit(max_bytes, schema, max_classes)
        of_number, of_indicator = (4, 3) if self._rule.naive else (2, 2)  # tables
        numbers = len(schema.numeric) - sum(f.kind == "binary" for f in schema.fields)
        least = self._least(schema, numbers)
        hashed = least > 0
        slots, own = 4 * BUCKETS if hashed else 0, 24 + bins.room(self.n_bins or 0)

        def needed(classes: int) -> int:
            cells = 3 + of_number * numbers + of_indicator * least
            return slots + ROOM * (own * numbers + 8 * classes * cells)

        fit = bisect_right(range(max_classes + 1), max_bytes, key=needed) - 1
        if fit < 2:
            raise SchemaError(
                f"two classes with these fields need {needed(2):,} bytes, but {max_bytes:,} are "
                "allowed"
            )
        more = (max_bytes - needed(fit)) // (8 * ROOM * fit * of_indicator) if hashed else 0
        self._most_classes, self._most_indicators = fit, min(least + more, BUCKETS)
        return super().limit(max_bytes, schema, fit)

    def _least(self, schema: Schema, numbers: int) -> int:
        """How many indicators `limit` reserves: all bins and pairs of numbers, if not too many."""
        bins, texts = self.n_bins or 0, len(schema.text)
        categories = len(schema.fields) - numbers - texts
        paired = min(categories + numbers * (bins > 0), MOST_PAIRED) if self.pairs else 0
        pairs = paired * (paired - 1) // 2 * (LEAST_PAIRS if categories else bins**2)
        least = numbers * bins + min(pairs, LEAST_PAIRS)
        return max(least, LEAST_CATEGORIES if categories else 0, LEAST_TOKENS if texts else 0)

    def _execute(
        self, block: Block, label: NDArray[np.int64], before: int, out: Predictions
    ) -> None:
        source, column = admit(self._numbers, block)
        used, bag = rows_used(block)
        if self.n_bins or self.pairs:
            self._bins = bins.widened(self._bins, len(self._numbers))
            found = crossed(block, source, column, self._crossing, self._tables.unit, self._bins)
            bag = np.arange(len(block))
        else:
            found = indicators(block.rows, used)
        self._admit(found, bag[learning(block)])
        steps = block.op, block.row, label[block.y], block.w, before
        rows = block.rows.numeric, source, column, found.start, bag, found.bucket
        rule, most = self._rule, self._most_indicators
        kernels.progressive(*steps, *rows, most, rule, self._tables, out.proba, out.known)

    def _admit(self, found: Indicators, learned: NDArray[np.int64]) -> None:
        """Make room for the classes, numbers and indicators that a block learns."""
        s, new = self._tables, 0
        if found.bucket.size:
            s = weights.with_slots(s)
            new = kernels.count_new(found.bucket, found.start, learned, s.slot)
        self._tables = self._widened(s, new)

    def _widened(self, s: Linear, new: int) -> Linear:
        """`s` with room for the known classes and numbers, and for `new` indicators."""
        indicators = min(int(s.size[0]) + new, self._most_indicators)
        shape = len(self._classes), len(self._numbers), indicators
        most = self._most_classes, MAX_FEATURES, self._most_indicators
        return weights.widened(s, shape, most, self._rule.naive)

    # Reading the model.

    def explain_rows(
        self, rows: Rows, label: Label | None = None, against: Label | None = None
    ) -> Explanation:
        """`explain_one` of the one row of `rows`, as `columns` makes them."""
        a, b = self._compared(label, against, rows)
        plain = super().prepare(rows)
        source, column = find(self._numbers, plain)
        if self.n_bins or self.pairs:
            asked = Block.of(plain, PREDICT)
            crossing, unit = self._crossing, self._tables.unit
            found = crossed(asked, source, column, crossing, unit, self._bins)
            there = ~np.isnan(plain.numeric[0, source]) & (self._tables.n[column] > 0)
            numbers = {plain.numeric_names[j] for j in source[there].tolist()}
            named = named_crossed(plain, numbers, self._crossing, found) | named_indicators(plain)
        else:
            named = named_indicators(plain)
            found = indicators(plain, np.zeros(1, dtype=np.int64))
        out = np.zeros((1 + column.size + found.bucket.size, len(self._classes)))
        s = weights.with_slots(self._tables) if found.bucket.size else self._tables
        kernels.terms(plain.numeric, source, column, found.bucket, self._rule.naive, s, out)
        features = [*(self._numbers.values[j] for j in column.tolist())]
        features += [named.get(at, "(truncated)") for at in found.bucket.tolist()]
        contributions: dict[str, float] = {}
        for name, term in zip([PRIOR, *features], (out[:, a] - out[:, b]).tolist(), strict=True):
            if term or name == PRIOR:
                contributions[name] = contributions.get(name, 0.0) + term
        classes = self.classes
        return Explanation(classes[a], classes[b], sum(contributions.values()), contributions)

    def linear_view(self, label: Label | None = None, against: Label | None = None) -> LinearView:
        """The log-odds of two classes as a line over the numbers; O(C · D).

        It is that of a record with every known number, none of them 3 standard deviations or more
        from the mean.

        Parameters
        ----------
        label, against
            Two known classes; left out, the first ones learned.

        Raises
        ------
        NotLearnedError
            Fewer than two classes are known, or one that is asked for is not.
        NotSupportedError
            Categories or texts were learned.
        """
        a, b = self._compared(label, against, None)
        s = self._tables
        if s.size[0] > 0:
            raise NotSupportedError("a linear view needs numbers only; use explain_one")
        column = np.arange(len(self._numbers))
        out = np.zeros((2, 1 + column.size, len(self._classes)))
        one, none = s.mean + weights.spread(s.n, s.m2), np.zeros(0, dtype=np.int64)
        for x, found in zip((s.mean, one), out, strict=True):
            kernels.terms(x[None], column, column, none, self._rule.naive, s, found)
        base, change = (terms[:, a] - terms[:, b] for terms in (out[0], out[1] - out[0]))
        slope = np.divide(change[1:], one - s.mean, out=np.zeros(column.size), where=one > s.mean)
        bias = float(base[0] - slope @ s.mean)
        slopes = dict(zip(self.features, slope.tolist(), strict=True))
        return LinearView(self.classes[a], self.classes[b], bias, slopes)

    @property
    def n_parameters(self) -> int:
        """The weights and biases of all classes."""
        return len(self._classes) * (1 + len(self._numbers) + int(self._tables.size[0]))

    # Merging and state.

    def faded(self, age: int) -> float:
        """The share of a record's weight that is left after `age` more records were learned."""
        return float(self._rule.growth**-age)

    def merge(self, other: Learner) -> Self:
        """Add what `other` has learned, as if its records came after those of this learner.

        Counts and moments are those of learning all records. A weight becomes the mean of both,
        weighted by their sums of squared gradients, and at most 1e6 in size; O(bytes).

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
        classes = self._admit_classes(other.classes)
        theirs, mine = other._tables, self._tables
        numbers = np.array([self._numbers.add(name) for name in other._numbers], dtype=np.int64)
        learned = np.flatnonzero(theirs.slot)
        if learned.size:
            mine = weights.with_slots(mine)
        fresh = learned[mine.slot[learned] == 0] if learned.size else learned
        kept = fresh[: self._most_indicators - int(mine.size[0])]
        self._tables = mine = self._widened(mine, kept.size)
        mine.refused[0] += fresh.size - kept.size
        fade = self.faded(int(theirs.records[0])) * float(theirs.unit[0] / mine.unit[0])
        weights.merged(mine, theirs, classes, numbers, kept, fade, self._rule.naive)
        self._bins = bins.widened(self._bins, len(self._numbers))
        bins.merged(self._bins, other._bins, numbers, fade)
        return self

    def _export(self) -> State:
        arrays = weights.exported(
            self._tables, len(self._classes), len(self._numbers), self._rule.naive
        )
        if self.n_bins:
            arrays |= bins.exported(self._bins, len(self._numbers))
        return State(named(self._numbers), arrays)

    def _restore(self, state: State) -> None:
        numbers = restored(self._numbers, state)
        classes = len(self._classes)
        tables = weights.restored(state, classes, len(numbers), self._rule.naive)
        if self.n_bins:
            self._bins = bins.restored(state, self.n_bins, len(numbers))
        self._tables, self._numbers = tables, numbers
