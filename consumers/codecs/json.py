"""JSON to columns, and the documents of other wire formats to the same columns.

Rule: a block of records is decoded by one compiled call (`compiled`). The records that it does not
take, and blocks of few records, are decoded one by one: by a typed decoder of msgspec, or by a
second one if a number is a text that means "no value". A record that both reject takes the slow
path (`slow`: the standard library, then the conversions of `stream.data.schema`). Only the slow
path decides whether a record is bad, and why. So all paths agree. NaN, which msgspec rejects,
counts as a missing value.

A record of another wire format becomes a document of JSON values first (`documents`). From there on
it takes the same paths.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from consumers.base.converter import Converter
from consumers.base.errors import RecordError
from consumers.base.fields import MISSING, field_of, is_missing, name_of, number_in
from consumers.codecs.blocks import FEWEST, LabelBlocks, ObservationBlocks
from consumers.codecs.json_document import (
    LARGEST_RECORD,
    LONGEST_ID,
    SHORT,
    Repeated,
    field_in,
    flattened,
    may_repeat,
    parse,
    parse_quickly,
    parts_of,
    plain,
    uncut,
    whole_names,
)
from consumers.codecs.reporter import reporter_name
from consumers.codecs.unused import BadValue, Note, UnknownFields, like_one
from stream.data import schema as kinds
from stream.data.block import Rows
from stream.data.schema import Schema
from stream.errors import InvalidRecordError

__all__ = [
    "LARGEST_RECORD",
    "DecodedLabels",
    "DecodedObservations",
    "JsonLabels",
    "JsonObservations",
    "parse",
]


Number = float | None
Small = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]  # larger ones may be out of range
KIND_TYPES: dict[str, Any] = {
    "numeric": Number,
    "binary": bool | float | None,
    "categorical": bool | Small | str | None,
    "text": str | None,
}
# With texts, which may mean "no value".
TEXT_TYPES: dict[str, Any] = KIND_TYPES | {
    "numeric": float | str | None,
    "binary": bool | float | str | None,
}


@dataclass(slots=True)
class DecodedObservations:
    """Decoded observations; row i belongs to record i, rejected or not.

    `labels` holds the label inside an observation, or None. `bad` holds the values of a record that
    cannot be used and are taken as missing. `cut` counts the accepted records with half of a
    surrogate pair, which became U+FFFD, and `converted` the texts that became numbers. `given` bool
    (rows, categories and texts): which cells have a value, if the decoder knows it without a look
    at each.
    """

    rows: Rows
    ids: Sequence[str]
    labels: Sequence[object]
    rejected: dict[int, RecordError]
    bad: dict[int, tuple[BadValue, ...]] = field(default_factory=dict)
    cut: int = 0
    given: NDArray[np.bool_] | None = None
    converted: int = 0


@dataclass(slots=True)
class DecodedLabels:
    """Decoded label records."""

    ids: Sequence[str]
    labels: Sequence[object]
    weights: Sequence[float] | NDArray[np.float64]
    rejected: dict[int, RecordError]
    reporters: list[str | None] | None = None  # None: nobody is named


class JsonObservations:
    """Decoder of observation records.

    Parameters
    ----------
    schema
        The features. A field of the record with this name comes first; else a dotted name is a
        path into nested objects.
    id_field
        Field with the id; the record's key where it is absent.
    label_field
        Field with the label, or None.
    missing
        Texts that mean "no value" in a numeric or binary field.
    keep
        Whether a value that cannot be used is taken as missing. A record without any other value
        is rejected even then.
    documents
        Decodes a record of another wire format, whatever it is; None: the records are JSON.
    identified
        The id in the bytes of a record without a key.
    closed
        Whether the format decides the fields, so that none of them is unknown.
    as_text
        Numeric fields in which a text that is a number stands for it.
    """

    def __init__(
        self,
        schema: Schema,
        id_field: str,
        label_field: str | None,
        missing: Collection[str] = MISSING,
        *,
        keep: bool = False,
        documents: Callable[[Any], dict[str, Any]] | None = None,
        identified: Callable[[bytes], str] | None = None,
        closed: bool = False,
        as_text: Collection[str] = (),
    ) -> None:
        self.schema = schema
        self._as_text = {i for i, f in enumerate(schema.fields) if f.name in as_text}
        self._read = documents or parse_quickly
        self._identified = identified
        self.keep = keep
        self.missing = frozenset(missing)
        self.id_field = id_field
        self.label_field = label_field
        names = [f.name for f in schema.fields]
        names += [id_field] if label_field is None else [id_field, label_field]
        declared = names[: len(schema.fields)]
        self._unknown = None if closed else UnknownFields(declared, names[len(declared) :])
        self._names = parts_of(names)
        self._dotted = [i for i, name in enumerate(names) if "." in name]
        whole: dict[str, Any] = {id_field: "no_id"}
        if label_field is not None:
            whole.setdefault(label_field, "label_kind")
        self._slow = whole_names(documents or parse, whole)
        if documents is not None:  # of a document, unlike of bytes, nested values are found at once
            self._slow = flattened(self._slow, [names[i] for i in self._dotted])
            documents = self._slow
        self._documents = documents
        plain_numbers = not self._as_text
        flat = not any(c in '"\\' or ord(c) < 32 for name in names for c in name)
        self._nested = self._dotted if documents is None else []
        self._typed_decode = self._typed(KIND_TYPES) if flat and plain_numbers else None
        compiled = flat and documents is None and len(set(names)) == len(names) and plain_numbers
        self._blocks = ObservationBlocks(schema, id_field, label_field) if compiled else None
        texts = self.missing or self._as_text
        self._decode_texts = self._typed(TEXT_TYPES) if flat and texts else None
        self._blank = (None,) * len(schema.fields)
        self._none = Rows.empty(schema)  # never changed
        self._numbers = [i for i, f in enumerate(schema.fields) if f.kind in ("numeric", "binary")]
        order = [f.name for f in schema.fields]
        self._numeric = [order.index(name) for name in schema.numeric]
        self._other = [order.index(name) for name in (*schema.categorical, *schema.text)]
        self._binary = [
            j
            for j, name in enumerate(schema.numeric)
            if schema.fields[order.index(name)].kind == "binary"
        ]

    def _typed(self, kinds: Mapping[str, Any]) -> Callable[[Any], Any]:
        """Decodes to a struct of the declared fields, the id and the label, in this order."""
        names = [f.name for f in self.schema.fields]
        types = [kinds[f.kind] for f in self.schema.fields]
        names.append(self.id_field)
        types.append(str | int | None)
        if self.label_field is not None:
            names.append(self.label_field)
            types.append(bool | int | str | None)
        fields = [(f"f{i}", t, None) for i, t in enumerate(types)]
        rename = {f"f{i}": name for i, name in enumerate(names)}
        struct = msgspec.defstruct("Observation", fields, rename=rename, gc=False)
        return _decoder(struct, self._documents)

    def decode(self, keys: Sequence[bytes | None], values: Sequence[Any]) -> DecodedObservations:
        """Columns of the records."""
        if self._blocks is None or len(values) < FEWEST:
            return self.one_by_one(keys, values)
        block = self._blocks.read(keys, values)
        out = DecodedObservations(block.rows, block.ids, block.labels, {}, given=block.given)
        left = block.left
        if left:
            rest = self.one_by_one([keys[i] for i in left], [values[i] for i in left])
            out.rows.put(np.array(left), rest.rows)
            others = np.concatenate([rest.rows.categorical, rest.rows.text], axis=1)
            block.given[left] = [[cell is not None for cell in row] for row in others.tolist()]
            out.ids = _put(block.ids, left, rest.ids)
            out.labels = _put(block.labels, left, rest.labels)
            out.rejected.update((left[k], error) for k, error in rest.rejected.items())
            out.bad.update((left[k], fields) for k, fields in rest.bad.items())
            out.cut, out.converted = rest.cut, rest.converted
        return out

    def one_by_one(
        self, keys: Sequence[bytes | None], values: Sequence[Any]
    ) -> DecodedObservations:
        """As `decode`, without the compiled decoder."""
        n = len(values)
        if self._identified is not None:
            keys = [
                key if key or value is None else self._identified(value).encode()
                for key, value in zip(keys, values, strict=True)
            ]
        tuples: list[tuple[Any, ...]] = []
        ids, labels = [""] * n, [None] * n  # type: list[str], list[object]
        out = DecodedObservations(self._none, ids, labels, {})
        width, inside, dotted = len(self.schema.fields), self.label_field is not None, self._nested
        decode, astuple = self._typed_decode, msgspec.structs.astuple
        text = self._documents is None
        checked = plain if text else _unchecked
        for i, value in enumerate(values):
            try:
                if decode is None:
                    raise msgspec.DecodeError
                safe = text and value is not None and len(value) <= SHORT and value.isascii()
                found = astuple(decode(value if safe else checked(value)))
                if dotted and any(found[j] is None for j in dotted):
                    raise msgspec.DecodeError  # it may be in a nested object
                if text and may_repeat(value, len(found) - found.count(None), self._names):
                    raise msgspec.DecodeError
                id_, label = found[width], found[width + 1] if inside else None
                ids[i] = (
                    id_
                    if type(id_) is str and id_ and len(id_) <= LONGEST_ID
                    else _id(id_, keys[i])
                )
                labels[i] = label
                tuples.append(found[:width])
            except (msgspec.DecodeError, RecordError):
                tuples.append(self._blank)
                given = self._with_texts(keys[i], value)
                if given is not None:
                    tuples[i], ids[i], labels[i], converted = given
                    out.converted += converted
                else:
                    tuples[i] = self._take_slow(i, keys[i], value, out, (ids, labels))
        rows = out.rows = self._rows(tuples)
        for i in self._suspects(rows):
            self._write(rows, i, self._take_slow(i, keys[i], values[i], out, (ids, labels)))
        return out

    def _with_texts(
        self, key: bytes | None, value: bytes | None
    ) -> tuple[tuple[Any, ...], str, object, int] | None:
        """As `slow`, for a record whose numbers are numbers, texts for "no value" or, where they
        may be, numbers as texts, with how many of these there are; else None."""
        if self._decode_texts is None:
            return None
        try:
            decoded = self._decode_texts(plain(value) if self._documents is None else value)
            found = list(msgspec.structs.astuple(decoded))
            id_ = _id(found[width := len(self.schema.fields)], key)
        except (msgspec.DecodeError, RecordError):
            return None
        again = self._documents is None and value and may_repeat(value, 0, self._names)
        if again or any(found[j] is None for j in self._nested):
            return None
        converted = 0
        for j in self._numbers:
            if type(found[j]) is str:
                if is_missing(found[j], self.missing):
                    found[j] = None
                    continue
                number = number_in(found[j]) if j in self._as_text else None
                if number is None:
                    return None
                found[j], converted = number, converted + 1
        label = None if self.label_field is None else found[width + 1]
        return tuple(found[:width]), id_, label, converted

    def _take_slow(
        self,
        i: int,
        key: bytes | None,
        value: bytes | None,
        out: DecodedObservations,
        into: tuple[list[str], list[object]],
    ) -> tuple[Any, ...]:
        """The features of record i by the slow path; id and label are written to `into`, and the
        rest to `out`."""
        ids, labels = into
        try:
            features, ids[i], labels[i], bad = self.slow(key, value)
        except RecordError as error:
            out.rejected[i] = error.bare()
            return self._blank
        if bad:
            out.bad[i] = bad
        out.cut += isinstance(value, bytes) and uncut(value) != value
        return features

    def slow(
        self, key: bytes | None, value: bytes | None
    ) -> tuple[tuple[Any, ...], str, object, tuple[BadValue, ...]]:
        """Features in the schema's order, id, label and bad values of a record, by the slow path.

        Raises
        ------
        RecordError
            The record is bad; the error has the reason.
        """
        document = self._slow(value)
        features: list[Any] = []
        bad: list[BadValue] = []
        for j, f in enumerate(self.schema.fields):
            found = field_in(document, f.name)
            if f.kind in ("numeric", "binary") and isinstance(found, str):
                if is_missing(found, self.missing):
                    found = None
                elif j in self._as_text and (number := number_in(found)) is not None:
                    found = number
            if type(found) is Repeated:
                bad.append(BadValue(f.name, "wrong_kind", f"field {f.name!r} {found}", found))
                found = None
            try:
                features.append(_CONVERT[f.kind](f.name, found))
            except InvalidRecordError as error:
                bad.append(BadValue(f.name, error.reason, error.detail, found))
                features.append(_CONVERT[f.kind](f.name, None))
        if bad and not (self.keep and any(v is not None and v == v for v in features)):
            raise RecordError(bad[0].reason, bad[0].detail)
        id_ = _id(field_of(document, self.id_field), key, self.id_field)
        label = name_of(field_of(document, self.label_field)) if self.label_field else None
        return tuple(features), id_, label, tuple(bad)

    def notes(self, value: Any, bad: Sequence[BadValue]) -> list[Note]:
        """What of a usable observation is not used; `bad`: its bad values."""
        found = [Note.of_bad(each) for each in bad]
        return found if self._unknown is None else found + self._unknown.notes(self._read(value))

    def unknown(self, value: Any) -> list[tuple[str, object]]:
        """The fields of a usable observation that nobody declared, with their values."""
        return [] if self._unknown is None else self._unknown.values(self._read(value))

    def _rows(self, tuples: list[tuple[Any, ...]]) -> Rows:
        n = len(tuples)
        if not self._other:
            with suppress(TypeError):  # None: a number is missing
                rows = Rows.empty(self.schema, n)
                every = np.fromiter(chain.from_iterable(tuples), np.float64, rows.numeric.size)
                rows.numeric = every.reshape(rows.numeric.shape) + 0.0  # -0.0 becomes 0.0
                return rows
        columns = list(zip(*tuples, strict=True)) if tuples else [()] * len(self.schema.fields)
        numeric = np.empty((n, len(self._numeric)))
        for j, at in enumerate(self._numeric):
            numeric[:, j] = columns[at]
        split = len(self.schema.categorical)
        other = np.empty((n, len(self._other)), dtype=object)
        for j, at in enumerate(self._other):
            convert = kinds.category if j < split else None
            column = columns[at]
            if convert is not None and not all(v is None or type(v) is str for v in column):
                column = tuple(convert("", v) for v in column)
            other[:, j] = column
        return Rows(
            self._none.numeric_names,
            numeric + 0.0,  # -0.0 becomes 0.0
            self._none.categorical_names,
            other[:, :split],
            self._none.text_names,
            other[:, split:],
            self._none.binary_names,
        )

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
    """Decoder of label records: ``{"id": …, "label": …, "w": …}``; the id may be the key. With
    `reporter` it may also name who gave the label.

    Parameters
    ----------
    documents
        Decodes a record of another wire format; None: the records are JSON.
    reporter
        The field that names who gave the label; None: nobody is named.
    heaviest
        The largest weight, see `[labels] max_weight`.
    """

    def __init__(
        self,
        documents: Callable[[bytes | None], dict[str, Any]] | None = None,
        reporter: str | None = None,
        heaviest: float = kinds.HEAVIEST,
    ) -> None:
        whole: dict[str, Any] = {"id": "no_id", "label": "label_kind", "w": "bad_weight"}
        if reporter is not None:
            whole.setdefault(reporter, "bad_reporter")
        self._names = parts_of(whole)
        self._slow = whole_names(documents or parse, whole)
        documents = None if documents is None else self._slow
        self._documents = documents
        self.reporter, self.heaviest = reporter, heaviest
        self._unknown = UnknownFields(("id", "label", "w"), [reporter] if reporter else ())
        self._typed_decode = _label_decoder(documents, reporter)
        compiled = documents is None and self._typed_decode is not None
        self._blocks = LabelBlocks(reporter, heaviest) if compiled else None

    def decode(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> DecodedLabels:
        """Columns of the records."""
        if self._blocks is None or len(values) < FEWEST:
            return self.one_by_one(keys, values)
        block = self._blocks.read(keys, values)
        out = DecodedLabels(block.ids, block.labels, block.weights, {}, block.reporters)
        left = block.left
        if left:
            rest = self.one_by_one([keys[i] for i in left], [values[i] for i in left])
            out.ids = _put(block.ids, left, rest.ids)
            out.labels = _put(block.labels, left, rest.labels)
            block.weights[left] = rest.weights
            if block.reporters is not None and rest.reporters is not None:
                out.reporters = _put(block.reporters, left, rest.reporters)
            out.rejected.update((left[k], error) for k, error in rest.rejected.items())
        return out

    def one_by_one(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None]
    ) -> DecodedLabels:
        """As `decode`, without the compiled decoder."""
        n, decode = len(values), self._typed_decode
        ids, labels, weights = [""] * n, [None] * n, [1.0] * n  # type: list[str], list[object], list[float]
        out = DecodedLabels(ids, labels, weights, {})
        named = out.reporters = None if self.reporter is None else [None] * n
        text = self._documents is None
        checked = plain if text else _unchecked
        for i, value in enumerate(values):
            try:
                if decode is None:
                    raise msgspec.DecodeError
                safe = value is not None and len(value) <= SHORT and value.isascii()
                record = decode(value if safe else checked(value))
                if record.label is None or not 0 < record.w <= self.heaviest:
                    raise msgspec.DecodeError
                if text and value and may_repeat(value, 2 - (record.id is None), self._names):
                    raise msgspec.DecodeError
                id_ = record.id
                ids[i] = (
                    id_
                    if type(id_) is str and id_ and len(id_) <= LONGEST_ID
                    else _id(id_, keys[i])
                )
                if named is not None:
                    named[i] = reporter_name(record.reporter)
                labels[i], weights[i] = record.label, record.w
            except (msgspec.DecodeError, RecordError):
                try:
                    ids[i], labels[i], weights[i], who = self.slow(keys[i], value)
                except RecordError as error:
                    out.rejected[i] = error.bare()
                    continue
                if named is not None:
                    named[i] = who
        return out

    def slow(self, key: bytes | None, value: bytes | None) -> tuple[str, object, float, str | None]:
        """Id, label, weight and reporter of one record, by the slow path, or RecordError."""
        document = self._slow(value)
        label, w = name_of(document.get("label")), document.get("w", 1.0)
        if label is None:
            like = None if "label" in document else like_one("label", document)
            has = f", and this one has {like!r}" if like else ""
            raise RecordError("no_label", f'a label record needs "label"{has}')
        number = isinstance(w, int | float) and not isinstance(w, bool)
        if not number or not 0 < _float(w) <= self.heaviest:
            most = f"{self.heaviest:g} ([labels] max_weight)"
            raise RecordError("bad_weight", f'"w" expects a number above 0 and at most {most}')
        who = None if self.reporter is None else reporter_name(field_of(document, self.reporter))
        return _id(document.get("id"), key), label, float(w), who

    def unknown(self, value: Any) -> list[tuple[str, object]]:
        """The fields of a label record that nobody reads, with their values, or RecordError."""
        return self._unknown.values((self._documents or parse_quickly)(value))


def _put(column: Sequence[Any], at: Sequence[int], values: Sequence[Any]) -> list[Any]:
    """The column as a list, with other values at these places."""
    out = list(column)
    for i, value in zip(at, values, strict=True):
        out[i] = value
    return out


class _Label(msgspec.Struct, gc=False):
    id: str | int | None = None
    label: bool | int | str | None = None
    w: float = 1.0


_decode_label, _label = msgspec.json.Decoder(_Label).decode, Converter(_Label)


def _label_decoder(
    documents: Callable[[bytes | None], dict[str, Any]] | None, reporter: str | None
) -> Callable[[Any], Any] | None:
    """Decodes the fields of a label record; None: only the slow path finds the reporter."""
    if reporter is None:
        return _decode_label if documents is None else _converted(documents, _label)
    if "." in reporter or any(c in '"\\' or ord(c) < 32 for c in reporter):
        return None
    fields = [("reporter", Any, None)]
    struct = msgspec.defstruct(
        "Label", fields, bases=(_Label,), rename={"reporter": reporter}, gc=False
    )
    return _decoder(struct, documents)


def _decoder(
    struct: type[Any], documents: Callable[[bytes | None], dict[str, Any]] | None
) -> Callable[[Any], Any]:
    """Decodes a record to the struct, if the typed decoder can. DecodeError or RecordError."""
    if documents is None:
        return msgspec.json.Decoder(struct).decode
    return _converted(documents, Converter(struct))


def _converted(
    documents: Callable[[bytes | None], dict[str, Any]], converter: Converter[Any]
) -> Callable[[Any], Any]:
    return lambda value: converter(documents(value))


def _unchecked(value: bytes | None) -> bytes | None:
    return value


_CONVERT: dict[str, Any] = {
    "numeric": kinds.number,
    "categorical": kinds.category,
    "binary": kinds.binary,
    "text": kinds.text,
}


def _float(w: float) -> float:
    try:
        return float(w)
    except OverflowError:
        return inf


def _id(value: Any, key: bytes | None, field: str = "id") -> str:
    value = name_of(value)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if value is None and key:
        try:
            value = key.decode()
        except UnicodeDecodeError:
            raise RecordError("no_id", "no id field, and the key is not UTF-8") from None
    if not isinstance(value, str) or not value:
        raise RecordError(
            "no_id", f"expected an id (text or an integer) in field {field!r} or as the key"
        )
    if len(value) > LONGEST_ID:
        raise RecordError("no_id", f"an id has at most {LONGEST_ID} characters, got {len(value)}")
    return value
