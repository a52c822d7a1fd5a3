"""New settings for every shard of a service: together, and safe against a crash in between."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from uuid import uuid4

import pytest

from consumers.base.errors import ConfigError, FencedError, TransportError
from consumers.base.records import Outgoing, Partition
from consumers.cluster.fleet import Fleet
from consumers.config import Config
from consumers.config.load import parse
from consumers.journal import records as journal
from consumers.journal.reader import record_count
from consumers.journal.records import JournalRecord, RelearnRecord
from consumers.service import pace
from consumers.service.recovery import rebuild, sources
from consumers.snapshots.store import open_store
from consumers.timetravel import relearn
from consumers.timetravel.moment import moment, rebuild_at
from consumers.timetravel.relearn import Relearned, changed_settings, learned_again, swap
from consumers.timetravel.rollback import roll_back
from consumers.transports import open_log
from tests.consumers.feeds import MODEL, NOW, config_text, phishing
from tests.waiting import until

SHARDS = 3
FEATURES = sorted(phishing(1)[0][0])
NEW = 'type = "MixedNB"\nhalf_life = 80'
# Where it dies, at which time, and whether the old settings are restored then.
DEATHS = [
    ("relearn_fenced", 1, False),
    ("relearn_journaled", 1, True),
    ("relearn_journaled", 2, True),
    ("relearn_journaled", SHARDS, False),
]


class Service:
    """A service of three shards, each shard with records of its own."""

    def __init__(self, directory: Path, kind: str = "memory") -> None:
        directory.mkdir()
        place = uuid4() if kind == "memory" else directory / "log.db"
        self.directory, self.url = directory, f"{kind}:{place}"
        self.log, self.fed = open_log(self.url), [0] * SHARDS
        for topic in self.config().topics.values():
            self.log.create_topic(topic, SHARDS)
        self.feed(80, 110, 140)

    def config(self, model: str = MODEL) -> Config:
        """The configuration with this model."""
        text = config_text(self.url, FEATURES, 25, 60, model=model)
        return parse(f"{text}\n[scale]\nshards = {SHARDS}\n", directory=self.directory)

    def feed(self, *counts: int) -> None:
        """So many more observations for each shard, each with its label 5 records later."""
        records = []
        for shard, count in enumerate(counts):
            start, self.fed[shard] = self.fed[shard], self.fed[shard] + count
            for i, (x, y) in list(enumerate(phishing(start + count)))[start:]:
                key, at = f"{shard}-{i}", NOW + 10 * i
                value = json.dumps({"id": key, **x}).encode()
                label = json.dumps({"id": key, "label": y}).encode()
                records.append(Outgoing("obs", b"", value, at, (), shard))
                records.append(Outgoing("ans", b"", label, at + 55, (), shard))
        self.log.append(records)

    def fleet(self, model: str, stop: threading.Event, *, drain: bool) -> Fleet:
        """All shards in this process."""
        opened = lambda: open_log(self.url)  # noqa: E731
        return Fleet(self.config(model), opened, stop, range(SHARDS), drain=drain)

    def run(self, model: str = MODEL) -> None:
        """Consume the inputs."""
        self.fleet(model, threading.Event(), drain=True).run()

    def prints(self, model: str) -> list[str]:
        """The fingerprint of each shard, from its journal."""
        out = []
        for shard in range(SHARDS):
            found = sources(self.config(model), self.log, shard)
            end = self.log.end_offsets([found.journal])[found.journal]
            live = rebuild(self.config(model), self.log, found, None, end=end)
            out.append(live.shard.fingerprint())
        return out

    def due(self, model: str) -> list[int]:
        """The shards that do not have these settings."""
        config = self.config(model)
        return [n for n in range(SHARDS) if changed_settings(config, self.log, *self._of(n))]

    def ready(self, model: str) -> list[Relearned]:
        """Those shards with both models."""
        config = self.config(model)
        return [learned_again(config, self.log, *self._of(n)) for n in self.due(model)]

    def learned(self, model: str) -> None:
        """As the command does."""
        swap(self.config(model), self.log, self.ready(model), now=NOW, reason="")

    def _of(self, shard: int):
        return sources(self.config(), self.log, shard), open_store(self.config(), shard)

    def journals(self) -> list[list[JournalRecord]]:
        """The records of each journal."""
        return [list(map(journal.decode, values)) for values in self._values("svc-journal")]

    def relearned(self) -> list[int]:
        """How many records of new settings each journal has."""
        return [sum(isinstance(e, RelearnRecord) for e in part) for part in self.journals()]

    def consumed(self) -> int:
        """How many input records."""
        return sum(record_count(entry) for part in self.journals() for entry in part)

    def ids(self) -> list[str]:
        """The ids that were predicted."""
        every = (value for part in self._values("svc-predictions") for value in part)
        return [json.loads(value or b"")["id"] for value in every]

    def _values(self, topic: str) -> list[list[bytes | None]]:
        parts = [Partition(topic, n) for n in range(SHARDS)]
        ends = self.log.end_offsets(parts)
        read = [self.log.read({part: 0}, {part: ends[part]}) for part in parts]
        return [[value for chunk in chunks for value in chunk.values] for chunks in read]


@pytest.fixture
def ran(tmp_path: Path) -> Service:
    """A service that consumed what there is."""
    service = Service(tmp_path / "svc")
    service.run()
    return service


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Each shard of a service that has always had the new settings."""
    service = Service(tmp_path_factory.mktemp("fresh") / "svc")
    service.run(NEW)
    service.feed(20, 20, 20)
    service.run(NEW)
    return service.prints(NEW)


class DiedError(BaseException):
    """The process is gone."""


def dying(monkeypatch: pytest.MonkeyPatch, point: str, times: int) -> None:
    """Die when the point is reached for this time."""
    left = [times]

    def reach(name: str) -> None:
        left[0] -= name == point
        if not left[0] and name == point:
            raise DiedError

    monkeypatch.setattr(relearn, "reach", reach)


@pytest.mark.parametrize(("point", "times", "back"), DEATHS)
def test_crash_between_shards_is_completed_or_taken_back(
    ran: Service, fresh: list[str], monkeypatch, point: str, times: int, back: bool
) -> None:
    """No shard is lost, and a start with shards of both kinds is refused by either configuration.

    The same call again does the rest; the call with the old settings undoes what was done.
    """
    old = ran.prints(MODEL)
    with monkeypatch.context() as patched:
        dying(patched, point, times)
        with pytest.raises(DiedError):
            ran.learned(NEW)
    done = times if point == "relearn_journaled" else 0
    assert ran.due(NEW) == list(range(done, SHARDS))
    if 0 < done < SHARDS:
        for model in (MODEL, NEW):
            with pytest.raises(ConfigError, match=r"interrupted.*run it again"):
                ran.run(model)
    model = MODEL if back else NEW
    if ran.due(model):
        ran.learned(model)

    if back:
        assert ran.prints(MODEL) == old
    ran.feed(20, 20, 20)
    ran.run(model)
    with pytest.raises(ConfigError, match="relearn"):
        ran.run(NEW if back else MODEL)
    if not back:
        assert ran.prints(NEW) == fresh
        assert ran.relearned() == [1] * SHARDS
    ids = ran.ids()
    assert len(ids) == len(set(ids)) == 3 * 100 + 30 + 60


def test_nothing_is_journaled_if_one_shard_has_changed_meanwhile(ran: Service) -> None:
    """All shards are compared with what was learned before the first record is written."""
    ready, config = ran.ready(NEW), ran.config()
    found, store = sources(config, ran.log, 2), open_store(config, 2)
    live = rebuild_at(config, ran.log, found, store, moment(ran.log, found.journal, "3"))
    owner = ran.log.owner("svc", 2, found.inputs)
    roll_back(ran.log, owner, found, live, now=NOW, reason="")
    owner.close()

    with pytest.raises(ConfigError, match=r"svc-journal\[2\] was rolled back or re-learned"):
        swap(ran.config(NEW), ran.log, ready, now=NOW, reason="")
    assert ran.relearned() == [0] * SHARDS


@pytest.mark.parametrize("taken", [0, 1])
def test_shard_that_another_process_takes_in_between_is_reported(
    ran: Service, monkeypatch, taken: int
) -> None:
    """A process of a group may take its shard back. The message says which shards changed."""
    found = sources(ran.config(), ran.log, taken)
    owners = []

    def reach(name: str) -> None:
        if name == "relearn_fenced":
            owners.append(ran.log.owner("svc", taken, found.inputs))

    monkeypatch.setattr(relearn, "reach", reach)
    with pytest.raises(FencedError) as refused:
        ran.learned(NEW)
    owners[0].close()

    assert ("shards 0 have the new settings" in str(refused.value)) is (taken == 1)
    assert ran.due(NEW) == list(range(taken, SHARDS))


def test_running_service_is_replaced_and_learns_nothing_twice(
    tmp_path: Path, fresh: list[str], monkeypatch
) -> None:
    """Every shard is fenced while it runs, and what it consumed meanwhile is learned."""
    monkeypatch.setattr(pace, "CONFIRM_SECONDS", 0.1)
    service, stop, errors = Service(tmp_path / "svc", "sqlite"), threading.Event(), []
    fleet = service.fleet(MODEL, stop, drain=False)

    def run() -> None:
        try:
            fleet.run()
        except (FencedError, TransportError) as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: service.consumed() == 660)
    ready = service.ready(NEW)
    service.feed(20, 20, 20)
    until(lambda: service.consumed() == 780)
    swap(service.config(NEW), service.log, ready, now=NOW, reason="")
    thread.join()
    service.run(NEW)

    assert isinstance(errors[0], FencedError)
    assert service.prints(NEW) == fresh
    assert len(service.ids()) == len(set(service.ids())) == 390
