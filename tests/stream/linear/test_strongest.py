"""The strongest features of messages, against a slow twin that names every feature first."""

from __future__ import annotations

import pytest

from stream import SpamScorer
from stream.linear import explained as module
from stream.linear.explained import strongest
from tests.stream.linear.test_spam import learned, messages


def twin(model: SpamScorer, records: list[dict], sign: int, views, least: float) -> list[float]:
    """The evidence on one side, the strongest first, feature by feature."""
    named = {f.id: f for x in records for f in model.features_of(x) if f.view in views}
    known = model.evidence_of(named, "spam", "ham")
    found = [e.log_odds for e in known if sum(e.records.values()) >= max(least, 1e-300)]
    return sorted((odds for odds in found if sign * odds > 0), key=lambda odds: -sign * odds)


@pytest.mark.parametrize("together", [1, 60, 2**18])
@pytest.mark.parametrize(("views", "least"), [((0, 1, 2, 3), 0.0), ((0, 3), 5.0)])
@pytest.mark.parametrize("classes", [2, 4])
def test_strongest_are_those_of_the_twin(
    monkeypatch: pytest.MonkeyPatch, together: int, views, least: float, classes: int
) -> None:
    """However the rows are divided; each is named, with its own evidence."""
    model = learned(messages(120, classes))
    records = [x for x, _, _ in messages(50, classes, seed=5)]
    monkeypatch.setattr(module, "TOGETHER", together)

    found = strongest(model, model.rows(records), 7, "spam", "ham", views=views, least=least)

    for sign, side in ((1, found.towards), (-1, found.against)):
        odds = [each.log_odds for each in side]
        assert odds == twin(model, records, sign, views, least)[:7]
        ids = [each.named.id for each in side]
        alone = model.evidence_of(ids, "spam", "ham")
        assert [e.log_odds for e in alone] == odds
        assert [e.records for e in alone] == [each.records for each in side]
        assert all(each.named.view in views for each in side)
    compared = {f.id for x in records for f in model.features_of(x) if f.view in views}
    assert found.compared == len(compared)


def test_a_feature_that_was_never_learned_is_not_strong() -> None:
    """Only what the table has; a word of a new message says nothing."""
    model = SpamScorer()
    model.learn_many([{"text": "free"}, {"text": "lunch"}], ["spam", "ham"])

    found = strongest(model, model.rows([{"text": "zebra"}]), 5, "spam", "ham", views=[0])

    assert (found.towards, found.against, found.compared) == ([], [], 1)


def test_no_rows_have_no_features() -> None:
    """An input without records."""
    model = learned(messages(20, 2))

    assert strongest(model, model.rows([]), 5, "spam", "ham") == ([], [], 0)
