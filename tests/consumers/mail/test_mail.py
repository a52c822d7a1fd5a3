"""Mail as a document: what a reader sees is found, and nothing that is broken raises."""

from __future__ import annotations

import email
import random
from email.message import EmailMessage
from email.policy import SMTP, default
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from consumers.mail import limits
from consumers.mail.document import mail_document
from consumers.mail.envelope import bare, fields_of, mail_key
from consumers.mail.fields import FIELDS
from consumers.mail.links import link_of, urls_in
from consumers.mail.markup import read_markup
from consumers.mail.sent import address_of
from consumers.mail.values import decoded
from tests.consumers.mail.made import damaged, hostile_markup, mail, mails
from tests.long.foreign_mails import differences
from tests.seed import seeds
from tests.waiting import growth

MOST_GROWTH = 32  # of the time, for eight times the mail: half of what a square is
MULTI = b"Content-Type: multipart/mixed; boundary=x\n\n"


def check(made: dict[str, object]) -> None:
    """A document has its fields, within their bounds, as texts that can be encoded."""
    assert list(made) == list(FIELDS)
    for name, kind in FIELDS.items():
        value = made[name]
        if kind == "text":
            assert isinstance(value, str)
            assert "\0" not in value
            most = limits.LONGEST_TEXT if name == "text" else limits.LONGEST_SHORT
            assert len(value.encode()) <= 4 * most
        else:
            assert isinstance(value, int)


def test_document_has_what_the_standard_library_finds() -> None:
    """Its newest policy, which is another way through another parser, has subject and words."""
    for value in mails(60, seed=2):
        made = mail_document(value)
        message = email.message_from_bytes(value, policy=default)

        body = message.get_body(("plain",))
        assert body is not None
        assert made["subject"] == message["subject"]
        # The plain text is in `hidden` where the HTML has other words.
        words = {*made["text"].split(), *made["hidden"].split()}
        assert set(body.get_content().split()) <= words
        assert f"parts_{len(list(message.walk())).bit_length()}" in made["structure"].split()
        assert address_of(str(message["from"])).address == "someone@shop.example.net"
        assert mail_key(value).startswith(str(message["message-id"]).strip("<>") + "#")
        for each in message.iter_attachments():
            assert (each.get_filename() or "") in made["attachments"]
        check(made)


CHARSETS = {
    "utf-8": "Привет naïve 你好 winner",
    "koi8-r": "кредит наличными сегодня winner",
    "iso-8859-15": "naïve café £100 €7",
    "gb18030": "你好 发票 winner",
    "iso-2022-jp": "こんにちは winner",
    "windows-1255": "שלום כסף",
}


@st.composite
def leaves(draw: st.DrawFn) -> EmailMessage:
    """A text, an HTML text or a file, in any charset and encoding that it may have."""
    message = EmailMessage(SMTP)
    charset = draw(st.sampled_from([*CHARSETS]))
    encoding = draw(st.sampled_from(["base64", "quoted-printable"]))
    text = " ".join(draw(st.lists(st.sampled_from(CHARSETS[charset].split()), max_size=30)))
    kind = draw(st.sampled_from(["plain", "html", "file"]))
    if kind == "file":
        name = draw(st.sampled_from(["a.pdf", "naïve 你好.pdf", "x" * 90 + ".pdf", 'a;"b.pdf']))
        message.set_content(b"x" * 99, maintype="application", subtype="pdf", filename=name)
        return message
    shown = f"<div>{text}</div>\n" if kind == "html" else f"{text}\n"
    message.set_content(shown, subtype=kind, charset=charset, cte=encoding)
    return message


def contained(parts: list[EmailMessage], kind: str) -> EmailMessage:
    """A container, which may be a mail in a mail."""
    message = EmailMessage(SMTP)
    if kind == "rfc822":
        inner = parts[0]
        if "subject" not in inner:
            inner["Subject"] = "inside naïve"
        message.set_content(inner)
        return message
    message.add_header("Content-Type", f"multipart/{kind}")
    for part in parts:
        del part["mime-version"]
        message.attach(part)
    return message


trees = st.recursive(
    leaves(),
    lambda inner: st.builds(
        contained,
        st.lists(inner, min_size=1, max_size=3),
        st.sampled_from(["mixed", "alternative", "related", "rfc822"]),
    ),
    max_leaves=6,
)


@given(trees, st.sampled_from(["hello", "naïve 你好 " * 9, "Привет winner"]), st.booleans())
def test_generated_mails_are_read_as_by_email(
    tree: EmailMessage, subject: str, windows: bool
) -> None:
    """Well-formed mails of any shape: no word, subject or name is missing, and nothing is wrong."""
    del tree["subject"]
    tree["Subject"] = subject
    value = tree.as_bytes(policy=SMTP if windows else default)

    assert [*differences(value)] == []
    assert "wrong_" not in mail_document(value)["structure"]


@pytest.mark.parametrize(
    ("value", "field", "expected"),
    [
        (b"Subject: a\r\n b\r\n\tc\r\n\r\n", "subject", "a b c"),
        (b"Subject: =?utf-8?B?Y2Fm?= =?utf-8?B?w6k=?=\n\n", "subject", "café"),
        (b"Subject: caf\xe9\n\n", "subject", "café"),
        (b"SUBJECT: one\nSubject: two\n\n", "subject", "one"),
        (b"From x@y Mon Jan  1\nSubject: a\n\nb", "subject", "a"),
        (b"\xef\xbb\xbfSubject: a\n\nb", "subject", "a"),
        (b"Subject: a\rX: b\r\rc", "text", "c"),
        (b"no header\nat all\n", "text", "no header\nat all"),
        (b"Subject: a\nno header\nB: c\n\nd", "text", "no header\nB: c\n\nd"),
        (b"\n\nbo\0dy", "text", "body"),
        (b"Content-Transfer-Encoding: base64\n\naGVs!bG8\0=", "text", "hello"),
        (b"Content-Transfer-Encoding: base64\n\naGVsbG8gd29ybG", "text", "hello worl"),
        (b"Content-Transfer-Encoding: quoted-printable\n\n=41=ZZ=", "text", "A=ZZ"),
        (b"Content-Transfer-Encoding: x-none\n\nhello", "text", "hello"),
        (b"Content-Type: text/plain; charset=x-none\n\ncaf\xc3\xa9", "text", "café"),
        (b"Content-Type: text/plain; charset=us-ascii\n\ncaf\xc3\xa9", "text", "café"),
        (b"Content-Type: text/plain; charset=utf-8\n\ncaf\xe9", "text", "café"),
        (b'Content-Type: text/plain; charset="GB2312"\n\n\xc4\xe3', "text", "你"),
        (b"Content-Type: multipart/mixed\n\n--x\n\nhi\n--x--\n", "text", "--x\n\nhi\n--x--"),
        (b"Content-Type: multipart/mixed; boundary=y\n\n--x\n\nhi\n", "text", "--x\n\nhi"),
        (MULTI + b"pre\n--x\nContent-Type: text/html\n\n<p>hi\n--x\n\nmore", "text", "hi\nmore"),
        (MULTI + b"--x\n\nsame  words\n--x\n\nsame words\n--x--", "text", "same  words"),
        (b"Content-Type: message/rfc822\n\nSubject: in\n\ninside", "text", "in\ninside"),
        (b"Reply-To: Jo <jo@a.example.org>\n\n", "reply_to", "Jo jo@a.example.org example_org"),
        (MULTI + b"--x\nContent-Type: image/png; name=A.PNG\n\n", "attachments",
         "image_png suffix_png A.PNG"),
        (b"\n\nhttp://a.xn--bcher-kva.de/b?c", "links", "a.xn--bcher-kva.de/b xn_bcher_kva_de"),
        ("\n\nhttp://a.bücher.de/b".encode(), "links", "a.bücher.de/b xn_bcher_kva_de"),
    ],
)  # fmt: skip
def test_broken_and_odd_mails_are_read(value: bytes, field: str, expected: str) -> None:
    """Each as far as it can be read."""
    assert mail_document(value)[field] == expected


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (b"Content-Type: multipart/mixed\n\n--x\n\nhi\n--x--\n", "wrong_malformed"),
        (b"Content-Type: text/plain; charset=x-none\n\n\xff", "wrong_unknown_charset"),
        (b"Content-Type: text/plain; charset=utf-8\n\n\xff", "wrong_bad_charset"),
        (b"\n\nbo\0dy", "wrong_nul"),
        (b"\n\n" + b"x" * 70_000, "wrong_cut"),
        (b"\n\n" + b"x" * 3_000_000, "wrong_cut"),
        (
            b"Content-Type: text/html\n\n<a href='http://bad.org'>http://good.org</a>",
            "link_shows_another",
        ),
        (b"Content-Type: text/html\n\n<p hidden>x</p>", "hidden_text"),
        (b"\n\nhttp://192.0.2.1/", "link_address"),
        (b"\n\nhttp://user@x.org:8080/", "link_userinfo"),
        (b"\n\nhttp://a.xn--bcher-kva.de/", "link_idn"),
    ],
)
def test_what_is_odd_is_a_word_of_the_structure(value: bytes, word: str) -> None:
    """So a model can learn from it, and a person can count it."""
    assert word in mail_document(value)["structure"].split()


@seeds(markup=st.booleans())
def test_no_mail_raises(seed: int, markup: bool) -> None:
    """Mails with damages give a document, and the same one again."""
    rng = random.Random(seed)
    value = mail(rng)
    if markup:
        value = b"Content-Type: text/html\n\n" + hostile_markup(rng).encode()
    value = damaged(value, rng)

    made = mail_document(value)

    check(made)
    assert made == mail_document(value)


@given(st.binary(max_size=300), st.sampled_from(["", MULTI.decode(), "A: b\n\n"]))
@example(b"", "")
@example(b" folded: first\n\n", "")
def test_no_bytes_raise(value: bytes, before: str) -> None:
    """Bytes of any kind are a mail."""
    check(mail_document(before.encode() + value))


@pytest.mark.parametrize(
    ("before", "repeated", "times"),
    [
        (b"Subject: ", b"a", 10_000_000),
        (b"\n\n", b"a", 10_000_000),
        (b"\n\n", b"www.", 250_000),
        (b"\n\n", b"://", 300_000),
        (b"Subject: a\n", b" b\n", 300_000),
        (b"", b"X-%d: y\n", 100_000),
        (b"Subject: ", b"=?utf-8?B?aGVsbG8=?= ", 50_000),
        (MULTI, b"--x\n\n", 200_000),
        (b"", b"Content-Type: multipart/a; boundary=%d\n\n--%d\n", 16_000),
        (b"", b"Content-Type: message/rfc822\n\n", 160_000),
        (b"Content-Type: multipart/digest; boundary=x\n\n", b"--x\n\n", 30_000),
        (b"Content-Type: text/html\n\n", b"<div>", 100_000),
        (b"Content-Type: text/html\n\n", b"<b>", 100_000),
        (b"Content-Type: text/html\n\n", b"<p style='display:none'>", 40_000),
        (b"Content-Type: text/html\n\n", b"<a href=http://a.org>", 40_000),
        (b"Content-Type: text/plain; charset=punycode\n\n", b"a-b\xff", 200_000),
    ],
    ids=lambda value: value[-30:].decode("latin-1") if isinstance(value, bytes) else str(value),
)  # fmt: skip
def test_large_mails_take_time_in_proportion(before: bytes, repeated: bytes, times: int) -> None:
    """At most, whatever is repeated: eight times the mail is not 64 times the work."""
    numbered = repeated.count(b"%d")

    def made(count: int) -> bytes:
        if not numbered:
            return before + repeated * count + b"\n\nb"
        return before + b"".join(repeated % ((n,) * numbered) for n in range(count)) + b"\n\nb"

    value, eighth = made(times), made(times // 8)
    check(document := mail_document(value))

    assert str(document["structure"]).startswith(f"size_{len(value).bit_length()} ")
    assert growth(lambda: mail_document(eighth), lambda: mail_document(value)) < MOST_GROWTH


def test_header_of_many_lines_is_read_once() -> None:
    """Folded lines in linear time: eight times as many are not 64 times the work."""

    def read(lines: int) -> None:
        folded = b"X: a\r\n" + b" b\r\n" * lines
        assert bare(folded) == folded
        assert mail_key(b"Message-ID: <7@x.org>\r\n" + folded).startswith("7@x.org#")

    assert growth(lambda: read(20_000), lambda: read(160_000)) < MOST_GROWTH


@pytest.mark.parametrize("lines", ["", " a", "X:1", " a|X:1| b", "X:1|\tb| c|Y: 2|no header| d|Z:"])
def test_fields_are_the_headers_with_their_folds(lines: str) -> None:
    given = [line.encode() for line in lines.split("|") if line]
    fields = list(fields_of(given))

    assert b"".join(field for _, field in fields) == b"".join(given)
    assert [name for name, _ in fields if name] == [
        line.partition(b":")[0] for line in given if b":" in line
    ]


def test_markup_separates_blocks_and_joins_inline_elements() -> None:
    """Words that are split by inline elements are whole; hidden texts are apart."""
    made = read_markup(
        "<p>V<b>i</b>ag<span></span>ra</p>b<TABLE><tr><td>c</td><TD>d<br>e</table>"
        "<div style='DISPLAY : none'>no<b style='opacity:0'>t</b></div><script>x</script>"
        "<span style='font-size:0.9em'>f &amp; g</span>"
    )

    assert made.text == "Viagra\nb\nc\nd\ne\nf & g"
    assert made.hidden.replace("\n", "") == "not"


def test_nested_hidden_elements_are_read_once() -> None:
    """An element with two reasons to be hidden inside one of them."""
    made = read_markup("<div hidden style='display:none'>a<p hidden style='opacity:0'>b</p></div>c")

    assert (made.text, made.hidden.split()) == ("c", ["a", "b"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a HTTPS://x.org/(b) c", ["HTTPS://x.org/"]),
        ("WWW.x.org, mailto:a@b.org a.www.x.org", ["www.x.org"]),
        ("hxxp://x.org", ["hxxp://x.org"]),
        ("://x.org", ["http://x.org"]),
        ("no links, x.org", []),
    ],
)
def test_urls_of_a_text(text: str, expected: list[str]) -> None:
    """Without what is around them."""
    assert urls_in(text) == expected


@pytest.mark.parametrize("url", ["mailto:a@b.org", "#top", "/path", "cid:7", "", "://"])
def test_links_without_a_host_are_none(url: str) -> None:
    """They lead nowhere else."""
    assert link_of(url) is None


@pytest.mark.parametrize(
    "charset", ["utf-7", "utf-16", "gb2312", "punycode", "zlib", "\0", "é", "x" * 99]
)
def test_any_charset_gives_a_text(charset: str) -> None:
    """Also with bytes that are not in it, and lone surrogates of UTF-7."""
    for content in (b"", b"+2AA-", b"\xff\xfe\xff", bytes(range(256))):
        decoded(content, charset)[0].encode()


def test_no_parser_is_imported_before_a_mail() -> None:
    """The fields and the id of a mail need no package that is not always installed."""
    for name in ("fields", "links", "markup", "parts", "styles", "values"):
        source = Path(f"{limits.__file__}").with_name(f"{name}.py").read_text(encoding="utf-8")

        assert "\nfrom selectolax" not in source
        for package in ("tinycss2", "webencodings", "chardetng_py", "publicsuffixlist"):
            assert f"\nfrom {package}" not in source
