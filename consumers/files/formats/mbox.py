"""Mbox: mails after each other. Their folder is the name of the file without its suffixes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from consumers.base.errors import ConfigError
from consumers.files.file import File
from consumers.files.format import Assumption, Format, Options, Record, Wanted
from consumers.files.mails import mails_in
from consumers.mail.lighter import mail_record

__all__ = ["FORMAT", "MboxReader"]


class MboxReader:
    """Reads the mails of an mbox."""

    guesses: Sequence[Assumption] = ()

    def __init__(self, file: File, options: Options) -> None:
        self._file = file

    def records(self, wanted: Wanted) -> Iterator[Record]:
        """One record a mail.

        Raises
        ------
        ConfigError
            The file has bytes, and no line that begins a mail.
        """
        folder = PurePosixPath(self._file.path).name.partition(".")[0]
        empty = True
        with self._file.opened() as stream:
            for value in mails_in(stream):
                empty = False
                yield {**mail_record(value), "folder": folder}
        if empty:
            raise ConfigError(
                f"{self._file}: expected a line that begins with 'From ', got none; give --format "
                "eml if the file is one mail"
            )


FORMAT = Format(
    name="mbox",
    title="mbox",
    suffixes=(".mbox", ".mbx"),
    options=frozenset(),
    reader=MboxReader,
)
