"""What of a mail is bounded, because a parser's work is the square of it."""

from __future__ import annotations

import codecs
import encodings.aliases
import random
import re
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from consumers.mail import _kernels as kernels
from consumers.mail import limits, styles
from consumers.mail.document import mail_document
from consumers.mail.markup import read_markup
from consumers.mail.styles import declared
from consumers.mail.values import decoded, parameter
from tests.consumers.mail.made import page
from tests.consumers.mail.test_same_words import MANY, prepared
from tests.seed import seeds

MULTI = b"Content-Type: multipart/mixed; boundary=x\n\n"
PIECES = (
    *(
        "<",
        "</",
        ">",
        "<p",
        "<p ",
        "</p",
        "<body ",
        "<HTML ",
        "<b ",
        "<font ",
        "<!--",
        "-->",
        "<!a",
    ),
    *("<script>", "</script>", "<textarea>", "<svg>", "<![CDATA[", "]]>", "<?", "<br"),
    *("a", "b", "c", "d", "e1", "ü", "=", " = ", "\t", "\n", "\f", "\r", " ", "/", '"', "'"),
    *('="', "='", "=a", '="a" ', "<d", "\0"),
)
FORMATS = ("<b a>", "<i b>", "<font c='>'>", "<s d>", "<nobr e>", "<b f>", "<em g", "<u h='<u i>'>")
BLOCKS = ("<p>", "</p>", "<div>", "</div>", "x", "<td>", "<table>", "</b>", "</font>", "<a j>")
PARAMETERS = (
    ";",
    "a",
    "=",
    '"',
    "\\",
    " ",
    "name",
    "NAME=",
    "filename=",
    "boundary=b",
    "x",
    "*",
    "'",
)


def tree(markup: str) -> Any:
    """As Lexbor reads it."""
    from selectolax.lexbor import LexborHTMLParser

    return LexborHTMLParser(markup)


@example("<p a é=1 b>", 1)  # a bound within a character
@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join), st.integers(0, 3))
def test_no_tag_has_more_attributes_than_the_bound(markup: str, most: int) -> None:
    """Whatever hides a tag, or looks like one: a quote, a comment, a script, another tag. A page
    has one body, to which the attributes of further ones are added."""
    source, *_ = prepared(markup, kernels.Most(MANY, most, MANY, MANY))

    for node in tree(source).css("*"):
        tags = max(1, markup.lower().count(f"<{node.tag}")) if node.tag in ("html", "body") else 1
        assert len(node.attributes) <= tags * (most + 1)


@pytest.mark.parametrize("separator", [" ", "\n", "/", "='x'", '="x"', "=x "])
def test_attributes_up_to_the_bound_are_read(separator: str) -> None:
    """One more, and the tag ends there. What is after it is read."""
    for more in (0, 1):
        count = limits.MOST_ATTRIBUTES + more
        names = separator.join(f"n{i}" for i in range(count))

        made = read_markup(f"<p>a<p {names}>b")

        assert (made.text, made.cut) == ("a\nb", more > 0)


def test_pages_in_a_page_have_the_attributes_of_one_tag() -> None:
    """They all become attributes of the first one."""
    half = " ".join(f"n{i}" for i in range(limits.MOST_ATTRIBUTES // 2))
    made = read_markup(f"a<body {half}>b<html {half.replace('n', 'm')}>c<body more>d")

    assert (made.text, made.cut) == ("abcd", True)


@given(st.lists(st.sampled_from(FORMATS + BLOCKS), max_size=60).map("".join), st.integers(0, 40))
def test_tags_that_a_paragraph_repeats_are_bounded(markup: str, most: int) -> None:
    """A tag that is not closed is there again in each paragraph: the square of the mail."""
    source, *_ = prepared(markup, kernels.Most(MANY, MANY, MANY, most))

    assert len(tree(source).css("*")) <= 3 + source.count("<") + 3 * most + 3 * len(FORMATS)


def test_paragraphs_with_many_fonts_are_cut() -> None:
    """38 KB of them were two million elements."""
    markup = "".join(f"<font size={i}>a<p>" for i in range(2000))
    made = mail_document(b"Content-Type: text/html\n\n" + markup.encode())

    assert "wrong_cut" in made["structure"].split()
    assert made["text"].startswith("a\na\na")


def test_no_format_is_compared_with_memory_that_nobody_wrote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A format inside another tag is counted, and has no span: the kernel read where it led."""
    markup = "<b a><i b <u c>"
    empty = np.empty

    def left(shape: Any, dtype: Any = float) -> Any:
        """What such memory may have: a span of the same length, far away."""
        found = empty(shape, dtype)
        found[:] = [1 << 40, len("<i b <u c")] if found.ndim == 2 else 0
        return found

    monkeypatch.setattr(np, "empty", left)
    counts = np.zeros(kernels.COUNTS, np.int64)
    source = np.zeros(2 * len(markup), np.uint8)
    most = kernels.Most(MANY, MANY, MANY, MANY)
    kernels.prepare.interpreted(np.frombuffer(markup.encode(), np.uint8), most, source, counts)

    assert source[: counts[0]].tobytes().decode() == markup


def test_a_list_has_at_most_so_many_options() -> None:
    """Each is compared with all others."""
    made = read_markup("<select>" + "<option>a" * (limits.MOST_OPTIONS + 1))

    assert made.cut
    assert made.text.count("a") == limits.MOST_OPTIONS + 1


@seeds()
def test_pages_of_programs_are_not_cut(seed: int) -> None:
    """Nor are the styles of Word, which are in a comment without a `>`."""
    style = (
        "<style><!-- "
        + "p.MsoNormal, li.MsoNormal {margin:0cm; mso-x:'a b'}\n" * 900
        + "--></style>"
    )
    fonts = "".join(
        f"<p><font size={i % 9}>a &lt; <b style='x'>b</b></font></p>" for i in range(600)
    )

    assert not read_markup(style + page(random.Random(seed)) + fonts).cut


def test_links_around_links_are_read_up_to_the_bound() -> None:
    """The text of each has the texts of all inside it, so their sum is the square of the mail."""
    made = read_markup("<a href=http://a.org><table><tr><td>word " * 900)

    assert len(made.links) == limits.MOST_LINKS + 1
    assert max(len(shown) for _, shown in made.links) == limits.LONGEST_SHOWN


@given(st.lists(st.sampled_from(PARAMETERS), max_size=25).map("".join))
def test_parameters_are_those_of_the_standard_library(text: str) -> None:
    """The slow twin, where it does not raise and no charset is named."""
    value = f"a/b;{text}"
    message = BytesParser(Message, policy=compat32).parsebytes(
        f"Content-Type: {value}\n\n".encode()
    )

    if "*" not in text:
        boundary, name = (parameter(value, each) for each in ("boundary", "name"))
        assert boundary is None or boundary.rstrip() == message.get_boundary()
        assert name is None or name.strip() == message.get_filename()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("filename*=utf-8'de'%C3%A4", "ä"),
        ("filename*1=b; filename*0=a", "ab"),
        ("filename*1*=%62; filename*0*=''a", "ab"),
        ("filename*0=a; filename*=b", "ab"),
        ("filename*=punycode''%C3%A4", "ä"),
        ("filename*=x\0y''a", "a"),
        ("filename*=a", "a"),
        (f"filename*{'1' * 5000}=a", ""),
    ],
)
def test_continued_file_names_never_raise(name: str, expected: str) -> None:
    """Numbers that cannot be sorted or are too long, and charsets that no mail has."""
    value = f"Content-Type: a/b\nContent-Disposition: attachment; {name}\n\nhi\n".encode()

    assert mail_document(value)["attachments"] == f"a_b {expected}".rstrip()


def test_container_with_parameters_that_cannot_be_sorted_is_read() -> None:
    """The standard library compared a number with None, and the mail had no document."""
    value = b"Content-Type: multipart/mixed; a*=1; a*0=2; boundary=x\n\n--x\n\nhi\n--x--\n"

    assert mail_document(value)["text"] == "hi"
    assert mail_document(value.replace(b"boundary=x", b"c"))["text"].startswith("--x")


@pytest.mark.parametrize("text", ["a b c d e f g h i", "a  b c d e f g h i"])
def test_a_part_that_repeats_another_one_is_left_out(text: str) -> None:
    """By its words, whatever is between them."""
    shown = partial("--x\n\n{}\n".format)
    parts = shown("a b c d e f g h i") + shown("a b c d e f g h j") + shown(text)
    value = f"Content-Type: multipart/mixed; boundary=x\n\n{parts}--x--\n"

    assert mail_document(value.encode())["text"] == "a b c d e f g h i\na b c d e f g h j"


@pytest.mark.parametrize("opening", ["(", "[", "{", "a(", "url(a b("])
@pytest.mark.parametrize("before", ["<p style='color:", "<style>p{color:"])
def test_brackets_in_each_other_never_raise(before: str, opening: str) -> None:
    """The parser of styles calls itself for each, and one such mail ended every start."""
    for count in (limits.MOST_BRACKETS, 5000):
        for end in (";", "\\;", ";color:red}"):
            assert read_markup(f"{before}{opening * count}{end}</style>'>a").links == []


@pytest.mark.parametrize("digits", [limits.LONGEST_NUMBER, 4301, 50_000])
@pytest.mark.parametrize("style", ["color:%s\\;", "color:-%spx\\", "color:a(%s;)", "a{color:1.%s}"])
def test_long_numbers_never_raise(style: str, digits: int) -> None:
    """Python reads no whole number of more digits, and one such mail ended every start."""
    for number in ("1" * digits, "٣" * digits):
        assert declared(style % number) is not None
        assert read_markup(f"<p style='{style % number}'>a").text == "a"


def test_a_style_of_many_brackets_is_split() -> None:
    """What is simple in it is read."""
    brackets = "(" * (limits.MOST_BRACKETS + 1)

    assert declared(f"display:none;color:{brackets}\\") == {
        "display": ("none", False),
        "color": (f"{brackets}\\", False),
    }


STYLES = (
    "!",
    "important",
    " ",
    "a",
    "red",
    "#fff",
    "(",
    ")",
    ";",
    ":",
    "'",
    '"',
    "1",
    ".",
    "-",
    "px",
)
OLD_NOT_SIMPLE = re.compile(r"\\|/\*|[\"'(][^\"')]*;|[{}@]")
OLD_LENGTH = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+))\s*([a-z]{1,4}|%|)(?![\w.])")
OLD_IMPORTANT = re.compile(r"\s*!\s*important\s*$")
OLD_WORDS = re.compile(r"[^\s(]+(?:\([^)]*\))?")


@given(st.lists(st.sampled_from(STYLES), max_size=12).map("".join))
def test_patterns_of_styles_match_as_their_slow_twins(text: str) -> None:
    """Those take the square of their text."""
    found, slow = (each.match(text) for each in (styles._LENGTH, OLD_LENGTH))
    important = OLD_IMPORTANT.search(text.strip())
    value = (text.strip()[: important.start()] if important else text).strip()
    words = [word for word in OLD_WORDS.findall(value) if styles.colour_of(word)]
    plain = not any(mark in text for mark in ("'", '"', "(", ";"))

    assert bool(styles._NOT_SIMPLE.search(text)) == bool(OLD_NOT_SIMPLE.search(text))
    assert (found and found.groups()) == (slow and slow.groups())
    assert styles.background_of({"background": (value, False)}) == (words or [""])[0]
    if plain:
        assert declared(f"background:{text}").get("background", ("", False)) == (
            (value, important is not None) if value else ("", False)
        )


@pytest.mark.parametrize(
    ("rule", "bound"),
    [
        (".a{font-size:0}", limits.FEWEST_MATCHES // 100 + 15),
        (".b%d[x*=a]{font-size:0}", limits.MOST_TESTS),
        (".b%d{font-size:0}", limits.MOST_RULES),
    ],
)
def test_rules_are_read_up_to_a_bound(rule: str, bound: int) -> None:
    """Of 100 elements, each of which may be selected by each rule."""
    page = "<p class=a x=a>b" * 100

    def cut(count: int) -> bool:
        rules = "".join(rule % i if "%d" in rule else rule for i in range(count))
        return read_markup(f"<style>{rules}</style>{page}").cut

    assert not cut(bound - 10)
    assert cut(bound + 10)


def test_a_base_that_is_too_long_is_left_out() -> None:
    """Each link is joined with it."""
    for length in (10, limits.LONGEST_BASE):
        markup = f"<base href='http://a.org/{'b' * length}/c'><a href=d>e</a>"
        link, _ = read_markup(markup).links
        assert link[0] == (f"http://a.org/{'b' * length}/d" if length == 10 else "d")


def test_charsets_that_nobody_has_are_not_kept() -> None:
    """Python keeps each name of a codec that it has not, and never forgets one."""
    head = b"--x\nContent-Type: text/plain; charset=x-%d\n\n\xff\n"
    made = mail_document(MULTI + b"".join(head % i for i in range(150)))

    assert "wrong_unknown_charset" in made["structure"].split()
    assert not [name for name in encodings._cache if name.startswith("x")]


def test_every_codec_of_texts_is_known() -> None:
    """By its name and by each of its aliases."""
    for alias in (*encodings.aliases.aliases, "latin-1", "cp874", "koi8-u", "utf-8-sig", "x-none"):
        try:
            usable = codecs.lookup(alias)._is_text_encoding
        except LookupError:  # of another operating system
            usable = False
        unknown = decoded(b"", alias)[1] == "unknown_charset"

        assert unknown == (not usable), alias
