"""What people see of a mail is read, however it is written, and what they do not see is apart."""

from __future__ import annotations

import binascii
from base64 import b64encode

import pytest

from consumers.mail.document import mail_document
from consumers.mail.envelope import LARGEST, bare, mail_key
from consumers.mail.lighter import lighter
from consumers.mail.styles import declared, rules_of

SPAM = "cheap pills, buy now at http://evil.example/x"
RUSSIAN = "Быстрые деньги без проверок, кредит наличными сегодня"
PLAIN = b"Content-Type: text/plain; charset=utf-8\n"
HTML = b"Content-Type: text/html; charset=utf-8\n\n"
FLOWED = b"Content-Type: text/plain; charset=utf-8; format=flowed"
MULTI = b"Content-Type: multipart/mixed; boundary=b\n\n"


def nested(levels: int, text: bytes) -> bytes:
    """A text in so many multiparts."""
    text = b"\n" + text
    for level in range(levels):
        text = b"Content-Type: multipart/mixed; boundary=n%d\n\n--n%d\n%s\n--n%d--" % (
            (level, level, text, level)
        )
    return text


def signed(content: bytes, *, chunked: bool) -> bytes:
    """CMS SignedData around a content, as far as it is looked at."""

    def element(tag: int, *parts: bytes) -> bytes:
        value = b"".join(parts)
        size = len(value).to_bytes(4)
        return bytes([tag, 0x84]) + size + value

    data = element(0x04, content)
    if chunked:  # as streams are written: of unknown length, in pieces
        half = len(content) // 2
        pieces = element(0x04, content[:half]) + element(0x04, content[half:])
        data = b"\x24\x80" + pieces + b"\0\0"
    of_data = bytes.fromhex("06092a864886f70d010701")
    inner = element(0x30, of_data, element(0xA0, data))
    body = element(0x30, b"\x02\x01\x01", element(0x31, element(0x30)), inner)
    return element(0x30, bytes.fromhex("06092a864886f70d010702"), element(0xA0, body))


def encoded(value: bytes) -> bytes:
    """As base64 in lines."""
    return binascii.b2a_base64(value).replace(b"\n", b"\r\n")


def opaque(content: bytes, *, chunked: bool = False) -> bytes:
    """A mail with an opaque signature."""
    return (
        b"Content-Type: application/pkcs7-mime; smime-type=signed-data; name=smime.p7m\n"
        b"Content-Transfer-Encoding: base64\n\n" + encoded(signed(content, chunked=chunked))
    )


def uuencoded(value: bytes, name: str) -> bytes:
    """A file in a text."""
    lines = [binascii.b2a_uu(value[at : at + 45]) for at in range(0, len(value), 45)]
    return b"begin 644 %s\n%s`\nend\n" % (name.encode(), b"".join(lines))


def cut(text: bytes) -> bytes:
    """In lines of five characters, as format=flowed with DelSp has them."""
    return b" \r\n".join(b" " + text[at : at + 5] for at in range(0, len(text), 5))


def written(shown: str) -> dict[str, bytes]:
    """A text in many ways, without the headers above."""
    text = shown.encode()
    base64 = b64encode(text)
    return {
        "as it is": PLAIN + b"\n" + text,
        "an attachment": PLAIN + b"Content-Disposition: attachment; filename=a.txt\n\n" + text,
        "17 levels": nested(17, text),
        "200 levels": nested(200, text),
        "base64;": PLAIN + b"Content-Transfer-Encoding: base64;\n\n" + base64,
        "base64 (really)": PLAIN + b"Content-Transfer-Encoding: base64 (really)\n\n" + base64,
        "base-64": PLAIN + b"Content-Transfer-Encoding: BASE-64\n\n" + base64,
        "base64 with a footer": PLAIN
        + b"Content-Transfer-Encoding: base64\n\n"
        + b64encode(text + b" ")
        + b"\n\nA footer.",
        "uuencode": PLAIN + b"Content-Transfer-Encoding: x-uuencode\n\n" + uuencoded(text, "a"),
        "4,001 tags": HTML + b"<b>" * 4001 + text + b" <a href='http://evil.example/x'>go</a>",
        "501 attributes": HTML + b"<p " + b"".join(b" a%d" % i for i in range(501)) + b">" + text,
        "501 options": HTML + b"<select>" + b"<option>" * 501 + b"</select>" + text,
        "many fonts": HTML + b"".join(b"<font size=%d><p>" % i for i in range(2000)) + text,
        "after an attachment": MULTI
        + b"--b\nContent-Type: image/png\nContent-Transfer-Encoding: base64\n\n"
        + encoded(bytes(2_000_000))
        + b"\n--b\n\n"
        + text
        + b"\n--b--",
        "after many pages": MULTI + (b"--b\n" + HTML + b"<p>\n") * 9 + b"--b\n" + HTML + text,
        "an attached page": MULTI
        + b"--b\n\n\n--b\nContent-Type: application/octet-stream; name=a.HTM\n\n<p>"
        + text,
        "an attached mail": MULTI + b"--b\nContent-Type: message/rfc822\n\nX: y\n\n" + text,
        "an encoded mail": MULTI
        + b"--b\nContent-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n"
        + encoded(PLAIN + b"\n" + text),
        "signed": opaque(PLAIN + b"\r\n" + text),
        "signed in pieces": opaque(PLAIN + b"\r\n" + text, chunked=True),
        "signed twice": opaque(opaque(PLAIN + b"\n" + text)),
        "lines cut within words": FLOWED + b"; delsp=yes\n\n" + cut(text),
        "a digest": b"Content-Type: multipart/digest; boundary=b\n\n--b\n\nX: y\n\n" + text,
        "boundary in the other case of a header": MULTI.lower() + b"--b\n\n" + text,
        "carriage returns": (MULTI + b"--b\n\n" + text + b"\n--b--\n").replace(b"\n", b"\r"),
    }


WRITTEN = written(SPAM)


@pytest.mark.parametrize("how", WRITTEN)
def test_each_way_of_writing_gives_the_words_and_the_link(how: str) -> None:
    made = mail_document(WRITTEN[how])

    assert set(SPAM.split()) <= set(made["text"].split())
    assert "evil.example/x evil_example" in made["links"]
    assert not made["hidden"]


@pytest.mark.parametrize("parameters", [b"; DelSp=Yes", b"; delsp=no", b""])
def test_only_lines_cut_within_words_are_joined(parameters: bytes) -> None:
    """Not those of another depth of quotes, and not before the dashes of a signature."""
    text = "via \n gra\n> free \n>> money\nbest \n-- \nJo"
    made = mail_document(FLOWED + parameters + b"\n\n" + text.encode())

    joined = "viagra\n> free\n>> money\nbest\n-- \nJo"
    assert made["text"] == (joined if b"Yes" in parameters else text)


@pytest.mark.parametrize("how", WRITTEN)
def test_a_lighter_copy_has_the_text_and_the_id(how: str) -> None:
    """Also where the whole mail is too large to be sent."""
    value = WRITTEN[how]
    copy = lighter(value)

    assert len(copy) <= LARGEST
    assert mail_key(copy) == mail_key(value)
    for field in ("text", "links", "subject", "attachments"):
        assert mail_document(copy)[field] == mail_document(value)[field]


@pytest.mark.parametrize(
    ("content", "charset", "expected"),
    [
        (RUSSIAN.encode() + b" \xff", "utf-8", RUSSIAN + " \ufffd"),
        (RUSSIAN.encode()[:-1], "utf-8", RUSSIAN[:-1] + "\ufffd"),
        (RUSSIAN.encode("koi8-r"), "koi8-ru", RUSSIAN),
        (RUSSIAN.encode("koi8-r"), "", RUSSIAN),
        (RUSSIAN.encode("cp1251"), "", RUSSIAN),
        (RUSSIAN.encode("cp1251"), "utf-8", RUSSIAN),
        ("שלום כסף".encode("iso-8859-8"), "iso-8859-8-i", "שלום כסף"),
        ("“pills” – cheap".encode("cp1252"), "iso-8859-1", "“pills” – cheap"),
        ("こんにちは".encode("iso-2022-jp"), "", "こんにちは"),
        ("こんにちは".encode("iso-2022-jp"), "us-ascii", "こんにちは"),
        ("\ufeff" + RUSSIAN, "", RUSSIAN),
    ],
)
def test_charset_as_declared_and_then_by_the_bytes(
    content: bytes | str, charset: str, expected: str
) -> None:
    raw = content.encode("utf-16") if isinstance(content, str) else content
    declared = f"; charset={charset}" if charset else ""
    encoding = "\nContent-Transfer-Encoding: base64\n\n"
    head = f"Content-Type: text/plain{declared}{encoding}".encode()

    assert mail_document(head + encoded(raw))["text"] == expected


def test_page_declares_its_charset_itself() -> None:
    page = b"Content-Type: text/html\n\n<meta charset='koi8-r'><p>" + RUSSIAN.encode("koi8-r")

    assert mail_document(page)["text"] == RUSSIAN


def test_subject_in_bytes_has_the_charset_of_the_text() -> None:
    """Too few letters to detect one."""
    head = "Subject: деньги\nContent-Type: text/plain; charset=koi8-r\n\nx"

    assert mail_document(head.encode("koi8-r"))["subject"] == "деньги"


def test_subject_in_seven_bits_may_be_japanese() -> None:
    assert mail_document("Subject: こんにちは\n\n".encode("iso-2022-jp"))["subject"] == "こんにちは"


def test_character_that_two_encoded_words_share_is_one() -> None:
    subject = b"Subject: =?utf-8?B?0LrRgNA=?=\n =?utf-8?B?tdC00LjRgg==?=\n\n"

    assert mail_document(subject)["subject"] == "кредит"


def test_attached_mail_gives_subject_sender_and_names() -> None:
    inner = b"From: Jo <jo@evil.example>\nSubject: wombat\n" + MULTI.replace(b"=b", b"=c")
    inner += b"--c\nContent-Type: image/png; name=x.png\n\n\n--c--\n"
    made = mail_document(
        MULTI + b"--b\n\nlook\n--b\nContent-Type: message/rfc822\n\n" + inner + b"--b--"
    )

    assert made["text"] == "look\nJo <jo@evil.example>\nwombat"
    assert made["attachments"] == "image_png suffix_png x.png"


def test_report_shows_its_fields_and_the_mail_that_came_back() -> None:
    made = mail_document(
        b"Content-Type: multipart/report; boundary=b\n\n--b\n\nnot delivered\n"
        b"--b\nContent-Type: message/delivery-status\n\nDiagnostic-Code: smtp; 550 wombat\n"
        b"--b\nContent-Type: message/rfc822\n\nSubject: back\n\nagain\n--b--"
    )

    assert made["text"].splitlines() == [
        "not delivered", "Diagnostic-Code: smtp; 550 wombat", "back", "again",
    ]  # fmt: skip


def test_calendar_shows_its_entries() -> None:
    made = mail_document(
        b"Content-Type: text/calendar\n\nBEGIN:VCALENDAR\r\nSUMMARY:Buy\\, now\r\n"
        b"DESCRIPTION:see http://evil.ex\r\n ample/x\r\nORGANIZER;CN=Jo:mailto:jo@a.org\r\n"
    )

    assert made["text"] == "Buy, now\nsee http://evil.example/x\nJo jo@a.org"
    assert made["links"] == "evil.example/x evil_example"


def test_files_in_a_text_are_attachments() -> None:
    page = uuencoded(b"<p>pills <a href=http://evil.example/x>x</a>", "b.html")
    made = mail_document(b"\nsee\n" + uuencoded(b"MZ", "a.exe") + page + b"bye")

    assert made["text"].split() == ["pills", "x", "see", "bye"]
    assert made["attachments"] == "uuencode suffix_exe a.exe uuencode suffix_html b.html"
    assert made["links"] == "evil.example/x evil_example"


@pytest.mark.parametrize(
    ("markup", "links"),
    [
        ("<form action='http://f.example/p'>", "f.example/p f_example"),
        ("<button formaction=http://f.example/>", "f.example/ f_example"),
        ("<iframe src=//f.example/></iframe>", "f.example/ f_example"),
        ("<map><area href=http://f.example/>", "f.example/ f_example"),
        ("<meta http-equiv=refresh content='0; url=http://f.example/'>", "f.example/ f_example"),
        ("<a href='p/q'>x</a><base href='http://f.example/d/e'>",
         "f.example/d/p/q f_example f.example/d/e f_example"),
        ("<a href='ht\ntp:\\\\f.ex%61mple/x'>x</a>", "f.example/x f_example"),
        ("<a href='https:f.example/x'>x</a>", "f.example/x f_example"),
        ("<p>bit.ly/abc, and/or (f.example/x).", "bit.ly/abc bit_ly f.example/x f_example"),
        ("<a href=\"javascript:location='x'\">x</a>", ""),
    ],
)  # fmt: skip
def test_whatever_leads_somewhere_is_a_link(markup: str, links: str) -> None:
    """As a browser resolves it."""
    assert mail_document(HTML + markup.encode())["links"] == links


HIDDEN = {
    "a class": ("<style>.x{display:none}</style>", "<p class=x>{}</p>"),
    "an id": ("<style>p#x{visibility:hidden}</style>", "<p id=x>{}</p>"),
    "a descendant": ("<style>div > .x b{opacity:0}</style>", "<div><p class=x><b>{}</b></p></div>"),
    "a list": ("<style>/* } */ .y, .x {font-size:1px}</style>", "<p class=x>{}</p>"),
    "media": ("<style>@media screen{.x{display:none}}</style>", "<p class=x>{}</p>"),
    "important": ("<style>.x{display:none!important}</style>",
                  "<p class=x style='display:block'>{}</p>"),
    "an escape": ("", "<p style='d\\69splay:none'>{}</p>"),
    "a comment": ("", "<p style='display:/* x */none'>{}</p>"),
    "an attribute": ("", "<p hidden>{}</p>"),
    "visibility": ("", "<p style='visibility:collapse'>{}</p>"),
    "size 0": ("", "<p style='font-size:0'>{}</p>"),
    "size 1": ("", "<p style='font-size: 1px'>{}</p>"),
    "a short font": ("", "<p style='font:1px/1 arial'>{}</p>"),
    "white on white": ("", "<p style='color:#fff;background:#ffffff'>{}</p>"),
    "white on the page": ("", "<font color=white>{}</font>"),
    "nearly white": ("", "<p style='color:rgb(250, 250, 250)'>{}</p>"),
    "colour of a cell": ("", "<table><tr><td bgcolor=#123456><b style='color:#123456'>{}</b>"
                         "</td></tr></table>"),
    "black on black": ("", "<p style='background:black'>{}</p>"),
    "colours of rules": ("<style>div{background-color:navy} .x{color:#000080}</style>",
                         "<div><p class=x>{}</p></div>"),
    "left of the screen": ("", "<p style='position:absolute;left:-9999px'>{}</p>"),
    "an indent": ("", "<p style='text-indent:-9999px'>{}</p>"),
    "a box": ("", "<p style='max-height:0;overflow:hidden'>{}</p>"),
    "Outlook": ("", "<p style='mso-hide:all'>{}</p>"),
    "a clear colour": ("", "<p style='color:transparent'>{}</p>"),
    "a colour with its opacity": ("", "<p style='color:#ffffff00'>{}</p>"),
    "white with its opacity": ("", "<p style='color:#ffffffff'>{}</p>"),
    "white by its parts": ("", "<p style='color:rgb(255 255 255 / 1)'>{}</p>"),
    "a colour of the text alone": ("", "<p style='color:red;-webkit-text-fill-color:#fff'>{}</p>"),
    "white, as it is around": ("", "<p style='color:#fff'><b style='color:inherit'>{}</b></p>"),
    "2em of nothing": ("", "<p style='font-size:0'><b style='font-size:2em'>{}</b></p>"),
    "hidden, as it is around": ("", "<p style='visibility:hidden'>"
                                "<b style='visibility:inherit'>{}</b></p>"),
    "millimetres": ("", "<p style='font-size:.1mm'>{}</p>"),
    "50em to the left": ("", "<p style='position:absolute;left:-50em'>{}</p>"),
    "a screen to the left": ("", "<p style='position:fixed;left:-100vw'>{}</p>"),
    "moved from its place": ("", "<p style='position:relative;left:-9999px'>{}</p>"),
    "beyond the right": ("", "<p style='position:absolute;right:9999px'>{}</p>"),
    "a margin": ("", "<p style='margin:0 0 0 -9999px'>{}</p>"),
    "an inset": ("", "<p style='position:absolute;inset:0 0 0 -9999px'>{}</p>"),
    "a transform": ("", "<p style='transform:translate(-9999px, 0)'>{}</p>"),
    "a scale": ("", "<p style='transform:rotate(1deg) scale(0)'>{}</p>"),
    "a clip": ("", "<p style='position:absolute;clip:rect(0 0 0 0)'>{}</p>"),
    "a path of a clip": ("", "<p style='clip-path:inset(100%)'>{}</p>"),
    "a filter": ("", "<p style='filter:opacity(0%)'>{}</p>"),
    "a box of a pixel": ("", "<p style='height:1px;overflow-y:hidden'>{}</p>"),
    "content": ("", "<p style='content-visibility:hidden'>{}</p>"),
    "any screen": ("<style>@media (min-width:1px){.x{display:none}}</style>", "<p class=x>{}</p>"),
    "what is supported": ("<style>@supports (color:red){.x{display:none}}</style>",
                          "<p class=x>{}</p>"),
    "a layer": ("<style>@layer a{.x{display:none}}</style>", "<p class=x>{}</p>"),
    "not a class": ("<style>i:not(.y){display:none}</style>", "<i>{}</i><i class=y></i>"),
    "a frame": ("", "<iframe style='display:block'>{}</iframe>"),
    "no frames": ("", "<noframes>{}</noframes>"),
    "nothing embedded": ("", "<noembed>{}</noembed>"),
    "choices": ("", "<datalist><option>{}</datalist>"),
    "a closed dialog": ("", "<dialog>{}</dialog>"),
    "a title below": ("", "<title>{}</title>"),
}  # fmt: skip
SHOWN = {
    "other media": ("<style>@media print{.x{display:none}}</style>", "<p class=x>{}</p>"),
    "a narrow screen": ("<style>@media (max-width:9px){.x{display:none}}</style>",
                        "<p class=x>{}</p>"),
    "a later rule": ("<style>.x{display:none}.x{display:block}</style>", "<p class=x>{}</p>"),
    "a stronger rule": ("<style>p.x{display:block}.x{display:none}</style>", "<p class=x>{}</p>"),
    "its own style": ("<style>.x{display:none}</style>",
                      "<p class=x style='display:block'>{}</p>"),
    "a text in quotes": ("", "<p style=\"font-family:'a;display:none;b'\">{}</p>"),
    "a size inside": ("", "<p style='font-size:0'><b style='font-size:14px'>{}</b></p>"),
    "visible inside": ("", "<p style='visibility:hidden'><b style='visibility:visible'>{}</b></p>"),
    "a colour inside": ("", "<p style='color:#fff'><b style='color:#333'>{}</b></p>"),
    "a link in its colour": ("", "<p style='color:#fff'><a href=#>{}</a></p>"),
    "white on blue": ("", "<table><tr><td bgcolor=#000080><p style='color:#fff'>{}</p>"
                      "</td></tr></table>"),
    "white on a picture": ("", "<div style='background:url(a.png)'><p style='color:#fff'>{}</p>"
                           "</div>"),
    "a small indent": ("", "<p style='text-indent:-20px'>{}</p>"),
    "0.9em": ("", "<p style='font-size:0.9em'>{}</p>"),
    "a height alone": ("", "<p style='height:0'>{}</p>"),
    "a sheet for paper": ("<style media=print>.x{display:none}</style>", "<p class=x>{}</p>"),
    "a sheet of another kind": ("<style type=text/x>.x{display:none}</style>",
                                "<p class=x>{}</p>"),
    "what is not supported": ("<style>@supports not (color:red){.x{display:none}}</style>",
                              "<p class=x>{}</p>"),
    "white on a picture of one property": (
        "", "<div style='background-image:linear-gradient(#000,#000)'>"
        "<p style='color:#fff'>{}</p></div>"),
    "2rem in nothing": ("", "<p style='font-size:0'><b style='font-size:2rem'>{}</b></p>"),
    "an open dialog": ("", "<dialog open>{}</dialog>"),
    "a thin margin": ("", "<p style='margin:0 -20px'>{}</p>"),
    "half clear": ("", "<p style='color:rgba(0,0,0,.5)'>{}</p>"),
    "a broken selector": ("<style>..x[{display:none} p:hover{display:none}</style>",
                          "<p class=x>{}</p>"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("how", "hides"), [(x, True) for x in HIDDEN] + [(x, False) for x in SHOWN]
)
def test_text_that_is_not_shown_is_apart(how: str, hides: bool) -> None:
    """A view of its own, so that good words that nobody sees are no good words."""
    sheet, markup = (HIDDEN if hides else SHOWN)[how]
    page = f"<head>{sheet}</head><body><p>pills</p>{markup.format('meeting')}<p>now</p>"
    made = mail_document(HTML + page.encode())

    shown, hidden = (["pills", "now"], "meeting") if hides else (["pills", "meeting", "now"], "")
    assert made["text"].split() == shown
    assert made["hidden"] == hidden
    assert ("hidden_text" in made["structure"].split()) == hides


def test_hidden_elements_in_hidden_ones_are_read_once() -> None:
    """The inner one is found by the earlier rule; all are white too."""
    sheet = "<style>.y{display:none} .x{display:none} p,b,i{color:#fff}</style>"
    page = f"{sheet}a<p class=x>b<b class=y>c<i>d</i></b></p><i>e</i>"
    made = mail_document(HTML + page.encode())

    assert (made["text"], made["hidden"].split()) == ("a", ["cd", "b", "e"])


def test_simple_declarations_are_those_of_tinycss2() -> None:
    """A split at semicolons reads them as fast, and only where both read the same."""
    from consumers.mail.styles import _parsed

    for style in (
        "display:none", "color:#FFF !important;;", "font:0/0 a; margin:0 auto;color:", ";:;",
        "background:url(a.png) #fff; x", "color:red;color:blue!important;color:green",
        "DISPLAY:NONE",
    ):  # fmt: skip
        assert declared(style) == _parsed(style), style


def test_sheet_that_is_broken_ends() -> None:
    for sheet in ("a{", "}}}a{display:none}", '"{', "@media{", "@import x;a{display:none", "\\"):
        assert len(list(rules_of(sheet))) <= 1


def test_verdict_of_another_filter_is_no_word() -> None:
    """So a forged one helps nobody; what a server measured stays."""
    head = b"X-Spam-Flag: NO\nX-Bogosity: Ham\nSTATUS: RO\nX-Mozilla-Keys: $junk\nX-UID: 7\n"
    kept = b"X-Mailer: y\nAuthentication-Results: a.org; spf=fail\n\nhi"

    assert mail_document(head + kept)["headers"] == mail_document(kept)["headers"]
    assert "spf_fail" in mail_document(kept)["headers"]
    assert bare(head + kept) == kept


def alternatives(plain: bytes, page: bytes) -> dict[str, str]:
    """A mail with both, and with a picture beside the page."""
    return mail_document(
        b"Content-Type: multipart/alternative; boundary=a\n\n--a\n\n" + plain
        + b"\n--a\nContent-Type: multipart/related; boundary=b\n\n--b\n" + HTML + page
        + b"\n--b\nContent-Type: image/png\n\n\n--b--\n--a--\n"
    )  # fmt: skip


def test_text_instead_of_which_another_is_shown_is_hidden() -> None:
    """Good words in it would make ham of spam."""
    made = alternatives(b"minutes of our weekly meeting", b"<p>cheap pills")

    assert (made["text"], made["hidden"]) == ("cheap pills", "minutes of our weekly meeting")
    assert "alternative_differs" in made["structure"].split()


@pytest.mark.parametrize(
    ("plain", "page"),
    [
        (b"Cheap PILLS, now: http://a.example/d?e=f&g=h&i=j", b"<p><b>cheap</b> pills<p>now"),
        (b"cheap pills", b"<img src=a.png>"),
        (b"Your program shows no pages. It is about cheap pills.", b"<p>cheap pills<p>your order"),
        (b"cheap pills", b"<p hidden>cheap pills"),
    ],
)
def test_text_that_says_the_same_or_is_all_there_is_is_shown(plain: bytes, page: bytes) -> None:
    """Links are written out in plain texts, and newsletters say there that they are pages."""
    made = alternatives(plain, page)

    assert {"cheap", "pills"} <= set(made["text"].lower().replace(",", "").split())
    assert "alternative_differs" not in made["structure"]
