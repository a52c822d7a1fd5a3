"""Bytes in a charset that a mail names, rightly or not, as text. Never raises."""

from __future__ import annotations

import codecs
import encodings.aliases
from functools import cache, lru_cache
from pkgutil import iter_modules

__all__ = ["decoded"]

# A superset of each, because senders name the smaller one.
_WIDER = {
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "iso-8859-1": "cp1252",
    "latin1": "cp1252",
    "latin-1": "cp1252",
    "iso-8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "cp950",
    "shift_jis": "cp932",
    "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949",
    "tis-620": "cp874",
}
# Python's own encodings, which no mail has. Decoding punycode takes time quadratic in its length.
_NEVER = {"idna", "punycode", "undefined", "raw-unicode-escape", "unicode-escape", "mbcs", "oem"}
_ASCII = ("us-ascii", "ascii")  # if it is not, it is most likely UTF-8
_LONGEST_NAME = 40


def decoded(content: bytes, charset: str) -> tuple[str, str]:
    """The text and what was wrong: "", `unknown_charset` or `bad_charset`.

    Without a usable charset it is UTF-8, or else Windows-1252.

    Examples
    --------
    >>> decoded(b"na\\xefve", "iso-8859-1"), decoded(b"na\\xc3\\xafve", "")
    (('naïve', ''), ('naïve', ''))
    >>> decoded(b"na\\xefve", "utf-8"), decoded(b"na\\xefve", "x-klingon")
    (('naïve', 'bad_charset'), ('naïve', 'unknown_charset'))
    """
    codec = _codec(charset) if charset else ""
    if codec == "utf-8" or not codec or charset in _ASCII:
        wrong = "unknown_charset" if charset and not codec else ""
        try:
            return content.decode(), wrong
        except UnicodeDecodeError:
            wrong = wrong or ("bad_charset" if charset else "")
            return content.decode("cp1252", "replace"), wrong
    try:
        return _clean(content.decode(codec)), ""
    except ValueError:
        pass
    try:  # the most frequent mistake
        return content.decode(), "bad_charset"
    except UnicodeDecodeError:
        return _clean(content.decode(codec, "replace")), "bad_charset"


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
    """Python's name of a charset; "" if it has no such codec.

    Python keeps each name that it was asked for and does not have, so it is asked for others only.
    """
    name = _WIDER.get(charset, charset)
    key = encodings.normalize_encoding(name.lower())
    if len(name) > _LONGEST_NAME or not {key, key.replace(".", "_")} & _names():
        return ""
    try:
        found = codecs.lookup(name)
        "".encode(name)  # LookupError: no encoding of texts, such as zlib
    except (LookupError, ValueError, UnicodeError):
        return ""
    return "" if found.name.replace("_", "-") in _NEVER else found.name
