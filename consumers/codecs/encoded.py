"""A record as the JSON that is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec

__all__ = ["encoded", "encoded_many"]


def _plain(value: object) -> object:
    """A scalar of numpy as the number that it is."""
    item = getattr(value, "item", None)
    if item is None or getattr(value, "ndim", None):
        raise TypeError(f"{type(value).__name__} is no JSON value")
    return item()


_msgspec = msgspec.json.Encoder(enc_hook=_plain)
_encode, _encode_lines = _msgspec.encode, _msgspec.encode_lines
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


def encoded_many(values: Sequence[Mapping[str, object]]) -> list[bytes]:
    """Each of several records as `encoded` has it, by one call.

    Examples
    --------
    >>> encoded_many([{"id": 7}, {"text": "a\\nb"}])
    [b'{"id":7}', b'{"text":"a\\\\nb"}']
    """
    try:
        lines = _encode_lines(values)
    except (TypeError, ValueError, RecursionError):  # one of them needs the slow way, or is wrong
        return list(map(encoded, values))
    made = [] if b"null" in lines else lines.split(b"\n")[:-1]
    return made if len(made) == len(values) else list(map(encoded, values))
