"""A batch is unpacked as the client unpacks it, up to a bound that holds while it is unpacked."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import codec
from kafka.errors import CorruptRecordError

from consumers.transports.kafka.codecs import UnpackedSizeError, unpacked

Packed = Callable[[bytes], bytes]

# Name: Kafka's number, what packs, and the client's own way to unpack: the slow, unbounded twin.
CODECS: dict[str, tuple[int, Packed, Packed]] = {
    "gzip": (1, codec.gzip_encode, codec.gzip_decode),
    "snappy": (2, lambda b: codec.snappy_encode(b, xerial_compatible=False), codec.snappy_decode),
    "snappy of Java": (2, codec.snappy_encode, codec.snappy_decode),
    "lz4": (3, codec.lz4_encode, codec.lz4_decode),
    "zstd": (4, codec.zstd_encode, codec.zstd_decode),
}
MIB = 2**20

texts = st.one_of(
    st.binary(min_size=1, max_size=300),  # a batch has a record
    st.builds(lambda unit, n: unit * n, st.binary(min_size=1, max_size=5), st.integers(1, 60_000)),
)


@pytest.mark.parametrize("name", CODECS)
@given(data=texts, room=st.integers(-3, 3))
def test_unpacks_as_the_client_does_or_refuses(name, data, room) -> None:
    """At the bound it is given back, one byte above it is refused."""
    number, pack, unpack = CODECS[name]
    packed, most = pack(data), len(data) + room
    assert bytes(unpack(packed)) == data

    if room >= 0:
        assert unpacked(number, packed, most) == data
    elif most >= 0:
        with pytest.raises(UnpackedSizeError, match=f"more than {most:,} bytes"):
            unpacked(number, packed, most)


@pytest.mark.parametrize("name", CODECS)
@given(data=texts, cut=st.floats(0, 1), flip=st.integers(0, 255))
def test_damaged_batch_ends_in_one_error(name, data, cut, flip) -> None:
    """A producer may write anything under a good checksum; no library's own error comes out."""
    number, pack, _ = CODECS[name]
    packed = bytearray(pack(data))
    at = int(cut * (len(packed) - 1))
    packed[at] ^= flip

    for damaged in (bytes(packed), bytes(packed[:at])):
        try:
            made = unpacked(number, damaged, MIB)
        except (CorruptRecordError, UnpackedSizeError):
            continue
        assert len(made) <= MIB


@pytest.mark.parametrize("name", CODECS)
def test_bomb_takes_no_more_than_its_bound(name) -> None:
    """64 MiB in a few kilobytes: refused before they are made."""
    number, pack, _ = CODECS[name]
    packed = pack(bytes(64 * MIB))

    tracemalloc.start()
    with pytest.raises(UnpackedSizeError):
        unpacked(number, packed, MIB)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 8 * MIB + len(packed)
