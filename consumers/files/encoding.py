"""In which encoding a text file is, by its first MiB.

Rule: only what is likely is guessed. UTF-8 is certain where bytes above 127 form it. Windows-1252,
which includes Latin-1, is likely where such bytes stand alone between letters. Whatever has many of
them in a row is another encoding, and must be named by the user.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, TextIO, cast

from consumers.base.errors import ConfigError
from consumers.files.file import File, of_a_program

__all__ = ["SAMPLE", "checked_encoding", "encoding_of", "text_of", "title_of"]

SAMPLE = 1 << 20  # bytes that are looked at
CHUNK = 1 << 16  # bytes that are decoded at once
IN_A_ROW = 3  # western words seldom have as many letters with accents in a row
OFTEN = 0.1  # share of such rows in a text of another alphabet
WESTERN = "cp1252"

_MARKS = (  # the one of UTF-32 begins with the one of UTF-16
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_TITLES = {WESTERN: "Windows-1252 (Latin-1)"}
_WELL_FORMED = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
_HIGH = re.compile(rb"[\x80-\xff]+")
_UNDEFINED = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")  # in Windows-1252


def encoding_of(file: File, sample: bytes, given: str | None = None) -> str:
    """The codec of a text file, by its first bytes.

    Parameters
    ----------
    sample
        Its first MiB, or all of it.
    given
        The choice of the user.

    Raises
    ------
    ConfigError
        It is no text, or its encoding cannot be guessed.

    Examples
    --------
    >>> from pathlib import Path
    >>> from consumers.files.file import local_file
    >>> file = local_file(Path("visits.csv"))
    >>> [encoding_of(file, text) for text in (b"x", "été".encode(), "été".encode("latin-1"))]
    ['utf-8', 'utf-8', 'cp1252']
    """
    if given is not None:
        # The mark at the start of a file is no part of its first name.
        return "utf-8-sig" if codecs.lookup(given).name == "utf-8" else given
    for mark, name in _MARKS:
        if sample.startswith(mark):
            return name
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=len(sample) < SAMPLE)
    except UnicodeDecodeError:
        pass
    else:
        _check_zeros(file, sample)
        return "utf-8"
    rest, good = _WELL_FORMED.subn(b"", sample)
    if good >= len(_HIGH.findall(rest)):
        return "utf-8"  # damaged: the reader names the place
    _check_western(file, sample)
    return WESTERN


def _check_western(file: File, sample: bytes) -> None:
    rows = _HIGH.findall(sample)
    long = sum(len(row) >= IN_A_ROW for row in rows)
    _check_zeros(file, sample)
    if long > OFTEN * len(rows) or _UNDEFINED.search(sample):
        at = next(iter(_HIGH.finditer(sample))).start()
        where = _place(sample[:at].count(b"\n"), at - sample.rfind(b"\n", 0, at) - 1)
        raise ConfigError(
            f"{file}: {where}: 0x{sample[at]:02x} is neither UTF-8 nor Windows-1252; "
            + _name("cp1251, shift_jis or gb18030")
        )


def _check_zeros(file: File, sample: bytes) -> None:
    if b"\0" in sample:
        do = of_a_program(sample) or _name("utf-16-le")
        raise ConfigError(f"{file}: has zero bytes, so it is no text; {do}")


def _name(examples: str) -> str:
    return f"name its encoding, for example --encoding {examples}"


def checked_encoding(name: str) -> str:
    """An encoding that a user named.

    Raises
    ------
    ConfigError
        Python has no such encoding.

    Examples
    --------
    >>> checked_encoding("latin1")
    'latin1'
    """
    try:
        "".encode(name)  # fails also for codecs that are no text, such as base64
    except (LookupError, ValueError):
        raise ConfigError(
            f"expected --encoding as a name such as utf-8, cp1252 or utf-16, got {name!r}"
        ) from None
    return name


def title_of(codec: str) -> str:
    """The name of an encoding, as people write it.

    Examples
    --------
    >>> title_of("utf-8"), title_of("cp1252")
    ('UTF-8', 'Windows-1252 (Latin-1)')
    """
    return _TITLES.get(codec, codec.removesuffix("-sig").upper())


@contextmanager
def text_of(file: File, codec: str, newline: str) -> Iterator[TextIO]:
    """The decompressed text of a file.

    Parameters
    ----------
    newline
        See `io.TextIOWrapper`.

    Raises
    ------
    ConfigError
        A byte is not in this encoding; the message has its place.
    """
    with file.opened() as stream:
        source = cast(BinaryIO, _Sound(file, stream, codec)) if file.live else stream
        text = io.TextIOWrapper(source, encoding=codec, newline=newline)
        try:
            yield text
        except UnicodeDecodeError:
            raise _first_wrong(file, codec) from None
        finally:
            text.detach()


def _first_wrong(file: File, codec: str) -> ConfigError:
    """The error of a file that is not in this encoding: the first place where it is not.

    The file is read again, because readers decode many lines at once.
    """
    checked = _Checked(codec)
    with file.opened() as stream:
        while chunk := stream.read(CHUNK):
            checked.add(chunk)
            if checked.wrong is not None:
                break
        checked.add(b"")
    return checked.error(file)


class _Checked:
    """Finds the first byte that is not in an encoding, and its place.

    Attributes
    ----------
    wrong
        The byte; None: all were right.
    """

    def __init__(self, codec: str) -> None:
        self._codec = codec
        # The place of an error in the decoder of UTF-8 with a mark depends on the mark.
        plain = codec.removesuffix("-sig")
        self._decoder = codecs.getincrementaldecoder(plain)()
        self._width = {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(plain, plain)
        self._lines = self._since = 0  # bytes since the last line break
        self.wrong: int | None = None

    def add(self, chunk: bytes) -> bytes:
        """Check the next bytes, empty ones at the end. Returns those before the wrong one."""
        if self.wrong is not None:
            return b""
        before = self._decoder.getstate()
        try:
            text = self._decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            self.wrong = error.object[error.start]
            self._decoder.setstate(before)
            chunk = chunk[: max(error.start - len(before[0]), 0)]
            text = self._decoder.decode(chunk)
        if not self._lines + self._since:
            text = text.removeprefix("\ufeff")
        _, newline, tail = text.rpartition("\n")
        self._lines += text.count("\n")
        self._since = len(tail.encode(self._width)) + (0 if newline else self._since)
        return chunk

    def error(self, file: File) -> ConfigError:
        """The error about the wrong byte."""
        codec = self._codec
        other = "cp1252" if codec.startswith("utf-8") else "utf-8"
        return ConfigError(
            f"{file}: {_place(self._lines, self._since)}: 0x{self.wrong or 0:02x} is not "
            f"{title_of(codec)}; correct the file, or name its encoding, for example "
            f"--encoding {other}"
        )


class _Sound(io.BufferedIOBase):
    """A pipe up to the first byte that is not in its encoding: the lines before are read first."""

    def __init__(self, file: File, stream: BinaryIO, codec: str) -> None:
        self._file, self._stream, self._checked = file, stream, _Checked(codec)

    def readable(self) -> bool:
        return True

    def read1(self, size: int = -1, /) -> bytes:
        """What is there; raises ConfigError at a wrong byte."""
        if self._checked.wrong is None:
            chunk = self._stream.read(CHUNK if size < 0 else size)
            good = self._checked.add(chunk)
            if good or self._checked.wrong is None:
                return good
        raise self._checked.error(self._file)

    def read(self, size: int | None = -1, /) -> bytes:
        """What is there, or up to the end."""
        if size is not None and size >= 0:
            return self.read1(size)
        return b"".join(iter(self.read1, b""))


def _place(line: int, byte: int) -> str:
    return f"line {line + 1}, byte {byte + 1}"
