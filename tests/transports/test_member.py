"""A member of a consumer group whose client never gets in restarts with a new one."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
from kafka import TopicPartition

from consumers.transports.kafka import assignor as group
from consumers.transports.kafka.assignor import KafkaMember, ShardAssignor
from consumers.transports.protocol import Assigned
from tests.waiting import until


class Client:
    """A consumer that joins or never does."""

    made: list[Client]
    reports: list[list[int]]
    joins: list[bool]

    def __init__(self, partition_assignment_strategy: list[ShardAssignor]) -> None:
        self.joined, self.closed = self.joins[len(self.made)], False
        if self.joined:
            (assignor,) = partition_assignment_strategy
            assignor.on_assignment(SimpleNamespace(user_data=b'{"follows":{"1":0}}'), 1)
        self.made.append(self)
        self._coordinator = SimpleNamespace(
            generation_if_stable=lambda: 1 if self.joined else None,
            request_rejoin=lambda: self.rejoin(partition_assignment_strategy[0]),
        )

    def rejoin(self, assignor: ShardAssignor) -> None:
        """The leader gives it what it awaited."""
        report = msgspec.json.decode(assignor.metadata({"svc-journal"}).user_data)
        self.reports.append(report["warm"])
        answer = b'{"follows":{"1":0},"awaits":[1]}' if len(self.reports) < 2 else b'{"follows":{}}'
        assignor.on_assignment(SimpleNamespace(user_data=answer), 2)

    def subscribe(self, topics: list[str]) -> None:
        self.topics = topics

    def poll(self, timeout_ms: int) -> None:
        """Nothing comes."""

    def assignment(self) -> set[TopicPartition]:
        return {TopicPartition(self.topics[0], 0)} if self.joined else set()

    def pause(self, *_: TopicPartition) -> None:
        """Nothing is read anyway."""

    def close(self, autocommit: bool, timeout_ms: int) -> None:
        self.closed = True


def test_client_that_never_joins_is_replaced(monkeypatch) -> None:
    """The client waits for its one attempt to join, and that may never end."""
    Client.made, Client.joins = [], [False, False, True]
    monkeypatch.setattr(group, "KafkaConsumer", Client)
    monkeypatch.setattr(group, "_JOIN_SECONDS", 0.05)
    monkeypatch.setattr(group, "_PAUSE_SECONDS", 0.0)
    member = KafkaMember(SimpleNamespace(member=lambda name: {}), "svc", "svc-journal", 1)
    assert member.assigned() is None
    try:
        until(lambda: member.assigned() == Assigned(frozenset({0}), frozenset({1})))
    finally:
        member.close()

    assert [client.closed for client in Client.made] == [True, True, True]
    assert member.assigned() == Assigned(frozenset(), frozenset({1}))


def test_member_without_partitions_keeps_its_client(monkeypatch) -> None:
    """A standby has joined, and waits for a partition."""
    Client.made, Client.joins = [], [True, True]
    monkeypatch.setattr(Client, "assignment", lambda self: set())
    polls = []
    monkeypatch.setattr(Client, "poll", lambda self, timeout_ms: polls.append(timeout_ms))
    monkeypatch.setattr(group, "KafkaConsumer", Client)
    monkeypatch.setattr(group, "_JOIN_SECONDS", 0.0)
    member = KafkaMember(SimpleNamespace(member=lambda name: {}), "svc", "svc-journal", 1)
    try:
        until(lambda: len(polls) > 100)
    finally:
        member.close()

    assert len(Client.made) == 1


def test_member_joins_again_when_an_awaited_shard_is_warm(monkeypatch) -> None:
    """And not again for the same news."""
    Client.made, Client.joins, Client.reports = [], [True], []
    monkeypatch.setattr(group, "KafkaConsumer", Client)
    polls = []
    monkeypatch.setattr(Client, "poll", lambda self, timeout_ms: polls.append(timeout_ms))
    member = KafkaMember(SimpleNamespace(member=lambda name: {}), "svc", "svc-journal", 1)
    answer = SimpleNamespace(user_data=b'{"follows":{"1":0,"2":1},"awaits":[1]}')
    try:
        until(lambda: member.assigned() is not None)
        member._assignor.on_assignment(answer, 1)
        for warm in ({2}, {1, 2}):
            member.caught_up(frozenset(warm))
            seen = len(polls)
            until(lambda: len(polls) > seen + 20)  # noqa: B023
    finally:
        member.close()

    assert Client.reports == [[1, 2]]
