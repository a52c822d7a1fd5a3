"""Transformers of river for records in which a field may be missing.

Rule: each is the class of river with the same name, except for a field that the record does not
have. river raises a KeyError there, and the whole record would not be learned.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from river import compose, feature_extraction

__all__ = ["TFIDF", "BagOfWords", "Select"]


class Select(compose.Select):
    """Keep some fields, of those that the record has.

    Parameters
    ----------
    keys
        Names of the fields.

    Notes
    -----
    The fields keep their order. river's class returns them in the order of a set, which differs
    from process to process, and with it the last bits of a sum over the fields.

    Examples
    --------
    >>> Select("amount", "age", "country").transform_one({"amount": 5.0, "id": 7, "country": "FR"})
    {'amount': 5.0, 'country': 'FR'}
    """

    def transform_one(self, x: dict[Hashable, Any]) -> dict[Hashable, Any]:
        return {name: value for name, value in x.items() if name in self.keys}


class BagOfWords(feature_extraction.BagOfWords):
    """Count the tokens of a text; see river's `feature_extraction.BagOfWords` for its parameters.

    Examples
    --------
    >>> words = BagOfWords(on="body")
    >>> words.transform_one({"body": "Buy now, buy here"}), words.transform_one({})
    ({'buy': 2, 'now': 1, 'here': 1}, {})
    """

    def process_text(self, x: Any) -> Iterable[Any]:
        found: Iterable[Any] = super().process_text(x) if _has_text(self.on, x) else ()  # type: ignore[no-untyped-call]
        return found


class TFIDF(feature_extraction.TFIDF):
    """Weigh tokens by how rare they are; see river's `feature_extraction.TFIDF`.

    A record without the text is not counted as a document.

    Examples
    --------
    >>> words = TFIDF(on="body", normalize=False)
    >>> words.learn_one({"body": "buy now"})
    >>> words.learn_one({})
    >>> words.n, words.transform_one({})
    (1, {})
    """

    def process_text(self, x: Any) -> Iterable[Any]:
        found: Iterable[Any] = super().process_text(x) if _has_text(self.on, x) else ()  # type: ignore[no-untyped-call]
        return found

    def learn_one(self, x: Any) -> None:
        if _has_text(self.on, x):
            super().learn_one(x)  # type: ignore[no-untyped-call]


def _has_text(on: str | None, x: Any) -> bool:
    return on is None or on in x
