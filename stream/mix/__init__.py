"""One model over many shards: each learns its own records and predicts with what all learned."""

from stream.mix.mixed import (
    MixedLearner,
    byte_parts,
    mix,
    mixing,
    mixing_parts,
    peers_of,
    statistics,
    unmixed,
    unmixed_fingerprint,
)

__all__ = [
    "MixedLearner",
    "byte_parts",
    "mix",
    "mixing",
    "mixing_parts",
    "peers_of",
    "statistics",
    "unmixed",
    "unmixed_fingerprint",
]
