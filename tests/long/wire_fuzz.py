"""Hostile records of formats with schemas: python -m tests.long.wire_fuzz [--records 300000]."""

from __future__ import annotations

import random
import sys
from collections import Counter

from consumers.codecs.format import framed
from consumers.codecs.registry import wire_format
from tests.consumers.codecs.test_wire_formats import (
    PROTO,
    VISIT,
    documents,
    hostile,
    outcome,
    stored,
)
from tests.consumers.schemas.registered import FORMATS, SCHEMAS
from tests.long.table import Row, options_of, report

WIDE = """{"type": "record", "name": "Wide", "fields": [
    {"name": "id", "type": "string"},
    {"name": "when", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "price", "type":
        {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
    {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["a", "b"]}},
    {"name": "many", "type":
        {"type": "array", "items": {"type": "map", "values": ["null", "int"]}}},
    {"name": "raw", "type": {"type": "fixed", "name": "Raw", "size": 16}}]}"""
WIDE_RECORD = {
    "id": "7",
    "when": "2026-11-24T12:00:00+00:00",
    "day": "2026-11-24",
    "price": 12.5,
    "key": "6f1b7d1e-0f4b-4c57-9a42-6f9b1f1a2b3c",
    "kind": "b",
    "many": [{"x": 1}, {"y": None}],
    "raw": b"0123456789abcdef",
}


def main() -> int:
    """Each schema in turn; 1 if something else than a document or a reason comes out."""
    options = options_of(__doc__, "records", 300_000).parse_args()
    cases = [(wire_format(name), SCHEMAS[name]["visits"], VISIT) for name in FORMATS]
    cases.append((wire_format("avro"), WIDE, WIDE_RECORD))
    cases.append((wire_format("protobuf"), PROTO, {"amount": 1.0, "many": [1, 2], "text": "x"}))
    row = Row("hostile records of Avro, Protobuf and JSON Schema, `tests.long.wire_fuzz`", 0)
    ended: Counter[str] = Counter()
    rng = random.Random(options.seed)
    for wire, text, document in cases:
        schema = stored(wire, text)
        good = framed(5, wire.writer(schema)(document))
        decode = documents(wire, schema)
        assert isinstance(outcome(decode, good), dict)
        for record in hostile(good, rng, options.records // len(cases)):
            row.count += 1
            try:
                found = outcome(decode, record)
            except Exception as error:
                row.add([f"{wire.name}: {type(error).__name__}: {error} for {record!r}"])
                continue
            ended[getattr(found, "reason", "decoded")] += 1
    return report(options, row, ", ".join(f"{k} {n:,}" for k, n in sorted(ended.items())))


if __name__ == "__main__":
    sys.exit(main())
