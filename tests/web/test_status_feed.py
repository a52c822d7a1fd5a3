"""What the loop posts: bounded, newest last, and never more than was committed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from consumers.base.health import Health
from consumers.base.records import Batch, Outgoing, Partition
from consumers.shard.views import LATEST, Committed, PublishedPrediction
from consumers.web import status_feed as status_feeds
from consumers.web.questions import PAUSE_SECONDS, Questions
from consumers.web.status_feed import PACE_SECONDS, POINTS, SECONDS, AccuracyPoint, StatusFeed
from stream import GaussianNB
from stream.evaluate.quality import QualityView, _Lazy
from stream.evaluate.scores import Scores
from tests.consumers.feeds import NOW, batch, seen, shard, told
from tests.telemetry.views import view


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def commit(**changed) -> Committed:
    given = {"records": 1, "predictions": 1, "learned": 1, "labels": {}, "rejected": {}}
    return Committed(**{**given, "seconds": 0.01, "position": 0, **changed})


def after(scored: int, accuracy: float | None = 0.5, **changed):
    """A view in which so many predictions have been scored."""
    all_, last = (
        Scores(n, accuracy, 0.1, {"majority": accuracy, "no_change": accuracy})
        for n in (scored, min(scored, 1000))
    )
    scores = {"all": all_, "last_1000": last}
    return view(quality=QualityView((), np.zeros((0, 0), np.int64), scores, 0), **changed)


def status_feed(clock: Clock | None = None) -> StatusFeed:
    return StatusFeed(clock or Clock(), lambda: Health("live"))


@pytest.mark.parametrize("step", [1, 7, 5000])
def test_curve_spans_everything_within_its_bound(step: int) -> None:
    """However many commits: the first point, the newest one, and none too close between."""
    clock = Clock()
    posted = status_feed(clock)
    counts = range(step, 3000 * step, step)
    for scored in counts:
        clock.now += PACE_SECONDS
        posted.committed(commit(), after(scored, scored % 100 / 100))
        assert len(posted.curve) <= POINTS
        if scored >= status_feeds.FIRST:
            assert posted.newest_curve()[-1] == AccuracyPoint(scored, *[scored % 100 / 100] * 3)
    scored = [p.scored for p in posted.newest_curve()]
    gaps = np.diff(scored)

    assert scored[0] == next(n for n in counts if n >= status_feeds.FIRST)
    assert len(scored) > POINTS / 3
    assert gaps[:-1].min() * 3 > gaps.max()


def test_curve_asks_for_scores_only_now_and_then() -> None:
    """They are computed when they are read: a fast loop has no time for that at each commit."""
    clock, asked = Clock(), []
    posted = status_feed(clock)
    for tenth in range(100):
        clock.now = 1000 + tenth * PACE_SECONDS / 10
        made = after(100 + tenth)
        seen = dict(made.quality.scores)
        scores = _Lazy({w: lambda w=w, seen=seen: (asked.append(w), seen[w])[1] for w in seen})
        posted.committed(commit(), replace(made, quality=replace(made.quality, scores=scores)))

    assert len(posted.curve) == 10
    assert len(asked) <= 2 * 11


def test_curve_begins_when_an_accuracy_is_more_than_chance() -> None:
    """Without an accuracy there is no curve."""
    posted = status_feed()
    posted.recovered(after(0, None))
    posted.committed(commit(), after(status_feeds.FIRST - 1))

    assert posted.curve == posted.newest_curve() == ()


def test_rolled_back_curve_ends_where_the_state_does() -> None:
    """What was learned since is forgotten, so it is not shown."""
    clock = Clock()
    posted = status_feed(clock)
    for scored in (100, 200, 300):
        clock.now += PACE_SECONDS
        posted.committed(commit(), after(scored))
    clock.now += PACE_SECONDS
    posted.recovered(after(150))

    assert [p.scored for p in posted.curve] == [100, 150]


def test_seconds_are_one_each_and_the_last_five_minutes() -> None:
    """The last commit of a second stands for it."""
    clock = Clock()
    posted = status_feed(clock)
    for tenth in range(10 * SECONDS + 300):
        clock.now = 1000 + tenth / 10
        posted.committed(commit(), after(0, None, observations=tenth))
    at = [second.at for second in posted.seconds]

    assert at == list(range(at[-1] - SECONDS, at[-1] + 1))
    assert posted.seconds[-1].observations == 10 * SECONDS + 299
    assert posted.seconds[-2].observations == 10 * SECONDS + 289


def test_last_predictions_and_dead_letters_are_few_and_light() -> None:
    """A record that is too large to keep is shown and cannot be asked about."""
    posted = status_feed()
    for i in range(3):
        many = [PublishedPrediction(b"%d" % (100 * i + k), b"x", b"{}") for k in range(LATEST - 3)]
        out = Outgoing("dead", None, b"x" * 100_000)
        posted.committed(commit(latest=many, dead=[out]), after(0, None))
    posted.committed(
        commit(latest=[PublishedPrediction(b"big", b"x" * 100_000, b"{}")]), after(0, None)
    )

    assert len(posted.latest) == LATEST
    assert posted.latest[-1] == PublishedPrediction(b"big", None, b"{}")
    assert [len(out.value or b"") for out in posted.dead] == [status_feeds.LARGEST_KEPT] * 3


def test_lag_counts_what_lies_between_positions_and_ends() -> None:
    """Of the inputs whose end is known; an end that is older than a commit is no lag."""
    posted = status_feed()
    one, two, three = (Partition("observations", n) for n in range(3))
    nothing = posted.lag()
    posted.recovered(view(positions={one: 70, two: 30, three: 9}))
    posted.reached({one: 100, two: 20})

    assert nothing is None
    assert posted.lag() == 30


def test_what_is_not_news_changes_no_version() -> None:
    """The same ends again: an idle service has nothing to say."""
    posted = status_feed()
    posted.reached({Partition("observations", 0): 5})
    before = posted.version
    posted.reached({Partition("observations", 0): 5})

    assert posted.version == before


def test_loop_answers_one_question_at_a_time_and_changes_no_bit() -> None:
    """However many wait; the model is the one it was."""
    live = shard(GaussianNB())
    records = [r for i in range(20) for r in (seen(f"{i}", i, a=i % 2), told(f"{i}", i % 2, i))]
    live.process(batch(records), NOW)
    before = live.fingerprint()
    questions, clock = Questions(), Clock()
    said = PublishedPrediction(None, json.dumps({"id": "x", "a": 1.0}).encode(), b"")
    asked = [questions.ask(said) for _ in range(2)]
    done = []
    for _ in range(3):
        questions.answer(live, clock)
        done.append([question.done() for question in asked])
        clock.now += PAUSE_SECONDS / 2
    why, learned = asked[0].result()

    assert done == [[True, False], [True, False], [True, True]]
    assert (why.label, why.against, learned) == (1, 0, 20)
    assert why == live.learner.explain_one({"a": 1.0})
    assert live.fingerprint() == before


KERNELS = """
import sys
from pathlib import Path
from stream.kernel.tiers import kernels
from consumers.service.warm_up import compile_kernels
from consumers.config import parse
from consumers.shard.models import build
head = 'name="x"\\n[input]\\ntransport="memory:x"\\nobservations="o"\\nlabels="l"\\n'
config = parse(head + '[features]\\na="numeric"\\nc="categorical"\\n', directory=Path("."))

def compiled():
    return sum(len(k.machine.signatures) for k in kernels() if "machine" in vars(k))

compile_kernels(config, lambda line: None)
learner = build(config.model)
for x, y in 2 * [({"a": 1.0, "c": "red"}, "yes"), ({"a": 2.0, "c": "blue"}, "no")]:
    learner.predict_proba_one(x)
    learner.learn_one(x, y)
before = compiled()
learner.explain_one({"a": 1.5, "c": "red"})
print(before > 0, compiled() - before)
"""


def test_first_explanation_compiles_nothing() -> None:
    """It would stop the loop for seconds: what it runs is compiled at the start."""
    done = subprocess.run([sys.executable, "-c", KERNELS], capture_output=True, text=True)

    assert done.stdout == "True 0\n", done.stderr


def test_question_that_cannot_be_answered_does_not_end_the_loop() -> None:
    """Whoever asked hears of it; the loop goes on."""

    class Broken:
        spec = None
        learner = None

    questions = Questions()
    asked = questions.ask(PublishedPrediction(None, b"{}", b""))
    questions.answer(Broken(), lambda: 0.0)

    assert isinstance(asked.exception(), AttributeError)


def test_question_nobody_waits_for_is_passed_over() -> None:
    """A browser that was closed costs no explanation."""
    questions = Questions()
    asked = questions.ask(PublishedPrediction(None, b"{}", b""))
    asked.cancel()
    questions.answer(None, lambda: 0.0)

    assert asked.cancelled()


def test_commit_shows_its_last_predictions_as_published() -> None:
    """Each beside the very record it is of, though others of the batch were refused."""
    from consumers.service.commit import _latest

    records = [seen(f"{i}", i, a=float(i)) for i in range(40)]
    spoilt = [r._replace(value=b"{") if r.offset % 3 == 0 else r for r in records]
    taken: Batch = batch(spoilt)
    outcome = shard(GaussianNB()).process(taken, NOW)
    latest = _latest(outcome, list(outcome.predictions()))

    kept = [r.offset for r in spoilt if r.value != b"{"][-LATEST:]
    assert [json.loads(s.prediction)["position"]["offset"] for s in latest] == kept
    assert [json.loads(s.observation)["id"] for s in latest] == [str(i) for i in kept]
