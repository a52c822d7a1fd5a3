"""BayesClassifier: the prior and the parts, and everything they share.

P(class | x) ∝ P(class) · Π parts p(x | class). A family names its parts and its parameters;
learning, predicting, unlearning, merging, fading, explaining and state stand here, once.
"""

from __future__ import annotations

import abc
import copy
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from math import exp, fsum, inf, log, log1p
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from stream.bayes._kernels import prior as kernels
from stream.bayes._kernels.prior import Prior
from stream.bayes.bags import named_buckets
from stream.bayes.part import Part, Steps, Term, UnlearnAmount
from stream.data.block import PREDICT, Block, Floats, Rows
from stream.data.parameters import mapping, number
from stream.data.schema import Field, Kind, Label, Schema, plain_label
from stream.data.state import State
from stream.errors import (
    InvalidRecordError,
    NotLearnedError,
    NotSupportedError,
    SchemaError,
    StateError,
)
from stream.learner.base import Learner, Predictions
from stream.learner.explain import PRIOR, Explanation

__all__ = ["BayesClassifier", "check_half_life", "check_priors"]

LEAST_ROOM = 4096  # bytes: a part that has values has room for some
SLACK = 1e-12  # share of the largest weight a sum ever had that is rounding
FADED_SLACK = 1e-9  # share of what is taken back, where powers of the half-life are rounded too
LOWEST = -1e300  # an impossible term, where terms are subtracted


class BayesClassifier(Learner, abc.ABC):
    """Prior times parts. See the families for what users construct."""

    priors: Mapping[Label, float] | None = None
    half_life: float | None = None
    _prior: Prior
    _parts: tuple[Part, ...]

    @abc.abstractmethod
    def _new_parts(self) -> tuple[Part, ...]:
        """Empty parts; their order is that of the sum."""

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
        """Laws that say nothing of this learner, and why."""
        if self.half_life is None:
            return super().not_applicable
        return {
            **super().not_applicable,
            "weight_two_is_twice": "two records fade what was before twice, one of weight 2 once",
            "unlearning_is_the_inverse_of_learning": "time passes: what was before has faded",
        }

    @property
    def _growth(self) -> float:
        return 1.0 if self.half_life is None else float(2.0 ** (1.0 / self.half_life))

    def limit(self, max_bytes: int, schema: Schema, max_classes: int) -> int:
        """See `Learner.limit`. Tables are reserved first, values have what is left."""
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
                f"two classes need {least:,} bytes on these fields, and {max_bytes:,} are allowed"
            )
        room = (max_bytes - tables(fit)) // max(len(growing), 1)
        for part in growing:
            part.limit(room, fit)
        for part, own in fields:
            part.most_classes, part.most_numbers = fit, len(own.numeric)
        return super().limit(max_bytes, given, fit)

    def _taken(self, schema: Schema) -> Schema:
        """The fields as the parts are given them."""
        kinds: dict[str, str] = {"numeric": self.numbers, "binary": self.truths}
        fields = (Field(f.name, cast("Kind", kinds.get(f.kind, f.kind))) for f in schema.fields)
        return Schema(tuple(fields))

    def prepare(self, rows: Rows) -> Rows:
        """Encode what would otherwise be encoded at each step. Pure."""
        rows = super().prepare(rows)
        for part in self._parts:
            rows = part.prepare(rows)
        return rows

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows a part cannot take, and why."""
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
        """The given log priors of the classes; empty where they are learned."""
        if self.priors is None:
            return np.empty(0)
        # A configuration's keys are text, whatever the labels are.
        given = [self.priors.get(c, self.priors.get(_named(c), 0.0)) for c in self.classes]
        return np.array([log(p) if p > 0 else -inf for p in given])

    # Reading it.

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

    def joint_log_likelihood_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """log P(class) + log p(x | class) of each known class; -inf where truly impossible."""
        if not self._classes:
            return {}
        joint = np.zeros(len(self._classes))
        for _, term in self._terms(self.columns([x])):
            joint += term
        return dict(zip(self.classes, joint.tolist(), strict=True))

    def log_evidence_one(self, x: Mapping[Any, Any]) -> float:
        """log p(x) = log Σ P(class) · p(x | class) over the known classes: how likely such an x is.

        A density where x has numbers, so in their units; low for a record unlike those learned.
        What is no evidence (gaps, unknown values and tokens) takes no part.

        Returns
        -------
        float
            -inf where every class is impossible. (The posterior is then the prior.)

        Raises
        ------
        NotLearnedError
            No class is known.
        """
        joint = sorted(self.joint_log_likelihood_one(x).values())
        if not joint:
            raise NotLearnedError("the evidence needs at least one class; learn a record first")
        *rest, top = joint
        return top + log1p(fsum(exp(v - top) for v in rest)) if top > -inf else -inf

    def explain_rows(
        self, rows: Rows, label: Label | None = None, against: Label | None = None
    ) -> Explanation:
        """`explain_one` of the one row of `rows`, as `columns` makes them."""
        a, b = self._pair(label, against, rows)
        contributions: dict[str, float] = {}
        for name, term in self._terms(rows):
            share = float(max(term[a], LOWEST)) - float(max(term[b], LOWEST))
            contributions[name] = contributions.get(name, 0.0) + share
        classes = self.classes
        return Explanation(classes[a], classes[b], sum(contributions.values()), contributions)

    def _pair(
        self, label: Label | None, against: Label | None, rows: Rows | None
    ) -> tuple[int, int]:
        """Codes of two classes: those named, or the most probable ones of the row."""
        classes = self.classes
        for given in (label, against):
            if given is not None and plain_label(given) not in self._classes:
                raise NotLearnedError(f"expected one of the classes {classes}, got {given!r}")
        if len(classes) < 2:
            raise NotLearnedError(f"two classes are needed to compare, {len(classes)} is known")
        p = dict.fromkeys(classes, 0.0)
        if rows is not None:
            p = self.run(Block.of(self.prepare(rows), PREDICT)).dicts()[0]
        ranked = sorted(p, key=lambda c: -p[c])
        first = label if label is not None else next(c for c in ranked if c != against)
        second = against if against is not None else next(c for c in ranked if c != first)
        return self._classes.codes[first], self._classes.codes[second]

    @property
    def n_parameters(self) -> int:
        """Free parameters of p(x | class) over all classes; the prior's C - 1 left out."""
        return sum(part.n_parameters(len(self._classes)) for part in self._parts)

    @property
    def features(self) -> list[str]:
        """Features in the order each part first learned them."""
        return list(dict.fromkeys(f for part in self._parts for f in part.features))

    @property
    def overflows(self) -> dict[str, int]:
        """What was refused at a bound, by the bound's name."""
        out = super().overflows
        for part in self._parts:
            for bound, count in part.overflows.items():
                out[bound] = out.get(bound, 0) + count
        return out

    # Taking back and putting together.

    def unlearn_one(
        self, x: Mapping[Any, Any], y: Any, w: float = 1.0, *, age: int | None = None
    ) -> None:
        """Take one learned record back.

        Parameters
        ----------
        x, y, w
            As they were learned.
        age
            Records learned since. Needed where they fade (`half_life`).

        Raises
        ------
        NotLearnedError
            It cannot have been learned; the model is untouched. (What is checked are the sums:
            a record that was not learned, but could have been, is taken back all the same.)
        """
        # With texts as they came, so that an error names a token and not its bucket.
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
        """The shares of w that are rounding in sums of class c, and in sums over all classes.

        Sums lose digits in proportion to the largest they ever were. Before anything is taken
        back that is what they are; afterwards `_peaks` remembers it.
        """
        if self.half_life is not None:
            return FADED_SLACK, FADED_SLACK
        peaks = self._peaks_now()
        return SLACK * peaks[c] / w, SLACK * peaks[-1] / w

    def _peaks_now(self) -> list[float]:
        """The largest weight that each class and, last, all together had when one was taken."""
        weights = self._prior.weight.tolist()
        now = [*weights, sum(weights)]
        return [max(pair) for pair in zip(now, self._peaks or now, strict=True)]

    def _note_peaks(self, c: int, w: float) -> None:
        # Whole numbers are added and taken without rounding.
        whole = w.is_integer() and float(self._prior.weight[c]).is_integer()
        if self.half_life is None and not whole:
            self._peaks = self._peaks_now()

    def _age(self, age: int | None) -> int:
        """Records learned since, checked; without fading it makes no difference."""
        if age is None:
            if self.half_life is not None:
                raise SchemaError(
                    "with half_life, unlearning needs the record's age: age=0 if last"
                )
            return 0
        whole = isinstance(age, int | np.integer) and not isinstance(age, bool)
        learned = int(self._prior.records[0]) if self.half_life is not None else inf
        if not (whole and 0 <= age < learned):
            raise NotLearnedError(
                f"age must be a whole number of records, fewer than were learned, got {age!r}"
            )
        return int(age)

    def faded(self, age: int) -> float:
        """What is left of a record's weight after so many records learned since."""
        return self._growth**-age

    def _drop_class(self, c: int) -> None:
        self._classes.remove(self._classes.values[c])
        self._prior = self._prior._replace(weight=np.delete(self._prior.weight, c))
        if self._peaks:
            del self._peaks[c]
        for part in self._parts:
            part.drop_class(c)

    def merge(self, other: Learner) -> Self:
        """Become what learning `other`'s records after one's own would give; O(bytes).

        Counts are exact for weights that are whole numbers, moments to about 1e-12.

        Raises
        ------
        SchemaError
            Another kind of learner, or other parameters.
        InvalidRecordError
            Labels or features of another kind, or more classes than the bound; nothing was merged.
        """
        other = self._alike(other)
        if other is self:
            other = copy.deepcopy(self)  # parts change in place what they then read
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
        """InvalidRecordError where a feature is of one kind here and of another there."""
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
        """Kind to the fields known to be of it, where that is not said by the parts' features."""
        return {}

    def _export(self) -> State:
        own = State({"peaks": self._peaks} if self._peaks else {}, self._prior._asdict())
        return State.join({"prior": own, **{p.name: p.export() for p in self._parts}})

    def _restore(self, state: State) -> None:
        classes = len(self._classes)
        own = state.nested("prior")
        prior = Prior(
            own.array("weight", np.float64, 1),
            own.array("unit", np.float64, 1),
            own.array("records", np.int64, 1),
        )
        if [a.shape for a in prior] != [(classes,), (1,), (1,)]:
            raise StateError(f"expected a prior of {classes} classes, got another shape")
        peaks = own.header.get("peaks", [])
        if not isinstance(peaks, list) or len(peaks) not in (0, classes + 1):
            raise StateError(f"expected the peaks of {classes} classes, got {peaks!r}")
        self._prior, self._peaks = prior, [float(peak) for peak in peaks]
        for part in self._parts:
            inner = state.nested(part.name)
            for name, array in inner.arrays.items():
                if array.dtype.kind == "f" and not np.isfinite(array).all():
                    raise StateError(f"array {name!r} of {part.name} holds what is no number")
            part.restore(inner, classes)


def _places(parts: Iterable[Part]) -> dict[str, set[str]]:
    """Feature to the names of the parts that have learned it."""
    out: dict[str, set[str]] = {}
    for part in parts:
        for feature in part.features:
            out.setdefault(feature, set()).add(part.name)
    return out


def left_after(have: float, take: float, slack: float) -> float | None:
    """have - take; 0 where only rounding is left of it; None where there is not as much.

    slack: the share of `take` that is rounding.
    """
    left = float(have) - take
    if have > 0.0 and abs(left) <= slack * take:
        return 0.0
    return left if left > 0 else None


def check_priors(priors: Mapping[Label, float] | None) -> Mapping[Label, float] | None:
    """`priors`, if each lies in [0, 1] and together they are 1, but for rounded ones."""
    if priors is None:
        return None
    given = mapping("priors", priors, "label to probability")
    plain = {label: number(f"priors[{label!r}]", p, 0.0, 1.0) for label, p in given.items()}
    total = sum(plain.values())
    if abs(total - 1) > 0.01:
        raise SchemaError(f"priors must sum to 1, to two digits, got {total:g}: {plain!r}")
    return plain


def check_half_life(half_life: float | None) -> float | None:
    """`half_life`, if it is a number of records, at least 1."""
    return None if half_life is None else number("half_life", half_life, 1.0)


def _named(label: Label) -> str:
    return str(label).lower() if isinstance(label, bool) else str(label)
