"""JSON with JSON Schemas of a registry: a record that its schema rejects is bad.

Rule: nothing is fetched. A schema refers to those that it was registered with, by their names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

from consumers.base.errors import RecordError
from consumers.codecs.format import Document, Reader, WireFormat, Writer, guarded, shortened
from consumers.codecs.json_document import DEEPEST, parse, too_deep
from consumers.codecs.schemas import StoredSchema

__all__ = ["FORMAT"]

# Of a pattern on one text. A step can look at the whole text, so a large record has fewer.
MOST_STEPS = 2**16
# Bytes of a record, times the patterns and listed values that one of its values is compared with,
# times the steps of a pattern.
MOST_COMPARED = 50_000_000
MOST_OF_A_RECORD = 200_000_000  # values, times how often one can be checked
# The same times the bytes of a record, which an error may copy: more are not explained.
MOST_EXPLAINED = 20_000_000
# Times that a schema, by its references, may check one value: a kilobyte of references to
# references can ask for more than anybody would wait for.
MOST_CHECKS = 100_000
MOST_LOOKS = 100_000  # of references for their targets
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMED = ("$anchor", "$dynamicAnchor", "$id", "id")
_APART = ("definitions", "$defs", "enum", "const", "default", "examples")  # checked by reference
_ONE_OF = ("properties", "prefixItems")  # of which a value inside has one

_LABEL = {"type": ["null", "boolean", "integer", "string"]}
_TEXT, _INTEGER, _NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}


def _object(required: Mapping[str, Any], **optional: Any) -> dict[str, Any]:
    properties = {**required, **optional}
    return {"type": "object", "properties": properties, "required": list(required)}


def _pair(first: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "array", "items": [first, _NUMBER]}}


_PREDICTION = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Prediction",
    **_object(
        {
            "id": _TEXT,
            "prediction": _LABEL,
            "probabilities": _pair(_LABEL),
            "model": _object({"name": _TEXT, "type": _TEXT, "learned": _INTEGER}),
            "position": _object({"topic": _TEXT, "partition": _INTEGER, "offset": _INTEGER}),
            "ts": _INTEGER,
        },
        evidence=_pair(_LABEL),
        decision=_object({"action": _LABEL, "risk": {"type": ["null", "number"]}}),
        explanation=_object({"against": _LABEL, "log_odds": _NUMBER, "top": _pair(_TEXT)}),
    ),
}


def _predictions() -> tuple[str, StoredSchema]:
    text = json.dumps(_PREDICTION)
    return text, StoredSchema("JSON", text)


def _reader(schema: StoredSchema, readers_schema: str | None) -> Reader:
    validator = _Validator(schema)

    def decode(payload: bytes) -> Document:
        document = parse(payload)
        if (why := validator.objection(document, payload)) is not None:
            raise RecordError("unparsable", f"not JSON of its schema: {why}")
        return document

    return guarded(decode, "JSON")


class _Validator:
    """Checks records by a schema, each within a bound.

    Rule: a bound depends on the schema and the bytes of the record alone, because a replay must
    come to the same end.

    Parameters
    ----------
    schema
        The schema and its references. RecordError: it cannot be used.
    """

    def __init__(self, schema: StoredSchema) -> None:
        self._by_steps: dict[int, Any] = {}
        try:
            texts = [schema.text, *(text for _, text in schema.references)]
            if any(map(too_deep, texts)):
                raise ValueError(f"expected at most {DEEPEST} levels of nesting")
            self._resources = [(name, json.loads(text)) for name, text in schema.references]
            self._tree = json.loads(schema.text)
            trees = [self._tree, *(each for _, each in self._resources)]
            self._checks = _Checks(trees, lambda _: 1).of(self._tree)
            if self._checks > MOST_CHECKS:
                raise ValueError(f"its references check a value more than {MOST_CHECKS:,} times")
            self._compared = _Checks(trees, _comparisons).of(self._tree)
            self._within(MOST_STEPS)
        except Exception as error:
            raise RecordError("unusable_schema", f"not a JSON Schema: {shortened(error)}") from None

    def objection(self, document: Any, payload: bytes) -> str | None:
        """Why a record is not valid; None if it is."""
        import jsonschema_rs

        values = 1 + sum(map(payload.count, (b",", b"[", b"{")))
        if self._checks * values > MOST_OF_A_RECORD:
            return f"it checks each of {values:,} values up to {self._checks:,} times"
        compared = self._compared * len(payload)
        if compared > MOST_COMPARED:
            return (
                f"it compares a value with up to {self._compared:,} patterns and listed values, "
                f"which is too much for {len(payload):,} bytes"
            )
        validator = self._within(min(MOST_STEPS, MOST_COMPARED // max(compared, 1)))
        if validator.is_valid(document):
            return None
        if self._checks * values * len(payload) > MOST_EXPLAINED:
            return "it is not valid, and too large to say where"
        try:  # not `iter_errors`, which makes all errors, each with a copy of its value
            validator.validate(document)
        except jsonschema_rs.ValidationError as error:
            return shortened(ValueError(error.message))
        return "it is not valid"

    def _within(self, steps: int) -> Any:
        """The validator whose patterns take at most so many steps, or fewer: powers of two."""
        import jsonschema_rs

        limit = 1 << (steps.bit_length() - 1)
        if not self._compared:
            limit = MOST_STEPS
        if limit not in self._by_steps:
            self._by_steps[limit] = jsonschema_rs.validator_for(
                self._tree,
                registry=jsonschema_rs.Registry(self._resources) if self._resources else None,
                pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=limit),
                offline=True,
            )
        return self._by_steps[limit]


def _comparisons(node: Any) -> int:
    """With how many patterns and listed values a schema itself compares a value. Texts alone, or
    integers alone, are looked up."""
    if not isinstance(node, dict):
        return 0
    named, listed = node.get("patternProperties"), node.get("enum")
    found = int(isinstance(node.get("pattern"), str))
    found += len(named) if isinstance(named, dict) else 0
    kinds = {*map(type, listed)} if isinstance(listed, list) else set()
    quick = len(kinds) < 2 and kinds <= {str, int}
    return found + (0 if quick or not isinstance(listed, list) else len(listed))


class _Checks:
    """Counts how often a value can be checked, or something else of the schemas that check it, with
    those that others refer to.

    A reference is followed by its fragment into each document that has it, wherever it leads by the
    rules of URLs: the most counts. One back to a schema around it is checked with a value inside.

    Parameters
    ----------
    trees
        The schema and its references.
    weigh
        What a schema itself counts.
    """

    def __init__(self, trees: Sequence[Any], weigh: Callable[[Any], int]) -> None:
        self._weigh = weigh
        self._roots = list(trees)
        self._by_name: dict[str, list[Any]] = {}
        self._targets: dict[str, list[Any]] = {}  # of a fragment
        self._known: dict[int, int] = {}
        for node in _nodes(trees):
            names = {node[each] for each in _NAMED if isinstance(node.get(each), str)}
            for name in names:
                self._by_name.setdefault(name.lstrip("#"), []).append(node)
            if names and ("$id" in node or "id" in node):
                self._roots.append(node)

    def of(self, tree: Any) -> int:
        """The most that it counts for a value and for those inside it, one of each list."""
        open_: set[int] = set()
        waiting = [(tree, False)]
        while waiting:  # not on the stack, because references lead as deep as a schema is long
            node, done = waiting.pop()
            if done:
                open_.remove(id(node))
                groups = self._groups(node)
                inside = sum(max(map(self._of, each)) for each in groups if each)
                self._known[id(node)] = self._weigh(node) + inside
            elif id(node) not in self._known and id(node) not in open_:
                open_.add(id(node))
                waiting.append((node, True))
                waiting += [(each, False) for group in self._groups(node) for each in group]
        return self._of(tree)

    def _of(self, node: Any) -> int:
        return self._known.get(id(node), self._weigh(node))

    def _groups(self, node: Any) -> Iterator[Sequence[Any]]:
        """What is checked with a schema, or with those of a list: of each group one."""
        if isinstance(node, list):
            yield from ([each] for each in node)
        for key, inside in node.items() if isinstance(node, dict) else ():
            if key in _REFERENCES and isinstance(inside, str):
                yield self._targets_of(inside.partition("#")[2])
            elif key in _ONE_OF and isinstance(inside, dict | list):
                yield list(inside.values()) if isinstance(inside, dict) else inside
            elif key not in _APART and isinstance(inside, dict | list):
                yield [inside]

    def _targets_of(self, fragment: str) -> Sequence[Any]:
        """What a reference may lead to."""
        if fragment and fragment[0] != "/":
            return self._by_name.get(unquote(fragment), ())
        if fragment not in self._targets:
            if len(self._targets) * len(self._roots) > MOST_LOOKS:
                raise ValueError("it has too many names and references to be followed")
            steps = [each.replace("~1", "/").replace("~0", "~") for each in fragment.split("/")]
            found = (_inside(root, list(map(unquote, steps[1:]))) for root in self._roots)
            self._targets[fragment] = [each for each in found if isinstance(each, dict | list)]
        return self._targets[fragment]


def _inside(node: Any, steps: Sequence[str]) -> Any:
    """What is at the end of a JSON pointer; None without it."""
    for step in steps:
        if isinstance(node, list) and step.isdecimal() and len(step) < 10:
            node = node[int(step)] if int(step) < len(node) else None
        else:
            node = node.get(step) if isinstance(node, dict) else None
    return node


def _nodes(trees: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """All objects in some trees."""
    waiting = list(trees)
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _writer(schema: StoredSchema) -> Writer:
    try:
        validator = _Validator(schema)
    except RecordError as error:
        raise ValueError(error.detail) from None
    encode = msgspec.json.Encoder().encode

    def write(document: Mapping[str, Any]) -> bytes:
        value = encode(document)
        if (why := validator.objection(json.loads(value), value)) is not None:
            raise ValueError(f"does not fit the JSON Schema: {why}")
        return value

    return write


FORMAT = WireFormat(
    name="json_schema",
    title="JSON",
    about="JSON with the JSON Schemas of a registry",
    schema_type="JSON",
    modules=("jsonschema_rs", "confluent_kafka"),
    reader=_reader,
    writer=_writer,
    predictions=_predictions,
)
