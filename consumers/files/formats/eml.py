"""EML: one mail a file. Its folder is the directory of the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from consumers.files.file import File
from consumers.files.format import Assumption, Format, Options, Record, Wanted
from consumers.files.mails import directory_of, read_mail
from consumers.mail.lighter import mail_record

__all__ = ["FORMAT", "EmlReader"]


class EmlReader:
    """Reads one mail."""

    guesses: Sequence[Assumption] = ()

    def __init__(self, file: File, options: Options) -> None:
        self._file = file

    def records(self, wanted: Wanted) -> Iterator[Record]:
        """One record."""
        yield {**mail_record(read_mail(self._file)), "folder": directory_of(self._file, 1)}


FORMAT = Format(
    name="eml",
    title="EML",
    suffixes=(".eml",),
    options=frozenset(),
    reader=EmlReader,
)
