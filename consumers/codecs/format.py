"""What a wire format is: how the bytes of a record become a document of JSON values, and back.

Rule: an entry imports a decoder when it is used, because a configuration is checked without one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from consumers.codecs.schemas import StoredSchema
from stream.data.schema import Kind

if TYPE_CHECKING:
    from consumers.codecs.json import JsonObservations
    from consumers.codecs.rows import MessageReader

__all__ = ["Check", "Document", "Fields", "Reader", "RowFormat", "WireFormat", "Writer"]

Document = dict[str, Any]
Reader = Callable[[bytes], Document]  # raises RecordError
Check = Callable[[bytes], None]  # raises RecordError
Fields = Mapping[str, Kind]
Writer = Callable[[Mapping[str, Any]], bytes]  # raises ValueError


@dataclass(frozen=True, slots=True)
class RowFormat:
    """A format whose messages of observations have many rows. Other records are JSON.

    Parameters
    ----------
    measure
        Rows and unpacked bytes of a message, without decoding it; one row and no bytes if it cannot
        be read.
    reader
        Makes the reader of messages from the decoder of documents.
    recognizes
        Whether a value is such a message, and not JSON.
    documents
        The rows of a message as documents, at most so many. RecordError if it cannot be read.
    message
        A message of documents. ValueError if they have no common type.
    """

    measure: Callable[[bytes | None], tuple[int, int]]
    reader: Callable[[JsonObservations], MessageReader]
    recognizes: Callable[[bytes | None], bool]
    documents: Callable[[bytes | None, int], list[Document]]
    message: Callable[[Sequence[Mapping[str, Any]]], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class WireFormat:
    """One wire format. With `schema_type`, records are framed with the id of a schema.

    A format with `fields` is one of observations only: labels and predictions are JSON then.

    Parameters
    ----------
    name
        What `[input] format` names.
    title
        Its name in sentences.
    about
        A few words for the documentation.
    schema_type
        How a schema registry names it; "" if the records have no schema.
    modules, extra
        The modules it needs that not every installation has, and the extra that installs them.
    reader
        Makes the decoder of records that were written with a schema. The second argument is the
        reader's schema, or None. RecordError if the schema cannot be used.
    counter
        Makes the check that a payload has not too many values, without decoding it; None: each
        value has bytes of its own. RecordError if the schema cannot be used.
    writer
        Makes the encoder of documents. ValueError if the schema cannot be used.
    compiled
        Makes the stored form of a schema that the registry returned. It may start a process.
        RecordError if the schema cannot be used.
    predictions
        The schema of predictions as it is registered, and as it is stored; None without schemas.
    to_wire, from_wire
        Convert the document of a prediction to that of its schema, and back.
    content_type
        Its media type.
    check_reader
        Checks a reader's schema and returns it in a form in which equal ones are equal texts.
        ValueError if it is wrong. None: the format has no reader's schema.
    rows
        How messages with many rows are read. None: a message is one record.
    fields
        The fields of every observation, if the format decides them.
    versions
        Name to version of what decides the values of these fields. Another version is another
        model.
    identified
        The id in the bytes of a record without a key; None if its document has the id.
    expanded
        Completes a document that a request has in JSON. RecordError if it cannot.
    field
        The field of such a document that has the whole record in base64; None if it has none.
    ignoring
        Makes the format that takes some parts of a record for no evidence, by their names.
    """

    name: str
    title: str
    about: str
    schema_type: str = ""
    modules: tuple[str, ...] = ()
    extra: str = "registry"
    reader: Callable[[StoredSchema, str | None], Reader]
    counter: Callable[[StoredSchema], Check] | None = None
    writer: Callable[[StoredSchema], Writer]
    compiled: Callable[[StoredSchema], StoredSchema] = lambda schema: schema
    predictions: Callable[[], tuple[str, StoredSchema]] | None = None
    to_wire: Callable[[Document], Document] = lambda document: document
    from_wire: Callable[[Document], Document] = lambda document: document
    content_type: str = "application/json"
    check_reader: Callable[[str], str] | None = None
    rows: RowFormat | None = None
    fields: Fields | None = None
    versions: Callable[[], Mapping[str, str]] = dict
    identified: Callable[[bytes], str] | None = None
    expanded: Callable[[Document], Document] = lambda document: document
    field: str | None = None
    ignoring: Callable[[tuple[str, ...]], WireFormat] | None = None
