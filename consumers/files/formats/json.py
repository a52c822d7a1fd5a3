"""A JSON array of objects, read object by object. Also JSON lines, which often have this suffix."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TextIO

from consumers.base.errors import ConfigError
from consumers.files.documents import decode
from consumers.files.encoding import SAMPLE, text_of
from consumers.files.file import File, shortened
from consumers.files.format import Format, Record, Wanted
from consumers.files.formats.jsonl import JsonlReader

__all__ = ["FORMAT", "JsonReader"]

CHUNK = 1 << 16  # characters that are read at once
LONGEST_OBJECT = 1 << 24  # characters; records have at most 1 MiB
WHAT = "the file must be an array of JSON objects, or one object a line"

_scan = json.JSONDecoder().raw_decode
_SPACE = " \t\r\n"


class JsonReader(JsonlReader):
    """Reads an array of objects, or one object a line."""

    what = WHAT

    def records(self, wanted: Wanted) -> Iterator[Record]:
        """One record an object."""
        if self._file.live and not self._begins_array():
            yield from super().records(wanted)
            return
        with text_of(self._file, self._encoding, "\n") as text:
            array = _Array(self._file, text)
            if array.next_character() == "[":
                yield from array.records()
                return
        yield from super().records(wanted)

    def _begins_array(self) -> bool:
        """Whether the first bytes are those of an array; reads nothing else of a pipe."""
        with self._file.opened() as stream:
            text = stream.read(SAMPLE).decode(self._encoding, "replace")
        return text.lstrip(_SPACE + "\ufeff").startswith("[")


class _Array:
    """The objects of an array, in a window over the text."""

    def __init__(self, file: File, text: TextIO) -> None:
        self._file, self._text = file, text
        self._window, self._at, self._line = "", 0, 1

    def next_character(self) -> str:
        """The next character that is no space, "" at the end."""
        while True:
            while self._at < len(self._window) and self._window[self._at] in _SPACE + "\ufeff":
                self._line += self._window[self._at] == "\n"
                self._at += 1
            if self._at < len(self._window):
                return self._window[self._at]
            if not self._read(CHUNK):
                return ""

    def records(self) -> Iterator[Record]:
        """The records; the next character is the one that begins the array."""
        self._at += 1
        if self.next_character() == "]":
            self._at += 1
        else:
            comma = True
            while comma:
                yield self._object()
                comma = self._separated()
        if self.next_character():
            raise self._wrong("something comes after the array")

    def _object(self) -> Record:
        character = self.next_character()
        if not character:
            raise self._wrong("the array has no end")
        if character != "{":
            self._read(100)
            rest = shortened(self._window[self._at : self._at + 100])
            raise self._wrong(f"expected an object, got {rest}")
        end = self._end()
        text = self._window[self._at : end]
        record = decode(self._file, self._line, text.encode(), WHAT)
        self._line += text.count("\n")
        self._at = end
        return record

    def _end(self) -> int:
        """The end of the object that begins here, in the window."""
        while True:
            try:
                return _scan(self._window, self._at)[1]
            except RecursionError:
                raise ConfigError(
                    f"{self._file}: line {self._line} is nested too deeply; flatten it"
                ) from None
            except json.JSONDecodeError:
                held = len(self._window) - self._at
                if held < LONGEST_OBJECT and self._read(max(CHUNK, held)):
                    continue
                if held >= LONGEST_OBJECT:
                    raise self._wrong(
                        f"an object has more than {LONGEST_OBJECT:,} characters"
                    ) from None
                # It is bad, or has no end: the slow decoder says why.
                return len(self._window)

    def _separated(self) -> bool:
        """Whether a comma follows, and another object; otherwise the array ends here."""
        character = self.next_character()
        self._at += 1
        if character == ",":
            return True
        if character != "]":
            self._at -= bool(character)
            raise self._wrong(
                f"expected a comma, got {character}" if character else "the array has no end"
            )
        return False

    def _read(self, n: int) -> bool:
        """Read more text; False at its end. Of a pipe, lines up to the end of an object."""
        more = "" if self._file.live else self._text.read(n)
        if self._file.live:
            while (line := self._text.readline()) and "}" not in line:
                more += line
            more += line
        self._window, self._at = self._window[self._at :] + more, 0
        return bool(more)

    def _wrong(self, why: str) -> ConfigError:
        return ConfigError(f"{self._file}: line {self._line}: {why}; {WHAT}")


FORMAT = Format(
    name="json",
    title="JSON",
    suffixes=(".json",),
    options=frozenset({"encoding"}),
    reader=JsonReader,
)
