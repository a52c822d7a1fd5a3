"""The compiled decoder makes of every record what the slow path makes of it."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from consumers.codecs._kernels import records as kernels
from consumers.codecs.blocks import FEWEST
from consumers.codecs.compiled import CompiledDecoder, JsonField, JsonKind
from consumers.codecs.json import JsonLabels, JsonObservations
from consumers.codecs.json_document import DEEPEST, LARGEST_RECORD, LONGEST_ID
from stream import Schema
from stream.data import schema as kinds
from tests.consumers import json_records
from tests.consumers.json_records import CASES, LABELS, differences, hostile, label_differences

RECORDS, BLOCK = 1_800, 300  # of each kind, for each case
X = CompiledDecoder([JsonField("x", JsonKind.NUMBER, 0)])


def is_plain(value: bytes, schema: Schema | None = None) -> bool:
    """Whether the compiled decoder takes this record, with an id if it has none."""
    codec = JsonObservations(schema or Schema.of(price="numeric", colour="categorical"), "id", "y")
    assert codec._blocks is not None
    return codec._blocks.read([b"key"], [value]).left == []


@pytest.mark.parametrize("make", [json_records.plain, hostile])
@pytest.mark.parametrize("name", CASES)
def test_blocks_of_observations_are_as_the_slow_path_makes_them(name, make) -> None:
    """Same acceptance, same bits, same reasons; whether bad values are kept or not."""
    case, rng = CASES[name], random.Random(f"{name} {make.__name__}")
    for keep in (False, True):
        codec = case.decoder(keep=keep)
        left = 0
        for _ in range(0, RECORDS // 2, BLOCK):
            records = [make(case, rng) for _ in range(BLOCK)]
            assert list(differences(codec, records)) == []
            assert codec._blocks is not None
            left += len(codec._blocks.read(*zip(*records, strict=True)).left)

        share = 1 - left / (RECORDS // 2)
        assert share > 0.5 if make is json_records.plain else 0.03 < share < 0.3


@pytest.mark.parametrize("make", [json_records.plain, hostile])
@pytest.mark.parametrize("reporter", [None, "who"])
def test_blocks_of_labels_are_as_the_slow_path_makes_them(reporter, make) -> None:
    """Ids, labels, weights and reporters, or the reasons."""
    rng, codec = random.Random(7), JsonLabels(reporter=reporter)
    for _ in range(0, RECORDS, BLOCK):
        assert list(label_differences(codec, [make(LABELS, rng) for _ in range(BLOCK)])) == []


def numbers(texts: list[str]) -> tuple[Any, Any]:
    """What the decoder makes of numbers, and which ones are plain."""
    found, _, plain = X.read([f'{{"x":{text}}}'.encode() for text in texts])
    return found[:, 0], plain


def test_numbers_are_the_nearest_doubles() -> None:
    """Bit for bit those of Python, which rounds correctly."""
    rng = random.Random(5)
    texts = [json_records.number(rng) for _ in range(60_000)]
    texts += [repr(2.0**k) for k in range(-1022, 333)] + [
        f"{k}e{p}" for k in (1, -7, 123456789012345678) for p in range(-307, 83)
    ]
    texts += [str(2**k + d) for k in range(50, 64) for d in range(-3, 4)]
    texts += ["9007199254740993", "9007199254740993e0", "1.7976931348623157e-300", "0e999", "-0.0"]
    found, plain = numbers(texts)
    wanted = np.array([float(text) for text in texts]) + 0.0

    assert (found.view(np.uint64) == wanted.view(np.uint64))[plain].all()
    small = np.abs(wanted) <= 1e100
    assert not plain[~small].any()
    few = np.array(
        [sum(map(str.isdigit, t.lower().partition("e")[0].lstrip("-0."))) <= 19 for t in texts]
    )
    assert plain[small & few & ((np.abs(wanted) >= 2.0**-1022) | (wanted == 0.0))].all()


@pytest.mark.parametrize(
    "text",
    [
        "01",
        "-01",
        "1.",
        ".5",
        "-.5",
        "+1",
        "-",
        "--",
        "1e",
        "1e+",
        "1.e5",
        "0x1",
        "1_0",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e101",
        "1e999",
    ],
)
def test_text_that_is_no_plain_number_is_left(text) -> None:
    """To the slow path, which knows the reason."""
    assert not numbers([text])[1][0]


@pytest.mark.parametrize(
    ("record", "plain"),
    [
        (b"{}", True),
        (b' {"price" : 1 , "colour":"red","other":[{"a":[]},{}, [ ]]}\r\n', True),
        (b'{"other":{"a":"\\n\\"","b":null},"price":null}', True),
        ('{"colour":"é😀","other":"日本"}'.encode(), True),
        (b'{"colour":"a\\nb\\u00E9\\ud83d\\ude00"}', True),
        (b'{"other":"\\u00e9\\/"}', True),
        (b'{"other":"\\ud83d"}', False),
        (b'{"other":"\\ud83d\\u00e9"}', False),
        (b'{"other":"\\ude00\\ud83d"}', False),
        (b'{"colour":"\\u0000"}', False),
        (b'{"colour":"\\x"}', False),
        (b'{"colour":"\\u00g0"}', False),
        (b'{"pr\\u0069ce":1}', False),
        (b'{"price":1,"price":2}', False),
        (b'{"other":1,"other":2}', True),
        (b'{"price":"1"}', False),
        (b'{"price":true}', False),
        (b'{"colour":1.0}', False),
        (b'{"colour":-0}', False),
        (b'{"y":1.5}', False),
        (b'{"id":""}', False),
        (b'{"price":1}x', False),
        (b'{"price":1}\0', False),
        (b'{"price":1}{}', False),
        (b'{"price":1,}', False),
        (b'{,"price":1}', False),
        (b'{"other":[1,]}', False),
        (b'{"other":{"a":1,}}', False),
        (b'{"other":[1}', False),
        (b'{"other":"a\tb"}', False),
        (b'{"other":"\xff"}', False),
        (b'{"other":"\xed\xa0\x80"}', False),
        (b'{"other":"\xc0\xaf"}', False),
        (b'{"other":"\xf4\x90\x80\x80"}', False),
        (b'\xef\xbb\xbf{"price":1}', False),
        (b'{"price":nul}', False),
        (b'{"other":nullx}', False),
        (b'{"other":' + b"[" * 50 + b"]" * 50 + b"}", True),
        (b'{"other":' + b"[" * (DEEPEST - 1) + b"]" * (DEEPEST - 1) + b"}", False),
        (b'{"id":"' + b"x" * LONGEST_ID + b'"}', True),
        (b'{"id":"' + b"x" * (LONGEST_ID + 1) + b'"}', False),
        (b'{"other":"' + b"x" * (LARGEST_RECORD - 12) + b'"}', True),
        (b'{"other":"' + b"x" * (LARGEST_RECORD - 11) + b'"}', False),
        (b"", False),
    ],
)
def test_record_is_plain_or_left(record, plain) -> None:
    """What is left is decoded one by one."""
    assert is_plain(record) == plain


def test_every_escape_is_its_character() -> None:
    """Those of one letter, and each code unit, alone and in pairs, in upper and lower case."""
    escapes = [f"\\{chr(code)}" for code in range(32, 127)]
    escapes += [f"\\u{unit:04{case}}" for unit in range(2**16) for case in "xX"]
    pairs = [(0xD800 + k % 1024, 0xDC00 + k * 7 % 1024) for k in range(5_000)]
    escapes += [f"\\u{high:04x}\\u{low:04x}" for high, low in pairs]
    schema = Schema.of(colour="categorical", text="text")
    records = [
        (f"{i}".encode(), f'{{"colour":"{e}","text":"a long text{e * 3} é {e}"}}'.encode())
        for i, e in enumerate(escapes)
    ]

    assert list(differences(JsonObservations(schema, "id", None), records)) == []


def test_declared_path_that_is_too_deep_is_left() -> None:
    """The slow path counts all levels."""
    for depth, plain in ((50, True), (DEEPEST + 20, False)):
        name = ".".join("a" * depth)
        record = b'{"a":' * depth + b"1" + b"}" * depth
        assert is_plain(record, Schema.of(**{name: "numeric"})) == plain
        records = [(b"k", record)] * FEWEST
        assert not list(
            differences(JsonObservations(Schema.of(**{name: "numeric"}), "id", None), records)
        )


def test_many_distinct_values_of_one_hash_are_still_told_apart() -> None:
    """Beyond the bound of probes a value has a group of its own."""
    texts = [f"c{i}" for i in range(4_000)] * 2
    records = [json.dumps({"id": "a", "colour": text}).encode() for text in texts]
    codec = JsonObservations(Schema.of(colour="categorical"), "id", None)

    assert codec.decode([None] * len(records), records).rows.categorical[:, 0].tolist() == texts


def test_bounds_of_the_kernel_are_those_of_the_slow_path() -> None:
    """A kernel file states them again, because the cache is compared with kernel files only."""
    assert kernels.LARGEST == kinds.LARGEST
    assert 10**kernels.SHORT <= 2**53
    assert 2 * kernels.DEEPEST + 2 < DEEPEST


def test_block_without_values_is_decoded() -> None:
    """Tombstones only, and records without fields."""
    codec = JsonObservations(Schema.of(price="numeric"), "id", "label")
    found = codec.decode([b"k"] * FEWEST, [None] * FEWEST)
    assert {error.reason for error in found.rejected.values()} == {"unparsable"}
    assert len(found.rejected) == FEWEST

    found = codec.decode([b"k"] * FEWEST, [b"{}"] * FEWEST)
    assert (found.rejected, found.ids) == ({}, ["k"] * FEWEST)
    assert np.isnan(found.rows.numeric).all()
