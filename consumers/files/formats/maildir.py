"""Maildir: one mail a file, in `cur` and `new` of each folder. Other files are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from consumers.files.file import File
from consumers.files.format import Assumption, Format, Options, Record, Wanted
from consumers.files.mails import folder_of, mail_record, read_mail

__all__ = ["FORMAT", "MaildirReader"]


class MaildirReader:
    """Reads a file of a Maildir."""

    guesses: Sequence[Assumption] = ()

    def __init__(self, file: File, options: Options) -> None:
        self._file = file

    def records(self, wanted: Wanted) -> Iterator[Record]:
        """One record, or nothing: a Maildir has files of its server too."""
        path = PurePosixPath(self._file.path)
        if path.parent.name in ("cur", "new") and not path.name.startswith("."):
            yield mail_record(read_mail(self._file), folder_of(self._file))


FORMAT = Format(
    name="maildir",
    title="Maildir",
    suffixes=(),
    options=frozenset(),
    reader=MaildirReader,
    piped=False,
)
