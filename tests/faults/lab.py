"""One service on a real broker: its topics, a live feed, a reader beside it, its configuration.

Its inputs have five partitions that records are drawn into; those of several shards have twice as
many partitions each as shards, or as many as the caller says, and the key says which.

`with Lab(…) as lab:` feeds records for as long as it is open; `lab.start(…)` runs the service as a
process; `lab.verdict()` drains what is left and returns every violation the checker and the
comparison of states find. One seed decides the records; the faults are the caller's.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self
from uuid import uuid4

from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaError

from consumers.transports.kafka.producer import discard
from tests.acceptance.service import Service, headwater
from tests.faults import states
from tests.faults.checker import Names, check, cut_out
from tests.faults.feed import KINDS, LABELS, OBSERVATIONS, broken, records
from tests.faults.oracle import predicted_by
from tests.faults.seen import Seen, Watcher, committed_offsets, read_topics
from tests.waiting import PATIENCE

__all__ = ["Lab", "wait_for"]

BACKLOG = 3_000  # observations: what a slow machine does not keep up with need not be drained
CONFIG = """
name = "{name}"
[input]
transport = "kafka://{bootstrap}"
observations = "{observations}"
labels = "{labels}"
max_wait_ms = 100
[features]
{features}
[labels]
corrections = {corrections}
[model]
type = "{model}"
[scale]
shards = {shards}
[commit]
max_records = {max_records}
max_delay_ms = {max_delay_ms}
[snapshots]
every_records = {every_records}
[http]
enabled = false
[kafka]
{kafka}
"""


class Lab:
    """A service of its own name, with its own topics.

    Parameters
    ----------
    bootstrap
        The broker, for the feed and the checker.
    directory
        For configurations and snapshots.
    kind
        One of KINDS.
    seed
        Of the feed.
    rate
        Observations a second while it is open.
    through
        The broker's address for the service alone: a proxy, say.
    kafka
        Lines of the section [kafka].
    shards
        How many models.
    corrections
        Whether a second, other label replaces the first.
    partitions
        Of each input of several shards, a multiple of them; 0: twice as many.
    """

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        kind: str,
        seed: int,
        *,
        rate: int = 100,
        through: str | None = None,
        kafka: str = "",
        shards: int = 1,
        corrections: bool = False,
        partitions: int = 0,
    ) -> None:
        self.name = f"{kind}-{uuid4().hex[:8]}"
        self.kind = KINDS[kind]
        self.names = Names(
            f"{self.name}-in",
            f"{self.name}-labels",
            f"{self.name}-predictions",
            f"{self.name}-dead-letters",
            f"{self.name}-journal",
        )
        self.bootstrap, self.through = bootstrap, through or bootstrap
        self.directory, self.kafka, self.rate = directory, kafka, rate
        self.shards, self.corrections = shards, corrections
        self._keyed = (partitions or 2 * shards) if shards > 1 else 0
        self.sent = 0
        self._damaged: dict[Path, bytes] = {}
        self._random = Random(seed)
        self._feed = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._feeding, name="feed", daemon=True)

    def __enter__(self) -> Self:
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        sizes = {
            self.names.observations: self._keyed or OBSERVATIONS,
            self.names.labels: self._keyed or LABELS,
            self.names.predictions: self._keyed or OBSERVATIONS,
            self.names.dead_letters: 1,
            self.names.journal: self.shards,
        }
        try:
            admin.create_topics(
                {t: {"num_partitions": n, "replication_factor": -1} for t, n in sizes.items()}
            )
            admin.wait_for_topics(list(sizes))
        finally:
            admin.close()
        self._watcher = Watcher(self.bootstrap, self.names.outputs).__enter__()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._feed.set()
        self._thread.join(30)
        self._watcher.__exit__(kind, error, None)

    def configure(
        self,
        *,
        host: str = "",
        max_records: int = 500,
        max_delay_ms: int = 20,
        every_records: int = 300,
    ) -> Path:
        """Write a configuration; sizes may differ at each start, the identity never does.

        Each host has snapshots of its own.
        """
        names = self.kind.records()[0][0]
        path = self.directory / host / f"{self.name}-{max_records}-{every_records}.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            CONFIG.format(
                name=self.name,
                bootstrap=self.through,
                observations=self.names.observations,
                labels=self.names.labels,
                features="\n".join(f'{feature} = "{self.kind.feature}"' for feature in names),
                model=self.kind.make.__name__,
                corrections=str(self.corrections).lower(),
                shards=self.shards,
                max_records=max_records,
                max_delay_ms=max_delay_ms,
                every_records=every_records,
                kafka=self.kafka,
            )
        )
        return path

    def start(self, *arguments: str, failpoint: str = "", **sizes: int) -> Service:
        """Run the service in the background, all shards in this process: no group is asked."""
        return Service(
            self.configure(**sizes),
            *("--shards", ",".join(map(str, range(self.shards)))),
            *arguments,
            environment={"HEADWATER_FAILPOINT": failpoint},
        )

    def predicted(self) -> int:
        """How many committed predictions the reader beside it has seen."""
        return sum(self.predicted_of_shards())

    def predicted_of_shards(self) -> list[int]:
        """The same of each shard: a prediction has the partition of its observation."""
        counts = self._watcher.counts(self.names.predictions)
        return [
            sum(counts[n] for n in counts if n % self.shards == shard)
            for shard in range(self.shards)
        ]

    def join(self, host: str, **sizes: int) -> Service:
        """Run the service as a member of its group, which says whose the shards are."""
        return Service(self.configure(host=host, **sizes))

    def live(self, service: Service) -> bool:
        """Whether every shard of it is."""
        return service.output.count("live at journal record") >= self.shards

    def roll_back(self, random: Random) -> str:
        """Cut some entries out of the history of a shard; what the command said at its end."""
        shard = random.randrange(self.shards)
        journal = self.journal(shard)
        if len(journal) < 4:
            return "too early"
        to = journal[random.randrange(max(len(journal) - 40, 1), len(journal) - 1)]
        done = headwater(
            *("rollback", self.configure(), "--to", str(to.offset + 1), "--yes"),
            *("--shard", str(shard), "--reason", "on purpose"),
        )
        said = (done.stdout + done.stderr).strip()
        found = re.search(r"journaled .*", said)
        return found[0] if found and not done.returncode else f"failed: {said}"

    def journal(self, shard: int) -> list[Seen]:
        """The committed entries of a shard."""
        read = read_topics(self.bootstrap, [self.names.journal])
        return read[self.names.journal, shard]

    def snapshots(self) -> list[Path]:
        """Its snapshots on every host, the oldest of a shard first."""
        found = self.directory.rglob(f"headwater-state/{self.name}/shard-*/*/snap-*.hws")
        return sorted(found, key=lambda path: (path.parents[1].name, path.name))

    def damage(self, random: Random) -> bool:
        """Truncate the newest snapshot of the last shard or flip a bit. False: no snapshot yet."""
        found = self.snapshots()
        if not found:
            return False
        data = bytearray(found[-1].read_bytes())
        at = random.randrange(len(data))
        if random.random() < 0.5:
            del data[at:]
        else:
            data[at] ^= 1 << random.randrange(8)
        found[-1].write_bytes(bytes(data))
        self._damaged[found[-1]] = bytes(data)
        return True

    def _whole(self) -> list[Path]:
        """The snapshots but those that are as `damage` left them."""
        return [p for p in self.snapshots() if p.read_bytes() != self._damaged.get(p)]

    def verdict(self, seconds: float = 600) -> list[str]:
        """Stop the feed, let the service come to its end, and name every violation."""
        self._feed.set()
        self._thread.join(30)
        if self._failed is not None:
            raise self._failed
        with self.start("--drain") as service:
            try:
                code = service.wait(seconds)
            except subprocess.TimeoutExpired:
                return [f"the last run did not come to its end: {service.output[-500:]}"]
        if code:
            return [f"the last run ended with {code}: {service.output[-500:]}"]
        watched = self._watcher.seen()
        log = read_topics(self.bootstrap, [*self.names.inputs, *self.names.outputs])
        parts = [part for part in log if part[0] in self.names.inputs]
        features = list(self.kind.records()[0][0])
        told = check(
            log,
            self.names,
            shards=self.shards,
            watched=watched,
            committed=committed_offsets(self.bootstrap, self.name, parts),
            bad=broken,
            oracle=predicted_by(
                self.kind.make, features, self.names.observations, corrections=self.corrections
            ),
        )
        cuts = [cut_out(log, self.names, shard) for shard in range(self.shards)]
        return told + states.differences(self.configure(), self._whole(), cuts)

    def _feeding(self) -> None:
        """Send, whatever becomes of the broker: what counts is what lies in the topics."""
        feed = records(self.kind, self.names, self._random, keyed=self._keyed)
        try:
            while not self._feed.is_set():
                with suppress(KafkaError):
                    self._feed_by(feed)
        except BaseException as error:
            self._failed = error

    def _feed_by(self, feed: Iterator[list[tuple[str, int, str, bytes]]]) -> None:
        """Until the end, or until this producer fails."""
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks="all",
            linger_ms=5,
            request_timeout_ms=5_000,
            reconnect_backoff_max_ms=500,
        )
        pause = 0.1
        try:
            while not self._feed.is_set():
                for _ in range(self._random.randint(1, max(1, int(2 * self.rate * pause)))):
                    for topic, number, id_, value in next(feed):
                        producer.send(topic, value, key=id_.encode(), partition=number)
                    self.sent += 1
                producer.flush(2)
                self._feed.wait(pause)
                while self.sent > 1.1 * self.predicted() + BACKLOG and not self._feed.is_set():
                    self._feed.wait(pause)
        finally:
            discard(producer)


def wait_for(condition: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """Whether it came to hold in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.01)
    return True
