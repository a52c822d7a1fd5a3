"""Whatever settings operators give the model, and whatever fails meanwhile: the same promises."""

from __future__ import annotations

from collections import Counter

from consumers.service import replay
from tests.seed import seeds
from tests.simulation.relearned import Relearning
from tests.simulation.weather import until_all
from tests.simulation.world import SMALL

SHOWING = [1, 5, 6, *range(40)]  # seeds in which the service goes on while an operator compares
FEW = range(4, 44)  # seeds, among which some find what is broken; the first that does ends it


@seeds(0.01)
def test_new_settings_among_failures_break_no_promise(seed, tmp_path_factory) -> None:
    """Lost, doubled, of the wrong model, learned otherwise: nothing."""
    assert Relearning(seed, tmp_path_factory.mktemp("world"), **SMALL).run().wrong == []


def test_operators_do_give_new_settings(tmp_path) -> None:
    """While the service goes on, too; some are refused. Or the seeds would prove nothing."""
    kinds = {"re-learned", "went on meanwhile", "refused", "compared"}
    worlds = (Relearning(seed, tmp_path / f"{n}", **SMALL) for n, seed in enumerate(SHOWING))
    seen = until_all(kinds, (world.run().told.faults for world in worlds))

    assert kinds - sum(seen, Counter()).keys() == set()


def test_silence_by_the_decisions_of_the_new_model_is_found(tmp_path, monkeypatch) -> None:
    """The new model would learn that nobody objected to what nobody could see."""
    monkeypatch.setattr(replay, "unpacked", lambda bits, count: Unread())
    worlds = (Relearning(n, tmp_path / str(n), **SMALL).run() for n in FEW)

    assert any(world.wrong for world in worlds)


class Unread:
    """Bits that no replay uses."""

    def __getitem__(self, part: slice) -> None:
        return None
