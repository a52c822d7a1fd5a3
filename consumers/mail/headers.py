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
_ADDRESS = re.compile(r"^(.*)<([^<>]*)>[^<>]*$", re.DOTALL)
_IP = re.compile(r"\[(\d{1,3}\.\d{1,3}\.\d{1,3})\.(\d{1,3})\]")


class Address(NamedTuple):
    """A mailbox: its display name, its address, and the registrable domain as a word."""

    name: str
    address: str
    domain: str


def header_words(headers: Mapping[str, Sequence[str]]) -> str:
    """The names of the headers, each followed by its words under its name.

    Examples
    --------
    >>> header_words({"x-mailer": ["Outlook 16.0"], "subject": ["hi"]})
    'x_mailer x_mailer_Outlook x_mailer_16 x_mailer_0 subject'
    """
    out = []
    for name, values in headers.items():
        word = _name(name)
        if not word:
            continue
        out.append(word)
        if name in _NOT_UNDER_NAME:
            continue
        between = f" {word}_"
        for value in values[: limits.MOST_VALUES]:
            words = _WORDS.findall(value[: limits.LONGEST_HEADER])[:_MOST_WORDS]
            if words:
                out.append(f"{word}_{between.join(words)}")
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
    value = value[: limits.LONGEST_HEADER]
    found = _ADDRESS.match(value)
    name, address = found.groups() if found else ("", value)
    address = address.strip()
    domain = address.rpartition("@")[2].strip(" >.") if "@" in address else ""
    return Address(name.strip().strip("\"'").strip(), address, domain_of(domain) if domain else "")


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
            if role in ("from", "by"):
                out.append(f"{role}_{domain_of(word.strip('.;[]()'))}")
            elif role == "with":
                out.append(f"with_{word_of(word)}")
        for network, host in _IP.findall(value):
            near = network.replace(".", "_")
            out += [f"ip_{near}", f"ip_{near}_{host}"]
    return " ".join(out)


@lru_cache(maxsize=1 << 12)
def _name(name: str) -> str:
    """A header's name as a word."""
    return word_of(name)[:60]
