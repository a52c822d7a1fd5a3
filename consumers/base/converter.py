"""Plain values as a type of msgspec, and what its decoders raise.

Rule: decoders and converters are made at import. msgspec makes what it knows of a struct when it
first decodes one; a second thread that decodes one meanwhile uses it half made, and the process
dies without a message.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

__all__ = ["UNDECODABLE", "Converter"]

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises for bytes that nobody has looked at: wrong, no UTF-8, or too deep."""

T = TypeVar("T")


class Converter(Generic[T]):
    """Converts plain values to a struct.

    Parameters
    ----------
    kind
        The struct.

    Examples
    --------
    >>> class Point(msgspec.Struct):
    ...     x: int
    >>> Converter(Point)({"x": 3})
    Point(x=3)
    """

    def __init__(self, kind: type[T]) -> None:
        msgspec.json.Decoder(kind)  # msgspec keeps what it makes with the type
        self._kind = kind

    def __call__(self, value: Any) -> T:
        """The struct; msgspec.ValidationError if the value does not fit."""
        return msgspec.convert(value, self._kind)
