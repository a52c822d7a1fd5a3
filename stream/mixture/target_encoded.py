"""TargetEncoded: categories with many values become numbers, by the labels that came with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Block, Floats, Rows, notes_of, rows_used
from stream.data.parameters import names, whole
from stream.data.schema import Field, Label, Schema
from stream.data.state import State
from stream.errors import InvalidRecordError, SchemaError
from stream.learner.base import Learner, Predictions
from stream.learner.registry import Facts, registered
from stream.mixture._kernels import targets as kernels
from stream.mixture._kernels.targets import TWO
from stream.mixture.composed import Composed, made, plain
from stream.mixture.experts import MOST_FIELDS
from stream.mixture.targets import FEWEST_SLOTS, MOST_SLOTS, SEPARATOR, Targets

__all__ = ["TargetEncoded"]

MOST_COLUMNS = 8  # of a field, twice: more classes than these and the first one have none
SHARE = 16  # of the bytes of `limit`, the counts get 1 / SHARE


@registered(
    Facts(
        model="its learner, with log-odds by the past labels of a value in place of the value",
        cost="its learner's and C",
        memory="its learner's and values·C",
        merge_unlearn="no, no",
        missing="as in its learner",
        source="Micci-Barreca 2001; Prokhorenkova et al. 2018",
        reads={
            "numeric": "as its learner does",
            "binary": "as its learner does",
            "categorical": "as its learner does, or by the labels of each value",
            "text": "as its learner does",
        },
    )
)
class TargetEncoded(Composed):
    """A learner that gets, in place of a category with many values, what the past labels of the
    value say.

    A learner of categories learns something for each value. Where a field has thousands of values
    (airports, merchants, user agents), most of it is chance. The counts of all values together show
    how far a count can be trusted, and a number for each class is enough.

    Parameters
    ----------
    fields
        Names of the fields that may be encoded, at most 64. Their values are categories.
    learner
        A learner, which is made once more and so does not learn itself; the name of one; or
        ``{"type": NAME}`` with parameters beside the name, as in a configuration.
    max_categories
        A field is encoded as soon as more values of it were learned. Until then its values are
        categories of the learner.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    encoded : list of str
        The fields that are encoded now.

    Raises
    ------
    SchemaError
        The learner is not a learner or not the name of one, or a parameter is out of range.
    InvalidRecordError
        By `learn_one` and the predictions: the learner rejects the record, or a field has the name
        of a column of an encoded one.

    Notes
    -----
    Of each value the weight of the labels of each class is counted. A label is counted after its
    record was predicted and learned, so no record is described by its own label. If a class has the
    share p of all labels, (N + 1) / (Σ N + C), a value with the weight n has n / p + 4 for it: as
    if four more records had come, divided as all records are. So a value with few labels is close
    to all others. The learner gets the logarithm of the ratio of that number for each class and for
    the first class. It is 0 for a value that was never learned, and missing for a missing one. A
    second such number counts only the newest labels: a label counts half after 100 more of any
    value. At most 8 classes beside the first one have numbers.

    If a label comes late, the record is learned with the numbers of its prediction. They are kept
    with the waiting row, 16 bytes for each field and class, because numbers of the time of the
    label know labels that the prediction did not know.

    The counts of at most 65,536 values are kept, in groups of 8, 16 · (C + 1) bytes each. If there
    is no room in its group, a new value takes the place of the one whose last label is oldest;
    ``overflows["values"]`` counts these. A value is known by a hash of 63 bits. `limit` gives the
    counts a sixteenth of the bytes. Neither `merge` nor `unlearn_one` is possible. A correction
    moves the weight of the label in the counts.

    Source: Micci-Barreca 2001, A Preprocessing Scheme for High-Cardinality Categorical Attributes;
    Prokhorenkova et al. 2018, CatBoost (ordered target statistics).

    Examples
    --------
    >>> from stream.mixture import TargetEncoded
    >>> model = TargetEncoded(["shop"], "LogisticRegression", max_categories=2)
    >>> for i in range(300):
    ...     model.learn_one({"shop": f"s{i % 30}"}, "fraud" if i % 30 < 3 else "fine")
    >>> model.encoded
    ['shop']
    >>> model.predict_one({"shop": "s1"}), model.predict_one({"shop": "s7"})
    ('fraud', 'fine')
    """

    def __init__(
        self, fields: Sequence[str] = (), learner: Any = "MixedNB", max_categories: int = 100
    ) -> None:
        self.fields = _checked(names("fields", fields))
        self.learner = learner
        try:
            made(learner)
        except SchemaError as error:
            raise SchemaError(f"learner: {error}") from None
        self.max_categories = whole("max_categories", max_categories, 1, 2**20)
        self._begin()

    def _start(self) -> None:
        self._compose([made(self.learner)], TWO * len(self.fields))
        self._targets = Targets(self.fields)

    @property
    def encoded(self) -> list[str]:
        """The fields that are encoded now."""
        return [self.fields[f] for f in self._encoded().tolist()]

    @property
    def expert_weights(self) -> dict[str, float]:
        """Those of its learner, if that is a mixture."""
        return self._parts[0].expert_weights

    @property
    def features(self) -> list[str]:
        return list(dict.fromkeys(map(self._field_of, super().features)))

    @property
    def overflows(self) -> dict[str, int]:
        """How many values each bound has rejected, by the bound's name."""
        refused = super().overflows
        return {**refused, "values": refused.get("values", 0) + self._targets.forgotten}

    def limit(self, max_bytes: int, schema: Schema, max_classes: int) -> int:
        """See `Learner.limit`. If it has one of the fields, the counts get a sixteenth of the
        bytes."""
        Learner.limit(self, max_bytes, schema, max_classes)
        fields = sum(name in schema.categorical for name in self.fields)
        own = max_bytes // SHARE * (fields > 0)
        if fields and own < FEWEST_SLOTS * 16 * 3:
            needed = SHARE * FEWEST_SLOTS * 16 * 3
            raise SchemaError(
                f"the counts of {FEWEST_SLOTS} values need {needed:,} bytes, but {max_bytes:,} are "
                "allowed"
            )
        most = min(max_classes, own // (FEWEST_SLOTS * 16) - 1) if fields else max_classes
        columns = range(fields * TWO * min(most - 1, MOST_COLUMNS))
        more = (Field(f"{SEPARATOR}{i}", "numeric") for i in columns)
        fit = self._parts[0].limit(max_bytes - own, Schema((*schema.fields, *more)), most)
        slots = MOST_SLOTS
        while slots > FEWEST_SLOTS and slots * 16 * (fit + 1) > own:
            slots //= 2
        self._targets = Targets(self.fields, slots)
        return Learner.limit(self, max_bytes, schema, fit)

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows that the learner rejects, or with a field that is named like a column of an encoded
        one."""
        out = super().refusals(rows)
        for kind in ("numeric", "categorical", "text"):
            for j, name in enumerate(getattr(rows, f"{kind}_names")):
                if (field := self._field_of(name)) != name:
                    why = f"field {name!r} has the name of a column of {field!r}; rename it"
                    cells = getattr(rows, kind)[:, j].tolist()
                    found = (i for i, v in enumerate(cells) if v is not None and v == v)
                    out |= {i: InvalidRecordError("wrong_kind", why) for i in found}
        return out

    def _field_of(self, name: str) -> str:
        """The encoded field of a column, or the name of another field."""
        field, separator, _ = name.partition(SEPARATOR)
        return field if separator and field in self.fields else name

    def _encoded(self) -> NDArray[np.int64]:
        """Indices of the fields that are encoded now."""
        return np.flatnonzero(self._targets.distinct > self.max_categories)

    def _execute(
        self, block: Block, label: NDArray[np.int64], before: int, out: Predictions
    ) -> None:
        self._widen()
        if self.memo_size:
            notes_of(block, len(self._classes), self.memo_size)
        used, at = rows_used(block)  # a block may be one step over many rows
        rows = block.rows.take(used)
        memo, tags = _memo(rows), self._targets.tags(rows)
        steps = block.op, at, label[block.y], block.w
        span, done = np.array([0, 0, before], dtype=np.int64), 0
        while span[0] < len(block):
            encoded = self._encoded()
            shares = self._targets.follow(steps, span, tags, memo, self.max_categories)
            own = slice(int(span[0]), int(span[1]))
            given = self._rows_with(rows, shares, encoded)
            part = Block(given, block.op[own], at[own], block.y[own], block.w[own], block.labels)
            ran = self._parts[0].run_accepted(part)
            here = slice(done, done + len(ran.known))
            out.proba[here, [self._classes.codes[known] for known in ran.classes]] = ran.proba
            out.known[here] = ran.known
            done, span[0] = here.stop, span[1]
        if block.rows.memo is not None:
            block.rows.memo[used] = memo

    def _rows_with(self, rows: Rows, shares: Floats, encoded: NDArray[np.int64]) -> Rows:
        """The rows for the learner, by the shares of their values, with a view of what it has
        noted."""
        memo = None if rows.memo is None else rows.memo[:, :, self._numbers :]
        gone = [self.fields[f] for f in encoded.tolist()]
        labels = self._classes.values[1 : MOST_COLUMNS + 1]
        more = np.empty((len(rows), len(gone) * TWO * len(labels)))
        kernels.columns(shares, encoded, len(labels), more)  # of no field, so that it is compiled
        if not gone:
            return rows.with_memo(memo)
        kept = [j for j, name in enumerate(rows.categorical_names) if name not in gone]
        return Rows(
            (*rows.numeric_names, *names_of(gone, labels)),
            np.concatenate((rows.numeric, more), axis=1),
            tuple(rows.categorical_names[j] for j in kept),
            rows.categorical[:, kept],
            rows.text_names,
            rows.text,
            rows.binary_names,
            memo,
        )

    def _rows_of(self, i: int, rows: Rows) -> Rows:
        """The rows for the learner as at their prediction, or as they would be predicted now."""
        if rows.memo is not None:
            rows = rows.with_memo(rows.memo_of(1, self.memo_size))
        known = len(self._classes)
        shares = self._targets.now(known, self._targets.tags(rows), _memo(rows))
        return self._parts[i].prepare(self._rows_with(rows, shares, self._encoded()))

    def correct_rows(
        self, rows: Rows, old: tuple[Label, float], new: tuple[Label, float], age: int
    ) -> None:
        """See `Learner.correct_rows`. The counts have the new label in place of the old one."""
        super().correct_rows(rows, old, new, age)
        was, now = self._admit_classes([old[0], new[0]]).tolist()
        tags = self._targets.tags(rows)[0]
        self._targets.replace(tags, (was, old[1]), (now, new[1]), age)

    def _widen(self) -> None:
        """Make room for the counts of all known classes."""
        self._targets.widen(len(self._classes))

    def _saved_parameters(self) -> dict[str, Any]:
        own = {"fields": self.fields, "max_categories": self.max_categories}
        return {"learner": plain(self.learner), **own}

    def _export(self) -> State:
        return self._join(self._targets.export())

    def _restore(self, state: State) -> None:
        targets = Targets(self.fields, self._targets.most)
        targets.restore(state.nested("own"), len(self._classes))
        self._restore_parts(state)
        self._targets = targets


def _checked(fields: list[str]) -> list[str]:
    """The fields, if they can be encoded."""
    if len(fields) > MOST_FIELDS:
        raise SchemaError(f"fields: expected at most {MOST_FIELDS}, got {len(fields)}")
    if len({*fields}) < len(fields):
        raise SchemaError("fields: expected each name once, got one twice")
    if any(SEPARATOR in field for field in fields):
        raise SchemaError("fields: expected names without the control character U+001F")
    return fields


def names_of(fields: Sequence[str], labels: Sequence[Label]) -> list[str]:
    """The columns of encoded fields: by all labels, then by the newest ones.

    Examples
    --------
    >>> [name.replace(SEPARATOR, "|") for name in names_of(["shop"], ["fraud"])]
    ['shop|all|fraud', 'shop|newest|fraud']
    """
    return [
        SEPARATOR.join((field, of, str(label)))
        for field in fields
        for of in ("all", "newest")
        for label in labels
    ]


def _memo(rows: Rows) -> Floats:
    """The memo of the rows, not copied; (rows, 0, 0) if nothing is noted."""
    return np.empty((len(rows), 0, 0)) if rows.memo is None else rows.memo
