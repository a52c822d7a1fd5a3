"""Which codecs of Kafka's record batches can be read here, and what to install for the others.

kafka-python takes each codec from a library of its own, and notices at the first batch that one is
missing. The default installation brings all of them.
"""

from __future__ import annotations

import re

from kafka import codec

__all__ = ["CODECS", "lacking", "remedy"]

_LIBRARIES = {
    "snappy": ("python-snappy", codec.has_snappy),
    "lz4": ("lz4", codec.has_lz4),
    "zstd": ("zstandard", codec.has_zstd),
}
CODECS = ("gzip", *_LIBRARIES)


def lacking() -> dict[str, str]:
    """Codecs that cannot be read here, each with the package to install."""
    return {name: package for name, (package, there) in _LIBRARIES.items() if not there()}


def remedy(complaint: str) -> str:
    """What is wrong and what to do, by the client's complaint of a codec."""
    found = re.search(r"Libraries for (\w+) compression", complaint)
    if found is None:
        return f"{complaint}; upgrade headwater, or have the topic written with another codec"
    name = found[1]
    package = _LIBRARIES[name][0] if name in _LIBRARIES else name
    where = re.search(r" \((partition .*)\)$", complaint)
    place = "" if where is None else f" {where[1]}"
    return (
        f"expected batches of a codec that is installed, got {name}{place}; "
        f"pip install {package}, then restart"
    )
