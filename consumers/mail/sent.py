"""How a mail was sent, as a few words: who wrote it by which program, and which way it came.

Rule: one fact is one word, and each word says a form, a family or an agreement. What only one
archive or one day has is no word here: dates, ids, addresses, the names of all headers. A list
writes `Sender`, `Return-Path` and `Reply-To` itself, so there they say nothing of the author.

Addresses in headers, and the hosts of `Received`, as words that no tokenizer splits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from email.utils import mktime_tz, parsedate_tz
from itertools import pairwise
from typing import NamedTuple

from consumers.mail import limits
from consumers.mail.links import domain_of, word_of
from consumers.mail.values import parameter

__all__ = ["READ", "address_of", "received_words", "sent_words"]

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


Headers = Mapping[str, Sequence[str]]

_EXPECTED = ("from", "to", "date", "message-id", "mime-version")
_ONCE = ("from", "to", "subject", "date", "message-id")  # by RFC 5322
# Which programs of authors write; the first of a row stands for the others.
_WRITTEN = (
    *(("cc",), ("in-reply-to", "references"), ("organization",), ("dkim-signature",)),
    *(("x-priority", "importance", "x-msmail-priority", "priority"), ("x-mimeole",)),
    *(("auto-submitted",), ("disposition-notification-to", "return-receipt-to")),
)
_LISTS = ("list-id", "list-post", "mailing-list", "x-mailman-version", "x-beenthere")
_OTHERS = ("reply-to", "return-path", "sender")  # which may be another than the author
_MAILERS = ("x-mailer", "user-agent", "x-newsreader")
# Whose values are read. Of all other headers only the names count.
READ = frozenset(
    {
        *(*_EXPECTED, *_ONCE, *_OTHERS, *_MAILERS),
        *("received", "precedence", "content-type", "authentication-results", "received-spf"),
    }
)
_SIGNS = {"$": "d", "-": "h", "_": "b"}
_NAMES = re.compile(r"[A-Za-z]{2,30}")
_RESULT = re.compile(r"\b(spf|dkim|dmarc|arc|iprev)=([a-z]{1,12})", re.IGNORECASE)
_REPEATED = re.compile(r"(.)\1+")
# The kind of each character of an id: a digit, a capital, a small letter, $, -, _, or another.
_KINDS = bytes(
    ord("n" if c.isdigit() else "u" if c.isupper() else "l" if c.islower() else _SIGNS.get(c, "o"))
    for c in (chr(k) if k < 128 else "?" for k in range(256))
)
_ZONE = re.compile(r" ([+-]\d{4}|[A-Z]{2,5})(?: *\([^()]*\))? *$")
_DIGITS = re.compile(r"\d+")
_ADDRESS = re.compile(r"[\d.]+|\[[\da-fA-F.:]+\]")
_FROM = re.compile(r"from +(\S+)(?: *\(([^()]*))?")
_HELO = re.compile(r"\bhelo[= ]\[?([\w.-]+)", re.IGNORECASE)
_WITH = re.compile(r" with (\w{1,20})")
_DYNAMIC = re.compile(r"dsl|dial|dyn|dhcp|ppp|cable|pool|client|cpe")
_MOST_RUNS = 12  # of the form of an id
_MOST_TO = 4  # addresses
_MOST_RESULTS = 10
_SHORT = 100  # characters of an id or a date that are looked at
# Seconds from the date of a mail to its arrival, and what they are called.
_DELAYS = (
    *((-172_800, "days_before"), (-300, "before"), (300, "now"), (7_200, "hours_later")),
    *((86_400, "day_later"), (604_800, "week_later")),
)


def sent_words(headers: Headers, sender: Address, reply: Address) -> str:
    """The words of the headers of a mail. There are few: O(headers).

    Parameters
    ----------
    headers
        Name in lower case to values; those of other headers than `READ` may be left out.
    sender, reply
        The mailboxes of `From` and of `Reply-To`.

    Examples
    --------
    >>> given = {"from": ["Jo <jo@a.org>"], "message-id": ["<12.ab@a.org>"], "to": ["b@c.org"]}
    >>> sent_words(given, address_of("Jo <jo@a.org>"), address_of(""))
    'no_date no_mime_version from_named to_1 id_n_o_l id_of_sender mailer_none'
    """
    words = [
        *(f"no_{word_of(name)}" for name in _EXPECTED if not _first(headers, name)),
        *(f"twice_{word_of(name)}" for name in _ONCE if len(headers.get(name, ())) > 1),
        *(f"has_{word_of(row[0])}" for row in _WRITTEN if any(name in headers for name in row)),
        *_people(headers, sender, reply),
        *_id_words(_first(headers, "message-id"), sender),
        *_mailer_words(headers),
        *_date_words(headers),
        *_results(headers),
    ]
    for hop in headers.get("received", ())[: limits.MOST_HOPS]:
        words += _hop_words(hop[: limits.LONGEST_HEADER])
    return " ".join(dict.fromkeys(words))


def _first(headers: Headers, name: str) -> str:
    values = headers.get(name)
    return values[0].strip() if values else ""


def _people(headers: Headers, sender: Address, reply: Address) -> Iterator[str]:
    """Who wrote to whom, and whether the addresses agree."""
    if sender.address:
        yield "from_named" if sender.name else "from_bare"
    precedence = word_of(_first(headers, "precedence")[:_SHORT])
    if precedence == "list" or any(name in headers for name in _LISTS):
        yield "list"
    else:
        if precedence:
            yield f"precedence_{precedence}"
        if "list-unsubscribe" in headers:
            yield "has_list_unsubscribe"
        for name in _OTHERS:
            if name in headers:
                other = reply if name == "reply-to" else address_of(_first(headers, name))
                yield f"{word_of(name)}_{_agreement(other, sender)}"
    to = _first(headers, "to")[: limits.LONGEST_HEADER]
    if to:
        yield f"to_{min(to.count('@'), _MOST_TO)}"
        if "undisclosed" in to.lower():
            yield "to_undisclosed"
        elif not to.startswith("<") and "<" in to:
            yield "to_named"


def _agreement(other: Address, sender: Address) -> str:
    if not other.domain:
        return "empty"
    if other.address.lower() == sender.address.lower():
        return "same"
    return "near" if other.domain == sender.domain else "differs"


def _id_words(value: str, sender: Address) -> Iterator[str]:
    """The form of a Message-ID: programs have their own ones."""
    if not value:
        return
    local, at, host = value[: limits.LONGEST_HEADER].strip("<> ").rpartition("@")
    if not at:
        local, host = host, ""
        yield "id_without_host"
    yield f"id_{_form(local)}"
    if at and "." not in host:
        yield "id_of_short_name"
    elif _ADDRESS.fullmatch(host):
        yield "id_of_address"
    elif host:
        yield "id_of_sender" if domain_of(host) == sender.domain else "id_of_another"


def _form(text: str) -> str:
    """The kinds of the characters of an id in their order, without digits of its own.

    Examples
    --------
    >>> _form("20020829.1a$Xy")
    'n_o_n_l_d_u_l'
    """
    kinds = text[:_SHORT].encode("ascii", "replace").translate(_KINDS).decode()
    return "_".join(_REPEATED.sub(r"\1", kinds)[:_MOST_RUNS])


def _mailer_words(headers: Headers) -> Iterator[str]:
    """The program, and the form of the boundary that it made."""
    mailer = next(filter(None, (_first(headers, name) for name in _MAILERS)), "")
    family = _NAMES.findall(mailer[:_SHORT])[:2]
    yield f"mailer_{'_'.join(family).lower() or ('odd' if mailer else 'none')}"
    kind = _first(headers, "content-type")
    boundary = parameter(kind[: limits.LONGEST_HEADER], "boundary") if "oundary" in kind else None
    if boundary:
        yield f"boundary_{_form(boundary)}"


def _date_words(headers: Headers) -> Iterator[str]:
    """The zone of the date, and how long before its arrival it is."""
    value = _first(headers, "date")
    if not value:
        return
    sent = _seconds(value)
    if sent is None:
        yield "date_broken"
        return
    zone = _ZONE.search(value[:_SHORT])
    yield f"zone_{word_of(zone[1].replace('-', 'minus')) if zone else 'none'}"
    hops = headers.get("received")
    come = _seconds(hops[0].rpartition(";")[2]) if hops else None
    if come is not None:
        yield f"come_{next((name for most, name in _DELAYS if come - sent < most), 'much_later')}"


def _seconds(date: str) -> float | None:
    """The time that a date of a mail says, None if it cannot be read."""
    try:
        found = parsedate_tz(date[:_SHORT])
        return None if found is None else float(mktime_tz(found))
    except (ValueError, OverflowError, IndexError, TypeError):
        return None


def _results(headers: Headers) -> Iterator[str]:
    """What the receiving server measured, in the newest header: others can be forged."""
    value = _first(headers, "authentication-results")[: limits.LONGEST_HEADER]
    for name, result in _RESULT.findall(value)[:_MOST_RESULTS]:
        yield f"{name}_{result}".lower()
    spf = _NAMES.match(_first(headers, "received-spf"))
    if spf:
        yield f"spf_{spf[0].lower()}"


def _hop_words(hop: str) -> tuple[str, ...]:
    """How the host of a hop called itself, and what its address is called.

    Examples
    --------
    >>> _hop_words("from pc (dsl-7-9.example.org [192.0.2.7]) by mx.example.com with SMTP id 1")
    ('helo_short', 'helo_differs', 'host_dynamic', 'by_smtp')
    """
    found = _FROM.match(" ".join(hop.split()))
    if found is None:
        return ("hop_inside",)
    out = []
    said, about = found[1].strip(";,()").lower(), found[2] or ""
    other = _HELO.search(about)
    words = about.lower().split()
    name = words[0].rpartition("@")[2].strip("[]") if words and words[0][0] != "[" else ""
    if other:
        name, said = said, other[1].lower()
    if _ADDRESS.fullmatch(said):
        out.append("helo_address")
    elif "." not in said:
        out.append("helo_short")
    if _ADDRESS.fullmatch(name) or "." not in name:
        out.append("host_unknown")
    else:
        same, near = name == said, domain_of(name) == domain_of(said)
        out.append("helo_same" if same else "helo_near" if near else "helo_differs")
        if len(_DIGITS.findall(name)) > 1 or _DYNAMIC.search(name):
            out.append("host_dynamic")
    how = _WITH.search(hop)
    return (*out, f"by_{how[1].lower()}") if how else tuple(out)
