"""Change events of a table, as Debezium writes them: the row after the change is the record.

Rule: a change that is not asked for is ignored and counted. What is not a change event is a dead
letter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from consumers.base.errors import IgnoredRecordError, RecordError
from consumers.codecs.format import Document
from consumers.codecs.json_document import parse_quickly

__all__ = ["OPERATIONS", "ChangeEvents", "is_change"]

OPERATIONS = ("c", "r", "u", "d", "t", "m")  # create, read, update, delete, truncate, message


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


def is_change(document: Mapping[str, Any]) -> bool:
    """Whether a document is a change event.

    Examples
    --------
    >>> is_change({"op": "c"}), is_change({"schema": {}, "payload": {"op": "c", "after": {}}})
    (False, True)
    """
    event = _event(document)
    return event.get("op") in OPERATIONS and "after" in event


def _event(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The event without the schema beside it: schemas.enable of Kafka Connect."""
    inside = document.get("payload")
    return inside if "op" not in document and isinstance(inside, dict) else document


def _shown(event: Mapping[str, Any]) -> str:
    names = ", ".join(map(repr, sorted(event)[:5])) or "an empty object"
    return names[:100]
