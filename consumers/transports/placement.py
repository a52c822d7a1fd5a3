"""Choose the partition of a record, in the same way for every log except Kafka itself.

A key decides as in Kafka's own clients, so that a feed keeps its records together when it moves to
another transport. Records without a key go to the partitions in turn. The hash is implemented here,
"""

from __future__ import annotations

from struct import Struct

from consumers.base.errors import TransportError
from consumers.base.records import Outgoing

__all__ = ["Placement", "murmur2", "no_such_partition", "no_such_topic", "partition_of"]

_WORD = Struct("<I")
_MIX = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """The 32-bit hash of Kafka's clients (`org.apache.kafka.common.utils.Utils.murmur2`).

    Examples
    --------
    >>> murmur2(b"foobar") - 2**32  # Kafka's is signed
    -790332482
    """
    whole = len(key) & ~3
    hashed = 0x9747B28C ^ len(key)
    for (word,) in _WORD.iter_unpack(key[:whole]):
        word = word * _MIX & _MASK
        hashed = (hashed * _MIX ^ (word ^ word >> 24) * _MIX) & _MASK
    if whole < len(key):
        hashed = (hashed ^ int.from_bytes(key[whole:], "little")) * _MIX & _MASK
    hashed = (hashed ^ hashed >> 13) * _MIX & _MASK
    return hashed ^ hashed >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key, as Kafka's clients choose it."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class Placement:
    """The choice of partitions by one writer.

    Examples
    --------
    >>> placement = Placement()
    >>> keyed = Outgoing("flowers", key=b"7", value=b"{}")
    >>> placement.choose(keyed, 3) == placement.choose(keyed, 3)
    True
    >>> [placement.choose(Outgoing("flowers", None, b"{}"), 3) for _ in range(4)]
    [0, 1, 2, 0]
    """

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}

    def choose(self, record: Outgoing, partitions: int) -> int:
        """The partition of a record in a topic that has `partitions` of them."""
        number = record.partition
        if number is not None:
            if not 0 <= number < partitions:
                raise no_such_partition(record.topic, number, partitions)
            return number
        if partitions == 1:
            return 0
        if record.key is not None:
            return partition_of(record.key, partitions)
        turn = self._turns.get(record.topic, 0)
        self._turns[record.topic] = turn + 1
        return turn % partitions


def no_such_topic(topic: str, url: str) -> TransportError:
    """The error for a topic that does not exist."""
    return TransportError(
        f"expected topic {topic!r} in {url}, but it does not exist: "
        "create it with `headwater check CONFIG --create`"
    )


def no_such_partition(topic: str, number: int, partitions: int) -> TransportError:
    """The error for a partition that does not exist."""
    return TransportError(
        f"expected a partition from 0 to {partitions - 1} of topic {topic!r}, got {number}: "
        "use one of these"
    )
