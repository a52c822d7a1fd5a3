"""A service on an embedded log that is given another number of shards."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from uuid import uuid4

from consumers.base.records import Outgoing, Partition
from consumers.cluster.fleet import Fleet
from consumers.config import Config
from consumers.config.load import parse
from consumers.journal import records as journal
from consumers.journal.records import JournalRecord
from consumers.service.live import LiveShard
from consumers.service.recovery import rebuild, sources
from consumers.service.runner import Runner
from consumers.timetravel.old_shards import load_old_shards
from consumers.timetravel.reshard import Move, NewShard
from consumers.transports import open_log
from consumers.transports.placement import murmur2
from tests.consumers.feeds import MODEL, NOW, config_text, phishing

PARTITIONS = 8
FEATURES = sorted(phishing(1)[0][0])
MODELS = (
    MODEL,
    'type = "MixedNB"\nhalf_life = 80',
    'type = "LogisticRegression"',
    'type = "KNNClassifier"\nwindow = 60',
    'type = "auto"',
)
TENANT = "tenant"  # a category of each record, which only this model uses
ON_DISK = f"""per = "{TENANT}"
keys_on_disk = true
max_classes = 2
max_state_bytes = 12000"""


def keyed(first: int, end: int, partitions: int = PARTITIONS) -> list[Outgoing]:
    """Observations and their labels 300 ms later, in the partitions of their keys.

    One observation in twenty cannot be decoded. After each twenty there is a pause until their
    labels have come, so records that are appended later are later.
    """
    out = []
    for i, (x, y) in list(enumerate(phishing(end)))[first:]:
        key = str(i).encode()
        part = (murmur2(key) & 0x7FFFFFFF) % partitions
        value = json.dumps({"id": str(i), **x, TENANT: f"t{i % 31}"}).encode() if i % 20 else b"{"
        label = json.dumps({"id": str(i), "label": y}).encode()
        at = NOW + 10 * i + 400 * (i // 20)
        out.append(Outgoing("obs", key, value, at, (), part))
        out.append(Outgoing("ans", key, label, at + 300, (), part))
    return sorted(out, key=lambda r: r.timestamp)


class Service:
    """A service on an embedded log that can have any number of shards."""

    def __init__(self, directory: Path, kind: str, shards: int, model: str = MODEL) -> None:
        directory.mkdir(exist_ok=True)
        self.directory, self.model = directory, model
        self.url = f"{kind}:{uuid4() if kind == 'memory' else directory / 'log.db'}"
        self.log, self.shards, self.journal = open_log(self.url), shards, "svc-journal"
        self.more, self.wanted, self.topic = "", 4, None
        for topic in ("obs", "ans", "svc-predictions"):
            self.log.create_topic(topic, PARTITIONS)
        self.log.create_topic("svc-dead-letters", 1)
        self.log.create_topic(self.journal, shards)

    def config(self, max_records: int = 25) -> Config:
        """The configuration with the present number of shards."""
        return parse(self.text(max_records), directory=self.directory)

    def text(self, max_records: int = 25) -> str:
        """The same as TOML."""
        text = config_text(self.url, FEATURES, max_records, 60, model=self.model)
        if self.model == ON_DISK:
            text = text.replace("[features]", f'[features]\n{TENANT} = "categorical"')
        text += f'\n[scale]\nshards = {self.shards}\n[journal]\ntopic = "{self.journal}"\n'
        return text + self.more

    def run(self, max_records: int = 25) -> None:
        """Consume the inputs."""
        opened = lambda: open_log(self.url)  # noqa: E731
        stop = threading.Event()
        Fleet(self.config(max_records), opened, stop, range(self.shards), drain=True).run()

    def run_one(self, number: int) -> None:
        """Consume the inputs of one shard."""
        Runner(self.config(), self.log, threading.Event(), shard=number, drain=True).run()

    def planned(self, shards: int, topic: str | None = None) -> Move:
        """As the command does it."""
        return Move(load_old_shards(self.config(), self.log, shards, topic))

    def reshard(self, shards: int, while_it_runs: object = None) -> list[NewShard]:
        """Move it, and take over the new configuration."""
        move = self.planned(shards)
        name = move.old.new.journal_topic
        self.log.create_topic(name, shards)
        new = [move.shard(n) for n in range(shards)]
        for shard in new:
            if not shard.begun:
                move.learn(shard, NOW, lambda done, total: None)
        if callable(while_it_runs):
            while_it_runs()
        move.swap(new, NOW, "more load", lambda done, total: None)
        self.shards, self.journal = shards, name
        return new

    def inputs(self) -> list[Partition]:
        """All input partitions."""
        return [Partition(topic, n) for topic in ("obs", "ans") for n in range(PARTITIONS)]

    def values(self, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
        """Partition, key and value of each record of a topic, partition by partition."""
        parts = [Partition(topic, n) for n in range(self.log.topics()[topic])]
        out = [
            (chunk.partition.number, key, value)
            for chunk in self.log.read(
                self.log.beginning_offsets(parts), self.log.end_offsets(parts)
            )
            for key, value in zip(chunk.keys, chunk.values, strict=True)
        ]
        return sorted(out, key=lambda each: each[0])

    def predictions(self) -> dict[bytes, bytes]:
        """The prediction of each key, each of which is there once."""
        found = self.values("svc-predictions")
        out = {key or b"": value or b"" for _, key, value in found}
        assert len(out) == len(found), "a record was predicted twice"
        return out

    def journals(self, topic: str) -> list[list[JournalRecord]]:
        """The records of each partition of a journal."""
        out: list[list[JournalRecord]] = [[] for _ in range(self.log.topics()[topic])]
        for number, _, value in self.values(topic):
            out[number].append(journal.decode(value))
        return out

    def rebuilt(self) -> list[LiveShard]:
        """The shards from their journals alone."""
        out = []
        for n in range(self.shards):
            found = sources(self.config(), self.log, n)
            end = self.log.end_offsets([found.journal])[found.journal]
            out.append(rebuild(self.config(), self.log, found, None, end=end))
        return out

    def prints(self) -> list[str]:
        """The fingerprint of each shard."""
        return [live.shard.fingerprint() for live in self.rebuilt()]


def fresh(directory: Path, shards: int, model: str, end: int, more: str = "") -> Service:
    """A service that has had this number of shards since its first record."""
    service = Service(directory, "memory", shards, model)
    service.more = more
    service.log.append(keyed(0, end))
    service.run(33)
    return service
