"""One file: its name in messages, how it is opened, and what its bytes are after decompression.

Rule: every fault of a file is one `ConfigError` that names the file.

How files are compressed: one entry each, by the end of the name or the first bytes.

Rule: a file that was cut is an error, never an early end.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from consumers.base.errors import ConfigError

__all__ = [
    "COMPRESSIONS",
    "Compression",
    "File",
    "local_file",
    "of_a_program",
    "shortened",
]

CHUNK = 4096  # bytes that are decompressed at once: 4 KiB are at most 128 MiB of text, by zstd
GZIP = 31  # of zlib: with the header and the checksum of gzip


@dataclass(frozen=True, slots=True)
class Compression:
    """One way to compress a file.

    Parameters
    ----------
    name
        Its name in messages.
    suffix
        The end of the name of such a file.
    magic
        Its first bytes.
    frame
        Makes the decompressor of a frame.
    """

    name: str
    suffix: str
    magic: bytes
    frame: Callable[[], Any]

    def open(self, file: BinaryIO) -> BinaryIO:
        """The decompressed bytes of an open file; EOFError where it is cut or damaged."""
        return cast(BinaryIO, io.BufferedReader(_Frames(file, self.frame), 1 << 17))


def by_suffix(name: str) -> Compression | None:
    """The compression that the end of a name in lower case means.

    Examples
    --------
    >>> by_suffix("visits.csv.zst").name, by_suffix("visits.csv")
    ('zstd', None)
    """
    return next((each for each in COMPRESSIONS if name.endswith(each.suffix)), None)


def by_content(first: bytes) -> Compression | None:
    """The compression of a file that begins with these bytes."""
    return next((each for each in COMPRESSIONS if first.startswith(each.magic)), None)


class _Frames(io.RawIOBase):
    """Reads the frames of a file, one after the other. Zero bytes may follow a frame.

    The readers of the libraries end silently where a file was cut, and take what follows a frame
    for the end, also if it is a frame with a damaged begin.
    """

    def __init__(self, file: BinaryIO, new: Callable[[], Any]) -> None:
        self._file, self._new = file, new
        self._frame: Any = None
        self._out = memoryview(b"")
        self._rest = b""
        self._frames = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._out:
            chunk = self._rest or self._file.read(CHUNK)
            if not chunk:
                if self._frame is not None or not self._frames:
                    raise EOFError("it ends within a frame" if self._frames else "it is empty")
                return 0
            self._rest = b""
            if self._frame is None and self._frames:
                chunk = chunk.lstrip(b"\0")
            if chunk:
                self._decompress(chunk)
        n = min(len(buffer), len(self._out))
        buffer[:n], self._out = self._out[:n], self._out[n:]
        return n

    def _decompress(self, chunk: bytes) -> None:
        if self._frame is None:
            self._frame = self._new()
            self._frames += 1
        try:
            self._out = memoryview(self._frame.decompress(chunk))
        except Exception as error:  # each library has its own
            why = " ".join(str(error).split()).removeprefix("zstd decompressor error: ")
            raise EOFError(why) from None
        if self._frame.eof:
            self._rest, self._frame = self._frame.unused_data, None


def _zstd() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


COMPRESSIONS = (
    Compression("gzip", ".gz", b"\x1f\x8b", partial(zlib.decompressobj, GZIP)),
    Compression("bzip2", ".bz2", b"BZh", bz2.BZ2Decompressor),
    Compression("xz", ".xz", b"\xfd7zXZ\0", lzma.LZMADecompressor),
    Compression("zstd", ".zst", b"\x28\xb5\x2f\xfd", _zstd),
)


@dataclass(frozen=True, slots=True)
class File:
    """A file that can be read several times, unless it is live.

    Parameters
    ----------
    shown
        Its name in messages.
    path
        Its path or URL without a query; suffixes are read from it.
    open
        Opens its bytes as they are stored.
    failure
        Turns an error of the device into one line.
    live
        Whether it is a pipe: its records are read when they arrive, and once.
    """

    shown: str
    path: str
    open: Callable[[], BinaryIO]
    failure: Callable[[Exception], str]
    live: bool = False

    def __str__(self) -> str:
        return self.shown

    @property
    def suffix(self) -> str:
        """The suffix in lower case, without that of the compression.

        Examples
        --------
        >>> local_file(Path("visits.CSV.gz")).suffix
        '.csv'
        """
        name = PurePosixPath(self.path).name.lower()
        compression = by_suffix(name)
        name = name if compression is None else name.removesuffix(compression.suffix)
        # Not `PurePath.suffix`: the name may be the suffix alone, such as `.csv`.
        return f".{name.rpartition('.')[2]}" if "." in name else ""

    @contextmanager
    def stored(self) -> Iterator[BinaryIO]:
        """The bytes as they are stored."""
        try:
            with self.open() as file:
                yield file
        except FileNotFoundError:
            raise ConfigError(f"{self}: no such file; check the name") from None
        except ConfigError:
            raise
        except OSError as error:
            raise ConfigError(f"{self}: cannot be read ({self.failure(error)})") from None

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The decompressed bytes.

        Raises
        ------
        ConfigError
            The file is missing, unreadable or damaged.
        """
        compression = self.compression()
        with self.stored() as file:
            if compression is None:
                yield file
                return
            try:
                with compression.open(file) as inner:
                    yield inner
            except EOFError as error:
                raise ConfigError(
                    f"{self}: damaged {compression.name} file ({error}); fetch it again"
                ) from None

    def beginning(self, size: int) -> bytes:
        """The first bytes, unpacked; none of a file that cannot be read."""
        try:
            with self.opened() as stream:
                return stream.read(size)
        except ConfigError:
            return b""

    def compression(self) -> Compression | None:
        """How it is compressed, by its name, else by its first bytes."""
        named = by_suffix(self.path.lower())
        if named is not None:
            return named
        with self.stored() as file:
            found = by_content(file.read(8))
        if found is not None and self.live:
            raise ConfigError(
                f"{self}: expected text, got {found.name}; decompress it before the pipe, for "
                "example by `zcat FILE |`"
            )
        return found


def local_file(path: Path) -> File:
    """A file of this machine."""

    def failure(error: Exception) -> str:
        return str(getattr(error, "strerror", None) or error)

    return File(str(path), str(path), lambda: path.open("rb"), failure)


# How files of programs begin that are no text, each with its name and what to do.
_OTHERS = {
    b"PAR1": ("Parquet", "give --format parquet"),
    b"ARROW1": ("Arrow", "give --format arrow"),
    b"PK\x03\x04": ("a ZIP archive or an Excel workbook", "unpack it, or save the sheet as CSV"),
    b"\xd0\xcf\x11\xe0": ("an old Excel workbook", "save the sheet as CSV"),
    b"SQLite format 3\0": ("an SQLite database", "export the table as CSV"),
    b"Obj\x01": ("an Avro file", "convert it to Parquet or JSON lines"),
    b"ORC": ("an ORC file", "convert it to Parquet"),
    b"%PDF-": ("a PDF", "export the table as CSV"),
}


def of_a_program(first: bytes) -> str | None:
    """What a file is that is no text, and what to do, by its first bytes; None of another."""
    found = next((said for magic, said in _OTHERS.items() if first.startswith(magic)), None)
    return None if found is None else f"it is {found[0]}: {found[1]}"


def shortened(text: str | bytes) -> str:
    """At most 80 characters of a text, for a message.

    Examples
    --------
    >>> shortened(b" [1, 2] ")
    '[1, 2]'
    """
    shown = text.decode(errors="replace") if isinstance(text, bytes) else text
    shown = shown.strip()
    return shown if len(shown) <= 80 else shown[:79] + "…"
