"""Bytes in a charset that a mail names, rightly or not, as text. Never raises.

Rule: as declared, by the names that browsers know, and where that cannot be, by the bytes.
"""

from __future__ import annotations

import codecs
import encodings.aliases
import re
from functools import cache, lru_cache
from pkgutil import iter_modules

__all__ = ["decoded", "undeclared"]

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
