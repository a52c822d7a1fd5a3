"""A mail as its parts (MIME), each byte read once.

Rule: the parts are those that `email` with policy.default finds, and what mail programs find where
it is stricter. Never raises. The time is in proportion to the bytes: each line is looked at once,
and of the bodies only lines that begin with `--`. What is out of bounds is named in `wrong`.

The mail inside an opaque S/MIME signature (RFC 8551): no library, because only its place counts.

The signature is not verified: a sender of spam may sign it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from consumers.mail import limits
from consumers.mail.values import (
    encoding_of,
    line_of,
    parameter,
    text_of,
    untransferred,
    words_decoded,
)
from stream.remembered import remembered

__all__ = [
    "MailPart",
    "mail_parts",
]

_SEQUENCE, _SET, _INTEGER, _OID, _TAGGED = 0x30, 0x31, 0x02, 0x06, 0xA0
_OCTETS, _PIECES = 0x04, 0x24
_SIGNED = bytes.fromhex("2a864886f70d010702")  # 1.2.840.113549.1.7.2
_MOST_DEPTH = 20


def signed_content(value: bytes) -> bytes | None:
    """The content of CMS SignedData in BER; None if it is something else, or broken.

    Examples
    --------
    >>> oid = bytes.fromhex("06092a864886f70d010702")
    >>> inner = bytes.fromhex("020101310030") + b"\\x0f\\x06\\x07abcdefg\\xa0\\x04\\x04\\x02hi"
    >>> data = b"\\x30" + bytes([len(inner)]) + inner
    >>> whole = oid + b"\\xa0" + bytes([len(data)]) + data
    >>> signed_content(b"\\x30" + bytes([len(whole)]) + whole)
    b'hi'
    """
    try:
        return _content(value)
    except (IndexError, ValueError):
        return None


def _content(value: bytes) -> bytes | None:
    at, _ = _enter(value, 0, _SEQUENCE)
    start, end = _enter(value, at, _OID)
    if value[start:end] != _SIGNED:
        return None
    at, _ = _enter(value, end, _TAGGED)
    at, _ = _enter(value, at, _SEQUENCE)
    _, at = _enter(value, at, _INTEGER)
    at = _after(value, at, 0)
    at, _ = _enter(value, at, _SEQUENCE)
    _, at = _enter(value, at, _OID)
    at, _ = _enter(value, at, _TAGGED)
    if value[at] == _OCTETS:
        start, end = _enter(value, at, _OCTETS)
        return value[start:end]
    at, end = _enter(value, at, _PIECES)
    pieces = []
    while at < (end if end >= 0 else len(value)) and value[at] == _OCTETS:
        start, at = _enter(value, at, _OCTETS)
        pieces.append(value[start:at])
    return b"".join(pieces)


def _enter(value: bytes, at: int, tag: int) -> tuple[int, int]:
    """Where the content of an element begins and ends; -1: at an element of two zeros."""
    if value[at] != tag:
        raise ValueError("another element")
    length = value[at + 1]
    if length < 0x80:
        return at + 2, at + 2 + length
    if length == 0x80:
        return at + 2, -1
    start = at + 2 + (length & 0x7F)
    return start, start + int.from_bytes(value[at + 2 : start])


def _after(value: bytes, at: int, depth: int) -> int:
    """Where the element after this one begins."""
    start, end = _enter(value, at, value[at])
    if end >= 0:
        return end
    if depth > _MOST_DEPTH:
        raise ValueError("too deep")
    while value[start : start + 2] != b"\0\0":
        start = _after(value, start, depth + 1)
    return start + 2


_FIELD = re.compile(rb"([!-9;-~]+)[ \t]*:([^\n]*+(?:\n[ \t][^\n]*+)*+)\n?")
_NO_FIELD = re.compile(rb"(?:[ \t:]|>?From )[^\n]*\n?")  # lines that are left out
_TYPE = re.compile(r"\s*\"?([\w!#$&.+^-]{1,60}/[\w!#$&.+^-]{1,80})(?=[\s;\"(),]|$)", re.ASCII)
_MAILS = (
    *("message/rfc822", "message/global", "message/news"),
    *("message/partial", "message/external-body"),
)
_OPAQUE = ("application/pkcs7-mime", "application/x-pkcs7-mime")
_DIGEST = "multipart/digest"
_TEXT = "text/plain"


@dataclass(slots=True)
class MailPart:
    """A part of a mail.

    Parameters
    ----------
    type
        Its media type in lower case.
    depth
        How many parts it is in.
    fields
        Name of a header in lower case to its values, as they are, in the order of the mail.
    source
        The bytes that it is a part of.
    start, end
        Where its body is in them.
    encoding
        How its body is encoded, see `encoding_of`.
    filename
        Its file name, "" if it has none.
    disposition
        `inline`, `attachment`, or "" without the header.
    container
        Whether the parts after it that are deeper are its own.
    """

    type: str
    depth: int
    fields: dict[str, list[bytes]]
    source: bytes = field(repr=False)
    start: int
    end: int
    encoding: str = ""
    filename: str = ""
    disposition: str = ""
    container: bool = False

    def header(self, name: str, charset: str = "") -> str:
        """The first value of a header as text, "" if it is absent."""
        values = self.fields.get(name)
        return text_of(values[0], charset) if values else ""

    def content(self, most: int, wrong: set[str]) -> bytes:
        """Its body, decoded. `most`: bytes that are read of it."""
        end = self.end
        if end - self.start > most:
            end = self.start + max(most, 0)
            wrong.add("cut")
        found, broken = untransferred(self.source[self.start : end], self.encoding)
        if broken and end == self.end:
            wrong.add("malformed")
        return found


def mail_parts(value: bytes) -> tuple[list[MailPart], set[str]]:
    """The parts of a mail in their order, and what was wrong with it. The first is the mail.

    Examples
    --------
    >>> (root,), wrong = mail_parts(b"Subject: =?utf-8?Q?na=C3=AFve?=\\n\\nopen")
    >>> root.header("subject"), root.content(100, wrong), wrong
    ('naïve', b'open', set())
    """
    reader = _Reader()
    reader.read(value.removeprefix(b"\xef\xbb\xbf"), 0, 0)
    return reader.parts, reader.wrong


class _Reader:
    """Reads mails, and those that are encoded in them."""

    def __init__(self) -> None:
        self.parts: list[MailPart] = []
        self.wrong: set[str] = set()
        self._inside = limits.LARGEST_TEXT  # bytes of encoded mails that are decoded

    def read(self, value: bytes, depth: int, encoded: int) -> None:
        """Add the parts of a mail, which is so deep in so many encoded ones."""
        if b"\r" in value:
            value = value.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        open_ = _Open(value)
        at, default = 0, _TEXT
        while True:
            if len(self.parts) >= limits.MOST_PARTS:
                self.wrong.add("cut")
                return
            part = _head(value, at, depth, default, open_)
            self.parts.append(part)
            default = _TEXT
            if part.type in _MAILS and part.encoding not in ("base64", "quoted-printable"):
                part.container = True
                at, depth = part.start, depth + 1
                continue
            multipart = part.type.startswith("multipart/")
            opened = multipart and open_.add(part)
            found = open_.next(part.start)
            part.end = max(part.start, found.start)
            if opened and found.container is part and not found.closes:
                part.container = True
            elif multipart:
                part.type = _TEXT  # without a boundary, or with a wrong one: it is shown as it is
                self.wrong.add("malformed")
            else:
                self._look_inside(part, encoded)
            while found.closes and found.container is not None:
                found = open_.next(found.end - 1)
            if found.container is None:
                return
            at, depth = found.end, found.container.depth + 1
            default = _MAILS[0] if found.container.type == _DIGEST else _TEXT

    def _look_inside(self, part: MailPart, encoded: int) -> None:
        """Read the mail that a part has in encoded form."""
        opaque = part.type in _OPAQUE
        if not opaque and part.type not in _MAILS:
            return
        if encoded >= limits.DEEPEST:
            self.wrong.add("too_deep")
            return
        content = part.content(self._inside, self.wrong)
        self._inside -= len(content)
        found = signed_content(content) if opaque else content
        if found is None:  # encrypted, or broken
            return
        part.container = True
        self.read(found, part.depth + 1, encoded + 1)


@dataclass(frozen=True, slots=True)
class _Separator:
    """A line that ends a part: where it begins, with the line feed before it, and where it ends.

    `container`: the multipart that it is of; None at the end of the mail. `closes`: it is its last.
    """

    start: int
    end: int
    container: MailPart | None = None
    closes: bool = True


class _Open:
    """The multiparts that are not closed, the outermost first."""

    def __init__(self, value: bytes) -> None:
        self._value = value
        self._stack: list[tuple[bytes, MailPart]] = []
        self._places: dict[bytes, int] = {}  # separator to its place in the stack

    def add(self, part: MailPart) -> bool:
        """Open a multipart; False if it has no boundary, or that of one around it."""
        values = part.fields.get("content-type")
        boundary = parameter(line_of(values[0]), "boundary") if values else None
        if not boundary or not boundary.rstrip():
            return False
        separator = b"--" + boundary.rstrip().encode("utf-8", "surrogateescape")
        if separator in self._places:
            return False
        self._places[separator] = len(self._stack)
        self._stack.append((separator, part))
        return True

    def next(self, at: int) -> _Separator:
        """The next separator of an open multipart. Those inside that one are closed."""
        value = self._value
        start = value.find(b"\n--", max(at - 1, 0)) if self._stack else -1
        while start >= 0:
            end = value.find(b"\n", start + 1)
            if end < 0:
                end = len(value)
            place, closes = self.place(value[start + 1 : end])
            if place is not None:
                part = self._stack[place][1]
                self._close(place if closes else place + 1)
                return _Separator(start, min(end + 1, len(value)), part, closes)
            start = value.find(b"\n--", end)
        self._close(0)
        return _Separator(len(value), len(value))

    def place(self, line: bytes) -> tuple[int | None, bool]:
        """Which multipart a line separates, and whether it closes it."""
        line = line.rstrip(b" \t")
        place = self._places.get(line)
        if place is None and line.endswith(b"--"):
            return self._places.get(line[:-2]), True
        return place, False

    def _close(self, place: int) -> None:
        for separator, _ in self._stack[place:]:
            del self._places[separator]
        del self._stack[place:]


def _head(value: bytes, at: int, depth: int, default: str, open_: _Open) -> MailPart:
    """The part whose headers begin here."""
    fields: dict[str, list[bytes]] = {}
    while (found := _FIELD.match(value, at)) or (found := _NO_FIELD.match(value, at)):
        if value[at] == 45:  # a hyphen
            line = value[at : max(value.find(b"\n", at), at)] or value[at:]
            if open_.place(line)[0] is not None:
                break
        if found.lastindex:
            fields.setdefault(_lower(found[1]), []).append(found[2])
        at = found.end()
    if value[at : at + 1] == b"\n":
        at += 1
    kinds, encodings = fields.get("content-type"), fields.get("content-transfer-encoding")
    content_type = line_of(kinds[0]) if kinds else ""
    kind = _type(content_type) if kinds else default
    part = MailPart(kind, depth, fields, value, at, len(value))
    if encodings:
        part.encoding = encoding_of(encodings[0])
    dispositions = fields.get("content-disposition")
    disposition = line_of(dispositions[0]) if dispositions else ""
    if disposition:
        inline = disposition.partition(";")[0].strip().lower() == "inline"
        part.disposition = "inline" if inline else "attachment"
    name = parameter(disposition, "filename") if disposition else None
    if name is None and kinds:
        name = parameter(content_type, "name")
    part.filename = words_decoded(name).strip() if name else ""
    return part


@remembered(1 << 12)
def _lower(name: bytes) -> str:
    return name.decode("ascii").lower()


@remembered(1 << 10)
def _type(value: str) -> str:
    found = _TYPE.match(value)
    return found[1].lower() if found else _TEXT
