"""kill -9 at any moment: every prediction exactly once, and the state is that of the journal.

The embedded log, small commits and a snapshot at nearly every commit, so that a kill meets each
of its steps. What is awaited before each kill is a fact in the files, never a time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from consumers.base.records import Outgoing, Partition
from consumers.config import load
from consumers.journal import records as journal
from consumers.journal.records import CommitRecord
from consumers.service.live import LiveShard
from consumers.service.recovery import rebuild, sources
from consumers.snapshots.store import SnapshotStore
from consumers.transports import open_log
from consumers.transports.protocol import Log
from stream import GaussianNB
from stream.evaluate.progressive import progressive
from tests.acceptance.kafka_feed import elec2
from tests.acceptance.service import Service
from tests.calling import call
from tests.consumers.feeds import Labelled, config_text, feed, fill
from tests.stores import the_store

DELAY = 100
SEED = 20
RECORDS = 8_000


@pytest.fixture(scope="module")
def records() -> Labelled:
    """The first records of Elec2."""
    return list(elec2()[:RECORDS])


class Files:
    """What a service leaves on the disk, looked at from outside while it runs.

    `first` of the observations are there when it is made, with the labels of their time, and all
    others from `send_rest` on: so a kill always comes before the end.
    """

    def __init__(
        self, directory: Path, records: Labelled, text: str | None = None, first: int | None = None
    ) -> None:
        self.directory = directory
        self.database = directory / "log.db"
        self.config = directory / "svc.toml"
        features = sorted(records[0][0])
        self.config.write_text(text or config_text("sqlite:log.db", features, 50, 50))
        sent, self._rest = split(feed(records, DELAY), first)
        with closing(open_log(f"sqlite:{self.database}")) as log:
            fill(log, [])
            log.append(sent)

    def send_rest(self) -> None:
        """Send what was held back."""
        with closing(open_log(f"sqlite:{self.database}")) as log:
            log.append(self._rest)

    @property
    def store(self) -> SnapshotStore:
        return the_store(self.directory / "headwater-state", "svc")

    def predictions(self) -> int:
        """How many are committed."""
        with closing(open_log(f"sqlite:{self.database}")) as log:
            return log.end_offsets([Partition("svc-predictions", 0)]).popitem()[1]

    def owners(self) -> int:
        """How many have owned the shard so far."""
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as database:
            return sum(epoch for (epoch,) in database.execute("SELECT epoch FROM owners"))

    def values(self, log: Log, topic: str) -> Iterator[bytes | None]:
        part = Partition(topic, 0)
        for chunk in log.read({part: 0}, log.end_offsets([part])):
            yield from chunk.values

    def rebuilt(self, log: Log) -> LiveShard:
        """The shard from the journal alone."""
        config = load(self.config)
        found = sources(config, log)
        end = log.end_offsets([found.journal])[found.journal]
        return rebuild(config, log, found, None, end=end)


def split(records: Iterable[Outgoing], first: int | None) -> tuple[list[Outgoing], list[Outgoing]]:
    """The records up to the time of observation number `first`, and those after it."""
    every = list(records)
    if first is None:
        return every, []
    times = [record.timestamp or 0 for record in every if record.topic == "obs"]
    until = times[first - 1]
    sent = [record for record in every if (record.timestamp or 0) <= until]
    return sent, [record for record in every if (record.timestamp or 0) > until]


def kill_when(files: Files, happened: Callable[[], object]) -> None:
    """Start the service, kill it -9 when something is true on the disk."""
    with Service(files.config) as service:
        service.wait_until(happened)
        service.kill()
        assert service.code == -9


def kill_at(files: Files, failpoint: str) -> None:
    """Start the service, which is killed at a step."""
    with Service(files.config, environment={"HEADWATER_FAILPOINT": f"{failpoint}:kill"}) as service:
        assert service.wait() == -9


@pytest.fixture(scope="module")
def survived(records: Labelled, tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A service killed nine times, in the loop, while writing snapshots, and while starting."""
    last = RECORDS * 3 // 4
    files = Files(tmp_path_factory.mktemp("killed"), records, first=last + 1_000)
    rng = np.random.default_rng(SEED)
    moments = np.sort(rng.choice(np.arange(1, last), size=5, replace=False)).tolist()
    for count, moment in enumerate(moments):
        further = max(moment, files.predictions() + 1)  # it has come to life again
        kill_when(files, lambda at=further: files.predictions() >= at)
        assert files.predictions() < len(records)
        if count in (1, 3):
            kill_at(files, "snap_mid_write")
            assert any(files.store.directory.glob("*.tmp"))
            owners = files.owners()
            kill_when(files, lambda before=owners: files.owners() > before)
    files.send_rest()
    call("run", files.config, "--drain", code=0)
    return files


@pytest.fixture
def log(survived: Files) -> Iterator[Log]:
    """The log it left."""
    with closing(open_log(f"sqlite:{survived.database}")) as opened:
        yield opened


def test_killed_service_predicts_every_observation_exactly_once_in_order(
    survived, log, records
) -> None:
    """None lost, none doubled, whatever a kill interrupted."""
    said = [json.loads(value) for value in survived.values(log, "svc-predictions")]

    assert [p["id"] for p in said] == [str(i) for i in range(len(records))]
    assert [p["position"]["offset"] for p in said] == list(range(len(records)))
    assert survived.owners() == 10
    assert list(survived.values(log, "svc-dead-letters")) == []


def test_killed_service_has_the_state_of_its_journal(survived, log) -> None:
    """Replayed from entry 0, without any snapshot, it is the last snapshot bit for bit (I2)."""
    about, state = next(survived.store.newest(lambda _: None))
    live = survived.rebuilt(log)

    assert about.position == live.position
    assert live.shard.fingerprint() == state.fingerprint()


def test_killed_service_scores_as_one_that_was_never_killed(survived, log, records) -> None:
    """Progressive validation over the same records, to the last count."""
    *_, expected = progressive(records, GaussianNB(), delay=DELAY)
    view = survived.rebuilt(log).shard.view()

    assert (view.learned, view.pending) == (len(records), 0)
    assert view.quality.classes == expected.classes
    assert np.array_equal(view.quality.confusion, expected.confusion)
    assert view.quality.scores == expected.scores


def test_journal_of_a_killed_service_has_no_gap(survived, log, records) -> None:
    """Entries in sequence, ranges that tile, as many predictions as there are."""
    entries = [journal.decode(value) for value in survived.values(log, "svc-journal")][1:]
    at = {"obs": 0, "ans": 0}
    for seq, entry in enumerate(entries, 1):
        assert isinstance(entry, CommitRecord)
        assert entry.seq == seq
        for r in entry.ranges:
            assert r.first == at[r.topic]
            at[r.topic] = r.end

    assert at == {"obs": len(records), "ans": len(records)}
    assert sum(e.predictions for e in entries if isinstance(e, CommitRecord)) == len(records)


def test_snapshots_a_kill_left_unfinished_are_gone(survived) -> None:
    """The next ones take their place; only whole ones are kept."""
    names = sorted(p.name for p in survived.store.directory.iterdir())

    assert [Path(n).suffix for n in names if n != "inflight.json"] == [".hws"] * 3
    assert len(list(survived.store.newest(lambda _: None))) == 3


def test_sigterm_ends_with_0_and_a_snapshot_at_the_journals_end(tmp_path, records) -> None:
    """The commit in hand is finished; the next start has nothing to replay."""
    files = Files(tmp_path, records, first=RECORDS // 2)
    with Service(files.config) as service:
        service.wait_until(lambda: files.predictions() >= 500)
        assert service.terminate() == 0, service.output
    with closing(open_log(f"sqlite:{files.database}")) as log:
        end = log.end_offsets([Partition("svc-journal", 0)]).popitem()[1]

    about, _ = next(files.store.newest(lambda _: None))
    assert about.position == end
    assert 500 <= files.predictions() < len(records)
