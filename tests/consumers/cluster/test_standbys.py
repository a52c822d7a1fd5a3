"""Standbys: one follower a process, however many shards, and no shard waits for another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from random import Random

import pytest

from consumers.base.errors import TransportError
from consumers.cluster import standby
from consumers.cluster.standby import Follower, Standby
from consumers.journal.reader import course
from consumers.service.recovery import load, sources
from consumers.service.replay import replay
from consumers.service.runner import Runner
from consumers.snapshots.store import open_store
from consumers.transports import open_log
from tests.consumers.sharded import Sharded, Watched
from tests.consumers.snapshots.test_snapshots_forged import followed as entered
from tests.consumers.snapshots.test_snapshots_forged import shifted
from tests.seed import seeds
from tests.waiting import PATIENCE, until

Follow = Callable[..., tuple[Follower, list[Standby]]]


class Obstacle:
    """What reads of some shards' partitions meet: they wait, or fail."""

    def __init__(self, topics: set[str], *shards: int) -> None:
        self._topics, self._shards = topics, set(shards)
        self.gone, self.error = threading.Event(), False
        self.met: set[int] = set()

    def __call__(self, name: str, *args: object) -> None:
        """Before each call of a log."""
        partitions = args[0] if name == "read" or (name == "end_offsets" and self.error) else ()
        for topic, number in partitions:
            if topic in self._topics and number in self._shards and not self.gone.is_set():
                self.met.add(number)
                if self.error:
                    raise TransportError(f"{topic} {number} has no leader")
                assert self.gone.wait(PATIENCE)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks and second tries come soon."""
    monkeypatch.setattr(standby, "LOOK_SECONDS", 0.005)
    monkeypatch.setattr(standby, "PAUSE_SECONDS", 0.02)


@contextmanager
def following() -> Iterator[Follow]:
    """Follow all shards of a service, its logs meeting an obstacle that is cleared at the end."""
    followers: list[Follower] = []
    obstacles: list[Obstacle] = []

    def begin(service, obstacle=None, logs=None, shards=None):
        def opened() -> Watched:
            log = Watched(open_log(service.url), *filter(None, [obstacle]))
            if logs is not None:
                logs.append(log)
            return log

        if isinstance(obstacle, Obstacle):
            obstacles.append(obstacle)
        followers.append(Follower(service.standby, opened))
        numbers = range(service.shards) if shards is None else shards
        return followers[-1], [followers[-1].follow(n) for n in numbers]

    yield begin
    for each in obstacles:
        each.gone.set()
    for follower in followers:
        follower.close()


@pytest.fixture
def follow(quick: None) -> Iterator[Follow]:
    """The same for a test."""
    with following() as begin:
        yield begin


def last(service: Sharded, shard: int) -> int:
    """The number of the last entry of a shard's journal; each is one record here."""
    part = service.journal(shard)
    return service.log.end_offsets([part])[part] - 1


def level(service: Sharded, standbys: list[Standby], *shards: int) -> None:
    """Wait until these shards are followed to the ends of their journals."""
    until(lambda: all(standbys[n].seq == last(service, n) for n in shards))


@pytest.mark.parametrize("shards", [1, 8])
def test_eight_shards_cost_the_threads_logs_and_requests_of_one(tmp_path, follow, shards) -> None:
    """While nothing is committed, a look is one request for the ends of all journals."""
    service = Sharded(tmp_path, shards)
    for n in range(40):
        service.log.create_topic(f"of-others-{n}", 3)
    service.feed(20)
    service.run()
    logs: list[Watched] = []
    before = threading.active_count()
    _, standbys = follow(service, logs=logs)
    threads = threading.active_count() - before
    level(service, standbys, *range(shards))
    since = [len(log.asked) for log in logs]
    asked = [log.calls["end_offsets"] for log in logs]
    until(lambda: sum(log.calls["end_offsets"] for log in logs) > sum(asked) + 20)

    assert threads == standby.LANES
    assert len(logs) <= standby.LANES
    # A thread that has its first turn only now opens its log now.
    quiet = [call for log, n in zip_longest(logs, since, fillvalue=0) for call in log.asked[n:]]
    assert len(quiet) >= 20
    for name, partitions in quiet:
        assert name == "end_offsets"
        assert sorted(partitions) == [service.journal(n) for n in range(shards)]
    topics = {topic for log in logs for name, of in log.asked if name == "describe" for topic in of}
    assert topics <= set(service.config.topics.values())
    assert not any(log.calls["topics"] for log in logs)


def test_topics_are_described_once_and_not_at_each_commit(tmp_path, follow) -> None:
    """The journal names the partitions of each commit."""
    service = Sharded(tmp_path, 2)
    service.feed(20)
    service.run()
    logs: list[Watched] = []
    _, standbys = follow(service, logs=logs)
    level(service, standbys, 0, 1)
    described = sum(log.calls["describe"] for log in logs)
    for _ in range(5):
        service.feed(20)
        service.run()
        level(service, standbys, 0, 1)

    assert sum(log.calls["describe"] for log in logs) == described == 2


def test_what_is_committed_is_followed_and_handed_over_bit_for_bit(tmp_path, follow) -> None:
    """Each shard takes over with the model its owner had."""
    service = Sharded(tmp_path, 3)
    service.feed(30)
    service.run()
    _, standbys = follow(service)
    level(service, standbys, 0, 1, 2)
    service.feed(30, [0, 2])
    service.run([0, 2])
    level(service, standbys, 0, 1, 2)

    for n, each in enumerate(standbys):
        live = each.release()
        assert live is not None
        assert live.shard.fingerprint() == service.fingerprint(n)


@pytest.mark.parametrize("hindered", [(0,), (0, 1)])
def test_a_replay_that_hangs_delays_no_other_takeover(tmp_path, follow, hindered) -> None:
    """One leaves a thread to the others, which stay warm. With two nobody is followed, but what
    was followed before is handed over at once."""
    service = Sharded(tmp_path, 4)
    obstacle = Obstacle({"svc-obs"}, *hindered)
    obstacle.gone.set()
    service.feed(30)
    service.run()
    _, standbys = follow(service, obstacle)
    level(service, standbys, *range(4))
    obstacle.gone.clear()
    service.feed(30, hindered)
    service.run(hindered)
    until(lambda: obstacle.met == set(hindered))
    if len(hindered) == 1:
        service.feed(30, [2, 3])
        service.run([2, 3])
        level(service, standbys, 2, 3)
    warm = [standbys[n].release() for n in (2, 3)]

    assert not obstacle.gone.is_set()
    for n, live in zip((2, 3), warm, strict=True):
        assert live is not None
        assert live.shard.fingerprint() == service.fingerprint(n)


def test_shards_that_hang_while_they_are_loaded_leave_a_thread_to_the_others(
    tmp_path, follow
) -> None:
    """However many hang: they come one at a time."""
    service = Sharded(tmp_path, 4)
    service.feed(30)
    service.run()
    obstacle = Obstacle({"svc-journal"}, 0, 1, 2)
    follower, standbys = follow(service, obstacle, shards=[3])
    until(lambda: standbys[0].seq == last(service, 3))
    for n in range(3):
        follower.follow(n)
    until(lambda: obstacle.met)
    service.feed(30, [3])
    service.run([3])
    until(lambda: standbys[0].seq == last(service, 3))

    assert len(obstacle.met) == 1
    assert not obstacle.gone.is_set()


@pytest.mark.parametrize("topic", ["svc-obs", "svc-journal"])
def test_a_shard_that_fails_delays_no_other(tmp_path, follow, caplog, topic) -> None:
    """Its inputs or its journal have no leader: also the common look fails then. Once they have one
    it is followed again."""
    service = Sharded(tmp_path, 3)
    service.feed(30)
    service.run()
    obstacle = Obstacle({topic}, 0)
    obstacle.error = True
    _, standbys = follow(service, obstacle)
    level(service, standbys, 1, 2)
    service.feed(30, [1, 2])
    service.run([1, 2])
    level(service, standbys, 1, 2)

    assert standbys[0].seq is None
    assert f"shard 0 cannot be followed: {topic} 0 has no leader" in caplog.text
    obstacle.gone.set()
    level(service, standbys, 0)
    assert (live := standbys[0].release()) is not None
    assert live.shard.fingerprint() == service.fingerprint(0)


def test_a_long_replay_is_cut_in_slices_between_which_others_are_served(
    tmp_path, follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one thread only, and short slices: a shard that has just committed does not wait until
    the long one has reached the end of its journal."""
    monkeypatch.setattr(standby, "LANES", 1)
    monkeypatch.setattr(standby, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(standby, "SLICE_OFFSETS", 2)
    service = Sharded(tmp_path, 2)
    service.feed(100, [0])
    service.feed(30, [1])
    service.run()
    turns: list[tuple[int, bool]] = []
    served = Follower._serve

    def noted(self, followed, connect) -> None:
        served(self, followed, connect)
        turns.append((followed.shard, followed.reached is not None))

    monkeypatch.setattr(Follower, "_serve", noted)
    _, standbys = follow(service)
    level(service, standbys, 0, 1)

    assert turns.index((1, True)) < turns.index((0, True))
    assert len([shard for shard, _ in turns if shard == 0]) >= last(service, 0) // 2


def test_a_copy_is_warm_when_it_has_reached_what_was_committed_during_its_load(
    tmp_path, follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shard moves to a warm copy, and would stand still until it had replayed the rest."""
    monkeypatch.setattr(standby, "LEVEL_SECONDS", 0.0)  # a load that takes longer than that
    service = Sharded(tmp_path, 1)
    service.feed(30)
    service.run()
    replay, advance = Follower._replay, Follower._advance
    committed, reached = [], []

    def slow(self, followed, *of) -> None:
        if not committed:
            service.feed(300)
            service.run()
            committed.append(last(service, 0))
            until(lambda: followed.end > committed[0])
        replay(self, followed, *of)

    def looked(self, followed, transport) -> None:
        advance(self, followed, transport)
        reached.append(followed.reached)

    monkeypatch.setattr(Follower, "_replay", slow)
    monkeypatch.setattr(Follower, "_advance", looked)
    _, (copy,) = follow(service)
    until(lambda: copy.seq is not None)

    first = next(seq for seq in reached if seq is not None)
    assert first >= committed[0]


def test_a_replay_stopped_at_any_entry_goes_on_to_the_same_bits(tmp_path) -> None:
    """What a takeover finds half way is a model at an entry of the journal, wherever it stops."""
    service = Sharded(tmp_path, 1)
    service.feed(30)
    service.run()
    found = sources(service.config, service.log)
    end, expected = last(service, 0) + 1, service.fingerprint(0)
    store = open_store(service.standby, 0)
    for stop in range(last(service, 0) + 1):
        live, ahead = load(service.standby, service.log, found, store, end=end)
        replay(
            service.log,
            found,
            live,
            end,
            ahead,
            enough=lambda live=live, stop=stop: live.seq >= stop,
        )
        assert live.seq == stop
        rest = course(service.log, found.journal, live.position, end)
        replay(service.log, found, live, end, rest)

        assert live.shard.fingerprint() == expected


def test_a_takeover_ends_the_replay_of_its_own_shard_and_goes_on_itself(
    tmp_path, follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the entry under way, not for the replay; the runner replays what is left."""
    service = Sharded(tmp_path, 1)
    service.feed(60)
    service.run()
    wanted, first = threading.Event(), threading.Event()
    replayed = standby.replay

    def held(log, found, live, end, ahead, *, enough) -> None:
        def asked() -> bool:
            if live.position > start:  # in the middle of the replay
                first.set()
                assert wanted.wait(PATIENCE)
            return enough()

        start = live.position
        replayed(log, found, live, end, ahead, enough=asked)

    monkeypatch.setattr(standby, "replay", held)
    _, standbys = follow(service)
    assert first.wait(PATIENCE)
    followed = standbys[0]._followed
    taken: list = []
    taker = threading.Thread(target=lambda: taken.append(standbys[0].release()))
    taker.start()
    until(lambda: followed.leaving)
    wanted.set()
    taker.join(PATIENCE)
    (live,) = taken

    assert live is not None
    ended = last(service, 0)
    assert 0 < live.seq < ended
    expected = service.fingerprint(0)
    runner = Runner(service.config, service.log, threading.Event(), drain=True, warm=lambda: live)
    runner.run()
    assert live.seq == ended
    assert live.shard.fingerprint() == expected


def test_logs_are_closed_while_nothing_is_followed(tmp_path, quick) -> None:
    """A process that runs all shards holds no connection for standbys."""
    service = Sharded(tmp_path, 2)
    logs: list[Watched] = []

    def opened() -> Watched:
        logs.append(Watched(open_log(service.url)))
        return logs[-1]

    follower = Follower(service.standby, opened)
    try:
        standbys = [follower.follow(n) for n in range(2)]
        until(lambda: sum(log.calls["end_offsets"] for log in logs) > 0)
        for each in standbys:
            each.close()
        until(lambda: all(log.calls["close"] for log in logs))
        count = len(logs)
        follower.follow(0)
        until(lambda: len(logs) > count)
    finally:
        follower.close()

    assert all(log.calls["close"] == 1 for log in logs)


def test_a_snapshot_that_does_not_replay_costs_a_standby_time_only(
    ran_thrice, quick, caplog
) -> None:
    """An older one is tried, as at any start."""
    *_, newest = entered(ran_thrice)
    newest.write_bytes(shifted(newest.read_bytes()))
    follower = Follower(ran_thrice.config(), lambda: Watched(ran_thrice.log))
    try:
        each = follower.follow(0)
        until(lambda: each.seq == len(ran_thrice.records("svc-journal")) - 1)
        live = each.release()
    finally:
        follower.close()

    assert live is not None
    assert live.shard.fingerprint() == ran_thrice.fingerprint()
    assert "an older snapshot is tried" in caplog.text


def test_a_followed_shard_that_does_not_replay_is_not_taken_over(ran, caplog) -> None:
    """It was loaded from a snapshot that is wrong: the takeover begins as any start."""
    caplog.set_level("INFO", logger="headwater")
    warm = ran.rebuilt(4)
    partition = next(p for p in warm.shard.positions if warm.shard.positions[p])
    warm.shard.positions[partition] -= 1
    Runner(ran.config(), ran.log, threading.Event(), drain=True, warm=lambda: warm).run()

    assert "the followed shard is not used: its replay fails" in caplog.text
    assert "live at journal record" in caplog.text


@pytest.mark.usefixtures("quick")
@seeds(0.01)
def test_whatever_happens_a_standby_hands_over_a_model_of_the_journal(
    tmp_path_factory, seed
) -> None:
    """Commits, reads that fail and takeovers at random, slices of any length: each model handed
    over is that of the journal at its position, bit for bit."""
    random = Random(seed)
    service = Sharded(tmp_path_factory.mktemp("sharded"), 3)
    with pytest.MonkeyPatch.context() as patched, following() as follow:
        patched.setattr(standby, "LANES", random.randint(1, 3))
        patched.setattr(standby, "SLICE_SECONDS", 0.0)
        patched.setattr(standby, "SLICE_OFFSETS", random.randint(1, 5))
        hands_over(service, follow, random, fate=Random(seed))


def hands_over(service: Sharded, follow: Follow, random: Random, fate: Random) -> None:
    """Compare each model that is released with the journal."""

    def meets(name: str, *_: object) -> None:
        if name in ("read", "end_offsets", "describe") and fate.random() < 0.02:
            raise TransportError("the log is away")

    follower, standbys = follow(service, meets)
    for _ in range(8):
        chosen = random.sample(range(3), random.randint(1, 3))
        service.feed(random.randint(1, 40), chosen)
        service.run(chosen)
        if random.random() < 0.5:
            n = random.randrange(3)
            live = standbys[n].release()
            if live is not None and live.position:  # at 0 it has been loaded from nothing, no more
                assert live.shard.fingerprint() == service.fingerprint(n, live.position)
            standbys[n] = follower.follow(n)
    level(service, standbys, *(n for n in range(3) if last(service, n) >= 0))
