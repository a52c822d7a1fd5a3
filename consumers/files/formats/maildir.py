"""Maildir: one mail a file, in `cur` and `new` of each folder. Other files are left out.

Rule: mails of all folders are read in the order of their delivery. By folders, one label would come
after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from consumers.files.file import File
from consumers.files.format import Assumption, Format, Options, Record, Wanted
from consumers.files.mails import folder_of, in_maildir, read_mail
from consumers.mail.lighter import mail_record

__all__ = ["FORMAT", "MaildirReader"]


class MaildirReader:
    """Reads a file of a Maildir."""

    guesses: Sequence[Assumption] = ()

    def __init__(self, file: File, options: Options) -> None:
        self._file = file

    def records(self, wanted: Wanted) -> Iterator[Record]:
        """One record, or nothing: a Maildir has files of its server too."""
        if in_maildir(self._file):
            yield {**mail_record(read_mail(self._file)), "folder": folder_of(self._file)}


def delivered(file: File) -> tuple[int, str]:
    """When a mail was delivered: the seconds at the beginning of its name; and its name.

    Examples
    --------
    >>> from pathlib import Path
    >>> from consumers.files.file import local_file
    >>> delivered(local_file(Path("Maildir/.Junk/cur/1704067200.M1P7.host:2,S")))
    (1704067200, '1704067200.M1P7.host:2,S')
    """
    name = PurePosixPath(file.path).name
    seconds = name.partition(".")[0]
    return int(seconds) if seconds.isdecimal() else 0, name


FORMAT = Format(
    name="maildir",
    title="Maildir",
    suffixes=(),
    options=frozenset(),
    reader=MaildirReader,
    order=delivered,
    piped=False,
)
