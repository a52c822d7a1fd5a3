"""Text to tokens to buckets."""

from __future__ import annotations

import unicodedata
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.text import BUCKETS, MAX_TOKENS, bags, bucket, encode, encode_many, tokens
from stream.text.bags import folding
from tests.oracles.text import joining, slow_encode

# What makes a text hard to read a character at a time, beside what does not.
AWKWARD = "Aa1_ \t\n\u00a0!?£€é\u0301İıΣσςßŽǅ\u0345ﬁ字가\u1161\u11a8😀\ud800\u2126\u212a"
TEXTS = st.text(max_size=60) | st.text(st.sampled_from(AWKWARD), max_size=60)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Free FREE free", ["free", "free", "free"]),
        ("win £100!!!", ["win", "£", "100", "!!!"]),
        ("u r 2 late :)", ["u", "r", "2", "late", ":)"]),
        ("don't", ["don", "'", "t"]),
        ("ÉTÉ Größe ПРИВЕТ 東京", ["été", "größe", "привет", "東京"]),
        (" \t\n\u00a0", []),
        ("", []),
    ],
)
def test_tokens_are_runs_of_letters_and_runs_of_signs(text: str, expected: list[str]) -> None:
    """Length 1 and up, any script, lower-cased, signs kept, space dropped."""
    assert list(tokens(text)) == expected


def test_two_spellings_of_a_letter_are_one_token() -> None:
    """é as one character and as e with an accent are the same word."""
    composed = "caf\u00e9"

    assert list(tokens(unicodedata.normalize("NFD", composed))) == list(tokens(composed))


@given(st.text(max_size=200))
def test_tokens_lose_nothing_but_space(text: str) -> None:
    """The tokens joined are the lower-cased text without its white space."""
    lowered = text.lower()
    expected = lowered if lowered.isascii() else unicodedata.normalize("NFC", lowered)

    assert "".join(tokens(text)) == "".join(expected.split())


def test_buckets_never_change() -> None:
    """They are saved in states: the hash is pinned to values of the standard CRC-32."""
    assert crc32(b"123456789") == 0xCBF43926
    assert bucket("123456789") == 0xCBF43926 % BUCKETS == 0x43926
    assert bucket("é") == crc32(b"\xc3\xa9") % BUCKETS


def test_lone_surrogate_has_a_bucket() -> None:
    """JSON can carry half a character; it is a token like any other."""
    assert encode("\ud800 x").shape == (2, 2)


@given(st.lists(st.sampled_from(["a", "b", "£", "long"]), max_size=50))
def test_encode_counts_each_token_in_rising_buckets(words: list[str]) -> None:
    """Every distinct token once, buckets rising, counts as in the text."""
    encoded = encode(" ".join(words))

    assert encoded.dtype == np.int64
    assert encoded.flags.c_contiguous
    assert encoded[0].tolist() == sorted({bucket(word) for word in words})
    assert dict(encoded.T.tolist()) == {bucket(word): words.count(word) for word in words}


def test_tokens_that_share_a_bucket_are_one() -> None:
    """Two words with equal hash add up."""
    rng = np.random.default_rng(3)
    words = {"".join(rng.choice(list("abcdefgh"), size=9).tolist()) for _ in range(5_000)}
    seen: dict[int, str] = {}
    pairs = ((seen.setdefault(bucket(word), word), word) for word in sorted(words))
    first, second = next((a, b) for a, b in pairs if a != b)

    assert encode(f"{first} {second}").tolist() == [[bucket(first)], [2]]


def test_text_at_the_bound_is_whole_and_one_token_more_is_cut_and_marked() -> None:
    """100,000 tokens count; the mark of a text cut short is a bucket of -1."""
    b = bucket("a")
    full, more = encode("a " * MAX_TOKENS), encode("a " * MAX_TOKENS + "b c d")

    assert full.tolist() == [[b], [MAX_TOKENS]]
    assert more.tolist() == [[-1, b], [1, MAX_TOKENS]]


@given(TEXTS)
def test_compiled_reading_of_a_text_is_the_definition(text: str) -> None:
    """Any Unicode: case, spaces, composed letters, half characters."""
    assert encode(text).tolist() == slow_encode(text)


@pytest.mark.parametrize("letter", ["a", "é", "ⴀ", "!", " "])
def test_long_tokens_are_read_as_short_ones(letter: str) -> None:
    """At every length about the 256 bytes up to which the compiled pass has tables."""
    for size in [*range(80, 90), *range(120, 132), *range(250, 262), 700]:
        text = f"one {letter * size} two{letter * size}"

        assert encode(text).tolist() == slow_encode(text), size


@given(st.lists(TEXTS, max_size=8))
def test_texts_together_are_the_texts_one_by_one(texts: list[str]) -> None:
    """Reading many in one call changes nothing."""
    start, found, times = encode_many(texts)
    parts = zip(start[:-1].tolist(), start[1:].tolist(), strict=True)

    assert start.tolist()[:1] == [0]
    assert [[found[a:b].tolist(), times[a:b].tolist()] for a, b in parts] == [
        slow_encode(text) for text in texts
    ]


def test_more_text_than_is_read_in_one_call_is_read_in_several(monkeypatch) -> None:
    """Scratch memory has a bound; texts longer than it, or empty, keep their place."""
    texts = ["one two", "", "Three", "four five six" * 9, "", "été", "字 seven"] * 3
    whole = encode_many(texts)
    monkeypatch.setattr(bags, "CHARACTERS", 12)
    parts = encode_many(texts)

    assert [a.tolist() for a in parts] == [a.tolist() for a in whole]


def test_many_keys_are_sorted_as_few(monkeypatch) -> None:
    """Digit by digit or by comparing, on texts with every kind of token."""
    rng = np.random.default_rng(11)
    texts = ["".join(rng.choice(list(AWKWARD), size=n).tolist()) for n in range(300)]
    digits = encode_many(texts)
    monkeypatch.setattr(bags, "FEW", 10**9)
    compared = encode_many(texts)

    assert int(digits.times.sum()) > 4_000
    assert [a.tolist() for a in digits] == [a.tolist() for a in compared]


def test_every_character_read_alone_is_what_the_definition_makes_of_it() -> None:
    """All code points of the table, between two letters and between two spaces."""
    for code in np.flatnonzero(folding() >= 0).tolist():
        text = f"a{chr(code)}b {chr(code)} "
        assert encode(text).tolist() == slow_encode(text), hex(code)


def test_characters_that_join_others_are_not_read_alone() -> None:
    """Nothing in the table is joined by NFC to what stands before it, nor has a place in σς."""
    alone = {chr(code) for code in np.flatnonzero(folding() >= 0).tolist()}

    assert not alone & (joining() | {"Σ", "σ"})
    assert len(alone) > 9_000
