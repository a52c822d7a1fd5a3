"""A mail as one flat document: texts and a few numbers.

Rule: every mail has a document. What is broken in it is read as far as possible and named in
`structure`, as words that begin with `wrong_`.

`fields.RULES` is the version of these rules. Other rules, another parser or another list of
suffixes give other words, so all of them are part of the identity of a service (`versions`).
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

from consumers.mail import limits
from consumers.mail.charsets import decoded
from consumers.mail.headers import address_of, header_words, received_words
from consumers.mail.links import link_of, urls_in, word_of
from consumers.mail.markup import read_markup
from consumers.mail.parts import MailPart, mail_parts

__all__ = ["MOST_MARKUPS", "mail_document"]

MOST_MARKUPS = 5  # HTML parts that are read
_CHARSET = re.compile(
    r"charset\*?\s*=\s*(?:\"\s*|'\s*|[\w-]*'[\w-]*')?([\w.:+-]{1,40})", re.IGNORECASE
)
_SUFFIX = re.compile(r"\.(\w{1,10})\s*$")
_FIRST_WORDS = 8


def mail_document(value: bytes) -> dict[str, Any]:
    """The document of a mail: a value of each of `fields.FIELDS`. O(bytes), up to the bounds.

    Examples
    --------
    >>> made = mail_document(b"From: Jo <jo@a.org>\\nSubject: hi\\n\\nwww.b.com/x")
    >>> made["subject"], made["text"], made["from"], made["links"]
    ('hi', 'www.b.com/x', 'Jo jo@a.org a_org', 'www.b.com/x b_com')
    """
    root, wrong = mail_parts(value)
    made = _Body(wrong)
    for depth, part in root.walk():
        made.add(part, depth)
    sender, reply = address_of(root.header("from")), address_of(root.header("reply-to"))
    links = made.read_links()
    headers = root.headers
    received = headers.get("received", [])
    if reply.domain and reply.domain != sender.domain:
        made.odd.append("reply_to_differs")
    document: dict[str, Any] = {
        "subject": root.header("subject"),
        "text": made.text,
        "hidden": "\n".join(made.hidden),
        "from": " ".join(filter(None, sender)),
        "reply_to": " ".join(filter(None, reply)),
        "links": links,
        "attachments": " ".join(made.attachments),
        "charsets": " ".join(dict.fromkeys(made.charsets)),
        "received": received_words(received),
        "headers": header_words(headers),
    }
    _bound(document, wrong)
    made.odd += [f"hops_{min(len(received), limits.MOST_HOPS)}"]
    made.odd += [f"wrong_{what}" for what in sorted(wrong)]
    document["structure"] = " ".join([*made.shape, *made.odd])[: limits.LONGEST_SHORT]
    document["size"], document["parts"] = len(value), made.parts
    document["link_count"] = made.links
    return document


def _bound(document: dict[str, Any], wrong: set[str]) -> None:
    """Cut fields that are too long, and take out NULs."""
    for name, value in document.items():
        most = limits.LONGEST_TEXT if name == "text" else limits.LONGEST_SHORT
        if len(value) > most:
            value = document[name] = value[:most]
            wrong.add("cut")
        if "\0" in value:
            document[name] = value.replace("\0", "")
            wrong.add("nul")


class _Shown:
    """A text, split into words at most once."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def first(self) -> list[str]:
        """Some words at its beginning."""
        return self.text.split(maxsplit=_FIRST_WORDS)[:_FIRST_WORDS]

    @cached_property
    def words(self) -> str:
        """All words, with one space between two."""
        return " ".join(self.text.split())

    def is_like(self, other: _Shown) -> bool:
        """Whether both have the same words, and nearly the same length."""
        if abs(len(self.text) - len(other.text)) * 10 > len(self.text):
            return False
        return self.first == other.first and self.words == other.words  # the first differ mostly


class _Body:
    """What the parts of a mail have, gathered part by part."""

    def __init__(self, wrong: set[str]) -> None:
        self.wrong = wrong
        self.parts = self.links = 0
        self.texts: list[str] = []
        self.hidden: list[str] = []
        self.attachments: list[str] = []
        self.charsets: list[str] = []
        self.shape: list[str] = []
        self.odd: list[str] = []
        self._targets: list[tuple[str, str]] = []  # of HTML, with the text that is shown
        self._markups = 0
        self._path = [""] * (limits.DEEPEST + 1)

    @property
    def text(self) -> str:
        """The text that is shown. A part that repeats an earlier one is left out."""
        if len(self.texts) == 1:
            return self.texts[0]
        every: list[_Shown] = []
        for shown in map(_Shown, self.texts):
            if not any(map(shown.is_like, every)):
                every.append(shown)
        return "\n".join(shown.text for shown in every)

    def add(self, part: MailPart, depth: int) -> None:
        """Read a part."""
        self.parts += 1
        kind = word_of(part.type)
        self._path[depth] = kind
        self.shape.append(f"{self._path[depth - 1]}_{kind}" if depth else kind)
        if part.children:
            return
        shown = part.type.startswith("text/") and part.disposition != "attachment"
        if part.filename or not shown:
            suffix = _SUFFIX.search(part.filename)
            named = f" suffix_{suffix[1].lower()}" if suffix else ""
            self.attachments.append(f"{kind}{named} {part.filename}".rstrip())
        if shown:
            self._read(part)

    def _read(self, part: MailPart) -> None:
        named = _CHARSET.search(part.header("content-type"))
        charset = named[1].lower() if named else ""
        if charset:
            self.charsets.append(word_of(charset))
        text, wrong = decoded(part.content, charset)
        if wrong:
            self.wrong.add(wrong)
        if part.type != "text/html":
            self.texts.append(text.replace("\r\n", "\n").strip())
            return
        self._markups += 1
        if self._markups > MOST_MARKUPS:
            self.wrong.add("cut")
            return
        markup = read_markup(text)
        self.texts.append(markup.text)
        if markup.hidden:
            self.hidden.append(markup.hidden)
            self.odd.append("hidden_text")
        if markup.cut:
            self.wrong.add("cut")
        self.odd += [f"images_{min(markup.images, 9)}"] if markup.images else []
        self.odd += ["form"] if markup.forms else []
        self._targets += markup.links

    def read_links(self) -> str:
        """The links of the HTML and of the texts, each followed by its domain."""
        urls = [*self._targets, *((url, "") for text in self.texts for url in urls_in(text))]
        out: dict[str, None] = {}
        odd: dict[str, None] = {}
        for url, shown in urls[: limits.MOST_LINKS]:
            link = link_of(url)
            if link is None:
                continue
            self.links += 1
            out[f"{link.host}{link.path} {link.domain}"] = None
            odd.update((f"link_{each}", None) for each in link.odd)
            named = urls_in(shown)
            other = link_of(named[0]) if named else None
            if other is not None and other.domain != link.domain:
                odd["link_shows_another"] = None
        if len(urls) > limits.MOST_LINKS:
            self.wrong.add("cut")
        self.odd += odd
        return " ".join(out)
