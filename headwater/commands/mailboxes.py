"""Mails of files and folders with their label, and which of them teach.

Rule: a mail of a mailbox teaches what a person has decided about it. Good mail was read and is
still there after some days. Spam was moved into its folder by a person, or was left there for so
long. What is given as a file with one mail, a directory of such files or on stdin teaches at once.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

from consumers.base.errors import ConfigError
from consumers.mail.envelope import LARGEST_READ, fields_of, header_of, parted

__all__ = ["DAYS", "STDIN", "Mail", "Mailboxes", "Side"]

STDIN = "-"
DAYS = 3.0
DAY = 86_400.0
UNREAD, DELETED, DRAFT = "unread", "marked as deleted", "drafts"
MOZILLA_READ, MOZILLA_DELETED = 0x0001, 0x0008
FIRST_BYTES = 1 << 16  # of a mail, in which its verdict is looked for
_STATUS = re.compile(rb"^(?:Status|X-Mozilla-Status):", re.IGNORECASE)


class Mail(NamedTuple):
    """A mail and its label."""

    value: bytes
    label: str


class Side(NamedTuple):
    """Places with mails of one label, and whether they are spam."""

    places: Sequence[str]
    label: str
    spam: bool


class _Found(NamedTuple):
    """A file with mails of a side; None is stdin. `kept`: it is a mailbox with flags."""

    path: Path | None
    side: Side
    kept: bool = False


class Mailboxes:
    """The mails of some sides.

    Parameters
    ----------
    days
        How long a mail of a mailbox waits for a person to move it.
    unread
        Whether unread mail teaches too.
    now
        Seconds since 1970; by default the clock.

    Attributes
    ----------
    skipped
        How many mails of mailboxes did not teach, by reason.
    """

    def __init__(self, days: float = DAYS, unread: bool = False, now: float | None = None) -> None:
        self._days, self._unread = days, unread
        self._since = (time.time() if now is None else now) - days * DAY
        self.skipped: Counter[str] = Counter()

    def mails(self, sides: Sequence[Side]) -> Iterator[Mail]:
        """The mails of all sides. The next one is of the side with the smallest share read."""
        found = [self._files(side) for side in sides]
        totals = [sum(f.path.stat().st_size if f.path else 1 for f in s) or 1 for s in found]
        waiting = {n: self._read(files) for n, files in enumerate(found)}
        read = [0] * len(found)
        while waiting:
            n = min(waiting, key=lambda n: (read[n] / totals[n], n))
            mail = next(waiting[n], None)
            if mail is None:
                del waiting[n]
                continue
            read[n] += len(mail.value)
            yield mail

    def _files(self, side: Side) -> list[_Found]:
        """The files of its places, those of a folder in the order of their arrival."""
        out: list[_Found] = []
        for place in side.places:
            path = Path(place).expanduser()
            if place == STDIN:
                out.append(_Found(None, side))
            elif path.is_dir():
                folders = [path / name for name in ("cur", "new") if (path / name).is_dir()]
                found = _listed(folders or [path])
                if not found:
                    raise ConfigError(f"{place}: the directory has no mails; check the name")
                if folders:
                    found = [each for each in found if self._teaches(each, side)]
                out += [_Found(each, side) for each in found]
            elif path.is_file():
                out.append(_Found(path, side, kept=_has_flags(path)))
            else:
                raise ConfigError(f"{place}: no such file or directory; check the name")
        return out

    def _teaches(self, path: Path, side: Side) -> bool:
        """Whether the mail of a Maildir teaches, by its name."""
        flags = path.name.partition(":2,")[2]
        read = path.parent.name == "cur" and "S" in flags
        arrived = _arrived(path)
        if arrived > self._since and side.spam:
            with suppress(OSError), path.open("rb") as stream:
                return self._decides(side, read, flags, arrived, stream.read(FIRST_BYTES))
        return self._decides(side, read, flags, arrived, b"")

    def _decides(self, side: Side, read: bool, flags: str, arrived: float, first: bytes) -> bool:
        """By the flags of a Maildir: `T` is deleted, `D` a draft."""
        reason = ""
        if "T" in flags:
            reason = DELETED
        elif "D" in flags:
            reason = DRAFT
        elif not (read or side.spam or self._unread):
            reason = UNREAD
        elif arrived > self._since and not (side.spam and _was_moved(first)):
            reason = f"newer than {self._days:g} days"
        if reason:
            self.skipped[reason] += 1
        return not reason

    def _read(self, files: Sequence[_Found]) -> Iterator[Mail]:
        """The mails of some files: an mbox begins with a line `From …`."""
        for path, side, kept in files:
            try:
                with _opened(path) as stream:
                    for value in _mails(stream):
                        if value and (not kept or self._kept(value, side)):
                            yield Mail(value, side.label)
            except FileNotFoundError:
                continue  # a mail program has moved it meanwhile
            except OSError as error:
                where = path or "stdin"
                raise ConfigError(f"{where}: cannot be read ({error.strerror})") from None

    def _kept(self, value: bytes, side: Side) -> bool:
        """Whether the mail of an mbox teaches, by its headers."""
        mozilla = header_of(value, b"x-mozilla-status")
        bits = int(mozilla, 16) if re.fullmatch(r"[0-9a-fA-F]{1,8}", mozilla) else 0
        read = "R" in header_of(value, b"status") or bool(bits & MOZILLA_READ)
        flags = header_of(value, b"x-status")  # D is deleted there, and T a draft
        deleted = "D" in flags or bool(bits & MOZILLA_DELETED)
        of_maildir = "T" * deleted + "D" * ("T" in flags)
        return self._decides(side, read, of_maildir, _received(value), value)


def _listed(folders: Sequence[Path]) -> list[Path]:
    """The files of some folders, the oldest first."""
    found = [f for folder in folders for f in folder.iterdir() if not f.name.startswith(".")]
    return sorted((f for f in found if f.is_file()), key=lambda f: (_arrived(f), f.name))


def _arrived(path: Path) -> float:
    """Seconds since 1970: those at the beginning of its name, or else the time of the file."""
    seconds = path.name.partition(".")[0]
    if seconds.isascii() and seconds.isdecimal() and len(seconds) in (9, 10):
        return float(seconds)
    with suppress(FileNotFoundError):
        return path.stat().st_mtime
    return 0.0


def _received(value: bytes) -> float:
    """When a mail came, by its last server, or else by its sender; 0.0 if none says so."""
    from email.utils import mktime_tz, parsedate_tz

    for text in (header_of(value, b"received").rpartition(";")[2], header_of(value, b"date")):
        parts = parsedate_tz(text) if text else None
        if parts is not None:
            with suppress(ValueError, OverflowError):
                return float(mktime_tz(parts))
    return 0.0


def _was_moved(value: bytes) -> bool:
    """Whether a spam has a verdict of headwater that is another one: a person has moved it."""
    return header_of(value, b"x-headwater").partition(" ")[0] in ("ham", "unsure")


def _has_flags(path: Path) -> bool:
    """Whether a file is an mbox in which a mail program keeps what was read."""
    with suppress(OSError), path.open("rb") as stream:
        if stream.read(5) == b"From ":
            stream.seek(0)
            for value in _mails(stream):
                if any(_STATUS.match(field) for _, field in fields_of(parted(value)[0])):
                    return True
    return False


def _opened(path: Path | None) -> BinaryIO:
    return BytesIO(sys.stdin.buffer.read()) if path is None else path.open("rb")


def _mails(stream: BinaryIO) -> Iterator[bytes]:
    """The mails of an mbox, or the one mail."""
    from consumers.files.mails import mails_in

    start = stream.read(5)
    stream.seek(0)
    return mails_in(stream) if start == b"From " else iter([stream.read(LARGEST_READ)])
