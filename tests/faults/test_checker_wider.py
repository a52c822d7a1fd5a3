"""The checker with shards, corrections and rollbacks: a clean run passes, a lie is caught."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.faults import clean, states
from tests.faults.checker import cut_out
from tests.faults.clean import NAMES, Run, Topics

KINDS = {
    "shards": {"shards": 2},
    "corrections": {"corrections": True},
    "rollbacks": {"rollbacks": 2},
    "all": {"shards": 2, "corrections": True, "rollbacks": 1},
}


@pytest.fixture(scope="module", params=KINDS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One of them."""
    return clean.run(tmp_path_factory.mktemp("clean"), **KINDS[request.param])


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All in one."""
    return clean.run(tmp_path_factory.mktemp("clean"), **KINDS["all"])


def copied(log: Topics) -> Topics:
    return {part: list(records) for part, records in log.items()}


def test_clean_run_passes(run) -> None:
    """Whatever it learns by, and from every snapshot that may be used."""
    cuts = [cut_out(run.log, NAMES, shard) for shard in range(run.shards)]
    snapshots = sorted((run.config.parent / "headwater-state").rglob("snap-*.hws"))

    assert run.violations(run.log, copied(run.log), run.committed) == []
    assert states.differences(run.config, snapshots, cuts) == []


def rewrite(log: Topics, shard: int, which: Callable[[dict], bool], **changes: object) -> None:
    """The first entry of a shard that is so says something else."""
    journal = log["journal", shard]
    at, told = next((i, e) for i, r in enumerate(journal) if which(e := json.loads(r.value)))
    journal[at] = journal[at]._replace(value=json.dumps({**told, **changes}).encode())


def exchange(log: Topics) -> None:
    """Two shards have each other's journal."""
    log["journal", 0], log["journal", 1] = log["journal", 1], log["journal", 0]


MUTANTS: dict[str, tuple[Callable[[Topics], None], str]] = {
    "rollback to another entry": (
        lambda log: rewrite(log, 0, lambda e: e["kind"] == "rollback", to=1),
        "values:",
    ),
    "rollback into the future": (
        lambda log: rewrite(log, 0, lambda e: e["kind"] == "rollback", to=99),
        "goes back to 99",
    ),
    "a shard without a journal": (
        lambda log: log["journal", 1].clear(),
        "that of shard 1 does not begin",
    ),
    "shards exchanged": (exchange, "which is another shard's"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_of_the_journal_is_caught(every, mutant) -> None:
    """By the check that is meant for it."""
    mutate, told = MUTANTS[mutant]
    log = copied(every.log)
    mutate(log)

    found = every.violations(log, copied(log), every.committed)

    assert any(told in line for line in found), found


def test_correction_that_was_not_learned_is_caught(every) -> None:
    """An oracle that lets the first label win comes to other numbers."""
    found = every.violations(every.log, copied(every.log), every.committed, corrections=False)

    assert any(line.startswith("values:") for line in found)


def test_cut_of_a_rollback_that_was_cut_out_itself_does_not_count(every) -> None:
    """Entries 4 and 5 by the first; 2 to 7, the first rollback among them, by the second."""
    part = (NAMES.journal, 0)
    told = [{"kind": "commit", "seq": n} for n in range(9)]
    told[6] = {"kind": "rollback", "seq": 6, "to": 3}
    first = {part: [every.log[part][0]._replace(value=json.dumps(e).encode()) for e in told]}
    told[8] = {"kind": "rollback", "seq": 8, "to": 1}
    second = {part: [every.log[part][0]._replace(value=json.dumps(e).encode()) for e in told]}

    assert cut_out(first, NAMES, 0) == {4, 5}
    assert cut_out(second, NAMES, 0) == {2, 3, 4, 5, 6, 7}
