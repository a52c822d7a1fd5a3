"""PerKeyNB: naive Bayes for each key, which leans on what all keys have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.bayes.categories import Categories
from stream.data.block import LEARN, PREDICT, Block, Floats, Rows, learning, rows_used
from stream.data.columns import MAX_FEATURES, admit, find, named, restored
from stream.data.parameters import flag, number, shown, whole
from stream.data.rows import conflicts
from stream.data.schema import PER_NAME, Dictionary, Kind, Label, Schema
from stream.data.state import State, count_in, pack, texts
from stream.errors import InvalidRecordError, NotSupportedError, SchemaError, StateError
from stream.keyed import _kernels as kernels
from stream.keyed.residents import KeyRows, KeyStore, Residents, all_in_memory
from stream.keyed.table import KeyTable, entry_bytes, slot_bytes
from stream.learner.additive import Additive
from stream.learner.base import Predictions
from stream.learner.predictions import PRIOR, Explanation
from stream.learner.registry import Facts, registered

__all__ = ["PerKeyNB"]

MOST_KEYS = 2**24
KEY_TEXT = 64  # bytes that are reserved for a key; longer ones leave room for fewer keys
GROWS = 2  # a table at least doubles, and its old half exists until it is copied
WEAKEST = 1e-100  # a weaker prior would underflow
UNBOUNDED = 2**62  # bytes
FADES = "the strengths depend on the order of the records"


class How(NamedTuple):
    """The parameters of the kernels. most: the fixed strength, -1 if it is learned; bound: of the
    entries."""

    alpha: float
    smoothing: float
    most: float
    bound: int


@registered(
    Facts(
        model="`MixedNB` for each key, with all other keys as a prior",
        cost="C·D; C·D (a comparison of strengths: 9·C·D)",
        memory="keys × C·D, and the values that each key has",
        missing="no evidence",
        source="Zaki and Meira 18.2; Efron and Morris 1973; Robbins 1956",
        merge_unlearn="no, no",
        reads={
            "numeric": "used",
            "binary": "a category",
            "categorical": "used; one field is the key",
        },
    )
)
class PerKeyNB(Additive):
    """A naive Bayes model for each key, such as a tenant, a customer or a device.

    A key with few records is predicted by what all other keys have in common, one with many by its
    own records. How many records of its own a key needs is learned (empirical Bayes).

    Parameters
    ----------
    per
        The field with the key. It must be a category, and it is not evidence.
    strength
        As how many records of a class the other keys count together, at most. 0 is a model of each
        key alone, 1e100 is one model for all keys. None: the strength is learned, see the notes.
    alpha
        Added to every count of a category, as in `CategoricalNB`.
    var_smoothing
        For numbers, as in `GaussianNB`.
    max_keys
        The largest number of keys that get a model. Records of further keys, and records without a
        key, are predicted by what all keys have in common, and only that learns them;
        ``overflows["keys"]`` counts the records of further keys.
    keys_on_disk
        Whether the number of keys is bounded by `max_keys` only, and not by the bytes of `limit`.
        The bytes then bound the keys in memory; the least recently used ones are rows of a store,
        see `keep_in`. Without a store all keys are in memory.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned, by any key.
    features : list of str
        Numbers, then categories, each in the order they were first learned.
    keys : list of str
        Keys with a model, in the order they were first learned.

    Raises
    ------
    SchemaError
        A parameter is out of range.
    InvalidRecordError
        By `learn_one` and the predictions: an infinite number, a key that is not a category, or a
        value that differs in kind from what its field was learned with.

    Notes
    -----
    A number is normal given the class, a category or truth value is counted, as in `MixedNB`. For a
    key, the sums of a class of a feature are those of the key, plus those of all other keys, scaled
    so that they weigh at most `strength` records. The sums of the others are those of all records
    without the key's own, so nothing counts twice, and what the others add never enters the sums of
    the key. The prior of the classes is made in the same way. For a category, the share of a value
    among the others, smoothed by alpha, counts as `strength` records; with 0, alpha is added to the
    counts of the key.

    Without `strength`, seven strengths from 1 to 1,024 and infinity are compared, and two models
    more: one in which each feature has the strength that fits its own values best, and one in which
    only the shares of the classes have it, and the features are those of all keys. The one with the
    largest log probability of the labels predicts. What it was is forgotten by 0.1 % with each
    comparison (dynamic model averaging with a choice, Raftery, Kárný and Ettler 2010). The first
    1,000 labels are compared, and then every eighth, because a comparison costs as much as nine
    predictions.

    Differences of numbers below 1e-154 have a square of 0: they are no evidence.

    O(C · D) to predict and to learn, 9 times that for a comparison. Memory: 8 · (C + D_n · (1 + 3C)
    + D_c · C) bytes for each key, for D_n numbers and D_c categories, and 24 + 8C for each value
    that a key has. Bounds: those of `MixedNB`, `max_keys`, and 2**24 values of all keys; further
    values of a key are learned for all keys only, ``overflows["entries"]`` counts them.

    Sources: Zaki and Meira, Data Mining and Machine Learning, chapter 18.2, for the model; Robbins
    1956, An Empirical Bayes Approach to Statistics, and Efron and Morris 1973, Stein's Estimation
    Rule and Its Competitors, for learning a prior from many similar problems; Chan, Golub and
    LeVeque 1983 for adding and subtracting moments.

    Examples
    --------
    >>> from stream import PerKeyNB
    >>> model = PerKeyNB(per="tenant")
    >>> for i in range(50):
    ...     for tenant, usual, odd in (("shop", 10.0, 900.0), ("bank", 900.0, 10.0)):
    ...         model.learn_one({"tenant": tenant, "amount": usual + i % 5}, "ok")
    ...         model.learn_one({"tenant": tenant, "amount": odd + i % 7}, "fraud")
    >>> model.predict_one({"tenant": "shop", "amount": 12.0})
    'ok'
    >>> model.predict_one({"tenant": "bank", "amount": 12.0})
    'fraud'
    """

    truths: ClassVar[str] = "categorical"
    kinds: ClassVar[frozenset[Kind]] = frozenset(("numeric", "binary", "categorical"))

    def __init__(
        self,
        per: str = "key",
        strength: float | None = None,
        alpha: float = 1.0,
        var_smoothing: float = 1e-9,
        max_keys: int = 2**20,
        keys_on_disk: bool = False,
    ) -> None:
        if not isinstance(per, str) or not per:
            raise SchemaError(f"per must name a field, got {shown(per)}")
        self.per = per
        self.strength = None if strength is None else number("strength", strength, 0.0)
        if 0.0 < (self.strength or 0.0) < WEAKEST:
            raise SchemaError(f"strength must be 0 or at least {WEAKEST:g}, got {strength!r}")
        self.alpha = number("alpha", alpha, 0.0)
        self.var_smoothing = number("var_smoothing", var_smoothing, 0.0)
        self.max_keys = whole("max_keys", max_keys, 1, MOST_KEYS)
        self.keys_on_disk = flag("keys_on_disk", keys_on_disk)
        self._begin()

    def _start(self) -> None:
        room = UNBOUNDED if self.keys_on_disk else self.max_keys * (PER_NAME + KEY_TEXT)
        self._keys = Dictionary(self.max_keys, room=room)
        self._residents: Residents | None = None
        self._source: KeyRows | None = None
        self._in_store = False  # whether a state leaves the rows of keys there
        self._in_memory = self.max_keys, MOST_KEYS  # keys, and entries of all of them
        self._numbers = Dictionary(MAX_FEATURES)
        self._categories = Categories()
        self._table = KeyTable()
        self._entries = MOST_KEYS

    @property
    def not_applicable(self) -> Mapping[str, str]:
        """Laws of `stream.checks` that do not apply, with the reason."""
        lacks = "it does not support it"
        return {
            "merging_equals_learning_both": lacks,
            "merging_what_does_not_fit_is_refused": lacks,
            "merging_with_oneself_is_learning_twice": lacks,
            "unlearning_is_the_inverse_of_learning": lacks,
            "unlearning_what_was_not_learned_is_refused": lacks,
            "parameters_are_counted": "how many are free depends on the strengths",
            **({"weight_two_is_twice": FADES} if self.strength is None else {}),
        }

    @property
    def features(self) -> list[str]:
        return [*self._numbers, *self._categories.features]

    @property
    def keys(self) -> list[str]:
        if self._residents is None:
            return list(self._keys)
        return self._residents.whole(self._table, self.max_keys)[0]

    @property
    def overflows(self) -> dict[str, int]:
        """How many values each bound has rejected, by the bound's name."""
        return {
            **super().overflows,
            "keys": (self._residents or self._keys).overflow,
            "features": self._numbers.overflow + self._categories.features.overflow,
            "values": self._categories.refused,
            "entries": int(self._table.entries.used[1]),
        }

    @property
    def strengths(self) -> dict[str, float]:
        """The strength by which each feature predicts now; that of the classes is ``"(prior)"``.

        Examples
        --------
        >>> from stream import PerKeyNB
        >>> PerKeyNB(strength=16).strengths
        {'(prior)': 16.0}
        """
        names = [PRIOR, *self.features]
        g = self._table.strengths
        if self.strength is not None:
            return dict.fromkeys(names, float(self.strength))
        pick = int(kernels.chosen(g))
        if pick < kernels.APART:
            return dict.fromkeys(names, kernels.GRID[pick])
        if pick == kernels.SHARES:
            return {**dict.fromkeys(names, inf), PRIOR: kernels.GRID[int(kernels.best(g.prior[0]))]}
        fits = [g.prior[0], *g.numbers, *g.categories]
        return {
            name: kernels.GRID[int(kernels.best(fit))]
            for name, fit in zip(names, fits, strict=True)
        }

    def learned(self, key: str) -> dict[Label, float]:
        """The weight of the records of a key, by label; empty if the key has no model.

        Examples
        --------
        >>> from stream import PerKeyNB
        >>> model = PerKeyNB(per="tenant")
        >>> model.learn_one({"tenant": "shop", "amount": 10.0}, "ok")
        >>> model.learned("shop"), model.learned("bank")
        ({'ok': 1.0}, {})
        """
        if self._residents is not None:
            weight = self._residents.weights(key, self._table)
        else:
            slot = self._keys.codes.get(key, -1) + 1
            weight = self._table.slots.weight[slot].tolist() if slot > 0 else []
        return {c: w for c, w in zip(self.classes, weight, strict=False) if w > 0.0}

    def keep_in(self, store: KeyStore, keys: int | None = None, entries: int | None = None) -> None:
        """Keep the keys that are not in memory in a store. No result changes.

        Parameters
        ----------
        store
            It belongs to this learner from now on. Its content is replaced by what this learner has
            learned, or by `load_state` of a state that was made with `rows_in_store`.
        keys, entries
            How many keys may be in memory, and how many values they may have. By default as many as
            `limit` allows.

        Raises
        ------
        NotSupportedError
            `keys_on_disk` is false.

        Notes
        -----
        Before a block is predicted and learned, the rows of its keys are read. If there is no room
        for all of its keys, it is divided. O(bytes) if the learner has learned already.
        """
        if not self.keys_on_disk:
            raise NotSupportedError("only PerKeyNB(keys_on_disk=True) keeps its keys in a store")
        room, most = self._in_memory
        room, most = room if keys is None else keys, most if entries is None else entries
        residents = Residents(store, room, most, self.max_keys)
        if len(self._keys):
            residents.take_over(self._keys.values, self._keys.overflow, self._table)
            self._keys = self._keys.renewed(())
        self._residents, self._source = residents, store

    def read_from(self, store: KeyRows) -> None:
        """Read the rows of keys from a store at `load_state`, and then have all in memory."""
        self._source = store

    @contextmanager
    def rows_in_store(self) -> Iterator[None]:
        """Have `to_state` commit the store, and leave the rows of keys there. The state has the
        sums of all records, and names the commit. Without `keep_in` nothing changes."""
        self._in_store = self._residents is not None
        try:
            yield
        finally:
            self._in_store = False

    @property
    def residents(self) -> Residents | None:
        """The keys in memory; None without a store."""
        return self._residents

    def limit(self, max_bytes: int, schema: Schema, max_classes: int) -> int:
        """See `Learner.limit`. The bytes of a key are reserved for all classes, so with fewer
        classes there is room for more keys."""
        super().limit(max_bytes, schema, max_classes)
        kinds = {f.name: f.kind for f in schema.fields if f.name != self.per}
        numbers = sum(kind == "numeric" for kind in kinds.values())
        categories = sum(kind in ("binary", "categorical") for kind in kinds.values())
        rest = 3 * max_bytes // 8 if categories else 0
        each = GROWS * slot_bytes(max_classes, numbers, categories) + PER_NAME + KEY_TEXT
        keys = min(self.max_keys, (max_bytes - rest) // each - 1)
        value = GROWS * entry_bytes(max_classes)
        if keys < 1 or (categories and rest < 16 * value):
            least = max(2 * each * 8 // 5, 16 * value * 8 // 3) + 8 if categories else 2 * each
            raise SchemaError(
                f"one key with these fields and {max_classes} classes needs {least:,} bytes, but "
                f"{max_bytes:,} are allowed"
            )
        entries = min(MOST_KEYS, (rest - rest // 3) // value)
        self._categories.limit(rest // 3, value)
        if self.keys_on_disk:
            self._in_memory = keys, entries
        else:
            self._keys = Dictionary(keys, room=keys * (PER_NAME + KEY_TEXT))
            self._entries = entries
        return super().limit(max_bytes, schema, max_classes)

    @property
    def room_for_keys(self) -> int:
        """The largest number of keys that get a model."""
        return self._keys.bound

    @property
    def room_in_memory(self) -> int:
        """The largest number of keys that are in memory, if the others are in a store."""
        return min(self._in_memory[0], self.room_for_keys)

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows with a key that is not a category, or with a value that differs in kind from what
        its field was learned with."""
        known = {"numeric": set(self._numbers), "categorical": {*self._categories.features}}
        return conflicts(rows, known["numeric"], known["categorical"] | {self.per})

    def _execute(
        self, block: Block, label: NDArray[np.int64], before: int, out: Predictions
    ) -> None:
        used, row = rows_used(block)
        learned = learning(block)
        source, numbers = admit(self._numbers, block)
        keys, others = self._apart(block.rows)
        texts = keys[used].tolist()
        coded = self._categories.admit(others, used, row[learned])
        x = np.ascontiguousarray(block.rows.numeric[np.ix_(used, source)])
        columns = x, numbers, np.ascontiguousarray(coded.code), coded.column
        y = label.take(block.y, mode="wrap")
        start, made, known = 0, 0, before
        while start < len(block):
            end = self._admit_keys(texts, row, block.op, start)
            steps, learns = slice(start, end), block.op[start:end] != PREDICT
            t, new = self._table, 2 * int(np.count_nonzero(learns)) * coded.column.size
            most = max(self._entries, int(t.entries.used[0])) + int(self._categories.sizes.sum())
            t.make_entries(new, most)
            until = made + int(np.count_nonzero(block.op[steps] != LEARN))
            kernels.progressive(
                (block.op[steps], row[steps], y[steps], block.w[steps], known),
                self._slots(texts),
                columns,
                self._how(),
                t.slots,
                t.entries,
                t.strengths,
                out.proba[made:until],
                out.known[made:until],
            )
            start, made = end, until
            known = max(known, int(y[steps][learns].max(initial=-1)) + 1)

    def _admit_keys(
        self, texts: list[Any], row: NDArray[np.int64], op: NDArray[np.int8], start: int
    ) -> int:
        """Give the keys of the steps from `start` on a slot. Returns the end of those steps: all of
        them, or as many as there is room for in memory."""
        if self._residents is None:
            for at in row[op != PREDICT].tolist():
                if texts[at] is not None:
                    self._keys.add(texts[at])
            self._make_room(len(self._classes))
            return len(row)
        self._make_room(len(self._classes))
        asked = [texts[at] for at in row.tolist()]
        end = self._residents.stretch(asked, start)
        learns = (op[start:end] != PREDICT).tolist()
        wanted = list(dict.fromkeys(key for key in asked[start:end] if key is not None))
        learned = [
            key
            for key, learn in zip(asked[start:end], learns, strict=True)
            if learn and key is not None
        ]
        self._residents.admit(wanted, learned, self._table)
        return end

    def _how(self) -> How:
        most = -1.0 if self.strength is None else float(self.strength)
        return How(self.alpha, self.var_smoothing, most, self._entries)

    def _apart(self, rows: Rows) -> tuple[NDArray[np.object_], Rows]:
        """The key of each row, None without one, and the rows without it."""
        if self.per not in rows.categorical_names:
            return np.full(len(rows), None, dtype=object), rows
        at = rows.categorical_names.index(self.per)
        names = rows.categorical_names[:at] + rows.categorical_names[at + 1 :]
        others = np.delete(rows.categorical, at, axis=1)
        return rows.categorical[:, at], replace(rows, categorical_names=names, categorical=others)

    def _slots(self, texts: list[Any]) -> NDArray[np.int64]:
        """The slot of each key; 0 for those without a model."""
        if self._residents is not None:
            slots = self._residents.codes
            return np.fromiter((slots.get(text, 0) for text in texts), np.int64, len(texts))
        codes = self._keys.codes
        return np.fromiter((codes.get(text, -1) + 1 for text in texts), np.int64, len(texts))

    def _make_room(self, classes: int) -> None:
        sizes = classes, len(self._numbers), len(self._categories.features)
        slots, most = len(self._keys) + 1, self._keys.bound + 1
        if self._residents is not None:
            slots, most = self._table.known, self._residents.room + 1
        self._table.make_room(slots, *sizes, most)

    # Reading the model.

    def _terms(self, raw: Rows) -> list[tuple[str, Floats]]:
        """Log prior and log likelihoods of one row, float64 (C,) each, in the order of the sum."""
        rows = self.prepare(raw)
        for refusal in self.refusals(rows).values():
            raise refusal
        source, numbers = find(self._numbers, rows)
        keys, others = self._apart(rows)
        coded = self._categories.encode(others, np.zeros(1, dtype=np.int64))
        names = [
            PRIOR,
            *(rows.numeric_names[j] for j in source.tolist()),
            *(others.categorical_names[j] for j in coded.source.tolist()),
        ]
        out = np.zeros((len(names), len(self._classes)))
        x = np.ascontiguousarray(rows.numeric[:1, source])
        columns = x, numbers, np.ascontiguousarray(coded.code), coded.column
        if self._residents is not None and keys[0] is not None:
            self._make_room(len(self._classes))
            self._residents.admit([keys[0]], [], self._table)
        slot = int(self._slots(keys[:1].tolist())[0])
        t = self._table
        rest = self._how(), t.slots, t.entries, t.strengths, out
        kernels.terms_of(slot, columns, len(self._classes), *rest)
        return list(zip(names, out, strict=True))

    def explain_rows(
        self, rows: Rows, label: Label | None = None, against: Label | None = None
    ) -> Explanation:
        """`explain_one` of the one row of `rows`, without the features that say nothing."""
        why = super().explain_rows(rows, label, against)
        said = {k: v for k, v in why.contributions.items() if v != 0.0 or k == PRIOR}
        return replace(why, contributions=said)

    # State.

    def _export(self) -> State:
        names, table = self._keys.values, self._table
        keys: dict[str, Any] = {"refused": self._keys.overflow}
        if self._residents is not None:
            keys["refused"] = self._residents.overflow
            if self._in_store:
                known, outside = self._residents.known, self._residents.outside(table)
                point = dict(self._residents.commit(table))
                keys["stored"] = {"point": point, "known": known, "entries": outside}
                table = table.first_only()
            else:
                names, table = self._residents.whole(table, self.max_keys)
        parts = {
            "keys": State(keys, pack(names)),
            "numbers": State(named(self._numbers)),
            "categories": self._categories.export(),
            "table": table.export(ordered=self.keys_on_disk),
        }
        return State.join(parts)

    def _restore(self, state: State) -> None:
        keys = state.nested("keys")
        refused, names = count_in(keys.header, "refused"), self._names_in(keys)
        self._keys = self._keys.renewed(names, refused)
        self._numbers = restored(self._numbers, state.nested("numbers"))
        self._categories.restore(state.nested("categories"))
        if {*self._numbers} & {*self._categories.features}:
            raise StateError("expected one kind of each field, got numbers and categories of one")
        sizes = self._categories.sizes
        shape = len(names) + 1, len(self._classes), len(self._numbers)
        self._table.restore(state.nested("table"), *shape, sizes)
        if int(self._table.entries.used[0]) > self._entries + int(sizes.sum()):
            raise StateError("its keys have more values than there is room for; allow more bytes")
        if "stored" in keys.header:
            self._restore_stored(keys.header["stored"], refused)
        elif self._residents is not None:
            self._residents.take_over(names, refused, self._table)
            self._keys = self._keys.renewed(())

    def _names_in(self, keys: State) -> list[str]:
        """The names of the keys in memory."""
        names = texts(keys, distinct=True)
        if len(names) > self._keys.bound:
            raise StateError(
                f"it has models of {len(names):,} keys, and there is room for "
                f"{self._keys.bound:,}; allow more bytes or more keys"
            )
        return names

    def _restore_stored(self, stored: Mapping[str, Any], refused: int) -> None:
        """Take over the rows of keys that are in the store, or read all of them."""
        point, known = stored["point"], count_in(stored, "known", self.max_keys)
        entries = count_in(stored, "entries", MOST_KEYS)
        if self._residents is not None:
            self._residents.restore(point, known, refused)
            self._table.entries.used[2] = entries
            return
        if self._source is None:
            raise StateError("its keys are in a store, and this learner has no store")
        self._source.restore(point)
        rows = dict(self._source.rows())
        names, self._table = all_in_memory(rows, self._table, self.max_keys)
        self._keys = self._keys.renewed(names, refused)
