"""Progressive validation of a data set: delays as river has them, checkpoints, predictions."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from river import datasets

from stream import GaussianNB
from stream.errors import InvalidRecordError
from stream.evaluate import progressive
from tests.oracles.scores import TABLE, difference, watched

START = datetime(2026, 1, 1)


def timed(n: int = 300) -> list:
    """Records of Bananas with a time that goes on unevenly, and how long each label takes."""
    rng = np.random.default_rng(3)
    out, at = [], START
    for x, y in datasets.Bananas().take(n):
        at += timedelta(seconds=int(rng.integers(0, 90)))
        out.append(({**x, "at": at, "takes": timedelta(seconds=int(rng.integers(0, 3000)))}, y))
    return out


def slower(x, y) -> timedelta:
    """One class is known later than the other."""
    return timedelta(minutes=30 if y else 2)


@pytest.mark.parametrize(
    ("moment", "delay"),
    [
        ("at", timedelta(minutes=20)),
        ("at", "takes"),
        (lambda x: x["at"], slower),
        (None, lambda x, y: 40 if y else 7),
    ],
    ids=["constant", "a field", "a function", "records"],
)
@pytest.mark.parametrize("block_size", [1, 64])
def test_labels_come_when_river_says_they_do(moment, delay, block_size) -> None:
    """Every score is that of the same learner asked one by one in river's order."""
    hidden = [name for name in ("at", "takes") if name not in (moment, delay)]
    data = [({k: v for k, v in x.items() if k not in hidden}, y) for x, y in timed()]
    if callable(moment):
        times = {x["1"]: x["at"] for x, _ in timed()}
        data, moment = [({"1": x["1"], "2": x["2"]}, y) for x, y in data], lambda x: times[x["1"]]
    twin = watched(data, GaussianNB(), moment, delay)
    *_, view = progressive(data, GaussianNB(), delay=delay, moment=moment, block_size=block_size)
    of, w = twin.window("all", 0, 1.0)

    assert (view.n, view.scores["all"].scored, view.unscored) == (300, len(of.true), twin.unscored)
    for name, (ours, theirs, _) in TABLE.items():
        assert difference(ours(view.scores["all"]), theirs(of, w)) < 1e-9, name


def test_label_that_is_due_comes_before_one_asked_earlier() -> None:
    """Where times go back: river asks only for the oldest, and the others wait behind it."""
    seconds = [100, 10, 20, 30]
    data = [({"x": float(i), "at": s}, "ab"[i % 2]) for i, s in enumerate(seconds)]
    *_, view = progressive(data, GaussianNB(), delay=5, moment="at", block_size=1)

    assert view.predictions.classes == ["b", "a"]  # the second record's label was due first
    assert view.unscored == 2


@pytest.mark.parametrize("block_size", [1, 7, 1024])
def test_checkpoints_stand_every_so_many_records(block_size) -> None:
    """With all predictions since the last one; blocks change no bit."""
    data = list(datasets.Phishing().take(230))
    got = list(progressive(data, GaussianNB(), delay=20, step=50, block_size=block_size))
    whole = list(progressive(data, GaussianNB(), delay=20))[-1]

    assert [now.n for now in got] == [50, 100, 150, 200, 230]
    assert [len(now.predictions) for now in got] == [50, 50, 50, 50, 30]
    assert [now.scores["all"].scored for now in got] == [10, 60, 110, 160, 210]
    assert got[-1].scores == whole.scores
    said = np.concatenate([now.predictions.proba[:, :2] for now in got[1:]])
    assert np.array_equal(said, whole.predictions.proba[50:])
    labels = [label for now in got for label in now.predictions.labels()]
    assert labels == whole.predictions.labels()
    assert all(before.scores != after.scores for before, after in pairwise(got))


def test_window_of_the_last_records_may_be_chosen() -> None:
    """Its name says how many there are."""
    *_, view = progressive(datasets.Phishing().take(200), GaussianNB(), window=64)

    assert list(view.scores) == ["all", "last_64", "fading"]
    assert view.scores[view.last].scored == 64


def test_record_without_a_label_is_predicted_only() -> None:
    """However many there are, no record that has one is given up."""
    data = [(x, y if i % 3 == 0 else None) for i, (x, y) in enumerate(datasets.Phishing())]
    *_, asked, view = progressive(data, GaussianNB(), delay=900, block_size=8, step=1250)
    labelled = sum(y is not None for _, y in data)

    assert (asked.n, len(asked.predictions), view.n, len(view.predictions)) == (1250, 1250, 1250, 0)
    assert view.scores["all"].scored + view.unscored == labelled == 417


def test_weights_are_learned_and_stay_with_their_owner() -> None:
    """The same as learning with them; river empties the dicts it is given."""
    rng = np.random.default_rng(1)
    data = [(x, y, {"w": float(rng.integers(1, 9))}) for x, y in datasets.Phishing().take(100)]
    learner, by_hand = GaussianNB(), GaussianNB()
    for x, y, more in data:
        by_hand.learn_one(x, y, w=more["w"])
    list(progressive(data, learner))

    assert learner.fingerprint() == by_hand.fingerprint()
    assert all("w" in more for _, _, more in data)


def test_label_of_another_kind_is_refused_by_name() -> None:
    """One line: what it was and why."""
    data = [({"x": 0.0}, True), ({"x": 1.0}, "yes")]

    with pytest.raises(InvalidRecordError, match="'yes' was rejected"):
        list(progressive(data, GaussianNB()))
