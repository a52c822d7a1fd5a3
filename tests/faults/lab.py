"""One service on a real broker: its topics, a live feed, a reader beside it, its configuration.

`with Lab(…) as lab:` feeds records for as long as it is open; `lab.start(…)` runs the service as a
process; `lab.verdict()` drains what is left and returns every violation the checker and the
comparison of states find. One seed decides the records; the faults are the caller's.
"""

from __future__ import annotations

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

from consumers.transports.kafka_producer import discard
from tests.acceptance.service import Service
from tests.faults import states
from tests.faults.checker import Names, check
from tests.faults.feed import KINDS, LABELS, OBSERVATIONS, broken, records
from tests.faults.oracle import predicted_by
from tests.faults.seen import Watcher, committed_offsets, read_topics

__all__ = ["Lab", "wait_for"]

CONFIG = """
name = "{name}"
[input]
transport = "kafka://{bootstrap}"
observations = "{observations}"
labels = "{labels}"
max_wait_ms = 100
[features]
{features}
[model]
type = "{model}"
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
        self.sent = 0
        self._random = Random(seed)
        self._feed = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._feeding, name="feed", daemon=True)

    def __enter__(self) -> Self:
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        sizes = {
            self.names.observations: OBSERVATIONS,
            self.names.labels: LABELS,
            self.names.predictions: OBSERVATIONS,
            self.names.dead_letters: 1,
            self.names.journal: 1,
        }
        try:
            admin.create_topics(
                {t: {"num_partitions": n, "replication_factor": 1} for t, n in sizes.items()}
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
        self, *, max_records: int = 500, max_delay_ms: int = 20, every_records: int = 300
    ) -> Path:
        """Write a configuration; sizes may differ at each start, the identity never does."""
        names = self.kind.records()[0][0]
        path = self.directory / f"{self.name}-{max_records}-{every_records}.toml"
        path.write_text(
            CONFIG.format(
                name=self.name,
                bootstrap=self.through,
                observations=self.names.observations,
                labels=self.names.labels,
                features="\n".join(f'{feature} = "{self.kind.feature}"' for feature in names),
                model=self.kind.make.__name__,
                max_records=max_records,
                max_delay_ms=max_delay_ms,
                every_records=every_records,
                kafka=self.kafka,
            )
        )
        return path

    def start(self, *arguments: str, failpoint: str = "", **sizes: int) -> Service:
        """Run the service in the background, its shard being this process's: no group is asked."""
        return Service(
            self.configure(**sizes),
            *("--shards", "0"),
            *arguments,
            environment={"HEADWATER_FAILPOINT": failpoint},
        )

    def predicted(self) -> int:
        """How many committed predictions the reader beside it has seen."""
        return self._watcher.count(self.names.predictions)

    def snapshots(self) -> list[Path]:
        """Its snapshots, the oldest first."""
        return sorted((self.directory / "headwater-state" / self.name).rglob("snap-*.hws"))

    def verdict(self, seconds: float = 120) -> list[str]:
        """Stop the feed, let the service come to its end, and name every violation."""
        self._feed.set()
        self._thread.join(30)
        if self._failed is not None:
            raise self._failed
        with self.start("--drain") as service:
            code = service.wait(seconds)
        if code:
            return [f"the last run ended with {code}: {service.output[-500:]}"]
        watched = self._watcher.seen()
        log = read_topics(self.bootstrap, [*self.names.inputs, *self.names.outputs])
        parts = [part for part in log if part[0] in self.names.inputs]
        features = list(self.kind.records()[0][0])
        told = check(
            log,
            self.names,
            watched=watched,
            committed=committed_offsets(self.bootstrap, self.name, parts),
            bad=broken,
            oracle=predicted_by(self.kind.make, features, self.names.observations),
        )
        return told + states.differences(self.configure(), self.snapshots())

    def _feeding(self) -> None:
        """Send, whatever becomes of the broker: what counts is what lies in the topics."""
        feed = records(self.kind, self.names, self._random)
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
        finally:
            discard(producer)


def wait_for(condition: Callable[[], object], seconds: float = 30.0) -> bool:
    """Whether it came to hold in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.01)
    return True
