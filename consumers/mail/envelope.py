"""The bytes of a mail without a parser: its headers, its id, and what of it a model may see."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence

from consumers.mail.later import is_ignored

__all__ = [
    "COMPARED",
    "ENVELOPE",
    "EVEN",
    "LARGEST",
    "LARGEST_ASKED",
    "LARGEST_READ",
    "bare",
    "fields_of",
    "header_of",
    "mail_key",
    "parted",
    "verdict_words",
]

LARGEST = 750_000  # bytes of a mail that are sent: in base64 it fits a JSON record
LARGEST_ASKED = 1 << 22  # bytes of a mail in a request, which many clients send at once
LARGEST_READ = 1 << 25  # bytes of a mail that are read, to find its text after attachments
LONGEST_NAME = 400  # characters of a Message-ID in an id, which has at most 512
COMPARED = 100_000  # bytes of the body in the digest
EVEN = 0.5  # the probability of spam before a service has learned both labels
ENVELOPE = (b"From ", b">From ")  # of the line before a mail in an mbox

_NAME = re.compile(rb"([!-9;-~]+)[ \t]*:")
_OTHER = re.compile(r"[^\w.@$+=!~-]", re.ASCII)  # of a Message-ID in an id
_IDENTIFYING = (b"message-id", b"from", b"date", b"subject")


def mail_key(value: bytes) -> str:
    """The id of a mail: its Message-ID and a digest, which no hop and no mail program changes.

    The digest is of `Message-ID`, `From`, `Date`, `Subject` and the body. White space is folded,
    and other headers do not count, because servers and mail programs add some. Lines before the
    body that are no headers count, because a text without headers has nothing else. A spammer may
    repeat the Message-ID of another mail, but not its digest.

    Examples
    --------
    >>> mail_key(b"Message-ID: <7@a.org>\\nSubject: hi\\n\\nyou\\n")
    '7@a.org#94fe1b018f1680da'
    >>> mail_key(b"X: y\\r\\nMessage-ID:  <7@a.org>\\r\\nSubject:\\r\\n hi\\r\\n\\r\\nyou \\r\\n")
    '7@a.org#94fe1b018f1680da'
    """
    lines, body = parted(value[:LARGEST])
    found: dict[bytes, bytes] = {}
    others: list[bytes] = []
    for name, field in fields_of(lines):
        low = name.lower()
        if not name and not field.startswith(ENVELOPE):
            others += field.splitlines()
        if low in _IDENTIFYING and low not in found:
            found[low] = b" ".join(field[len(name) :].lstrip(b" \t").lstrip(b":").split())
    text = b"\n".join(line.rstrip() for line in [*others, *body.splitlines()])
    text = text[:COMPARED].rstrip()
    hashed = hashlib.sha256()
    for part in (*(found.get(name, b"") for name in _IDENTIFYING), text):
        hashed.update(b"%d:" % len(part) + part)
    shown = found.get(b"message-id", b"").strip(b"<>").decode("ascii", "ignore")
    return f"{_OTHER.sub('_', shown)[:LONGEST_NAME]}#{hashed.hexdigest()[:16]}"


def bare(value: bytes) -> bytes:
    """The mail without what was written after its delivery, such as a verdict; see `later`.

    A verdict in the mail would be the best evidence of all, and so the model would learn itself.
    """
    lines, body = parted(value)
    if lines and lines[0].startswith(ENVELOPE):
        lines = lines[1:]
    kept = [
        field for name, field in fields_of(lines) if not is_ignored(name.decode("ascii").lower())
    ]
    return b"".join(kept) + body


def header_of(value: bytes, name: bytes) -> str:
    """The first header of this name in lower case, as one line of ASCII; without it an empty text.

    Examples
    --------
    >>> header_of(b"Subject: a\\n b\\n\\n", b"subject")
    'a b'
    """
    for found, field in fields_of(parted(value)[0]):
        if found.lower() == name:
            text = field.partition(b":")[2]
            return b" ".join(text.split()).decode("ascii", "replace")
    return ""


def parted(value: bytes) -> tuple[list[bytes], bytes]:
    """The lines of the headers with their ends, and the rest with the empty line before it."""
    if value.startswith((b"\n", b"\r\n")):
        return [], value
    found = value.find(b"\n\n") + 1
    other = value.find(b"\n\r\n", 0, found + 2 if found else len(value)) + 1
    at = other or found or len(value)
    lines = value[:at].split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else []), value[at:]


def fields_of(lines: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Name and bytes of each header with its folded lines; b"" for a line that is no header."""
    name, held = b"", list[bytes]()
    for line in lines:
        if line[:1] in (b" ", b"\t") and held:
            held.append(line)
            continue
        if held:
            yield name, b"".join(held)
        match = _NAME.match(line)
        name, held = (match[1] if match else b""), [line] if line else []
    if held:
        yield name, b"".join(held)


def verdict_words(word: str, score: float, evidence: float | None) -> list[str]:
    """The first words of a header with a verdict. `evidence` is None if none is known.

    Examples
    --------
    >>> verdict_words("spam", 0.998, 6.25)
    ['spam', 'score=0.998000', 'evidence=+6.25']
    """
    known = [] if evidence is None else [f"evidence={evidence:+.2f}"]
    return [word, f"score={score:.6f}", *known]
