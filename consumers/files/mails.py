"""Mails of files: an mbox, a Maildir, one mail a file.

The service parses the mail (`[input] format = "mail"`, or `[input] mail = "mail"`), so a file gives
the same features as a mail server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from consumers.files.file import File
from consumers.mail.envelope import LARGEST_READ

__all__ = [
    "FORMATS",
    "directory_of",
    "folder_of",
    "in_maildir",
    "looks_like_mail",
    "mails_in",
    "read_mail",
]


_HEADER = re.compile(
    rb"(arc-[\w-]+|date|delivered-to|dkim-signature|from|message-id|mime-version|received|"
    rb"return-path|subject|to|x-[\w-]+):",
    re.IGNORECASE,
)  # of the first line of a mail
FORMATS = ("eml", "maildir", "mbox")  # whose records are mails


def looks_like_mail(file: File) -> str | None:
    """The format of a file that begins as an mbox or as one mail; None of another."""
    first = file.beginning(100)
    if first.startswith(b"From "):
        return "mbox"
    return "eml" if _HEADER.match(first) else None


def read_mail(file: File) -> bytes:
    """The mail of a file that has one, up to `LARGEST_READ` bytes."""
    with file.opened() as stream:
        return stream.read(LARGEST_READ)


def mails_in(stream: BinaryIO) -> Iterator[bytes]:
    """The mails of an mbox, each up to `LARGEST_READ` bytes.

    A mail begins at a line `From …` after an empty line. Such lines inside a mail are quoted by
    `>`, of which one is taken away.

    Examples
    --------
    >>> from io import BytesIO
    >>> mbox = b"From a Mon\\nSubject: 1\\n\\n>From here\\n\\nFrom b Tue\\nSubject: 2\\n\\n"
    >>> list(mails_in(BytesIO(mbox)))
    [b'Subject: 1\\n\\nFrom here\\n', b'Subject: 2\\n\\n']
    """
    lines: list[bytes] | None = None
    size, empty = 0, True
    for line in stream:
        if empty and line.startswith(b"From "):
            if lines is not None:
                yield _mail(lines)
            lines, size, empty = [], 0, False
            continue
        empty = not line.strip(b"\r\n")
        if lines is None:  # before the first mail
            continue
        if line.startswith(b">") and line.lstrip(b">").startswith(b"From "):
            line = line[1:]
        if size < LARGEST_READ:
            lines.append(line)
            size += len(line)
    if lines is not None:
        yield _mail(lines)


def _mail(lines: list[bytes]) -> bytes:
    """The mail without the empty line that ends it in the file, unless it ends its headers."""
    body = next((at for at, line in enumerate(lines) if not line.strip(b"\r\n")), len(lines))
    if len(lines) - 1 > body and not lines[-1].strip(b"\r\n"):
        lines = lines[:-1]
    return b"".join(lines)


def in_maildir(file: File) -> bool:
    """Whether a file is where a Maildir has its mails."""
    path = PurePosixPath(file.path)
    return path.parent.name in ("cur", "new") and not path.name.startswith(".")


def folder_of(file: File) -> str:
    """The folder of a mail in a Maildir: that above `cur` and `new`, without Maildir++'s dot.

    Examples
    --------
    >>> from pathlib import Path
    >>> from consumers.files.file import local_file
    >>> folder_of(local_file(Path("Maildir/.Junk/cur/1:2,S")))
    'Junk'
    """
    return directory_of(file, 2).removeprefix(".")


def directory_of(file: File, up: int) -> str:
    """The name of the directory so many levels above a file, also of one read from inside it."""
    path = PurePosixPath(file.path)
    if len(path.parts) <= up:
        path = PurePosixPath(Path(file.path).absolute())
    return path.parents[up - 1].name
