"""Values of a record, counted before it is decoded, so that none takes too much memory.

How many values a record of an Avro schema has, before it is decoded.

Rule: what has no bytes in a record can still have any number of values in it: 80 bytes can be 80
items of 85,000 nulls each. So values are counted. A record whose length alone bounds its values is
not looked at.

How many values a Protobuf message has, before it is parsed.

Rule: a message in another one has a value for each of its fields, and needs two bytes. So values
are counted by the wire format, because the parser allocates all fields of every message. A payload
is not looked at if its length bounds its values, or the number of bytes that can begin a message.

Integers of seven bits in each byte, the lowest first, as Avro and Protobuf write them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from consumers.base.errors import RecordError
from consumers.codecs.values import MOST_VALUES, check_values

__all__ = ["Counter", "MessageCounter", "Shape", "read_varint", "shape_of", "signed"]

LONGEST_VARINT = 10  # bytes of 64 bits


def read_varint(
    payload: bytes, at: int, end: int, longest: int = LONGEST_VARINT
) -> tuple[int, int]:
    """The integer that begins at `at`, and where it ends, which is at most `end`.

    Raises
    ------
    ValueError
        It has more than `longest` bytes, or the payload ends before.

    Examples
    --------
    >>> read_varint(bytes([0xAC, 0x02, 0x07]), 0, 3)
    (300, 2)
    """
    value = 0
    for i in range(longest):
        if at + i >= end:
            raise ValueError("it ends too early")
        byte = payload[at + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, at + i + 1
    raise ValueError(f"an integer has more than {longest} bytes")


def signed(value: int) -> int:
    """The number that has this zigzag code.

    Examples
    --------
    >>> signed(0), signed(1), signed(2)
    (0, -1, 1)
    """
    return (value >> 1) ^ -(value & 1)


_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}  # of types with one size


@dataclass(frozen=True, slots=True)
class Shape:
    """What a value of a schema needs.

    Parameters
    ----------
    kind
        `record`, `union`, `array`, `map`, `sized` (bytes after their number), `integer`, or
        `plain`: always `least` bytes and `values` values.
    least
        The least bytes.
    values
        Values outside of arrays and maps; of a union, those of all branches.
    parts
        The fields, branches, items or values.
    most
        As `values`, but of a union those of one branch.
    dense
        The most values for a byte in any array or map inside.
    """

    kind: str
    least: int
    values: int
    parts: tuple[Shape, ...] = ()
    most: int = 1
    dense: float = 0.0


def shape_of(schema: Any, named: Mapping[str, Any]) -> Shape:
    """The shape of a parsed schema, whose named types are in `named`.

    Raises
    ------
    ValueError
        Its records have no bound.
    """
    return _Shapes(named).of(schema)


class _Shapes:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named, self._known = named, dict[str, Shape]()
        self._open: list[str] = []

    def of(self, schema: Any) -> Shape:
        if isinstance(schema, list):
            parts = tuple(map(self.of, schema))
            least = 1 + min((part.least for part in parts), default=0)
            values = 1 + sum(part.values for part in parts)
            most = max((part.most for part in parts), default=1)
            return Shape("union", least, values, parts, most, _densest(parts))
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, dict | list):
            return self.of(kind)
        if kind in ("record", "error"):
            return self._record(schema)
        if kind in ("array", "map"):
            return self._many(kind, self.of(schema["items" if kind == "array" else "values"]))
        if kind == "fixed":
            return Shape("plain", int(schema["size"]), 1)
        if kind in self._named:
            return self._known.get(kind) or self.of(self._named[kind])
        if kind in _SIZES:
            return Shape("plain", _SIZES[kind], 1)
        return Shape("sized" if kind in ("bytes", "string") else "integer", 1, 1)

    def _many(self, kind: str, part: Shape) -> Shape:
        """An array or a map, whose keys are not counted: each has a byte of its own."""
        least = part.least + (kind == "map")
        if not least:
            raise ValueError("an array of items without bytes can have any length")
        return Shape(kind, 1, 1 + part.values, (part,), 1, max(part.dense, part.most / least))

    def _record(self, schema: Mapping[str, Any]) -> Shape:
        name = schema["name"]
        if name in self._open:
            raise ValueError(
                f"{name} contains itself, so its records can be nested without a bound"
            )
        if name not in self._known:
            self._open.append(name)
            parts = tuple(self.of(field["type"]) for field in schema["fields"])
            self._open.pop()
            values = 1 + sum(part.values for part in parts)
            if values > MOST_VALUES:
                raise ValueError(f"a record {name} has more than {MOST_VALUES:,} values")
            kind = "plain" if all(part.kind == "plain" for part in parts) else "record"
            least = sum(part.least for part in parts)
            most = 1 + sum(part.most for part in parts)
            self._known[name] = Shape(kind, least, values, parts, most, _densest(parts))
        return self._known[name]


def _densest(parts: tuple[Shape, ...]) -> float:
    return max((part.dense for part in parts), default=0.0)


class Counter:
    """Checks that a payload has not too many values. RecordError if it has, or is not Avro.

    Parameters
    ----------
    shape
        What its schema needs.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def __call__(self, payload: bytes) -> None:
        beyond = self._shape.most + (self._shape.dense - 1.0) * len(payload)
        if beyond > MOST_VALUES:  # otherwise the length is proof enough
            _Walk(payload).value(self._shape, 0)


class _Walk:
    """One way through a payload, value by value."""

    def __init__(self, payload: bytes) -> None:
        self._payload, self._values = payload, 0

    def value(self, shape: Shape, at: int) -> int:
        """Where a value ends that begins at `at`."""
        kind = shape.kind
        if kind == "plain":
            self._count(shape.values)
            return self._end(at + shape.least)
        if kind == "union":
            number, at = self._integer(at)
            if not 0 <= number < len(shape.parts):
                raise _no_avro(f"no branch has the number {number}")
            return self.value(shape.parts[number], at)
        self._count(1)
        if kind == "record":
            for part in shape.parts:
                at = self.value(part, at)
            return at
        if kind in ("array", "map"):
            return self._many(shape.parts[0], at, keys=kind == "map")
        number, at = self._integer(at)
        if kind == "integer":
            return at
        if number < 0:
            raise _no_avro(f"a text has {number} bytes")
        return self._end(at + number)

    def _many(self, part: Shape, at: int, *, keys: bool) -> int:
        while True:
            count, at = self._integer(at)
            if count == 0:
                return at
            if count < 0:  # the bytes of the block follow, which nobody needs
                count, (_, at) = -count, self._integer(at)
            if part.kind == "plain" and not keys:
                fit = min(count, (len(self._payload) - at) // part.least)
                self._count(fit * part.values)
                at = self._end(at + count * part.least)
                continue
            for _ in range(count):  # each has a byte, so it ends with the payload
                if keys:
                    size, at = self._integer(at)
                    if size < 0:
                        raise _no_avro(f"a key has {size} bytes")
                    at = self._end(at + size)
                at = self.value(part, at)

    def _count(self, more: int) -> None:
        self._values += more
        check_values(self._values, len(self._payload))

    def _end(self, at: int) -> int:
        if at > len(self._payload):
            raise _no_avro("it ends too early")
        return at

    def _integer(self, at: int) -> tuple[int, int]:
        """A zigzag integer of 64 bits, and where it ends."""
        try:
            found, at = read_varint(self._payload, at, len(self._payload))
        except ValueError as error:
            raise _no_avro(str(error)) from None
        return signed(found & 2**64 - 1), at


def _no_avro(why: str) -> RecordError:
    return RecordError("unparsable", f"not Avro of its schema: {why}")


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
                raise _no_protobuf("a group ends that did not begin")
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
            raise _no_protobuf(f"a field has the wire type {wire}")
        if until > end:
            raise _no_protobuf("it ends too early")
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
        raise _no_protobuf("an integer does not end") from None


def _no_protobuf(why: str) -> RecordError:
    return RecordError("unparsable", f"not Protobuf of its schema: {why}")
