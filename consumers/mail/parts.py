"""A mail as a tree of parts: by the fast parser, or by the standard library's.

Rule: the standard library (`email` with the policy compat32) reads a mail that the fast parser
refuses, and one with a container in which it finds no part. It depends on the mail only which of
the two reads it. Neither raises. What is out of bounds is left out, and named in `wrong`.
"""

from __future__ import annotations

import binascii
import quopri
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesHeaderParser, BytesParser
from email.policy import compat32
from functools import cache, lru_cache
from typing import Any

from consumers.mail import limits
from consumers.mail.charsets import decoded
from consumers.mail.message import MailMessage

__all__ = ["MailPart", "fast", "mail_parts", "slow"]

_CONTAINER = re.compile(rb"multipart/|message/", re.IGNORECASE)
_WORD = re.compile(r"=\?([\w.:+-]{1,40})(?:\*[\w-]*)?\?([bBqQ])\?([^?\s]*)\?=")
_BETWEEN = re.compile(r"(\?=)\s+(?==\?[\w.:+-]{1,40}(?:\*[\w-]*)?\?[bBqQ]\?)")
_FOLD = re.compile(r"\r?\n[ \t]*|\r[ \t]*")
_TYPE = re.compile(r"[\w!#$&.+^-]{1,60}/[\w!#$&.+^-]{1,80}", re.ASCII)


class _RefusedError(Exception):
    """The fast parser's tree is incomplete."""


@dataclass(slots=True)
class MailPart:
    """A part of a mail.

    Parameters
    ----------
    type
        Its media type in lower case.
    headers
        Name in lower case to its values, decoded, in the order of the mail.
    filename
        Its file name, "" if it has none.
    disposition
        `inline`, `attachment`, or "" without the header.
    content
        The decoded bytes of a text. Other parts are not decoded.
    children
        The parts that it contains.
    """

    type: str
    headers: dict[str, list[str]]
    filename: str = ""
    disposition: str = ""
    content: bytes = b""
    children: list[MailPart] = field(default_factory=list)

    def header(self, name: str) -> str:
        """The first value of a header, "" if it is absent."""
        values = self.headers.get(name)
        return values[0] if values else ""

    def walk(self, depth: int = 0) -> Iterator[tuple[int, MailPart]]:
        """This part and the parts in it, each with its depth, in the order of the mail."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


def mail_parts(value: bytes) -> tuple[MailPart, set[str]]:
    """The parts of a mail, and what was wrong with it.

    Examples
    --------
    >>> root, wrong = mail_parts(b"Subject: =?utf-8?Q?na=C3=AFve?=\\n\\nopen")
    >>> root.header("subject"), root.content, wrong
    ('naïve', b'open', set())
    """
    wrong: set[str] = set()
    if len(value) > limits.LARGEST_MAIL:
        value = value[: limits.LARGEST_MAIL]
        wrong.add("cut")
    value = _begun(value)
    root = None
    # Counting single bytes is 20 times as fast, and few mails have that many.
    few = value.count(b"?") <= limits.ENCODED_WORDS
    if few or value.count(b"=?") <= limits.ENCODED_WORDS:
        root = fast(value, wrong)
    if root is None:
        wrong.add("malformed")
        root = slow(value, wrong)
    return root, wrong


def _begun(value: bytes) -> bytes:
    """The mail from its first header, with line feeds."""
    value = value.removeprefix(b"\xef\xbb\xbf")
    if value.startswith((b"From ", b">From ")):  # the first line of a mail in an mbox
        value = value.partition(b"\n")[2]
    if b"\n" not in value:
        value = value.replace(b"\r", b"\n")
    return value


# The fast parser.


def fast(value: bytes, wrong: set[str]) -> MailPart | None:
    """The parts by the fast parser; None if it refuses the mail."""
    parse, refusal = _fast_parser()
    try:
        return _Bounded(wrong).part(parse(value, mode="lazy"), _fast_part, 0)
    except (refusal, _RefusedError):
        return None


@cache
def _fast_parser() -> Any:
    """The parser and its error. Imported at the first mail."""
    from fast_mail_parser import ParseError, parse_email_tree

    return parse_email_tree, ParseError


def _fast_part(node: Any) -> tuple[MailPart, list[Any]]:
    headers = _lowered(node.headers)
    kind, children = _type(node.content_type), node.children
    part = MailPart(kind, headers, node.filename, _disposition(node.disposition))
    if not children and kind.startswith(("multipart/", "message/rfc822")):
        raise _RefusedError
    if not children and _shown(part):
        if (content := node.content) is None:  # a container of a type that is not valid
            raise _RefusedError
        part.content = content
    return part, children


def _lowered(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """Headers by their names in lower case. The values of equal names follow each other."""
    names = list(map(_lower, found))
    headers = dict(zip(names, found.values(), strict=True))
    if len(headers) == len(names):
        return headers
    headers = {}
    for name, values in zip(names, found.values(), strict=True):
        headers.setdefault(name, []).extend(values)
    return headers


@lru_cache(maxsize=1 << 12)
def _lower(name: str) -> str:
    return name.strip().lower()


# The slow parser.


def slow(value: bytes, wrong: set[str]) -> MailPart:
    """The parts by the standard library."""
    if len(value) > limits.SLOW_BYTES:
        value = value[: limits.SLOW_BYTES]
        wrong.add("cut")
    parser: Any = BytesParser(MailMessage, policy=compat32)
    if len(_CONTAINER.findall(value)) > limits.SLOW_CONTAINERS:
        parser = BytesHeaderParser(MailMessage, policy=compat32)
        wrong.add("too_deep")
    return _Bounded(wrong).part(parser.parsebytes(value), _slow_part, 0)


def _slow_part(message: Any) -> tuple[MailPart, list[Any]]:
    headers: dict[str, list[str]] = {}
    for name, value in message.raw_items():
        headers.setdefault(name.strip().lower(), []).append(_unfolded(value))
    kind = _type(message.get_content_type())
    disposition = _disposition(headers.get("content-disposition", [""])[0].partition(";")[0])
    part = MailPart(kind, headers, _unfolded(message.get_filename("")), disposition)
    children = message.get_payload() if message.is_multipart() else []
    if not children and kind.startswith(("multipart/", "message/")):
        part.type = "text/plain"  # no boundary, or a wrong one: what it has is shown as it is
    if not children and _shown(part):
        part.content = _content(message)
    return part, children


def _content(message: Message) -> bytes:
    try:
        content = message.get_payload(decode=True)
    except (ValueError, LookupError):
        return b""
    return content if isinstance(content, bytes) else b""


def _unfolded(value: str) -> str:
    """A header's value in one line, with its encoded words decoded."""
    text = value
    if not value.isascii():
        try:
            text = decoded(value.encode("utf-8", "surrogateescape"), "")[0]
        except UnicodeEncodeError:  # another lone surrogate
            text = value.encode("utf-8", "replace").decode()
    text = _FOLD.sub(" ", text).strip()
    if "=?" not in text:
        return text
    return _WORD.sub(_word, _BETWEEN.sub(r"\1", text), count=limits.ENCODED_WORDS)


def _word(found: re.Match[str]) -> str:
    """The text of an encoded word (RFC 2047); the word as it is if it is broken."""
    charset, encoding, content = found.groups()
    try:
        if encoding in "bB":
            value = binascii.a2b_base64(content + "=" * (-len(content) % 4))
        else:
            value = quopri.decodestring(content.replace("_", " ").encode(), header=False)
    except ValueError:
        return found.group()
    return decoded(value, charset.lower())[0]


# Both.


class _Bounded:
    """Builds the tree, up to the bounds."""

    def __init__(self, wrong: set[str]) -> None:
        self._wrong, self._left = wrong, limits.MOST_PARTS

    def part(
        self, node: Any, read: Callable[[Any], tuple[MailPart, list[Any]]], depth: int
    ) -> MailPart:
        self._left -= 1
        part, children = read(node)
        for child in children:
            if self._left <= 0 or depth >= limits.DEEPEST:
                self._wrong.add("cut")
                break
            part.children.append(self.part(child, read, depth + 1))
        return part


def _shown(part: MailPart) -> bool:
    return part.type.startswith("text/") and part.disposition != "attachment"


@lru_cache(maxsize=1 << 10)
def _type(found: str) -> str:
    kind = found.lower()
    return kind if _TYPE.fullmatch(kind) else "text/plain"


def _disposition(found: str | None) -> str:
    return "" if not found else "inline" if found.strip().lower() == "inline" else "attachment"
