"""The kernel that reads an HTML part once before its parser."""

from __future__ import annotations

from typing import Any

import numpy as np

from stream.kernel import inlined, kernel

__all__ = ["COUNTS", "HIDING", "TAGS_OF_NO_TEXT", "TITLE", "TOO_MANY", "prepare"]

COUNTS = 4  # numbers that `prepare` writes: bytes of the source, images, forms, flags
# Flags: more tags than are read, a hint of hidden elements, a title, tags whose text is no text.
TOO_MANY, HIDING, TITLE = 1, 2, 4
TAGS_OF_NO_TEXT = {"script": 8, "style": 16, "template": 32}

_SCRIPT, _STYLE, _TEMPLATE = TAGS_OF_NO_TEXT.values()
_TAG = ord("<")
_SLASH = ord("/")
_LINE_FEED = ord("\n")
_ZERO, _SPACE = ord("0"), ord(" ")


def _bytes(text: str) -> Any:
    return np.frombuffer(text.encode(), np.uint8)


_IMG, _FORM, _TITLE = _bytes("img"), _bytes("form"), _bytes("title")
_SCRIPTS, _STYLES, _TEMPLATES = _bytes("script"), _bytes("style"), _bytes("template")
_NONE, _HIDDEN, _HEIGHT, _OPACITY = (
    _bytes("none"),
    _bytes("hidden"),
    _bytes("height:0"),
    _bytes("opacity"),
)
_FONT_SIZE, _MSO_HIDE = _bytes("font-size:"), _bytes("mso-hide")


@kernel
def prepare(markup: Any, most: int, source: Any, counts: Any) -> None:
    """Copy HTML with a line feed before each tag that separates words, and count what it has.

    Parameters
    ----------
    markup
        uint8 (n,): HTML in UTF-8.
    most
        Tags that are read; the markup is cut before the next one.
    source
        uint8 (2 n,): where the copy is written.
    counts
        int64 (COUNTS,): see there.
    """
    size = tags = images = forms = flags = 0
    for at in range(markup.size):
        byte = markup[at]
        if byte == _TAG:
            tags += 1
            if tags > most:
                flags |= TOO_MANY
                break
            if _separates(markup, at + 1):
                source[size] = _LINE_FEED
                size += 1
            images += _begins(markup, at + 1, _IMG)
            forms += _begins(markup, at + 1, _FORM)
            flags |= _named(markup, at + 1)
        elif flags & HIDING == 0 and _hides(markup, at):
            flags |= HIDING
        source[size] = byte
        size += 1
    counts[0], counts[1], counts[2], counts[3] = size, images, forms, flags


@inlined
def _begins(markup: Any, at: int, word: Any) -> bool:
    """Whether a word in lower case begins here, in any case."""
    if at + word.size > markup.size:
        return False
    for i in range(word.size):  # noqa: SIM110
        if _lower(markup[at + i]) != word[i]:
            return False
    return True


@inlined
def _lower(byte: int) -> int:
    return byte | 32 if 65 <= byte <= 90 else byte


@inlined
def _named(markup: Any, at: int) -> int:
    """The flag of a tag's name."""
    first = _lower(markup[at]) if at < markup.size else 0
    if first == ord("t"):
        if _begins(markup, at, _TITLE):
            return TITLE
        return _TEMPLATE if _begins(markup, at, _TEMPLATES) else 0
    if first == ord("s"):
        if _begins(markup, at, _STYLES):
            return _STYLE
        return _SCRIPT if _begins(markup, at, _SCRIPTS) else 0
    return 0


@inlined
def _separates(markup: Any, at: int) -> Any:
    """Whether the tag whose name begins here, perhaps after a slash, separates words.

    Names with p, d, t, l, h, o, br, bl, ce, se and ar at their beginning do.
    """
    at += at < markup.size and markup[at] == _SLASH
    if at >= markup.size:
        return False
    first = _lower(markup[at])
    if first in (ord("p"), ord("d"), ord("t"), ord("l"), ord("h"), ord("o")):
        return True
    if at + 1 >= markup.size:
        return False
    second = _lower(markup[at + 1])
    if first == ord("b"):
        return second in (ord("r"), ord("l"))
    if first in (ord("c"), ord("s")):
        return second == ord("e")
    return first == ord("a") and second == ord("r")


@inlined
def _hides(markup: Any, at: int) -> Any:
    """Whether a part of a style or an attribute that hides an element begins here."""
    first = _lower(markup[at])
    if first == ord("n"):
        return _begins(markup, at, _NONE)
    if first == ord("h"):
        return _begins(markup, at, _HIDDEN) or _begins(markup, at, _HEIGHT)
    if first == ord("o"):
        return _begins(markup, at, _OPACITY)
    if first == ord("m"):
        return _begins(markup, at, _MSO_HIDE)
    if first != ord("f") or not _begins(markup, at, _FONT_SIZE):
        return False
    at += _FONT_SIZE.size
    if at < markup.size and markup[at] == _SPACE:
        at += 1
    return at < markup.size and markup[at] == _ZERO
