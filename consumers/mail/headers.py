"""The headers of a mail as words: which ones it has, and the words of each under its name.

A word is letters, digits and underscores, so that no tokenizer splits it: the word `Outlook` of
`X-Mailer` is `x_mailer_Outlook`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from consumers.mail import limits
from consumers.mail.links import domain_of, word_of

__all__ = ["Address", "address_of", "header_words", "received_words"]

# Each has a field of its own, or has no words: signatures and ids.
_NOT_UNDER_NAME = frozenset(
    {
        "subject",
        "from",
        "reply-to",
        "received",
        "message-id",
        "in-reply-to",
        "references",
        "dkim-signature",
        "domainkey-signature",
        "arc-seal",
        "arc-message-signature",
        "x-google-dkim-signature",
        "x-gm-message-state",
        "x-ms-exchange-antispam-messagedata",
        "x-microsoft-antispam-message-info",
        "autocrypt",
        "face",
        "x-face",
    }
)
_WORDS = re.compile(r"\w{1,40}")
_MOST_WORDS = 60  # of a value
_REPEATED = 80  # characters: many mails have the same short values
_ROLES = frozenset({"from", "by", "with"})  # of the next word of a `Received` header
_IP = re.compile(r"\[(\d{1,3}\.\d{1,3}\.\d{1,3})\.(\d{1,3})\]")


class Address(NamedTuple):
    """A mailbox: its display name, its address, and the registrable domain as a word."""

    name: str
    address: str
    domain: str


_NOBODY = Address("", "", "")


def header_words(headers: Mapping[str, Sequence[str]]) -> str:
    """The names of the headers, each followed by its words under its name.

    Examples
    --------
    >>> header_words({"x-mailer": ["Outlook 16.0"], "subject": ["hi"]})
    'x_mailer x_mailer_Outlook x_mailer_16 x_mailer_0 subject'
    """
    out: list[str] = []
    size = 0
    for name, values in headers.items():
        if size > limits.LONGEST_SHORT:  # what follows would be cut; a mail may have many headers
            break
        word = _name(name)
        if not word:
            continue
        out.append(word)
        size += len(word)
        if name in _NOT_UNDER_NAME:
            continue
        for value in values[: limits.MOST_VALUES]:
            short = len(value) <= _REPEATED
            words = _known_words(word, value) if short else _words_under(word, value)
            if words:
                out.append(words)
                size += len(words)
    return " ".join(out)


def address_of(value: str) -> Address:
    """The mailbox of a header's value.

    Examples
    --------
    >>> address_of('"Jo" <jo@mail.example.org>')
    Address(name='Jo', address='jo@mail.example.org', domain='example_org')
    >>> address_of("jo@example.org").name
    ''
    """
    if not value:
        return _NOBODY
    name, address = _parted(value[: limits.LONGEST_HEADER])
    address = address.strip()
    domain = address.rpartition("@")[2].strip(" >.") if "@" in address else ""
    return Address(name.strip().strip("\"'").strip(), address, domain_of(domain) if domain else "")


def _parted(value: str) -> tuple[str, str]:
    """What is before the last angle brackets, and what is in them; without brackets all is that."""
    end = value.rfind(">")
    begin = value.rfind("<", 0, end) if end > 0 else -1
    if begin < 0 or value.find("<", end) > 0 or value.find(">", begin, end) > 0:
        return "", value
    return value[:begin], value[begin + 1 : end]


def received_words(values: Sequence[str]) -> str:
    """The hosts, networks and protocols of the `Received` headers, the newest first.

    Examples
    --------
    >>> received_words(["from mx ([192.0.2.1]) by mail.example.org with ESMTPS id 1"])
    'from_mx by_example_org with_esmtps ip_192_0_2 ip_192_0_2_1'
    """
    out = []
    for value in values[: limits.MOST_HOPS]:
        value = value[: limits.LONGEST_HEADER]
        words = value.split()
        for role, word in pairwise(words):
            if role not in _ROLES:
                continue
            if role == "with":
                out.append(f"with_{word_of(word)}")
            else:
                out.append(f"{role}_{domain_of(word.strip('.;[]()'))}")
        for network, host in _IP.findall(value):
            near = network.replace(".", "_")
            out += [f"ip_{near}", f"ip_{near}_{host}"]
    return " ".join(out)


def _words_under(name: str, value: str) -> str:
    """The words of a value under the name of its header."""
    words = _WORDS.findall(value[: limits.LONGEST_HEADER])[:_MOST_WORDS]
    return f"{name}_{f' {name}_'.join(words)}" if words else ""


_known_words = lru_cache(maxsize=1 << 12)(_words_under)


@lru_cache(maxsize=1 << 12)
def _name(name: str) -> str:
    """A header's name as a word."""
    return word_of(name)[:60]
