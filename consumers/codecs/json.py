"""JSON to columns and back.

Rule: the fast path is a typed decoder of msgspec. A record that it rejects takes the slow path
(`slow`: the standard library, then the conversions of `stream.data.schema`). Only the slow path
decides whether a record is bad, and why. So both paths agree. NaN, which msgspec rejects, counts
as a missing value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from math import inf
from typing import Annotated, Any

import msgspec
import numpy as np

from consumers.base.errors import RecordError
from consumers.codecs.json_document import LARGEST_RECORD, RULES, SHORT, parse, plain
from stream.data import schema as kinds
from stream.data.block import Rows
from stream.data.schema import Label, Schema
from stream.errors import InvalidRecordError
from stream.learner.explain import Explanation

__all__ = [
    "LARGEST_RECORD",
    "DecodedLabels",
    "DecodedObservations",
    "JsonLabels",
    "JsonObservations",
    "PredictionEncoder",
    "parse",
]

LONGEST_ID = 512

Number = float | None
Small = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]  # larger ones may be out of range
KIND_TYPES: dict[str, Any] = {
    "numeric": Number,
    "binary": bool | float | None,
    "categorical": bool | Small | str | None,
    "text": str | None,
}


@dataclass(slots=True)
class DecodedObservations:
    """Decoded observations; row i belongs to record i, rejected or not.

    `labels` holds the label inside an observation, or None.
    """

    rows: Rows
    ids: list[str]
    labels: list[object]
    rejected: dict[int, RecordError]


@dataclass(slots=True)
class DecodedLabels:
    """Decoded label records."""

    ids: list[str]
    labels: list[object]
    weights: list[float]
    rejected: dict[int, RecordError]


class JsonObservations:
    """Decoder of observation records.

    Parameters
    ----------
    schema
        The features; a dotted name is a path into nested objects.
    id_field
        Field with the id; the record's key where it is absent.
    label_field
        Field with the label, or None.
    rules
        See `consumers.codecs.json_document`.
    """

    def __init__(
        self, schema: Schema, id_field: str, label_field: str | None, rules: int = RULES
    ) -> None:
        self.schema = schema
        self.rules = rules
        self._category = kinds.category if rules > 1 else _rounded
        self._convert = _CONVERT | {"categorical": self._category}
        self.id_field = id_field
        self.label_field = label_field
        self._paths = {f.name: f.name.split(".") for f in schema.fields}
        names = (*self._paths, id_field, label_field or "")
        flat = not any(c in '."\\' or ord(c) < 32 for name in names for c in name)
        self._decoder = self._typed() if flat else None
        self._missing = (None,) * len(schema.fields)
        order = [f.name for f in schema.fields]
        self._numeric = [order.index(name) for name in schema.numeric]
        self._other = [order.index(name) for name in (*schema.categorical, *schema.text)]
        self._binary = [
            j
            for j, name in enumerate(schema.numeric)
            if schema.fields[order.index(name)].kind == "binary"
        ]

    def _typed(self) -> msgspec.json.Decoder[Any]:
        """A decoder to a struct of the declared fields, the id and the label, in this order."""
        names = [f.name for f in self.schema.fields]
        types = [KIND_TYPES[f.kind] for f in self.schema.fields]
        names.append(self.id_field)
        types.append(str | int | None)
        if self.label_field is not None:
            names.append(self.label_field)
            types.append(bool | int | str | None)
        fields = [(f"f{i}", t, None) for i, t in enumerate(types)]
        rename = {f"f{i}": name for i, name in enumerate(names)}
        return msgspec.json.Decoder(
            msgspec.defstruct("Observation", fields, rename=rename, gc=False)
        )

    def decode(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None]
    ) -> DecodedObservations:
        """Columns of the records."""
        n = len(values)
        tuples: list[tuple[Any, ...]] = []
        ids, labels = [""] * n, [None] * n  # type: list[str], list[object]
        rejected: dict[int, RecordError] = {}
        width, inside = len(self.schema.fields), self.label_field is not None
        decode, astuple = self._decoder and self._decoder.decode, msgspec.structs.astuple
        for i, value in enumerate(values):
            try:
                if decode is None:
                    raise msgspec.DecodeError
                safe = value is not None and len(value) <= SHORT and value.isascii()
                found = astuple(decode(value if safe else plain(value)))  # type: ignore[arg-type]
                id_, label = found[width], found[width + 1] if inside else None
                ids[i] = (
                    id_
                    if type(id_) is str and id_ and len(id_) <= LONGEST_ID
                    else _id(id_, keys[i])
                )
                labels[i] = label
                tuples.append(found[:width])
            except (msgspec.DecodeError, RecordError):
                tuples.append(self._missing)
                self._take_slow(i, keys[i], value, tuples, ids, labels, rejected)
        rows = self._rows(tuples)
        for i in self._suspects(rows):
            self._take_slow(i, keys[i], values[i], tuples, ids, labels, rejected)
            self._write(rows, i, tuples[i])
        return DecodedObservations(rows, ids, labels, rejected)

    def _take_slow(
        self,
        i: int,
        key: bytes | None,
        value: bytes | None,
        tuples: list[tuple[Any, ...]],
        ids: list[str],
        labels: list[object],
        rejected: dict[int, RecordError],
    ) -> None:
        try:
            tuples[i], ids[i], labels[i] = self.slow(key, value)
        except RecordError as error:
            tuples[i] = self._missing
            rejected[i] = error.bare()

    def slow(self, key: bytes | None, value: bytes | None) -> tuple[tuple[Any, ...], str, object]:
        """Features in the schema's order, id and label of one record, by the slow path.

        Raises
        ------
        RecordError
            The record is bad; the error has the reason.
        """
        document = parse(value, self.rules)
        features = []
        try:
            for f in self.schema.fields:
                found = _dig(document, self._paths[f.name])
                features.append(self._convert[f.kind](f.name, found))
        except InvalidRecordError as error:
            raise RecordError(error.reason, error.detail) from None
        id_ = _id(_dig(document, self.id_field.split(".")), key)
        label = _dig(document, self.label_field.split(".")) if self.label_field else None
        return tuple(features), id_, label

    def _rows(self, tuples: list[tuple[Any, ...]]) -> Rows:
        n = len(tuples)
        if not self._other:
            with suppress(TypeError):  # None: a number is missing
                rows = Rows.empty(self.schema, n)
                every = np.fromiter(chain.from_iterable(tuples), np.float64, rows.numeric.size)
                rows.numeric = every.reshape(rows.numeric.shape) + 0.0  # -0.0 becomes 0.0
                return rows
        rows = Rows.empty(self.schema, 0)
        columns = list(zip(*tuples, strict=True)) if tuples else [()] * len(self.schema.fields)
        numeric = np.empty((n, len(self._numeric)))
        for j, at in enumerate(self._numeric):
            numeric[:, j] = columns[at]
        rows.numeric = numeric + 0.0  # -0.0 becomes 0.0
        split = len(self.schema.categorical)
        other = np.empty((n, len(self._other)), dtype=object)
        for j, at in enumerate(self._other):
            convert = self._category if j < split else None
            column = columns[at]
            if convert is not None and not all(v is None or type(v) is str for v in column):
                column = tuple(convert("", v) for v in column)
            other[:, j] = column
        rows.categorical, rows.text = other[:, :split], other[:, split:]
        return rows

    def _suspects(self, rows: Rows) -> list[int]:
        """Rows with a number that the typed decoder accepts and the rules may reject."""
        bad = (np.abs(rows.numeric) > kinds.LARGEST).any(axis=1)
        for j in self._binary:
            column = rows.numeric[:, j]
            bad |= ~((column == 0.0) | (column == 1.0) | np.isnan(column))
        out: list[int] = np.flatnonzero(bad).tolist()
        return out

    def _write(self, rows: Rows, i: int, features: tuple[Any, ...]) -> None:
        one = self._rows([features])
        rows.put(np.array([i]), one)


class JsonLabels:
    """Decoder of label records: ``{"id": …, "label": …, "w": …}``; the id may be the key.

    Parameters
    ----------
    rules
        See `consumers.codecs.json_document`.
    """

    def __init__(self, rules: int = RULES) -> None:
        self.rules = rules

    def decode(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> DecodedLabels:
        """Columns of the records."""
        n = len(values)
        out = DecodedLabels([""] * n, [None] * n, [1.0] * n, {})
        ids, labels, weights, decode = out.ids, out.labels, out.weights, _LABEL.decode
        for i, value in enumerate(values):
            try:
                safe = value is not None and len(value) <= SHORT and value.isascii()
                record = decode(value if safe else plain(value))  # type: ignore[arg-type]
                if record.label is None or not 0 < record.w <= kinds.HEAVIEST:
                    raise msgspec.DecodeError
                id_ = record.id
                ids[i] = (
                    id_
                    if type(id_) is str and id_ and len(id_) <= LONGEST_ID
                    else _id(id_, keys[i])
                )
                labels[i], weights[i] = record.label, record.w
            except (msgspec.DecodeError, RecordError):
                try:
                    out.ids[i], out.labels[i], out.weights[i] = self.slow(keys[i], value)
                except RecordError as error:
                    out.rejected[i] = error.bare()
        return out

    def slow(self, key: bytes | None, value: bytes | None) -> tuple[str, object, float]:
        """Id, label and weight of one record, by the slow path; RecordError if it is bad."""
        document = parse(value, self.rules)
        label, w = document.get("label"), document.get("w", 1.0)
        if label is None:
            raise RecordError("no_label", 'a label record needs "label"')
        if isinstance(w, bool) or not isinstance(w, int | float) or not _usable(_float(w)):
            raise RecordError("bad_weight", '"w" expects a number above 0 and at most 2**53')
        return _id(document.get("id"), key), label, float(w)


class _Label(msgspec.Struct, gc=False):
    id: str | int | None = None
    label: bool | int | str | None = None
    w: float = 1.0


_LABEL = msgspec.json.Decoder(_Label)
_CONVERT: dict[str, Any] = {
    "numeric": kinds.number,
    "binary": kinds.binary,
    "text": kinds.text,
}


def _rounded(name: str, value: Any) -> str | None:
    """A category under rules 1."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        x = kinds.number(name, value)
        if abs(x) >= 2**53:
            return repr(x)
    return kinds.category(name, value)


def _dig(document: Mapping[str, Any], path: Sequence[str]) -> Any:
    found: Any = document
    for name in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    return found


def _float(w: float) -> float:
    try:
        return float(w)
    except OverflowError:
        return inf


def _usable(w: float) -> bool:
    return 0 < w <= kinds.HEAVIEST


def _id(value: Any, key: bytes | None) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if value is None and key:
        try:
            value = key.decode()
        except UnicodeDecodeError:
            raise RecordError("no_id", "no id field, and the key is not UTF-8") from None
    if not isinstance(value, str) or not value:
        raise RecordError("no_id", "expected an id (text or an integer) in the field or the key")
    if len(value) > LONGEST_ID:
        raise RecordError("no_id", f"an id has at most {LONGEST_ID} characters, got {len(value)}")
    return value


class _Model(msgspec.Struct, gc=False):
    name: str
    type: str
    learned: int


class _Position(msgspec.Struct, gc=False):
    topic: str
    partition: int
    offset: int


class _Decision(msgspec.Struct):
    action: Label | None
    risk: float | None


class _Explanation(msgspec.Struct):
    against: Label
    log_odds: float
    top: list[tuple[str, float]]


class _Prediction(msgspec.Struct, gc=False):
    id: str
    prediction: Label | None
    probabilities: list[tuple[Label, float]]
    model: _Model
    position: _Position
    ts: int
    decision: _Decision | msgspec.UnsetType = msgspec.UNSET
    explanation: _Explanation | msgspec.UnsetType = msgspec.UNSET


class PredictionEncoder:
    """Encoder of prediction records: they do not depend on the wall clock.

    Parameters
    ----------
    name, kind
        The model's name and type.
    explain
        How many of the largest contributions of features are written.
    """

    def __init__(self, name: str, kind: str, explain: int = 0) -> None:
        self.name, self.kind, self.explain = name, kind, explain
        self._encode = msgspec.json.Encoder().encode

    def encode(
        self,
        id_: str,
        best: Label | None,
        ranked: list[tuple[Label, float]],
        learned: int,
        position: tuple[str, int, int],
        ts: int,
        decision: tuple[Label | None, float | None] | None = None,
        why: Explanation | None = None,
    ) -> bytes:
        """One prediction; `ranked` are the classes to write, the most probable first.

        `decision` is action and risk. The record leaves out `decision` and `why` if they are None.
        """
        model = _Model(self.name, self.kind, learned)
        made = msgspec.UNSET if decision is None else _Decision(*decision)
        shares: _Explanation | msgspec.UnsetType = msgspec.UNSET
        if why is not None:
            shares = _Explanation(why.against, why.log_odds, why.top(self.explain))
        place = _Position(*position)
        return self._encode(_Prediction(id_, best, ranked, model, place, ts, made, shares))
