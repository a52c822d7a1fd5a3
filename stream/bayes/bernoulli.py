"""Bernoulli naive Bayes: attributes are present or absent, independent given the class."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from stream.bayes._kernels import bernoulli as kernels
from stream.bayes._kernels import token_sets as token_kernels
from stream.bayes._kernels.bernoulli import BernoulliTrials
from stream.bayes._kernels.multinomial import count_unknown
from stream.bayes._kernels.token_sets import TokenSets
from stream.bayes.classifier import (
    BayesClassifier,
    check_priors,
    finite,
    left_after,
)
from stream.bayes.part import Line, Part, Steps, SumsPart, Term, UnlearnAmount, given
from stream.bayes.tokens import Fields, present_in, text_fields
from stream.data.block import Block, Floats, Rows, learning, rows_used
from stream.data.columns import admit, columns_for, grown, rows_for
from stream.data.parameters import check_half_life, number
from stream.data.rows import conflicts
from stream.data.schema import Dictionary, Kind, Label, Schema
from stream.data.state import Saved, State
from stream.errors import InvalidRecordError, NotSupportedError
from stream.learner.additive import LOWEST
from stream.learner.predictions import LinearView
from stream.learner.registry import Facts, registered
from stream.text import BUCKETS, LEARNED_BUCKETS, bucket
from stream.text.bags import hashed_bags, hashed_texts, named_buckets, without_numbers

__all__ = ["ABSENT", "BernoulliNB"]

ABSENT = "(absent tokens)"  # in explanations: all known tokens that are not in the text
ONE = np.zeros(1, dtype=np.int64)


class TokenSetPart(Part):
    """Texts as sets of tokens. See `BernoulliNB`. Column 0 of the tables is the sum over all
    classes."""

    name: ClassVar[str] = "tokens"

    def __init__(self, alpha: float) -> None:
        self._alpha = alpha
        self.fields = Fields()
        self.sets = TokenSets(
            np.zeros(1),
            np.zeros((0, 1)),
            np.zeros(BUCKETS, dtype=np.int32),
            np.zeros(1, dtype=np.int64),
            np.zeros(1, dtype=np.int64),
            np.ones(1),
            np.zeros((1, 0)),
            np.zeros((1, 0), dtype=np.int64),
            np.zeros(1, dtype=np.int64),
        )

    @property
    def overflows(self) -> dict[str, int]:
        return {"tokens": int(self.sets.cut[0]), "fields": self.fields.known.overflow}

    def probabilities(self, token: str) -> list[float]:
        """P(token in a text | class) of each class, NaN if the class had no text; [] if unknown."""
        s = self.sets
        at = int(s.slot[bucket(token)])
        if not at:
            return []
        alpha = self._alpha * s.unit[0]
        p = np.full(s.texts.size, np.nan)
        count = s.counts[at - 1, : s.texts.size]
        np.divide(count + alpha, s.texts + 2.0 * alpha, out=p, where=s.texts > 0)
        return list(p[1:].tolist())

    def prepare(self, rows: Rows) -> Rows:
        """Replace each text by its buckets, so that it is tokenised once."""
        return hashed_texts(rows)

    def tables(self, schema: Schema, classes: int) -> int:
        """Bytes of all buckets, if there are texts."""
        return 8 * BUCKETS * (classes + 2) if schema.text else 0

    def execute(self, block: Block, steps: Steps, classes: int, joint: Floats) -> None:
        if learning(block).size:
            self.fields.learn(*text_fields(block))
        used, row = rows_used(block)
        bags = hashed_bags(without_numbers(block.rows), used)
        given = np.array([_has_text(block.rows, i) for i in used.tolist()], dtype=np.bool_)
        new = count_unknown(bags.bucket, self.sets.slot) if learning(block).size else 0
        most = 1 + self.most_classes
        self.sets = _resized(self.sets, 1 + classes, int(self.sets.size[0]) + new, most)
        longest = int(np.diff(bags.start).max(initial=0))
        done = (0, 0, steps.known)
        while done[0] < len(block):
            self.sets = _with_room(self.sets, longest)
            done = token_kernels.progressive(
                steps,
                done,
                bags.start,
                row.astype(np.int64),
                bags.bucket,
                given,
                self._alpha,
                self.sets,
                joint,
            )

    def terms(self, rows: Rows, classes: int) -> list[Term]:
        if not _has_text(rows, 0):
            return []
        found = np.unique(hashed_bags(without_numbers(rows), ONE).bucket)
        found = found[(found >= 0) & (self.sets.slot[found] > 0)]
        present, absent, base, certain = self._shares(found, classes)
        for row in absent:
            base -= np.where(row > -inf, row, 0.0)
            certain -= row == -inf
        base[certain > 0] = -inf
        named = [(f"bucket {b}", present[k]) for k, b in enumerate(found.tolist())]
        return [(ABSENT, base), *named]

    def line(self, classes: int) -> Line:
        """The log likelihood if all known tokens are absent, and what the presence of each adds."""
        learned = np.flatnonzero(self.sets.slot).astype(np.int64)
        present, absent, base, certain = self._shares(learned, classes)
        base[certain > 0] = -inf
        changes = present - np.where(absent > -inf, absent, LOWEST)
        return base, [(f"bucket {b}", changes[k]) for k, b in enumerate(learned.tolist())]

    def _shares(
        self, found: NDArray[np.int64], classes: int
    ) -> tuple[Floats, Floats, Floats, NDArray[np.int64]]:
        present, absent = np.zeros((2, found.size, classes))
        base, certain = np.zeros(classes), np.zeros(classes, dtype=np.int64)
        token_kernels.shares(found, classes, self._alpha, self.sets, present, absent, base, certain)
        return present, absent, base, certain

    def lacks(self, rows: Rows, c: int, amount: UnlearnAmount) -> str | None:
        if not _has_text(rows, 0):
            return None
        s, w = self.sets, amount.w * amount.fade * float(self.sets.unit[0])
        texts = s.texts[c + 1]
        if left_after(texts, w, amount.slack) is None:
            return "its class has less weight of texts"
        found = np.unique(hashed_bags(without_numbers(rows), ONE).bucket)
        found = found[found >= 0]
        at = s.slot[found] - 1
        for b, row in zip(found.tolist(), at.tolist(), strict=True):
            if row < 0 or left_after(s.counts[row, c + 1], w, amount.slack) is None:
                token = named_buckets(rows).get(f"bucket {b}", f"bucket {b}")
                return f"token {token!r} was in fewer texts of its class"
        rest = np.delete(s.counts[: int(s.size[0]), c + 1], at)
        if any(left_after(texts - n, w, amount.slack) is None for n in np.unique(rest)):
            return "a token that it does not have was in more texts of its class"
        return None

    def unlearn(self, rows: Rows, c: int, amount: UnlearnAmount) -> None:
        if not _has_text(rows, 0):
            return
        s, w = self.sets, amount.w * amount.fade * float(self.sets.unit[0])
        bags = hashed_bags(without_numbers(rows), ONE)
        self.fields.unlearn(present_in(rows)[0], amount.w, amount.slack_of_all)
        s.cut[0] -= int(np.count_nonzero(bags.bucket < 0))
        found = np.unique(bags.bucket[bags.bucket >= 0])
        for q, slack in ((0, amount.slack_of_all), (c + 1, amount.slack)):
            s.texts[q] = left_after(s.texts[q], w, slack) or 0.0
            for at in (s.slot[found] - 1).tolist():
                s.counts[at, q] = left_after(s.counts[at, q], w, slack) or 0.0
            np.minimum(s.counts[:, q], s.texts[q], out=s.counts[:, q])
        for b in found.tolist():
            if not s.counts[s.slot[b] - 1, 1:].any():
                self._drop(b)
        self.sets = _indexed(s)

    def _drop(self, b: int) -> None:
        """Remove a token that no class has. The last row takes its place."""
        s = self.sets
        last, at = int(s.size[0]) - 1, int(s.slot[b]) - 1
        s.slot[np.flatnonzero(s.slot == last + 1)] = at + 1
        s.slot[b] = 0
        s.counts[at] = s.counts[last]
        s.counts[last] = 0.0
        s.size[0] = last

    def drop_class(self, c: int) -> None:
        s = self.sets
        s = s._replace(texts=np.delete(s.texts, c + 1), counts=np.delete(s.counts, c + 1, axis=1))
        self.sets = _indexed(s)

    def merge(self, other: Self, classes: NDArray[np.int64], size: int, fade: float) -> None:
        theirs = other.sets
        self.fields.merge(other.fields)
        learned = np.flatnonzero(theirs.slot)
        new = learned[self.sets.slot[learned] == 0]
        s = _resized(self.sets, 1 + size, int(self.sets.size[0]) + new.size, 1 + self.most_classes)
        s.slot[new] = np.arange(new.size) + int(s.size[0]) + 1
        s.counts[:] *= fade
        s.texts[:] *= fade
        q = np.append(0, classes + 1)
        s.counts[np.ix_(s.slot[learned] - 1, q)] += theirs.counts[
            theirs.slot[learned] - 1, : q.size
        ]
        s.texts[q] += theirs.texts
        self.sets = _indexed(
            s._replace(size=s.size + new.size, cut=s.cut + theirs.cut, unit=theirs.unit.copy())
        )

    def n_parameters(self, classes: int) -> int:
        return classes * int(self.sets.size[0])

    def export(self) -> State:
        # Sorted by bucket, so that a state does not depend on the layout in memory. Levels are left
        # out, because they follow from the counts.
        s = self.sets
        learned = np.flatnonzero(s.slot)
        arrays = {
            "texts": s.texts,
            "bucket": learned.astype(np.int64),
            "counts": np.ascontiguousarray(s.counts[s.slot[learned] - 1, : s.texts.size].T),
            "cut": s.cut,
            "unit": s.unit,
        }
        fields = State.join({"fields": self.fields.export()})
        return State(fields.header, {**arrays, **fields.arrays})

    def restore(self, state: State, classes: int) -> None:
        self.fields.restore(state.nested("fields"))
        table = {
            "texts": Saved(np.float64, (1 + classes,)),
            "bucket": LEARNED_BUCKETS,
            "counts": Saved(np.float64, (1 + classes, "tokens")),
            "cut": Saved(np.int64),
            "unit": Saved(np.float64),
        }
        found = state.read(table)
        learned, counts = found.pop("bucket"), np.ascontiguousarray(found.pop("counts").T)
        slot, size = np.zeros(BUCKETS, dtype=np.int32), np.array([learned.size], dtype=np.int64)
        slot[learned] = np.arange(1, learned.size + 1)
        self.sets = _indexed(self.sets._replace(**found, counts=counts, slot=slot, size=size))


def _has_text(rows: Rows, i: int) -> bool:
    return any(cell is not None for cell in rows.text[i].tolist())


def _indexed(s: TokenSets) -> TokenSets:
    """`s` with the levels recomputed from its counts."""
    held = s.counts[: int(s.size[0]), : s.texts.size]
    found = [np.unique(column, return_counts=True) for column in held.T]
    kept = [(value[value > 0], times[value > 0]) for value, times in found]
    levels = np.array([value.size for value, _ in kept], dtype=np.int64)
    level = np.zeros((levels.size, int(levels.max())))
    times = np.zeros(level.shape, dtype=np.int64)
    for q, (value, n) in enumerate(kept):
        level[q, : value.size], times[q, : value.size] = value, n
    return s._replace(level=level, times=times, levels=levels)


def _resized(s: TokenSets, q: int, d: int, most: int) -> TokenSets:
    """`s` with zeros for new columns, at most `most`, and room for d buckets or for all."""
    d = min(d, BUCKETS)
    had, known = len(s.counts), s.texts.size
    if known == q and had >= d:
        return s
    more = np.zeros(q - known)
    return s._replace(
        texts=np.append(s.texts, more),
        counts=columns_for(s.counts, grown(d, had, BUCKETS), q, most),
        level=rows_for(s.level, (q, s.level.shape[1]), most),
        times=rows_for(s.times, (q, s.level.shape[1]), most),
        levels=np.append(s.levels, more.astype(np.int64)),
    )


def _with_room(s: TokenSets, tokens: int) -> TokenSets:
    """`s` with room for the levels of one more text with that many tokens."""
    needed, room = int(s.levels.max()) + tokens, s.level.shape[1]
    if needed <= room:
        return s
    more = ((0, 0), (0, max(needed, 2 * room) - room))
    return s._replace(level=np.pad(s.level, more), times=np.pad(s.times, more))


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
