"""Every way a snapshot on a disk can be wrong, as bytes: shared by the short and the long run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from random import Random

import msgspec

from consumers.snapshots.format import MAGIC, START, from_bytes, header_size, to_bytes

__all__ = ["damages"]

PAGE = 4096


def damages(
    data: bytes, seed: int, *, flips: int, header_step: int = 1, page: int = PAGE
) -> Iterator[tuple[str, bytes]]:
    """What kind of damage, and the bytes.

    Parameters
    ----------
    flips
        How many times one to a hundred random bits are flipped.
    header_step
        Every how many bytes of the header one is flipped.
    page
        Every how many bytes it is cut.
    """
    random = Random(seed)
    for at in range(0, START + header_size(data), header_step):
        yield "one byte of the header changed", _flipped(data, [at], random)
    for _ in range(flips):
        where = random.sample(range(len(data)), random.choice((1, 1, 1, 2, 10, 100)))
        yield "random bits flipped", _flipped(data, where, random)
    for size in range(0, len(data), page):
        yield "truncated", data[:size]
        yield "zeros from there on", data[:size] + bytes(len(data) - size)
    for size in (1, len(MAGIC), START, len(data) - 32, len(data) - 1):
        yield "truncated", data[:size]
    yield "longer than it was", data + b"\0"
    yield "empty", b""
    yield "noise", random.randbytes(len(data))
    yield "of another format", _signed(MAGIC[:-1] + b"\x02" + data[len(MAGIC) : -32])
    about, state = from_bytes(data)
    for kind, changes in (
        ("of another identity", {"identity": "0" * 64}),
        ("of another position than its name", {"position": about.position + 1}),
        ("of a history that never was", {"seq": about.seq + 1}),
        ("of another clock than its entry", {"now": about.now + 1}),
    ):
        yield kind, to_bytes(msgspec.structs.replace(about, **changes), state)


def _flipped(data: bytes, where: list[int], random: Random) -> bytes:
    out = bytearray(data)
    for at in where:
        out[at] ^= random.randrange(1, 256)
    return bytes(out)


def _signed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()
