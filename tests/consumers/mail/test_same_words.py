"""What was made faster gives the words of its slow twin."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from consumers.mail import _kernels as kernels
from consumers.mail import limits
from consumers.mail.envelope import parted
from consumers.mail.links import domain_of, word_of
from consumers.mail.markup import Markup, read_markup
from consumers.mail.parts import mail_parts
from consumers.mail.sent import address_of, received_words
from tests.consumers.mail.made import hostile_markup, page
from tests.seed import seeds

SEPARATES = re.compile(
    rf"<(?=/?(?:{'|'.join(kernels.BLOCKS)})(?:[\s/>]|$))", re.IGNORECASE | re.ASCII
)
HINTS = ("hidden", "style", "color")
TARGETS = ("area", "base", "button", "form", "frame", "iframe", "input", "meta")
TAG = re.compile(r"<p>")
ADDRESS = re.compile(r"^(.*)<([^<>]*)>[^<>]*$", re.DOTALL)
PIECES = (
    *(
        "<",
        "</",
        ">",
        "<P",
        "<br",
        "<BL",
        "<ce",
        "</Se",
        "<ar",
        "<b>",
        "<a href=x>",
        "<Img",
        "<fOrm",
    ),
    *("<title>", "</title>", "<Script>", "</script>", "<STYLE>", "</style>", "<template>", "<svg>"),
    *("None", "hidden", "Font-Size:0", "font-size: 0", "font-size:  0", "opacıty", "OPACITY"),
    *(
        "mso-hide",
        "height:0",
        "<span style='display:none'>",
        "<p hidden>",
        "no",
        "heİght:0",
        "\u212a",
    ),
    *("\0", "ü", "你", "\u2028", "\x1f", " ", "\n", "font-size:", "<tİtle>", "<s", "<t", "/", "x"),
)
markups = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


MANY = 1 << 30
TAGS_ONLY = kernels.Most(limits.MOST_TAGS, MANY, MANY, MANY)


def prepared(markup: str, most: kernels.Most = TAGS_ONLY) -> tuple[str, int, int, int]:
    """By the kernel: the source, the images, the forms, the flags."""
    value = np.frombuffer(markup.encode(), np.uint8)
    source = np.empty(2 * value.size, np.uint8)
    counts = np.empty(kernels.COUNTS, np.int64)
    kernels.prepare(value, most, source, counts)
    size, images, forms, flags = counts.tolist()
    return source[:size].tobytes().decode(), images, forms, flags


def searched(markup: str) -> tuple[str, int, int, int]:
    """The same by patterns and searches."""
    flags = 0
    if markup.count("<") > limits.MOST_TAGS:
        *first, rest = markup.split("<", limits.MOST_TAGS + 1)
        plain = TAG.sub(r"\n", f"<{rest}")  # the later tags are left out, not their text
        markup, flags = "<".join(first) + plain, kernels.TOO_MANY
    source = SEPARATES.sub("\n<", markup)
    lower = source.lower()
    flags |= kernels.STYLED if any(hint in lower for hint in HINTS) else 0
    flags |= kernels.TARGETS if any(f"<{tag}" in lower for tag in TARGETS) else 0
    flags |= kernels.TITLE if "<title" in lower else 0
    for tag, bit in kernels.TAGS_OF_NO_TEXT.items():
        flags |= bit if f"<{tag}" in lower else 0
    return source, lower.count("<img"), lower.count("<form"), flags


@given(markups)
@example("<")
@example("a</")
@example("<b")
def test_one_pass_over_markup_finds_what_searches_find(markup: str) -> None:
    """Line feeds before tags that separate words, images, forms, hints of hidden elements."""
    assert prepared(markup) == searched(markup)


def test_markup_with_too_many_tags_is_cut_before_the_next_one() -> None:
    """At the bound and one beyond it."""
    for tags in (limits.MOST_TAGS, limits.MOST_TAGS + 1, limits.MOST_TAGS + 7):
        assert prepared("x<p>y" * tags) == searched("x<p>y" * tags)


@pytest.mark.parametrize("make", [page, hostile_markup])
@seeds()
def test_markup_is_read_as_by_its_slow_twin(make, seed: int) -> None:
    """Pages as programs write them, and hostile ones."""
    markup = make(random.Random(seed))

    assert read_markup(markup) == slowly_read(markup)


def slowly_read(markup: str) -> Markup:
    """`read_markup` by searches, selectors and patterns."""
    from selectolax.lexbor import LexborHTMLParser

    from consumers.mail.hiding import taken
    from consumers.mail.markup import _links, sheet_of

    source, images, forms, flags = searched(markup)
    tree = LexborHTMLParser(source)
    links = _links(tree, others=True)
    hidden, _ = taken(tree, sheet_of(tree), len(markup), unseen=True)
    tree.strip_tags(["script", "style", "template"])
    text = "" if tree.body is None else tree.body.text(separator="")
    cut = flags & kernels.TOO_MANY != 0
    return Markup(lines(text), lines("\n".join(hidden)), links, images, forms, cut)


def lines(text: str) -> str:
    """The lines that are not empty, without spaces around them."""
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


@given(st.lists(st.sampled_from(["<", ">", "a@b.org", " ", '"Jo"', "\n", "x"]), max_size=8))
def test_an_address_is_what_the_pattern_finds(parts: list[str]) -> None:
    """The last angle brackets, if nothing is open after them."""
    value = "".join(parts)
    found = ADDRESS.match(value)
    name, address = found.groups() if found else ("", value)

    made = address_of(value)

    assert (made.name, made.address) == (name.strip().strip("\"'").strip(), address.strip())


@given(st.lists(st.sampled_from(["from", "by", "with", "mx.a.org;", "ESMTP", "id"]), max_size=9))
def test_each_role_of_a_hop_has_the_word_after_it(words: list[str]) -> None:
    """A role may follow a role, and the last word has no role."""
    expected = []
    for role, word in pairwise(words):
        if role in ("from", "by"):
            expected.append(f"{role}_{domain_of(word.strip('.;[]()'))}")
        elif role == "with":
            expected.append(f"with_{word_of(word)}")

    assert received_words([" ".join(words)]) == " ".join(expected)


def test_headers_that_differ_in_case_are_one_header() -> None:
    """Their values follow each other in the order of the names."""
    (root,), _ = mail_parts(b"To: a\nX: 1\nTO: b\nto: c\n\n")

    assert root.fields == {"to": [b" a", b" b", b" c"], "x": [b" 1"]}


@given(st.text("\n\r a:", max_size=12).map(str.encode))
def test_the_head_ends_at_the_first_empty_line(value: bytes) -> None:
    """As line by line."""
    lines, at = list[bytes](), 0
    for line in value.split(b"\n"):
        whole = value[at : at + len(line) + 1]
        if not whole or whole in (b"\n", b"\r\n"):
            break
        lines.append(whole)
        at += len(whole)

    assert parted(value) == (lines, value[at:])
