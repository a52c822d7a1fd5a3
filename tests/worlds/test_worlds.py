"""Random services that are killed, beside their twins: a few worlds, and who judges them.

`python -m tests.long.configurations` runs hundreds, in processes that are killed by SIGKILL.
"""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from consumers.service import recovery
from consumers.transports.sqlite.file import Database
from tests.consumers.feeds import NOW
from tests.faults.seen import Seen
from tests.seed import of_run
from tests.worlds.features import FEATURES, choices, clash, named, pairs_of, possible, read
from tests.worlds.judge import Told, differences, joined, twin
from tests.worlds.lives import Trap
from tests.worlds.services import Setting
from tests.worlds.world import World

LIVES_HERE = {  # what needs no other process, and no kernels that are rarely loaded
    "learner": ("GaussianNB", "MixedNB"),
    "format": ("json", "header", "avro"),
    "processes": ("one",),
    "feed": ("in parts",),
    "command": ("none",),
    "fault": ("failpoint", "power"),
    "http": ("off",),
    "log": ("sqlite",),
}
EMBEDDED = {"log": ("sqlite",)}


@pytest.mark.parametrize("number", range(2))
def test_killed_service_ends_as_its_twin_that_was_not(tmp_path: Path, number: int) -> None:
    """The same predictions, dead letters, labels and states, from other lives."""
    choice = next(islice(choices(of_run(), LIVES_HERE), number, None))

    done = World(choice, of_run() + number, tmp_path, forks=False, count=50).run()

    assert not done.violations, f"{named(choice)}: {done.violations}"
    assert not done.refused, f"{named(choice)}: {done.refused}"


def test_log_that_is_not_on_the_disk_is_noticed(tmp_path: Path, monkeypatch) -> None:
    """SQLite is told not to fsync: a cut of power takes what was acknowledged."""
    real = Database._prepare

    def prepare(database: Database) -> None:
        real(database)
        database.connection.execute("PRAGMA synchronous = OFF")

    monkeypatch.setattr(Database, "_prepare", prepare)
    choice = read("fault=power, commits=small")

    done = World(choice, 1, tmp_path, forks=False, count=50).run()

    assert any("after a cut of power" in line for line in done.violations)


def test_outputs_that_are_not_written_again_are_noticed(tmp_path: Path, monkeypatch) -> None:
    """At least once, a service that is killed between a commit and its outputs owes them."""
    monkeypatch.setattr(recovery, "write_again", lambda log, live: None)
    monkeypatch.setattr(Trap, "drawn", lambda random, **_: Trap("append before", 1))
    choice = read("guarantee=at_least_once, fault=failpoint, commits=small")

    done = World(choice, 1, tmp_path, forks=False, count=50).run()

    assert any("missing" in line for line in done.violations)


A, B = (("obs", 0, 0, -1), (b"a", 1)), (("obs", 0, 1, -1), (b"b", 1))


@pytest.mark.parametrize(
    ("came", "allowed", "expected"),
    [
        ([A, B], {}, ""),
        ([A], {}, "1 missing"),
        ([A, B, A], {}, "1 too many"),
        ([A, B, A], {"repeats": True}, ""),
        ([A, B, (A[0], (b"x", 1))], {"repeats": True}, "1 too many"),
        ([A, (B[0], (b"x", 1))], {}, "the twin's"),
        ([B, A], {}, "another order"),
        ([B, A], {"ordered": False}, ""),
    ],
)
def test_judge_names_what_is_not_as_in_the_twin(
    came: list[Any], allowed: dict[str, bool], expected: str
) -> None:
    """A record that is lost, doubled, changed, or in another place."""
    found = differences("records", came, [A, B], **{"repeats": False, "ordered": True, **allowed})

    assert bool(found) == bool(expected)
    assert expected in "".join(found)


def test_early_label_that_is_refused_is_due_from_the_service_that_refuses_it(
    tmp_path: Path,
) -> None:
    """It comes before the command, when all is well, and its observation after it."""
    setting, records = Setting(read("labels=early"), "svc", "memory:x", tmp_path, ""), []
    for id_, label in zip("abcd", ("ham", "spam", "other", "rare"), strict=True):
        records.append(("ans", {"id": id_, "label": label}))
    records += [("obs", {"id": id_, "visits": 1.0}) for id_ in "abcd"]
    inputs: dict[tuple[str, int], list[Seen]] = {}
    for at, (topic, record) in enumerate(records):
        seen = inputs.setdefault((f"svc-{topic}", 0), [])
        value = json.dumps(record).encode()
        seen.append(Seen(f"svc-{topic}", 0, len(seen), NOW + at, None, value))

    new = twin(setting, inputs, tmp_path / "twin", 0, None)
    due = joined(Told(), new, {("svc-ans", 0): 4, ("svc-obs", 0): 2}, setting.config())
    late = joined(new, Told(), {("svc-ans", 0): 4, ("svc-obs", 0): 2}, setting.config())

    assert new.causes == [("svc-obs", 0, 3, -1)]
    assert [json.loads(r.value or b"") for r in due.dead] == [{"id": "d", "label": "rare"}]
    assert late.dead == []


def test_worlds_have_features_that_fit_and_new_pairs_first() -> None:
    """Ten of them have most pairs that ten could have; each is what its name says."""
    every, seen = possible(EMBEDDED), set[Any]()
    drawn = list(islice(choices(of_run(), EMBEDDED), 10))

    for choice in drawn:
        assert not clash(choice)
        assert read(named(choice)) == choice
        seen |= pairs_of(choice)
    assert seen <= every
    assert len(seen) > 0.5 * len(drawn) * len(pairs_of(drawn[0]))


def test_every_feature_can_be_had() -> None:
    """No value is excluded by all others."""
    had = {feature for pair in possible({"log": FEATURES["log"]}) for feature in pair}

    assert had == {(feature, value) for feature, every in FEATURES.items() for value in every}
