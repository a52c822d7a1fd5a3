"""Where the rows of keys are that are not in memory. The service gives a file, tests a dict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

__all__ = ["KeyRows", "KeyStore"]


class KeyRows(Protocol):
    """The rows of a commit, to be read only."""

    def rows(self) -> Iterator[tuple[str, bytes]]:
        """All keys with their newest rows, in any order."""

    def restore(self, point: Mapping[str, Any] | None) -> None:
        """Return to the rows of a commit; None: without any row.

        Raises
        ------
        StateError
            The rows of this commit do not exist any more, or are damaged.
        """


class KeyStore(KeyRows, Protocol):
    """One row of bytes for each key, and points to which all rows can return.

    What is put belongs to the next commit. A store that fails raises an error, and then its learner
    is unusable.
    """

    @property
    def size(self) -> int:
        """Its bytes, for people."""

    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        """The newest row of each key; None for a key without a row."""

    def put(self, keys: Sequence[str], rows: Sequence[bytes]) -> None:
        """Store the newest row of each key."""

    def commit(self) -> Mapping[str, Any]:
        """Make all rows durable. Returns a JSON mapping that names this point for `restore`."""
