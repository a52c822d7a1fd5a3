"""The schemas that a shard knows, by the id of their registry.

Rule: a shard decodes with the schemas that its journal gave it, and with no other. So a replay
decodes as the service did, also without a registry. An id that the book does not have is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from consumers.base.converter import Converter

__all__ = ["LARGEST_SCHEMA", "MOST_SCHEMAS", "SchemaBook", "StoredSchema"]

MOST_SCHEMAS = 200
MOST_BYTES = 8 * 2**20  # of all of them
LARGEST_SCHEMA = 256 * 1024  # bytes with its references: a journal record must fit its topic


class StoredSchema(
    msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A registered schema with all that it refers to, as it is journaled.

    Parameters
    ----------
    type
        What kind of schema it is, as the registry names it.
    text
        The schema.
    references
        Name and text of each schema it refers to; each stands after those that it needs itself.
    error
        Why it cannot be used; "" if it can.
    """

    type: str
    text: str
    references: tuple[tuple[str, str], ...] = ()
    error: str = ""

    @property
    def nbytes(self) -> int:
        """Its size in characters."""
        return len(self.text) + len(self.error) + sum(len(n) + len(t) for n, t in self.references)


_stored = Converter(StoredSchema)


class SchemaBook:
    """Schemas by id: at most 200, and 8 MiB. A further one replaces the oldest.

    Examples
    --------
    >>> book = SchemaBook()
    >>> book.add(7, StoredSchema("AVRO", '"string"'))
    >>> 7 in book, 8 in book
    (True, False)
    """

    def __init__(self) -> None:
        self._known: dict[int, StoredSchema] = {}
        self._bytes = 0
        self.replaced = 0

    def __len__(self) -> int:
        return len(self._known)

    @property
    def overflow(self) -> dict[str, int]:
        """How many schemas were replaced by newer ones; empty before the first schema."""
        return {"schemas": self.replaced} if self._known else {}

    def __contains__(self, id_: int) -> bool:
        return id_ in self._known

    def __iter__(self) -> Iterator[tuple[int, StoredSchema]]:
        yield from self._known.items()

    def get(self, id_: int) -> StoredSchema | None:
        """The schema with this id; None if it is unknown."""
        return self._known.get(id_)

    def add(self, id_: int, schema: StoredSchema) -> None:
        """Add a schema."""
        self._drop(id_)
        self._known[id_] = schema
        self._bytes += schema.nbytes
        while len(self._known) > MOST_SCHEMAS or self._bytes > MOST_BYTES:
            self._drop(next(iter(self._known)))
            self.replaced += 1

    def to_header(self) -> dict[str, Any]:
        """The content as JSON values, for the header of a state."""
        known = [[id_, msgspec.to_builtins(schema)] for id_, schema in self]
        return {"known": known, "replaced": self.replaced}

    def load(self, header: Mapping[str, Any]) -> None:
        """Load what `to_header` returned."""
        self._known, self._bytes = {}, 0
        for id_, schema in header["known"]:
            self.add(id_, _stored(schema))
        self.replaced = header["replaced"]

    def _drop(self, id_: int) -> None:
        gone = self._known.pop(id_, None)
        self._bytes -= 0 if gone is None else gone.nbytes
