"""A record as the JSON that is written."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec

__all__ = ["encoded"]


def _plain(value: object) -> object:
    """A scalar of numpy as the number that it is."""
    item = getattr(value, "item", None)
    if item is None:
        raise TypeError(f"{type(value).__name__} is no JSON value")
    return item()


_encode = msgspec.json.Encoder(enc_hook=_plain).encode
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)
_ascii_encoder = json.JSONEncoder(separators=(",", ":"), default=_plain)


def encoded(value: Mapping[str, object]) -> bytes:
    """A record as JSON.

    Raises
    ------
    TypeError, ValueError
        It has a value that JSON does not have, or contains itself.

    Examples
    --------
    >>> encoded({"id": 7, "text": "né"})
    b'{"id":7,"text":"n\\xc3\\xa9"}'
    """
    try:
        made = _encode(value)
        # The standard library keeps an Infinity, which the service then rejects. msgspec turns it
        # into null, which would be taken for a missing value. A search for one byte is the fastest.
        suspect = b"u" in made and b"null" in made
        return _encoder.encode(value).encode() if suspect else made
    except UnicodeEncodeError:  # half of a surrogate pair, which needs an escape
        return _ascii_encoder.encode(value).encode()
