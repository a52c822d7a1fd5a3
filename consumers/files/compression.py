"""How files are compressed: one entry each, by the end of the name or the first bytes.

Rule: a file that was cut is an error, never an early end.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

__all__ = ["COMPRESSIONS", "Compression", "by_content", "by_suffix"]

ZSTD_CHUNK = 4096  # bytes that are decompressed at once: 4 KiB are at most 128 MiB of text


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
    open
        The decompressed bytes of an open file.
    errors
        What it raises if the file is damaged.
    """

    name: str
    suffix: str
    magic: bytes
    open: Callable[[BinaryIO], BinaryIO]
    errors: tuple[type[Exception], ...]


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


def _gzip(file: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, gzip.GzipFile(fileobj=file, mode="rb"))


def _bz2(file: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, bz2.BZ2File(file))


def _xz(file: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, lzma.LZMAFile(file))


def _zstd(file: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_Zstd(file), 1 << 17))


class _Zstd(io.RawIOBase):
    """Reads the frames of a zstd file, one after the other.

    The reader of the library ends silently where a file was cut.
    """

    def __init__(self, file: BinaryIO) -> None:
        import zstandard

        self._file = file
        self._frame: Any = None
        self._new = zstandard.ZstdDecompressor().decompressobj
        self._out = memoryview(b"")
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        from zstandard import ZstdError

        while not self._out:
            chunk = self._rest or self._file.read(ZSTD_CHUNK)
            if not chunk:
                if self._frame is not None:
                    raise EOFError("it ends within a frame")
                return 0
            frame = self._frame or self._new()
            try:
                self._out = memoryview(frame.decompress(chunk))
            except ZstdError as error:
                raise EOFError(str(error).removeprefix("zstd decompressor error: ")) from None
            self._rest = frame.unused_data if frame.eof else b""
            self._frame = None if frame.eof else frame
        n = min(len(buffer), len(self._out))
        buffer[:n], self._out = self._out[:n], self._out[n:]
        return n


_ERRORS: tuple[type[Exception], ...] = (EOFError, zlib.error, lzma.LZMAError)

COMPRESSIONS = (
    Compression("gzip", ".gz", b"\x1f\x8b", _gzip, (*_ERRORS, gzip.BadGzipFile)),
    Compression("bzip2", ".bz2", b"BZh", _bz2, (*_ERRORS, OSError)),
    Compression("xz", ".xz", b"\xfd7zXZ\0", _xz, _ERRORS),
    Compression("zstd", ".zst", b"\x28\xb5\x2f\xfd", _zstd, _ERRORS),
)
