"""A default that a release changed: a journal goes on with the one it was begun with."""

from __future__ import annotations

import pytest

from consumers.config.auto import Defaults
from consumers.config.learner import ModelConfig
from consumers.service import beginning
from consumers.shard.models import build
from consumers.snapshots.exported import load_model
from consumers.snapshots.format import from_bytes
from consumers.timetravel.export import exported
from tests.consumers.feeds import fill, phishing

TEXT = {"model": 'type = "MultinomialNB"'}
CHALLENGED = {**TEXT, "more": '[[challenger]]\nname = "other"\ntype = "MixedNB"\n'}


def alphas(service) -> list[float]:
    """Of the champion and of the challenger, in the newest snapshot."""
    state = from_bytes(service.snapshots()[-1].read_bytes())[1]
    machine = state.nested("machine").nested("learner").header["parameters"]
    shadow = state.nested("roster").nested("shadow 0").nested("learner").header["parameters"]
    return [machine["alpha"], shadow.get("token_alpha")]


def test_journal_begun_before_goes_on_with_the_first_defaults(
    make_service, monkeypatch, tmp_path
) -> None:
    """Champion and challenger, to the same bits, from a snapshot and from the journal alone."""
    service = make_service()
    fill(service.log, phishing())
    with monkeypatch.context() as patch:
        patch.setattr(beginning, "RULES", 1)
        service.run(stop_after=20, **CHALLENGED)
    view = service.run(**CHALLENGED)
    ran = from_bytes(service.snapshots()[-1].read_bytes())[1]

    assert view.learned > 1000
    assert alphas(service) == [1.0, None]
    assert service.rebuilt(**CHALLENGED).shard.fingerprint() == ran.fingerprint()
    assert load_model(service.snapshots()[-1])._get_params()["alpha"] == 1.0
    live = service.rebuilt(**CHALLENGED)
    (tmp_path / "model.hw").write_bytes(exported(service.config(**CHALLENGED), live)[1])
    loaded = load_model(tmp_path / "model.hw")
    assert loaded.fingerprint() == live.shard.learner.fingerprint()
    assert (loaded.limits, loaded._get_params()["alpha"]) == (None, 1.0)


def test_new_journal_has_the_new_defaults(make_service) -> None:
    """And a value that is configured is taken in both."""
    service = make_service()
    fill(service.log, phishing())
    service.run(**CHALLENGED)

    assert alphas(service) == [0.3, 0.3]
    assert load_model(service.snapshots()[-1])._get_params()["alpha"] == 0.3


@pytest.mark.parametrize(("first", "expected"), [(True, 1.0), (False, 0.3)])
def test_what_is_configured_is_taken_whatever_the_default_was(first, expected) -> None:
    """Only what is left out depends on when the journal was begun."""
    left_out = ModelConfig(type="MultinomialNB")
    given = ModelConfig(type="MultinomialNB", parameters={"alpha": 0.7})

    assert build(left_out, Defaults(first))._get_params()["alpha"] == expected
    assert build(given, Defaults(first))._get_params()["alpha"] == 0.7
