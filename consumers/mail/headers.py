"""Addresses in headers, and the hosts of `Received`, as words that no tokenizer splits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from consumers.mail import limits
from consumers.mail.links import domain_of, word_of

__all__ = ["Address", "address_of", "received_words"]

_ROLES = frozenset({"from", "by", "with"})  # of the next word of a `Received` header
_IP = re.compile(r"\[(\d{1,3}\.\d{1,3}\.\d{1,3})\.(\d{1,3})\]")


class Address(NamedTuple):
    """A mailbox: its display name, its address, and the registrable domain as a word."""

    name: str
    address: str
    domain: str


_NOBODY = Address("", "", "")


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
