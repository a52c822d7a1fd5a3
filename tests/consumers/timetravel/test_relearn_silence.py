"""Silence under new settings: what it taught is what was published, whichever model did."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from consumers.base.records import Outgoing
from consumers.service.live import LiveShard
from consumers.service.recovery import about_of, recover, sources
from consumers.snapshots.store import open_store
from consumers.timetravel.audit import audit
from consumers.timetravel.moment import moment, rebuild_at
from consumers.timetravel.relearn import learned_again, swap
from consumers.timetravel.rollback import roll_back
from stream import GaussianNB, MixedNB
from tests.consumers.feeds import NOW, phishing
from tests.oracles.relearned import Learned, Logs, history, learned, place_of
from tests.seed import seeds

SILENCE = "[labels]\ncorrections = true\nsilence = false\nafter = '150ms'\nscore_silence = {}\n"
MODELS: dict[str, Callable[[], Any]] = {
    'type = "GaussianNB"': GaussianNB,
    'type = "GaussianNB"\nvar_smoothing = 0.5': lambda: GaussianNB(var_smoothing=0.5),
    'type = "MixedNB"': MixedNB,
}
OLD, NEW, _ = MODELS
DECISIONS = (
    "",
    "[decision]\nreject = 0.2\n",
    "[decision]\nlosses.junk = {true = 0, false = 3}\nlosses.keep = {true = 1, false = 0}\n",
)


def fed(service, first: int, end: int, random: Random) -> None:
    """Records `first` to `end` - 1, of which users flag phishing, at once, late, or never."""
    records = []
    for i, (x, y) in list(enumerate(phishing(end)))[first:]:
        at = NOW + 10 * i
        value = json.dumps({"id": str(i), **x}).encode()
        records.append(Outgoing("obs", b"", value if i % 29 else value[:-2], at, (), 0))
        if i % 17 == 5:  # seen twice
            records.append(Outgoing("obs", b"", value, at + random.choice((30, 300)), (), 0))
        late = random.choice((5, 75, 255, 455))
        label = json.dumps({"id": str(i), "label": y}).encode()
        if (y and random.random() < 0.8) or random.random() < 0.05:
            records.append(Outgoing("ans", b"", label, at + late, (), 0))
    service.log.append(sorted(records, key=lambda r: r.timestamp))


def topics(service) -> None:
    """The topics of a service, empty."""
    for topic in ("obs", "ans", "svc-predictions", "svc-dead-letters", "svc-journal"):
        service.log.create_topic(topic, 1)


def relearned(service, **settings) -> None:
    """As the command does."""
    config = service.config(**settings)
    found, store = sources(config, service.log), open_store(config, 0)
    both = learned_again(config, service.log, found, store)
    swap(config, service.log, [both], now=NOW, reason="")


def cut_to(service, position: int, **settings) -> None:
    """Roll back to a journal position, with a snapshot of it."""
    config = service.config(**settings)
    found, store = sources(config, service.log), open_store(config, 0)
    then = moment(service.log, found.journal, str(position))
    live = rebuild_at(config, service.log, found, store, then)
    owner = service.log.owner("svc", 0, found.inputs)
    roll_back(service.log, owner, found, live, now=NOW, reason="")
    owner.close()
    part = store.of(live.identity)
    with part.locked():
        part.write(about_of(config, live), live.shard.to_state())


def logs(service) -> Logs:
    """What the service has read and written, as bytes."""
    inputs = {
        (r.topic, r.partition, r.offset): (r.timestamp, r.value)
        for topic in ("obs", "ans")
        for r in service.records(topic)
    }
    written = [[r.value for r in service.records(t)] for t in ("svc-journal", "svc-predictions")]
    return Logs(inputs, "ans", *written)


def otherwise(prediction: dict[str, Any]) -> bool:
    """Whether a published prediction puts the record where nobody looks."""
    action = prediction.get("decision", {}).get("action")
    if action in ("junk", "keep"):
        return action == "junk"
    if "decision" in prediction:  # rejected, or the label itself
        return action not in (None, False, "false")
    return prediction["prediction"] not in (None, False)


def expected(service, commits: Sequence[dict[str, Any]], model: str, *, scored: bool) -> Learned:
    """By the oracle."""
    learner, silence = MODELS[model](), (False, 150)
    return learned(logs(service), commits, learner, silence, scored=scored, against=otherwise)


def same(shard, oracle: Learned) -> None:
    """The model, its scores and the outcomes of labels are those of the oracle."""
    view = shard.view()
    for x, _ in phishing(60):
        there, here = (m.predict_proba_one(x) for m in (oracle.learner, shard.learner))
        assert here == pytest.approx(there, abs=1e-9)
    assert {o: n for o, n in view.labels.items() if n} == oracle.outcomes
    assert view.quality.confusion.sum() == oracle.scored
    right = (view.quality.scores["all"].accuracy or 0.0) * oracle.scored
    assert right == pytest.approx(oracle.right)


def published_as(service, begun: int, end: int, model: str, *, scored: bool) -> int:
    """Compare the predictions of a span of the journal with those of this model; how many."""
    told = logs(service)
    commits = history(told.journal[:end])
    then = expected(service, commits, model, scored=scored).predictions
    made = [json.loads(value or b"") for value in told.published]
    count = 0
    for place, here in ((place_of(p), p) for p in made):
        if any(begun <= c["seq"] < end and within(c, place) for c in commits):
            assert here["prediction"] == then[place]["prediction"]
            there = then[place]["probabilities"]
            assert dict(map(tuple, here["probabilities"])) == pytest.approx(there, abs=1e-6)
            count += 1
    return count


def within(commit: dict[str, Any], place: tuple[str, int, int]) -> bool:
    """Whether the commit consumed the record at this place."""
    return any((t, n) == place[:2] and a <= place[2] < b for t, n, a, b, *_ in commit["ranges"])


def recovered(service, **settings) -> LiveShard:
    """By a start, with snapshots."""
    config = service.config(**settings)
    found = sources(config, service.log)
    owner = service.log.owner("svc", 0, found.inputs)
    try:
        return recover(config, service.log, owner, found, open_store(config, 0), now=NOW)
    finally:
        owner.close()


def machine(live: LiveShard) -> str:
    """Of model, join and scores. What decisions cost is counted by the present losses."""
    return live.shard.to_state().nested("machine").fingerprint()


@seeds(0.005)
def test_silence_teaches_every_model_what_was_published(own_services, seed: int) -> None:
    """Whatever is re-learned, rolled back, stopped and decided by: an oracle of its own agrees.

    The predictions of each time are those of the model of that time.
    """
    with own_services() as make_service:
        random, service = Random(seed), make_service("memory")
        topics(service)
        scored = random.random() < 0.5
        more, model, at = SILENCE.format(str(scored).lower()), OLD, 0
        spans: list[tuple[int, int, str]] = []  # of journal records, with the model of the time
        then = {0: OLD}  # model after each journal position
        for _ in range(random.randint(3, 5)):
            settings = {"model": model, "more": more + random.choice(DECISIONS)}
            fed(service, at, at := at + random.randint(30, 90), random)
            begun = service.ends("svc-journal")[0]
            sizes = {"max_records": random.randint(5, 60), "every_records": random.randint(20, 200)}
            service.run(stop_after=random.choice((None, None, 2)), **sizes, **settings)
            service.run(**sizes, **settings)
            end = service.ends("svc-journal")[0]
            spans.append((begun, end, model))
            then |= dict.fromkeys(range(begun + 1, end + 1), model)
            if random.random() < 0.3:
                back = random.randrange(2, end + 1)
                cut_to(service, back, **settings)
                model = then[end + 1] = then[back]
            if random.random() < 0.8:
                model = random.choice([m for m in MODELS if m != model])
                relearned(service, **{**settings, "model": model})
                then[service.ends("svc-journal")[0]] = model
        settings = {"model": model, "more": more}
        config, whole = service.config(**settings), service.rebuilt(**settings)
        found, store = sources(config, service.log), open_store(config, 0)

        commits = history(logs(service).journal)
        same(whole.shard, expected(service, commits, model, scored=scored))
        assert machine(recovered(service, **settings)) == machine(whole)
        assert sum(published_as(service, *span, scored=scored) for span in spans) > 50
        for id_ in random.sample([i for i in range(at) if i % 29], 3):
            assert audit(config, service.log, found, store, str(id_)).same


def test_replay_in_pieces_is_silent_about_the_same_records(make_service) -> None:
    """A commit that does not fit into memory is read in pieces, each with its part of the bits."""
    service, more = make_service("memory"), SILENCE.format("false")
    topics(service)
    fed(service, 0, 250, Random(1))
    service.run(model=OLD, more=more, max_records=200)
    relearned(service, model=NEW, more=more)
    whole = service.rebuilt(model=NEW, more=more)
    pieces = service.rebuilt(model=NEW, more=more, max_bytes=4_000)

    assert whole.shard.view().labels["silence_ignored"] > 5
    assert pieces.shard.fingerprint() == whole.shard.fingerprint()
