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

import numpy as np

from consumers.mail import limits

__all__ = ["Markup", "read_markup"]

_HIDDEN = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|mso-hide\s*:\s*all"
    r"|(?:font-size|opacity|max-height|line-height)\s*:\s*0(?:\.0*)?(?![.\d])",
    re.IGNORECASE,
)


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
    every = (
        (target, node.text_lexbor()[: limits.LONGEST_SHOWN])
        for node in tree.tags("a")
        if (target := node.attributes.get("href")) is not None
    )
    # A link may have all others in it, so the texts of all could be the square of the part.
    links = list(islice(every, limits.MOST_LINKS + 1))
    hidden = _taken(tree) if flags & flag.HIDING else []
    if flags & flag.TITLE:
        hidden += [node.text_lexbor() for node in tree.css("head title")]
    for tag, bit in flag.TAGS_OF_NO_TEXT.items():
        if flags & bit:
            for node in tree.tags(tag):
                node.decompose(recursive=False)
    body = tree.body
    text = "" if body is None else body.text_lexbor()
    cut = cut or flags & flag.TOO_MANY != 0
    return Markup(_lines(text), _lines("\n".join(hidden)), links, images, forms, cut)


def _taken(tree: Any) -> list[str]:
    """The texts of hidden elements, which are taken out of the tree."""
    texts = []
    for node in tree.css("[hidden],[style]"):
        attributes = node.attributes
        if "hidden" not in attributes and not _HIDDEN.search(attributes.get("style") or ""):
            continue
        if node.tag in ("html", "body"):
            continue
        texts.append(node.text_lexbor())
        node.decompose()
    return texts


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
