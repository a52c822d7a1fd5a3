"""Composed: a learner that is made of other learners and learns from what they predict.

Rule: it learns from the probabilities that its parts gave at the prediction. While the label of a
row is awaited, they are noted in the row (`Rows.memo`): first those of the learner itself, then
those of each part that is composed too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from inspect import signature
from math import fsum
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stream.compat import RIVER, RiverClassifier, build_river
from stream.data.block import (
    LEARN,
    PREDICT,
    PREDICT_THEN_LEARN,
    Block,
    Floats,
    Rows,
    notes_of,
    rows_used,
)
from stream.data.parameters import flag, shown
from stream.data.schema import Label, Schema
from stream.data.state import State
from stream.errors import (
    InvalidRecordError,
    NotLearnedError,
    NotSupportedError,
    SchemaError,
    StateError,
)
from stream.learner.base import Learner
from stream.learner.predictions import PRIOR, Explanation
from stream.learner.registry import learners
from stream.mixture._kernels import weigh as kernels
from stream.mixture.guesses import NAMED
from stream.text.bags import hashed_texts

__all__ = ["TOGETHER", "Composed", "PartPredictions", "made", "plain"]

TOGETHER = "(together)"
SEED = 42  # of river's classes, as in a configuration
DEEPEST = 6  # levels of learners in learners; auto has four


class PartPredictions(NamedTuple):
    """What the N parts predicted for a block of m steps.

    proba float64 (N, q, C): probabilities of the classes. at int64 (m,): the index into it of each
    step; -1 if the parts only learned. memo float64 (rows, 1 + C, any) or (rows, 0, 0): the numbers
    that the composed learner itself has noted, see `Rows.memo`.
    """

    proba: Floats
    at: NDArray[np.int64]
    memo: Floats


class Composed(Learner):
    """The common methods of learners that are made of others. A family implements `_execute`,
    `_export` and `_restore`, and calls `_compose` in `_start`."""

    truths: ClassVar[str] = "categorical"
    _reads_truths: str
    _reads_texts: bool

    def _compose(self, parts: Sequence[Learner], numbers: int) -> None:
        """Take over empty parts. `numbers`: how many the learner itself notes for each class."""
        self._parts = list(parts)
        self._numbers = numbers
        self.memo_size = numbers + sum(part.memo_size for part in parts)
        self._classes.bound = min(part.max_classes for part in parts)
        self._hashes = all(map(_hashes, parts))
        readers = [part for part in parts if part.kinds]
        truths = {p._reads_truths if isinstance(p, Composed) else p.truths for p in readers}
        texts = {
            p._reads_texts if isinstance(p, Composed) else p.strings == "text" for p in readers
        }
        self._reads_truths = truths.pop() if len(truths) == 1 else ""  # "": not all alike
        self._reads_texts = texts == {True}

    @property
    def not_applicable(self) -> Mapping[str, str]:
        """Laws that do not apply to a composed learner, with the reason."""
        order = "what it learns depends on the order of the records"
        joint = "it has no joint likelihood"
        return {
            "weight_two_is_twice": order,
            "merging_equals_learning_both": order,
            "merging_with_oneself_is_learning_twice": order,
            "merging_what_does_not_fit_is_refused": order,
            "unlearning_is_the_inverse_of_learning": order,
            "unlearning_what_was_not_learned_is_refused": order,
            "the_posterior_is_the_normalised_joint_likelihood": joint,
            "the_evidence_normalises_the_joint_likelihood": joint,
            "parameters_are_counted": "not every part counts them",
        }

    @property
    def parts(self) -> Sequence[Learner]:
        return self._parts

    @property
    def features(self) -> list[str]:
        return list(dict.fromkeys(f for part in self._parts for f in part.features))

    @property
    def overflows(self) -> dict[str, int]:
        """How many values each bound has rejected; of parts with the same bound, the sum."""
        out = super().overflows
        for part in self._parts:
            for bound, count in part.overflows.items():
                if bound != "classes":
                    out[bound] = out.get(bound, 0) + count
        return out

    @property
    def _texts(self) -> Collection[str]:
        return sorted({name for part in self._parts for name in part._texts})

    @property
    def _reading(self) -> dict[str, Any]:
        """As the parts do that read a value, if they agree; if not, as categories."""
        return {
            "truths": self._reads_truths or self.truths,
            "strings": "text" if self._reads_texts else self.strings,
            "texts": self._texts,
        }

    def prepare(self, rows: Rows) -> Rows:
        """Truth values as categories and texts encoded, if every part that reads them would.

        A copy, because predictions are noted in it."""
        rows = rows.recast(truths=self._reads_truths or "numeric").with_memo(rows.memo)
        return hashed_texts(rows) if self._hashes else rows

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows that a part rejects, with the reason."""
        out: dict[int, InvalidRecordError] = {}
        for part in reversed(self._parts):
            out |= part.refusals(part.prepare(rows))
        return out

    def limit(self, max_bytes: int, schema: Schema, max_classes: int) -> int:
        """See `Learner.limit`. Each part that reads fields gets the same number of bytes."""
        super().limit(max_bytes, schema, max_classes)
        room = max_bytes // max(sum(1 for part in self._parts if part.kinds), 1)
        fit = min(part.limit(room, schema, max_classes) for part in self._parts)
        return super().limit(max_bytes, schema, fit)

    def compile_kernels(self) -> None:
        """Compile the kernels of all parts and its own."""
        for part in self._parts:
            part.compile_kernels()
        super().compile_kernels()

    def restarted(self, proven: bool) -> Self:
        """See `Learner.restarted`."""
        out = super().restarted(proven)
        out._parts = [part.restarted(proven) for part in self._parts]
        return out

    def replace_parts(self, replaced: Callable[[Learner], Learner]) -> None:
        """Use other learners that predict and learn as the parts do. Call it before anything is
        learned."""
        self._parts = [replaced(part) for part in self._parts]

    def know(self, labels: Sequence[Label]) -> None:
        """Have these classes too, because a part has them that this learner did not learn."""
        self._admit_classes(labels)
        self._widen()

    def _run_parts(self, block: Block, awake: NDArray[np.bool_] | None = None) -> PartPredictions:
        """Run the steps of a block in every part, or in those that are `awake`. A part also
        predicts a row that is learned, if no prediction of it was noted."""
        rows, op = block.rows, block.op
        memo = notes_of(block, len(self._classes), self.memo_size)[:, :, : self._numbers]
        past = np.zeros(len(block), dtype=np.bool_)
        kernels.remembered(op, block.row, memo, past)
        asked = (op != LEARN) | ~past
        own = np.where((op == LEARN) & asked, np.int8(PREDICT_THEN_LEARN), op)
        at = np.where(asked, np.cumsum(asked) - 1, -1)
        classes = self.classes
        proba = np.zeros((len(self._parts), int(asked.sum()), len(classes)))
        used, at_row = rows_used(block)  # a block may be one step over many rows
        fewer = used.size < len(rows)
        asked_rows = rows.take(used) if fewer else rows
        for i, found in enumerate(proba):
            if awake is not None and not awake[i]:
                continue
            given = self._rows_of(i, asked_rows)
            ran = self._parts[i].run_accepted(
                Block(given, own, at_row, block.y, block.w, block.labels)
            )
            if ran.classes == classes:
                found[:] = ran.proba
            else:
                found[:, [self._classes.codes[known] for known in ran.classes]] = ran.proba
        if fewer and rows.memo is not None and asked_rows.memo is not None:
            rows.memo[used, :, self._numbers :] = asked_rows.memo[:, :, self._numbers :]
        return PartPredictions(proba, at, memo)

    def _rows_of(self, i: int, rows: Rows) -> Rows:
        """The rows for a part, with a view of what it has noted."""
        part = self._parts[i]
        memo = None
        if part.memo_size and rows.memo is not None:
            begin = self._numbers + sum(before.memo_size for before in self._parts[:i])
            memo = rows.memo[:, :, begin : begin + part.memo_size]
        return part.prepare(rows).with_memo(memo)

    def explain_rows(
        self, rows: Rows, label: Label | None = None, against: Label | None = None
    ) -> Explanation:
        """`explain_one` of the one row of `rows`, as `columns` makes them.

        The contribution of a field is what the log-odds lose without it. What the fields add only
        together is "(together)". O(fields) predictions.
        """
        a, b = self._compared(label, against, rows)
        present = [
            (kind, j, name)
            for kind in ("numeric", "categorical", "text")
            for j, name in enumerate(getattr(rows, f"{kind}_names"))
            if _is_present(getattr(rows, kind)[0, j])
        ]
        n = len(present)
        asked = rows.take(np.zeros(n + 2, dtype=np.int64))
        for i, (kind, j, _) in enumerate(present):
            getattr(asked, kind)[i, j] = np.nan if kind == "numeric" else None
        asked.blank([n])
        proba = self.run(Block.of(self.prepare(asked), PREDICT)).proba
        logs = np.log(np.maximum(proba, np.finfo(float).tiny))  # a probability may be rounded to 0
        odds = (logs[:, a] - logs[:, b]).tolist()
        whole, none = odds[n + 1], odds[n]
        parts = [(name, whole - odds[i]) for i, (_, _, name) in enumerate(present)]
        together = whole - none - fsum(part for _, part in parts)
        contributions: dict[str, float] = {}
        for name, part in ((PRIOR, none), *parts, (TOGETHER, together)):
            contributions[name] = contributions.get(name, 0.0) + part  # a field may have that name
        classes = self.classes
        return Explanation(classes[a], classes[b], sum(contributions.values()), contributions)

    @property
    def can_correct(self) -> bool:
        """True: parts that cannot unlearn the old label learn the new one."""
        return True

    def correct_rows(
        self, rows: Rows, old: tuple[Label, float], new: tuple[Label, float], age: int
    ) -> None:
        """See `Learner.correct_rows`. What the learner itself has learned from the predictions of
        its parts does not change: it counts the first label, as scores do."""
        self._admit_classes([new[0]])
        self._widen()
        for i in range(len(self._parts)):
            self._correct_part(i, self._rows_of(i, rows), old, new, age)

    def _correct_part(
        self, i: int, rows: Rows, old: tuple[Label, float], new: tuple[Label, float], age: int
    ) -> None:
        """Replace the label in a part, or learn the new one."""
        try:
            self._parts[i].correct_rows(rows, old, new, age)
        except (NotLearnedError, NotSupportedError):
            self._learn_part(i, rows, new, age)

    def _learn_part(self, i: int, rows: Rows, new: tuple[Label, float], age: int) -> None:
        if w := new[1] * self._parts[i].faded(age + 1):
            self._parts[i].run(Block.of(rows, LEARN, [new[0]], w))

    def _widen(self) -> None:
        """Make room for what the learner itself keeps of each known class."""

    def _join(self, own: State) -> State:
        """Its own state and those of its parts."""
        parts = {f"part{i}": part._whole_state() for i, part in enumerate(self._parts)}
        return State.join({"own": own, **parts})

    def _restore_parts(self, state: State) -> None:
        for i, part in enumerate(self._parts):
            part.load_state(state.nested(f"part{i}"))
            if any(label not in self._classes for label in part.classes):
                raise StateError(f"expected classes of {self.classes}, got {part.classes}")


def made(part: Any) -> Learner:
    """A new learner: a clone, or one by its name, or by its name and parameters."""
    _check_depth(part)
    if isinstance(part, Learner):
        return part.clone()
    given = dict(part) if isinstance(part, Mapping) else {"type": part}
    name = given.pop("type", None)
    if isinstance(name, str) and name.startswith(RIVER):
        return _of_river(name.removeprefix(RIVER), given)
    kind = {**NAMED, **learners()}.get(name) if isinstance(name, str) else None
    if kind is None:
        raise SchemaError(
            'expected a learner, the name of a learner or {"type": NAME, parameters}, got '
            f"{shown(part)}"
        )
    known = list(signature(kind).parameters)
    for key in given:
        if key not in known:
            raise SchemaError(f"{name} has no parameter {key!r}; it has {', '.join(known)}")
    return kind(**given)


def _of_river(name: str, given: dict[str, Any]) -> Learner:
    """A classifier of river by its name. Beside its parameters: pipeline, seed, trust_pickle and
    every_class, see `build_river`."""
    pipeline = given.pop("pipeline", ())
    seed = given.pop("seed", SEED)
    if type(seed) is not int or not 0 <= seed < 2**32:
        raise SchemaError(f"seed must be a whole number of at least 0, got {shown(seed)}")
    trust_pickle = given.pop("trust_pickle", False)
    every_class = flag("every_class", given.pop("every_class", False))
    return RiverClassifier(build_river(name, given, pipeline, seed, every_class), trust_pickle)


def _check_depth(part: Any) -> None:
    """Each level doubles the time to make a learner, because its parts are checked and made."""
    level = [part]
    for _ in range(DEEPEST):
        level = [inner for each in level for inner in _within(each)]
    if level:
        raise SchemaError(f"expected learners in learners at most {DEEPEST} deep, got more")


def _within(part: Any) -> list[Any]:
    """The learners in a learner, or in its name and parameters."""
    if isinstance(part, Composed):
        return part._parts
    if not isinstance(part, Mapping):
        return []
    experts = part.get("experts")
    listed = experts if isinstance(experts, list | tuple) else []
    return [each for each in (part.get("learner"), *listed) if isinstance(each, Mapping | Learner)]


def plain(part: Any) -> Any:
    """A part as JSON, for the saved parameters."""
    if isinstance(part, Learner):
        return [type(part).__name__, part._saved_parameters()]
    if not isinstance(part, Mapping):
        return [plain(each) for each in part] if isinstance(part, list | tuple) else part
    return {key: plain(value) for key, value in part.items() if key != "trust_pickle"}


def _is_present(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and value != value)


def _hashes(part: Learner) -> bool:
    """Whether it encodes texts, or reads none."""
    text = Rows.from_dicts([{"text": ""}], strings="text")  # of a word it would load kernels
    return "text" not in part.kinds or not isinstance(part.prepare(text).text[0, 0], str)
