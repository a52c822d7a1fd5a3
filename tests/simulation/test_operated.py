"""Whatever operators take back while the inputs change: the same promises."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from consumers.base.records import Partition
from consumers.journal.reader import move_positions
from consumers.journal.records import CommitRecord
from consumers.service import recovery
from consumers.timetravel import rollback
from tests.seed import seeds
from tests.simulation.operated import Operated
from tests.simulation.weather import until_all
from tests.simulation.world import SMALL

SHOWING = [0, 1, *range(60)]  # seeds that show each command; further ones where the code moved on
FEW = [41, *range(85, 185)]  # the first that finds what is taken out ends it


@seeds(0.1)
def test_rollbacks_and_promotions_among_inputs_that_change_break_no_promise(
    seed, tmp_path_factory
) -> None:
    """Lost, doubled, other bits, unsaid, said without a reason: nothing."""
    world = Operated(seed, tmp_path_factory.mktemp("world"), **SMALL)
    world.run()

    assert world.wrong == []


def test_operators_do_roll_back_and_promote(tmp_path) -> None:
    """Or the seeds would prove nothing."""
    kinds = {"rolled back", "rolled back over a change", "promoted"}
    worlds = (Operated(seed, tmp_path / f"{n}", **SMALL) for n, seed in enumerate(SHOWING))
    seen = until_all(kinds, (world.run().faults for world in worlds))

    assert kinds - sum(seen, Counter()).keys() == set()


def first_wrong(directory: Path) -> list[str]:
    """What the first of a few seeds finds that finds anything."""
    for seed in FEW:
        world = Operated(seed, directory / str(seed), **SMALL)
        world.run()
        if world.wrong:
            return world.wrong
    return []


def test_rollback_that_forgets_what_its_span_says_of_the_inputs_is_found(
    tmp_path, monkeypatch
) -> None:
    """As it was: a snapshot of today's positions and yesterday's topics."""

    def forgetful(entry, live, *, cut) -> None:
        move_positions(entry, live.shard.positions)
        if isinstance(entry, CommitRecord):
            live.shard.forget_early(entry.early)

    def believed(left, about, positions):
        return dict(about.topics), {Partition(r.topic, r.partition): r for r in about.tails}

    monkeypatch.setattr(rollback, "apply_skipped", forgetful)
    monkeypatch.setattr(recovery, "known_by", believed)

    assert first_wrong(tmp_path) != []


def test_one_seed_is_one_run(tmp_path) -> None:
    """What it finds can be looked at again."""
    one, two = (Operated(9, tmp_path / name, **SMALL).run() for name in "ab")

    assert (one.faults, one.commits) == (two.faults, two.commits)
