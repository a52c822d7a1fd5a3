"""JSON lines: one JSON object a line; empty lines are skipped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from consumers.files.documents import decode
from consumers.files.encoding import SAMPLE, encoding_of, text_of, title_of
from consumers.files.file import File
from consumers.files.format import Assumption, Format, Options, Record, Wanted

__all__ = ["FORMAT", "JsonlReader"]

OTHER = (
    "; or name another format, such as --format csv, with --columns A,B if no line has the names "
    "of the columns"
)


class JsonlReader:
    """Reads JSON lines."""

    what = "every line must be one JSON object"

    def __init__(self, file: File, options: Options) -> None:
        self._file, self._options = file, options

    @cached_property
    def _encoding(self) -> str:
        with self._file.opened() as stream:
            return encoding_of(self._file, stream.read(SAMPLE), self._options.encoding)

    @property
    def guesses(self) -> Sequence[Assumption]:
        """The encoding, if it is not UTF-8."""
        if self._options.encoding is not None or self._encoding.startswith("utf-8"):
            return []
        return [Assumption(f"as {title_of(self._encoding)}", "--encoding")]

    def records(self, wanted: Wanted) -> Iterator[Record]:
        """One record a line."""
        guessed = self._file.live and self._options.format is None
        for number, line in self._numbered():
            also = OTHER if guessed else ""
            guessed = False  # a line was JSON, so the others should be
            yield decode(self._file, number, line, self.what + also)

    def lines(self) -> Iterator[bytes]:
        """The lines with a record, in UTF-8."""
        return (line for _, line in self._numbered())

    def record_of(self, line: bytes) -> Record:
        """The record of a line that is known to have one."""
        return decode(self._file, 1, line, self.what)

    def _numbered(self) -> Iterator[tuple[int, bytes]]:
        for number, line in enumerate(self._lines(), 1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")  # the byte order mark
            if line and not line.isspace():
                yield number, line

    def _lines(self) -> Iterator[bytes]:
        """The lines in UTF-8."""
        if self._encoding.startswith("utf-8"):
            with self._file.opened() as stream:
                yield from stream
        else:
            with text_of(self._file, self._encoding, "\n") as text:
                yield from (line.encode() for line in text)


FORMAT = Format(
    name="jsonl",
    title="JSON lines",
    suffixes=(".jsonl", ".ndjson"),
    options=frozenset({"encoding"}),
    reader=JsonlReader,
)
