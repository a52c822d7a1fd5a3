"""The world whose inputs change, and operators who roll back and promote in it.

They use the commands themselves: between two lives of the service, or while it is in the midst of a
call and is fenced by them. A command fails and dies as the service does, also after its entry and
before its snapshot. It goes back to any entry: to before a topic began again, into a span that was
cut out, to before any record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kafka import TopicPartition

from consumers.base.errors import ConfigError, FencedError, TransportError
from consumers.commands import promote as promotions
from consumers.commands import rollback as rollbacks
from consumers.commands.past import Past
from consumers.journal import records as journal
from consumers.journal.records import IdentityRecord
from consumers.service.recovery import rebuild, sources
from consumers.snapshots.store import open_store
from consumers.timetravel.moment import moment, rebuild_at
from consumers.timetravel.rollback import cut_from
from consumers.transports.kafka.log import KafkaLog
from tests.simulation.upheaval import RESTLESS, Upheaval
from tests.simulation.weather import DiedError
from tests.simulation.world import OPTIONS

__all__ = ["OPERATED", "Operated"]

OPERATED: Mapping[str, float] = {**RESTLESS, "operated": 0.2, "succeeded": 0.003}
MOST = 5  # commands of a seed
JOURNAL = TopicPartition("svc-journal", 0)
CHALLENGER = '[[challenger]]\nname = "near"\ntype = "KNNClassifier"\nwindow = 20\n'


class Operated(Upheaval):
    """One seed; the parameters are those of `World`."""

    def __init__(self, seed: int, directory: Path, **options: Any) -> None:
        options = {"chances": OPERATED, "more": CHALLENGER if seed % 3 == 0 else "", **options}
        super().__init__(seed, directory, **options)
        self._commands = 0

    def _between(self) -> None:
        if self._weather.happens("operated"):
            self._operate()

    def _finished(self) -> bool:
        """Also what is at an end may be gone back from, and the service goes on."""
        if super()._finished() and self._weather.random.random() < 0.5:
            return not self._operate()
        return super()._finished()

    def _succeed(self) -> None:
        """Who takes over in the midst of a call is another process, or an operator."""
        if self._weather.random.random() < 0.5:
            super()._succeed()
            return
        with self._weather.calm():
            self._operate()

    def _operate(self) -> bool:
        """One command; whether there was one."""
        positions = [r.offset for r in self._broker.committed(JOURNAL)]
        if self._commands >= MOST or len(positions) < 2:
            return False
        self._commands += 1
        random = self._weather.random
        log = KafkaLog(["simulated:9092"], OPTIONS)
        try:
            with self._command(log) as of:
                if self._more and random.random() < 0.4:
                    self._promote(of)
                else:
                    self._roll_back(of, random.choice(positions[random.randint(0, 1) * -5 :]))
        except ConfigError as error:
            if "no journal record after" not in str(error):
                raise
        except (FencedError, TransportError):
            self.told.faults["command failed"] += 1
        except DiedError:
            self.told.faults["command died"] += 1
        finally:
            log.close()
        return True

    @contextmanager
    def _command(self, log: KafkaLog) -> Iterator[Past]:
        config = self._config(self._hosts[0])
        found, store = sources(config, log), open_store(config)
        with (
            patch.object(rollbacks, "time", self._clock),
            patch.object(promotions, "time", self._clock),
            patch.object(rollbacks.typer, "echo", lambda *_, **__: None),
        ):
            yield Past(config, log, found, store, lambda *_: None)

    def _roll_back(self, of: Past, offset: int) -> None:
        to = moment(of.log, of.found.journal, str(offset + 1))
        if not cut_from(of.log, of.found, to).entries:
            return
        live = rebuild_at(of.config, of.log, of.found, of.store, to, of.progress)
        rollbacks._cut(of, live, "labels were wrong")
        self.told.faults["rolled back"] += 1
        began = {e.seq for e in self._journaled() if isinstance(e, journal.InputsRecord)}
        self.told.faults["rolled back over a change"] += any(seq > to.seq for seq in began)

    def _promote(self, of: Past) -> None:
        end = of.log.end_offsets([of.found.journal])[of.found.journal]
        live = rebuild(of.config, of.log, of.found, of.store, end=end)
        others = {"near", "svc"} - {live.shard.champion or "svc"}
        if not live.shard.challenger_set.challengers:  # the service has not started with it yet
            return
        promotions._promote(of, live, others.pop(), "it is better")
        self.told.faults["promoted"] += 1

    def _journaled(self) -> Iterator[Any]:
        found = (journal.decode(r.value) for r in self._broker.committed(JOURNAL))
        return (entry for entry in found if not isinstance(entry, IdentityRecord))
