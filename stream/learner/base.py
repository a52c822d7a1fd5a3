"""Learner: river's classifier, with blocks, exact state and bounds.

A family of models subclasses `Learner` and implements four methods: `_start` (empty state),
`_execute` (run the steps of a block by a kernel), `_export` and `_restore` (save and load the
state). This file and `many.py` have everything that users call. A call with one record is a block
of one row, so it runs the same kernel. A family may predict and learn plain records without a
block, if the results are the same to the bit.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, PREDICT, Block, Rows, learning, mixed_kinds
from stream.data.parameters import shown, whole
from stream.data.schema import KINDS, Dictionary, Kind, Label, Schema, plain_label
from stream.data.state import State
from stream.errors import (
    InvalidRecordError,
    NotLearnedError,
    NotSupportedError,
    SchemaError,
    StateError,
)
from stream.kernel.interrupts import uninterrupted
from stream.kernel.tiers import MANY, interpreting, machine_first, way
from stream.learner.header import labels_of, plain, refused_of, without_refusals
from stream.learner.many import PIECE, Many, pieces
from stream.learner.predictions import Explanation, LinearView, Predictions, connected
from stream.learner.turns import Turns

__all__ = ["WARM", "Learner", "Predictions"]

MAX_CLASSES = 4096
WARM = "(a field to compile kernels)"  # no learner expects another kind of value in it
ONLY_PREDICTS = bytes([PREDICT])  # in a block's op
NO_LABEL = np.int32(-1).tobytes()  # in a block's y; no other code contains these bytes


class Learner(Many, abc.ABC):
    """A probabilistic classifier that learns one record at a time.

    One thread uses it at a time: a call that learns while another thread uses the learner raises
    RuntimeError, and so does a call while another thread learns. Several threads may predict.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    features : list of str
        Features in the order they were first learned; empty if the learner keeps no names.
    can_save : bool
        Whether `to_state` works. If not, a start rebuilds the state from the journal.
    parts : sequence of Learner
        The learners that it is made of.
    memo_size : int
        How many numbers it notes in a row while it waits, for each known class and once more; see
        `Rows.memo`.
    numbers, truths, strings : str
        The kind as which this learner reads such a value, see `Rows.from_dicts`.
    kinds : frozenset of str
        Kinds of declared fields that it learns from. It ignores fields of other kinds.
    deep_copies : bool
        Whether all that grows is in arrays, so that a deep copy takes less time than a state.
    """

    kinds: ClassVar[frozenset[Kind]] = frozenset(KINDS)
    memo_size: int = 0
    _limited: tuple[int, Schema, int] | None = None
    deep_copies: ClassVar[bool] = False
    _classes: Dictionary
    _turns = cached_property(lambda _: Turns())
    _may_interpret = cached_property(lambda _: way() == "background")  # until its first block

    def _begin(self) -> None:
        """Set the empty state. Every `__init__` ends with this call."""
        self._classes = Dictionary(MAX_CLASSES)
        self._start()

    # What a family implements.

    @abc.abstractmethod
    def _start(self) -> None:
        """Set the empty state of the family."""

    @abc.abstractmethod
    def _execute(
        self, block: Block, label: NDArray[np.int64], before: int, out: Predictions
    ) -> None:
        """Run the steps of a block.

        `label` maps the block's labels to class codes: -1 for a label that no step needs, and as
        its last element -1 for a missing label. `before` classes were known before the block.
        Predictions are written to `out`."""

    @abc.abstractmethod
    def _export(self) -> State:
        """The state; its arrays are not copied."""

    @abc.abstractmethod
    def _restore(self, state: State) -> None:
        """Check the state and take it over."""

    # What users call.

    @property
    def classes(self) -> list[Label]:
        return cast("list[Label]", list(self._classes))

    @property
    def features(self) -> list[str]:
        return []

    @property
    def overflows(self) -> dict[str, int]:
        """How many values each bound has rejected, by the bound's name."""
        return {"classes": self._classes.overflow}

    @property
    def expert_weights(self) -> dict[str, float]:
        """Name of each learner inside to its present weight; empty if there is no choice."""
        return {}

    @property
    def predictor(self) -> Learner:
        """The learner whose predictions are those of this one, and that has nothing more."""
        return self

    @property
    def not_applicable(self) -> Mapping[str, str]:
        """Laws of `stream.checks` that do not apply to this learner, with the reason."""
        return {}

    @property
    def limits(self) -> tuple[int, int] | None:
        """The bytes and classes that `limit` allowed; None: it was not called."""
        return None if self._limited is None else (self._limited[0], self._limited[2])

    @property
    def max_classes(self) -> int:
        """The largest number of classes it can have."""
        return self._classes.bound

    @property
    def _multiclass(self) -> bool:
        return True

    def prepare(self, rows: Rows) -> Rows:
        """Convert values into the columns that are learned from, and encode texts. Pure,
        idempotent."""
        return rows.recast(numbers=self.numbers, truths=self.truths)

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows that this learner rejects although their values fit the schema, with the reason."""
        return {}

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one record.

        Parameters
        ----------
        x
            Feature to value. Absent values, None, NaN and pandas' NA and NaT are not evidence.
        y
            The label: text, an integer or a truth value.
        w
            Weight, > 0 and at most 2**53. Weight w counts as w records.

        Raises
        ------
        InvalidRecordError
            A value or label cannot be learned. The model did not change.
        """
        self.run(Block.of(self.rows([x]), LEARN, [y], w))

    def predict_proba_one(self, x: Mapping[Any, Any], **_: Any) -> dict[Label, float]:
        """The posterior of each known class; empty before the first record was learned. Pure."""
        return self.run(Block.of(self.rows([x]), PREDICT)).dicts()[0]

    def progressive_many(self, block: Block) -> Predictions:
        """Execute the steps of a block in order.

        Returns
        -------
        Predictions
            One for each predicting step, made before that step learned.

        Raises
        ------
        InvalidRecordError
            The learner rejects a row, or a label differs in kind or is beyond the bound. No step
            was executed.
        SchemaError
            The block is damaged, see `Block.check`. No step was executed.
        """
        if not isinstance(block, Block):
            raise SchemaError(f"expected a Block, got {shown(block)}")
        block.check()
        return self.run(block)

    def run(self, block: Block) -> Predictions:
        """`progressive_many` of a block that was made from checked parts, so it is not checked
        again."""
        for refusal in self.refusals(block.rows).values():
            raise refusal
        if len(block.op) >= MANY:
            with machine_first():
                return self.run_accepted(block)
        if len(block.op) > PIECE and (interpreting() or self._may_interpret):
            return self._run_pieces(block)
        return self.run_accepted(block)

    def _run_pieces(self, block: Block) -> Predictions:
        """`run_accepted` with Ctrl-C between `pieces`. A block with a label that may be refused is
        one piece, because then no step is executed."""
        learned = block.y[learning(block)]
        kinds = {type(label) for label in (*self._classes.values[:1], *block.labels)}
        most = len(self._classes) + len(block.labels)
        entire = len(kinds) > 1 or most > self._classes.bound or bool((learned < 0).any())
        parts, turns = list[Predictions](), self._turns
        with uninterrupted(), turns.learning if learned.size else turns.predicting:
            for piece in pieces(block, len(block.op) if entire else PIECE):
                before, label, out = self._admitted(piece)
                self._execute(piece, label, before, out)
                parts.append(out)
        self._may_interpret = False
        return connected(parts, self.classes)

    def run_accepted(self, block: Block) -> Predictions:
        """`run` of a block of which this learner refuses no row. Ctrl-C leaves no part of it.

        Raises
        ------
        RuntimeError
            Another thread uses this learner, and one of the two learns.
        """
        turns, learns = self._turns, bool(block.op.tobytes().strip(ONLY_PREDICTS))
        with uninterrupted(), turns.learning if learns else turns.predicting:
            before, label, out = self._admitted(block)
            self._execute(block, label, before, out)
        return out

    def _admitted(self, block: Block) -> tuple[int, NDArray[np.int64], Predictions]:
        """How many classes were known, the class codes of the labels, and room for predictions."""
        before = len(self._classes)
        label = self._admit_labels(block)
        n, classes = block.n_predictions, self.classes
        out = Predictions(classes, np.zeros((n, len(classes))), np.zeros(n, dtype=np.int64))
        return before, label, out

    def run_explained(
        self, block: Block, raw: Rows, shares: int
    ) -> tuple[Predictions, list[Explanation | None]]:
        """`run`, with an explanation of each prediction by the state that made it.

        An explanation must not depend on the split into blocks, so it cannot use the state before
        or after a block. Here the cost is one kernel call for each step instead of each block.

        Parameters
        ----------
        raw
            The rows before this learner prepared them, so that texts still have their words.
        shares
            How many contributions an explanation keeps: the largest ones. All contributions of a
            block of long texts would need many times the memory of the texts.

        Returns
        -------
        Predictions
            The same bits as from `run`.
        list of Explanation
            One for each prediction; None while fewer than two classes were known.
        """
        parts: list[Predictions] = []
        found: list[Explanation | None] = []
        for i, (op, row) in enumerate(zip(block.op.tolist(), block.row.tolist(), strict=True)):
            if op != LEARN:
                why = None
                if len(self.classes) > 1:
                    why = self.explain_rows(raw.take(np.array([row]))).largest(shares)
                found.append(why)
            parts.append(self.run(block.slice(i, i + 1)))
        return connected(parts, self.classes), found

    @property
    def can_save(self) -> bool:
        return all(part.can_save for part in self.parts)

    @property
    def parts(self) -> Sequence[Learner]:
        return ()

    def with_parts(self) -> Iterator[Learner]:
        """This learner, its parts and their parts."""
        yield self
        for part in self.parts:
            yield from part.with_parts()

    def to_state(self) -> State:
        """A copy of the whole state. O(bytes).

        Raises
        ------
        StateError
            It must not be saved, see `can_save`.
        """
        for part in self.parts:
            if not part.can_save:
                part.to_state()  # its error has the reason
        return self._whole_state()

    def _whole_state(self) -> State:
        """The state, also if it must not be saved."""
        inner = self._export().copy()
        header: dict[str, Any] = {
            "learner": type(self).__name__,
            "parameters": self._saved_parameters(),
            "classes": self.classes,
            "inner": dict(inner.header),
        }
        if self._classes.overflow:  # omitted if 0: fewer bytes, and an absent count is read as 0
            header["classes_refused"] = self._classes.overflow
        return State(header, inner.arrays)

    def load_state(self, state: State) -> Self:
        """Load what `to_state` saved; nothing is recomputed.

        Raises
        ------
        StateError
            The state is damaged or belongs to another learner. This learner is then unusable.
        """
        if not isinstance(state, State):
            raise StateError(f"expected a State, got {shown(state)}")
        header = state.header
        if not isinstance(header, Mapping):
            raise StateError(f"the state is damaged: its header is {shown(header)}")
        name = type(self).__name__
        if header.get("learner") != name:
            raise StateError(f"expected the state of a {name}, got {shown(header.get('learner'))}")
        theirs = header.get("parameters")
        if not isinstance(theirs, Mapping):
            raise StateError(f"the state of this {name} is damaged: it has no parameters")
        mine = self._saved_parameters()
        for key in [*mine, *(key for key in theirs if key not in mine)]:
            came, own = theirs.get(key), mine.get(key)
            if came != own:
                told = f"with {str(key)[:60]} = {own!r}, got {shown(came)}"
                raise StateError(f"expected the state of a {name} {told}")
        try:
            self._classes = self._classes.renewed(labels_of(header), refused_of(header))
            self._restore(State(header["inner"], state.arrays))
        except StateError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise StateError(f"the state of this {name} is damaged: {error!r}") from None
        return self

    def _saved_parameters(self) -> dict[str, Any]:
        """The parameters as JSON. A state can only be loaded with equal parameters."""
        return {name: plain(value) for name, value in self._get_params().items()}

    def fingerprint(self) -> str:
        """SHA-256 of the state, parameters included.

        The count of rejected classes is left out, because a rejected record does not change the
        model.
        """
        state = self._whole_state()
        return State(without_refusals(state.header), state.arrays).fingerprint()

    def limit(self, max_bytes: int, schema: Schema, max_classes: int) -> int:
        """Bound the bytes of the state. Call it before anything is learned.

        Parameters
        ----------
        max_bytes
            Computed by a formula over shapes and texts, so it is the same on every machine. Values
            beyond it are rejected and counted in `overflows`.
        schema
            The fields of the records.
        max_classes
            How many classes are wanted.

        Returns
        -------
        int
            How many classes fit, at most `max_classes`. Further classes are rejected.

        Raises
        ------
        SchemaError
            Not even two classes fit.
        """
        self._limited = _limits(max_bytes, schema, max_classes)
        return max_classes

    def compile_kernels(self) -> None:
        """Compile the kernels of this learner by running them on a throw-away copy."""
        trial = self.restarted(proven=True)  # river may fail at this record
        trial.learn_one({WARM: 1.0}, "warm")
        trial.predict_proba_one({WARM: 1.0})

    def restarted(self, proven: bool) -> Self:
        """An empty learner with the same parameters and limits, to replace this one.

        Parameters
        ----------
        proven
            Whether a record of this stream was learned before. If so, a model of river that fails
            at its first record counts the failure. If not, it raises.
        """
        out = self.clone()
        if self._limited is not None:
            out.limit(*self._limited)
        return out

    # What only some families can do.

    def joint_log_likelihood_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """log P(class) + log p(x | class) of each known class; -inf where truly impossible."""
        raise self._lacks("joint log likelihoods")

    def log_evidence_one(self, x: Mapping[Any, Any]) -> float:
        """log p(x), the log of Σ P(class) · p(x | class) over the known classes."""
        raise self._lacks("evidence")

    def unlearn_one(
        self, x: Mapping[Any, Any], y: Any, w: float = 1.0, *, age: int | None = None
    ) -> None:
        """Unlearn one record that was learned."""
        self.unlearn_rows(self.rows([x]), y, w, age=age)

    def unlearn_rows(self, rows: Rows, y: Any, w: float = 1.0, *, age: int | None = None) -> None:
        """`unlearn_one` of the one row of `rows`, as `rows` or `prepare` make them."""
        raise self._lacks("unlearning")

    @property
    def can_unlearn(self) -> bool:
        """Whether records can be unlearned. A single record may still be impossible to unlearn."""
        return type(self).unlearn_rows is not Learner.unlearn_rows

    @property
    def can_correct(self) -> bool:
        """Whether a learned label can be replaced, see `correct_rows`."""
        return self.can_unlearn

    def correct_rows(
        self, rows: Rows, old: tuple[Label, float], new: tuple[Label, float], age: int
    ) -> None:
        """Replace the label of the one row of `rows`, as `rows` or `prepare` make them.

        Parameters
        ----------
        old, new
            The label that was learned and the one to learn instead, each with its weight.
        age
            How many records were learned since.

        Raises
        ------
        NotLearnedError, NotSupportedError
            The old label cannot be unlearned, or nothing is left of its weight. Nothing changed.
        """
        w = new[1] * self.faded(age + 1)  # learning it adds one record
        if w == 0.0:
            raise NotLearnedError("its weight has faded to 0")
        self.unlearn_rows(rows, old[0], old[1], age=age)
        self.run(Block.of(rows, LEARN, [new[0]], w))

    def faded(self, age: int) -> float:
        """The share of a record's weight that is left after `age` more records were learned."""
        return 1.0

    def merge(self, other: Learner) -> Self:
        """Learn what `other` has learned, as if its records came after those of this learner."""
        raise self._lacks("merging")

    @property
    def merges_exactly(self) -> bool:
        """Whether `merge` gives what learning all records in any order gives, up to rounding."""
        return False

    def _alike(self, other: Learner) -> Self:
        """`other`, if it has the same type and parameters; otherwise a SchemaError."""
        if type(other) is not type(self) or other._get_params() != self._get_params():
            raise SchemaError(f"expected another {shown(self)} to merge with, got {shown(other)}")
        return other

    def explain_one(
        self, x: Mapping[Any, Any], label: Label | None = None, against: Label | None = None
    ) -> Explanation:
        """Why `label` rather than `against`, feature by feature.

        Parameters
        ----------
        label, against
            Two known classes. By default the most probable one and the runner-up.

        Raises
        ------
        NotLearnedError
            Fewer than two classes are known, or a given class is not known.
        NotSupportedError
            This learner cannot attribute a prediction to features.
        """
        return self.explain_rows(self.columns([x]), label, against)

    def explain_rows(
        self, rows: Rows, label: Label | None = None, against: Label | None = None
    ) -> Explanation:
        """`explain_one` of the one row of `rows`, as `columns` makes them."""
        raise self._lacks("explanations by features")

    def linear_view(self, label: Label | None = None, against: Label | None = None) -> LinearView:
        """The log-odds of two classes as bias and weights, if they are linear."""
        raise self._lacks("a linear view")

    def _compared(
        self, label: Label | None, against: Label | None, rows: Rows | None
    ) -> tuple[int, int]:
        """Codes of two classes: the given ones, or the most probable ones of the row."""
        classes = self.classes
        for given in (label, against):
            if given is not None and plain_label(given) not in self._classes:
                raise NotLearnedError(f"expected one of the classes {classes}, got {given!r}")
        if len(classes) < 2:
            raise NotLearnedError(f"a comparison needs two classes, {len(classes)} known")
        p = dict.fromkeys(classes, 0.0)
        if rows is not None:
            p = self.run(Block.of(self.prepare(rows), PREDICT)).dicts()[0]
        ranked = sorted(p, key=lambda c: -p[c])
        first = label if label is not None else next(c for c in ranked if c != against)
        second = against if against is not None else next(c for c in ranked if c != first)
        return self._classes.codes[first], self._classes.codes[second]

    @property
    def n_parameters(self) -> int:
        """Free parameters of the model."""
        raise self._lacks("counting its parameters")

    def _lacks(self, what: str) -> NotSupportedError:
        return NotSupportedError(f"{type(self).__name__} does not support {what}")

    # Shared by the families.

    def _admit_labels(self, block: Block) -> NDArray[np.int64]:
        """Class codes of the block's labels and, last, -1 for a missing label. New labels get codes
        in the order of the steps that learn them."""
        codes, values = self._classes.codes, self._classes.values
        known = [codes.get(value, -1) for value in block.labels]
        label = np.array([*known, -1], dtype=np.int64)
        kind = type(values[0]) if values else None
        plain = -1 not in known and all(type(value) is kind for value in block.labels)
        if plain and NO_LABEL not in block.y.tobytes():  # no label is new, and every step has one
            return label
        learned = block.y[learning(block)]
        if not learned.size:
            label.fill(-1)
            return label
        if learned.min() < 0:
            raise SchemaError("a learning step needs a label")
        asked = np.flatnonzero(np.bincount(learned)).tolist()
        if any(known[code] < 0 for code in asked):
            asked = list(dict.fromkeys(learned.tolist()))  # new labels in order
        label.fill(-1)
        label[asked] = self._admit_classes([block.labels[code] for code in asked])
        return label

    def _admit_classes(self, labels: Sequence[Label]) -> NDArray[np.int64]:
        """The class code of each label; new labels get codes in order. On an error none does."""
        fresh: dict[Label, int] = {}
        first = self._classes.values[0] if len(self._classes) else None
        for value in labels:
            first = value if first is None else first
            if type(value) is not type(first):
                raise mixed_kinds(first, value)
            if value not in self._classes:
                fresh.setdefault(value, len(fresh))
        if len(self._classes) + len(fresh) > self._classes.bound:
            self._classes.overflow += 1
            raise InvalidRecordError(
                "max_classes", f"expected at most {self._classes.bound} classes, got one more"
            )
        return np.array([self._classes.add(value) for value in labels], dtype=np.int64)


def _limits(max_bytes: int, schema: Schema, max_classes: int) -> tuple[int, Schema, int]:
    """The arguments of `Learner.limit`, checked."""
    if not isinstance(schema, Schema):
        raise SchemaError(f"schema must be a Schema, got {shown(schema)}")
    most = whole("max_bytes", max_bytes, 0, 2**62)
    return most, schema, whole("max_classes", max_classes, 2, MAX_CLASSES)
