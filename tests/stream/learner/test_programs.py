"""Random programs over ragged records; many more by `python -m tests.long.programs`."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from stream import Calibrated, GaussianNB
from stream.data import row_store
from tests.long import programs
from tests.programs.against import FAMILIES as ORACLES
from tests.programs.against import compared
from tests.programs.exact import GaussianOracle
from tests.programs.late import FAMILIES as LATE
from tests.programs.late import late_program
from tests.programs.learners import FAMILIES
from tests.programs.merges import FAMILIES as MERGED
from tests.programs.merges import merged
from tests.programs.records import Step, Stream
from tests.programs.ways import corrected, differences, infinite, program
from tests.seed import seeds

DECIDED = range(14)  # programs of each family, of whose questions most can be decided


class Crowded(GaussianNB):
    """Its answers depend on how many records share their block."""

    def progressive_many(self, block):
        out = super().progressive_many(block)
        if len(block) > 3:
            out.proba[:] = np.nextafter(out.proba, 2.0)
        return out


@pytest.mark.parametrize("family", FAMILIES)
@seeds(0.02)
def test_no_way_of_running_a_program_changes_a_bit(family, seed) -> None:
    """By ones, in a block, in cuts, saved, pickled, copied: one answer, one state."""
    assert program(family, seed) == []


@pytest.mark.parametrize("family", LATE)
@seeds(0.02)
def test_no_way_of_running_late_labels_changes_a_bit(family, seed) -> None:
    """By ones, in cuts, saved between: what was predicted then waits with the row."""
    assert late_program(family, seed) == []


@pytest.mark.parametrize("family", ORACLES)
@seeds(0.035)
def test_answers_are_right_to_the_digits_there_are(family, seed) -> None:
    """After learning, merging and taking back."""
    assert compared(family, seed).wrong == []


@pytest.mark.parametrize("family", ORACLES)
def test_most_answers_have_digits_to_be_right_in(family) -> None:
    """Or the oracle would decide little."""
    found = [compared(family, seed) for seed in DECIDED]

    assert sum(each.sure for each in found) > 0.5 * sum(each.asked for each in found)


@pytest.mark.parametrize("family", MERGED)
@seeds(0.0625)
def test_merging_and_taking_back_in_any_order_is_learning_what_is_left(family, seed) -> None:
    """Values at the ends of a double."""
    assert merged(family, seed).wrong == []


@pytest.mark.parametrize("family", MERGED)
def test_a_third_of_the_answers_after_merges_has_digits_to_be_right_in(family) -> None:
    """Or the oracle would decide little."""
    found = [merged(family, seed) for seed in DECIDED]

    assert sum(each.sure for each in found) > 0.3 * sum(each.asked for each in found) > 0


def test_the_programs_find_a_learner_whose_blocks_differ() -> None:
    """Their own test: an answer that depends on what else is in the block is found."""
    stream = Stream(
        [{"v": float(i % 4)} for i in range(9)],
        list("ababababa"),
        [1.0] * 9,
        [Step(2, i) for i in range(9)],
    )

    assert any("values: block" in line for line in differences(Crowded(), stream, 1))


def test_the_programs_find_notes_that_are_lost_on_a_restart(monkeypatch) -> None:
    """Their own test: the step is then made from what is predicted at the label."""
    monkeypatch.setattr(row_store, "_memo", lambda state, n: None)

    assert any("state: saved" in line for n in range(8) for line in late_program("calibrated", n))


class Unsaved(Calibrated):
    """A correction makes no room for its class, so the state after it is refused."""

    correcting = False

    def correct_rows(self, *given):
        self.correcting = True
        super().correct_rows(*given)
        self.correcting = False

    def _widen(self):
        if not self.correcting:
            super()._widen()


def test_the_programs_find_a_correction_after_which_no_state_can_be_loaded() -> None:
    """Their own test: only the next record made room for the new class."""
    stream = Stream([{"v": 1.0}, {"v": 2.0}], ["a", "b"], [1.0] * 2, [Step(2, 0), Step(2, 1)])
    model = Unsaved("GaussianNB")
    model.learn_many(stream.xs, stream.ys)

    assert any(
        "cannot be loaded" in line for n in range(9) for line in corrected(model, stream, Random(n))
    )


def test_the_oracle_finds_a_variance_that_is_a_little_wrong() -> None:
    """Its own test: one part in 10**7 of a variance is more than rounding."""
    rng = Random(1)
    model, oracle, off = GaussianNB(var_smoothing=1e-9 + 1e-7), GaussianOracle(), 0
    for _ in range(40):
        y = rng.choice("ab")
        x = {name: rng.gauss("ab".index(y), 1.0) for name in "pq"}
        answer, said = oracle.answer(x), model.predict_proba_one(x)
        off += any(abs(said[y] - p) > answer.error for y, p in answer.posterior.items())
        model.learn_one(x, y)
        oracle.learn(x, y, 1.0)

    assert off > 20


def test_a_warning_of_a_program_is_a_finding(monkeypatch) -> None:
    """An overflow that numpy only warns of has poisoned something."""

    def overflowing(family: str, n: int) -> list[str]:
        np.float64(1e300) * np.float64(1e300)
        return []

    monkeypatch.setattr(programs, "program", overflowing)
    _, wrong = programs.run(range(1))

    assert len(wrong) == 1
    assert "gaussian 0: RuntimeWarning: overflow" in wrong[0]


def test_the_programs_find_a_state_that_is_infinite() -> None:
    """Their own test: such a learner answers alike in every way of running it."""
    model = GaussianNB()
    for v in (0.0, 1.0):
        model.learn_one({"v": v}, "a")
    model._gaussian._cells[0, 4, 0] = np.inf

    assert infinite(model) == ["state: gaussian/total_m2 holds an infinity"]
