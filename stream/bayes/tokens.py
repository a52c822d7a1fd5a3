"""TokenPart: texts and counts as draws of tokens from a distribution of the class.

The fields that were learned as one kind, and the weight of each.

Rule: nothing here changes a prediction. The names serve to reject values of another kind. The
weights serve to forget a field when its last record is unlearned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise, repeat
from math import fsum, lgamma
from operator import is_not
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from stream.bayes._kernels import multinomial as kernels
from stream.bayes._kernels.multinomial import TokenCounts
from stream.bayes.classifier import left_after
from stream.bayes.part import Part, Steps, Term, UnlearnAmount
from stream.data.block import Block, Floats, Rows, learning, rows_used
from stream.data.columns import MAX_FEATURES, columns_for, grown, names_in
from stream.data.schema import Dictionary, Schema
from stream.data.state import Rules, Saved, State, pack, texts
from stream.errors import InvalidRecordError, StateError
from stream.text import BUCKETS, LEARNED_BUCKETS, bucket, encode_many
from stream.text.bags import (
    Bags,
    Vocabulary,
    counted_tokens,
    exact_bags,
    hashed_bags,
    hashed_texts,
    named_buckets,
    without_numbers,
)

__all__ = [
    "TOKEN_ALPHA",
    "Fields",
    "TokenPart",
    "Vocabularies",
    "present_in",
    "text_fields",
]


class Fields:
    """Names of fields, bounded, and the weight of the records that had each.

    Attributes
    ----------
    known : Dictionary
        The names. A field beyond the bound is counted, not known, and may have any kind.
    """

    def __init__(self) -> None:
        self.known = Dictionary(MAX_FEATURES)
        self._weight: Floats = np.zeros(0)

    def learn(self, names: tuple[str, ...], present: NDArray[np.bool_], w: Floats) -> None:
        """Add the fields of learned records.

        Parameters
        ----------
        names
            The columns, q of them.
        present
            bool, (m, q): whether each record has each field.
        w
            float64, (m,): the weight of each.
        """
        if not names:
            return
        column = np.array([self.known.codes.get(name, -1) for name in names], dtype=np.int64)
        some = present.any(axis=0)
        fresh = sorted(
            (int(np.argmax(present[:, j])), names[j], j)
            for j in np.flatnonzero((column < 0) & some).tolist()
        )
        for _, name, j in fresh:  # ordered by their first record, within one record by name
            column[j] = self.known.add(name)
            if column[j] < 0:  # counted once for each record
                self.known.overflow += int(np.count_nonzero(present[:, j])) - 1
        used = np.flatnonzero((column >= 0) & some)
        if len(self.known) > self._weight.size:
            more = np.zeros(len(self.known) - self._weight.size)
            self._weight = np.append(self._weight, more)
        # Added in the order of the records, although slower, so that any split into blocks is
        # equal.
        for j, k in zip(used.tolist(), column[used].tolist(), strict=True):
            if len(w) == 1:
                self._weight[k] += w[0]
            else:
                each = np.where(present[:, j], w, 0.0)
                each[0] += self._weight[k]
                self._weight[k] = each.cumsum()[-1]

    def learn_known(self, name: str, w: float) -> None:
        """Add a known field of one learned record of weight w."""
        self._weight[self.known.codes[name]] += w

    def unlearn(self, names: Iterable[str], w: float, slack: float) -> None:
        """Unlearn the fields of one record of weight w. slack: the rounding error, as a share of
        w."""
        for name in names:
            code = self.known.codes.get(name)
            if code is None:
                self.known.overflow = max(self.known.overflow - 1, 0)
                continue
            left = left_after(self._weight[code], w, slack)
            if left:
                self._weight[code] = left
            else:
                self.known.remove(name)
                self._weight = np.delete(self._weight, code)

    def merge(self, other: Fields) -> None:
        """Add the fields of `other`."""
        code = [self.known.add(name) for name in other.known]
        weight = np.append(self._weight, np.zeros(len(self.known) - self._weight.size))
        for k, c in enumerate(code):
            if c >= 0:
                weight[c] += other._weight[k]
        self._weight = weight
        self.known.overflow += other.known.overflow

    def export(self) -> State:
        """The state, sorted by name, so that it does not depend on the order of learning."""
        names = sorted(self.known)
        order = [self.known.codes[name] for name in names]
        header = {"names": names, "overflow": self.known.overflow}
        return State(header, {"weight": self._weight[order]})

    def restore(self, state: State) -> None:
        """Check the state and take it over."""
        names = names_in(state, "names")
        rules: Rules = {
            "names of fields in rising order": lambda a: names == sorted(names),
            "weights of fields above 0": lambda a: a["weight"] > 0,
        }
        table = {"weight": Saved(np.float64, (len(names),), 0)}
        self._weight = state.read(table, rules)["weight"]
        self.known = self.known.renewed(names, int(state.header["overflow"]))


def text_fields(block: Block) -> tuple[tuple[str, ...], NDArray[np.bool_], Floats]:
    """Arguments of `Fields.learn` for the texts that the block learns."""
    steps = learning(block)
    cells = block.rows.text[block.row[steps]]
    here = map(is_not, cells.ravel().tolist(), repeat(None))  # == would compare encoded texts
    present = np.fromiter(here, dtype=np.bool_, count=cells.size)
    return block.rows.text_names, present.reshape(cells.shape), block.w[steps]


def counted_fields(block: Block) -> tuple[tuple[str, ...], NDArray[np.bool_], Floats]:
    """Arguments of `Fields.learn` for the counts that the block learns."""
    steps = learning(block)
    present = ~np.isnan(block.rows.numeric[block.row[steps]])
    return block.rows.numeric_names, present, block.w[steps]


def present_in(rows: Rows) -> tuple[list[str], list[str]]:
    """The names of the texts and of the counts in the one row of `rows`."""
    texts = zip(rows.text_names, rows.text[0].tolist(), strict=True)
    counts = zip(rows.numeric_names, rows.numeric[0].tolist(), strict=True)
    return [name for name, v in texts if v is not None], [name for name, v in counts if v == v]


Vocabularies = Literal["hashed", "exact"]
# Default of alpha, from benchmarks.texts: docs/decisions/naive-bayes.md#tokens-are-smoothed-with-03
TOKEN_ALPHA = 0.3
ONE = np.zeros(1, dtype=np.int64)
ROOM = 3  # growing a table at least doubles it, and the old one exists until it is copied
TOKENS_ROOM = 2**28  # bytes of the tokens of an exact vocabulary


class TokenPart(Part):
    """Texts and counts as draws of tokens. See `MultinomialNB`.

    Parameters
    ----------
    alpha
        Added to every count.
    numbers
        Whether a numeric column counts the token with the column's name.
    vocabulary, max_tokens
        ``"hashed"``: tokens in the same one of 2**20 buckets count as the same token. ``"exact"``:
        up to `max_tokens` tokens are kept by name.
    rule
        How a token is scored from its counts: a constant of the kernels.
    """

    name: ClassVar[str] = "tokens"

    def __init__(
        self,
        alpha: float,
        *,
        numbers: bool = True,
        vocabulary: Vocabularies = "hashed",
        max_tokens: int = BUCKETS,
        rule: int = kernels.MULTINOMIAL,
    ) -> None:
        self._alpha, self._numbers, self._rule = alpha, numbers, rule
        self._vocabulary: Vocabulary | None = None
        if vocabulary == "exact":
            self._vocabulary = Vocabulary(max_tokens, room=TOKENS_ROOM)
        self.texts, self.counted = Fields(), Fields()
        self.counts = TokenCounts(
            np.zeros(0),
            np.zeros((0, 0)),
            np.zeros(BUCKETS if self._vocabulary is None else 0, dtype=np.int32),
            np.zeros(1, dtype=np.int64),
            np.zeros(1, dtype=np.int64),
            np.ones(1),
        )

    @property
    def features(self) -> list[str]:
        return [] if self._vocabulary is None else sorted(self._vocabulary)

    @property
    def overflows(self) -> dict[str, int]:
        fields = self.texts.known.overflow + self.counted.known.overflow
        out = {"tokens": int(self.counts.cut[0]), "fields": fields}
        return out if self._vocabulary is None else out | {"vocabulary": self._vocabulary.overflow}

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows with a count below 0."""
        if not self._numbers:
            return {}
        bad = np.flatnonzero((rows.numeric < 0).any(axis=1)).tolist()
        return {i: _negative(rows, i) for i in bad}

    def prepare(self, rows: Rows) -> Rows:
        """Encode texts if tokens are hashed. An exact vocabulary may still change."""
        return hashed_texts(rows) if self._vocabulary is None else rows

    def _read(self, rows: Rows, used: NDArray[np.int64], learned: Iterable[int] = ()) -> Bags:
        rows = rows if self._numbers else without_numbers(rows)
        if self._vocabulary is None:
            return hashed_bags(rows, used)
        return exact_bags(rows, used, self._vocabulary, learned)

    def _called(self, b: int) -> str:
        """The token, or the name, of this bucket or code."""
        return f"bucket {b}" if self._vocabulary is None else self._vocabulary.values[b]

    def slot(self, token: str) -> int:
        """1 + the row of the token's counts; 0 if it was never learned."""
        if self._vocabulary is None:
            return int(self.counts.slot[bucket(token)])
        return self._vocabulary.codes.get(token, -1) + 1

    def tables(self, schema: Schema, classes: int) -> int:
        """Bytes of all buckets if there are texts, otherwise of one bucket for each count."""
        if self._vocabulary is not None:
            return 0
        counts = len(schema.numeric) if self._numbers else 0
        used = BUCKETS if schema.text else 2 * counts
        return 8 * used * classes + 4 * BUCKETS if used else 0

    def grows(self, schema: Schema) -> bool:
        """Whether tokens are kept by name."""
        return self._vocabulary is not None

    def limit(self, room: int, classes: int) -> None:
        """See `Part.limit`. Bounds the bytes of the tokens, and their number by the room for
        counts."""
        if self._vocabulary is not None:
            tokens = room // 2 // (8 * ROOM * classes)
            self._vocabulary.bound = min(self._vocabulary.bound, tokens)
            self._vocabulary.room = room // 2

    def execute(self, block: Block, steps: Steps, classes: int, joint: Floats) -> None:
        counts = self._numbers and block.rows.numeric_names
        if not (block.rows.text_names or counts) and steps.growth == 1.0:  # there is no token
            size = int(self.counts.size[0])
            self.counts = _resized(self.counts, classes, size, self.most_classes)
            return
        used, row = rows_used(block)
        learned = learning(block)
        if learned.size:
            self.texts.learn(*text_fields(block))
            if self._numbers:
                self.counted.learn(*counted_fields(block))
        bags = self._read(block.rows, used, row[learned].tolist())
        self._widen()
        new = kernels.count_unknown(bags.bucket, self.counts.slot) if learned.size else 0
        d = int(self.counts.size[0]) + new
        self.counts = _resized(self.counts, classes, d, self.most_classes)
        kernels.progressive(
            steps,
            bags.start,
            row,
            bags.bucket,
            bags.times,
            self._alpha,
            self._rule,
            self.counts,
            joint,
        )

    def text_alone(self, x: Mapping[Any, Any]) -> tuple[str, str] | None:
        """Field and text of a record of one text in a known field; None for another record, or if
        tokens are not hashed."""
        if self._vocabulary is not None or type(x) is not dict or len(x) != 1:
            return None
        ((name, text),) = x.items()
        known = type(name) is str and type(text) is str and name in self.texts.known
        return (name, text) if known else None

    def execute_alone(
        self, name: str, text: str, steps: Steps, classes: int, joint: Floats
    ) -> None:
        """`execute` of one step on a record of `text_alone`, without a block."""
        found = encode_many([text])
        new = 0
        if not joint.size:
            self.texts.learn_known(name, steps.w[0])
            new = kernels.count_unknown(found.bucket, self.counts.slot)
        d = int(self.counts.size[0]) + new
        self.counts = s = _resized(self.counts, classes, d, self.most_classes)
        times = found.times.astype(np.float64)
        given = steps, found.start, steps.row, found.bucket, times
        kernels.progressive(*given, self._alpha, self._rule, s, joint)

    def _widen(self) -> None:
        """Make slots for all codes."""
        codes, slot = len(self._vocabulary or ()), self.counts.slot
        if slot.size < codes:
            wider = np.zeros(max(codes, 2 * slot.size), dtype=np.int32)
            wider[: slot.size] = slot
            self.counts = self.counts._replace(slot=wider)

    def terms(self, rows: Rows, classes: int) -> list[Term]:
        bags = self._read(rows, ONE)
        out = self._scores(bags.bucket, bags.times, classes)
        named = {} if self._vocabulary is not None else _names(rows)
        return [
            (named.get(b) or self._called(b), out[k])
            for k, b in enumerate(bags.bucket.tolist())
            if b >= 0 and self.counts.slot[b]
        ]

    def log_coefficient(self, rows: Rows) -> float:
        """log(m! / ∏ x!) of the one row, for m learned tokens of which each one occurs x times."""
        bags = self._read(rows, ONE)
        times: dict[int, float] = defaultdict(float)
        for b, n in zip(bags.bucket.tolist(), bags.times.tolist(), strict=True):
            if b >= 0 and self.counts.slot[b]:
                times[b] += n
        return lgamma(1.0 + fsum(times.values())) - fsum(lgamma(1.0 + n) for n in times.values())

    def weights(self, classes: int) -> list[Term]:
        """What one more occurrence of each learned token adds."""
        learned = self._learned()
        out = self._scores(learned, np.ones(learned.size), classes)
        return [(self._called(b), out[k]) for k, b in enumerate(learned.tolist())]

    def _scores(self, buckets: NDArray[np.int64], times: Floats, classes: int) -> Floats:
        out = np.zeros((buckets.size, classes))
        kernels.terms(buckets, times, classes, self._alpha, self._rule, self.counts, out)
        return out

    def _learned(self) -> NDArray[np.int64]:
        """Learned buckets in rising order, or codes in the order of their tokens.

        A state must depend on what was learned, not on the layout in memory.
        """
        if self._vocabulary is None:
            return np.flatnonzero(self.counts.slot).astype(np.int64)
        return self._vocabulary.in_order()

    def lacks(self, rows: Rows, c: int, amount: UnlearnAmount) -> str | None:
        w = amount.w * amount.fade * float(self.counts.unit[0])
        if self._vocabulary is not None:
            counted, _ = counted_tokens(rows if self._numbers else without_numbers(rows), 0)
            unknown = [token for token, _ in counted if token not in self._vocabulary]
            if unknown and self._vocabulary.overflow == 0:
                return f"token {unknown[0]!r} was never learned"
        bags = self._read(rows, ONE)
        named = named_buckets(rows) | {f"bucket {b}": name for b, name in _names(rows).items()}
        need: dict[int, float] = defaultdict(float)
        for b, times in zip(bags.bucket.tolist(), bags.times.tolist(), strict=True):
            if b >= 0:
                need[b] += times * w
        for b, count in need.items():
            at = int(self.counts.slot[b])
            if not at or left_after(self.counts.counts[at - 1, c], count, amount.slack) is None:
                token = named.get(self._called(b), self._called(b))
                return f"token {token!r} has a lower count in its class"
        return None

    def unlearn(self, rows: Rows, c: int, amount: UnlearnAmount) -> None:
        w = amount.w * amount.fade * float(self.counts.unit[0])
        s = self.counts
        bags = self._read(rows, ONE)
        texts, counted = present_in(rows)
        self.texts.unlearn(texts, amount.w, amount.slack_of_all)
        if self._numbers:
            self.counted.unlearn(counted, amount.w, amount.slack_of_all)
        if self._vocabulary is not None:  # unknown tokens were rejected, see `lacks`
            given, _ = counted_tokens(rows if self._numbers else without_numbers(rows), 0)
            refused = sum(token not in self._vocabulary for token, _ in given)
            self._vocabulary.overflow = max(self._vocabulary.overflow - refused, 0)
        gone: dict[int, str] = {}
        for b, times in zip(bags.bucket.tolist(), bags.times.tolist(), strict=True):
            if b < 0:
                s.cut[0] -= 1
                continue
            at = int(s.slot[b]) - 1
            s.counts[at, c] = left_after(s.counts[at, c], times * w, amount.slack) or 0.0
            s.total[c] = left_after(s.total[c], times * w, amount.slack) or 0.0
            if not s.counts[at].any():
                gone[b] = self._called(b)
        for b, token in gone.items():  # codes change when others are removed
            self._drop(b if self._vocabulary is None else self._vocabulary.codes[token])

    def _drop(self, b: int) -> None:
        """Remove a token that no class has. The last row takes its place."""
        s = self.counts
        last = int(s.size[0]) - 1
        at = int(s.slot[b]) - 1
        if self._vocabulary is None:
            s.slot[np.flatnonzero(s.slot == last + 1)] = at + 1
            s.slot[b] = 0
        else:  # rows are in the order of codes, and the last token gets this code
            self._vocabulary.remove(self._vocabulary.values[b])
            s.slot[last] = 0
        s.counts[at] = s.counts[last]
        s.counts[last] = 0.0
        s.size[0] = last

    def drop_class(self, c: int) -> None:
        self.counts = self.counts._replace(
            total=np.delete(self.counts.total, c), counts=np.delete(self.counts.counts, c, axis=1)
        )

    def merge(self, other: Self, classes: NDArray[np.int64], size: int, fade: float) -> None:
        theirs = other.counts
        self.texts.merge(other.texts)
        self.counted.merge(other.counted)
        if other._vocabulary is None or self._vocabulary is None:
            learned = np.flatnonzero(theirs.slot)
            mine = learned
        else:
            # In the order of a saved state: at a bound the order decides which tokens are kept.
            learned, tokens = other._vocabulary.in_order(), list(other._vocabulary)
            mine = np.array([self._vocabulary.add(tokens[t]) for t in learned], dtype=np.int64)
            self._vocabulary.overflow += other._vocabulary.overflow
            self._widen()
        kept = mine >= 0  # features beyond the bound are counted as overflows
        refused = theirs.slot[learned[~kept]] - 1
        learned, mine = learned[kept], mine[kept]
        new = mine[self.counts.slot[mine] == 0]
        s = _resized(self.counts, size, int(self.counts.size[0]) + new.size, self.most_classes)
        s.slot[new] = np.arange(new.size) + int(s.size[0]) + 1
        s.counts[:] *= fade
        s.total[:] *= fade
        at = np.ix_(s.slot[mine] - 1, classes)
        n = theirs.total.size
        s.counts[at] += theirs.counts[theirs.slot[learned] - 1, :n]
        total = theirs.total.copy()
        for r in refused.tolist():
            total = np.maximum(total - theirs.counts[r, :n], 0.0)
        s.total[classes] += total
        self.counts = s._replace(
            size=s.size + new.size, cut=s.cut + theirs.cut, unit=theirs.unit.copy()
        )

    def n_parameters(self, classes: int) -> int:
        return classes * max(int(self.counts.size[0]) - 1, 0)

    def export(self) -> State:
        s = self.counts
        learned = self._learned()
        arrays = {
            "total": s.total,
            "counts": np.ascontiguousarray(s.counts[s.slot[learned] - 1, : s.total.size].T),
            "cut": s.cut,
            "unit": s.unit,
        }
        fields = State.join({"texts": self.texts.export(), "counted": self.counted.export()})
        arrays |= fields.arrays
        if self._vocabulary is None:
            return State(fields.header, arrays | {"bucket": learned})
        header = {**fields.header, "overflow": self._vocabulary.overflow}
        return State(header, arrays | pack(map(self._called, learned.tolist())))

    def restore(self, state: State, classes: int) -> None:
        self.texts.restore(state.nested("texts"))
        self.counted.restore(state.nested("counted"))
        table = {
            "total": Saved(np.float64, (classes,)),
            "counts": Saved(np.float64, (classes, "tokens")),
            "cut": Saved(np.int64),
            "unit": Saved(np.float64),
        }
        if self._vocabulary is None:
            found = state.read({**table, "bucket": LEARNED_BUCKETS})
            learned, slots = found["bucket"], BUCKETS
        else:
            self._vocabulary = _restored(self._vocabulary, state)
            slots = len(self._vocabulary)
            found, learned = state.read(table, tokens=slots), np.arange(slots)
        total, count, cut, unit = (found[name] for name in table)
        d = learned.size
        slot = np.zeros(slots, dtype=np.int32)
        slot[learned] = np.arange(1, d + 1)
        size = np.array([d], dtype=np.int64)
        self.counts = TokenCounts(total, np.ascontiguousarray(count.T), slot, size, cut, unit)


def _restored(empty: Vocabulary, state: State) -> Vocabulary:
    """The vocabulary of an exported part, with codes in the order of its tokens."""
    values, bound = texts(state), empty.bound
    if len(values) > bound or any(a >= b for a, b in pairwise(values)):
        raise StateError(f"expected at most {bound} distinct tokens in rising order, got others")
    return empty.renewed(values, int(state.header["overflow"]))


def _negative(rows: Rows, i: int) -> InvalidRecordError:
    name = rows.numeric_names[int(np.argmax(rows.numeric[i] < 0))]
    return InvalidRecordError(
        "negative_count", f"field {name!r} expects a count of at least 0, got a negative one"
    )


def _names(rows: Rows) -> dict[int, str]:
    """Bucket to token, for the numeric columns."""
    return {bucket(name): name for name in rows.numeric_names}


def _resized(s: TokenCounts, c: int, d: int, most: int) -> TokenCounts:
    """`s` with zeros for new classes, at most `most`, and room for d buckets or for all."""
    d = min(d, BUCKETS)
    if s.total.size == c and s.counts.shape[0] >= d:
        return s
    counts = columns_for(s.counts, grown(d, s.counts.shape[0], BUCKETS), c, most)
    total = np.concatenate((s.total, np.zeros(c - s.total.size)))
    return s._replace(total=total, counts=counts)
