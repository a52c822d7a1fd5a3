"""What a client writes: observations and labels as JSON records, each with an id.

Rule: every record has an id before it is sent. A record that is sent twice, because an answer was
lost, is then recognized by the join, and is learned once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from datetime import UTC, datetime
from itertools import repeat
from typing import NamedTuple, TypeVar, cast
from uuid import uuid4

from consumers.api.contract import Label, RecordPosition
from consumers.base.errors import ConfigError, RecordError
from consumers.base.fields import field_of, key_of, name_of, timestamp_ms
from consumers.codecs.encoded import encoded
from consumers.codecs.json_document import LARGEST_RECORD, LONGEST_ID
from consumers.codecs.values import json_value

__all__ = [
    "Id",
    "Prepared",
    "Time",
    "TopicNames",
    "Written",
    "chunks",
    "prepare_features",
    "prepare_label",
    "prepare_labels",
    "prepare_observations",
]

Id = str | int
Time = datetime | str | int | float
MOST_RECORDS = 1000  # of a chunk: what `[serve] max_records` accepts
MOST_BYTES = 2**20  # of a chunk: what `[serve] max_body_bytes` accepts
_JSON_TYPES = {str, int, float, bool, type(None)}

T = TypeVar("T")


class TopicNames(NamedTuple):
    """The topics of a service; None: not known."""

    observations: str | None = None
    labels: str | None = None
    predictions: str | None = None


class Written(RecordPosition):
    """Where a record is in its topic, and its id."""

    id: str


class Prepared(NamedTuple):
    """A record to write."""

    id: str
    value: bytes
    ts: int | None

    def written(self, topic: str, partition: int, offset: int) -> Written:
        """The result, once it is written."""
        return Written(topic, partition, offset, self.id)


def prepare_observations(
    xs: Iterable[Mapping[str, object]],
    ids: Iterable[Id | None] | None,
    ts: Iterable[Time | None] | None,
    id_field: str,
) -> Iterator[Prepared]:
    """Observations to write. One without an id gets a new one.

    Raises
    ------
    RecordError
        It is no JSON object, has an invalid id, or is too large.
    ConfigError
        Arguments differ in length, or the id is given twice.

    Examples
    --------
    >>> [made] = prepare_observations([{"x": 1.5}], [7], None, "id")
    >>> made.id, made.value
    ('7', b'{"x":1.5,"id":7}')
    """
    for features, given, when in _rows(xs, ids, ts):
        x = _plain(features)
        inside = field_of(x, id_field)
        if inside is not None and given is not None and str(inside) != str(given):
            raise ConfigError(
                f"expected one id, got {given!r} and {inside!r} in field {id_field!r}; give one"
            )
        id_ = _checked(given if inside is None else inside)
        record = dict(x) if inside is not None else _with_id(x, id_field, id_)
        yield Prepared(str(id_), _json(record), _ms(when))


def prepare_labels(
    ids: Iterable[Id],
    values: Iterable[Label],
    ws: Iterable[float | None] | None,
    ts: Iterable[Time | None] | None,
    reporters: Iterable[str | int | None] | None,
    reporter_field: str | None,
) -> Iterator[Prepared]:
    """Labels to write. For the errors see `prepare_label`."""
    for ((id_, value, w), when), who in _pairs(_pairs(_triples(ids, values, ws), ts), reporters):
        yield prepare_label(id_, value, w, when, who, reporter_field)


def prepare_label(
    id_: Id,
    value: Label,
    w: float | None,
    when: Time | None,
    reporter: str | int | None = None,
    reporter_field: str | None = None,
) -> Prepared:
    """A label to write.

    Parameters
    ----------
    reporter, reporter_field
        Who gave it, and the field for the name; None: the service has no reporters.

    Raises
    ------
    RecordError
        It is no text, integer or bool, or the reporter is neither a text nor an integer; also see
        `prepare_observations`.
    ConfigError
        The service has no reporters.

    Examples
    --------
    >>> prepare_label(7, "fraud", None, None).value
    b'{"id":7,"label":"fraud"}'
    >>> prepare_label(7, "fraud", None, None, "ann", "by").value
    b'{"id":7,"label":"fraud","by":"ann"}'
    """
    from stream.data.schema import plain_label  # with numpy; who only asks does not need it
    from stream.errors import InvalidRecordError

    if value is None:
        raise RecordError("no_label", "expected a label, got None")
    try:
        value = plain_label(value)
    except InvalidRecordError as error:
        number = type(value).__name__.startswith("float")
        do = f" {value}; int(label) or str(label) makes a class of a number" if number else ""
        raise RecordError("label_kind", f"{error.detail}{do}") from None
    id_ = _checked(id_, generate=False)
    record: dict[str, object] = {"id": id_, "label": value}
    if w is not None:
        record["w"] = w
    if reporter is not None:
        from consumers.codecs.reporter import reporter_name

        if reporter_field is None:
            raise ConfigError(
                f"reporter={reporter!r}: [labels] reporter is not set, so the service would not "
                "read it; set it, or remove the argument"
            )
        record[reporter_field] = reporter_name(reporter)
    return Prepared(str(id_), _json(record), _ms(when))


def prepare_features(xs: Iterable[Mapping[str, object]]) -> Iterator[Prepared]:
    """Observations to predict, which need no id."""
    for x in xs:
        yield Prepared("", _json(_plain(x)), None)


def chunks(records: Iterable[Prepared]) -> Iterator[list[Prepared]]:
    """Records in lists that a service accepts as one request; at most one is held back."""
    chunk: list[Prepared] = []
    size = 0
    for record in records:
        more = len(record.value) + 1
        if chunk and (len(chunk) == MOST_RECORDS or size + more > MOST_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(record)
        size += more
    if chunk:
        yield chunk


def _plain(x: object) -> Mapping[str, object]:
    """The features as values of JSON, by the rule of typed formats."""
    if not isinstance(x, Mapping):
        raise RecordError("unparsable", f"expected a dict of features, got {type(x).__name__}")
    if set(map(type, x.values())) <= _JSON_TYPES:
        return x
    out = {}
    for name, value in x.items():
        try:
            out[name] = json_value(value, strict=True)
        except UnicodeDecodeError:
            raise RecordError(
                "unparsable", f"field {name!r} has bytes that are not UTF-8; send text or numbers"
            ) from None
    return out


def _checked(given: object, *, generate: bool = True) -> Id:
    """The id; a new one for None."""
    if given is None and generate:
        return uuid4().hex
    if hasattr(given, "item"):
        given = given.item()  # of numpy
    given = name_of(given)
    if isinstance(given, bool) or not isinstance(given, str | int) or given == "":
        raise RecordError("no_id", f"expected an id as text or an integer, got {given!r}")
    if key_of(given) is None:
        raise RecordError(
            "no_id", f"expected an id of whole characters, got {given!r}, which is cut within one"
        )
    if len(str(given)) > LONGEST_ID:
        raise RecordError(
            "no_id", f"expected an id of at most {LONGEST_ID} characters, got {len(str(given))}"
        )
    return given


def _with_id(x: Mapping[str, object], id_field: str, id_: Id) -> dict[str, object]:
    """A copy with the id; the objects of a dotted name are made where they are missing."""
    name, dot, rest = id_field.partition(".")
    if not dot:
        return {**x, name: id_}
    inner = x.get(name)
    return {**x, name: _with_id(inner if isinstance(inner, Mapping) else {}, rest, id_)}


def _json(record: Mapping[str, object]) -> bytes:
    try:
        value = encoded(record)
    except (TypeError, ValueError, RecursionError) as error:
        wrong = next((name for name, each in record.items() if not _has_json(each)), None)
        field = "" if wrong is None else f" in field {wrong!r}"
        raise RecordError("unparsable", f"expected values that JSON has{field}: {error}") from None
    if len(value) > LARGEST_RECORD:
        raise RecordError("oversize", f"{len(value):,} bytes, at most {LARGEST_RECORD:,}")
    return value


def _has_json(value: object) -> bool:
    try:
        encoded({"": value})
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _ms(when: Time | None) -> int | None:
    if when is None:
        return None
    if isinstance(when, datetime):
        zoned = when if when.tzinfo else when.replace(tzinfo=UTC)
        return round(zoned.timestamp() * 1000)
    try:
        return timestamp_ms(when)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _rows(
    xs: Iterable[Mapping[str, object]],
    ids: Iterable[Id | None] | None,
    ts: Iterable[Time | None] | None,
) -> Iterator[tuple[Mapping[str, object], Id | None, Time | None]]:
    for (x, id_), when in _pairs(_pairs(xs, ids), ts):
        yield x, id_, when


def _triples(
    ids: Iterable[Id], values: Iterable[Label], ws: Iterable[float | None] | None
) -> Iterator[tuple[Id, Label, float | None]]:
    for (id_, value), w in _pairs(_pairs(ids, values), ws):
        yield id_, value, w  # type: ignore[misc]  # `prepare_label` refuses None


S = TypeVar("S")


def _pairs(left: Iterable[T], right: Iterable[S] | None) -> Iterator[tuple[T, S | None]]:
    """Pairs; None beside each without `right`.

    Raises
    ------
    ConfigError
        One is a set: its order is not that of the other.
    """
    for side in (left, right):
        if isinstance(side, set | frozenset):
            raise ConfigError(
                "expected ids, labels, weights and times in the order of the records, got a "
                f"{type(side).__name__}; give a list"
            )
    if right is None:
        return zip(left, repeat(None))
    return _strict(left, right)


def _strict(left: Iterable[T], right: Iterable[S]) -> Iterator[tuple[T, S | None]]:
    n, rest, end = 0, iter(right), object()
    for n, item in enumerate(left, 1):
        other = next(rest, end)
        if other is end:
            raise _unequal(_count(left, f"at least {n}"), n - 1)
        yield item, cast(S, other)
    if next(rest, end) is not end:
        raise _unequal(n, _count(right, f"at least {n + 1}"))


def _count(items: Iterable[object], otherwise: str) -> int | str:
    return len(items) if isinstance(items, Sized) else otherwise


def _unequal(records: int | str, others: int | str) -> ConfigError:
    return ConfigError(
        "expected as many ids, labels, weights and times as records, got "
        f"{others} for {records}; give one for each record, or None"
    )
