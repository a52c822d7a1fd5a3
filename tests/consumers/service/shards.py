"""A service of several shards that mix, on an embedded log; and its attack by random events.

The oracle is one learner that reads the records that are left: it has no journal, no shards and no
mix.
"""

from __future__ import annotations

import json
import random
import shutil
import threading
from contextlib import closing
from typing import Any

import pytest

from consumers.base.errors import TransportError
from consumers.base.records import Outgoing, Partition
from consumers.cluster.fleet import Fleet
from consumers.config import Config
from consumers.config.load import parse
from consumers.journal.reader import entries
from consumers.journal.records import MixRecord
from consumers.service.live import LiveShard
from consumers.service.recovery import rebuild, sources
from consumers.snapshots.store import home, open_store
from consumers.timetravel.relearn import learned_again, swap
from consumers.timetravel.rollback import roll_back
from consumers.transports import open_log
from consumers.transports.placement import murmur2
from stream import GaussianNB
from tests.consumers.feeds import NOW, config_text, phishing

FEATURES = sorted(phishing(1)[0][0])
TOPICS = {"obs": 4, "ans": 4, "svc-predictions": 4, "svc-dead-letters": 1}


def keyed(records: list[Any], first: int = 0, before: str = "") -> list[Outgoing]:
    """Records and labels, in the partitions of their keys. `before`: how the topics begin."""
    out = []
    for i, (x, y) in enumerate(records, first):
        key = b"%d" % i
        part = (murmur2(key) & 0x7FFFFFFF) % 4
        value = json.dumps({"id": str(i), **x}).encode()
        out.append(Outgoing(f"{before}obs", key, value, NOW + 10 * i, (), part))
        label = json.dumps({"id": str(i), "label": y}).encode()
        out.append(Outgoing(f"{before}ans", key, label, NOW + 10 * i + 300, (), part))
    return out


class Shards:
    """A service of several shards, on an embedded log if no other is named, of which any can be
    drained alone."""

    def __init__(
        self,
        directory: Any,
        shards: int = 2,
        more: str = "",
        mix: str = "1h",
        *,
        url: str = "",
        before: str = "",
    ) -> None:
        self.directory, self.url = directory, url or f"sqlite:{directory / 'log.db'}"
        self.shards, self.more, self.mix = shards, more, mix
        self.model, self.before = 'type = "GaussianNB"', before
        self.log = open_log(self.url)
        for topic, partitions in TOPICS.items():
            self.log.create_topic(before + topic, partitions)
        for topic in ("svc-journal", "svc-mix"):
            self.log.create_topic(before + topic, shards)

    def partition(self, topic: str, number: int) -> Partition:
        """A partition of its topics."""
        return Partition(self.before + topic, number)

    @property
    def text(self) -> str:
        """Its configuration as TOML."""
        mix = f'mix = "{self.mix}"\n' if self.mix else ""
        text = config_text(self.url, FEATURES, 40, model=self.model)
        for name in ("svc", "obs", "ans"):
            text = text.replace(f'"{name}"', f'"{self.before}{name}"')
        return text + f"\n[scale]\nshards = {self.shards}\n{mix}{self.more}"

    @property
    def config(self) -> Config:
        return parse(self.text, directory=self.directory)

    def run(self, *numbers: int) -> Fleet:
        """Drain the inputs of these shards."""
        stop = threading.Event()
        opened = lambda: open_log(self.url)  # noqa: E731
        fleet = Fleet(self.config, opened, stop, numbers, drain=True)
        fleet.run()
        return fleet

    def rebuilt(self, shard: int) -> LiveShard:
        """The shard from its journal alone."""
        found = sources(self.config, self.log, shard)
        end = self.log.end_offsets([found.journal])[found.journal]
        return rebuild(self.config, self.log, found, None, end=end)

    def relearn(self) -> None:
        """Give all shards the present settings."""
        ready = []
        for number in range(self.shards):
            found, store = sources(self.config, self.log, number), open_store(self.config, number)
            ready.append(learned_again(self.config, self.log, found, store))
        swap(self.config, self.log, ready, now=NOW, reason="test")

    def rollback(self, shard: int, to: int) -> None:
        """Remove what the journal has after this position."""
        found = sources(self.config, self.log, shard)
        live = rebuild(self.config, self.log, found, None, end=to)
        with closing(self.log.owner(f"{self.before}svc", shard, found.inputs)) as owner:
            roll_back(self.log, owner, found, live, now=NOW, reason="test")

    def mixes(self, shard: int) -> list[MixRecord]:
        """The mixes of a shard, from its journal."""
        journal = self.partition("svc-journal", shard)
        end = self.log.end_offsets([journal])[journal]
        every = (entry for _, entry in entries(self.log, journal, 0, end))
        return [entry for entry in every if isinstance(entry, MixRecord)]


def whole(records: list[Any]) -> GaussianNB:
    """One model that has seen all records."""
    model = GaussianNB()
    for x, y in records:
        model.learn_one(x, y)
    return model


class Failing:
    """A log whose owners fail at their next mix, before or after it is committed."""

    def __init__(self, log: Any, *, after: bool, left: int = 2) -> None:
        self._log, self._after, self.left = log, after, left

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def owner(self, *args: Any) -> Any:
        return FailingOwner(self, self._log.owner(*args))


class FailingOwner:
    """The owner of a `Failing` log."""

    fenced = ""

    def __init__(self, log: Failing, owner: Any) -> None:
        self._log, self._owner = log, owner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._owner, name)

    def commit(self, records: Any, journal: Outgoing, positions: Any) -> int:
        failing = self._log.left > 0 and b'"kind":"mix"' in (journal.value or b"")
        self._log.left -= failing
        if failing and not self._log._after:
            raise TransportError("the broker is away")
        at = self._owner.commit(records, journal, positions)
        if failing:
            raise TransportError("the broker answered too late")
        return int(at)


def assert_predicts_as(learner: Any, model: GaussianNB, records: list[Any]) -> None:
    """On some of the records, up to the rounding of a merge."""
    for x, _ in records[::20]:
        assert learner.predict_proba_one(x) == pytest.approx(model.predict_proba_one(x), abs=1e-9)


def learned_ids(service: Shards, shard: int) -> set[str]:
    """The records of a shard whose observation and label are in its history, by its journal."""
    journal = service.partition("svc-journal", shard)
    end = service.log.end_offsets([journal])[journal]
    history: list[dict[str, Any]] = []
    then: dict[int, list[dict[str, Any]]] = {}
    for chunk in service.log.read({journal: 0}, {journal: end}) if end else ():
        for value in chunk.values:
            entry = json.loads(value or b"")
            history = list(then[entry["to"]]) if entry["kind"] == "rollback" else [*history, entry]
            then[entry.get("seq", 0)] = history
    ids: dict[str, set[str]] = {service.before + "obs": set(), service.before + "ans": set()}
    for entry in history:
        for topic, number, first, stop, *_ in entry.get("ranges", ()):
            at = Partition(topic, number)
            for chunk in service.log.read({at: first}, {at: stop}) if first < stop else ():
                ids[topic] |= {(key or b"").decode() for key in chunk.keys}
    return set.intersection(*ids.values())


def violations_of(service: Shards, records: list[Any], sent: int) -> list[str]:
    """What does not hold after all shards have mixed; empty if all holds.

    Each journal repeats what was predicted, and a snapshot gives the same bits. All shards predict
    with the same bits, as one learner that saw all records that are left. Each observation was
    predicted once.

    Parameters
    ----------
    records
        By number.
    sent
        How many of them the inputs have.
    """
    found: list[str] = []
    learned: list[str] = []
    everyone = []
    for number in range(service.shards):
        live = service.rebuilt(number)  # raises where a hash differs
        learned += sorted(learned_ids(service, number), key=int)
        everyone.append(live.shard.learner)
        own = sources(service.config, service.log, number)
        end = service.log.end_offsets([own.journal])[own.journal]
        store = open_store(service.config, number)
        warm = rebuild(service.config, service.log, own, store, end=end)
        if warm.shard.fingerprint() != live.shard.fingerprint():
            found.append(f"shard {number}: the snapshot and the journal give other bits")
        live.shard.learner.mix({})  # else one may have learned since, and the other merged
    if len({learner.predictor.fingerprint() for learner in everyone}) > 1:
        found.append("the shards predict with other bits")
    model = whole([records[int(i)] for i in learned])
    for x, _ in records[::40]:
        expected = model.predict_proba_one(x)
        for number, learner in enumerate(everyone):
            if learner.predict_proba_one(x) != pytest.approx(expected, abs=1e-7):
                found.append(f"shard {number} does not predict as one model of all records")
                break
    parts = [service.partition("svc-predictions", n) for n in range(4)]
    log = service.log
    chunks = log.read(log.beginning_offsets(parts), log.end_offsets(parts))
    ids = sorted(json.loads(value)["id"] for chunk in chunks for value in chunk.values)
    if ids != sorted(str(i) for i in range(sent)):
        found.append(f"{sent} observations, {len(ids)} predictions")
    return found


class Attack:
    """Random events on a service of shards that mix. One seed is one attack.

    Parameters
    ----------
    directory
        Empty. It is left as it is at the end.
    """

    def __init__(self, seed: int, directory: Any) -> None:
        self.rng = random.Random(seed)
        self.service = Shards(directory, self.rng.choice([2, 2, 3, 4]), mix="1ms")
        self.records = phishing()
        self.rng.shuffle(self.records)
        self.sent = 0
        self.mixes = self.failures = self.rollbacks = 0

    def violations(self, events: int = 12) -> list[str]:
        """What does not hold after random events and a calm end; empty if all holds."""
        acts = [self._send, self._run, self._run, self._run, self._forget, self._roll_back]
        self._send()
        for _ in range(events):
            self.rng.choice(acts)()
        self._send()
        for number in (*range(self.service.shards), *range(self.service.shards)):
            self.service.run(number)
        for number in range(self.service.shards):
            self.mixes += len(self.service.mixes(number))
        return violations_of(self.service, self.records, self.sent)

    def _send(self) -> None:
        count = self.rng.randint(1, 60)
        some = self.records[self.sent : self.sent + count]
        self.service.log.append(keyed(some, self.sent))
        self.sent += len(some)

    def _run(self) -> None:
        numbers = self.rng.sample(range(self.service.shards), self.rng.randint(1, 2))
        if self.rng.random() < 0.5:
            self.service.run(*numbers)
            return
        logs: list[Failing] = []
        after, left = self.rng.random() < 0.5, self.rng.randint(1, 2)

        def opened() -> Any:
            logs.append(Failing(open_log(self.service.url), after=after, left=left))
            return logs[-1]

        Fleet(self.service.config, opened, threading.Event(), numbers, drain=True).run()
        self.failures += sum(left - log.left for log in logs)

    def _forget(self) -> None:
        """Lose the snapshots of a shard."""
        shutil.rmtree(home(self.service.config, self.rng.randrange(self.service.shards)), True)

    def _roll_back(self) -> None:
        shard = self.rng.randrange(self.service.shards)
        journal = self.service.partition("svc-journal", shard)
        end = self.service.log.end_offsets([journal])[journal]
        if end:
            self.service.rollback(shard, to=self.rng.randint(1, end))
            self.rollbacks += 1
