"""A service of several shards over a log in memory, and a log that tests watch or hold up."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from consumers.base.records import Outgoing, Partition
from consumers.cluster.fleet import Fleet
from consumers.config import Config
from consumers.config.load import parse
from consumers.service.recovery import rebuild, sources
from consumers.transports import open_log
from tests.consumers.feeds import NOW, config_text, phishing

FEATURES = sorted(phishing(1)[0][0])


class Sharded:
    """A service of some shards, each with a partition of each input."""

    def __init__(self, directory: Path, shards: int, url: str = "", name: str = "svc") -> None:
        self.url, self.shards, self.sent = url or f"memory:{uuid4()}", shards, 0
        self._name = name
        self.log = open_log(self.url)
        self.config = self.on_host(directory / "owner")
        self.standby = self.on_host(directory / "standby")
        for topic in self.config.topics.values():
            self.log.create_topic(topic, shards)

    def on_host(self, directory: Path) -> Config:
        """Its configuration where snapshots lie in `directory`."""
        text = config_text(self.url, FEATURES, 10, 10**6)  # commits of at most 10 records
        for topic in ("svc", "obs", "ans"):
            name = self._name if topic == "svc" else f"{self._name}-{topic}"
            text = text.replace(f'"{topic}"', f'"{name}"')
        directory.mkdir(parents=True, exist_ok=True)
        return parse(f"{text}\n[scale]\nshards = {self.shards}\n", directory=directory)

    def feed(self, count: int, shards: Sequence[int] | None = None) -> None:
        """Give each of the shards, or these of them, some more observations and their labels."""
        observations, answers = self.config.input_topics
        records = []
        for i, (x, y) in enumerate(phishing(count), self.sent):
            for shard in range(self.shards) if shards is None else shards:
                key = f"{shard}-{i}"
                value = json.dumps({"id": key, **x}).encode()
                label = json.dumps({"id": key, "label": y}).encode()
                at = NOW + 10 * i
                records.append(Outgoing(observations, b"", value, at, (), shard))
                records.append(Outgoing(answers, b"", label, at + 5, (), shard))
        self.sent += count
        self.log.append(records)

    def run(self, shards: Sequence[int] | None = None) -> None:
        """Own the shards, or these of them, until their inputs are consumed."""
        numbers = range(self.shards) if shards is None else shards
        Fleet(
            self.config,
            lambda: open_log(self.url),
            threading.Event(),
            numbers,
            drain=True,
        ).run()

    def journal(self, shard: int) -> Partition:
        """Where a shard's entries lie."""
        return Partition(self.config.journal_topic, shard)

    def fingerprint(self, shard: int, end: int | None = None) -> str:
        """Of the model the journal describes, at a position of it."""
        found = sources(self.config, self.log, shard)
        end = self.log.end_offsets([found.journal])[found.journal] if end is None else end
        return rebuild(self.config, self.log, found, None, end=end).shard.fingerprint()


class Watched:
    """A log whose calls are counted, with what they ask for, and meet what a test has put there.

    `meets` is called with the name of the call and its arguments before it is made.
    """

    def __init__(self, log: Any, meets: Callable[..., None] = lambda name, *args: None) -> None:
        self._log, self._meets = log, meets
        self.calls: Counter[str] = Counter()
        self.asked: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._log, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            if args:
                self.asked.append((name, args[0]))
            self._meets(name, *args)
            return call(*args, **kwargs)

        return watched

    def read(self, starts: Any, ends: Any, **kwargs: Any) -> Iterator[Any]:
        """The log's records; the obstacle is met where the first is asked for."""
        self.calls["read"] += 1
        self._meets("read", starts)
        yield from self._log.read(starts, ends, **kwargs)
