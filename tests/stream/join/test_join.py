"""The label join: every outcome, every bound, and an obvious twin over any sequence of events."""

from __future__ import annotations

import pytest

from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN
from stream.join.join import LabelJoin
from stream.join.plan import Plan

OPS = {PREDICT: "predict", LEARN: "learn", PREDICT_THEN_LEARN: "predict then learn"}


class Feed:
    """A join and everything it planned, one call an event, times given or 0."""

    def __init__(self, **bounds: int) -> None:
        self.join = LabelJoin(**bounds)
        self.plan = Plan(origin=lambda event: b"record %d" % event)
        self.events = 0

    def observe(self, id_: str, time: int = 0, label: object = None, w: float = 1.0) -> Feed:
        self.join.on_observation(
            self.plan, event=self.events, row=self.events, id=id_, time=time, label=label, w=w
        )
        self.events += 1
        return self

    def answer(self, id_: str, label: object, time: int = 0, w: float = 1.0) -> Feed:
        self.join.on_label(self.plan, event=self.events, id=id_, label=label, w=w, time=time)
        self.events += 1
        return self

    @property
    def steps(self) -> list[tuple[str, int, object]]:
        """What was planned: op, row, label."""
        return [(OPS[op], row, y) for op, row, _, y, _ in self.plan.steps]

    @property
    def weights(self) -> list[float]:
        """The weight of each step."""
        return [w for *_, w in self.plan.steps]

    @property
    def outcomes(self) -> dict[str, int]:
        return dict(self.join.outcomes)


def test_label_of_a_waiting_observation_is_learned_on_its_row() -> None:
    """Predicted when it came, learned when the label came, with the label's weight."""
    feed = Feed().observe("a").observe("b").answer("a", "yes", w=2.5)

    assert feed.steps == [("predict", 0, None), ("predict", 1, None), ("learn", 0, "yes")]
    assert feed.weights[-1] == 2.5
    assert (feed.outcomes, feed.join.pending) == ({"joined": 1}, 1)
    assert list(feed.plan.kept.values()) == [1]


def test_label_inside_an_observation_is_learned_right_after_its_prediction() -> None:
    """One step that predicts first; nothing waits."""
    feed = Feed().observe("a", label="yes", w=3.0)

    assert feed.steps == [("predict then learn", 0, "yes")]
    assert (feed.weights, feed.outcomes, feed.join.pending) == ([3.0], {"joined": 1}, 0)


def test_label_before_its_observation_is_kept_for_it() -> None:
    """Early: nothing is learned before the observation has been predicted."""
    feed = Feed().answer("a", "yes", w=2.0)
    assert (feed.steps, feed.outcomes) == ([], {"early": 1})

    feed.observe("a")

    assert feed.steps == [("predict then learn", 1, "yes")]
    assert (feed.weights, feed.outcomes) == ([2.0], {"early": 1, "joined": 1})


def test_same_label_again_is_a_duplicate() -> None:
    """For a settled id, and for an early label."""
    feed = Feed().observe("a").answer("a", "yes").answer("a", "yes")
    feed.answer("b", "yes").answer("b", "yes")

    assert feed.outcomes == {"joined": 1, "duplicate": 2, "early": 1}
    assert len(feed.steps) == 2


def test_another_label_for_a_settled_id_conflicts_and_the_first_stands() -> None:
    """Learned once, by the first label; the same holds while it waits as an early one."""
    feed = Feed().observe("a").answer("a", "yes").answer("a", "no")
    feed.answer("b", "yes").answer("b", "no").observe("b")

    assert feed.outcomes == {"joined": 2, "conflicting": 2, "early": 1}
    assert feed.steps[-1] == ("predict then learn", 5, "yes")


def test_conflict_is_by_kind_too() -> None:
    """1 and true are two labels, though equal in Python."""
    feed = Feed().observe("a").answer("a", 1).answer("a", True).answer("a", 1)

    assert feed.outcomes == {"joined": 1, "conflicting": 1, "duplicate": 1}


def test_label_inside_after_an_early_label_is_counted_and_the_early_one_learned() -> None:
    """The first label wins, whichever way it came."""
    feed = Feed().answer("a", "yes").observe("a", label="no")

    assert feed.steps == [("predict then learn", 1, "yes")]
    assert feed.outcomes == {"early": 1, "conflicting": 1, "joined": 1}


def test_observation_of_a_known_id_is_predicted_but_not_learned_again() -> None:
    """While the first one waits, and after it was learned; a label inside changes nothing."""
    feed = Feed().observe("a").observe("a", label="no").answer("a", "yes").observe("a")

    assert [op for op, _, _ in feed.steps] == ["predict", "predict", "learn", "predict"]
    assert feed.steps[2] == ("learn", 0, "yes")
    assert feed.outcomes == {"duplicate_observation": 2, "joined": 1}


def test_observation_whose_label_does_not_come_in_time_expires() -> None:
    """At the horizon it still waits; a millisecond later it does not."""
    feed = Feed(horizon=100).observe("a", time=50).observe("b", time=150)
    assert feed.join.pending == 2

    feed.observe("c", time=151)

    assert (feed.join.pending, feed.outcomes) == (2, {"expired": 1})


def test_answer_after_horizon_is_counted_as_late() -> None:
    """Its observation is gone: it is not kept as an early label."""
    feed = Feed(horizon=100).observe("a", time=0).answer("a", "yes", time=101)

    assert feed.outcomes == {"expired": 1, "late": 1}
    assert [op for op, _, _ in feed.steps] == ["predict"]


def test_early_label_whose_observation_does_not_come_expires() -> None:
    """Its observation, coming after all, waits like any other."""
    feed = Feed(horizon=100).answer("a", "yes", time=0).observe("a", time=101)

    assert feed.outcomes == {"early": 1, "early_expired": 1}
    assert (feed.steps, feed.join.pending) == ([("predict", 1, None)], 1)


def test_settled_id_is_forgotten_after_the_horizon() -> None:
    """Ages are bounded: much later the same id is a new observation."""
    feed = Feed(horizon=100).observe("a", time=0, label="yes").observe("a", time=101, label="no")

    assert [y for _, _, y in feed.steps] == ["yes", "no"]


def test_another_label_of_a_settled_id_is_a_correction_where_they_are_on() -> None:
    """The plan ends there, and says what was learned, what is to be, and how long ago."""
    feed = Feed(corrections=True).observe("a").answer("a", "yes", w=2.0)
    feed.observe("b", label="yes").answer("a", "no", w=3.0)
    due = feed.plan.correction

    assert due is not None
    assert (due.id, due.old, due.old_w, due.new, due.new_w) == ("a", "yes", 2.0, "no", 3.0)
    assert (due.age, feed.plan.kept[due.slot]) == (1, 0)
    assert feed.outcomes == {"joined": 2}


def test_corrected_label_is_the_one_that_stands() -> None:
    """Told again it is a duplicate; the first one, told again, is a correction back."""
    feed = Feed(corrections=True).observe("a", label="yes").answer("a", "no", w=3.0)
    feed.join.corrected(feed.plan.correction)
    feed.plan.correction = None
    feed.answer("a", "no")
    assert feed.outcomes == {"joined": 1, "corrected": 1, "duplicate": 1}

    feed.answer("a", "yes")

    due = feed.plan.correction
    assert (due.old, due.old_w, due.new, due.age) == ("no", 3.0, "yes", 1)


def test_label_that_cannot_be_taken_back_goes_on_standing() -> None:
    """Counted as conflicting, as without corrections."""
    feed = Feed(corrections=True).observe("a", label="yes").answer("a", "no")
    feed.join.conflicted(feed.plan.correction)
    feed.plan.correction = None
    feed.answer("a", "yes")

    assert feed.outcomes == {"joined": 1, "conflicting": 1, "duplicate": 1}


def test_correction_of_another_kind_is_rejected() -> None:
    """It could not be learned: a dead letter that says why."""
    feed = Feed(corrections=True).observe("a", label="yes").answer("a", 1)

    assert (feed.plan.correction, feed.plan.rejected) == (None, {1: "label_kind"})


@pytest.mark.parametrize("gone", ["bound", "horizon"])
def test_correction_of_an_id_that_is_forgotten_is_an_early_label(gone) -> None:
    """Its row went with it: bounded by count and by age."""
    feed = Feed(corrections=True, max_pending=1, horizon=100).observe("a", label="yes")
    feed.observe("b", label="yes", time=101 if gone == "horizon" else 0)
    feed.answer("a", "no", time=101 if gone == "horizon" else 0)

    assert (feed.plan.correction, feed.outcomes["early"]) == (None, 1)
    assert (feed.join.slots, len(feed.plan.kept)) == (1, 1)


def test_label_held_back_settles_its_id_and_learns_nothing() -> None:
    """While the breaker is open: waiting, inside and for a correction; predictions go on."""
    feed = Feed(corrections=True).observe("a").observe("x", label="yes")
    hold = {"event": 9, "time": 0, "w": 1.0, "learn": False}
    feed.join.on_label(feed.plan, id="a", label="yes", **hold)
    feed.join.on_observation(feed.plan, id="b", row=9, label="no", **hold)
    feed.join.on_label(feed.plan, id="x", label="no", **hold)
    feed.answer("a", "yes").observe("b")

    assert feed.outcomes == {
        "joined": 1,
        "held_back": 3,
        "duplicate": 1,
        "duplicate_observation": 1,
    }
    assert [op for op, _, _ in feed.steps].count("learn") == 0
    assert (feed.steps[2], list(feed.join.labels)) == (("predict", 9, None), ["yes"])


def test_beyond_max_pending_the_oldest_observation_is_evicted() -> None:
    """Its label then is late; the younger ones still wait."""
    feed = Feed(max_pending=2).observe("a").observe("b").observe("c")
    assert (feed.join.pending, feed.outcomes) == (2, {"evicted": 1})

    feed.answer("a", "yes").answer("b", "yes")

    assert feed.outcomes == {"evicted": 1, "late": 1, "joined": 1}


def test_beyond_max_pending_the_oldest_early_label_is_evicted() -> None:
    """The bound holds for early labels as well."""
    feed = Feed(max_pending=1).answer("a", "yes").answer("b", "no").observe("a").observe("b")

    assert feed.outcomes == {"early": 2, "early_evicted": 1, "joined": 1}
    assert [y for _, _, y in feed.steps] == [None, "no"]


def test_beyond_max_pending_the_oldest_settled_id_is_forgotten() -> None:
    """What it forgets it counts."""
    feed = Feed(max_pending=1).observe("a", label="x").observe("b", label="x").answer("a", "y")

    assert feed.outcomes == {"joined": 2, "forgotten": 1, "early": 1}


def test_slots_are_reused_and_never_more_than_max_pending() -> None:
    """The store behind is as large as what waits, not as what came."""
    feed = Feed(max_pending=3)
    for i in range(50):
        feed.observe(str(i))
        if i % 2:
            feed.answer(str(i), "yes")

    assert feed.join.slots == 3
    assert sorted(feed.join.kept_slots().tolist()) == sorted(feed.plan.kept)


@pytest.mark.parametrize(
    ("first", "second"), [("a", 1), (1, True), (True, "a"), (1, 1.5), ("a", None), ("a", ["a"])]
)
def test_label_of_another_kind_than_the_first_is_rejected(first, second) -> None:
    """The first learned label fixes the kind; the observation goes on waiting."""
    feed = Feed().observe("a", label=first).observe("b").answer("b", second)

    assert feed.plan.rejected == {2: "label_kind"}
    assert (feed.outcomes, feed.join.pending) == ({"joined": 1, "rejected": 1}, 1)


def test_early_label_fixes_no_kind() -> None:
    """Only a label that met its observation does; then an early one of another kind is refused,
    with the record it came in."""
    feed = Feed().answer("?", 7).observe("a").answer("a", "yes").observe("?")

    [refused] = feed.plan.refused
    assert refused == (3, 7, "label_kind", b"record 0")
    assert feed.plan.rejected == {}
    assert feed.steps == [("predict", 1, None), ("learn", 1, "yes"), ("predict", 3, None)]
    assert feed.outcomes == {"early": 1, "joined": 1, "rejected": 1}
    assert feed.answer("?", "yes").outcomes["joined"] == 2  # it waits for its true label


def test_early_label_fills_no_class() -> None:
    """Junk of unknown ids leaves every place to labels of observations."""
    feed = Feed(max_classes=2)
    for n in range(5):
        feed.answer(f"junk {n}", f"junk {n}")
    feed.observe("a", label="x").observe("b", label="y").observe("junk 0")

    assert list(feed.join.labels) == ["x", "y"]
    assert feed.plan.rejected == {}
    assert feed.plan.refused == [(7, "junk 0", "max_classes", b"record 0")]
    assert feed.join.labels.overflow == 1


def test_early_label_that_does_not_fit_any_more_gives_way_to_one_that_does() -> None:
    """Junk for an id that is known in advance does not keep its true label out."""
    feed = Feed().answer("a", 7).observe("b", label="x").answer("a", "x").observe("a")

    assert feed.plan.refused == [(2, 7, "label_kind", b"record 0")]
    assert feed.steps[-1] == ("predict then learn", 3, "x")


def test_first_early_label_that_meets_its_observation_fixes_the_kind() -> None:
    """Before any other label did: all labels are then of its kind."""
    feed = Feed().answer("a", 7).answer("b", "x").observe("a").observe("b")

    assert list(feed.join.labels) == [7]
    assert [r.reason for r in feed.plan.refused] == ["label_kind"]


def test_record_of_an_early_label_is_kept_only_while_it_may_be_refused() -> None:
    """A class that was learned stays one: of it the label is enough."""
    feed = Feed().observe("a", label="x").answer("b", "x").answer("c", "y")

    kept = {id_: origin for id_, (*_, origin) in feed.join.state.early.items()}
    assert kept == {"b": b"", "c": b"record 2"}


def test_early_labels_take_a_quarter_of_the_bytes_at_most() -> None:
    """The oldest go, whatever else there is room for; one that is larger goes itself."""
    feed = Feed(max_bytes=100)
    for n in range(5):
        feed.answer(f"{n}", "y")  # 1 + 1 + 8 for the record
    assert (feed.join.early, feed.join.state.total_bytes) == (2, 20)
    feed.answer("é" * 10, "y")

    assert (feed.join.early, feed.join.state.total_bytes) == (0, 0)
    assert feed.outcomes == {"early": 6, "early_evicted": 6}


def test_ids_and_labels_of_settled_records_are_counted() -> None:
    """Beyond a quarter they go first, then what waits; a quarter of them stays."""
    feed = Feed(max_bytes=100)
    for n in range(6):
        feed.observe(f"{n:09}", label="y")  # 10 bytes each
    for n in range(12):
        feed.observe(f"w{n:08}")  # 9 bytes each

    assert feed.join.state.total_bytes <= 100
    assert len(feed.join.state.settled) >= 2
    assert feed.outcomes["forgotten"] >= 4


def test_rules_1_promise_early_labels_their_class() -> None:
    """As journals have it that were begun under them."""
    feed = Feed(rules=1, max_classes=2).answer("a", "x").answer("b", "y").observe("c", label="z")
    feed.answer("d", 1).observe("a").observe("b")

    assert feed.plan.rejected == {2: "max_classes", 3: "label_kind"}
    assert list(feed.join.labels) == ["x", "y"]
    assert "rules" not in feed.join.to_state().header


def test_rules_1_forget_a_promise_with_its_label() -> None:
    """What is kept for later must fit what comes before it, until it expires."""
    feed = Feed(rules=1, horizon=100).answer("a", "yes", time=0).answer("b", 1, time=1)
    feed.answer("b", 1, time=200)

    assert feed.outcomes == {"early": 2, "rejected": 1, "early_expired": 1}


def test_one_class_too_many_is_rejected_and_counted() -> None:
    """The bound names its overflow; known classes go on."""
    feed = Feed(max_classes=2).observe("a", label="x").observe("b", label="y")
    feed.observe("c", label="z").observe("d", label="x")

    assert feed.plan.rejected == {2: "max_classes"}
    assert (list(feed.join.labels), feed.join.labels.overflow) == (["x", "y"], 1)


def test_place_promised_to_an_early_label_is_free_again_when_it_goes() -> None:
    """Expired and evicted early labels hold no class."""
    expired = Feed(rules=1, max_classes=1, horizon=10).answer("a", "x", time=0)
    evicted = Feed(rules=1, max_classes=2, max_pending=1).answer("a", "x").answer("b", "y")

    assert expired.observe("b", time=50, label="z").plan.rejected == {}
    assert evicted.answer("c", "z").plan.rejected == {}
    assert evicted.outcomes == {"early": 3, "early_evicted": 2}


def test_rejected_label_inside_leaves_its_id_unknown() -> None:
    """A dead letter: no prediction, nothing waits, and the id may come again."""
    feed = Feed().observe("a", label="x").observe("b", label=1).observe("b", label="x")

    assert feed.steps == [("predict then learn", 0, "x"), ("predict then learn", 2, "x")]
    assert feed.outcomes == {"joined": 2, "rejected": 1}


def test_stream_time_never_goes_back() -> None:
    """A record with an older timestamp is held from now on, not from then."""
    feed = Feed(horizon=100).observe("a", time=1000).observe("b", time=0).observe("c", time=1100)

    assert (feed.join.pending, feed.join.state.time) == (3, 1100)


def test_saved_state_does_not_change_with_the_join() -> None:
    """A copy handed to the snapshot writer stays what it was."""
    feed = Feed().observe("a", label="x").observe("b").answer("c", "y")
    state = feed.join.to_state()
    before = state.fingerprint()

    feed.answer("b", "z").observe("c").observe("d", label="w")

    assert state.fingerprint() == before


@pytest.mark.parametrize(
    ("rules", "before", "after"), [(1, (1, 3), [(1, 4), (1, 5)]), (2, (1, 3), [(0, 5), (1, 5)])]
)
def test_large_rows_make_room_for_one_another(rules, before, after) -> None:
    """As many as their bytes allow. One that is larger than all room does not wait; by rules 1,
    which counted no ids, it waited alone."""
    feed, join = Feed(), LabelJoin(max_bytes=10, rules=rules)
    for at, (id_, size) in enumerate([("a", 4), ("b", 0), ("c", 6), ("d", 5), ("e", 50)]):
        join.on_observation(feed.plan, event=at, row=at, id=id_, time=at, size=size)
        if id_ == "d":
            then = join.pending, join.outcomes["evicted"]
    again = LabelJoin(max_bytes=10, rules=rules)
    again.load_state(join.to_state())
    again.on_observation(feed.plan, event=5, row=5, id="f", time=5, size=1)

    # d: a and b go, the oldest, and c, for d has no room beside it.
    assert then == before
    found = [(j.pending, j.outcomes["evicted"]) for j in (join, again)]
    assert found == after
