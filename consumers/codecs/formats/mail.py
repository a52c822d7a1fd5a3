"""Raw mail as a record: RFC 5322 and MIME, as texts and numbers.

A record's id is its key, or else that of the mail. In JSON a mail is base64 in the field `mail`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from consumers.codecs.format import Document, Reader, WireFormat, Writer
from consumers.codecs.schemas import StoredSchema
from consumers.mail.envelope import mail_key
from consumers.mail.fields import FIELDS, MODULES, versions

__all__ = ["FORMAT"]

FIELD = "mail"  # of a document


def _reader(schema: StoredSchema, readers_schema: str | None) -> Reader:
    from consumers.mail.document import mail_document

    return mail_document


def _writer(schema: StoredSchema) -> Writer:
    return _write


def _write(document: Mapping[str, Any]) -> bytes:
    from consumers.codecs.mail_field import mail_in, strict

    value = mail_in(document, FIELD, strict)
    if value is None:
        raise ValueError(f'expected the mail in base64 in the field "{FIELD}"')
    return value


def _expanded(document: Document, ignored: tuple[str, ...] = ()) -> Document:
    from consumers.codecs.mail_field import expanded, strict

    return expanded(document, FIELD, strict, ignored)


def _ignoring(names: tuple[str, ...]) -> WireFormat:
    def reader(schema: StoredSchema, readers_schema: str | None) -> Reader:
        from consumers.mail.document import mail_document

        return partial(mail_document, ignored=names)

    return replace(FORMAT, reader=reader, expanded=partial(_expanded, ignored=names))


FORMAT = WireFormat(
    name="mail",
    title="mail",
    about="raw mail (RFC 5322, MIME), whose fields are given: subject, text, links and so on; "
    "its id is the key, or else made of the mail",
    modules=MODULES,
    extra="mail",
    reader=_reader,
    writer=_writer,
    fields=FIELDS,
    versions=versions,
    identified=mail_key,
    expanded=_expanded,
    field=FIELD,
    ignoring=_ignoring,
)
