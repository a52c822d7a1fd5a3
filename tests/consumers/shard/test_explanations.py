"""[output] explain: each prediction with the shares it rests on, whatever the batches."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from consumers.base.errors import ConfigError
from consumers.base.records import Partition, Record
from consumers.config import parse
from consumers.shard.batches import Commit, Explained
from consumers.shard.challengers import ChallengerSet
from consumers.shard.models import build, check_able
from stream.contest.champion import MODEL
from stream.drift import DriftRule, MonitorRule
from tests.consumers.feeds import NOW, batch, seen, shard, told


def run(machine, records: list[Record], cuts=()):
    """All records in batches that end at `cuts`: predictions, decoded."""
    out = []
    for start, stop in pairwise([0, *sorted(cuts), len(records)]):
        outcome = machine.process(batch(records[start:stop]), NOW)
        out += [json.loads(p.value) for p in outcome.predictions()]
    return out


def records_of(n: int) -> list[Record]:
    """Observations, each answered before the next."""
    out = []
    for i in range(n):
        out += [seen(str(i), i, a=float(i % 7), b=float(-i % 5)), told(str(i), "pq"[i % 2], i)]
    return out


@pytest.mark.parametrize("cuts", [(), (1,), (5, 6, 20, 33), tuple(range(1, 60))])
def test_explanations_do_not_depend_on_the_batches(cuts) -> None:
    """Each is made of the state that made the prediction; the rest of the record is the same."""
    machine, plain = shard(explain=2), shard()
    said = run(machine, records_of(30), cuts)

    assert said == run(shard(explain=2), records_of(30))
    for prediction in said:
        prediction.pop("explanation", None)
    assert said == run(plain, records_of(30))
    assert machine.fingerprint() == plain.fingerprint()


@pytest.mark.parametrize("asked", [2, 17, 29])
def test_one_prediction_is_explained_as_with_all_others(asked: int) -> None:
    """The other steps run as blocks without explanations; predictions and state are the same."""
    whole, one = shard(explain=3), shard()
    all_of_them = whole.process(batch(records_of(30)), NOW).result
    place = (Partition("obs", 0), asked, None)
    found = one.process(batch(records_of(30)), NOW, Commit(explain=Explained(3, place))).result

    assert found.explanations[asked] == all_of_them.explanations[asked]
    assert found.explanations[asked] is not None
    assert [i for i, why in enumerate(found.explanations) if why is not None] == [asked]
    assert found.predictions.proba.tobytes() == all_of_them.predictions.proba.tobytes()
    assert whole.fingerprint() == one.fingerprint()


def test_shares_are_the_largest_and_add_up() -> None:
    """With every share told they sum to the log-odds of the two classes."""
    said = run(shard(explain=10), records_of(30))

    assert "explanation" not in said[1]
    for prediction in said[2:]:
        why = prediction["explanation"]
        shares = [share for _, share in why["top"]]
        assert sum(sorted(shares)) == pytest.approx(why["log_odds"], rel=1e-9, abs=1e-12)
        assert [abs(s) for s in shares] == sorted((abs(s) for s in shares), reverse=True)
        assert {prediction["prediction"], why["against"]} == {"p", "q"}


@pytest.mark.parametrize("drift", [False, True])
@pytest.mark.parametrize("champion", [MODEL, "rival"])
def test_no_more_shares_are_held_than_are_written(drift, champion) -> None:
    """A commit of long texts would hold a hundred bytes a word until it is encoded."""
    rule = {"drift": DriftRule((MonitorRule("error", "DDM", {}),))} if drift else {}
    machine = shard(explain=2, **rule)
    challenger_set = ChallengerSet({"rival": {"type": "GaussianBayes", "parameters": {}}}, 1e300)
    machine.set_challengers(challenger_set)
    machine.set_challengers(challenger_set, champion)

    outcome = machine.process(batch(records_of(30)), NOW)

    held = [why for why in outcome.result.explanations if why is not None]
    assert len(held) > 20
    assert {len(why.contributions) for why in held} == {2}
    assert any(why.log_odds != sum(why.contributions.values()) for why in held)


@pytest.mark.parametrize("name", ["KNNClassifier", "river:tree.HoeffdingTreeClassifier"])
def test_learner_without_shares_is_refused_in_one_line(name) -> None:
    """What it cannot tell is said at start, not left out in silence."""
    config = parse(
        f'name = "x"\n[input]\ntransport = "memory:x"\nobservations = "o"\n'
        f'[model]\ntype = "{name}"\n[output]\nexplain = 3\n'
    )

    with pytest.raises(ConfigError, match=f"explain: {name} cannot explain predictions; remove"):
        check_able(config, build(config.model))
