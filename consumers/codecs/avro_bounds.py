"""How many values a record of an Avro schema has, before it is decoded.

Rule: what has no bytes in a record can still have any number of values in it: 80 bytes can be 80
items of 85,000 nulls each. So values are counted. A record whose length alone bounds its values is
not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from consumers.base.errors import RecordError
from consumers.codecs.values import MOST_VALUES, check_values
from consumers.codecs.varint import read_varint, signed

__all__ = ["Counter", "Shape", "shape_of"]

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
                raise _wrong(f"no branch has the number {number}")
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
            raise _wrong(f"a text has {number} bytes")
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
                        raise _wrong(f"a key has {size} bytes")
                    at = self._end(at + size)
                at = self.value(part, at)

    def _count(self, more: int) -> None:
        self._values += more
        check_values(self._values, len(self._payload))

    def _end(self, at: int) -> int:
        if at > len(self._payload):
            raise _wrong("it ends too early")
        return at

    def _integer(self, at: int) -> tuple[int, int]:
        """A zigzag integer of 64 bits, and where it ends."""
        try:
            found, at = read_varint(self._payload, at, len(self._payload))
        except ValueError as error:
            raise _wrong(str(error)) from None
        return signed(found & 2**64 - 1), at


def _wrong(why: str) -> RecordError:
    return RecordError("unparsable", f"not Avro of its schema: {why}")
