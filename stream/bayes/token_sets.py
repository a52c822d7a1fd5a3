"""TokenSetPart: texts as sets of tokens, each present or absent, independent given the class."""

from __future__ import annotations

from math import inf
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from stream.bayes._kernels import token_sets as kernels
from stream.bayes._kernels.multinomial import count_unknown
from stream.bayes._kernels.token_sets import TokenSets
from stream.bayes.classifier import left_after
from stream.bayes.part import Line, Part, Steps, Term, UnlearnAmount
from stream.bayes.tokens import Fields, present_in, text_fields
from stream.data.block import Block, Floats, Rows, learning, rows_used
from stream.data.columns import columns_for, grown, rows_for
from stream.data.schema import Schema
from stream.data.state import Saved, State
from stream.learner.additive import LOWEST
from stream.text import BUCKETS, LEARNED_BUCKETS, bucket
from stream.text.bags import hashed_bags, hashed_texts, named_buckets, without_numbers

__all__ = ["ABSENT", "TokenSetPart"]

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
            done = kernels.progressive(
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
        kernels.shares(found, classes, self._alpha, self.sets, present, absent, base, certain)
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
