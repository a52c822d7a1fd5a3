"""Who runs and who follows which shard: what the group gives is taken, what it takes away is
let go of."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from random import Random
from types import SimpleNamespace
from uuid import uuid4

import pytest

from consumers.base.errors import ConfigError, FencedError, TransportError
from consumers.base.records import Partition
from consumers.cluster import group, standby
from consumers.cluster.group import ShardGroup
from consumers.journal.records import CommitRecord, MovedRecord, written
from consumers.service.recovery import sources
from consumers.service.runner import Runner
from consumers.snapshots.locate import RemainingJournal
from consumers.transports import open_log
from consumers.transports.protocol import Assigned
from tests.consumers.feeds import config as configured
from tests.consumers.feeds import feed, fill, phishing
from tests.waiting import PATIENCE, until

FEATURES = tuple(sorted(phishing(1)[0][0]))


class Group:
    """What a group says, said by the test."""

    def __init__(self) -> None:
        self.given: frozenset[int] = frozenset()
        self.follows = frozenset({0})
        self.joined, self.left = True, False

    def assigned(self) -> Assigned | None:
        return Assigned(self.given, self.follows) if self.joined else None

    def caught_up(self, shards: frozenset[int]) -> None:
        """Here the test decides."""

    def close(self) -> None:
        self.left = True


class Host:
    """One process of the service, in a thread."""

    def __init__(self, directory, url: str) -> None:
        self.group, self.stop = Group(), threading.Event()
        self.error: BaseException | None = None
        config = configured(directory, url, features=FEATURES)
        self.shared = ShardGroup(config, lambda: open_log(url), self.group, self.stop)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.shared.run()
        except (ConfigError, TransportError) as error:
            self.error = error

    def end(self) -> None:
        """Stop it as SIGTERM does."""
        self.stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    @property
    def state(self) -> str:
        return self.shared.health().state


def moved(url: str) -> None:
    """End the journal as `headwater reshard` does."""
    log = open_log(url)
    journal = Partition("svc-journal", 0)
    end = log.end_offsets([journal])[journal]
    last = RemainingJournal(log, journal, 0, end, 0).last(end)
    assert isinstance(last, CommitRecord)
    entry = MovedRecord(last.seq + 1, last.now, last.chain, 2, "svc-journal-2")
    owner = log.owner("svc", 0, [Partition("obs", 0), Partition("ans", 0)])
    owner.commit([], written(entry, journal, 0), {})


@pytest.fixture
def url() -> Iterator[str]:
    """A log with 300 records."""
    url = f"memory:{uuid4()}"
    log = open_log(url)
    fill(log, phishing(300))
    yield url
    log.close()


@pytest.fixture
def host(tmp_path, url) -> Iterator[Callable[[], Host]]:
    """Start processes; each is ended with the test."""
    hosts: list[Host] = []

    def start() -> Host:
        hosts.append(Host(tmp_path / str(len(hosts)), url))
        return hosts[-1]

    yield start
    for each in hosts:
        each.end()


def said(url: str) -> int:
    """How many predictions there are."""
    log = open_log(url)
    parts = [Partition("svc-predictions", 0)]
    return log.end_offsets(parts)[parts[0]]


def test_processes_end_when_the_service_was_moved_to_other_shards(host, url) -> None:
    """Also one that only follows: it would stay in the group of the new shards."""
    owner, follower = host(), host()
    owner.group.given = frozenset({0})
    until(lambda: said(url) == 300)
    until(lambda: follower.state == "standby")

    moved(url)
    for each in (owner, follower):
        until(lambda each=each: each.error is not None)
        assert isinstance(each.error, ConfigError)
        assert "moved to 2 shards, whose journal is svc-journal-2" in str(each.error)
        assert (each.state, each.group.left) == ("dead", True)


def test_what_is_given_is_run_and_what_is_taken_is_followed(host, url) -> None:
    """From one process to another and back: each prediction once, the second always warm."""
    one, two = host(), host()
    one.group.given = frozenset({0})
    until(lambda: said(url) == 300)
    until(lambda: two.state == "standby")

    one.group.given = frozenset()
    until(lambda: one.state == "standby")
    assert list(one.shared.registry.collect()) == []  # what another process runs is told there
    two.group.given = frozenset({0})
    open_log(url).append([r for r in feed(phishing(400), 50) if int(r.key) >= 300])
    until(lambda: said(url) == 400)
    two.group.given = frozenset()
    until(lambda: two.state == "standby")
    one.group.given = frozenset({0})
    until(lambda: one.state == "live")

    assert said(url) == 400
    assert one.shared.registry.get_sample_value(
        "headwater_observations_total", {"shard": "0"}
    ) == pytest.approx(400)


def test_only_what_the_group_names_is_followed(host, url) -> None:
    """By one of two: the other reads nothing, and takes over cold, each prediction once."""
    one, warm, cold = host(), host(), host()
    cold.group.follows = frozenset()
    one.group.given = frozenset({0})
    until(lambda: said(url) == 300)
    until(lambda: "shard 0 at record" in warm.shared.health().detail)

    assert str(cold.shared.health()) == "standby: no shard is followed here"
    assert set(cold.shared.followed_feeds()) == set()
    one.group.given = frozenset()
    until(lambda: one.state == "standby")
    cold.group.given = frozenset({0})
    open_log(url).append([r for r in feed(phishing(400), 50) if int(r.key) >= 300])
    until(lambda: said(url) == 400 and cold.state == "live")
    total = cold.shared.registry.get_sample_value
    until(lambda: total("headwater_observations_total", {"shard": "0"}) == 400)  # after the commit


def test_what_the_group_names_no_longer_is_followed_no_longer(host, url) -> None:
    """And then again."""
    one, two = host(), host()
    one.group.given = frozenset({0})
    until(lambda: "shard 0 at record" in two.shared.health().detail)
    two.group.follows = frozenset()
    until(lambda: not two.shared.followed_feeds())
    assert two.state == "standby"
    two.group.follows = frozenset({0})
    until(lambda: "shard 0 at record" in two.shared.health().detail)


def test_shard_whose_snapshot_is_being_loaded_is_dropped_without_a_wait(
    host, url, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop that takes over other shards never waits for a follower."""
    loading, go = threading.Event(), threading.Event()
    load = standby.load

    def held(*args, **kwargs):
        loading.set()
        assert go.wait(PATIENCE)
        return load(*args, **kwargs)

    monkeypatch.setattr(standby, "load", held)
    try:
        one, two = host(), host()
        one.group.given = frozenset({0})
        assert loading.wait(PATIENCE)
        two.group.follows = frozenset()
        until(lambda: not two.shared.followed_feeds())
    finally:
        go.set()
    two.group.follows = frozenset({0})
    until(lambda: "shard 0 at record" in two.shared.health().detail)


def test_process_that_has_not_joined_is_not_ready(host) -> None:
    """It neither runs nor follows anything."""
    one = host()
    one.group.joined = False

    until(lambda: str(one.shared.health()) == "starting: waiting for the group")
    assert not one.shared.health().ready


def test_a_shard_that_was_fenced_is_taken_again_if_it_still_is_ours(
    host, url, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody ran it by hand: he is overtaken once the group had time to say otherwise."""
    monkeypatch.setattr(group, "GRACE_SECONDS", 0.3)
    one = host()
    one.group.given = frozenset({0})
    until(lambda: one.state == "live" and said(url) == 300)
    config = configured(tmp_path, url, features=FEATURES)
    log = open_log(url)
    other = log.owner("svc", 0, sources(config, log).inputs)
    log.append([r for r in feed(phishing(310), 50) if int(r.key) >= 300])
    until(lambda: said(url) == 310)

    assert one.error is None
    with pytest.raises(FencedError):
        other.confirm({})


def test_a_shard_that_fails_ends_the_process(host, url, monkeypatch: pytest.MonkeyPatch) -> None:
    """An orchestrator starts it again; the group gives its shards to the others."""

    def failed(self) -> None:
        raise TransportError("the log is gone")

    monkeypatch.setattr(Runner, "run", failed)
    one = host()
    one.group.given = frozenset({0})
    until(lambda: one.error is not None)

    assert str(one.error) == "the log is gone"
    assert one.state == "dead"
    assert one.group.left


def test_a_rollback_behind_a_standby_costs_its_warmth_only(host, url, tmp_path) -> None:
    """It is rebuilt as the journal now says, and takes over from there."""
    from consumers.timetravel.moment import moment, rebuild_at
    from consumers.timetravel.rollback import roll_back

    one, two = host(), host()
    one.group.given = frozenset({0})
    until(lambda: said(url) == 300 and two.state == "standby")
    one.group.given = frozenset()
    until(lambda: one.state == "standby")
    log = open_log(url)
    config = configured(tmp_path, url, features=FEATURES)
    found = sources(config, log)
    live = rebuild_at(config, log, found, None, moment(log, found.journal, "4"))
    then = live.shard.view().learned
    reset = roll_back(log, log.owner("svc", 0, found.inputs), found, live, now=0, reason="")
    until(lambda: f"at record {reset.seq}" in two.shared.health().detail)
    two.group.given = frozenset({0})
    until(lambda: two.state == "live")

    learned = two.shared.registry.get_sample_value("headwater_learned_total", {"shard": "0"})
    assert learned == then


class Clock(SimpleNamespace):
    """The time, as a test says."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def lived(
    steps: list[tuple[float, frozenset[int]]], monkeypatch: pytest.MonkeyPatch, **asked
) -> list[tuple[int, bool, object]]:
    """What each run of a shard was begun with, over times and what the group gives then."""
    clock, stop, left = Clock(), threading.Event(), list(steps)
    begun: list[tuple[int, bool, object]] = []

    class Run:
        def __init__(self, config, opened, shard, standby, new_journal, decision) -> None:
            begun.append((shard, new_journal, decision))
            self.stop, self.error = threading.Event(), None
            self.thread = SimpleNamespace(
                is_alive=lambda: not self.stop.is_set(), join=lambda: None
            )

    class Script:
        def assigned(self) -> Assigned:
            given = left.pop(0)[1]
            if left:
                clock.now = left[0][0]
            else:
                stop.set()
            return Assigned(given, frozenset())

        def caught_up(self, shards: frozenset[int]) -> None:
            pass

        def close(self) -> None:
            pass

    monkeypatch.setattr(group, "_Run", Run)
    monkeypatch.setattr(group, "time", clock)
    monkeypatch.setattr(group, "LOOK_SECONDS", 0)
    monkeypatch.setattr(
        group,
        "Follower",
        lambda *_: SimpleNamespace(follow=lambda _: SimpleNamespace(seq=1), close=lambda: None),
    )
    config = SimpleNamespace(scale=SimpleNamespace(shards=3))
    ShardGroup(config, lambda: None, Script(), stop, **asked).run()
    return begun


ALL = frozenset({0, 1, 2})


@pytest.mark.parametrize(
    ("steps", "decided"),
    [
        ([(0, ALL)], [0, 1, 2]),
        ([(0, frozenset()), (6, ALL)], [0, 1, 2]),  # another process died just before
        ([(0, frozenset({0})), (59, ALL)], [0, 1, 2]),
        ([(0, frozenset({0})), (60, frozenset({0})), (1e6, ALL)], [0]),
        ([(0, frozenset({0})), (1e6, ALL)], [0]),
        ([(0, frozenset()), (1e6, ALL)], []),  # it stood by
        ([(0, ALL), (1, frozenset()), (2, frozenset()), (3, ALL)], [0, 1, 2]),
    ],
)
@pytest.mark.parametrize("asked", [{"new_journal": True}, {"decision": "new"}])
def test_what_is_asked_of_a_start_is_not_kept_for_a_later_takeover(
    steps, decided, asked, monkeypatch, caplog
) -> None:
    """Once a shard, in the first minute; what is not used then is named and forgotten."""
    with caplog.at_level(logging.WARNING, "headwater"):
        begun = lived(steps, monkeypatch, **asked)

    used = [shard for shard, new_journal, decision in begun if new_journal or decision]
    assert sorted(used) == decided
    assert {shard for shard, *_ in begun} == set().union(*(given for _, given in steps))
    option = "--new-journal" if "new_journal" in asked else "--accept-new-topic"
    named = [r.getMessage() for r in caplog.records if "no longer applies to" in r.getMessage()]
    assert len(named) == (steps[-1][0] >= 60)
    assert all(line.startswith(f"{option} no longer applies to shards ") for line in named)


def test_a_decision_is_for_each_shards_first_run_in_the_first_minute(monkeypatch) -> None:
    """Over random groups: once a shard, and never after it."""
    random = Random(14)
    for _ in range(300):
        now, steps, expected = 0.0, [], {}
        for _ in range(random.randrange(1, 12)):
            given = frozenset(n for n in range(3) if random.random() < 0.5)
            steps.append((now, given))
            for shard in given:
                expected.setdefault(shard, now < 60)
            now += random.choice([0.1, 5, 25, 60, 1e5])
        begun = lived(steps, monkeypatch, decision="same")

        first: dict[int, bool] = {}
        for shard, _, decision in begun:
            assert decision is None or shard not in first
            first.setdefault(shard, decision == "same")
        assert first == expected
