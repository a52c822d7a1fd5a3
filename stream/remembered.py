"""remembered: keep what a function returned for texts that come again.

Rule: a cache is bounded in bytes and not only in entries, because the texts of records have any
length. A mail may have a link, or the name of a header, of a megabyte. So long texts are not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

__all__ = ["LONGEST", "remembered"]

LONGEST = 500  # characters

Function = TypeVar("Function", bound=Callable[..., Any])


def remembered(entries: int) -> Callable[[Function], Function]:
    """Decorator of functions of a text, which is their first argument, and perhaps of more.

    Examples
    --------
    >>> calls = []
    >>> @remembered(10)
    ... def size(text):
    ...     calls.append(len(text))
    ...     return len(text)
    >>> [size("a" * n) for n in (1, 1, LONGEST + 1, LONGEST + 1)]
    [1, 1, 501, 501]
    >>> calls
    [1, 501, 501]
    """

    def decorate(function: Function) -> Function:
        kept = lru_cache(maxsize=entries)(function)

        @wraps(function)
        def call(text: Any, *more: Any) -> Any:
            return (kept if len(text) <= LONGEST else function)(text, *more)

        return cast("Function", call)

    return decorate
