"""BayesClassifier: the prior and the parts, and everything they share.

P(class | x) ∝ P(class) · Π parts p(x | class). A family defines its parts and its parameters. This
file has learning, predicting, unlearning, merging, fading, explaining and state.
"""

from __future__ import annotations

import abc
import copy
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from math import inf, log
from sys import float_info
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from stream.bayes._kernels import prior as kernels
from stream.bayes._kernels.prior import Prior
from stream.bayes.part import Line, Part, Steps, Term, UnlearnAmount
from stream.data.block import PREDICT, Block, Floats, Rows
from stream.data.parameters import mapping, number, shown
from stream.data.schema import Field, Kind, Label, Schema
from stream.data.state import Saved, State
from stream.errors import (
    InvalidRecordError,
    NotLearnedError,
    NotSupportedError,
    SchemaError,
    StateError,
)
from stream.kernel._kernels import LARGEST_UNIT
from stream.learner.additive import Additive, apart
from stream.learner.base import Learner, Predictions
from stream.learner.predictions import PRIOR, LinearView
from stream.text.bags import named_buckets

__all__ = ["BayesClassifier", "check_priors", "finite", "left_after"]

LEAST_ROOM = 4096  # bytes: the least that a part with values gets
SLACK = 1e-12  # rounding error of a sum, as a share of the largest weight it ever had
FADED_SLACK = 1e-9  # of a sum with a half-life, as a share of what is unlearned
LARGEST = float_info.max


class BayesClassifier(Additive):
    """Prior times parts. Users construct its subclasses."""

    priors: Mapping[Label, float] | None = None
    half_life: float | None = None
    _prior: Prior
    _parts: tuple[Part, ...]

    @abc.abstractmethod
    def _new_parts(self) -> tuple[Part, ...]:
        """Empty parts, in the order in which their terms are added."""

    @classmethod
    def number_part(cls) -> Part:
        """A part for numbers by this family's distribution, with its default parameters.

        Given by families that register a `distribution`; `MixedNB` uses it.
        """
        raise NotSupportedError(f"{cls.__name__} has no part of numbers for other learners")

    def _start(self) -> None:
        self._prior = Prior(np.zeros(0), np.ones(1), np.zeros(1, dtype=np.int64))
        self._peaks: list[float] = []
        self._parts = self._new_parts()

    @property
    def not_applicable(self) -> Mapping[str, str]:
        """Laws that do not apply to this learner, with the reason."""
        if self.half_life is None:
            return super().not_applicable
        return {
            **super().not_applicable,
            "weight_two_is_twice": "two records fade the past twice, one of weight 2 once",
            "unlearning_is_the_inverse_of_learning": "unlearning does not undo the fading",
        }

    @property
    def _growth(self) -> float:
        return 1.0 if self.half_life is None else float(2.0 ** (1.0 / self.half_life))

    def limit(self, max_bytes: int, schema: Schema, max_classes: int) -> int:
        """See `Learner.limit`. Tables are reserved first; values get the rest."""
        super().limit(max_bytes, schema, max_classes)
        given = schema
        schema = self._taken(schema)
        fields = [(part, part.fields_of(schema)) for part in self._parts]
        growing = [part for part, own in fields if part.grows(own)]
        most = max_bytes - max_bytes // 4 if growing else max_bytes

        def tables(classes: int) -> int:
            return sum(part.tables(own, classes) for part, own in fields) + 8 * classes

        fit = bisect_right(range(max_classes + 1), most, key=tables) - 1
        least = tables(2)
        if growing:
            least = max(least * 4 // 3 + 1, least + LEAST_ROOM * len(growing))
        if fit < 2 or max_bytes < least:
            raise SchemaError(
                f"two classes with these fields need {least:,} bytes, but {max_bytes:,} are allowed"
            )
        room = (max_bytes - tables(fit)) // max(len(growing), 1)
        for part in growing:
            part.limit(room, fit)
        for part, own in fields:
            part.most_classes, part.most_numbers = fit, len(own.numeric)
        return super().limit(max_bytes, given, fit)

    def _taken(self, schema: Schema) -> Schema:
        """The fields with the kinds that the parts see."""
        kinds: dict[str, str] = {"numeric": self.numbers, "binary": self.truths}
        fields = (Field(f.name, cast("Kind", kinds.get(f.kind, f.kind))) for f in schema.fields)
        return Schema(tuple(fields))

    def prepare(self, rows: Rows) -> Rows:
        """Encode once what each step would encode again. Pure."""
        rows = super().prepare(rows)
        for part in self._parts:
            rows = part.prepare(rows)
        return rows

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows that a part rejects, with the reason."""
        out: dict[int, InvalidRecordError] = {}
        for part in reversed(self._parts):
            out |= part.refusals(part.own(rows))
        return out

    def _execute(
        self, block: Block, label: NDArray[np.int64], before: int, out: Predictions
    ) -> None:
        classes = len(self._classes)
        self._widen(classes)
        y = label.take(block.y, mode="wrap")
        steps = Steps(block.op, block.row, y, block.w, before, self._growth)
        op, _, *others = steps
        kernels.progressive(op, *others, self._given(), *self._prior, out.proba, out.known)
        prior = out.proba.copy()
        for part in self._parts:
            rows = part.own(block.rows)
            own = block if rows is block.rows else replace(block, rows=rows)
            part.execute(own, steps, classes, out.proba)
        kernels.normalise(out.proba, prior, out.known)

    def _widen(self, classes: int) -> None:
        known = self._prior.weight.size
        if known < classes:
            weight = np.zeros(classes)
            weight[:known] = self._prior.weight
            self._prior = self._prior._replace(weight=weight)
            if self._peaks:
                self._peaks[-1:-1] = [0.0] * (classes - known)

    def _given(self) -> Floats:
        """The given log priors of the classes; empty if they are learned."""
        if self.priors is None:
            return np.empty(0)
        # Keys in a configuration are text, but labels may be integers or truth values.
        given = [self.priors.get(c, self.priors.get(_named(c), 0.0)) for c in self.classes]
        return np.array([log(p) if p > 0 else -inf for p in given])

    # Reading the model.

    def _terms(self, raw: Rows) -> list[Term]:
        """Log prior and log likelihoods of one row, float64 (C,) each, in the order of the sum."""
        rows = self.prepare(raw)
        for refusal in self.refusals(rows).values():
            raise refusal
        classes = len(self._classes)
        prior = np.empty(classes)
        kernels.log_prior(classes, self._given(), self._prior, prior)
        terms = [t for part in self._parts for t in part.terms(part.own(rows), classes)]
        named = named_buckets(raw)
        return [(PRIOR, prior), *((named.get(name, name), term) for name, term in terms)]

    def _linear(self, a: int, b: int, lines: Iterable[Line]) -> LinearView:
        """The log-odds of classes a and b: the prior and the lines of the parts."""
        (_, prior), *_ = self._terms(self.columns([{}]))
        bias = apart(prior, a, b)
        weights: dict[str, float] = {}
        for base, changes in lines:
            bias += apart(base, a, b)
            weights |= {name: apart(term, a, b) for name, term in changes}
        return LinearView(self.classes[a], self.classes[b], bias, weights)

    @property
    def n_parameters(self) -> int:
        """Free parameters of p(x | class) over all classes, without the C - 1 of the prior."""
        return sum(part.n_parameters(len(self._classes)) for part in self._parts)

    @property
    def features(self) -> list[str]:
        """Features in the order each part first learned them."""
        return list(dict.fromkeys(f for part in self._parts for f in part.features))

    @property
    def overflows(self) -> dict[str, int]:
        """How many values each bound has rejected, by the bound's name."""
        out = super().overflows
        for part in self._parts:
            for bound, count in part.overflows.items():
                out[bound] = out.get(bound, 0) + count
        return out

    # Unlearning and merging.

    def unlearn_one(
        self, x: Mapping[Any, Any], y: Any, w: float = 1.0, *, age: int | None = None
    ) -> None:
        """Unlearn one record that was learned.

        Parameters
        ----------
        x, y, w
            As they were learned.
        age
            How many records were learned after it. Needed with `half_life`.

        Raises
        ------
        NotLearnedError
            The record cannot have been learned. The model did not change. (The check compares sums,
            so a record that was not learned, but could have been, is unlearned without an error.)

        Notes
        -----
        A class is dropped if less than 1e-12 of the largest weight it ever had is left. So is one
        with 4,000 records of weight 1, after a record of weight 2**52 is unlearned.
        """
        # Texts are not encoded, so that an error names a token and not its bucket.
        self.unlearn_rows(Learner.prepare(self, self.columns([x])), y, w, age=age)

    def unlearn_rows(self, rows: Rows, y: Any, w: float = 1.0, *, age: int | None = None) -> None:
        """`unlearn_one` of the one row of `rows`."""
        for refusal in self.refusals(rows).values():
            raise refusal
        block = Block.of(rows, PREDICT, [y], w)
        label = block.labels[0]
        since = self._age(age)
        known = self._classes.codes.get(label)
        if known is None or type(self.classes[known]) is not type(label):
            raise NotLearnedError(f"expected one of the classes {self.classes}, got {label!r}")
        fade = self.faded(since)
        counted = float(w) * fade * float(self._prior.unit[0])
        amount = UnlearnAmount(float(w), fade, *self._slack(known, counted))
        left = left_after(self._prior.weight[known], counted, amount.slack)
        if left is None:
            raise NotLearnedError(f"class {label!r} has less weight than the record to unlearn")
        for part in self._parts:
            if (why := part.lacks(part.own(block.rows), known, amount)) is not None:
                raise NotLearnedError(f"the record cannot have been learned: {why}")
        for part in self._parts:
            part.unlearn(part.own(block.rows), known, amount)
        self._note_peaks(known, counted)
        self._prior.weight[known] = left
        if left == 0.0:
            self._drop_class(known)

    def _slack(self, c: int, w: float) -> tuple[float, float]:
        """Rounding errors in sums of class c and in sums over all classes, as shares of w.

        The rounding error of a sum grows with the largest value it ever had. Before anything is
        unlearned that is its present value. Afterwards `_peaks` has it.
        """
        if self.half_life is not None:
            return FADED_SLACK, FADED_SLACK
        peaks = self._peaks_now()
        # The share of a tiny weight is bounded: an infinite one would make every sum rounding.
        return min(SLACK * peaks[c] / w, LARGEST), min(SLACK * peaks[-1] / w, LARGEST)

    def _peaks_now(self) -> list[float]:
        """The largest weight so far of each class and, last, of all classes together."""
        weights = self._prior.weight.tolist()
        now = [*weights, sum(weights)]
        return [max(pair) for pair in zip(now, self._peaks or now, strict=True)]

    def _note_peaks(self, c: int, w: float) -> None:
        # Whole numbers are added and subtracted without rounding.
        whole = w.is_integer() and float(self._prior.weight[c]).is_integer()
        if self.half_life is None and not whole:
            self._peaks = self._peaks_now()

    def _age(self, age: int | None) -> int:
        """Check the number of records learned after the record. It is used with fading only."""
        if age is None:
            if self.half_life is not None:
                raise SchemaError(
                    "with half_life, unlearning needs the record's age; age=0 is the last record"
                )
            return 0
        whole = isinstance(age, int | np.integer) and not isinstance(age, bool)
        learned = int(self._prior.records[0]) if self.half_life is not None else inf
        if not (whole and 0 <= age < learned):
            raise NotLearnedError(
                f"age must be a whole number below the number of learned records, got {age!r}"
            )
        return int(age)

    def faded(self, age: int) -> float:
        """The share of a record's weight that is left after `age` more records were learned."""
        return self._growth**-age

    def _drop_class(self, c: int) -> None:
        self._classes.remove(self._classes.values[c])
        self._prior = self._prior._replace(weight=np.delete(self._prior.weight, c))
        if self._peaks:
            del self._peaks[c]
        for part in self._parts:
            part.drop_class(c)

    @property
    def merges_exactly(self) -> bool:
        """Whether records do not fade, because then their order has no effect."""
        return self.half_life is None

    def merge(self, other: Learner) -> Self:
        """Learn what `other` has learned, as if its records came after those of this learner;
        O(bytes).

        Counts are exact for weights that are whole numbers, moments to about 1e-12.

        Raises
        ------
        SchemaError
            The other learner has another type or other parameters.
        InvalidRecordError
            Labels or features differ in kind, or there are more classes than the bound. Nothing was
            merged.
        """
        other = self._alike(other)
        if other is self:
            other = copy.deepcopy(self)  # a part that merges itself would read what it has changed
        self._check_kinds(other)
        classes = self._admit_classes(other.classes)
        self._widen(len(self._classes))
        theirs = other._prior
        fade = self._growth ** -float(theirs.records[0])
        scale = fade * theirs.unit[0] / self._prior.unit[0]
        if self._peaks or other._peaks:
            peaks, those = self._peaks_now(), other._peaks_now()
            for c, peak in zip([*classes.tolist(), -1], those, strict=True):
                peaks[c] += peak
            self._peaks = peaks
        weight = self._prior.weight * scale
        weight[classes] += theirs.weight
        records = self._prior.records + theirs.records
        self._prior = Prior(weight, theirs.unit.copy() if self.half_life else np.ones(1), records)
        for mine, part in zip(self._parts, other._parts, strict=True):
            mine.merge(part, classes, len(self._classes), scale)
        return self

    def _check_kinds(self, other: BayesClassifier) -> None:
        """Raise InvalidRecordError if a feature has one kind here and another in `other`."""
        mine, theirs = _places(self._parts), _places(other._parts)
        for feature in mine.keys() & theirs.keys():
            if not mine[feature] & theirs[feature]:
                ours, others = min(mine[feature]), min(theirs[feature])
                raise InvalidRecordError(
                    "wrong_kind", f"feature {feature!r} is {ours} here and {others} in the other"
                )
        for kind, names in self._fields().items():
            for another, there in other._fields().items():
                both = sorted({*names} & {*there}) if another != kind else []
                if both:
                    raise InvalidRecordError(
                        "wrong_kind", f"field {both[0]!r} is {kind} here and {another} in the other"
                    )

    def _fields(self) -> dict[str, Collection[str]]:
        """Kind to its known fields, for kinds that the features of the parts do not show."""
        return {}

    def _export(self) -> State:
        own = State({"peaks": self._peaks} if self._peaks else {}, self._prior._asdict())
        return State.join({"prior": own, **{p.name: p.export() for p in self._parts}})

    def _restore(self, state: State) -> None:
        classes = len(self._classes)
        own = state.nested("prior")
        weight = Saved(np.float64, (classes,))
        prior = Prior(**own.read({"weight": weight, "unit": UNIT, "records": Saved(np.int64)}))
        peaks = own.header.get("peaks", [])
        if not isinstance(peaks, list) or len(peaks) not in (0, classes + 1):
            raise StateError(f"expected the peaks of {classes} classes, got {shown(peaks)}")
        self._prior, self._peaks = prior, [float(peak) for peak in peaks]
        for part in self._parts:
            inner = state.nested(part.name)
            for name, array in inner.arrays.items():
                if array.dtype.kind == "f" and not np.isfinite(array).all():
                    raise StateError(f"array {name!r} of {part.name} has non-finite values")
            if "unit" in inner.arrays:
                inner.read({"unit": UNIT})
            part.restore(inner, classes)


# Above its bound, weights would overflow.
UNIT = Saved(np.float64, (1,), 1.0, LARGEST_UNIT)


def _places(parts: Iterable[Part]) -> dict[str, set[str]]:
    """Feature to the names of the parts that learned it."""
    out: dict[str, set[str]] = {}
    for part in parts:
        for feature in part.features:
            out.setdefault(feature, set()).add(part.name)
    return out


def left_after(have: float, take: float, slack: float) -> float | None:
    """have - take; 0 if the rest is a rounding error; None if `have` is less than `take`.

    slack: the rounding error, as a share of `take`.
    """
    left = float(have) - take
    if have > 0.0 and abs(left) <= slack * take:
        return 0.0
    return left if left > 0 else None


def finite(lines: Iterable[Line], a: int, b: int) -> bool:
    """Whether neither of the classes a and b is impossible in the lines."""
    terms = [term for base, changes in lines for term in (base, *(t for _, t in changes))]
    return not any(np.isinf(term[[a, b]]).any() for term in terms)


def check_priors(priors: Mapping[Label, float] | None) -> Mapping[Label, float] | None:
    """Check that each prior is in [0, 1] and that they sum to 1, up to rounding to two digits."""
    if priors is None:
        return None
    given = mapping("priors", priors, "label to probability")
    plain = {label: number(f"priors[{label!r}]", p, 0.0, 1.0) for label, p in given.items()}
    total = sum(plain.values())
    if abs(total - 1) > 0.01:
        raise SchemaError(f"priors must sum to 1, to two digits, got {total:g}: {plain!r}")
    return plain


def _named(label: Label) -> str:
    return str(label).lower() if isinstance(label, bool) else str(label)
