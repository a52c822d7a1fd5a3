"""A bounded dictionary of tokens: exact, unlike hashing, and with names.

The code of a token is its row in a table. If a code becomes free, the last token gets it, so that
the table stays dense. Predictions and saved states must not depend on codes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data.schema import PER_NAME, Dictionary, text_bytes
from stream.text.hashing import MAX_TOKENS
from stream.text.tokens import tokens

__all__ = ["Vocabulary", "token_counts"]


class Vocabulary(Dictionary):
    """Tokens and their codes 0, 1, 2, …. It differs from `Dictionary` in `remove`.

    Examples
    --------
    >>> v = Vocabulary(3, ["free", "money", "now"])
    >>> v.remove("free")
    >>> v.codes
    {'money': 1, 'now': 0}
    """

    __slots__ = ()

    def remove(self, value: Any) -> None:
        """Forget a token. The last token gets its code. O(1)."""
        code, last = self.codes.pop(value), self.values.pop()
        self.bytes -= PER_NAME + text_bytes(value)
        if last != value:
            self.values[code] = last
            self.codes[last] = code

    def in_order(self) -> NDArray[np.int64]:
        """Codes in the order of their tokens."""
        order = sorted(range(len(self)), key=self.values.__getitem__)
        return np.array(order, dtype=np.int64)


def token_counts(texts: Iterable[str]) -> tuple[dict[str, int], int]:
    """The count of each token in the texts, and the number of texts truncated at `MAX_TOKENS`.

    Examples
    --------
    >>> token_counts(["free, free", "FREE"])
    ({'free': 3, ',': 1}, 0)
    """
    counts: Counter[str] = Counter()
    cut = 0
    for text in texts:
        stream = tokens(text)
        counts.update(islice(stream, MAX_TOKENS))
        cut += next(stream, None) is not None
    return dict(counts), cut
