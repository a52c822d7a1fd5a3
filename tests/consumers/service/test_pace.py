"""How many records a commit has, and when a snapshot is due."""

from __future__ import annotations

import threading
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from consumers.base.records import Partition
from consumers.config import parse, sections
from consumers.journal import records as journal
from consumers.service import pace
from consumers.service.pace import MOST_INTERPRETED, InterpretedPace, SnapshotDue, commit_size
from consumers.service.runner import Runner
from consumers.transports import open_log
from tests.consumers.feeds import config_text, fill, phishing, shard

PLACE = Partition("obs", 0)


@pytest.mark.parametrize(
    ("given", "waiting", "size"),
    [
        ("", 0, 5_000),
        ("", 5_001, 5_001),
        ("", 19_999, 19_999),
        ("", 10**6, 20_000),
        ("max_records = 7", 10**6, 7),
        ("max_records = 50_000", 0, 50_000),
    ],
)
def test_commit_grows_while_enough_records_wait(given, waiting, size) -> None:
    """Unless the size is set. An input with an unknown end counts as read."""
    text = config_text("memory:pace", ["a"]).replace("max_records = 50\n", f"{given}\n")
    commit, machine = parse(text).commit, shard()
    machine.positions = {PLACE: 100, Partition("ans", 0): 5}

    assert commit_size(commit, machine, 2**40, {PLACE: 100 + waiting}) == size
    assert commit_size(commit, machine, 2**40, {}) == commit.usual_records


@pytest.mark.parametrize(
    ("given", "partitions", "records", "size"),
    [
        ("", 128, 20_000, 2**24),
        ("", 800, 80_000, 800 * 2**17),
        ("", 10**4, 100_000, 2**27),
        ("max_records = 7", 800, 7, 800 * 2**17),
        ('max_bytes = "2MiB"', 800, 80_000, 2**21),
    ],
)
def test_commit_may_have_records_of_hundreds_of_partitions(
    given, partitions, records, size
) -> None:
    """Unless its size is set."""
    text = config_text("memory:pace", ["a"]).replace("max_bytes = 16777216\n", "")
    text = text.replace("max_records = 50\n", f"{given}\n")
    commit, machine = parse(text).commit, shard()
    machine.positions = {Partition("obs", n): 0 for n in range(partitions)}

    assert commit_size(commit, machine, 2**40, {PLACE: 10**7}) == records
    assert commit.most_bytes(partitions) == size


def test_bytes_bound_a_grown_commit() -> None:
    """Predictions may take `max_bytes`."""
    text = config_text("memory:pace", ["a"]).replace("max_records = 50\n", "")
    commit, machine = parse(text).commit, shard()
    machine.positions = {PLACE: 0}
    most = machine.records_within(2**23)

    assert 5_000 < most < 20_000
    assert commit_size(commit, machine, 2**23, {PLACE: 10**6}) == most
    assert commit_size(commit, machine, 2**23, {PLACE: most - 1}) == most - 1
    assert commit_size(commit, machine, 2**20, {PLACE: 0}) == machine.records_within(2**20)


def test_service_with_a_backlog_writes_the_same_in_fewer_commits(tmp_path, monkeypatch) -> None:
    """As many as wait, from the first commit on."""
    monkeypatch.setattr(sections, "USUAL_RECORDS", 50)
    monkeypatch.setattr(sections, "MOST_RECORDS", 400)
    found = []
    for name, given in (("set", "max_records = 50\n"), ("free", "")):
        url = f"sqlite:{tmp_path}/{name}.db"
        text = config_text(url, list(phishing(1)[0][0])).replace("max_records = 50\n", given)
        config = parse(text, directory=tmp_path / name)
        with closing(open_log(url)) as log:
            fill(log, phishing())
            Runner(config, log, threading.Event(), drain=True).run()
            places = [Partition(topic, 0) for topic in ("svc-predictions", "svc-journal")]
            ends = log.end_offsets(places)
            chunks = list(log.read(dict.fromkeys(places, 0), ends))
        made = [v for c in chunks if c.partition == places[0] for v in c.values]
        entries = [journal.decode(v) for c in chunks if c.partition == places[1] for v in c.values]
        commits = [entry for entry in entries if isinstance(entry, journal.CommitRecord)]
        found.append((made, [sum(r.count for r in commit.ranges) for commit in commits]))

    (slow, usual), (fast, grown) = found
    assert slow == fast
    assert len(fast) == 1250
    assert max(usual) == 50
    assert max(grown) == 400
    assert len(grown) < len(usual) // 4


def test_snapshot_waits_for_the_writer_and_stays_due() -> None:
    """While the one before is written, and also if the run ends then."""
    config = parse(config_text("memory:due", ["a"], every_records=100))
    live: Any = SimpleNamespace(replayed=0, rebuilt=True, shard=SimpleNamespace(records=0))
    due = SnapshotDue(config, live)

    live.shard.records = 150
    assert not due(live, busy=True)
    assert due.changed
    live.shard.records = 160
    assert due(live, busy=False)
    assert not due.changed
    live.shard.records = 259
    assert not due(live, busy=False)
    assert due.changed


def test_commits_of_interpreted_kernels_are_as_many_records_as_are_quick(monkeypatch) -> None:
    """Few at first, at most 50, and one if each record takes seconds; all as machine code."""
    monkeypatch.setattr(pace, "interpreting", lambda: True)
    quick, slow = InterpretedPace(), InterpretedPace()
    sizes = []
    for _ in range(6):
        sizes.append(quick.within(1000))
        quick.took(sizes[-1], 0.003 * sizes[-1])
    slow.took(10, 50.0)

    assert sizes == [10, 20, 40, MOST_INTERPRETED, MOST_INTERPRETED, MOST_INTERPRETED]
    assert slow.within(1000) == 1
    assert quick.within(7) == 7
    monkeypatch.setattr(pace, "interpreting", lambda: False)
    assert slow.within(1000) == 1000
