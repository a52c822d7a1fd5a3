"""HTML as text: what a reader sees, what is hidden from him, and where links lead.

Inline elements do not separate words (`v<b>i</b>agra` is one word), all others do. The text of
`script` and `style` is no text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any
from urllib.parse import urljoin

import numpy as np

from consumers.mail import limits
from consumers.mail.hiding import UNSEEN, taken
from consumers.mail.styles import is_for_screens

__all__ = ["Markup", "charset_in", "read_markup", "sheet_of"]

# Other elements than `a` by which a reader, or his program, is led somewhere.
_TARGETS = {"area": "href", "form": "action", "iframe": "src", "frame": "src", "base": "href"}
_OTHERS = f"{','.join(_TARGETS)},[formaction],meta[http-equiv]"
_META = re.compile(rb"<meta[^>]{1,500}?charset\s*=\s*(?:[\"']\s*)?([\w.:+-]{1,40})", re.IGNORECASE)
_META_WITHIN = 4096  # bytes
_WIDE = ("utf-16", "utf-16le", "utf-16be")  # no text with such an element in ASCII is one
_REFRESH = re.compile(r"\burl\s*=\s*[\"']?([^\"'\s]+)", re.IGNORECASE)
_ABSOLUTE = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:|[/\\]{2})", re.IGNORECASE)


@dataclass(slots=True)
class Markup:
    """What an HTML part has.

    Parameters
    ----------
    text, hidden
        The text that is shown, and the text that is not.
    links
        Target and shown text of each link: those that are read, and one more if there are more.
    images
        The number of images.
    forms
        The number of forms.
    cut
        Whether it is out of bounds.
    """

    text: str
    hidden: str
    links: list[tuple[str, str]]
    images: int
    forms: int
    cut: bool


def charset_in(content: bytes) -> str:
    """The charset that HTML declares in itself, in lower case; "" without one.

    Examples
    --------
    >>> charset_in(b'<meta http-equiv=x content="text/html; charset=KOI8-R">')
    'koi8-r'
    """
    found = _META.search(content, 0, _META_WITHIN)
    name = found[1].decode("ascii").lower() if found else ""
    return "utf-8" if name in _WIDE else name


def read_markup(markup: str) -> Markup:
    """Text and links of HTML. O(length), and quadratic in the depth of at most 4000 tags; see
    `limits` for what else is bounded.

    Examples
    --------
    >>> made = read_markup('<p>v<b>i</b>a<p hidden>gra</p><a href="http://x.org">go</a>')
    >>> made.text, made.hidden, made.links
    ('via\\ngo', 'gra', [('http://x.org', 'go')])
    """
    parser, prepare, flag = _readers()
    cut = len(markup) > limits.LARGEST_MARKUP
    value = np.frombuffer((markup[: limits.LARGEST_MARKUP] if cut else markup).encode(), np.uint8)
    copied = np.empty(2 * value.size, np.uint8)
    counts = np.empty(flag.COUNTS, np.int64)
    most = flag.Most(
        limits.MOST_TAGS, limits.MOST_ATTRIBUTES, limits.MOST_OPTIONS, limits.MOST_REPEATS
    )
    prepare(value, most, copied, counts)
    size, images, forms, flags = counts.tolist()
    tree = parser(copied[:size].tobytes())
    links = _links(tree, others=flags & flag.TARGETS != 0)
    hidden: list[str] = []
    unseen = flags & flag.TITLE != 0 or UNSEEN.search(markup) is not None
    if flags & flag.STYLED or unseen:
        sheet = sheet_of(tree) if flags & flag.TAGS_OF_NO_TEXT["style"] else ""
        hidden, beyond = taken(tree, sheet, len(markup), unseen=unseen)
        cut |= beyond
    for tag, bit in flag.TAGS_OF_NO_TEXT.items():
        if flags & bit:
            for node in tree.tags(tag):
                node.decompose(recursive=False)
    body = tree.body
    text = "" if body is None else body.text_lexbor()
    cut = cut or flags & flag.TOO_MANY != 0
    return Markup(_lines(text), _lines("\n".join(hidden)), links, images, forms, cut)


def sheet_of(tree: Any) -> str:
    """The style sheet of a page, as far as it is for a screen."""
    sheets = []
    for node in tree.tags("style"):
        attributes = node.attributes
        kind = (attributes.get("type") or "text/css").strip().lower()
        if kind == "text/css" and is_for_screens(attributes.get("media") or ""):
            sheets.append(node.text_lexbor())
    return "\n".join(sheets)


def _links(tree: Any, *, others: bool) -> list[tuple[str, str]]:
    """Where a reader is led, and what he sees there. A base is before what is relative to it."""
    every = (
        (target, node.text_lexbor()[: limits.LONGEST_SHOWN])
        for node in tree.tags("a")
        if (target := node.attributes.get("href")) is not None
    )
    # A link may have all others in it, so the texts of all could be the square of the part.
    links = list(islice(every, limits.MOST_LINKS + 1))
    if not others:
        return links
    base = ""
    for node in tree.css(_OTHERS)[: limits.MOST_LINKS]:
        attributes = node.attributes
        target = attributes.get(_TARGETS.get(node.tag, "formaction"))
        if node.tag == "meta":
            found = _REFRESH.search(attributes.get("content") or "")
            target = found[1] if found else None
        if target:
            links.append((target, ""))
            base = base or (target if node.tag == "base" else "")
    if not base or len(base) > limits.LONGEST_BASE:
        return links
    return [(_joined(base, target), shown) for target, shown in links]


def _joined(base: str, target: str) -> str:
    # Python keeps the parts of the last URLs that it has split.
    if len(target) > limits.LONGEST_BASE or _ABSOLUTE.match(target):
        return target
    try:
        return urljoin(base, target)
    except ValueError:  # no host
        return target


def _lines(text: str) -> str:
    """The lines of a text, without empty ones and without spaces around them."""
    return "\n".join(filter(None, map(str.strip, text.splitlines())))


@cache
def _readers() -> Any:
    """The parser of HTML, the kernel before it, and the names of what it counts.

    They are imported at the first mail, so that other services need neither.
    """
    from selectolax.lexbor import LexborHTMLParser

    from consumers.mail import _kernels

    return LexborHTMLParser, _kernels.prepare, _kernels
