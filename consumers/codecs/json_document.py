"""Bytes to a JSON object, within bounds: the slow path, by the standard library.

Rule: whether a record is rejected depends on its bytes only. The interpreter's limit of nesting
depends on the depth of the caller's stack, which differs between a live run and its replay. So
brackets are counted here, before parsing.

Half of a surrogate pair, which a program leaves when it cuts an emoji, becomes U+FFFD in its value:
no text can be written with it, and one cut text must not cost the other fields. An id, a label or a
reporter is compared with others, so a record with a cut one is rejected (`whole_names`).

A name that comes twice in an object, with different values, has no value: each parser takes another
one, so a record could show one value here and another one to the next system. Its values become
`Repeated`, which fits no kind of field.

A journal replays by these rules. So a version that changes them, or the list
`consumers.base.fields.MISSING`, has to journal by which rules a service began.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from consumers.base.errors import RecordError
from consumers.base.fields import field_of

if TYPE_CHECKING:
    from consumers.base.errors import DeadLetterReason

__all__ = [
    "DEEPEST",
    "LARGEST_RECORD",
    "LONGEST_ID",
    "SHORT",
    "Repeated",
    "any_may_repeat",
    "check_size",
    "field_in",
    "flattened",
    "may_repeat",
    "object_of",
    "parse",
    "parse_quickly",
    "parts_of",
    "plain",
    "too_deep",
    "uncut",
    "whole_names",
]

LARGEST_RECORD = 1 << 20
LONGEST_ID = 512  # characters
DEEPEST = 128  # levels of nested objects and lists
SHORT = 2 * DEEPEST  # bytes; a shorter record cannot be nested too deep
MOST_DIGITS = 4300  # of an integer: the most that both parsers accept

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_decode_names = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_WITH_A_SCHEMA = (
    "; a record with a schema begins so too: set [registry] url and [input] format if it is one"
)
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)  # unclosed: to the end
_SPACE = b" \t\n\r"  # which may be between a name and its colon
_BRACKET = re.compile(r"[\[\]{}]")
_ESCAPE = re.compile(  # a pair, else half of one, else any other escape
    rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>\\u[dD][89a-fA-F]..)|\\.", re.DOTALL
)


class Repeated(list[Any]):
    """The different values of a name that comes several times in an object."""

    def __str__(self) -> str:
        """The first ones in words."""
        shown = " and ".join(repr(value)[:40] for value in self[:3])
        return f"comes {len(self)} times, with different values: {shown}"


def check_size(value: bytes) -> None:
    """Raise RecordError if a record is too large."""
    if len(value) > LARGEST_RECORD:
        raise RecordError("oversize", f"{len(value):,} bytes, at most {LARGEST_RECORD:,}")


def parse(value: bytes | None) -> dict[str, Any]:
    """The JSON object in `value`, by the standard library.

    Raises
    ------
    RecordError
        It is too large, not JSON, or not an object.
    """
    if value is None:
        raise RecordError("unparsable", "expected a JSON object, got no value")
    check_size(value)
    try:
        encoding = json.detect_encoding(value)
        if not encoding.startswith("utf-8"):
            raise RecordError(
                "unparsable",
                f"expected JSON in UTF-8, got {encoding.upper()}"
                + (_WITH_A_SCHEMA if value.startswith(b"\0") else ""),
            )
        text = uncut(value).decode(encoding)
        if too_deep(text):
            raise RecordError("unparsable", f"expected at most {DEEPEST} levels of nesting")
        document = json.loads(text, parse_int=_integer, object_pairs_hook=object_of)
    except (ValueError, RecursionError) as error:
        raise RecordError("unparsable", f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise RecordError("unparsable", f"expected a JSON object, got {type(document).__name__}")
    return document


def uncut(value: bytes, half: bytes = rb"\ufffd") -> bytes:
    """JSON with U+FFFD for each escape that is half of a surrogate pair; of the same length.

    `half`: another escape than that of U+FFFD.

    Examples
    --------
    >>> uncut(rb'{"note": "\\ud83d", "face": "\\ud83d\\ude00"}')
    b'{"note": "\\\\ufffd", "face": "\\\\ud83d\\\\ude00"}'
    """
    if b"\\ud" not in value and b"\\uD" not in value:
        return value
    return _ESCAPE.sub(lambda escape: half if escape["half"] else escape[0], value)


def whole_names(
    documents: Callable[[Any], dict[str, Any]], names: Mapping[str, DeadLetterReason]
) -> Callable[[Any], dict[str, Any]]:
    """The decoder, but a record is a RecordError if one of these fields has several values, or a
    text that was cut within a character.

    Half of a surrogate pair would be U+FFFD there, as each other half is. So two ids would be one,
    and a label would join the observation of the other.

    Parameters
    ----------
    names
        Field to the reason of the error.

    Examples
    --------
    >>> documents = whole_names(parse, {"id": "no_id"})
    >>> documents(b'{"id": "a\\xef\\xbf\\xbd"}') == {"id": "a\\ufffd"}
    True
    >>> documents(rb'{"id": "a\\ud83d"}')  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    consumers.base.errors.RecordError: no_id: the text in field 'id' is cut within a character ...
    """

    def decode(value: Any) -> dict[str, Any]:
        document = documents(value)
        for name, reason in names.items():
            text = field_in(document, name)
            if type(text) is Repeated:
                raise RecordError(reason, f"field {name!r} {text}")
            if type(text) is str and "\ufffd" in text and _is_cut(documents, value, name, text):
                raise RecordError(
                    reason,
                    f"the text in field {name!r} is cut within a character (half of a surrogate "
                    f"pair): {text[:40]!r}; send it whole",
                )
        return document

    return decode


def _is_cut(
    documents: Callable[[Any], dict[str, Any]], value: object, name: str, text: str
) -> bool:
    """Whether the field has another text if another character stands for a half."""
    other = uncut(value, rb"\ufffe") if isinstance(value, bytes) else value
    if other == value:
        return False
    try:
        return field_of(documents(other), name) != text
    except RecordError:  # its schema has a pattern for the text
        return True


def field_in(document: Mapping[str, Any], name: str) -> object:
    """The value of a field as `field_of` has it; an object above it that is `Repeated`, if one is.

    Examples
    --------
    >>> str(field_in(parse(b'{"shop": {"city": "Bonn"}, "shop": 1}'), "shop.city"))
    "comes 2 times, with different values: {'city': 'Bonn'} and 1"
    """
    found = field_of(document, name)
    if found is None and "." in name:
        inner: object = document
        for part in name.split("."):
            inner = inner.get(part) if isinstance(inner, dict) else None
            if type(inner) is Repeated:
                return inner
    return found


def flattened(
    documents: Callable[[bytes | None], dict[str, Any]], names: Sequence[str]
) -> Callable[[bytes | None], dict[str, Any]]:
    """The decoder, with the nested values under their dotted names too."""
    if not names:
        return documents

    def decode(value: bytes | None) -> dict[str, Any]:
        document = documents(value)
        found = {name: field_in(document, name) for name in names if name not in document}
        return document | found

    return decode


def parts_of(names: Collection[str]) -> frozenset[bytes]:
    """The names, and the parts of dotted ones, as they are in JSON without escapes and spaces."""
    parts = {part for name in names for part in (name, *name.split("."))}
    return frozenset(part.encode(errors="replace").translate(None, _SPACE) for part in parts)


def parse_quickly(value: bytes | None) -> dict[str, Any]:
    """The same as `parse`, sooner for most records."""
    try:
        document = _decode(plain(value))
    except (msgspec.DecodeError, RecursionError):
        return parse(value)
    return parse(value) if value and any_may_repeat(value, document) else document


def may_repeat(value: bytes, given: int, names: Collection[bytes]) -> bool:
    """Whether one of these names may come twice in an object of this JSON.

    Parameters
    ----------
    given
        How many different names are known to be there. If there are as many colons, none is twice.
    names
        See `parts_of`.

    Examples
    --------
    >>> names = parts_of(["a"])
    >>> may_repeat(b'{"a": 1, "b": "x:y"}', 2, names), may_repeat(b'{"a": 1, "a": 2}', 1, names)
    (False, True)
    """
    if value.count(b":") == given:
        return False
    dense = value.translate(None, _SPACE)
    if dense.count(b'":') == len(_decode_names(value)):
        return False  # the others are undeclared
    every = [part[part.rfind(b'"') + 1 :] for part in dense.split(b'":')[:-1]]
    found = [name for name in every if name in names or b"\\" in name]
    return len(set(found)) < len(found) or any(b"\\" in name for name in found)


def any_may_repeat(value: bytes, document: Mapping[str, Any]) -> bool:
    """Whether any name may come twice in an object of this JSON, which was read as `document`.

    Examples
    --------
    >>> any_may_repeat(b'{"a": {"b": 1}}', {"a": {"b": 1}})
    False
    >>> any_may_repeat(b'{"a": 1, "a": 2}', {"a": 2})
    True
    """
    names = _names(document)
    if value.count(b":") == names:
        return False
    return value.translate(None, _SPACE).count(b'":') != names


def _names(value: object) -> int:
    """How many names are in a value, and in those inside it."""
    if isinstance(value, dict):
        return len(value) + sum(_names(v) for v in value.values() if type(v) in (dict, list))
    return sum(map(_names, value)) if isinstance(value, list) else 0


def plain(value: bytes | None) -> bytes:
    """`value` if the typed decoder rejects all that the slow path rejects; else a DecodeError.

    The typed decoder does not read undeclared fields: they can hold bytes that are not UTF-8 and
    be nested without a limit.
    """
    if value is None or len(value) > LARGEST_RECORD:
        raise msgspec.DecodeError
    if len(value) > SHORT and value.count(b"{") + value.count(b"[") > DEEPEST:
        raise msgspec.DecodeError
    if not value.isascii():
        try:
            value.decode()
        except UnicodeDecodeError:
            raise msgspec.DecodeError from None
    return value


def too_deep(text: str) -> bool:
    """Whether more than `DEEPEST` brackets are open at once, without those inside strings."""
    if text.count("{") + text.count("[") <= DEEPEST:
        return False
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "{[" else -1
        if depth > DEEPEST:
            return True
    return False


def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, in which a name with different values has all of them."""
    document = dict(pairs)
    if len(document) < len(pairs):
        values: dict[str, list[Any]] = {}
        for name, value in pairs:
            values.setdefault(name, []).append(value)
        for name, each in values.items():
            if not all(_are_equal(each[0], other) for other in each[1:]):
                document[name] = Repeated(each)
    return document


def _are_equal(one: object, other: object) -> bool:
    """Whether two values are written alike: 1, 1.0 and true differ, and so do names in another
    order.

    It takes no longer than the smaller one has values. So all objects that are inside each other
    take little more than their bytes, and not their bytes for each level.
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(
            a == b and _are_equal(one[a], other[b]) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_are_equal, one, other))
    return one == other if isinstance(one, str) else repr(one) == repr(other)


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits.lstrip("-")) <= MOST_DIGITS else float(digits)
