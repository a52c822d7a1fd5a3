"""Learner: river's classifier, with blocks, exact state and bounds.

A family of models subclasses `Learner` and gives four things: `_start` (empty state), `_execute`
(run a block's steps by its kernel), `_export` and `_restore` (state out and in). Everything a
user calls stands here, once: one-record calls are blocks of one row, so they run the same kernel.
A family may answer a plain record without a block, by its own kernels on one row: the same bits.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from river import base

from stream.data.block import LEARN, PREDICT, Block, Rows, learning, mixed_kinds
from stream.data.parameters import shown, whole
from stream.data.schema import KINDS, Dictionary, Kind, Label, Schema, plain_label
from stream.data.state import State
from stream.errors import InvalidRecordError, NotSupportedError, SchemaError, StateError
from stream.learner.explain import Explanation, LinearView
from stream.learner.predictions import Predictions

__all__ = ["Learner", "Predictions"]

MAX_CLASSES = 4096
NO_LABEL = np.int32(-1).tobytes()  # in a block's y; codes are too small to look like it


class Learner(base.Classifier, abc.ABC):
    """A probabilistic classifier that learns one record at a time.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    features : list of str
        Features in the order they were first learned, where their names are kept.
    can_save : bool
        Whether `to_state` works; where not, the state is rebuilt from the journal at start.
    numbers, truths, strings : str
        What such a value is to this learner, see `Rows.from_dicts`.
    kinds : frozenset of str
        Kinds of declared fields it learns from; those of another kind change nothing.
    added : mapping
        Parameters that a release added, and the value of each that means "as before". A state
        leaves such a value out, so that states of earlier releases and of this one are the same.
    first_defaults : mapping
        Parameters whose default a release changed, and the value each had at first: what a model
        that was begun then goes on with.
    """

    numbers: ClassVar[str] = "numeric"
    truths: ClassVar[str] = "numeric"
    strings: ClassVar[str] = "categorical"
    kinds: ClassVar[frozenset[Kind]] = frozenset(KINDS)
    can_save: bool = True
    _limited: tuple[int, Schema, int] | None = None
    _declared: Schema | None = None
    added: ClassVar[Mapping[str, Any]] = {}
    first_defaults: ClassVar[Mapping[str, Any]] = {}
    _classes: Dictionary

    def _begin(self) -> None:
        """Empty state. Every `__init__` ends with it."""
        self._classes = Dictionary(MAX_CLASSES)
        self._start()

    # What a family gives.

    @abc.abstractmethod
    def _start(self) -> None:
        """Set empty state."""

    @abc.abstractmethod
    def _execute(
        self, block: Block, label: NDArray[np.int64], before: int, out: Predictions
    ) -> None:
        """Run the steps. `label` maps the block's labels to class codes, -1 for one that no
        step need know and, last, for none; `before` classes were known before; predictions go
        to `out`."""

    @abc.abstractmethod
    def _export(self) -> State:
        """The state, sharing arrays."""

    @abc.abstractmethod
    def _restore(self, state: State) -> None:
        """Take the state over, having checked it."""

    # What users call.

    @property
    def classes(self) -> list[Label]:
        return cast("list[Label]", list(self._classes))

    @property
    def features(self) -> list[str]:
        return []

    @property
    def overflows(self) -> dict[str, int]:
        """What was refused at a bound, by the bound's name."""
        return {"classes": self._classes.overflow}

    @property
    def not_applicable(self) -> Mapping[str, str]:
        """Laws of `stream.checks` that say nothing of this learner, and why."""
        return {}

    @property
    def max_classes(self) -> int:
        """How many classes it can hold."""
        return self._classes.bound

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def _texts(self) -> Collection[str]:
        """Features that are texts although strings are categories."""
        return ()

    def columns(self, xs: Sequence[Mapping[Any, Any]]) -> Rows:
        """`xs` as columns, each value of the kind it is to this learner, or that is declared."""
        if self._declared is not None:
            return self._columns_declared(xs, self._declared)
        return self._columns_inferred(xs)

    def _columns_declared(self, xs: Sequence[Mapping[Any, Any]], schema: Schema) -> Rows:
        """Declared fields by their kinds, and the others by their values."""
        names = {f.name for f in schema.fields}
        others = [
            {k: v for k, v in x.items() if k not in names} if isinstance(x, Mapping) else x
            for x in xs
        ]
        rest = self._columns_inferred(others)
        return Rows.declared(xs, schema).beside(rest)

    def _columns_inferred(self, xs: Sequence[Mapping[Any, Any]]) -> Rows:
        return Rows.from_dicts(
            xs,
            numbers=self.numbers,
            truths=self.truths,
            strings=self.strings,
            texts=self._texts,
        )

    def declare(self, schema: Schema) -> Self:
        """Take the values of dicts by the kinds of a schema, as a service takes its records.

        Without it a string is a category, or a text, whichever this learner learns.

        Parameters
        ----------
        schema
            Kinds of fields. Values of other fields are taken as before.

        Returns
        -------
        Self
            This learner; a clone knows nothing of it.

        Examples
        --------
        >>> from stream import MixedNB
        >>> MixedNB().declare(Schema.of(note="text")).rows([{"note": "hello"}]).text_names
        ('note',)
        """
        if not isinstance(schema, Schema):
            raise SchemaError(f"schema must be a Schema, got {shown(schema)}")
        self._declared = schema
        return self

    def rows(self, xs: Sequence[Mapping[Any, Any]]) -> Rows:
        """`xs` as rows this learner can take."""
        return self.prepare(self.columns(xs))

    def prepare(self, rows: Rows) -> Rows:
        """Bring values into the columns learned from, and encode texts. Pure, idempotent."""
        return rows.recast(numbers=self.numbers, truths=self.truths)

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows this learner cannot take although their values fit the schema, and why."""
        return {}

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one record.

        Parameters
        ----------
        x
            Feature to value; absent, None and NaN are no evidence.
        y
            The label: text, an integer or a truth value.
        w
            Weight, > 0 and at most 2**53: as if the record had come w times.

        Raises
        ------
        InvalidRecordError
            A value or label that cannot be learned; the model is untouched.
        """
        self.run(Block.of(self.rows([x]), LEARN, [y], w))

    def predict_proba_one(self, x: Mapping[Any, Any], **_: Any) -> dict[Label, float]:
        """Posterior of each known class; empty before anything was learned. Pure."""
        return self.predict_proba_many([x]).dicts()[0]

    def learn_many(self, xs: Sequence[Mapping[Any, Any]], ys: Sequence[Any], ws: Any = 1.0) -> None:
        """`learn_one` of each in turn, in one compiled call; all or, on an error, none."""
        self.run(Block.of(self.rows(xs), LEARN, ys, ws))

    def predict_proba_many(self, xs: Sequence[Mapping[Any, Any]]) -> Predictions:
        """Posteriors of several records. Pure."""
        return self.run(Block.of(self.rows(xs), PREDICT))

    def progressive_many(self, block: Block) -> Predictions:
        """Execute the steps of a block in order.

        Returns
        -------
        Predictions
            Of the predicting steps, each made before its own step learned.

        Raises
        ------
        InvalidRecordError
            A row this learner cannot take, a label of another kind or beyond the bound; nothing
            was executed.
        SchemaError
            The block is damaged, see `Block.check`; nothing was executed.
        """
        if not isinstance(block, Block):
            raise SchemaError(f"expected a Block, got {shown(block)}")
        block.check()
        return self.run(block)

    def run(self, block: Block) -> Predictions:
        """`progressive_many` of a block that was made from checked parts."""
        for refusal in self.refusals(block.rows).values():
            raise refusal
        before = len(self._classes)
        label = self._admit_labels(block)
        n, classes = block.n_predictions, self.classes
        out = Predictions(classes, np.zeros((n, len(classes))), np.zeros(n, dtype=np.int64))
        self._execute(block, label, before, out)
        return out

    def to_state(self) -> State:
        """The whole state, as a copy. O(bytes)."""
        inner = self._export().copy()
        header: dict[str, Any] = {
            "learner": type(self).__name__,
            "parameters": self._told(),
            "classes": self.classes,
            "inner": dict(inner.header),
        }
        if self._classes.overflow:  # left out where it is 0: so it was before it was saved
            header["classes_refused"] = self._classes.overflow
        return State(header, inner.arrays)

    def load_state(self, state: State) -> Self:
        """Become the learner that `to_state` saved; nothing is recomputed.

        Raises
        ------
        StateError
            It is another learner's, or damaged; this learner is then unusable.
        """
        if not isinstance(state, State):
            raise StateError(f"expected a State, got {shown(state)}")
        header = state.header
        if not isinstance(header, Mapping):
            raise StateError(f"the state is damaged: its header is {shown(header)}")
        name = type(self).__name__
        if header.get("learner") != name:
            raise StateError(f"expected the state of a {name}, got {header.get('learner')!r}")
        theirs = header.get("parameters")
        if not isinstance(theirs, Mapping):
            raise StateError(f"the state of this {name} is damaged: it names no parameters")
        mine = self._told()
        for key in [*mine, *(key for key in theirs if key not in mine)]:
            came, own = (told.get(key, self.added.get(key)) for told in (theirs, mine))
            if came != own:
                raise StateError(
                    f"expected the state of a {name} with {key} = {own!r}, got {came!r}"
                )
        try:
            self._classes = self._classes.renewed(_labels(header), _refused(header))
            self._restore(State(header["inner"], state.arrays))
        except StateError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise StateError(f"the state of this {name} is damaged: {error!r}") from None
        return self

    def _told(self) -> dict[str, Any]:
        """The parameters as JSON: what a state is worth depends on them."""
        told = {name: _plain(value) for name, value in self._get_params().items()}
        as_before = [name for name, value in self.added.items() if told.get(name) == value]
        return {name: value for name, value in told.items() if name not in as_before}

    def fingerprint(self) -> str:
        """SHA-256 of the state, parameters included.

        The count of refused classes is left out: a refused record changes nothing.
        """
        return self._fingerprint(self.to_state())

    @staticmethod
    def _fingerprint(state: State) -> str:
        return State(_without_refusals(state.header), state.arrays).fingerprint()

    def limit(self, max_bytes: int, schema: Schema, max_classes: int) -> int:
        """Never take more bytes for the state, whatever is learned; before anything is.

        Parameters
        ----------
        max_bytes
            By a formula over shapes and texts, which is the same on every machine: beyond it
            values are refused and counted in `overflows`.
        schema
            The fields there will be.
        max_classes
            How many classes there may be.

        Returns
        -------
        int
            How many classes fit, at most `max_classes`: no more may be learned.

        Raises
        ------
        SchemaError
            Two classes do not fit.
        """
        self._limited = _limits(max_bytes, schema, max_classes)
        return max_classes

    def compile_kernels(self) -> None:
        """Compile what this learner runs, on a throw-away copy."""
        trial = self.clone()
        trial.learn_one({"warm": 1.0}, "warm")
        trial.predict_proba_one({"warm": 1.0})

    def anew(self, proven: bool) -> Self:
        """An empty learner of these parameters, to go on in place of this one.

        `proven`: learning works, for records of this stream have been learned.
        """
        out = self.clone()
        if self._limited is not None:
            out.limit(*self._limited)
        return out

    # What not every family can do.

    def joint_log_likelihood_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """log P(class) + log p(x | class) of each known class; -inf where truly impossible."""
        raise self._lacks("a joint log likelihood")

    def log_evidence_one(self, x: Mapping[Any, Any]) -> float:
        """log p(x), the log of Σ P(class) · p(x | class) over the known classes."""
        raise self._lacks("an evidence")

    def unlearn_one(
        self, x: Mapping[Any, Any], y: Any, w: float = 1.0, *, age: int | None = None
    ) -> None:
        """Take one learned record back."""
        self.unlearn_rows(self.rows([x]), y, w, age=age)

    def unlearn_rows(self, rows: Rows, y: Any, w: float = 1.0, *, age: int | None = None) -> None:
        """`unlearn_one` of the one row of `rows`, as `rows` or `prepare` make them."""
        raise self._lacks("unlearning")

    @property
    def can_unlearn(self) -> bool:
        """Whether records can be taken back; of single ones it may still be impossible."""
        return type(self).unlearn_rows is not Learner.unlearn_rows

    def faded(self, age: int) -> float:
        """What is left of a record's weight after so many records learned since."""
        return 1.0

    def merge(self, other: Learner) -> Self:
        """Become what learning `other`'s records after one's own would give."""
        raise self._lacks("merging")

    def _alike(self, other: Learner) -> Self:
        """`other`, which can be merged: of this kind and these parameters, or a SchemaError."""
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
            Two known classes; left out, the most probable one and the runner-up.

        Raises
        ------
        NotLearnedError
            Fewer than two classes are known, or one that is asked for is not.
        NotSupportedError
            This learner has no shares of features.
        """
        return self.explain_rows(self.columns([x]), label, against)

    def explain_rows(
        self, rows: Rows, label: Label | None = None, against: Label | None = None
    ) -> Explanation:
        """`explain_one` of the one row of `rows`, as `columns` makes them."""
        raise self._lacks("an explanation by features")

    def linear_view(self, label: Label | None = None, against: Label | None = None) -> LinearView:
        """The log-odds of two classes as bias and weights, where they are a line."""
        raise self._lacks("a linear view")

    @property
    def n_parameters(self) -> int:
        """Free parameters of the model."""
        raise self._lacks("a number of parameters")

    def _lacks(self, what: str) -> NotSupportedError:
        return NotSupportedError(f"{type(self).__name__} has no such thing as {what}")

    # Shared by the families.

    def _admit_labels(self, block: Block) -> NDArray[np.int64]:
        """Class codes of the block's labels and, last, of none; new ones as their steps learn."""
        codes, values = self._classes.codes, self._classes.values
        known = [codes.get(value, -1) for value in block.labels]
        label = np.array([*known, -1], dtype=np.int64)
        kind = type(values[0]) if values else None
        plain = -1 not in known and all(type(value) is kind for value in block.labels)
        if plain and NO_LABEL not in block.y.tobytes():  # no label is new, and no step lacks one
            return label
        learned = block.y[learning(block)]
        if learned.size and learned.min() < 0:
            raise SchemaError("a learning step needs a label")
        asked = np.flatnonzero(np.bincount(learned)).tolist()
        if any(known[code] < 0 for code in asked):
            asked = list(dict.fromkeys(learned.tolist()))  # new ones in order
        label.fill(-1)
        label[asked] = self._admit_classes([block.labels[code] for code in asked])
        return label

    def _admit_classes(self, labels: Sequence[Label]) -> NDArray[np.int64]:
        """The class code of each label, new ones in order; all or, on an error, none."""
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
            raise InvalidRecordError("max_classes", f"more than {self._classes.bound} classes")
        return np.array([self._classes.add(value) for value in labels], dtype=np.int64)


def _limits(max_bytes: int, schema: Schema, max_classes: int) -> tuple[int, Schema, int]:
    """The arguments of `Learner.limit`, checked."""
    if not isinstance(schema, Schema):
        raise SchemaError(f"schema must be a Schema, got {shown(schema)}")
    most = whole("max_bytes", max_bytes, 0, 2**62)
    return most, schema, whole("max_classes", max_classes, 2, MAX_CLASSES)


def _labels(header: Mapping[str, Any]) -> list[Label]:
    """The classes of a state's header."""
    labels = header["classes"]
    try:
        plain = [plain_label(label) for label in labels] if isinstance(labels, list) else None
    except InvalidRecordError:
        plain = None
    if plain is None or len({(type(y), y) for y in plain}) < len(plain):
        raise StateError(f"expected labels, each once, got {shown(labels)}")
    if len({type(y) for y in plain}) > 1:
        raise StateError(f"expected labels of one kind, got {shown(labels)}")
    return plain


def _without_refusals(header: Mapping[str, Any]) -> dict[str, Any]:
    """The header, and those of learners inside, without the count of refused classes."""
    return {
        key: _without_refusals(value) if isinstance(value, Mapping) else value
        for key, value in header.items()
        if key != "classes_refused"
    }


def _refused(header: Mapping[str, Any]) -> int:
    """How many classes were refused, of a state's header."""
    refused = header.get("classes_refused", 0)
    if type(refused) is not int or refused < 0:
        raise StateError(f"expected how many classes were refused, got {refused!r}")
    return refused


def _plain(value: Any) -> Any:
    """A parameter as JSON; mappings as pairs, for their keys may be of any kind."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return [[_plain(k), _plain(v)] for k, v in value.items()]
    if isinstance(value, Iterable):
        return [_plain(v) for v in value]
    return str(value)
