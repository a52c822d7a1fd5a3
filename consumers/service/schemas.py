"""The schemas of a batch are in the journal before the batch is processed.

1. collect   the ids in the headers of the batch that the shard does not know
2. ask       the registry for each; while it does not answer, the batch waits
3. journal   what it returned, as one or more `SchemasRecord`
4. process   the batch; an id that the shard still does not know is a dead letter

So decoding depends on the journal and the records only. A replay asks nobody.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from consumers.base.errors import RegistryError
from consumers.base.records import Batch
from consumers.codecs.format import schema_ids
from consumers.codecs.registry import wire_format
from consumers.codecs.schemas import LARGEST_SCHEMA, StoredSchema
from consumers.config import Config
from consumers.journal.records import SchemasRecord
from consumers.schemas.client import SchemaRegistry
from consumers.service.commit import amend
from consumers.service.live import LiveShard, Sources, apply_schemas
from consumers.transports.protocol import Owner

__all__ = ["SchemaSupply", "registry_of"]

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0  # seconds between two attempts
ASK_AGAIN_SECONDS = 60.0  # for an id that the registry did not know
MOST_UNKNOWN = 100_000  # ids that are remembered as unknown


def registry_of(config: Config) -> SchemaRegistry | None:
    """The registry of the configuration; None if its format has no schemas."""
    wire = wire_format(config.input.format)
    return SchemaRegistry(wire, config.registry) if wire.schema_type else None


class SchemaSupply:
    """Gives a shard the schemas of the batches before it processes them.

    Parameters
    ----------
    registry
        The registry.
    pause
        Waits this many seconds. True if the service stops meanwhile.
    waiting
        Gets why the registry does not answer, and "" once it does.
    patience
        How many attempts fail before the error is raised; None: no end.
    clock
        Seconds that never go back.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        pause: Callable[[float], bool],
        waiting: Callable[[str], None],
        *,
        patience: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry, self._pause, self._waiting = registry, pause, waiting
        self._patience, self._clock = patience, clock
        self._unknown: OrderedDict[int, float] = OrderedDict()  # id to when it was asked for

    def before(self, batch: Batch, live: LiveShard, owner: Owner, found: Sources, now: int) -> bool:
        """Journal the schemas of a batch. False if the service stops instead.

        Raises
        ------
        RegistryError
            The registry does not answer, and patience is over.
        FencedError, TransportError
            From the owner.
        """
        due: list[tuple[int, StoredSchema]] = []
        size = 0
        for id_ in schema_ids(batch.values):
            if id_ in live.shard.schemas or self._is_unknown(id_):
                continue
            asked = self._asked(id_, live, owner)
            if asked is None:
                return False
            for schema in asked:
                if due and size + schema.nbytes > LARGEST_SCHEMA:
                    _write(due, live, owner, found, now)
                    due, size = [], 0
                due.append((id_, schema))
                size += schema.nbytes
        if due:
            _write(due, live, owner, found, now)
        return True

    def _is_unknown(self, id_: int) -> bool:
        asked = self._unknown.get(id_)
        return asked is not None and self._clock() - asked < ASK_AGAIN_SECONDS

    def _asked(self, id_: int, live: LiveShard, owner: Owner) -> list[StoredSchema] | None:
        """The schema, or nothing if the registry has none; None if the service stops."""
        failures = 0
        while True:
            try:
                schema = self._registry.schema(id_)
                break
            except RegistryError as error:
                failures += 1
                if failures == self._patience:
                    raise
                self._waiting(str(error))
            if self._pause(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures - 1, 10))):
                return None
            owner.confirm(live.shard.positions)
        if failures:
            self._waiting("")
        if schema is not None:
            return [schema]
        self._unknown[id_] = self._clock()
        self._unknown.move_to_end(id_)
        if len(self._unknown) > MOST_UNKNOWN:
            self._unknown.popitem(last=False)
        return []


def _write(
    schemas: list[tuple[int, StoredSchema]],
    live: LiveShard,
    owner: Owner,
    found: Sources,
    now: int,
) -> None:
    """Commit a journal record with these schemas; the shard has them afterwards."""
    entry = SchemasRecord(**live.heading(now), schemas=schemas)
    amend(owner, live, found.journal, entry)
    apply_schemas(entry, live)
