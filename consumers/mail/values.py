"""Headers and parts of a mail as text, in linear time.

The value of a header as text: its lines joined, its encoded words decoded (RFC 2047).

Rule: words that follow each other in one charset are one text, because senders split characters
between two words. Everything takes time in proportion to the value.

Parameters of a header, in linear time. Never raises.

`email` compares each semicolon of a header with all that follow, decodes a parameter in any charset
that a mail names, such as punycode, and raises for parameters whose numbers cannot be sorted.

Bytes in a charset that a mail names, rightly or not, as text. Never raises.

Rule: as declared, by the names that browsers know, and where that cannot be, by the bytes.

Transfer encodings of a part, as senders write them, rightly or not. In linear time.

Rule: as `email` with policy.default, and more lenient where mail programs are: names with comments
or in another spelling, and base64 without its last characters.
"""

from __future__ import annotations

import binascii
import codecs
import encodings.aliases
import re
from email.utils import unquote
from functools import cache, lru_cache
from pkgutil import iter_modules
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from consumers.mail import limits
from stream.remembered import remembered

__all__ = [
    "decoded",
    "enclosed_in",
    "encoding_of",
    "line_of",
    "parameter",
    "text_of",
    "untransferred",
    "words_decoded",
]

# A superset of each, because senders name the smaller one.
_WIDER = {"gbk": "gb18030", "big5": "big5hkscs", "euc-kr": "cp949", "shift_jis": "cp932"}
# Python's own encodings, which no mail has. Decoding punycode takes time quadratic in its length.
_NEVER = {"idna", "punycode", "undefined", "raw-unicode-escape", "unicode-escape", "mbcs", "oem"}
_ASCII = ("us-ascii", "ascii")  # if it is not, it is most likely UTF-8
_LONGEST_NAME = 40
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_OTHER = re.compile(rb"[\x80-\xff\x1b]")
_BEFORE, _DETECTED = 100, 1 << 14  # bytes around the first that is not ASCII, which are looked at


def decoded(content: bytes, charset: str) -> tuple[str, str]:
    """The text and what was wrong: "", `unknown_charset` or `bad_charset`.

    Parameters
    ----------
    content
        The bytes.
    charset
        Its name in lower case; "" if none is declared.

    Examples
    --------
    >>> decoded(b"na\\xefve", "iso-8859-1"), decoded(b"na\\xc3\\xafve", "")
    (('naïve', ''), ('naïve', ''))
    >>> [decoded("Größe".encode("latin-1"), name) for name in ("utf-8", "x-klingon")]
    [('Größe', 'bad_charset'), ('Größe', 'unknown_charset')]
    >>> decoded("naïve \\xff".encode("utf-8")[:-1], "utf-8")
    ('naïve \ufffd', 'bad_charset')
    """
    if content[:2] in (b"\xef\xbb", b"\xff\xfe", b"\xfe\xff"):
        for mark, codec in _MARKS:
            if content.startswith(mark):
                try:
                    return content.decode(codec).removeprefix("\ufeff"), ""
                except UnicodeDecodeError:
                    break
    codec = _codec(charset) if charset else ""
    if codec in ("utf-8", "") or charset in _ASCII:
        wrong = "unknown_charset" if charset and not codec else ""
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return undeclared(content), wrong or ("bad_charset" if charset else "")
        if "\x1b" in text and (not charset or charset in _ASCII):  # Japanese in seven bits
            text = undeclared(content)
        return text, wrong
    try:
        return _clean(content.decode(codec)), ""
    except ValueError:
        pass
    try:  # the most frequent mistake
        return content.decode(), "bad_charset"
    except UnicodeDecodeError:
        return _clean(content.decode(codec, "replace")), "bad_charset"


def undeclared(content: bytes, charset: str = "") -> str:
    """The text of bytes without a usable charset: of UTF-8 with few errors, or of what they look
    like.

    Parameters
    ----------
    content
        The bytes.
    charset
        A charset that they may have: that of another text of the mail.

    Examples
    --------
    >>> undeclared("один два".encode("koi8-r")), undeclared("один".encode("koi8-r"), "koi8-r")
    ('один два', 'один')
    """
    text = content.decode("utf-8", "replace")
    wrong = text.count("\ufffd")
    if not wrong and "\x1b" not in text:
        return text
    if len(text) - len(text.encode("ascii", "ignore")) >= 2 * wrong > 0:
        return text
    codec = _codec(charset) if charset else ""
    if codec and codec != "utf-8":
        try:
            return _clean(content.decode(codec))
        except ValueError:
            pass
    return _clean(content.decode(_detected(content), "replace"))


def _detected(content: bytes) -> str:
    """The codec that the first bytes that are not ASCII look like."""
    from chardetng_py import detect

    found = _OTHER.search(content)
    first = max(found.start() - _BEFORE, 0) if found else 0
    name: str = detect(content[first : first + _BEFORE + _DETECTED])
    return _codec(name.lower()) or "cp1252"


def _clean(text: str) -> str:
    """Without lone surrogates, which UTF-7 can contain and no text may."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


@cache
def _names() -> frozenset[str]:
    """The names of Python's codecs."""
    modules = (module.name for module in iter_modules(encodings.__path__))
    return frozenset([*encodings.aliases.aliases, *modules])


@lru_cache(maxsize=256)
def _codec(charset: str) -> str:
    """Python's name of a charset, by the names of browsers, or else by its own; "" if there is no
    such codec.

    Python keeps each name that it was asked for and does not have, so it is asked for others only.
    """
    from webencodings import lookup

    if len(charset) > _LONGEST_NAME or not charset.isascii():
        return ""
    known = lookup(charset)
    if known is not None and known.name not in ("x-user-defined", "replacement"):
        return _WIDER.get(known.name) or known.codec_info.name
    key = encodings.normalize_encoding(charset)
    if not {key, key.replace(".", "_")} & _names():
        return ""
    try:
        found = codecs.lookup(charset)
        "".encode(charset)  # LookupError: no encoding of texts, such as zlib
    except (LookupError, ValueError, UnicodeError):
        return ""
    return "" if found.name.replace("_", "-") in _NEVER else found.name


_NAME = re.compile(rb"[\w-]+")
_KNOWN = {
    b"base64": "base64",
    b"quotedprintable": "quoted-printable",
    b"uuencode": "uuencode",
    b"uue": "uuencode",
}
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NO_BASE64 = bytes(set(range(256)) - set(_BASE64))
_BEGIN = re.compile(rb"^begin [0-7]{3,4} ([^\n]{1,200})\n", re.MULTILINE)
_END = re.compile(rb"^end[ \t]*(?:\n|\Z)", re.MULTILINE)
_MOST = 20  # files in one text


class Enclosed(NamedTuple):
    """A text without the files that are written into it, and their names and contents."""

    text: bytes
    files: list[tuple[bytes, bytes]]


def encoding_of(value: bytes) -> str:
    """The encoding that a header names: `base64`, `quoted-printable`, `uuencode` or "".

    Examples
    --------
    >>> encoding_of(b"Base-64; (really)"), encoding_of(b"x-uuencode"), encoding_of(b"8bit")
    ('base64', 'uuencode', '')
    """
    found = _NAME.search(value)
    name = found.group().lower().removeprefix(b"x-").replace(b"-", b"") if found else b""
    return _KNOWN.get(name, "")


def untransferred(raw: bytes, encoding: str) -> tuple[bytes, bool]:
    """The bytes that were encoded, and whether the encoding was broken."""
    if encoding == "base64":
        return unbase64(raw)
    if encoding == "quoted-printable":
        return binascii.a2b_qp(raw), False
    if encoding == "uuencode":
        found = _BEGIN.search(raw)
        if found is None:
            return raw, True
        return _uudecoded(raw[found.end() :])
    return raw, False


def unbase64(raw: bytes) -> tuple[bytes, bool]:
    """The bytes, and whether their end is missing. What is no base64 is left out.

    Examples
    --------
    >>> unbase64(b"aGVs!bG8=\\nfooter"), unbase64(b"aGVsbG8gd29ybG"), unbase64(b"aGVsb")
    ((b'hello', False), (b'hello worl', True), (b'hel', True))
    """
    try:
        return binascii.a2b_base64(raw), False
    except binascii.Error:
        clean = raw.translate(None, _NO_BASE64)
        clean = clean[: len(clean) - (len(clean) % 4 == 1)]
        return binascii.a2b_base64(clean + b"=" * (-len(clean) % 4)), True


def enclosed_in(text: bytes) -> Enclosed:
    """What mail programs show of a text in which files are uuencoded.

    Examples
    --------
    >>> enclosed_in(b"see\\nbegin 644 a.txt\\n#:&D*\\n`\\nend\\nbye")
    Enclosed(text=b'see\\nbye', files=[(b'a.txt', b'hi\\n')])
    """
    kept: list[bytes] = []
    files: list[tuple[bytes, bytes]] = []
    at = 0
    for _ in range(_MOST):
        begin = _BEGIN.search(text, at)
        end = _END.search(text, begin.end()) if begin else None
        if begin is None or end is None:
            break
        content, broken = _uudecoded(text[begin.end() : end.start()])
        if broken or not content:  # a text that has such a line
            kept.append(text[at : begin.end()])
            at = begin.end()
            continue
        kept.append(text[at : begin.start()])
        files.append((begin[1].strip(), content))
        at = end.end()
    return Enclosed(b"".join([*kept, text[at:]]), files)


def _uudecoded(lines: bytes) -> tuple[bytes, bool]:
    """The bytes of the lines up to `end`, and whether a line is broken."""
    out, broken = [], False
    for line in lines.split(b"\n"):
        if not line.strip():
            continue
        if line.rstrip() == b"end":
            break
        try:
            out.append(binascii.a2b_uu(line))
        except binascii.Error:
            # Some encoders count wrongly: the first character says how many there are.
            count = (((line[0] - 32) & 63) * 4 + 5) // 3 if line else 0
            try:
                out.append(binascii.a2b_uu(line[:count]))
            except binascii.Error:
                broken = True
    return b"".join(out), broken


# After the name: a number, and whether its charset is named (RFC 2231).
_CONTINUED = re.compile(r"\*(?:([0-9]{1,6})(\*)?)?", re.ASCII)


def parameter(value: str, name: str) -> str | None:
    """A parameter of a header's value; None if it has none of this name in lower case.

    Examples
    --------
    >>> parameter('text/plain; Name="a;b"; x=y', "name")
    'a;b'
    >>> parameter("text/plain; name*1=c; name*0*=utf-8''%C3%A4b", "name")
    'äbc'
    """
    if name not in value.lower():
        return None
    pieces: list[tuple[int, str, bool]] = []
    for key, found in _parameters(value):
        key = key.lower()
        if key == name:
            return unquote(unquote(found))
        continued = _CONTINUED.fullmatch(key, len(name)) if key.startswith(name) else None
        if continued is not None:
            pieces.append((int(continued[1] or 0), unquote(found), key.endswith("*")))
    return _joined(sorted(pieces)) if pieces else None


@remembered(1 << 8)  # a header is asked for several parameters
def _parameters(value: str) -> tuple[tuple[str, str], ...]:
    """Name and value of each parameter. A semicolon in quotes does not end one."""
    out: list[tuple[str, str]] = []
    held: list[str] = []
    open_, pieces = False, value.split(";")
    for number, piece in enumerate(pieces, 1):
        held.append(piece)
        if '"' in piece:
            open_ ^= (piece.count('"') - piece.count('\\"')) % 2 == 1
        if not open_ or number == len(pieces):
            name, _, found = ";".join(held).partition("=")
            out.append((name.strip(), found.strip()))
            held.clear()
    return tuple(out)


def _joined(pieces: list[tuple[int, str, bool]]) -> str:
    """The text of the pieces of a value; the first of them may begin with a charset."""
    if not any(encoded for _, _, encoded in pieces):
        return unquote("".join(text for _, text, _ in pieces))
    raw = b"".join(
        unquote_to_bytes(text) if encoded else text.encode("utf-8", "replace")
        for _, text, encoded in pieces
    )
    charset, mark, rest = raw.partition(b"'")
    _, second, text = rest.partition(b"'")
    if not (mark and second):
        return decoded(raw, "")[0]
    return decoded(text, charset.decode("ascii", "replace").strip().lower())[0]


_WORD = re.compile(rb"=\?([^?\s]{1,60})\?([bBqQ])\?([^?]*)\?=")
_FOLD = re.compile(rb"\n[ \t]*")


def line_of(raw: bytes, charset: str = "") -> str:
    r"""A header's value as one line, with its encoded words as they are.

    Parameters
    ----------
    raw
        Its bytes, which may be several lines.
    charset
        That of the mail's text, which bytes that are neither ASCII nor UTF-8 may have.

    Examples
    --------
    >>> line_of(b" a\n b")
    'a b'
    """
    raw = _unfolded(raw)
    return raw.decode() if _is_plain(raw) else undeclared(raw, charset)


def text_of(raw: bytes, charset: str = "") -> str:
    r"""The text of a header's value; see `line_of` for the parameters.

    Examples
    --------
    >>> text_of(b" =?utf-8?B?Y2Fm?=\n =?utf-8?Q?=C3=A9?= au\n lait")
    'café au lait'
    """
    raw = _unfolded(raw)
    if b"=?" in raw:
        return _decoded(raw, charset)
    return raw.decode() if _is_plain(raw) else undeclared(raw, charset)


def words_decoded(text: str) -> str:
    """The text with its encoded words decoded.

    Examples
    --------
    >>> words_decoded("a =?utf-8?Q?b=C3?= =?utf-8?Q?=A9?= =?koi8-r?B?wQ==?= c")
    'a béа c'
    """
    return _decoded(text.encode("utf-8", "replace"), "") if "=?" in text else text


def _is_plain(raw: bytes) -> bool:
    """Whether it is ASCII and no Japanese in seven bits."""
    return raw.isascii() and b"\x1b" not in raw


def _unfolded(raw: bytes) -> bytes:
    if len(raw) > limits.LONGEST_VALUE:
        raw = raw[: limits.LONGEST_VALUE]
    return (_FOLD.sub(b" ", raw) if b"\n" in raw else raw).strip()


def _decoded(raw: bytes, charset: str) -> str:
    """The text of bytes with encoded words."""
    out: list[str] = []
    held: list[bytes] = []
    named, at = "", 0
    for found in _WORD.finditer(raw):
        between = raw[at : found.start()]
        at = found.end()
        name = found[1].partition(b"*")[0].decode("ascii", "replace").lower()
        adjacent = bool(held) and not between.strip()
        if held and not (adjacent and name == named):
            out.append(decoded(b"".join(held), named)[0])
            held = []
        if not adjacent:
            out.append(undeclared(between, charset))
        named = name
        content = found[3]
        held.append(
            unbase64(content)[0] if found[2] in b"bB" else binascii.a2b_qp(content, header=True)
        )
    if held:
        out.append(decoded(b"".join(held), named)[0])
    return "".join([*out, undeclared(raw[at:], charset)])
