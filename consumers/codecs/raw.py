"""Formats that decide their fields (mail and texts), and change events of a table, as Debezium
writes them: the row after the change is the record.

Rule: a change that is not asked for is ignored and counted. What is not a change event is a dead
letter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from consumers.base.errors import ConfigError, IgnoredRecordError, RecordError
from consumers.codecs.format import Document, WireFormat
from consumers.codecs.json_document import parse_quickly
from consumers.codecs.schemas import StoredSchema
from consumers.mail.fields import FAULTS
from consumers.mail.later import IGNORED, ignored_in
from stream.data.block import Rows
from stream.data.schema import Schema

__all__ = [
    "OPERATIONS",
    "ROWS",
    "ChangeEvents",
    "JsonDocuments",
    "RawDocuments",
    "event_of",
    "faults",
    "faults_of",
    "operation_of",
    "reading",
    "refused",
    "row_of",
]

_STRUCTURE, _WRONG = "structure", "wrong_"

Documents = Callable[[bytes | None], Document]


class RawDocuments:
    """Decodes the records of a topic.

    Parameters
    ----------
    wire
        The format.

    Examples
    --------
    >>> from consumers.codecs.registry import wire_format
    >>> RawDocuments(wire_format("text"))(b"hello")
    {'text': 'hello'}
    """

    def __init__(self, wire: WireFormat) -> None:
        self._title = wire.title
        self._read = wire.reader(StoredSchema("", ""), None)

    def __call__(self, value: bytes | None) -> Document:
        """The document of a record. RecordError if it cannot be decoded."""
        if value is None:
            raise RecordError("unparsable", f"expected {self._title}, got no value")
        return self._read(value)


class JsonDocuments:
    """Decodes the JSON in which requests and files give such records.

    Parameters
    ----------
    wire
        The format.

    Examples
    --------
    >>> from consumers.codecs.registry import wire_format
    >>> documents = JsonDocuments(wire_format("mail"))
    >>> documents(b'{"id": "7", "mail": "U3ViamVjdDogaGkKCg=="}')["subject"]
    'hi'
    """

    def __init__(self, wire: WireFormat) -> None:
        self._expanded = wire.expanded

    def __call__(self, value: bytes | None) -> Document:
        """The document of a record. RecordError if it cannot be decoded."""
        return self._expanded(parse_quickly(value))


def reading(wire: WireFormat, parser: Mapping[str, str]) -> WireFormat:
    """The format as an identity's parser says: without the headers that are no evidence."""
    names = ignored_in(parser)
    return wire if not names or wire.ignoring is None else wire.ignoring(names)


def refused(journaled: Mapping[str, str], installed: Mapping[str, str]) -> Documents | None:
    """A decoder that refuses all records, if they were parsed by something that is not installed;
    else None.

    A start compares the identities and is refused before. This is for the past: a replay with
    another parser would give another model.

    Examples
    --------
    >>> refused({"selectolax": "1.0.2"}, {"selectolax": "1.0.2"})
    >>> refused({"selectolax": "1.0.2"}, {"selectolax": "1.0.3"})(b"")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    consumers.base.errors.ConfigError: these records were parsed by selectolax 1.0.2, ...
    """
    for name, version in journaled.items():
        if name == IGNORED:
            continue
        if (now := installed.get(name, "none")) != version:
            return partial(_refuse, name, version, now)
    return None


def _refuse(name: str, version: str, now: str, value: bytes | None) -> Document:
    raise ConfigError(
        f"these records were parsed by {name} {version}, and {now} is installed: install "
        f"{name}=={version} to replay them"
    )


def faults(rows: Rows, schema: Schema) -> Counter[str]:
    """The faults of the mails among some observations, with how many mails have each.

    Examples
    --------
    >>> import numpy as np
    >>> schema = Schema.of(structure="text")
    >>> rows = Rows.empty(schema, 0)
    >>> rows.text = np.array([["text_plain wrong_nul"], [None]], dtype=object)
    >>> faults(rows, schema)
    Counter({'wrong_nul': 1})
    """
    found: Counter[str] = Counter()
    if _STRUCTURE in schema.text:
        for text in rows.text[:, schema.text.index(_STRUCTURE)].tolist():
            if text is not None and _WRONG in text:
                found.update(word for word in text.split() if word.startswith(_WRONG))
    return found


def faults_of(counts: Mapping[str, int]) -> dict[str, int]:
    """Of counts those of `faults`, by the name of the fault; all of them, in one order."""
    return {fault: counts.get(f"{_WRONG}{fault}", 0) for fault in FAULTS}


OPERATIONS = ("c", "r", "u", "d", "t", "m")  # create, read, update, delete, truncate, message
ROWS = ("c", "r")  # those whose row is a new one


class ChangeEvents:
    """Decodes change events to the rows after them.

    Parameters
    ----------
    wanted
        The operations whose rows are records.
    documents
        Decodes the event, whatever its format; None: it is JSON.

    Examples
    --------
    >>> rows = ChangeEvents(["c"])
    >>> rows(b'{"op": "c", "before": null, "after": {"id": 7}}')
    {'id': 7}
    >>> rows(b'{"op": "d", "before": {"id": 7}, "after": null}')
    Traceback (most recent call last):
    consumers.base.errors.IgnoredRecordError: unparsable: a change event of the operation 'd'
    """

    def __init__(
        self,
        wanted: Collection[str],
        documents: Callable[[bytes | None], Document] | None = None,
    ) -> None:
        self._wanted, self._documents = frozenset(wanted), documents or parse_quickly

    def __call__(self, value: bytes | None) -> Document:
        """The row. RecordError if it cannot be decoded, IgnoredRecordError if it is not wanted."""
        event = _event(self._documents(value))
        operation, row = event.get("op"), event.get("after")
        if operation not in OPERATIONS:
            raise RecordError(
                "unparsable",
                f'expected a change event with "op" and "after", got {_shown(event)}',
            )
        if operation not in self._wanted:
            raise IgnoredRecordError("unparsable", f"a change event of the operation {operation!r}")
        if not isinstance(row, dict):
            raise RecordError("unparsable", f'expected an object in "after", got {row!r:.40}')
        return row


def operation_of(document: Mapping[str, Any]) -> str | None:
    """The operation of a change event; None of another document.

    Examples
    --------
    >>> operation_of({"schema": {}, "payload": {"op": "c", "after": {}}})
    'c'
    >>> operation_of({"op": "c"})
    """
    event = _event(document)
    operation = event.get("op")
    known = operation in OPERATIONS and ("after" in event or "source" in event)
    return operation if known else None


def row_of(document: Mapping[str, Any], wanted: Collection[str]) -> Document | None:
    """The row of a change event of these operations, None of another one. A document that is no
    change event is a row itself.

    Examples
    --------
    >>> row_of({"op": "c", "after": {"id": 7}}, ROWS), row_of({"id": 7}, ROWS)
    ({'id': 7}, {'id': 7})
    >>> row_of({"op": "d", "before": {"id": 7}, "after": None}, ROWS)
    """
    operation = operation_of(document)
    if operation is None:
        return document if isinstance(document, dict) else dict(document)
    row = _event(document).get("after") if operation in wanted else None
    return row if isinstance(row, dict) else None


def event_of(row: bytes, wanted: Collection[str]) -> bytes:
    """A row in JSON as a change event of the first of these operations.

    Examples
    --------
    >>> event_of(b'{"id":7}', ROWS)
    b'{"op":"c","after":{"id":7}}'
    """
    return b'{"op":"%s","after":%s}' % (next(iter(wanted)).encode(), row)


def _event(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The event; with `schemas.enable` Kafka Connect writes its schema beside it."""
    inside = document.get("payload")
    return inside if "op" not in document and isinstance(inside, dict) else document


def _shown(event: Mapping[str, Any]) -> str:
    names = ", ".join(map(repr, sorted(event)[:5])) or "an empty object"
    return names[:100]
