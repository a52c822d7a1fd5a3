"""Who runs and who follows which shard, over every way in which members come and go."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from uuid import uuid4

import pytest
from kafka import TopicPartition
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from consumers.transports.kafka.assignment import Holding, assign
from consumers.transports.kafka.assignor import ShardAssignor
from tests.seed import seeds

JOURNAL = "svc-journal"
Members = dict[str, Holding]


def rebalanced(members: Members, shards: int, standbys: int, generation: int = 0) -> Members:
    """What each has once no shard moves any more. At most one rebalance follows the first."""
    for _ in range(2):
        shares = assign(members, shards, standbys)
        after = {m: Holding(s.runs, s.follows, generation) for m, s in shares.items()}
        moved = any(members[m].runs - after[m].runs for m in members)
        members = after
        if not moved:
            return members
    raise AssertionError("shards move for ever")


def owner(members: Members, shard: int) -> str:
    (found,) = (m for m, held in members.items() if shard in held.runs)
    return found


def followers(members: Members, shard: int) -> list[str]:
    """The next owner first."""
    found = [m for m, held in members.items() if shard in held.follows]
    return sorted(found, key=lambda m: members[m].follows[shard])


def check(members: Members, shards: int, standbys: int) -> None:
    """Balanced, as many followers as asked for, and the next owner is the first of them."""
    loads = [len(held.runs) for held in members.values()]
    assert sum(loads) == shards
    assert max(loads) - min(loads) <= 1
    for shard in range(shards):
        of = followers(members, shard)
        assert len(of) == min(standbys, len(members) - 1)
        assert owner(members, shard) not in of
        assert [members[m].follows[shard] for m in of] == list(range(len(of)))
    if len(members) == 1:
        return
    for gone, held in members.items():
        after = assign({m: h for m, h in members.items() if m != gone}, shards, standbys)
        for m, share in after.items():
            assert members[m].runs <= share.runs
        for shard in held.runs:
            (successor,) = (m for m, share in after.items() if shard in share.runs)
            if standbys:
                assert successor == followers(members, shard)[0]


@seeds(0.1)
def test_successor_of_any_member_has_a_warm_copy(seed) -> None:
    """Members join, leave, and leave two at a time; whoever leaves next, its shards are warm."""
    random = Random(seed)
    for _ in range(12):
        shards, standbys = random.randint(1, 12), random.choice([0, 1, 1, 2, 3, 1024])
        names = (f"headwater-{random.getrandbits(64):x}" for _ in iter(int, 1))
        members = {next(names): Holding() for _ in range(random.randint(1, 7))}
        for generation in range(8):
            members = rebalanced(members, shards, standbys, generation)
            check(members, shards, standbys)
            for gone in random.sample(sorted(members), random.randint(0, min(2, len(members)))):
                members.pop(gone)
            joined = random.choice([0, 0, 1, 2]) if members else 1
            members |= {next(names): Holding() for _ in range(joined)}


@seeds(0.025)
def test_whatever_members_report_each_shard_has_one_owner(seed) -> None:
    """Claims of several members, of no member, and of shards that do not exist."""
    random = Random(seed)
    for _ in range(100):
        shards, standbys = random.randint(1, 8), random.randint(0, 3)
        members = {
            f"m{n}": Holding(
                frozenset(random.sample(range(10), random.randint(0, 5))),
                {s: random.randint(0, 3) for s in random.sample(range(10), random.randint(0, 5))},
                random.randint(-1, 3),
            )
            for n in range(random.randint(1, 6))
        }
        shares = assign(members, shards, standbys)
        given = sorted(shard for share in shares.values() for shard in share.runs)
        assert len(given) == len(set(given))
        claimed = {shard for held in members.values() for shard in held.runs}
        assert set(range(shards)) - claimed <= set(given)
        check(rebalanced(members, shards, standbys), shards, standbys)


def test_shard_that_moves_is_followed_by_its_next_owner_until_it_is_released() -> None:
    """The first rebalance takes it from its owner, and the second gives it away."""
    members = rebalanced({"a": Holding()}, 2, 1)
    first = assign({**members, "b": Holding()}, 2, 1)

    assert first["a"].runs == {0}
    assert first["b"].runs == set()
    assert first["b"].follows[1] == 0


@seeds(0.1)
def test_shard_of_a_living_owner_moves_only_to_a_warm_copy(seed) -> None:
    """Members join, leave and load copies at random. In the end all is balanced, whoever was first,
    and no rebalance that a member asked for was in vain."""
    random = Random(seed)
    shards, standbys = random.randint(1, 12), random.choice([0, 1, 1, 2])
    names = (f"headwater-{random.getrandbits(64):x}" for _ in iter(int, 1))
    members: Members = {}
    for generation in range(25):
        if generation < 20:
            for gone in random.sample(sorted(members), random.randint(0, len(members) > 1)):
                members.pop(gone)
            joined = random.choice([0, 0, 1, 2]) if members else 1
            members |= {next(names): Holding(warm=frozenset()) for _ in range(joined)}
        asked = True
        while asked:
            members, awaits = reassigned(members, shards, standbys, generation)
            asked = False
            for m, held in members.items():
                assert awaits[m] <= held.follows.keys() - held.runs
                loaded = {n for n in held.follows if random.random() < 0.3 or generation >= 20}
                asked |= bool(loaded & awaits[m])
                members[m] = replace(held, warm=frozenset(loaded | (held.warm or set())))
    check(members, shards, standbys)


def test_process_that_is_started_again_at_once_does_not_get_its_shards_cold() -> None:
    """Its death and its join come in one rebalance: who has a warm copy runs them meanwhile."""
    members = rebalanced({"a": Holding(), "b": Holding()}, 2, 1)
    (lost,) = members["b"].runs
    a = replace(members["a"], warm=frozenset({lost}))

    shares = assign({"a": a, "b again": Holding(warm=frozenset())}, 2, 1)
    assert shares["a"].runs == {0, 1}
    assert shares["b again"].awaits
    assert shares["b again"].awaits <= shares["b again"].follows.keys()


def test_warm_copy_of_a_shard_that_waits_is_kept() -> None:
    """Or its shard would be loaded if its owner died while the new member loads it."""
    full = frozenset({0, 1, 2, 3})
    members = {
        "a": Holding(frozenset({0, 1}), {2: 0, 3: 0}, 0, full),
        "b": Holding(frozenset({2, 3}), {0: 0, 1: 0}, 0, full),
    }
    shares = assign({**members, "c": Holding(warm=frozenset())}, 4, 1)
    (waiting,) = shares["c"].awaits
    holder = next(m for m, share in shares.items() if waiting in share.runs)
    kept = [m for m in members if m != holder and waiting in shares[m].follows]

    assert len(kept) == 1


def reassigned(
    members: Members, shards: int, standbys: int, generation: int
) -> tuple[Members, dict[str, frozenset[int]]]:
    """Rebalance until nothing was released; what each has then, and what it awaits."""
    released = True
    while released:
        shares, released = assign(members, shards, standbys), False
        given = Counter(shard for share in shares.values() for shard in share.runs)
        assert set(given.values()) <= {1}
        owned = {shard: m for m, held in members.items() for shard in held.runs}
        after = {}
        for m, share in shares.items():
            held = members[m]
            released |= bool(held.runs - share.runs)
            for shard in share.runs - held.runs:
                assert shard not in owned, "its owner lives, and has not released it"
                warm_at = {o for o, h in members.items() if shard in (h.warm or ())}
                assert not warm_at or m in warm_at, "it goes cold, and there is a warm copy"
            for shard in held.runs - share.runs:
                assert any(
                    s.follows.get(shard) == 0 and shard in (members[o].warm or ())
                    for o, s in shares.items()
                )
            warm = frozenset((held.warm or frozenset()) & share.follows.keys())
            after[m] = Holding(share.runs, share.follows, generation, warm)
        assert given.keys() | owned.keys() >= set(range(shards)), "nobody runs it"
        members = after
    return members, {m: share.awaits for m, share in shares.items()}


def test_each_follows_about_as_many() -> None:
    """Where each member runs as many shards, no one follows all."""
    for members in range(2, 9):
        found = rebalanced({f"m{n}": Holding() for n in range(members)}, members * 3, 1)
        assert max(len(held.follows) for held in found.values()) <= 4


def test_claim_of_a_member_that_missed_a_rebalance_is_not_believed() -> None:
    """The newer generation knows better."""
    now = {"late": Holding(frozenset({0, 1}), {}, 4), "new": Holding(frozenset({1}), {}, 5)}

    assert owner(rebalanced(now, 2, 0), 1) == "new"


class Group:
    """Members by their assignors, with the messages that a broker passes on as bytes."""

    def __init__(self, shards: int) -> None:
        self.cluster = SimpleNamespace(
            topics=lambda: {JOURNAL}, partitions_for_topic=lambda topic: set(range(shards))
        )
        self.members: dict[str, ShardAssignor] = {}
        self.owned: dict[str, set[TopicPartition]] = {}
        self.generation = 0

    def join(self, assignor: ShardAssignor) -> str:
        name = f"{len(self.owned)}-{uuid4()}"
        self.members[name], self.owned[name] = assignor, set()
        if isinstance(assignor, ShardAssignor):
            assignor.owned = lambda: self.owned[name]
        return name

    def rebalance(self, leader: str) -> None:
        """Until nobody has released a shard."""
        released = True
        while released:
            self.generation += 1
            reports = []
            for name, assignor in self.members.items():
                report = assignor.metadata({JOURNAL}).encode()
                decoded = ConsumerProtocolSubscription.decode(report)
                reports.append(SimpleNamespace(member_id=name, metadata=decoded))
            answers = self.members[leader].assign(self.cluster, reports)
            released = False
            for name, assignor in self.members.items():
                answer = ConsumerProtocolAssignment.decode(answers[name].encode())
                released |= bool(self.owned[name] - set(answer.partitions()))
                self.owned[name] = set(answer.partitions())
                assignor.on_assignment(answer, self.generation)

    def runs(self, name: str) -> set[int]:
        return {part.partition for part in self.owned[name]}


def test_shares_pass_the_messages_of_the_client() -> None:
    """Every member knows what it runs and follows; a new client of it reports what it follows."""
    group = Group(4)
    names = [group.join(ShardAssignor(JOURNAL, 1)) for _ in range(3)]
    group.rebalance(names[1])

    assert sorted(n for name in names for n in group.runs(name)) == [0, 1, 2, 3]
    followed = {name: group.members[name].follows for name in names}
    assert sorted(n for follows in followed.values() for n in follows) == [0, 1, 2, 3]
    gone = names[0]
    lost = group.runs(gone)
    del group.members[gone]
    group.rebalance(names[2])
    for name in names[1:]:
        assert group.runs(name) & lost <= followed[name]
    assert group.runs(names[1]) | group.runs(names[2]) == {0, 1, 2, 3}


def test_member_joins_again_once_for_each_shard_that_it_awaited() -> None:
    """The leader hears that it is warm, and gives it away; nothing else is news."""
    group = Group(2)
    old = group.join(ShardAssignor(JOURNAL, 1))
    group.rebalance(old)
    new = group.join(ShardAssignor(JOURNAL, 1))
    one, other = group.members[old], group.members[new]
    assert isinstance(one, ShardAssignor)
    assert isinstance(other, ShardAssignor)
    one.warm, other.warm = frozenset(), frozenset()
    group.rebalance(old)
    assert (group.runs(old), group.runs(new)) == ({0, 1}, set())
    assert (one.has_news, other.has_news) == (False, False)

    one.warm = frozenset({5})
    other.warm = other.follows
    assert (one.has_news, other.has_news) == (False, True)
    group.rebalance(old)
    assert (group.runs(old), group.runs(new)) == ({0}, {1})
    assert (one.has_news, other.has_news) == (False, False)


@pytest.mark.parametrize("data", [None, b"", b"\0\0\0\5", b"{}", b'{"follows":[1]}', b"\xff"])
def test_user_data_of_another_program_is_no_reason_to_fail(data) -> None:
    """Then nothing is followed."""
    assignor = ShardAssignor(JOURNAL, 1)
    assignor.on_assignment(ConsumerProtocolAssignment(1, [], data), 3)

    assert assignor.follows == frozenset()


def test_client_that_was_out_of_the_group_reports_that_it_owns_nothing() -> None:
    """What it follows is still warm."""
    assignor = ShardAssignor(JOURNAL, 1)
    answer = ConsumerProtocolAssignment(2, [(JOURNAL, [0])], b'{"follows":{"1":0}}')
    assignor.on_assignment(answer, 3)
    report = ConsumerProtocolSubscription.decode(assignor.metadata({JOURNAL}).encode())

    assert not report.owned_partitions
    assert bytes(report.user_data) == b'{"follows":{"1":0}}'
    assert report.generation_id == 3
