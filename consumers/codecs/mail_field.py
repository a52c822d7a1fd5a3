"""A mail as base64 in a field of a JSON record."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from typing import Any

from consumers.base.errors import RecordError
from consumers.codecs.format import Document
from consumers.codecs.json_document import parse_quickly

__all__ = ["MailField", "expanded", "mail_in", "strict"]


class MailField:
    """Decodes JSON records, with the fields of the mail in one of their fields.

    Parameters
    ----------
    field
        The field that holds the mail.
    ignored
        Headers of the mail that are no evidence.

    Examples
    --------
    >>> documents = MailField("raw")
    >>> documents(b'{"id": 7, "raw": "U3ViamVjdDogaGkKCg=="}')["subject"]
    'hi'
    """

    def __init__(self, field: str, ignored: tuple[str, ...] = ()) -> None:
        self._field, self._ignored = field, ignored

    def __call__(self, value: bytes | None) -> Document:
        """The document of a record. RecordError if it cannot be decoded."""
        return expanded(parse_quickly(value), self._field, ignored=self._ignored)


def expanded(
    document: Document,
    field: str,
    decode: Callable[[str], bytes] = binascii.a2b_base64,
    ignored: tuple[str, ...] = (),
) -> Document:
    """The document with the fields of its mail instead of the mail; the same if it has none.

    Raises
    ------
    RecordError
        The field is no base64.
    """
    try:
        value = mail_in(document, field, decode)
    except ValueError as error:
        raise RecordError("unparsable", str(error)) from None
    if value is None:
        return document
    from consumers.mail.document import mail_document  # with parsers, which few services need

    return {**document, field: None, **mail_document(value, ignored)}


def mail_in(
    document: Mapping[str, Any], field: str, decode: Callable[[str], bytes] = binascii.a2b_base64
) -> bytes | None:
    """The mail in a field of a document; None if the field is absent.

    `decode`: by default the decoder of records in topics, which skips what is no base64. It may not
    become stricter, because a replay would then refuse records that were learned.

    Raises
    ------
    ValueError
        The field is no base64.
    """
    text = document.get(field)
    if text is None:
        return None
    if isinstance(text, str):
        try:
            return decode(text)
        except ValueError:
            pass
    raise ValueError(f"expected a mail in base64 in the field {field!r}, got another value")


def strict(text: str) -> bytes:
    """Base64, perhaps in lines. ValueError for anything else, such as a mail as it is.

    Examples
    --------
    >>> strict("U3ViamVj\\r\\ndDogaGk="), strict("")
    (b'Subject: hi', b'')
    >>> strict("Subject: hi")
    Traceback (most recent call last):
    binascii.Error: Only base64 data is allowed
    """
    return binascii.a2b_base64("".join(text.split()), strict_mode=True)
