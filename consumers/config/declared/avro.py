"""The fields of an Avro schema (.avsc). Pure.

Types of the specification 1.12: the values of a field are those of its JSON encoding, because
that is what the records of a topic have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from consumers.base.errors import ConfigError
from consumers.config.declared.fields import MOST_FIELDS, Declared, by_types

__all__ = ["avro_fields"]

DEEPEST = 20  # records within records
_TYPES = {
    "boolean": "boolean",
    "int": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "string": "string",
}
_LEFT_OUT = {  # types and logical types, and why
    "bytes": "bytes, which no model supports",
    "fixed": "bytes, which no model supports",
    "array": "lists, which no model supports",
    "map": "a map: its names are not known; send a record",
    "decimal": "a decimal, which is bytes: send it as a double",
    "duration": "a duration, which is bytes: send it as a double",
    "big-decimal": "a decimal, which is bytes: send it as a double",
    "uuid": "uuids: too many values for a category",
}


def avro_fields(document: object, source: str) -> list[Declared]:
    """The fields of a record, those of nested records by their dotted paths, in their order.

    Raises
    ------
    ConfigError
        It does not describe a record.

    Examples
    --------
    >>> schema = {"type": "record", "name": "Order", "fields": [
    ...     {"name": "amount", "type": "double"}, {"name": "at", "type": {
    ...         "type": "long", "logicalType": "timestamp-millis"}},
    ...     {"name": "channel", "type": ["null", {"type": "enum", "name": "Channel",
    ...         "symbols": ["web", "shop"]}]}]}
    >>> for declared in avro_fields(schema, "order.avsc"):
    ...     print(declared.field.name, declared.field.kind, "-", declared.field.about)
    amount numeric - numbers
    at None - timestamp-millis: future ones will all be new
    channel categorical - one of 2 values; may be null
    """
    names = _Names()
    if not isinstance(document, Mapping) or document.get("type") != "record":
        raise ConfigError(
            f"{source}: expected an Avro schema of type record, got {str(document)[:40]}; "
            "give the schema of one record"
        )
    names.learn(document, "", 0)
    found: list[Declared] = []
    for declared in _fields(document, names, "", "", 0):
        found.append(declared)
        if len(found) > 2 * MOST_FIELDS:
            break
    if not found:
        raise ConfigError(f"{source}: the record has no fields; give the schema of one record")
    return found


class _Names:
    """The named types of a document by their full names."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Any, str]] = {}

    def learn(self, schema: object, space: str, depth: int) -> None:
        """Remember the named types in a schema; `space` is the namespace around it."""
        if depth > 2 * (DEEPEST + 1):  # a union and a record are two steps
            return
        if isinstance(schema, list):
            for branch in schema:
                self.learn(branch, space, depth + 1)
        elif isinstance(schema, Mapping):
            if schema.get("type") in ("record", "enum", "fixed") and "name" in schema:
                full, space = _full_name(schema, space)
                self._known.setdefault(full, (schema, space))
                for field in _list(schema.get("fields")):
                    if isinstance(field, Mapping):
                        self.learn(field.get("type"), space, depth + 1)
            else:
                for inner in ("type", "items", "values"):
                    if isinstance(schema.get(inner), Mapping | list):
                        self.learn(schema[inner], space, depth + 1)

    def find(self, name: str, space: str) -> tuple[Any, str] | None:
        """The type of this name, and its namespace; None if the document has none."""
        return self._known.get(name if "." in name or not space else f"{space}.{name}") or (
            self._known.get(name)
        )


def _full_name(schema: Mapping[str, Any], space: str) -> tuple[str, str]:
    name, given = str(schema["name"]), str(schema.get("namespace", space) or "")
    full = name if "." in name or not given else f"{given}.{name}"
    return full, full.rpartition(".")[0]


def _fields(
    record: Mapping[str, Any], names: _Names, space: str, prefix: str, depth: int
) -> Iterator[Declared]:
    _, space = _full_name(record, space) if "name" in record else ("", space)
    for field in _list(record.get("fields")):
        if not isinstance(field, Mapping) or not isinstance(field.get("name"), str):
            continue  # a parser of Avro rejects such a schema
        yield from _field(prefix + field["name"], field.get("type"), names, space, depth)


def _field(name: str, of: object, names: _Names, space: str, depth: int) -> Iterator[Declared]:
    branches = [
        found
        for branch in (of if isinstance(of, list) else [of])
        for found in [_resolved(branch, names, space)]
    ]
    nullable = any(_type_name(branch) == "null" for branch, _ in branches)
    branches = [(branch, at) for branch, at in branches if _type_name(branch) != "null"]
    optional = "may be null" if nullable else ""
    records = [(branch, at) for branch, at in branches if _type_name(branch) == "record"]
    if records and len(branches) == 1:
        [(record, at)] = records
        if depth < DEEPEST:
            yield from _fields(record, names, at, name + ".", depth + 1)
            return
        yield by_types(name, (), left_out="it contains itself", optional=optional)
        return
    why = "it is one of several records" if records else _why_left_out(branches)
    types = {_TYPES[kind] for kind in map(_kind, branches) if kind in _TYPES}
    enums = [branch["symbols"] for branch, _ in branches if _type_name(branch) == "enum"]
    values = None
    if enums and all(isinstance(symbols, list) for symbols in enums):
        types.add("string")
        if len(enums) == len(branches):
            values = [symbol for symbols in enums for symbol in symbols]
    yield by_types(name, types, values=values, optional=optional, left_out=why)


def _why_left_out(branches: list[tuple[Any, str]]) -> str:
    """Why a field of these types cannot be used; "" if it can."""
    for branch, _ in branches:
        kind = _type_name(branch)
        logical = branch.get("logicalType") if isinstance(branch, Mapping) else None
        if logical in _LEFT_OUT:
            return _LEFT_OUT[logical]
        if isinstance(logical, str) and is_time(logical):
            return f"{logical}: future ones will all be new"
        if kind in _LEFT_OUT:
            return _LEFT_OUT[kind]
        if kind not in _TYPES and kind not in ("enum", "null"):
            return f"its type {kind[:40]!r} is not in the schema"
    return ""


def is_time(logical: str) -> bool:
    """Whether a logical type is a time.

    Examples
    --------
    >>> is_time("local-timestamp-micros"), is_time("uuid")
    (True, False)
    """
    return logical == "date" or logical.startswith(("time-", "timestamp-", "local-timestamp-"))


def _resolved(branch: object, names: _Names, space: str) -> tuple[Any, str]:
    """A type, with its name replaced by what it names, and the namespace of the result."""
    if isinstance(branch, str) and branch not in _TYPES and branch not in _LEFT_OUT:
        return names.find(branch, space) or (branch, space)
    if isinstance(branch, Mapping) and isinstance(branch.get("type"), Mapping | list):
        return _resolved(branch["type"], names, space)  # {"type": {"type": "string"}}
    return branch, space


def _kind(branch: tuple[Any, str]) -> str:
    return _type_name(branch[0])


def _type_name(branch: object) -> str:
    if isinstance(branch, Mapping):
        return str(branch.get("type"))
    return str(branch)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
