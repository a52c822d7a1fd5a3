"""Random services over records of any size, cut by random bounds in bytes, against uncut ones.

The oracle is the same service with a bound that nothing reaches: one commit where the other has
hundreds, and one piece where the other replays in as many.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import numpy as np

from consumers.base.errors import TransportError
from consumers.base.records import Outgoing, record_bytes
from consumers.journal.merge import Merge
from consumers.service import replay, runner
from tests.consumers import feeds
from tests.consumers.conftest import Service

__all__ = ["program", "watched"]

UNCUT = 2**34
FAR = 4_000_000_000_000  # ms: no clock of ours believes it
DRIFT = """
[drift]
action = "{action}"
warm_up = 50
detectors = [{{on = "error", type = "DDM"}}, {{on = "score", type = "ADWIN", action = "alert"}}]
"""
CHALLENGERS = """
[[challenger]]
name = "quick"
type = "GaussianNB"
half_life = 30
[[challenger]]
name = "bayes"
type = "GaussianBayes"
"""
SHAPES = (
    "",
    DRIFT.format(action="forget"),
    DRIFT.format(action="reset"),
    CHALLENGERS + DRIFT.format(action="challenger"),
    CHALLENGERS + "[promotion]\nthreshold = 3.0\n",
    "[output]\nexplain = 5\n",
    "[labels]\ncorrections = true\n",
)
PARTITIONS = 3


def feed(rng: np.random.Generator, count: int, largest: int) -> list[Outgoing]:
    """Observations of any size and their labels later, some broken, some of the future."""
    out = []
    first_of_future = rng.random() < 0.3
    records = feeds.phishing(count)
    flipped = int(rng.integers(count))  # from here on the labels are others: drift
    for i, (x, y) in enumerate(records):
        junk = "j" * int(largest ** rng.random())
        value = json.dumps({"id": str(i), "junk": junk, **x}).encode()
        if rng.random() < 0.05:
            value = value[:-1]  # a dead letter carries all of it
        time = feeds.NOW + 10 * i
        seen = FAR if rng.random() < 0.02 or (first_of_future and i < 5) else time
        place = int(rng.integers(PARTITIONS))
        out.append((time, Outgoing("obs", b"%d" % i, value, seen, (), place)))
        late = time + 10 * int(rng.integers(1, 60)) - 5
        for n in range(1 + int(rng.random() < 0.1)):  # some are corrected
            label = {"id": str(i), "label": int(y) ^ (i >= flipped) ^ n, "junk": junk[:100]}
            told = Outgoing("ans", b"%d" % i, json.dumps(label).encode(), late + n, (), 0)
            out.append((late + n, told))
    return [record for _, record in sorted(out, key=lambda timed: timed[0])]


def program(seed: int, directory: Path) -> list[str]:
    """One random service, cut and uncut; what differs."""
    rng = np.random.default_rng(seed)
    shape, bound = SHAPES[seed % len(SHAPES)], int(2 ** rng.uniform(10, 19))
    records = feed(rng, int(rng.integers(60, 250)), int(2 ** rng.uniform(1, 16)))
    largest = max(record_bytes(r.key, r.value) for r in records)
    kind = ("memory", "sqlite")[int(rng.integers(2))]
    uncut, cut = (_service(directory / name, kind, records) for name in ("uncut", "cut"))
    found = []
    settings = {"more": shape, "max_records": 5_000, "every_records": 10**6}
    with watched() as seen:
        uncut.run(**settings, max_bytes=UNCUT)
        seen.clear()
        cut.run(**settings, max_bytes=bound)
        if max(seen) > 2 * bound + (PARTITIONS + 1) * largest:
            found.append(f"bytes: a merge of {bound} held {max(seen)}")
        if cut.predictions() != uncut.predictions():
            found.append("values: the predictions differ")
        for service, name in ((uncut, "uncut"), (cut, "cut")):
            states = set()
            for again in (UNCUT, bound, 1024, int(2 ** rng.uniform(10, 19))):
                seen.clear()
                try:
                    live = service.rebuilt(more=shape, max_records=5_000, max_bytes=again)
                except TransportError as error:
                    found.append(f"state: {name} replayed by {again}: {error}")
                    continue
                states.add(live.shard.fingerprint())
                if max(seen) > 2 * again + (PARTITIONS + 1) * largest:
                    found.append(f"bytes: a replay of {again} held {max(seen)}")
            if len(states) > 1:
                found.append(f"state: {name} depends on the pieces of its replay")
    for service in (uncut, cut):
        service.log.close()
    return [f"{line} (seed {seed})" for line in found]


def _service(directory: Path, kind: str, records: list[Outgoing]) -> Service:
    directory.mkdir()
    name = f"sqlite:{directory / 'log.db'}" if kind == "sqlite" else f"memory:{uuid4()}"
    service = Service(name, directory)
    for topic, count in (("obs", PARTITIONS), ("ans", 1), ("svc-predictions", PARTITIONS)):
        service.log.create_topic(topic, count)
    service.log.create_topic("svc-dead-letters", 1)
    service.log.create_topic("svc-journal", 1)
    service.log.append(records)
    return service


@contextmanager
def watched() -> Iterator[list[int]]:
    """The bytes of every merge each time records were added to it."""
    seen: list[int] = []

    class Noted(Merge):
        def add(self, fetched):
            super().add(fetched)
            seen.append(self.nbytes)

    before = runner.Merge, replay.Merge
    runner.Merge = replay.Merge = Noted
    try:
        yield seen
    finally:
        runner.Merge, replay.Merge = before
