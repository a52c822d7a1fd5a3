"""A mail as one flat document: texts.

Rule: every mail has a document. What is broken in it is read as far as possible and named in
`structure`, as words that begin with `wrong_`.

`fields.RULES` is the version of these rules. Other rules, another parser or another list of
suffixes give other words, so all of them are part of the identity of a service (`versions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from consumers.mail import limits
from consumers.mail.body import Body
from consumers.mail.later import is_ignored
from consumers.mail.parts import mail_parts
from consumers.mail.sent import READ, address_of, received_words, sent_words
from consumers.mail.values import text_of

__all__ = ["mail_document"]


def mail_document(value: bytes, ignored: tuple[str, ...] = ()) -> dict[str, Any]:
    """The document of a mail: a value of each of `fields.FIELDS`. O(bytes), up to the bounds.

    `ignored`: headers that are no evidence, in addition to those of `LATER`.

    Examples
    --------
    >>> made = mail_document(b"From: Jo <jo@a.org>\\nSubject: hi\\n\\nwww.b.com/x")
    >>> made["subject"], made["text"], made["from"], made["links"]
    ('hi', 'www.b.com/x', 'Jo jo@a.org a_org', 'www.b.com/x b_com')
    """
    parts, wrong = mail_parts(value)
    made = Body(parts, wrong)
    links = made.read_links()
    charset = made.charset
    most = limits.MOST_VALUES
    headers: dict[str, Sequence[str]] = {
        name: [text_of(each, charset) for each in values[:most]] if name in READ else ()
        for name, values in parts[0].fields.items()
        if not is_ignored(name, ignored)
    }
    subject = headers.get("subject", [""])[0]
    people = [address_of(headers.get(name, [""])[0]) for name in ("from", "reply-to")]
    received = headers.get("received", [])
    document: dict[str, Any] = {
        "subject": subject,
        "text": made.text,
        "hidden": "\n".join(made.hidden),
        "from": " ".join(filter(None, people[0])),
        "reply_to": " ".join(filter(None, people[1])),
        "links": links,
        "attachments": " ".join(made.attachments),
        "charsets": " ".join(dict.fromkeys(made.charsets)),
        "received": received_words(received),
        "headers": sent_words(headers, *people),
    }
    _bound(document, wrong)
    counts = (("size", len(value)), ("parts", len(parts)), ("links", made.links))
    document["structure"] = " ".join(
        [
            *(f"{name}_{n.bit_length()}" for name, n in counts),
            f"hops_{min(len(received), limits.MOST_HOPS)}",
            *(f"wrong_{what}" for what in sorted(wrong)),
            *made.odd,
            *made.shape,  # the longest comes last, because the field is cut
        ]
    )[: limits.LONGEST_SHORT]
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
