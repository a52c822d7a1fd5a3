"""A store of rows in a dict: the slow, obvious twin of a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stream.errors import StateError


class DictStore:
    """Keeps a copy of everything at each commit."""

    def __init__(self) -> None:
        self.now: dict[str, bytes] = {}
        self.then: dict[int, dict[str, bytes]] = {}
        self.last = 0

    @property
    def size(self) -> int:
        return sum(map(len, self.now.values()))

    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        return [self.now.get(key) for key in keys]

    def put(self, keys: Sequence[str], rows: Sequence[bytes]) -> None:
        self.now.update(zip(keys, rows, strict=True))

    def rows(self) -> Iterator[tuple[str, bytes]]:
        yield from reversed(self.now.items())

    def commit(self) -> Mapping[str, Any]:
        self.last += 1
        self.then[self.last] = dict(self.now)
        return {"version": self.last}

    def restore(self, point: Mapping[str, Any] | None) -> None:
        at = 0 if point is None else point["version"]
        if at and at not in self.then:
            raise StateError(f"no version {at}")
        self.now = dict(self.then.get(at, {}))
        self.then = {v: rows for v, rows in self.then.items() if v <= at}
