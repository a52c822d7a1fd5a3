"""Text as counts of hashed tokens. The same text has the same buckets on every machine."""

from stream.data.schema import BUCKETS
from stream.text.bags import (
    LEARNED_BUCKETS,
    MAX_TOKENS,
    HashedTexts,
    bucket,
    encode,
    encode_many,
    tokens,
)

__all__ = [
    "BUCKETS",
    "LEARNED_BUCKETS",
    "MAX_TOKENS",
    "HashedTexts",
    "bucket",
    "encode",
    "encode_many",
    "tokens",
]
