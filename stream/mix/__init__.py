"""One model over many shards: each learns its own records and predicts with what all learned."""

from stream.mix.learners import (
    mix,
    mixing,
    mixing_parts,
    peers_of,
    statistics,
    unmixed,
    unmixed_fingerprint,
)
from stream.mix.mixed import MixedLearner

__all__ = [
    "MixedLearner",
    "mix",
    "mixing",
    "mixing_parts",
    "peers_of",
    "statistics",
    "unmixed",
    "unmixed_fingerprint",
]
