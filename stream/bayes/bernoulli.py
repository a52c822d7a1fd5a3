"""Bernoulli naive Bayes: attributes are present or absent, independent given the class."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream.bayes._kernels import bernoulli as kernels
from stream.bayes._kernels.bernoulli import BernoulliTrials
from stream.bayes.classifier import (
    BayesClassifier,
    check_priors,
    finite,
    left_after,
)
from stream.bayes.part import Line, Part, Steps, SumsPart, UnlearnAmount, given
from stream.bayes.token_sets import TokenSetPart
from stream.data.block import Block, Floats, Rows
from stream.data.columns import admit
from stream.data.parameters import check_half_life, number
from stream.data.rows import conflicts
from stream.data.schema import Dictionary, Kind, Label
from stream.errors import InvalidRecordError, NotSupportedError
from stream.learner.additive import LOWEST
from stream.learner.predictions import LinearView
from stream.learner.registry import Facts, registered

__all__ = ["BernoulliNB", "BernoulliPart"]


class BernoulliPart(SumsPart):
    """Numeric columns as attributes that are present or absent. See `BernoulliNB`."""

    name: ClassVar[str] = "attributes"
    sum_names: ClassVar[tuple[str, str]] = ("given", "present")

    def __init__(self, alpha: float, binarize: float = 0.0) -> None:
        super().__init__()
        self._alpha, self._binarize = alpha, binarize

    @property
    def trials(self) -> BernoulliTrials:
        """The sums as the kernels take them."""
        return BernoulliTrials(*self._sums, self._unit)

    @property
    def known(self) -> Dictionary:
        """The features, for look-ups."""
        return self._features

    @property
    def probabilities(self) -> list[list[float]]:
        """P(present | class), one column for each attribute; NaN if a class never had it."""
        s = self.trials
        alpha = self._alpha * s.unit[0]
        p = np.full(s.given.shape, np.nan)
        np.divide(s.present + alpha, s.given + 2.0 * alpha, out=p, where=s.given > 0)
        return list(p.tolist())

    def execute(self, block: Block, steps: Steps, classes: int, joint: Floats) -> None:
        source, column = admit(self._features, block)
        self._make_room(classes)
        x = block.rows.numeric
        kernels.progressive(
            steps, x, source, column, self._alpha, self._binarize, self.trials, joint
        )

    def _scores(
        self, x: Floats, source: NDArray[np.int64], column: NDArray[np.int64], classes: int
    ) -> Floats:
        out = np.zeros((source.size, classes))
        kernels.terms(x, source, column, classes, self._alpha, self._binarize, self.trials, out)
        return out

    def line(self, classes: int) -> Line:
        """The log likelihood if all attributes are absent, and what the presence of each adds."""
        column = np.arange(len(self._features))
        there, gone = (
            self._scores(np.full(column.size, v), column, column, classes) for v in (inf, -inf)
        )
        base = np.zeros(classes)
        for row in gone:
            base += row
        changes = there - np.where(gone > -inf, gone, LOWEST)
        return base, [(name, changes[j]) for j, name in enumerate(self._features)]

    def lacks(self, rows: Rows, c: int, amount: UnlearnAmount) -> str | None:
        w = amount.w * amount.fade * float(self.trials.unit[0])
        for name, value in given(rows):
            j = self._features.codes.get(name)
            if j is None:
                return f"attribute {name!r} was never learned"
            present = self.trials.present[c, j]
            had = present if value > self._binarize else self.trials.given[c, j] - present
            if left_after(had, w, amount.slack) is None:
                return f"attribute {name!r} has less weight in its class"
        return None

    def unlearn(self, rows: Rows, c: int, amount: UnlearnAmount) -> None:
        w = amount.w * amount.fade * float(self.trials.unit[0])
        s = self.trials
        for name, value in given(rows):
            j = self._features.codes[name]
            s.given[c, j] = left_after(s.given[c, j], w, amount.slack) or 0.0
            if value > self._binarize:
                s.present[c, j] = left_after(s.present[c, j], w, amount.slack) or 0.0
            s.present[c, j] = min(s.present[c, j], s.given[c, j])
        self._forget_columns()


@registered(
    Facts(
        model="truth values and sets of words; absent words are evidence",
        cost="C·(present + distinct counts); present",
        memory="words × C",
        missing="no evidence",
        source="McCallum and Nigam 1998",
        distribution="bernoulli",
        reads={
            "numeric": "whether it is above `binarize`",
            "binary": "used",
            "text": "its set of words",
        },
    )
)
class BernoulliNB(BayesClassifier):
    """Bernoulli naive Bayes over truth values and sets of tokens, one record at a time.

    An attribute is present or absent, and both are evidence. For each kind of field:

    - A number or truth value above `binarize` is present, any other is absent. A missing field (no
      key, None, NaN) is not evidence, because nobody observed it.
    - A text is the set of its tokens. All texts of a record together are one set. A learned token
      that is not in the set is absent. A record without a text is not evidence about tokens.

    A field and a token with the same name are two attributes. Categorical features are ignored.

    Parameters
    ----------
    alpha
        Added to the weight of presence and of absence (Laplace: 1). 0 is maximum likelihood: an
        attribute that a class never had, or always had, can make the class impossible.
    binarize
        A number above it is present.
    priors
        Label, or its text ("true", "1"), to prior probability. A class without an entry has prior
        0. None: priors are learned.
    half_life
        Number of records after which what was learned has half its weight. None: no fading.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    features : list of str
        Fields in the order they were first learned. Tokens are hashed, so their names are not kept.
    probabilities : dict
        Label to a dict from field to P(present | class), for the fields that the class had.
    n_tokens : int
        Distinct tokens (of 2**20 buckets) learned so far, over all classes.

    Raises
    ------
    SchemaError
        A parameter is out of range.
    InvalidRecordError
        By `learn_one` and the predictions: an infinite number, a number beyond 1e100, a text in a
        field of numbers or a number in a field of texts.

    Notes
    -----
    P(present | class) = (k + alpha) / (n + 2 · alpha), where n is the weight of the class's records
    that had the field (for a token: that had a text) and k is the weight of those in which it was
    present. If a class never had a field or text, the counts over all classes are used for it.
    Attributes that were never learned are not evidence. A joint log likelihood can be -inf only
    with alpha = 0. If it is -inf for all classes, the posterior is the prior. (With a half-life, an
    absence is forgotten when its weight is too small to change the sum.) Source: Manning, Raghavan
    and Schütze, Introduction to Information Retrieval, chapter 13.3; McCallum and Nigam 1998.

    A present field costs O(C). A text costs O(C · (its tokens + L)), not O(C · vocabulary). The
    reason: absent tokens that were in equally many texts of the class share one logarithm. L is the
    number of distinct counts. While weights are small whole numbers, L is at most the square root
    of twice the class's token total. With other weights or a half-life, L can be the number of the
    class's tokens. Memory: 4 MiB, plus 16 bytes for each pair of class and field, plus 8 bytes for
    each pair of class and learned token.

    Examples
    --------
    >>> from stream import BernoulliNB
    >>> model = BernoulliNB()
    >>> for beak, fur, y in [(True, False, "bird"), (True, False, "bird"), (False, True, "cat")]:
    ...     model.learn_one({"beak": beak, "fur": fur}, y)
    >>> model.probabilities["bird"]
    {'beak': 0.75, 'fur': 0.25}
    >>> model.predict_one({"beak": False, "fur": None})
    'cat'
    """

    strings: ClassVar[str] = "text"
    kinds: ClassVar[frozenset[Kind]] = frozenset(("numeric", "binary", "text"))

    def __init__(
        self,
        alpha: float = 1.0,
        binarize: float = 0.0,
        priors: Mapping[Label, float] | None = None,
        half_life: float | None = None,
    ) -> None:
        self.alpha = number("alpha", alpha, 0.0)
        self.binarize = number("binarize", binarize)
        self.priors = check_priors(priors)
        self.half_life = check_half_life(half_life)
        self._begin()

    @classmethod
    def number_part(cls) -> Part:
        """Numbers as present (above 0) or absent, with alpha = 1."""
        return BernoulliPart(1.0)

    def _new_parts(self) -> tuple[Part, ...]:
        self._attributes = BernoulliPart(self.alpha, self.binarize)
        self._tokens = TokenSetPart(self.alpha)
        return (self._attributes, self._tokens)

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows with a text in a field of numbers, or a number in a field of texts."""
        return super().refusals(rows) | conflicts(rows, **self._fields())

    def _fields(self) -> dict[str, Collection[str]]:
        return {"numeric": self._attributes.known, "text": self._tokens.fields.known}

    @property
    def probabilities(self) -> dict[Label, dict[str, float]]:
        return {
            label: {f: p for f, p in zip(self.features, row, strict=True) if p == p}
            for label, row in zip(self.classes, self._attributes.probabilities, strict=True)
        }

    @property
    def n_tokens(self) -> int:
        return int(self._tokens.sets.size[0])

    def token_probability(self, token: str) -> dict[Label, float]:
        """P(token in a text | class) of each class that had a text; empty if the token is not
        known."""
        return {
            label: p
            for label, p in zip(self.classes, self._tokens.probabilities(token), strict=False)
            if p == p
        }

    def linear_view(self, label: Label | None = None, against: Label | None = None) -> LinearView:
        """The log-odds of two classes as a linear function of presence, 1 or 0; O(C · learned
        attributes).

        It holds for a record with every known field and, if any text was ever learned, with a text.
        Tokens are named "bucket 967112". ``stream.text.bucket(token)`` gives the number of a token.

        Parameters
        ----------
        label, against
            Two known classes. By default the first two that were learned.

        Raises
        ------
        NotLearnedError
            Fewer than two classes are known, or a given class is not known.
        NotSupportedError
            With alpha = 0, if one of the classes never had an attribute or always had it.
        """
        a, b = self._compared(label, against, None)
        parts = self._attributes, self._tokens
        lines = [part.line(len(self.classes)) for part in parts]
        if not finite(lines, a, b):
            raise NotSupportedError("a linear view needs probabilities above 0; set alpha above 0")
        return self._linear(a, b, lines)
