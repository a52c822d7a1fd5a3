"""The obvious twin of encoding a text: its tokens one by one, by the definition."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from unicodedata import decomposition

from stream.text import MAX_TOKENS, bucket, tokens


def slow_encode(text: str) -> list[list[int]]:
    """Buckets, rising, over their counts; -1 once where the text is cut."""
    found = list(islice(tokens(text), MAX_TOKENS + 1))
    counts = Counter(bucket(token) for token in found[:MAX_TOKENS])
    if len(found) > MAX_TOKENS:
        counts[-1] = 1
    return [sorted(counts), [counts[b] for b in sorted(counts)]]


def joining() -> set[str]:
    """Characters that stand second where Unicode makes two characters one."""
    parts = (decomposition(chr(code)).split() for code in range(0x110000))
    return {chr(int(p[1], 16)) for p in parts if len(p) == 2 and not p[0].startswith("<")}
