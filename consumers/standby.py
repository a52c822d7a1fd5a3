"""A shard that another process runs, followed: it takes over warm. Reads only.

It applies each journal entry as it appears, output muted, and so holds the model the owner has.
What it cannot follow (inputs that are gone, a rollback behind it) costs it its warmth, no more:
recovery then begins as for any start.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from consumers.config import Config
from consumers.errors import HeadwaterError, TransportError
from consumers.history import Live, course, replay
from consumers.records import Partition
from consumers.recovery import rebuild, sources
from consumers.snapshots.store import open_store
from consumers.transports.protocol import Log

__all__ = ["Standby"]

log = logging.getLogger("headwater")

LOOK_SECONDS = 0.25
PAUSE_SECONDS = 5.0  # after what cannot be followed


class Standby:
    """Follows one shard in a thread of its own, with a log of its own.

    Parameters
    ----------
    config
        The whole configuration.
    opened
        Opens the log.
    shard
        Its number.
    """

    def __init__(self, config: Config, opened: Callable[[], Log], shard: int) -> None:
        self._config, self._opened, self._shard = config, opened, shard
        self._live: Live | None = None
        self._stop = threading.Event()
        self._abandoned = False
        self._told = ""
        self._thread = threading.Thread(target=self._run, name=f"standby-{shard}", daemon=True)
        self._thread.start()

    @property
    def seq(self) -> int | None:
        """The journal entry it has reached; None before it has rebuilt the shard."""
        live = self._live
        return None if live is None else live.seq

    def release(self) -> Live | None:
        """Stop following; the shard as far as it was followed, once a replay under way is done."""
        self._stop.set()
        self._thread.join()
        return self._live

    def close(self) -> None:
        """Stop following at once."""
        self._abandoned = True
        self.release()

    def _go_on(self, done: int, total: int) -> None:
        if self._abandoned:
            raise TransportError(f"given up with {total - done} records to replay")

    def _run(self) -> None:
        transport = self._opened()
        try:
            while not self._stop.is_set():
                try:
                    self._look(transport)
                    pause = LOOK_SECONDS
                except HeadwaterError as error:
                    self._live, pause = None, PAUSE_SECONDS
                    self._tell(str(error))
                self._stop.wait(pause)
        except Exception as error:  # the owner goes on; so must what would take over from it
            self._live = None
            self._tell(f"{type(error).__name__}: {error}")
        finally:
            transport.close()

    def _look(self, transport: Log) -> None:
        # While nothing is committed, all that is asked is where the journal ends.
        journal = Partition(self._config.journal_topic, self._shard)
        end = transport.end_offsets([journal])[journal]
        live = self._live
        if live is not None and end <= live.position:
            return
        if live is None and end <= transport.beginning_offsets([journal])[journal]:
            return
        found = sources(self._config, transport, self._shard)
        if live is None:
            store = open_store(self._config, self._shard)
            self._live = rebuild(
                self._config, transport, found, store, end=end, progress=self._go_on
            )
            return
        self._live = None  # half applied it is worth nothing
        ahead = course(transport, journal, live.position, end)
        if ahead.without(live.seq) is not None:
            return  # rolled back behind it: rebuilt at the next look
        replay(transport, found, live, end, ahead, self._go_on)
        self._live = live

    def _tell(self, why: str) -> None:
        if why != self._told and not self._abandoned:
            log.warning("shard %d cannot be followed: %s", self._shard, why)
        self._told = why
