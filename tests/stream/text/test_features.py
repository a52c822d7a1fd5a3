"""Features of text: the compiled loops against their definition, and what the features are."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.data.block import Rows
from stream.text.features import MOST_CHARACTERS, VIEWS, features, named_features

LETTERS = (
    "ab CÉéß1٣0$!.'\u2019 _\n\u200b\u00ad\u0301世界สіаΑο\U0001d400\U0001f600\U00020001\ud800ﬁİ"
    "\U000e0061\U000e1000\u2065\u2800"
)
texts = st.one_of(
    st.text(alphabet=LETTERS, max_size=60),
    st.text(max_size=40),
    st.lists(st.sampled_from(["v i a g r a", "FREE", "v1agra", "£1,000", "don't"]), max_size=6).map(
        " ".join
    ),
)


KEYS = [1431589132, 2129060547, 1787483143, 973973662, 750509815, 1616580295]


def rows_of(*texts: str | None) -> Rows:
    """One record for each text."""
    return Rows.from_dicts([{"text": text} for text in texts], strings="text")


def words(text: str) -> set[int]:
    """The keys of its words."""
    return {found.key for found in named_features(rows_of(text), 0) if found.view == 0}


def compiled(rows: Rows, i: int) -> list[list[int]]:
    """The keys of each view of row i."""
    found = features(rows, np.arange(len(rows)))
    start = found.start[i * VIEWS : (i + 1) * VIEWS + 1].tolist()
    return [found.key[a:b].tolist() for a, b in pairwise(start)]


def defined(rows: Rows, i: int) -> list[list[int]]:
    """The same by the definition."""
    named = named_features(rows, i)
    return [[found.key for found in named if found.view == view] for view in range(VIEWS)]


@given(st.lists(st.tuples(texts, texts, st.floats(-1e9, 1e9)), min_size=1, max_size=4))
def test_compiled_features_are_those_of_the_definition(given_rows) -> None:
    """Of every script, of broken text, of several fields and rows, in their order."""
    xs = [
        {"headers": b, "subject": a, "body": b, "n": n, "received": a, "kind": n > 0}
        for a, b, n in given_rows
    ]
    rows = Rows.from_dicts(xs, strings="text", truths="categorical")

    for i in range(len(rows)):
        assert compiled(rows, i) == defined(rows, i)


@pytest.mark.parametrize(
    "text", ["", "a" * 5000, "word " * 3000, "x." * 700, "é" * 1200, "日本語" * 600]
)
def test_long_texts_have_the_features_of_the_definition(text) -> None:
    """Bounds on bytes and pairs cut both in the same place."""
    rows = rows_of(text, None, text[::-1])

    assert [compiled(rows, i) for i in range(3)] == [defined(rows, i) for i in range(3)]


def test_features_of_a_row_do_not_depend_on_other_rows() -> None:
    """Nor on the order of the fields."""
    alone = Rows.from_dicts([{"a": "one two", "b": "three"}], strings="text")
    other = Rows.from_dicts([{"b": "three", "a": "one two"}], strings="text")
    beside = Rows.from_dicts([{"a": "x"}, {"a": "one two", "b": "three"}], strings="text")

    assert compiled(alone, 0) == compiled(other, 0) == compiled(beside, 1)


def test_keys_are_the_same_in_every_version() -> None:
    """They are in saved states."""
    found = features(rows_of("FREE v1agra £5 世界"), np.zeros(1, dtype=np.int64))

    assert found.key[:6].tolist() == KEYS


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("v1agra", "viagra"),
        ("vi\u200bagra", "viagra"),
        ("vi\u2065agra\u2800", "viagra"),
        ("vi\U000e0061agr\U000e0100a", "viagra"),  # a tag, and a selector of a variation
        ("vіagra", "viagra"),  # a Cyrillic і
        ("café", "cafe"),
        ("cafe\u0301", "cafe"),
        ("ＦＲＥＥ", "free"),
        ("𝐟𝐫𝐞𝐞", "free"),
        ("v i a g r a", "viagra"),
        ("v.i.a.g.r.a", "viagra"),
        ("FREE", "free"),
        ("don’t", "don't"),
    ],
)
def test_word_in_disguise_is_the_word_too(written, meant) -> None:
    """And differs from it, except in the kind of apostrophe."""
    assert words(meant) <= words(written)


def test_ordinary_words_of_other_scripts_have_no_latin_look_alike() -> None:
    """Else each word of a Russian mail would count twice."""
    assert len(words("привет мир")) == 2


def test_numbers_share_a_shape_and_fields_share_nothing() -> None:
    """A price is like another price; a subject is not a body."""
    assert len(words("£1000") & words("£2500")) == 2  # the sign and the shape
    fields = [Rows.from_dicts([{name: "free money"}], strings="text") for name in ("a", "b")]
    assert not set(np.concatenate(compiled(fields[0], 0))) & set(
        np.concatenate(compiled(fields[1], 0))
    )


def test_scripts_without_spaces_have_bigrams() -> None:
    """Pairs of neighbours are features, wherever they stand."""
    pairs = [
        {found.key for found in named_features(rows_of(text), 0) if found.view == 2}
        for text in ("免费 赠品", "点击免费")
    ]

    assert len(pairs[0] & pairs[1]) == 3  # both characters, and both together


def test_text_is_read_up_to_its_bound() -> None:
    """What comes after is not a feature."""
    long = "a " * (MOST_CHARACTERS // 2)

    assert compiled(rows_of(long), 0) == compiled(rows_of(long + "viagra"), 0)
