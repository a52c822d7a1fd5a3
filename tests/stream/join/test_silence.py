"""Silence as a label: what it teaches, when, and what takes it back."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream import GaussianNB
from stream.contest.champion import ChampionChallenger
from stream.data.block import Rows
from stream.decision import BayesDecision
from stream.errors import SchemaError
from stream.evaluate.breaker import Breaker
from stream.evaluate.progressive import Events, Progressive
from stream.join.join import LabelJoin
from stream.join.label_delay import Silence
from tests.seed import share

AFTER = 10
HAM = Silence("ham", AFTER)
# What, id, label, milliseconds passed before, and the feature.
Letter = tuple[str, str, str | None, int, float]


def machine(silence: Silence = HAM, rule: BayesDecision | None = None, **bounds) -> Progressive:
    """A machine for which silence means something."""
    bounds = {"max_pending": 50, "horizon": 60, "corrections": True, **bounds}
    join = LabelJoin(**bounds, silence=silence)
    like = Rows.from_dicts([{"x": 1.0}])
    return Progressive(GaussianNB(), join, like, Breaker(1.0), rule=rule)


def run(on: Progressive, letters: list[Letter], cuts=(), start: int = 0) -> list[np.ndarray]:
    """Feed it in calls that end at `cuts`; returns the probabilities of each prediction."""
    out, time = [], start
    for first, last in pairwise([0, *sorted(cuts), len(letters)]):
        ids, rows, labels, times, xs = [], [], [], [], []
        for what, id_, label, passed, x in letters[first:last]:
            time += passed
            ids.append(id_)
            rows.append(-1 if what == "label" else len(xs))
            labels.append(label)
            times.append(time)
            if what != "label":
                xs.append({"x": x})
        made = Rows.from_dicts(xs or [{"x": 0.0}])
        result = on.process(made, Events(ids, rows, labels, [1.0] * len(ids), times))
        made_here = result.predictions
        for p, known in zip(made_here.proba, made_here.known.tolist(), strict=True):
            out.append(p[:known])
    return out


def see(id_: str, x: float = 0.0, passed: int = 1) -> Letter:
    return ("see", id_, None, passed, x)


def say(id_: str, label: str, passed: int = 0) -> Letter:
    return ("label", id_, label, passed, 0.0)


def by_hand(letters: list[Letter]) -> tuple[list[dict], GaussianNB]:
    """The same with a learner, one record at a time; labels of waiting observations only."""
    learner, out, time = GaussianNB(), [], 0
    waiting: dict[str, tuple[int, dict, bool]] = {}
    for what, id_, label, passed, x in letters:
        time += passed
        for other, (since, features, delivered) in list(waiting.items()):
            if time - since > AFTER and delivered:
                learner.learn_one(features, "ham")
                del waiting[other]
        if what == "label":
            if id_ in waiting:
                learner.learn_one(waiting.pop(id_)[1], label)
            continue
        said = learner.predict_proba_one({"x": x})
        said = said if "ham" in said else {}
        out.append(said)
        best = max(said, key=said.get) if said else None
        waiting[id_] = (time, {"x": x}, best in (None, "ham"))
    return out, learner


letter = st.tuples(
    st.sampled_from(["see", "see", "see", "label"]),
    st.integers(0, 11).map(str),
    st.sampled_from(["spam", "spam", "ham"]),
    st.sampled_from([0, 1, 2, 3, 15]),
    st.sampled_from([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0]),
)


@settings(max_examples=share(0.4))
@given(
    st.lists(letter, min_size=10, max_size=50),
    st.booleans(),
    st.sampled_from([1.0, 0.4]),
    st.lists(st.integers(0, 50), max_size=8),
)
def test_any_split_gives_the_same_bits_with_silence(letters, scored, frequency, cuts) -> None:
    """Predictions, scores and state, also where silence falls on rows of the same call (I1)."""
    letters = [(w, i, y if w == "label" else None, p, x) for w, i, y, p, x in letters]
    silence = HAM._replace(scored=scored, frequency=frequency)
    whole, cut, single = machine(silence), machine(silence), machine(silence)

    expected = run(whole, letters)

    for other, at in (
        (cut, [c for c in cuts if c <= len(letters)]),
        (single, range(len(letters))),
    ):
        found = run(other, letters, at)
        assert [p.tolist() for p in found] == [p.tolist() for p in expected]
        assert other.to_state().fingerprint() == whole.to_state().fingerprint()


@settings(max_examples=share(0.4))
@given(st.lists(letter, min_size=10, max_size=40))
def test_silence_teaches_what_a_learner_alone_is_taught_by_hand(letters) -> None:
    """Each id once; a label after silence is left out here, because it corrects."""
    seen: set[str] = set()
    plain, numbered = [], 0
    for what, id_, label, passed, x in letters:
        passed = min(passed, 3)
        if what == "see":
            numbered += 1
            plain.append(see(f"{id_} {numbered}", x, passed))
            seen.add(f"{id_} {numbered}")
        elif seen:
            plain.append(say(sorted(seen)[int(id_) % len(seen)], label, passed))
    time, came, labelled, kept = 0, {}, set(), []
    for one in plain:  # only labels that come in time, and once
        time += one[3]
        late = one[0] == "label" and (one[1] in labelled or time - came[one[1]] > AFTER)
        kept.append(("see", f"filler {time} {len(kept)}", None, one[3], 0.25) if late else one)
        labelled.add(one[1]) if one[0] == "label" else came.setdefault(one[1], time)
        if late:
            came[kept[-1][1]] = time
    on = machine(horizon=10_000)

    found = run(on, kept)

    expected, learner = by_hand(kept)
    assert [p.tolist() for p in found] == [list(p.values()) for p in expected]
    assert on.learner.fingerprint() == learner.fingerprint()


def test_silence_falls_after_the_time_and_not_at_it() -> None:
    """A label at the last moment still counts."""
    on = machine()
    run(on, [see("a"), see("b", passed=0), say("a", "spam", passed=AFTER)])
    assert on.join.outcomes == {"joined": 1}

    run(on, [see("later")], start=AFTER + 1)

    assert on.join.outcomes == {"joined": 1, "silence": 1}
    assert list(on.join.labels) == ["spam", "ham"]


def test_what_was_decided_otherwise_is_never_learned_by_silence() -> None:
    """It sat in a junk folder. It waits on, and its label still counts."""
    on = machine()
    run(on, [see("s", 5.0), say("s", "spam"), see("h", -5.0), say("h", "ham")])
    run(on, [see("s2", 6.0), say("s2", "spam"), see("h2", -6.0), say("h2", "ham")], start=5)
    run(on, [see("junk", 5.5), see("inbox", -5.5), see("later", passed=30)], start=10)

    assert on.join.outcomes == {"joined": 4, "silence": 1, "silence_ignored": 1}
    assert list(on.join.state.waiting) == ["junk", "later"]
    run(on, [say("junk", "ham")], start=42)
    assert on.join.outcomes["joined"] == 5


def test_each_copy_of_a_record_must_have_been_delivered() -> None:
    """A redelivered record that is put away is not judged by silence."""
    on = machine()
    run(on, [see("a", 5.0)])  # before any label: nothing was decided
    for i in (1, 2):
        run(on, [see(f"s{i}", 4.0 + i), say(f"s{i}", "spam")], start=i)
        run(on, [see(f"h{i}", -4.0 - i), say(f"h{i}", "ham")], start=i)
    run(on, [see("a", 5.0), see("later", passed=30)], start=4)

    assert on.join.outcomes["silence_ignored"] == 1
    assert on.join.outcomes["silence"] == 0


def test_nothing_is_predicted_until_the_label_of_silence_was_learned() -> None:
    """Else every prediction would be the reported class, and silence would never count."""
    on = machine()
    first = run(on, [see("s", 5.0), say("s", "spam"), see("a", -5.0), see("b", 5.0)])
    assert [len(p) for p in first] == [0, 0, 0]

    (last,) = run(on, [see("later", -5.0)], start=30)

    assert on.join.outcomes == {"joined": 1, "silence": 2}
    assert len(last) == 2
    assert on.quality.scored == 0


@pytest.mark.parametrize(
    ("reject", "outcome"), [(None, "silence_ignored"), (0.001, "silence")], ids=["acts", "rejects"]
)
def test_decision_counts_and_not_the_likeliest_class(reject, outcome) -> None:
    """An action is the usual one if no other costs less for ham; a rejection puts nothing away."""
    rule = BayesDecision(
        {"deliver": {"ham": 0, "spam": 1e12}, "junk": {"ham": 1, "spam": 0}}, reject
    )
    on = machine(rule=rule)
    for i in range(0, 8, 2):
        run(on, [see(f"s{i}", 1.0 + i / 9), say(f"s{i}", "spam")], start=i)
        run(on, [see(f"h{i}", -1.0 - i / 9), say(f"h{i}", "ham")], start=i + 1)
    (proba,) = run(on, [see("a", -0.3)], start=9)
    assert proba[list(on.join.labels).index("ham")] > 0.5

    run(on, [see("later")], start=40)

    assert on.join.outcomes[outcome] == 1


def test_late_flag_takes_silence_back() -> None:
    """The model is then the one that learned the flag."""
    on, other = machine(), machine()
    run(on, [see("a", 2.0), see("b", -1.0), see("c", 1.0, passed=20)])
    assert on.join.outcomes == {"silence": 2}
    run(on, [say("a", "spam", passed=25)])
    run(other, [see("a", 2.0), see("b", -1.0), say("a", "spam"), see("c", 1.0, passed=20)])

    assert on.join.outcomes == {"silence": 2, "corrected": 1}
    one, same = (m.learner.predict_proba_one({"x": 0.5})["spam"] for m in (on, other))
    assert one == pytest.approx(same, abs=1e-9)


def test_evicted_before_the_time_is_counted_and_not_learned() -> None:
    """As without silence."""
    on = machine(max_pending=1)
    run(on, [see("a"), see("b"), see("later", passed=30)])

    assert on.join.outcomes == {"evicted": 1, "silence": 1, "forgotten": 1}


@pytest.mark.parametrize(("scored", "n"), [(False, 1), (True, 2)])
def test_silence_is_scored_as_the_user_chooses(scored, n) -> None:
    """Scores, estimate and risk; the delays are those of labels in any case."""
    on = machine(HAM._replace(scored=scored), rule=BayesDecision())
    run(on, [see("h", -1.0), say("h", "ham"), see("a", -2.0), say("a", "ham")])
    run(on, [see("b", -1.0), see("later", passed=30)], start=5)

    assert on.join.outcomes == {"joined": 2, "silence": 1}
    assert on.quality.scored == n
    assert on.risk.count == n
    assert on.join.label_delays.labelled == 2
    assert on.join.label_delays.unlabelled == 1


def test_silence_of_a_label_that_cannot_be_learned_is_ignored() -> None:
    """Labels of another kind came first."""
    on = machine(Silence(0, AFTER))
    run(on, [see("s"), say("s", "spam"), see("a"), see("later", passed=30)])

    assert on.join.outcomes == {"joined": 1, "silence_ignored": 1}


def test_silence_needs_corrections_time_and_one_model() -> None:
    """Each with a message."""
    for wrong in ({"corrections": False}, {"horizon": AFTER - 1}):
        with pytest.raises(SchemaError, match="silence needs corrections, and an `after`"):
            machine(**wrong)
    on = machine()
    contest = ChampionChallenger(on, Rows.from_dicts([{"x": 1.0}]))
    with pytest.raises(SchemaError, match="silence and challengers exclude each other"):
        contest.enroll("rival", GaussianNB(), 0)
