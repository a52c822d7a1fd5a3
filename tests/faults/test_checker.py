"""The checker is checked: a clean run passes, and each lie a service could tell is caught."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from consumers.snapshots.format import from_bytes, to_bytes
from stream.data.state import State
from tests.faults import clean, states
from tests.faults.clean import NAMES, RECORDS, Run, Topics
from tests.faults.feed import OBSERVATIONS


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Elec2 through the embedded log, five input partitions."""
    return clean.run(tmp_path_factory.mktemp("clean"))


def drop(log: Topics, topic: str) -> None:
    """The middle record of partition 0 was never written."""
    records = log[topic, 0]
    del records[len(records) // 2]


def double(log: Topics, topic: str) -> None:
    """It was written twice."""
    records = log[topic, 0]
    records.append(records[len(records) // 2]._replace(offset=records[-1].offset + 1))


def swap(log: Topics, topic: str) -> None:
    """Two neighbours have changed places."""
    records = log[topic, 0]
    k = len(records) // 2
    a, b = records[k], records[k + 1]
    records[k], records[k + 1] = b._replace(offset=a.offset), a._replace(offset=b.offset)


def rewrite(log: Topics, topic: str, at: int, change: Callable[[dict], None]) -> None:
    """One record says something else."""
    record = log[topic, 0][at]
    told = json.loads(record.value)
    change(told)
    log[topic, 0][at] = record._replace(value=json.dumps(told).encode())


def flip_bit(said: dict) -> None:
    """The last bit of one probability."""
    pair = said["probabilities"][0]
    bits = struct.unpack("<q", struct.pack("<d", pair[1]))[0] ^ 1
    pair[1] = struct.unpack("<d", struct.pack("<q", bits))[0]


def replay_with_sends(log: Topics) -> None:
    """A recovery said everything of its last two entries again."""
    for part, lying in log.items():
        if part[0] == NAMES.predictions:
            again = lying[-15:]
            lying += [r._replace(offset=r.offset + len(again)) for r in again]


def trade_contents(log: Topics) -> None:
    """Two predictions have each other's numbers."""
    one, other = (json.loads(log["out", 0][k].value) for k in (60, 61))
    one["probabilities"], other["probabilities"] = other["probabilities"], one["probabilities"]
    for k, said in ((60, one), (61, other)):
        log["out", 0][k] = log["out", 0][k]._replace(value=json.dumps(said).encode())


def widen(entry: dict) -> None:
    """It takes a record that the entry before has taken."""
    entry["ranges"][0][2] -= 1


def shorten(entry: dict) -> None:
    """It ends before its last record."""
    entry["ranges"][0][3] -= 1


def dead_without_reason(log: Topics) -> None:
    """A good observation was thrown away: no prediction, but a dead letter."""
    said = json.loads(log["out", 0].pop(50).value)["position"]
    original = next(r for r in log["in", said["partition"]] if r.offset == said["offset"])
    headers = (
        ("topic", b"in"),
        ("partition", b"%d" % original.partition),
        ("offset", b"%d" % original.offset),
    )
    dead = log["dead", 0]
    dead.append(dead[-1]._replace(value=original.value, headers=headers))


MUTANTS: dict[str, tuple[Callable[[Topics], None], str]] = {
    "one output dropped": (lambda log: drop(log, "out"), "predictions: 1 missing"),
    "one output doubled": (lambda log: double(log, "out"), "predictions: 1 doubled"),
    "one float bit flipped": (lambda log: rewrite(log, "out", 80, flip_bit), "values:"),
    "two records swapped": (lambda log: swap(log, "out"), "order: partition 0"),
    "two contents traded": (trade_contents, "values:"),
    "replayed with sends on": (replay_with_sends, "doubled"),
    "another id": (lambda log: rewrite(log, "out", 9, lambda p: p.update(id="x")), "values:"),
    "another time": (lambda log: rewrite(log, "out", 9, lambda p: p.update(ts=1)), "another time"),
    "one label more learned": (
        lambda log: rewrite(log, "out", 99, lambda p: p["model"].update(learned=9_999)),
        "values:",
    ),
    "dead letter dropped": (lambda log: drop(log, "dead"), "missing"),
    "dead letter doubled": (lambda log: double(log, "dead"), "dead letters: 1 doubled"),
    "dead letter of other bytes": (
        lambda log: log["dead", 0].__setitem__(0, log["dead", 0][0]._replace(value=b"other")),
        "does not hold the original",
    ),
    "good record thrown away": (dead_without_reason, "dead letters: 1 too many"),
    "entry dropped": (lambda log: drop(log, "journal"), "where"),
    "entry doubled": (lambda log: double(log, "journal"), "journal: entry"),
    "entries swapped": (lambda log: swap(log, "journal"), "journal: entry"),
    "ranges overlap": (lambda log: rewrite(log, "journal", 3, widen), "ended at"),
    "gap between ranges": (lambda log: rewrite(log, "journal", 3, shorten), "ended at"),
    "torn transaction": (
        lambda log: rewrite(
            log, "journal", 4, lambda e: e.update(predictions=e["predictions"] + 1)
        ),
        "entry 4 of shard 0: says",
    ),
    "clock goes back": (
        lambda log: rewrite(log, "journal", 4, lambda e: e.update(now=1)),
        "goes back",
    ),
}


def copied(log: Topics) -> Topics:
    return {part: list(records) for part, records in log.items()}


def test_clean_run_passes(run) -> None:
    """Every kind of record occurs in it, and nothing is found."""
    assert run.violations(run.log, copied(run.log), run.committed) == []
    assert len(run.log["journal", 0]) > 10
    assert len(run.log["dead", 0]) > 2
    assert sum(len(run.log["out", n]) for n in range(OBSERVATIONS)) > 0.95 * RECORDS


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_of_the_topics_is_caught(run, mutant) -> None:
    """By the check that is meant for it, whatever the reader beside it saw."""
    mutate, told = MUTANTS[mutant]
    log = copied(run.log)
    mutate(log)

    found = run.violations(log, copied(log), run.committed)

    assert any(told in line for line in found), found


def test_records_of_an_aborted_commit_that_a_reader_saw_are_caught(run) -> None:
    """They are gone afterwards; only a reader that ran during the faults can tell."""
    watched = copied(run.log)
    watched["out", 1].insert(40, watched["out", 1][40]._replace(value=b"aborted"))

    (found,) = run.violations(run.log, watched, run.committed)

    assert found.startswith("watched: ('out', 1) differs from record 40 on")


@pytest.mark.parametrize("by", [-7, 1])
def test_offsets_that_are_not_the_journals_are_caught(run, by) -> None:
    """Left over from an aborted commit, or of one that never was."""
    (found,) = run.violations(
        run.log, copied(run.log), {**run.committed, ("in", 1): run.committed["in", 1] + by}
    )

    assert found.startswith("offsets: ('in', 1) is committed at")


@pytest.mark.parametrize("newest", [True, False])
def test_state_that_is_not_the_journals_is_caught(run, newest) -> None:
    """One bit of one number in a snapshot that is otherwise whole.

    The journal has the fingerprint of an older one, unless its writer came to its end last.
    """
    store = run.config.parent / "headwater-state"
    paths = sorted(store.rglob("snap-*.hws"))
    assert states.differences(run.config, paths) == []
    path = paths[-1 if newest else 0]
    whole = path.read_bytes()
    about, state = from_bytes(path.read_bytes())
    arrays = {name: np.array(a) for name, a in state.arrays.items()}
    wrong = next(a for a in arrays.values() if a.dtype == np.float64 and a.size)
    wrong.reshape(-1).view(np.int64)[0] ^= 1
    other = State(state.header, arrays)
    path.write_bytes(
        to_bytes(msgspec.structs.replace(about, fingerprint=other.fingerprint()), other)
    )

    found = states.differences(run.config, paths)
    path.write_bytes(whole)  # for the other tests

    other = f"state: from {path.name} it is not that of the journal"
    refused = f"state: {path.name} could not be used: "
    if newest:
        live = f"state: the live one at {about.position} is not that of the journal"
        assert found == [live, other]
    else:
        assert len(found) == 1
        assert found[0].startswith((refused, other))
