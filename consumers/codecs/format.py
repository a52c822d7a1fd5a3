"""What a wire format is: how the bytes of a record become a document of JSON values, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from consumers.codecs.schemas import StoredSchema

__all__ = ["Document", "Reader", "WireFormat", "Writer"]

Document = dict[str, Any]
Reader = Callable[[bytes], Document]  # raises RecordError
Writer = Callable[[Mapping[str, Any]], bytes]  # raises ValueError


@dataclass(frozen=True, slots=True, kw_only=True)
class WireFormat:
    """One wire format. Its records are framed with the id of a registered schema, except JSON's.

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
    modules
        The modules it needs that not every installation has.
    reader
        Makes the decoder of records that were written with a schema. The second argument is the
        reader's schema, or None. RecordError if the schema cannot be used.
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
    """

    name: str
    title: str
    about: str
    schema_type: str = ""
    modules: tuple[str, ...] = ()
    reader: Callable[[StoredSchema, str | None], Reader]
    writer: Callable[[StoredSchema], Writer]
    compiled: Callable[[StoredSchema], StoredSchema] = lambda schema: schema
    predictions: Callable[[], tuple[str, StoredSchema]] | None = None
    to_wire: Callable[[Document], Document] = lambda document: document
    from_wire: Callable[[Document], Document] = lambda document: document
    content_type: str = "application/json"
    check_reader: Callable[[str], str] | None = None
