"""Whatever fails and whenever: exactly once, and the same bits."""

from __future__ import annotations

import pytest

from consumers import runner
from tests.simulation.world import RECORDS, World


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What an undisturbed service writes."""
    return World(0, tmp_path_factory.mktemp("undisturbed")).undisturbed()


@pytest.mark.parametrize("seed", range(40))
def test_service_in_a_failing_world_does_what_it_would_have_done(
    seed, expected, tmp_path, monkeypatch
) -> None:
    """Each prediction once, in order, with the same bytes; the state is the journal's."""
    monkeypatch.setattr(runner, "PAUSE_SECONDS", 0.0)
    told = World(seed, tmp_path).run()

    assert len(told.predictions) == RECORDS
    assert told.predictions == expected.predictions
    assert told.fingerprint == told.from_journal == expected.fingerprint


def test_the_worlds_do_fail(tmp_path, monkeypatch) -> None:
    """Every kind of failure happens in the seeds above, or they would prove nothing."""
    monkeypatch.setattr(runner, "PAUSE_SECONDS", 0.0)
    told = [World(seed, tmp_path / str(seed)).run() for seed in range(12)]

    for kind in ("deaths", "failures", "lost_answers", "takeovers", "damaged"):
        assert sum(getattr(t, kind) for t in told) > 0, kind


CHALLENGERS = """
[[challenger]]
name = "bins"
type = "CategoricalNB"
[[challenger]]
name = "near"
type = "KNNClassifier"
window = 50
[promotion]
rule = "e_value"
threshold = 1.2
"""


def test_challengers_in_a_failing_world_are_promoted_where_they_would_have_been(
    tmp_path, monkeypatch
) -> None:
    """Six seeds: the line-up is journaled through the same failures, and so is who speaks."""
    monkeypatch.setattr(runner, "PAUSE_SECONDS", 0.0)
    expected = World(0, tmp_path / "undisturbed", CHALLENGERS).undisturbed()
    assert {b'"name":"svc"' in (value or b"") for _, value in expected.predictions} == {True, False}

    for seed in range(6):
        told = World(seed, tmp_path / str(seed), CHALLENGERS).run()
        assert told.predictions == expected.predictions
        assert told.fingerprint == told.from_journal == expected.fingerprint
