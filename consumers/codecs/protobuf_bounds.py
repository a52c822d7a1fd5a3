"""How many values a Protobuf message has, before it is parsed.

Rule: a message in another one has a value for each of its fields, and needs two bytes. So values
are counted by the wire format, because the parser allocates all fields of every message. A payload
is not looked at if its length bounds its values, or the number of bytes that can begin a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from consumers.base.errors import RecordError
from consumers.codecs.values import MOST_VALUES, check_values
from consumers.codecs.varint import read_varint

__all__ = ["MessageCounter"]

_LEAST = 2  # bytes of a message in another one: its tag and its length
_FIXED = {1: 8, 5: 4}  # bytes by wire type
_VARINT, _SIZED, _BEGIN, _END = 0, 2, 3, 4  # other wire types


class _Inside(NamedTuple):
    """A field that has messages: their type, and how many values each is."""

    type: _Type
    values: int


@dataclass(slots=True)
class _Type:
    """A message type: its values without repeated ones, and by their number its fields with
    messages, and of its repeated fields the bytes of each value, see `_size_of`."""

    values: int
    messages: dict[int, _Inside]
    repeated: dict[int, int]


class MessageCounter:
    """Checks that messages of a file have not too many values. RecordError if one has.

    Parameters
    ----------
    file
        The file, as protobuf's runtime describes it.

    Raises
    ------
    RecordError
        It has a message set, whose messages are hidden in groups.
    """

    def __init__(self, file: Any) -> None:
        self._types = _types_of(file)
        of_fields = (f.values for kind in self._types.values() for f in kind.messages.values())
        self._dense = max(1.0, max(of_fields, default=0) / _LEAST)
        self._begins = _begins(self._types)

    def __call__(self, name: str, payload: bytes, start: int) -> None:
        """Check the message of this type that begins at `start`."""
        kind = self._types[name]
        beyond = kind.values + (self._dense - 1.0) * (len(payload) - start)
        if beyond <= MOST_VALUES:  # the length is proof enough
            return
        begun = sum(most * payload.count(byte, start) for byte, most in self._begins.items())
        if kind.values + begun > MOST_VALUES:
            _count(payload, start, kind)


def _types_of(file: Any) -> dict[str, _Type]:
    """The message types of a file and those that they need, by their names."""
    types: dict[str, _Type] = {}
    fields: dict[str, list[Any]] = {}
    waiting = list(file.message_types_by_name.values())
    while waiting:  # not on the stack, because a schema can nest types deeper than that
        found = waiting.pop()
        if found.full_name in types:
            continue
        if found.GetOptions().message_set_wire_format:
            raise RecordError(
                "unusable_schema", f"not a Protobuf schema: {found.full_name} is a message set"
            )
        every = [*found.fields, *file.pool.FindAllExtensions(found)]
        repeated = {each.number: _size_of(each) for each in every if each.is_repeated}
        types[found.full_name] = _Type(1 + len(found.fields), {}, repeated)
        inside = fields[found.full_name] = [f for f in every if f.message_type is not None]
        waiting += [*found.nested_types, *(each.message_type for each in inside)]
    for name, inside in fields.items():
        types[name].messages.update((f.number, _inside(f, types)) for f in inside)
    return types


def _inside(field: Any, types: Mapping[str, _Type]) -> _Inside:
    """A field with messages. An entry of a map has its value, also one that it leaves out."""
    kind, values = types[field.message_type.full_name], 0
    if not field.containing_type.GetOptions().map_entry:
        values = kind.values
    if field.message_type.GetOptions().map_entry:
        value = field.message_type.fields_by_name["value"].message_type
        values += 0 if value is None else types[value.full_name].values
    return _Inside(kind, values)


def _size_of(field: Any) -> int:
    """The least bytes of a number among packed ones; 0 of what is never packed."""
    if field.cpp_type in (field.CPPTYPE_STRING, field.CPPTYPE_MESSAGE):
        return 0
    if field.type in (field.TYPE_DOUBLE, field.TYPE_FIXED64, field.TYPE_SFIXED64):
        return 8
    return 4 if field.type in (field.TYPE_FLOAT, field.TYPE_FIXED32, field.TYPE_SFIXED32) else 1


def _begins(types: Mapping[str, _Type]) -> dict[int, int]:
    """The bytes with which a message in another one can begin, each with the most values of one:
    the first byte of its tag, which may be longer than it needs to be."""
    found: dict[int, int] = {}
    for number, inside in (each for kind in types.values() for each in kind.messages.items()):
        for tag in (number << 3 | _SIZED, number << 3 | _BEGIN):
            more = tag & 0x7F | 0x80  # another byte follows, perhaps without need
            for byte in {more, min(tag, more)}:
                found[byte] = max(found.get(byte, 0), inside.values)
    return found


_UNKNOWN = _Type(0, {}, {})


def _count(payload: bytes, at: int, kind: _Type) -> None:
    """Raise RecordError if there are too many values, or if it is no message."""
    values, size = kind.values, len(payload)
    open_: list[tuple[_Type, int]] = []  # around the message: its type and its end
    end = size
    while True:
        while at == end:
            if not open_:
                return
            kind, end = open_.pop()
        tag, at = _varint(payload, at, end)
        number, wire = tag >> 3, tag & 7
        inside = kind.messages.get(number)
        until = at
        if wire == _END:
            if not open_:
                raise _wrong("a group ends that did not begin")
            kind, end = open_.pop()
            continue
        if wire == _VARINT:
            _, until = _varint(payload, at, end)
        elif wire in _FIXED:
            until = at + _FIXED[wire]
        elif wire == _SIZED:
            length, at = _varint(payload, at, end)
            until = at + length
        elif wire != _BEGIN:
            raise _wrong(f"a field has the wire type {wire}")
        if until > end:
            raise _wrong("it ends too early")
        if wire == _BEGIN or (wire == _SIZED and inside is not None):
            values += 0 if inside is None else inside.values
            open_.append((kind, end))
            kind = _UNKNOWN if inside is None else inside.type
            end = end if wire == _BEGIN else until
        else:
            one = kind.repeated.get(number)
            if one is not None:
                values += (until - at) // one if one and wire == _SIZED else 1
            at = until
        check_values(values, size)


def _varint(payload: bytes, at: int, end: int) -> tuple[int, int]:
    try:
        return read_varint(payload, at, end)
    except ValueError:
        raise _wrong("an integer does not end") from None


def _wrong(why: str) -> RecordError:
    return RecordError("unparsable", f"not Protobuf of its schema: {why}")
