"""HTML as text: what a reader sees, what is hidden from him, and where links lead.

Inline elements do not separate words (`v<b>i</b>agra` is one word), all others do. The text of
`script` and `style` is no text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from consumers.mail import limits

__all__ = ["Markup", "read_markup"]

# How a tag that separates words begins. Rare inline elements begin like this too.
_SEPARATES = re.compile(r"<(?=/?(?:[pPdDtTlLhHoO]|[bB][rRlL]|[cCsS][eE]|[aA][rR]))")
_HIDDEN_HINTS = ("none", "hidden", "font-size:0", "font-size: 0", "opacity", "mso-hide", "height:0")
_HIDDEN = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|mso-hide\s*:\s*all"
    r"|(?:font-size|opacity|max-height|line-height)\s*:\s*0(?:\.0*)?(?![.\d])",
    re.IGNORECASE,
)
_NO_TEXT = ("script", "style", "template")


@dataclass(slots=True)
class Markup:
    """What an HTML part has.

    Parameters
    ----------
    text, hidden
        The text that is shown, and the text that is not.
    links
        Target and shown text of each link.
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
    """Text and links of HTML. O(length), and quadratic in the depth of at most 4000 tags.

    Examples
    --------
    >>> made = read_markup('<p>v<b>i</b>a<p hidden>gra</p><a href="http://x.org">go</a>')
    >>> made.text, made.hidden, made.links
    ('via\\ngo', 'gra', [('http://x.org', 'go')])
    """
    from selectolax.lexbor import LexborHTMLParser

    cut = len(markup) > limits.LARGEST_MARKUP
    markup = markup[: limits.LARGEST_MARKUP]
    if markup.count("<") > limits.MOST_TAGS:
        markup = "<".join(markup.split("<", limits.MOST_TAGS + 1)[:-1])
        cut = True
    source = _SEPARATES.sub("\n<", markup)
    tree = LexborHTMLParser(source)
    links = [
        (target, node.text())
        for node in tree.tags("a")
        if (target := node.attributes.get("href")) is not None
    ]
    lower = source.lower()
    images = lower.count("<img")
    forms = lower.count("<form")
    hidden = _taken(tree) if any(hint in lower for hint in _HIDDEN_HINTS) else []
    if "<title" in lower:
        hidden += [node.text() for node in tree.css("head title")]
    if without := [tag for tag in _NO_TEXT if f"<{tag}" in lower]:
        tree.strip_tags(without)
    body = tree.body
    text = "" if body is None else body.text(separator="")
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
        texts.append(node.text())
        node.decompose()
    return texts


def _lines(text: str) -> str:
    """The lines of a text, without empty ones and without spaces around them."""
    stripped = [line.strip() for line in text.splitlines()]
    return "\n".join([line for line in stripped if line])
