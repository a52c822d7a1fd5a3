"""Snapshots that somebody wrote, with a right checksum: the journal outranks them."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import example

from consumers.base.errors import DivergedError
from consumers.base.records import Partition
from consumers.journal import records as journal
from consumers.journal.records import CommitRecord
from consumers.service.live import LiveShard
from consumers.service.recovery import rebuild, sources
from consumers.snapshots.format import START, from_bytes, header_size, peek, to_bytes
from stream.data.state import State
from tests.consumers.conftest import MakeService, Service
from tests.consumers.feeds import fill, phishing
from tests.consumers.service.test_recovery import base_of, edited
from tests.seed import seeds

FORGERIES = 6  # of each history


def forged(data: bytes, random: Random) -> bytes:
    """Some numbers of the state changed, its checksum computed again."""
    told, state = from_bytes(data)
    arrays = {name: a.copy() for name, a in state.arrays.items()}
    header = msgspec.json.decode(msgspec.json.encode(dict(state.header)))
    if random.random() < 0.3:
        at = random.choice(header["shard"]["positions"])
        at[2] = max(0, at[2] + random.choice([-7, -1, 1, 3, 10**6]))
    else:
        tables = [n for n, a in arrays.items() if a.dtype.kind == "f" and a.size]
        tables.sort(key=lambda name: -arrays[name].size)
        for name in tables[: random.randint(1, 4)]:
            arrays[name][...] += random.choice([1.0, -1.0, 2.0**40, 1e-3])
    return to_bytes(told, State(header, arrays))


def improbable(data: bytes, name: str, number: float) -> bytes:
    """The snapshot with an invalid probability of a waiting prediction."""
    told, state = from_bytes(data)
    arrays = {key: a.copy() for key, a in state.arrays.items()}
    (path,) = (key for key in arrays if key.endswith(f"waiting/{name}"))
    arrays[path].flat[0] = number
    return to_bytes(told, State(state.header, arrays))


def history(make_service: MakeService, random: Random) -> Service:
    """Commits and snapshots of any size, some runs stopped under way."""
    service = make_service()
    fill(service.log, phishing(random.randint(60, 200)))
    sizes = {"max_records": random.randint(5, 40), "every_records": random.randint(20, 150)}
    for stop_after in (random.randint(1, 4), random.randint(1, 4), None):
        service.run(stop_after=stop_after, **sizes)
    return service


def rebuilt(service: Service) -> LiveShard:
    """From the snapshots there are."""
    config = service.config()
    found = sources(config, service.log)
    end = service.ends("svc-journal")[0]
    return rebuild(config, service.log, found, base_of(service), end=end)


def followed(service: Service) -> list[Path]:
    """Snapshots that journal records follow; the others are removed."""
    end = service.ends("svc-journal")[0]
    position = {p: from_bytes(p.read_bytes())[0].position for p in service.snapshots()}
    for path, at in position.items():
        if at >= end:
            path.unlink()
    return [path for path, at in position.items() if at < end]


@example(seed=0)  # some are refused
@seeds(0.015)
def test_forged_snapshot_that_does_not_replay_costs_time_only(own_services, seed) -> None:
    """Any of them, changed at random: the start never ends, and says what the journal says."""
    refused, random = 0, Random(seed)
    with own_services() as make_service:
        service = history(make_service, random)
        whole, paths = service.rebuilt(), followed(service)
        known = {at for entry in service.entries() for at, _ in entry.snapshots}
        good = {path: path.read_bytes() for path in paths}
        for _ in range(FORGERIES):
            chosen = random.sample(paths, random.randint(1, len(paths)))
            for path in chosen:
                path.write_bytes(forged(good[path], random))
            live = rebuilt(service)
            refused += len(live.refused)
            assert live.chain == whole.chain
            # One whose writer came to its end after the last entry of a run is in no entry.
            if live.loaded is None or live.loaded[0] in known:
                assert live.shard.fingerprint() == whole.shard.fingerprint()
            for path in chosen:
                path.write_bytes(good[path])

    assert refused or seed != 0


@pytest.mark.parametrize("name", ["proba", "prior"])
@pytest.mark.parametrize("number", [2.0**40, 1.5, -0.1, np.nan, np.inf])
def test_probability_of_what_waits_that_is_none_is_refused(ran_thrice, name, number) -> None:
    """One of 2^40 used not to fit the integers of the estimate; no label asks for most of them."""
    newest = followed(ran_thrice)[-1]
    newest.write_bytes(improbable(newest.read_bytes(), name, number))
    live = rebuilt(ran_thrice)

    assert f"array '{name}': expected numbers from 0 to 1" in live.refused[0]
    assert live.shard.fingerprint() == ran_thrice.fingerprint()


def test_older_snapshot_is_taken_where_the_newest_does_not_replay(ran_thrice) -> None:
    """One line says why; the state is that of the journal."""
    *_, older, newest = followed(ran_thrice)
    newest.write_bytes(shifted(newest.read_bytes()))
    live = rebuilt(ran_thrice)

    assert live.snapshot == from_bytes(older.read_bytes())[0].now
    assert "its replay fails (journal record" in live.refused[0]
    assert "an older snapshot is tried" in live.refused[0]
    assert len(live.refused) == 1
    assert live.shard.fingerprint() == ran_thrice.fingerprint()


def shifted(data: bytes) -> bytes:
    """A state that stands one record further than it was journaled."""
    told, state = from_bytes(data)
    header = msgspec.json.decode(msgspec.json.encode(dict(state.header)))
    header["shard"]["positions"][0][2] += 1
    return to_bytes(told, State(header, state.arrays))


def embellished(data: bytes) -> bytes:
    """A state that has counted more than it saw: no prediction and no score shows it."""
    told, state = from_bytes(data)
    header = msgspec.json.decode(msgspec.json.encode(dict(state.header)))
    header["shard"]["counts"]["observations"] += 5_000
    return to_bytes(told, State(header, state.arrays))


def test_what_no_prediction_shows_is_told_by_the_journal(ran_thrice) -> None:
    """The entry after a snapshot has the fingerprint of its state."""
    path = followed(ran_thrice)[-1]
    path.write_bytes(embellished(path.read_bytes()))
    live = rebuilt(ran_thrice)

    assert "was written with state" in live.refused[0]
    assert live.shard.fingerprint() == ran_thrice.fingerprint()


def test_entry_that_a_rollback_cut_out_still_tells_of_a_snapshot(ran_thrice) -> None:
    """It is passed over; the state before it must be the one that was saved all the same."""
    path = followed(ran_thrice)[-1]
    at = from_bytes(path.read_bytes())[0].position
    last = journal.decode(ran_thrice.records("svc-journal")[-1].value)
    assert isinstance(last, CommitRecord)
    chain = from_bytes(path.read_bytes())[0].chain
    cut = journal.RollbackRecord(last.seq + 1, last.now, to=at - 1, chain=chain)
    ran_thrice.log.append([journal.written(cut, Partition("svc-journal", 0), last.now)])
    path.write_bytes(embellished(path.read_bytes()))
    live = rebuilt(ran_thrice)

    assert "was written with state" in live.refused[0]
    assert live.shard.fingerprint() == ran_thrice.fingerprint()


def test_shard_that_stands_elsewhere_is_named_not_the_log(ran_thrice) -> None:
    """The records are those that were consumed: the message must not blame them."""
    path = followed(ran_thrice)[-1]
    path.write_bytes(shifted(path.read_bytes()))

    assert "but the shard is at" in rebuilt(ran_thrice).refused[0]


def test_replay_ends_where_no_snapshot_and_not_the_journal_agrees(ran, make_service) -> None:
    """One other bit in the chain of an entry: each is tried, then the start ends."""
    last = len(ran.records("svc-journal")) - 1
    entry = journal.decode(ran.records("svc-journal")[last].value)
    assert isinstance(entry, CommitRecord)
    wrong = msgspec.structs.replace(entry, chain=f"{int(entry.chain, 16) ^ 1:016x}")
    service = edited(make_service, ran, "svc-journal", last, value=journal.encode(wrong))
    shutil.copytree(ran.directory / "headwater-state", service.directory / "headwater-state")

    with pytest.raises(DivergedError, match=f"recorded hash at journal record {last}"):
        rebuilt(service)


@pytest.mark.parametrize("levels", [2_000, 200_000])
def test_header_too_deep_to_be_read_is_passed_over(ran_thrice, levels) -> None:
    """It has a right checksum, and ended each start with RecursionError."""
    newest = ran_thrice.snapshots()[-1]
    data = newest.read_bytes()
    size = header_size(data)
    head, body = data[START : START + size], data[START + size : -32]
    deep = head.replace(b'"state":{', b'"state":{"x":' + b"[" * levels + b"]" * levels + b",", 1)
    deep += b" " * (-len(deep) % 8)
    whole = data[:8] + len(deep).to_bytes(8, "little") + deep + body
    newest.write_bytes(whole + hashlib.sha256(whole).digest())
    live = rebuilt(ran_thrice)

    assert peek(deep) is None
    assert "damaged: its header cannot be read" in live.refused[0]
    assert live.shard.fingerprint() == ran_thrice.fingerprint()
