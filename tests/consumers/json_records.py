"""Plain and hostile JSON records of several schemas, seeded, and the twin of their decoders."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from consumers.base.errors import RecordError
from consumers.codecs.json import JsonLabels, JsonObservations
from stream import Field, Schema
from tests.consumers.hostile import CELLS, NUMBERS, STRINGS

__all__ = [
    "CASES",
    "LABELS",
    "Case",
    "differences",
    "hostile",
    "label_differences",
    "number",
    "plain",
]

Record = tuple[bytes | None, bytes | None]
SPACES = ["", "", "", "", " ", "  ", "\n", "\t\r\n ", " " * 9]
WORDS = ["red", "green", "", "é", "日本語", "😀", "sun rain", "x" * 7, "y" * 8, "z" * 9, "w" * 40]
WORDS += ["a{[", "]},:", "\x7f", "ÿ" * 12, "null", "1", "NaN", "\U0010ffff", "\ud7ff", "\ue000"]
ODD_BYTES = [
    b"\\",
    b'"',
    b"\0",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xc0\x80",
    b"\xff",
]
KEYS = [b"key", "schlüssel".encode(), b"k" * 512, b"two\0parts", b"7"]
ODD_KEYS: list[bytes | None] = [None, b"", b"\xff\xfe", b"k" * 513, "é".encode() * 512, *KEYS]


class Case(NamedTuple):
    """Fields, and the names of id and label."""

    schema: Schema
    id_field: str = "id"
    label_field: str | None = "label"

    def decoder(self, **options: Any) -> JsonObservations:
        """The decoder of these observations."""
        return JsonObservations(self.schema, self.id_field, self.label_field, **options)

    def names(self) -> list[tuple[str, str]]:
        """Every name with what it may be."""
        if self == LABELS:
            return [("id", "id"), ("label", "given label"), ("w", "given"), ("who", "id")]
        found = [(f.name, f.kind) for f in self.schema.fields] + [(self.id_field, "id")]
        return found if self.label_field is None else [*found, (self.label_field, "label")]


def _case(text: str, id_field: str = "id", label_field: str | None = "label") -> Case:
    kinds = {"n": "numeric", "b": "binary", "c": "categorical", "t": "text"}
    fields = [Field(part[2:], kinds[part[0]]) for part in text.split("|") if part]  # type: ignore[arg-type]
    return Case(Schema(tuple(fields)), id_field, label_field)


CASES = {
    "mixed": _case("n:price|b:urgent|c:colour|t:text"),
    "numbers": _case("|".join(f"n:f{i}" for i in range(8)), label_field=None),
    "nested": _case("n:a.b|n:a.c.d|c:a.c.e|b:x.y|n:price|t:..", "meta.id", "meta.label"),
    "both": _case("n:a|n:a.b|t:a.c|c:a.c.d|n:.|b:..", "a.id"),
    "names": _case("n:é|n:|n:日本語日本語|c:averyveryverylongname|n:averyveryverylongnam|t: |b:0"),
    "nothing": _case("", label_field=None),
}
LABELS = _case("")


def number(rng: random.Random) -> str:
    """A number as JSON: short ones, all doubles, many digits, halves, and large integers."""
    kind = rng.randrange(9)
    if kind == 0:
        return str(rng.randrange(-1000, 1000))
    if kind == 1:
        return repr(round(rng.gauss(0, 100), rng.randrange(8)))
    if kind == 2:
        return json.dumps(_finite(rng.getrandbits(64)))
    if kind == 3:
        return repr(rng.random() * 10.0 ** rng.randrange(-30, 30))
    most = 10 if rng.random() < 0.95 else 23
    digits = "".join(rng.choices("0123456789", k=rng.randrange(1, most)))
    if kind == 4:
        return f"{digits.lstrip('0') or '0'}.{rng.randrange(10**9)}"
    if kind == 5:
        letter = rng.choice(["e", "E", "e+", "E-", "e-"])
        return f"-{rng.randrange(10)}.{digits}{letter}{rng.randrange(60)}"
    if kind == 6:
        return f"0.{'0' * rng.randrange(25)}{digits}"
    if kind == 7:  # between two doubles, or next to that
        half = (2**53 + 2 * rng.randrange(2**52) + 1) << rng.randrange(12)
        return str(half + rng.choice([-1, 0, 0, 1]))
    power = rng.randrange(-308, 300)
    return repr(2.0**power) if rng.random() < 0.5 else f"1e{power}"


def _finite(bits: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return value if value - value == 0.0 else 0.5


def _small(rng: random.Random) -> str:
    """A number that every field takes."""
    text = number(rng)
    return text if abs(float(text)) <= 1e100 else "-12.75"


def _text(rng: random.Random) -> str:
    words = rng.choices(WORDS, k=rng.randrange(1, 4))
    return json.dumps("".join(words), ensure_ascii=rng.random() < 0.1)


def _of(kind: str, rng: random.Random) -> str:
    """A good value of a field."""
    if rng.random() < 0.07 and not kind.startswith("given"):
        return "null"
    if kind == "numeric":
        return _small(rng)
    if kind == "binary":
        return rng.choice(["true", "false", "0", "1", "1.0", "0e5", "-0", "10e-1"])
    if kind == "text":
        return _text(rng)
    if kind == "given":
        return rng.choice(["1", "0.5", "1e-9", "9007199254740992", "3.25"])
    integer = str(rng.randrange(-(10 ** rng.randrange(1, 20)), 10 ** rng.randrange(1, 20)))
    if kind == "id":
        return rng.choice([integer, f'"r{integer}"', f'"{integer}"', '"é7"', f'"{"i" * 512}"'])
    return rng.choice([_text(rng), integer, "true", "false", '"true"', '"7"', "7"])


def _other(rng: random.Random, depth: int = 0) -> str:
    """Any value, for a field that is not declared."""
    kind = rng.randrange(8 if depth < 4 else 6)
    if kind < 3:
        return rng.choice([number(rng), number(rng), "1e999", "null", "true", "false"])
    if kind < 6:
        return rng.choice([_text(rng), json.dumps('\n\t"\\/\b\f\r'), '"\\/"', '"\\u00e9"'])
    space = rng.choice(SPACES)
    parts = [_other(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 6:
        return f"[{space}{f'{space},'.join(parts)}{space}]"
    return "{" + ",".join(f'{space}"{k}"{space}:{v}' for k, v in enumerate(parts)) + space + "}"


def plain(case: Case, rng: random.Random) -> Record:
    """A good record: any order, any spaces, paths as objects or as one name, more fields."""
    tree: dict[str, Any] = {}
    for name, kind in case.names():
        if rng.random() < 0.1 and kind != "given label":
            continue
        path = [name] if rng.random() < 0.4 else name.split(".")
        at: Any = tree
        for part in path[:-1]:
            at = at.setdefault(part, {})
            if not isinstance(at, dict):
                break
        if isinstance(at, dict) and path[-1] not in at:
            at[path[-1]] = _of(kind, rng)
    value = written(tree, rng)
    return rng.choice(KEYS), value.encode()


def written(tree: dict[str, Any], rng: random.Random) -> str:
    """An object of values that are JSON already, or objects of such."""
    names = list(tree)
    if rng.random() < 0.2:
        rng.shuffle(names)
    space = rng.choice(SPACES)
    cells = []
    for name in names:
        inner = tree[name]
        cell = written(inner, rng) if isinstance(inner, dict) else inner
        cells.append(f"{json.dumps(name, ensure_ascii=False)}{space}:{rng.choice(SPACES)}{cell}")
    if rng.random() < 0.3:
        cells.insert(rng.randrange(len(cells) + 1), f'"other {rng.randrange(3)}":{_other(rng)}')
    return f"{space}{{{space}{f'{space},{space}'.join(cells)}{space}}}{rng.choice(SPACES)}"


def hostile(case: Case, rng: random.Random) -> Record:
    """A record with something wrong or odd in it, most of the time."""
    _, value = plain(case, rng)
    assert value is not None
    kind = rng.randrange(8)
    text = value.decode()
    if kind <= 2:  # another value
        name, _ = rng.choice(case.names())
        cell = rng.choice([*CELLS, *NUMBERS, *STRINGS])
        pair = f'"{rng.choice([name, name, name.split(".")[0], "other"])}":{cell}'
        text = text.replace("{", "{" + pair + rng.choice([",", ",", " , ", "", ",,"]), 1)
    elif kind == 3:  # a number before what follows
        text = text.replace(":", f":{number(rng)}{rng.choice(['', '.', 'e', 'x', '-', '0'])},", 1)
    elif kind == 4:  # other brackets
        text = text.replace(*rng.choice([("}", "]"), ("}", "}}"), ("{", "[{"), (":", "::")]), 1)
    elif kind == 5:  # a name or a value again, or with an escape
        parts = text.split(",")
        parts.insert(rng.randrange(len(parts) + 1), rng.choice(parts))
        text = ",".join(parts)
    raw = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(rng.choice([0, 1, 1, 2]) if kind >= 6 else 0):
        _damage(raw, rng)
    odd: bytes | None = bytes(raw)
    if rng.random() < 0.01:
        odd = rng.choice([None, b"", b"{}", b"{}\0", b"\0{}", b"[]", b"{}{}", b'{"":1', b" {} "])
    return rng.choice(ODD_KEYS), odd


def _damage(raw: bytearray, rng: random.Random) -> None:
    at, kind = rng.randrange(len(raw) + 1), rng.randrange(8)
    if kind == 0 and at < len(raw):
        raw[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        raw[at:at] = rng.randbytes(rng.randrange(1, 4))
    elif kind == 2:
        raw[at:at] = rng.choice(ODD_BYTES)
    elif kind == 3:
        del raw[at : at + rng.randrange(1, 6)]
    elif kind == 4:
        raw[at:at] = raw[at : at + 12]
    elif kind == 5:
        del raw[at:]
    elif kind == 6:
        raw[at:at] = rng.choice(
            [b" ", b"0", b"1", b"e", b".", b"-", b"\xc3\xa9", b"\xf0\x9f\x98\x80"]
        )
    elif at < len(raw):
        raw[at] = rng.randrange(32, 127)


def differences(codec: JsonObservations, records: Sequence[Record]) -> Iterator[str]:
    """What a block of records has that the slow path has not, record by record."""
    found = codec.decode([k for k, _ in records], [v for _, v in records])
    rows = found.rows
    bits = rows.numeric.view(np.uint64).tolist()
    numeric = rows.numeric.tolist()
    for i, (key, value) in enumerate(records):
        error = found.rejected.get(i)
        cells = [None if x != x else bits[i][j] for j, x in enumerate(numeric[i])]
        texts = [*rows.categorical[i].tolist(), *rows.text[i].tolist()]
        got: Any = (cells, texts, found.ids[i], _typed(found.labels[i]), found.bad.get(i, ()))
        got = (error.reason, error.detail) if error is not None else got
        if got != (wanted := _slowly(codec, key, value)):
            yield f"{key!r} {value!r}: {got} and not {wanted}"


def _slowly(codec: JsonObservations, key: bytes | None, value: bytes | None) -> Any:
    try:
        features, id_, label, bad = codec.slow(key, value)
    except RecordError as error:
        return error.reason, error.detail
    schema = codec.schema
    by_name = dict(zip([f.name for f in schema.fields], features, strict=True))
    numbers = [by_name[name] for name in schema.numeric]
    cells = [None if x != x else struct.unpack("<Q", struct.pack("<d", x))[0] for x in numbers]
    texts = [by_name[name] for name in (*schema.categorical, *schema.text)]
    return cells, texts, id_, _typed(label), bad


def label_differences(codec: JsonLabels, records: Sequence[Record]) -> Iterator[str]:
    """As `differences`, for label records."""
    found = codec.decode([k for k, _ in records], [v for _, v in records])
    for i, (key, value) in enumerate(records):
        error = found.rejected.get(i)
        who = None if found.reporters is None else found.reporters[i]
        got: Any = (found.ids[i], _typed(found.labels[i]), _typed(float(found.weights[i])), who)
        got = (error.reason, error.detail) if error is not None else got
        try:
            id_, label, weight, reporter = codec.slow(key, value)
            wanted: Any = (id_, _typed(label), _typed(weight), reporter)
        except RecordError as wrong:
            wanted = (wrong.reason, wrong.detail)
        if got != wanted:
            yield f"{key!r} {value!r}: {got} and not {wanted}"


def _typed(value: object) -> tuple[str, str]:
    return type(value).__name__, repr(value)
