"""The codecs of Kafka's record batches: which can be read here, and decompression.

kafka-python needs a library for each codec, and notices a missing one only at the first batch. The
default installation includes all of them.

Rule: decompression has a bound. The broker bounds only the compressed size, and a batch of 1 MB may
decompress to 1 GB.
"""

from __future__ import annotations

import gzip
import re
import struct
from collections.abc import Callable, Iterator
from importlib import import_module
from io import BytesIO
from typing import Any

from kafka import codec
from kafka.errors import CorruptRecordError, UnsupportedCodecError

__all__ = ["CODECS", "UnpackedSizeError", "lacking", "remedy", "unpacked"]

_LIBRARIES = {
    "snappy": ("python-snappy", codec.has_snappy),
    "lz4": ("lz4", codec.has_lz4),
    "zstd": ("zstandard", codec.has_zstd),
}
CODECS = ("gzip", *_LIBRARIES)


def lacking() -> dict[str, str]:
    """Codecs that cannot be read here, with the package to install."""
    return {name: package for name, (package, there) in _LIBRARIES.items() if not there()}


def remedy(complaint: str) -> str:
    """What is wrong and what to do, from the client's message about a codec."""
    found = re.search(r"Libraries for (\w+) compression", complaint)
    if found is None:
        return f"{complaint}; upgrade headwater, or write the topic with another codec"
    name = found[1]
    package = _LIBRARIES[name][0] if name in _LIBRARIES else name
    where = re.search(r" \((partition [^()]*)\)$", complaint)
    place = "" if where is None else f" {where[1]}"
    return (
        f"expected batches with an installed codec, got {name}{place}; "
        f"pip install {package}, then restart"
    )


class UnpackedSizeError(UnsupportedCodecError):  # type: ignore[misc]
    """A batch decompresses to more bytes than are read at once."""


def unpacked(code: int, data: bytes, most: int) -> bytes:
    """The records of a compressed batch. At most `most` bytes are decompressed.

    Parameters
    ----------
    code
        Kafka's number of the codec. Its library must be installed.

    Raises
    ------
    UnpackedSizeError
        The batch is larger.
    CorruptRecordError
        The batch is damaged although its checksum is right: it was written damaged.
    """
    try:
        made = _UNPACK[code](data, most)
    except UnsupportedCodecError:
        raise
    except Exception as error:  # each library has its own errors
        raise CorruptRecordError(f"a batch that cannot be decompressed ({error})") from None
    if len(made) > most:
        raise UnpackedSizeError(f"a batch decompresses to more than {most:,} bytes")
    return made


def _gzip(data: bytes, most: int) -> bytes:
    with gzip.GzipFile(fileobj=BytesIO(data)) as file:
        return _read(file, most)


def _read(file: Any, most: int) -> bytes:
    """The whole file, or `most` + 1 bytes of it. In pieces: a read allocates what it may return."""
    parts, left = [], most + 1
    while part := file.read(min(left, _PIECE)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _snappy(data: bytes, most: int) -> bytes:
    blocks = list(_snappy_blocks(data))
    if sum(map(_snappy_length, blocks)) > most:
        raise UnpackedSizeError(f"a batch decompresses to more than {most:,} bytes")
    return b"".join(map(import_module("snappy").decompress, blocks))


def _snappy_blocks(data: bytes) -> Iterator[bytes]:
    """The blocks of the framing of Java clients, or one block without framing."""
    if not data.startswith(_XERIAL):
        yield data
        return
    at = len(_XERIAL) + 8  # two versions
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def _snappy_length(block: bytes) -> int:
    """The decompressed size that the block declares, which the library enforces."""
    length = shift = 0
    for byte in block[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return length


def _lz4(data: bytes, most: int) -> bytes:
    frame: Any = import_module("lz4.frame").LZ4FrameDecompressor()
    parts: list[bytes] = [frame.decompress(data, max_length=_PIECE)]
    size = len(parts[0])
    while size <= most and not (frame.eof or frame.needs_input):
        parts.append(frame.decompress(b"", max_length=_PIECE))
        size += len(parts[-1])
    if size <= most and not frame.eof:
        raise CorruptRecordError("a frame without an end")
    return b"".join(parts)


def _zstd(data: bytes, most: int) -> bytes:
    reader: Any = import_module("zstandard").ZstdDecompressor()
    with reader.stream_reader(BytesIO(data), read_across_frames=True) as file:
        return _read(file, most)


_PIECE = 2**20
_XERIAL = b"\x82SNAPPY\x00"
_UNPACK: dict[int, Callable[[bytes, int], bytes]] = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}
