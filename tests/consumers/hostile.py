"""Records that senders get wrong: generated from a grammar, seeded, for the codec's tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["nested", "observations"]

# As they stand in the text, so that each parser sees what a sender would send.
NUMBERS = """
0 -0 -0.0 1 -1 1.5 1E2 1e-400 1e100 -1.0000001e100 1e999 -1e999 NaN Infinity -Infinity 2 1.0
9007199254740993 9223372036854775808 18446744073709551616 01 1. .5 +1 - 1e 0x10 1_000
""".split()  # noqa: SIM905
NUMBERS += ["9" * 40, "-" + "9" * 40, "9" * 310, "9" * 4300, "-" + "9" * 4300, "9" * 4301]
NUMBERS += ["9" * 5000, "0." + "9" * 5000, "1" + "0" * 101, "1" + "0" * 100]
STRINGS = [
    '""', '"red"', '"é"', '"e\\u0301"', '"\\u00e9"', '"\\u0000"', '"\\ud83d\\ude00"', '"\\ud800"',
    '"\\udc00x"', '"a\\nb"', '"\\q"', '"a\x01b"', '"1"', '"NaN"', '"true"', f'"{"x" * 600}"',
    '"{[[[{"', '"\\"{\\\\"', '"\u2028"', '"unclosed',
]  # fmt: skip
OTHERS = ["null", "true", "false", "[]", "{}", "[1]", '{"a":1}', "nul", "", "[[[[1]]]]", "None"]
CELLS = [*NUMBERS, *STRINGS, *OTHERS]
NAMES = ["price", "urgent", "colour", "text", "id", "label", "other", "w", "pr\\u0069ce", "é"]


def observations(seed: int, count: int) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Keys and values: well-formed objects of odd cells, mutated ones, and what is no JSON."""
    rng = np.random.default_rng(seed)
    keys = [None, b"", b"key", "schlüssel".encode(), b"\xff\xfe", b"k" * 600, b"\x00"]
    for _ in range(count):
        key = keys[rng.integers(len(keys))]
        value: bytes | None = _document(rng).encode("utf-8", "surrogatepass")
        kind = rng.random()
        if kind < 0.35:
            value = _mutated(rng, value)
        elif kind < 0.4:
            value = rng.bytes(int(rng.integers(0, 40)))
        elif kind < 0.45:
            value = _encoded(rng, value)
        yield key, value
    for odd in _odd():
        yield keys[rng.integers(len(keys))], odd


def _document(rng: np.random.Generator) -> str:
    """An object with cells that are mostly good, in any order, names sometimes twice."""
    good = {"price": "1.5", "urgent": "true", "colour": '"red"', "text": '"sun rain"'}
    good |= {"id": '"a7"', "label": '"spam"'}
    pairs = [(name, cell) for name, cell in good.items() if rng.random() < 0.85]
    pairs += [
        (NAMES[rng.integers(len(NAMES))], CELLS[rng.integers(len(CELLS))])
        for _ in range(int(rng.integers(0, 4)))
    ]
    rng.shuffle(pairs)
    return "{" + ",".join(f'"{name}":{cell}' for name, cell in pairs) + "}"


def _mutated(rng: np.random.Generator, value: bytes) -> bytes:
    """A bit flipped, bytes put in, taken out or doubled, or the end cut off."""
    data = bytearray(value)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(data))) if data else 0
        kind = int(rng.integers(5))
        if kind == 0 and data:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            data[at:at] = rng.bytes(int(rng.integers(1, 4)))
        elif kind == 2:
            del data[at : at + int(rng.integers(1, 5))]
        elif kind == 3:
            data[at:at] = data[at : at + 10]
        else:
            del data[at:]
    return bytes(data)


def _encoded(rng: np.random.Generator, value: bytes) -> bytes:
    text = value.decode("utf-8", "surrogatepass")
    codecs = ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"]
    return text.encode(codecs[rng.integers(len(codecs))], "replace")


def _odd() -> list[bytes | None]:
    """Empty, tombstone, oversize, deep, and every cell in every declared field."""
    out: list[bytes | None] = [
        None,
        b"",
        b" ",
        b"\x00",
        b"{}",
        b"[]",
        b"null",
        b"1",
        b'"a"',
        b"\xef",
    ]
    size = 1 << 20
    big = b'{"id":1,"price":2,"other":"' + b"x" * (size - 29) + b'"}'
    out += [big, big + b" ", b"x" * (size + 1), b'{"id":"' + b"x" * size + b'"}', b"9" * size]
    for depth in (10, 127, 128, 129, 500, 900, 960, 1000, 1100, 10_000, 100_000):
        for declared in ("other", "price"):
            out += [nested(depth, declared), nested(depth, declared)[:-1]]
        out += [b"[" * depth, b'{"id":' * depth, b'"\\"' * depth]
    out.append(json.dumps({"id": 1, "price": 2, "other": "[{" * 5000}).encode())
    for cell in CELLS:
        for name in NAMES:
            text = f'{{"id":"i","{name}":{cell},"price":3}}'
            out.append(text.encode("utf-8", "surrogatepass"))
    out += [b'{"id":1,"other":"\xff"}', b'{"id":1,"\xff":1}', b'{"id":1,"other":"\xed\xa0\x80"}']
    return out


def nested(depth: int, name: str) -> bytes:
    """An object `depth` deep, the field's lists included."""
    inner: Any = "[" * (depth - 1) + "]" * (depth - 1)
    return f'{{"id":1,"price":2,"{name}":{inner}}}'.encode()
