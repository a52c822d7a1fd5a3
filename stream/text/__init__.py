"""Text as counts of hashed tokens: the same text has the same buckets on every machine."""

from stream.text.hashing import BUCKETS, MAX_TOKENS, bucket, encode
from stream.text.tokens import tokens

__all__ = ["BUCKETS", "MAX_TOKENS", "bucket", "encode", "tokens"]
