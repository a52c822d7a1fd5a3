"""The kernel that reads an HTML part once before its parser.

It does not know which `<` begins a tag: a script, a comment or an attribute may have others. So
each that could is taken as one, and `_follow` follows all of them at once. Where there is more of
something than is read, all later tags are left out, but not their text, nor links.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stream.kernel import inlined, kernel

__all__ = [
    "BLOCKS",
    "COUNTS",
    "STYLED",
    "TAGS_OF_NO_TEXT",
    "TARGETS",
    "TITLE",
    "TOO_MANY",
    "Most",
    "prepare",
]

COUNTS = 4  # numbers that `prepare` writes: bytes of the source, images, forms, flags
# Flags: more of something than is read, styles or colours, a title, tags whose text is no text,
# and other elements than `a` that lead somewhere.
TOO_MANY, STYLED, TITLE, TARGETS = 1, 2, 4, 64
TAGS_OF_NO_TEXT = {"script": 8, "style": 16, "template": 32}

_SCRIPT, _STYLE, _TEMPLATE = TAGS_OF_NO_TEXT.values()
_TAG = ord("<")
_SLASH = ord("/")
_LINE_FEED = ord("\n")
_SPACE = ord(" ")
_TAB, _FORM_FEED, _RETURN = ord("\t"), ord("\f"), ord("\r")
_END, _EQUALS, _QUOTE, _APOSTROPHE = ord(">"), ord("="), ord('"'), ord("'")
_A, _Z = ord("a"), ord("z")
_ZERO, _NINE = ord("0"), ord("9")


class Most(NamedTuple):
    """How many of each are read, see `limits`."""

    tags: int
    attributes: int
    options: int
    repeats: int


def _bytes(text: str) -> Any:
    return np.frombuffer(text.encode(), np.uint8)


_IMG, _FORM, _TITLE = _bytes("img"), _bytes("form"), _bytes("title")
_SCRIPTS, _STYLES, _TEMPLATES = _bytes("script"), _bytes("style"), _bytes("template")
_HIDDEN, _STYLING, _COLOR = _bytes("hidden"), _bytes("style"), _bytes("color")
_AREA, _BASE, _BUTTON, _FRAME = _bytes("area"), _bytes("base"), _bytes("button"), _bytes("frame")
_IFRAME, _INPUT, _META, _TEXTAREA = (
    _bytes("iframe"),
    _bytes("input"),
    _bytes("meta"),
    _bytes("textarea"),
)
_PAGE, _BODY, _OPTION = _bytes("html"), _bytes("body"), _bytes("option")
_BIG, _CODE, _EM, _FONT = _bytes("big"), _bytes("code"), _bytes("em"), _bytes("font")
_SMALL, _STRIKE, _STRONG = _bytes("small"), _bytes("strike"), _bytes("strong")
_TT, _NOBR = _bytes("tt"), _bytes("nobr")


def _packed(name: str) -> int:
    """Six bits of each character, which letters and digits differ in."""
    packed = 0
    for byte in name.encode():
        packed = packed << 6 | byte & 63
    return packed


# Elements that separate words, at their beginning and at their end: blocks, cells, lines, items.
BLOCKS = (
    *("address", "article", "aside", "blockquote", "br", "caption", "center", "col"),
    *("colgroup", "dd", "details", "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption"),
    *("figure", "footer", "form", "frameset", "h1", "h2", "h3", "h4", "h5", "h6", "header"),
    *("hgroup", "hr", "legend", "li", "listing", "main", "marquee", "menu", "nav"),
    *("noframes", "ol", "optgroup", "option", "p", "plaintext", "pre", "search", "section"),
    *("select", "summary", "table", "tbody", "td", "textarea", "tfoot", "th", "thead", "title"),
    *("tr", "ul", "xmp"),
)
_BLOCKS = np.array(sorted(map(_packed, BLOCKS)), np.int64)
_LONGEST_BLOCK = max(map(len, BLOCKS))


@kernel
def prepare(markup: Any, most: Any, source: Any, counts: Any) -> None:
    """Copy HTML with a line feed before each tag that separates words, and count what it has.

    Parameters
    ----------
    markup
        uint8 (n,): HTML in UTF-8.
    most
        A `Most`.
    source
        uint8 (2 n,): where the copy is written.
    counts
        int64 (COUNTS,): see there.
    """
    size = tags = images = forms = flags = options = formats = repeats = pages = kept = next_ = 0
    states, open_ = np.full(_STATES, -1, np.int64), _CLOSED
    # Of distinct formats, and where one is. Formats in another tag are counted and have no span.
    spans, format_ = np.zeros((_FORMATS, 2), np.int64), -1
    page = plain = False
    for at in range(markup.size):
        if at < next_:
            continue
        byte = markup[at]
        if byte == _TAG:
            images += _begins(markup, at + 1, _IMG)
            forms += _begins(markup, at + 1, _FORM)
            flags |= _named(markup, at + 1)
            if not plain:
                tags += 1
                repeats += formats
                options += _begins(markup, at + 1, _OPTION)
                plain = tags > most.tags or options > most.options or repeats > most.repeats
            if plain:
                flags |= TOO_MANY
                kept += _is_link(markup, at + 1) or _is_text(markup, at + 1)
                next_ = _left_out(markup, at + 1, kept > most.tags)
        elif flags & STYLED == 0 and _styles(markup, at):
            flags |= STYLED
        separates = byte == _TAG and _separates(markup, at + 1)
        if separates:
            if open_:
                open_ = _follow(states, _LINE_FEED)
            source[size] = _LINE_FEED
            size += 1
        if at < next_:
            continue
        if open_ and _moves(open_, byte):
            open_ = _follow(states, byte)
            if page:
                pages = max(pages, states[_NAME])
            if states[_NAME] > most.attributes:  # the tag ends here
                flags |= TOO_MANY
                next_ = _after(markup, at, _END)
                source[size], size, byte = byte, size + (byte < 0x80), _END  # whole characters
                open_ = _follow(states, _END)
            if not open_ and format_ >= 0:
                formats = _distinct(markup, format_, at, spans, formats)
                format_ = -1
        if byte == _TAG and _is_named(markup, at + 1):
            if _is_format(markup, at + 1):
                formats += open_ != _CLOSED  # where that tag ends is not known
                format_ = at if not open_ else format_
            first, page = 0, page and open_ != _CLOSED
            if _begins(markup, at + 1, _PAGE) or _begins(markup, at + 1, _BODY):
                first, page = pages, True  # attributes of the first one, too
            states[_TAG_NAME] = max(states[_TAG_NAME], first)
            open_ = max(open_, _OPEN)
        source[size] = byte
        size += 1
    counts[0], counts[1], counts[2], counts[3] = size, images, forms, flags


# Where the tokenizer of HTML is in a tag, https://html.spec.whatwg.org/#tag-name-state and after
# it. "Self-closing" and "after a quoted value" do what "before a name" does, if attributes are
# counted.
_TAG_NAME, _BEFORE, _NAME, _AFTER, _VALUE, _IN_QUOTES, _IN_APOSTROPHES, _UNQUOTED = range(8)
_STATES = 8
# Whether a tag may be open, and which bytes change something: quotes only, those that are no
# letters, or all.
_CLOSED, _QUOTED, _OPEN, _FRESH = range(4)
_FORMATS = 500  # distinct ones that are compared; with more, there are too many repeats


@inlined
def _moves(open_: int, byte: int) -> bool:
    """Whether this byte may change the states."""
    if open_ == _QUOTED:
        return byte in (_QUOTE, _APOSTROPHE)
    return open_ == _FRESH or byte <= _END


@inlined
def _follow(states: Any, byte: int) -> int:
    """One byte for all tags that may be open: `states` has the most attributes of one in each
    state, -1 for none."""
    tag, before, name, after = states[_TAG_NAME], states[_BEFORE], states[_NAME], states[_AFTER]
    value, unquoted = states[_VALUE], states[_UNQUOTED]
    quotes, apostrophes = states[_IN_QUOTES], states[_IN_APOSTROPHES]
    if byte in (_SPACE, _LINE_FEED, _TAB, _FORM_FEED, _RETURN):
        before, after = max(tag, before, unquoted), max(name, after)
        tag = name = unquoted = -1
    elif byte == _END:
        tag = before = name = after = value = unquoted = -1
    elif byte == _SLASH:
        before, unquoted = max(tag, before, name, after), max(unquoted, value)
        tag = name = after = value = -1
    elif byte == _EQUALS:
        unquoted, value = max(unquoted, value), max(name, after)
        name = before + 1 if before >= 0 else -1
        before = after = -1
    else:
        begun = max(before, after)
        if begun >= 0:
            name = max(name, begun + 1)
        before = after = -1
        if byte == _QUOTE:
            before, quotes = quotes, value
        elif byte == _APOSTROPHE:
            before, apostrophes = apostrophes, value
        else:
            unquoted = max(unquoted, value)
        value = -1
    states[_TAG_NAME], states[_BEFORE], states[_NAME], states[_AFTER] = tag, before, name, after
    states[_VALUE], states[_UNQUOTED] = value, unquoted
    states[_IN_QUOTES], states[_IN_APOSTROPHES] = quotes, apostrophes
    if max(before, after, value) >= 0:
        return _FRESH
    if max(tag, name, unquoted) >= 0:
        return _OPEN
    return _QUOTED if max(quotes, apostrophes) >= 0 else _CLOSED


@inlined
def _distinct(markup: Any, start: int, end: int, spans: Any, known: int) -> int:
    """How many distinct tags there are with the one in this span."""
    if known >= _FORMATS:
        return known + 1
    for i in range(known):
        first = spans[i, 0]
        if spans[i, 1] != end - start:
            continue
        at = 0
        while at < end - start and markup[first + at] == markup[start + at]:
            at += 1
        if at == end - start:
            return known
    spans[known, 0], spans[known, 1] = start, end - start
    return known + 1


@inlined
def _is_named(markup: Any, at: int) -> Any:
    """Whether a name begins here, perhaps after a slash: otherwise `<` is text or a comment."""
    at += at < markup.size and markup[at] == _SLASH
    return at < markup.size and _A <= _lower(markup[at]) <= _Z


@inlined
def _is_format(markup: Any, at: int) -> bool:
    """Whether the tag here has attributes and is one of those that a paragraph repeats.

    https://html.spec.whatwg.org/#formatting: all but `a`, of which one can be open.
    """
    first, size = _lower(markup[at]), 1
    if first == ord("b"):
        size = 3 if _begins(markup, at, _BIG) else 1
    elif first == ord("s"):
        if _begins(markup, at, _SMALL):
            size = 5
        elif _begins(markup, at, _STRIKE) or _begins(markup, at, _STRONG):
            size = 6
    elif first == ord("f") or first == ord("c"):
        size = 4 if _begins(markup, at, _FONT) or _begins(markup, at, _CODE) else 0
    elif first == ord("e") or first == ord("t"):
        size = 2 if _begins(markup, at, _EM) or _begins(markup, at, _TT) else 0
    elif first == ord("n"):
        size = 4 if _begins(markup, at, _NOBR) else 0
    elif first not in (ord("i"), ord("u")):
        size = 0
    at += size
    if not size or at >= markup.size:
        return False
    return markup[at] in (_SPACE, _LINE_FEED, _TAB, _FORM_FEED, _RETURN, _SLASH)


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
    if first == ord("a"):
        return TARGETS if _begins(markup, at, _AREA) else 0
    if first == ord("b"):
        return TARGETS if _begins(markup, at, _BASE) or _begins(markup, at, _BUTTON) else 0
    if first == ord("f"):
        return TARGETS if _begins(markup, at, _FORM) or _begins(markup, at, _FRAME) else 0
    if first == ord("i"):
        return TARGETS if _begins(markup, at, _IFRAME) or _begins(markup, at, _INPUT) else 0
    if first == ord("m"):
        return TARGETS if _begins(markup, at, _META) else 0
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
    """Whether the tag whose name begins here, perhaps after a slash, separates words."""
    at += at < markup.size and markup[at] == _SLASH
    packed = size = 0
    while at < markup.size and size <= _LONGEST_BLOCK:
        byte = markup[at]
        if byte in (_END, _SPACE, _LINE_FEED, _SLASH, _TAB, _FORM_FEED, _RETURN):
            break
        packed = packed << 6 | (_lower(byte) & 63)
        letter = _A <= _lower(byte) <= _Z or _ZERO <= byte <= _NINE
        size += 1 if letter else _LONGEST_BLOCK + 1
        at += 1
    if not size or size > _LONGEST_BLOCK:
        return False
    low, high = 0, _BLOCKS.size
    while low < high:
        middle = (low + high) // 2
        if _BLOCKS[middle] < packed:
            low = middle + 1
        else:
            high = middle
    return low < _BLOCKS.size and _BLOCKS[low] == packed


@inlined
def _styles(markup: Any, at: int) -> Any:
    """Whether a word begins here without which nothing is hidden."""
    first = _lower(markup[at])
    if first == ord("h"):
        return _begins(markup, at, _HIDDEN)
    if first == ord("s"):
        return _begins(markup, at, _STYLING)
    return first == ord("c") and _begins(markup, at, _COLOR)


@inlined
def _left_out(markup: Any, at: int, every: bool) -> Any:
    """The place after the tag whose name begins here; 0 if it stays: a link, or one of a text."""
    if not _is_named(markup, at):
        return 0
    stays = not every and (_is_link(markup, at) or _is_text(markup, at))
    return 0 if stays else _after_tag(markup, at)


@inlined
def _is_link(markup: Any, at: int) -> Any:
    """Whether a link begins or ends here."""
    at += at < markup.size and markup[at] == _SLASH
    if at + 1 >= markup.size or _lower(markup[at]) != ord("a"):
        return False
    return markup[at + 1] <= _END and not _ZERO <= markup[at + 1] <= _NINE


@inlined
def _is_text(markup: Any, at: int) -> Any:
    """Whether an element begins or ends here in which `<` begins no tag, but its end."""
    at += at < markup.size and markup[at] == _SLASH
    if _begins(markup, at, _SCRIPTS) or _begins(markup, at, _STYLES):
        return True
    return (
        _begins(markup, at, _TITLE)
        or _begins(markup, at, _TEXTAREA)
        or _begins(markup, at, _IFRAME)
    )


@inlined
def _after(markup: Any, at: int, byte: int) -> Any:
    """The place after the next such byte."""
    while at < markup.size and markup[at] != byte:
        at += 1
    return min(at + 1, markup.size)


@inlined
def _after_tag(markup: Any, at: int) -> Any:
    """The place after the tag whose name begins here: a value in quotes does not end it."""
    value = False
    while at < markup.size and markup[at] != _END:
        byte = markup[at]
        if value and byte in (_QUOTE, _APOSTROPHE):
            at = _after(markup, at + 1, byte) - 1
        value = byte == _EQUALS or (value and byte in (_SPACE, _LINE_FEED, _TAB))
        at += 1
    return min(at + 1, markup.size)
