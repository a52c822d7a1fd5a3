"""The join and its obvious twin: any events, in any calls, with any restart."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream import GaussianNB
from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN, Rows
from stream.data.sequences import CodedColumn, TextColumn
from stream.evaluate.breaker import Breaker
from stream.evaluate.progressive import Progressive
from stream.join.events import EventFeed, Events
from stream.join.join import LabelJoin
from stream.join.label_delay import DELAY_BOUNDS_MS, OUTCOMES, Silence
from stream.join.plan import Correction, Plan
from tests.oracles.join import JoinTwin, otherwise, record_of
from tests.stream.join.short_joins import content, counted_again, told

OPS = {PREDICT: "predict", LEARN: "learn", PREDICT_THEN_LEARN: "predict then learn"}
labels = st.sampled_from(["x", "x", "y", "z", 1, True, 1.5, ""])
event = st.tuples(
    st.sampled_from(["observe", "observe", "inside", "answer", "answer"]),
    st.sampled_from("abcdé"),
    labels,
    st.integers(-5, 15),
    st.sampled_from([1.0, 0.5]),
    st.sampled_from([True, True, True, False]),
)
bounds = st.fixed_dictionaries(
    {
        "max_pending": st.integers(1, 3),
        "horizon": st.integers(1, 40) | st.just(1000),
        "max_classes": st.integers(1, 3),
        "corrections": st.booleans(),
        "max_bytes": st.integers(0, 8) | st.integers(4, 40) | st.just(1 << 62),
        "max_corrections": st.sampled_from([1, 2, 1000]),
    }
)


def size_of(number: int) -> int:
    """The bytes of an observation's row in these tests."""
    return number * 7 % 5


def possible(label: object) -> bool:
    """Whether a learner of these tests could take the old label back for this one."""
    return label != "z"


class Calls:
    """A join called with events, and steps by observation number, as a machine would do them.

    `common`: kernels plan common events. Otherwise each event is decided alone.
    """

    def __init__(self, join: LabelJoin, *, common: bool = False) -> None:
        self.join, self._common = join, common
        self.before, self.first, self.time = 0, 0, 0  # events, observations, and their time
        self.owner: dict[int, int] = {}
        self.steps: list[tuple[str, int, object, float | None]] = []
        self.rejected: dict[int, str] = {}
        self.refused: list[tuple[int, object, str, bytes]] = []
        self.ages: list[int] = []
        self.waiting: set[int] = set()
        self.pauses = 0

    def call(self, letters) -> None:
        """One call."""
        rows, numbers, times = 0, [], []
        for what, _, _, passed, *_ in letters:
            numbers.append(-1 if what == "answer" else rows)
            rows += what != "answer"
            self.time += passed
            times.append(self.time)
        labels = [None if what == "observe" else label for what, _, label, *_ in letters]
        columns = [[each[k] for each in letters] for k in (1, 4)]
        events = Events(columns[0], numbers, labels, columns[1], times)
        events.origin = lambda event: record_of(self.before + event)
        feed = EventFeed(events, [size_of(self.first + row) for row in range(rows)])
        learns = [each[5] for each in letters]
        plan = self.join.begin(feed)
        while feed.at < feed.count:
            if self._common:
                feed.stop = next(
                    (k for k in range(feed.at, feed.count) if not learns[k]), feed.count
                )
                self.join.plan_common(plan, feed, lambda _: True)
                feed.stop = feed.count + 1
                if feed.at == feed.count:
                    break
            if not self.join.plan_next(plan, feed, learn=learns[feed.at]):
                self.pauses += 1
            elif plan.correction is None:
                continue
            self._end(plan)
            plan = self.join.begin(feed)
        self._end(plan)
        self.before += len(letters)
        self.first += rows

    def _end(self, plan: Plan) -> None:
        """Do what is planned, up to the correction at its end."""
        self.join.count(plan)
        steps, changes, values = plan.columns(), plan.changes(), self.join.labels.values
        for op, row, slot, code, w in zip(*(column.tolist() for column in steps), strict=True):
            of = self.owner[slot] if row < 0 else self.first + row
            known = (None, None) if code < 0 else (values[code], w)
            self.steps.append((OPS[op], of, *known))
        kept = dict(zip(changes.slot.tolist(), changes.row.tolist(), strict=True))
        self.owner |= {slot: self.first + row for slot, row in kept.items()}
        entries, at = plan.asked()
        other = [otherwise(self.first + row) for row in steps.row[at].tolist()]
        self.join.state.flag(entries[np.array(other, dtype=np.bool_)])
        self.rejected |= {self.before + event: why for event, why in plan.rejected.items()}
        self.refused += [(self.before + event, *why) for event, *why in plan.refused]
        held = self.join.state
        assert counted_again(held) == (held.text_bytes, held.early_bytes, held.settled_bytes)
        assert set(kept) <= set(self.join.kept_slots().tolist())
        began = changes.slot[changes.began].tolist()
        self.waiting = (self.waiting - set(changes.ended.tolist())) | set(began)
        assert sorted(self.waiting) == sorted(self.join.kept_slots().tolist()[: self.join.pending])
        due = plan.correction
        if due is not None:
            self.ages.append(due.age)
            if possible(due.new):
                self.steps.append(("unlearn", self.owner[due.slot], due.old, due.old_w))
                self.steps.append(("learn", self.owner[due.slot], due.new, due.new_w))
                self.join.corrected(due)
            else:
                self.join.conflicted(due)

    def restart(self) -> None:
        """Go on with a join that was saved and loaded."""
        join = self.join
        bounds = (join.max_pending, join.horizon, join.labels.bound, join.corrections)
        again = LabelJoin(*bounds, join.max_bytes, join.silence, join.max_corrections)
        again.load_state(join.to_state())
        self.join = again


def calls(
    join: LabelJoin, events, cuts, restart: frozenset[int] = frozenset(), *, common: bool = False
) -> Calls:
    """Run events in calls that end at `cuts`."""
    out = Calls(join, common=common)
    for start, stop in pairwise([0, *sorted(cuts), len(events)]):
        out.call(events[start:stop])
        if stop in restart:
            out.restart()
    return out


@given(
    st.lists(event, max_size=40),
    bounds,
    st.lists(st.integers(0, 40), max_size=6),
    st.frozensets(st.integers(0, 40), max_size=2),
)
def test_any_events_in_any_calls_give_what_the_obvious_twin_gives(
    events, bound, cuts, restart
) -> None:
    """Steps, outcomes, refusals, corrections and classes; the state is the same bits for every
    split (I1), and for every save and load between two calls (I2)."""
    compare(events, bound, cuts, restart)


@given(
    st.lists(event, max_size=40),
    bounds,
    st.sampled_from(["x", "y", "x", 1]),
    st.integers(1, 20),
    st.lists(st.integers(0, 40), max_size=6),
    st.frozensets(st.integers(0, 40), max_size=2),
)
def test_silence_falls_where_the_obvious_twin_says(
    events, bound, label, after, cuts, restart
) -> None:
    """At the same moment for every split, after every restart, among all other events."""
    after = min(after, bound["horizon"])
    bound = {**bound, "corrections": True, "silence": Silence(label, after)}
    compare(events, bound, cuts, restart)


def twin_of(bound, events, **more) -> JoinTwin:
    """The twin after these events."""
    bound = {"bound" if k == "max_pending" else k: v for k, v in bound.items()}
    if "silence" in bound:
        bound["silence"] = bound["silence"][:2]
    twin, time = JoinTwin(**bound, **more), 0
    for at, (what, id_, label, passed, w, learn) in enumerate(events):
        time += passed
        if what == "answer":
            twin.answer(at, id_, time, label, w, learn, possible(label))
        else:
            inside, size = label if what == "inside" else None, size_of(twin.observations)
            twin.observe(at, id_, time, inside, w, learn, size)
    return twin


def assert_alike(done: Calls, twin: JoinTwin) -> None:
    """Steps, dead letters, outcomes, classes, and the ids that are held."""
    assert done.steps == twin.steps
    assert done.rejected == twin.rejected
    assert done.refused == twin.refused
    assert done.ages == twin.ages
    assert done.join.outcomes == twin.outcomes
    assert [(type(v), v) for v in done.join.labels] == [(type(v), v) for v in twin.labels]
    dead = [*twin.rejected.values(), *(why for _, _, why, _ in twin.refused)]
    assert done.join.labels.overflow == dead.count("max_classes")
    held = done.join.state
    assert list(held.waiting) == [h.id for h in twin.waiting]
    assert list(held.early) == [h.id for h in twin.early]
    assert list(held.settled) == [h.id for h in twin.settled]


def compare(events, bound, cuts, restart) -> None:
    """The join, in one call and in several, against the twin."""
    twin = twin_of(bound, events)
    cuts = [cut for cut in {*cuts, *restart} if cut <= len(events)]
    whole = calls(LabelJoin(**bound), events, [])
    cut = calls(LabelJoin(**bound), events, cuts, restart, common=True)

    assert_alike(whole, twin)
    assert whole.join.state.text_bytes + whole.join.state.rows.bytes <= bound["max_bytes"] + 4
    assert set(whole.join.outcomes) <= set(OUTCOMES)
    delays = whole.join.label_delays
    bounds_ms = [*DELAY_BOUNDS_MS, max([*twin.delays, *DELAY_BOUNDS_MS])]
    upto = [sum(delay <= bound for delay in twin.delays) for bound in bounds_ms]
    assert list(accumulate(delays.delays)) == upto
    assert (delays.delay_ms, delays.unlabelled) == (sum(twin.delays), twin.given_up)
    predictions = sum(what.startswith("predict") for what, *_ in whole.steps)
    assert predictions == delays.labelled + delays.unlabelled + whole.join.pending
    kept = len(twin.waiting) + sum(s.observation >= 0 for s in twin.settled)
    assert len(whole.join.kept_slots()) == (kept if bound["corrections"] else len(twin.waiting))
    assert (cut.steps, cut.rejected) == (whole.steps, whole.rejected)
    assert cut.refused == whole.refused
    assert cut.join.to_state() == whole.join.to_state()


usual = st.tuples(
    st.sampled_from(["observe", "observe", "inside", "answer", "answer", "answer"]),
    st.sampled_from("abcdefgh"),
    st.sampled_from([1] * 8 + [2, True, "x"]),
    st.integers(0, 2),
    st.sampled_from([1.0, 0.5]),
    st.just(True),
)
usual_bounds = st.fixed_dictionaries(
    {
        "max_pending": st.integers(1, 8),
        "horizon": st.sampled_from([5, 30, 1000, 1000]),
        "max_bytes": st.integers(0, 60) | st.just(1 << 62),
        "corrections": st.sampled_from([False, False, True]),
    }
)


def coded(labels: list[object]) -> CodedColumn:
    """The same labels, each with a number of its own."""
    code = np.cumsum([label is not None for label in labels], dtype=np.int64) - 1
    code[[label is None for label in labels]] = -1
    return CodedColumn([label for label in labels if label is not None], code)


class Planner(Progressive):
    """Plans, and runs nothing: it has no rows, so each correction succeeds at once."""

    def relearn(self, due: Correction) -> bool:
        """Learn nothing."""
        return True


def plans(
    bound, events, deads, ratio, cuts, *, arrays: bool = False, common: bool = True
) -> tuple[list[tuple[object, ...]], LabelJoin, Breaker]:
    """What a machine plans of events, in calls that end at `cuts`, its join and its breaker."""
    like = Rows.from_dicts([{"x": 1.0}])
    machine = Planner(GaussianNB(), LabelJoin(**bound), like, Breaker(ratio))
    machine.join.common = common
    out: list[tuple[object, ...]] = []
    time = 0
    for start, stop in pairwise([0, *sorted(cuts), len(events)]):
        columns: list[list[object]] = [[], [], [], [], []]
        sizes: list[int] = []
        for at in range(start, stop):
            what, id_, label, passed, w, _ = events[at]
            time += passed
            row, inside = (-1, label) if what == "answer" else (len(sizes), None)
            if row >= 0:
                sizes.append(size_of(at))
                inside = label if what == "inside" else None
            for column, value in zip(columns, (id_, row, inside, w, time), strict=True):
                column.append(value)
        dead = [*deads[start:stop], 0] if ratio < 1 else None
        if arrays:
            columns[0], columns[2] = TextColumn.of(columns[0]), coded(columns[2])
        plan = machine.plan(EventFeed(Events(*columns, dead), sizes))
        out.append(told(plan))
    return out, machine.join, machine._breaker


@given(
    st.lists(usual, min_size=30, max_size=60) | st.lists(event, max_size=60),
    usual_bounds,
    st.lists(st.sampled_from([0] * 12 + [1, 600]), min_size=60, max_size=60),
    st.sampled_from([0.5, 0.0, 1.0]),
    st.lists(st.integers(0, 60), min_size=1, max_size=4),
)
def test_common_events_are_planned_by_kernels_as_one_by_one(
    events, bound, deads, ratio, cuts
) -> None:
    """Plans, join and breaker, bit for bit, whatever comes between common events; also with ids
    and labels as arrays."""
    given_ = (bound, events, deads, ratio)
    cuts = [cut for cut in cuts if cut <= len(events)]
    every = [plans(*given_, cuts, arrays=arrays) for arrays in (False, True)]
    slow, slow_join, slow_breaker = plans(*given_, cuts, common=False)
    for fast, fast_join, fast_breaker in every:
        assert fast == slow
        assert content(fast_join) == content(slow_join)
        assert fast_join.to_state() == slow_join.to_state()
        assert fast_breaker.to_state() == slow_breaker.to_state()


@pytest.mark.parametrize("cuts", [[], [1], [1, 2, 3]])
def test_lowered_ratio_opens_the_breaker_at_the_next_record(cuts) -> None:
    """In the middle of a call too, though no dead letter comes: any split learns the same (I1)."""
    like = Rows.from_dicts([{"x": 1.0}])
    machine = Progressive(GaussianNB(), LabelJoin(), like, Breaker(0.5))
    machine.plan(EventFeed(Events(["0"], [0], ["a"], [1.0], [0], [400, 0]), [0]))
    machine._breaker.ratio = 0.1

    for start, stop in pairwise([0, *cuts, 4]):
        n = stop - start
        ids = [f"after {i}" for i in range(start, stop)]
        events = Events(ids, list(range(n)), ["a"] * n, [1.0] * n, [1] * n)
        machine.plan(EventFeed(events, [0] * n))

    assert machine.join.outcomes == {"joined": 2, "held_back": 3}


def test_most_events_are_common() -> None:
    """Else the test above compares a way with itself."""
    ids = [str(i) for i in range(50)]
    events = Events(
        [i for id_ in ids for i in (id_, id_)],
        [row for i in range(50) for row in (i, -1)],
        [None, "a"] * 50,
        [1.0] * 100,
        list(range(100)),
    )
    join, feed, seen = LabelJoin(), EventFeed(events, [0] * 50), []
    plan = join.begin(feed)
    while feed.at < feed.count:
        join.plan_common(plan, feed, lambda passed: True)
        if feed.at < feed.count:
            seen.append(feed.at)
            join.plan_next(plan, feed)
    assert seen == [1]  # the first of its class
    assert len(plan.columns().op) == 100
