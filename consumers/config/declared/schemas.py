"""Fields that a schema declares: JSON Schema and Avro. Pure.

JSON Schema describes values, not meanings, so it is read for what a field's values are: `type`,
`enum`, `const`, `format`, `properties`, references within the document, and alternatives. Limits of
values (`minimum`, `pattern`, …) do not change a kind and are ignored.

Avro: types of the specification 1.12. The values of a field are those of its JSON encoding, because
that is what the records of a topic have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from consumers.base.errors import ConfigError
from consumers.config.declared.fields import MOST_FIELDS, Declared, by_types

__all__ = ["avro_fields", "json_schema_fields"]

DEEPEST = 20  # objects within objects, records within records
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
TIMES = ("date-time", "date", "time")
UNIQUE = ("uuid", "email", "idn-email", "uri", "uri-reference", "iri", "ipv4", "ipv6")


@dataclass(slots=True)
class _Facts:
    """What is known of the values of one field."""

    types: set[str] = field(default_factory=set)
    values: list[object] | None = None
    formats: set[str] = field(default_factory=set)
    nullable: bool = False
    properties: dict[str, Any] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    problem: str = ""


def json_schema_fields(document: Mapping[str, Any], source: str) -> list[Declared]:
    """The fields of an object, those of nested objects by their dotted paths, in their order.

    Raises
    ------
    ConfigError
        It does not describe an object with properties.

    Examples
    --------
    >>> schema = {"properties": {"amount": {"type": "number"}, "shop": {"properties": {
    ...     "city": {"enum": ["Bonn", "Köln", None]}}}}}
    >>> for declared in json_schema_fields(schema, "orders.json"):
    ...     print(declared.field.name, declared.field.kind, "-", declared.field.about)
    amount numeric - numbers; optional
    shop.city categorical - one of 2 values; optional, may be null
    """
    top = _facts(document, document, 0)
    if top.problem or not top.properties:
        came = top.problem or "none"
        raise ConfigError(
            f"{source}: expected a JSON Schema of an object with properties, got {came}; "
            "give the schema of one record"
        )
    found: list[Declared] = []
    for declared in _schema_fields(top, document, "", 0):
        found.append(declared)
        if len(found) > 2 * MOST_FIELDS:  # references can multiply; the count is checked later
            break
    return found


def _schema_fields(
    facts: _Facts, document: Mapping[str, Any], prefix: str, depth: int
) -> Iterator[Declared]:
    for key, schema in facts.properties.items():
        name = prefix + key
        inner = _facts(schema, document, depth)
        absent = [] if key in facts.required and not inner.nullable else _absent(key, facts, inner)
        if depth >= DEEPEST:
            inner.problem = f"it is more than {DEEPEST} objects deep"
        if inner.properties and not inner.problem and inner.types <= {"object"}:
            yield from _schema_fields(inner, document, name + ".", depth + 1)
        else:
            yield by_types(
                name,
                inner.types,
                values=inner.values,
                optional=", ".join(absent),
                left_out=_left_out(key, prefix, inner),
            )


def _absent(key: str, facts: _Facts, inner: _Facts) -> list[str]:
    absent = [] if key in facts.required else ["optional"]
    return [*absent, "may be null"] if inner.nullable else absent


def _left_out(key: str, prefix: str, facts: _Facts) -> str:
    """Why a field cannot be used; "" if its types decide."""
    if facts.problem:
        return facts.problem
    if prefix and "." in key:
        return "it is in an object and its own name has a dot; rename it to use it"
    if facts.values is None and facts.types == {"string"}:
        if facts.formats & set(TIMES):
            return f"format {min(facts.formats)}: future ones will all be new"
        if facts.formats & set(UNIQUE):
            return f"format {min(facts.formats)}: too many values for a category"
    return ""


def _facts(schema: object, document: Mapping[str, Any], depth: int) -> _Facts:
    """What a schema says, with the schemas that it refers to."""
    facts = _Facts()
    try:
        _read(schema, document, facts, depth)
    except _UnusableError as error:
        facts.problem = str(error)
    if facts.values is not None:
        facts.nullable |= None in facts.values
    if "null" in facts.types:
        facts.nullable = True
        facts.types.discard("null")
    if facts.properties:
        facts.types.add("object")
    return facts


class _UnusableError(Exception):
    """Why a part of the schema cannot be used."""


def _read(schema: object, document: Mapping[str, Any], facts: _Facts, depth: int) -> None:
    if depth > DEEPEST:
        raise _UnusableError("it refers to itself")
    if not isinstance(schema, Mapping):
        raise _UnusableError(f"its schema is {str(schema)[:20]}, not an object")
    if isinstance(reference := schema.get("$ref"), str):
        _read(_referred(reference, document), document, facts, depth + 1)
    for part in _parts(schema, "allOf"):
        _read(part, document, facts, depth + 1)
    for word in ("anyOf", "oneOf"):
        if parts := _parts(schema, word):
            _read_any(parts, document, facts, depth + 1)
    facts.types.update(_types(schema))
    facts.nullable |= schema.get("nullable") is True  # OpenAPI 3.0
    if isinstance(values := schema.get("enum"), list):
        facts.values = values
    elif "const" in schema:
        facts.values = [schema["const"]]
    if isinstance(shape := schema.get("format"), str):
        facts.formats.add(shape)
    properties, required = schema.get("properties"), schema.get("required")
    if isinstance(properties, Mapping):
        facts.properties.update(properties)
    if isinstance(required, list):
        facts.required.update(name for name in required if isinstance(name, str))


def _read_any(parts: list[Any], document: Mapping[str, Any], facts: _Facts, depth: int) -> None:
    """Alternatives: a field may have the values of any of them."""
    read = []
    for part in parts:
        alternative = _Facts()
        _read(part, document, alternative, depth)
        if alternative.types == {"null"} or alternative.values == [None]:
            facts.nullable = True
        else:
            read.append(alternative)
    if len(read) > 1 and any(each.properties for each in read):
        raise _UnusableError("it is one of several objects")
    listed = [each.values for each in read if each.values is not None]
    if read and len(listed) == len(read):
        facts.values = [value for values in listed for value in values]
    for each in read:
        facts.types |= each.types
        if each.values is not None and len(listed) < len(read):
            facts.types |= {"string"} if any(isinstance(v, str) for v in each.values) else set()
        facts.formats |= each.formats
        facts.properties.update(each.properties)
        facts.required |= each.required
        facts.nullable |= each.nullable


def _parts(schema: Mapping[str, Any], word: str) -> list[Any]:
    parts = schema.get(word)
    return parts if isinstance(parts, list) else []


def _types(schema: Mapping[str, Any]) -> set[str]:
    given = schema.get("type", [])
    types = [given] if isinstance(given, str) else given
    if not isinstance(types, list) or not all(each in TYPES for each in types):
        raise _UnusableError(f"its type is {str(given)[:40]}, which JSON Schema does not have")
    return set(types)


def _referred(reference: str, document: Mapping[str, Any]) -> object:
    """The part of this document that `$ref` names. Other documents are not loaded."""
    if reference == "#":
        return document
    if not reference.startswith("#/"):
        raise _UnusableError(f"it refers to another document, {reference[:60]}; copy it in")
    place: Any = document
    for part in reference[2:].split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(place, Mapping) or part not in place:
            raise _UnusableError(f"it refers to {reference[:60]}, which is not there")
        place = place[part]
    return place


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
    for declared in _avro_fields(document, names, "", "", 0):
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
                for part in _list(schema.get("fields")):
                    if isinstance(part, Mapping):
                        self.learn(part.get("type"), space, depth + 1)
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


def _avro_fields(
    record: Mapping[str, Any], names: _Names, space: str, prefix: str, depth: int
) -> Iterator[Declared]:
    _, space = _full_name(record, space) if "name" in record else ("", space)
    for part in _list(record.get("fields")):
        if not isinstance(part, Mapping) or not isinstance(part.get("name"), str):
            continue  # a parser of Avro rejects such a schema
        yield from _field(prefix + part["name"], part.get("type"), names, space, depth)


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
            yield from _avro_fields(record, names, at, name + ".", depth + 1)
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
