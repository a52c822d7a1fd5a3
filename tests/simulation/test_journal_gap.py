"""A journal whose new leader lacks records: the service ends, and what it says to do is enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import TopicPartition

from consumers.base.errors import ConfigError, JournalLostError
from consumers.service import inputs
from consumers.service.recovery import rebuild, sources
from consumers.snapshots.store import open_store
from consumers.transports.kafka.log import KafkaLog
from tests.seed import seeds
from tests.simulation.weather import until_all
from tests.simulation.world import OPTIONS, OUTPUTS, SMALL, Told, World

SHOWING = [1, 9, *range(60)]  # seeds that show both ends; further ones where the code moved on
JOURNAL = TopicPartition("svc-journal", 0)


class Gap(World):
    """One seed: between two requests, once, the journal loses its last records."""

    def __init__(self, seed: int, directory: Path, chance: float) -> None:
        super().__init__(seed, directory, **SMALL, chances={"changed": chance})
        self._hosts, self._whole = self._hosts[:1], list[object]()
        self._weather.change = self._lose

    def run(self) -> Told:
        """Live through it, doing what is said."""
        with self._installed():
            try:
                self._life(self._hosts[0])
                with self._weather.calm():  # it may have drained before a look
                    self._life(self._hosts[0])
            except (ConfigError, JournalLostError) as error:
                restored = "Restore the journal topic" in str(error)
                self.told.faults["restored" if restored else "started again"] += 1
                if restored:
                    self._broker._parts[JOURNAL] = self._whole
                with self._weather.calm():
                    self._life(self._hosts[0])
            self._weather.settled()
            self._look()
        return self.told

    def _lose(self) -> None:
        broker, end = self._broker, self._broker.end(JOURNAL)
        if self._whole or end < 4 or broker._open[JOURNAL]:
            return
        self._whole = broker.log(JOURNAL)
        broker.fall_behind(JOURNAL, self._random.randint(2, end - 1))
        broker.elect(JOURNAL)
        self._clock.now += self._random.choice([0.0, 1.1])  # a look is due, or is not

    def _look(self) -> None:
        for topic, count in OUTPUTS.items():
            for part in (TopicPartition(topic, n) for n in range(count)):
                self.told.said[part] = [(r.key, r.value) for r in self._broker.committed(part)]
        settings, log = self._config(self._hosts[0]), KafkaLog(["simulated:9092"], OPTIONS)
        found = sources(settings, log)
        end = log.end_offsets([found.journal])[found.journal]
        kept = rebuild(settings, log, found, open_store(settings), end=end)
        self.told.from_journal = kept.shard.fingerprint()
        log.close()


@pytest.fixture(scope="module", autouse=True)
def _at_once() -> Iterator[None]:
    """A run that looks at its inputs does not wait."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(inputs, "PAUSE_SECONDS", 0.0)
        yield


@seeds(0.2)
def test_journal_that_loses_records_ends_the_run_and_goes_on_whole(
    seed, expected, tmp_path_factory
) -> None:
    """The same predictions, each once, and the same state as if nothing had happened."""
    told = Gap(seed, tmp_path_factory.mktemp("gap"), 0.01).run()

    assert told.said == expected.said
    assert told.from_journal == expected.from_journal


def test_the_journals_do_lose_records(tmp_path) -> None:
    """Some must be restored, and some are continued."""
    kinds = {"restored", "started again"}
    gaps = (Gap(seed, tmp_path / f"{n}", 0.01) for n, seed in enumerate(SHOWING))
    seen = until_all(kinds, (gap.run().faults for gap in gaps))

    assert kinds - sum(seen, Counter()).keys() == set()
