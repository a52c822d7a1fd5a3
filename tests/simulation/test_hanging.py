"""Transactions upstream that hang: what they keep back is known, counted and over when they end."""

from __future__ import annotations

from random import Random
from unittest.mock import patch

from hypothesis import example
from kafka import TopicPartition

from consumers.base.records import UNBOUNDED, Partition
from consumers.transports.kafka import inputs as kafka_inputs
from consumers.transports.kafka.inputs import KafkaInputs
from consumers.transports.kafka.options import KafkaOptions
from tests.seed import seeds
from tests.simulation.broker import Broker, Clock
from tests.simulation.client import Consumer
from tests.simulation.weather import CALM, Weather

PARTS = [TopicPartition("in", n) for n in range(3)]
PRODUCERS = 4
STEPS = 60
STEP = 1.0  # seconds


class Upstream:
    """Producers that write, end their transactions or leave them open."""

    def __init__(self, broker: Broker, random: Random) -> None:
        self._broker, self._random = broker, random
        self._epochs = {n: broker.init(f"up-{n}", 1e9)[1] for n in range(PRODUCERS)}
        self._open: set[int] = set()

    def act(self) -> None:
        """One of them does something; some never end what they have begun by themselves."""
        n = self._random.randrange(PRODUCERS)
        if n in self._open and self._random.random() < 0.4:
            self._finish(n)
        else:
            part = self._random.choice(PARTS)
            records = [(0, None, b"x", ())] * self._random.randint(1, 5)
            plain = self._random.random() < 0.3
            self._broker.produce(None if plain else f"up-{n}", self._epochs[n], part, records)
            if not plain:
                self._open.add(n)

    def end_all(self) -> None:
        """Somebody has looked after them."""
        for n in list(self._open):
            self._finish(n)

    def _finish(self, n: int) -> None:
        self._open.discard(n)
        commit = self._random.random() < 0.5
        self._broker.finish(f"up-{n}", self._epochs[n], commit=commit)


def read_up(inputs: KafkaInputs, broker: Broker, reached: dict[Partition, int]) -> None:
    """Poll as the loop does until nothing more comes of anything, and ask for the ends."""
    quiet = 0
    while quiet < 12:
        fetched = inputs.poll(max_records=7, timeout=0.05, skip=(), max_bytes=UNBOUNDED)
        quiet = 0 if fetched else quiet + 1
        for chunk in fetched:
            reached[chunk.partition] = chunk.offsets[-1] + 1
        inputs.ends()


@example(seed=0)  # a transaction hangs for long
@seeds(0.5)
def test_what_open_transactions_keep_back_is_what_the_broker_knows(seed) -> None:
    """Offset, count and age, for any program of transactions; the lag does not count it."""
    with patch.object(kafka_inputs, "time", Clock()) as clock:
        assert run_program(Random(seed), clock) or seed != 0


def run_program(random: Random, clock: Clock) -> bool:
    """Compare after each step; whether a transaction has hung for long."""
    broker = Broker(clock)
    broker.create("in", len(PARTS))
    options = KafkaOptions(["simulated:1"], {}).consumer()
    consumer = Consumer(broker, Weather(random, clock, CALM), **options)
    inputs = KafkaInputs(consumer, [Partition(*p) for p in PARTS])
    inputs.seek({Partition(*p): 0 for p in PARTS})
    upstream = Upstream(broker, random)
    reached = {Partition(*p): 0 for p in PARTS}
    since: dict[TopicPartition, tuple[int, float]] = {}  # stable offset, when first seen there
    stood = False

    for step in range(STEPS):
        if step == STEPS - 1:
            upstream.end_all()
        elif random.random() < 0.6:
            upstream.act()
        before = clock.now
        read_up(inputs, broker, reached)
        found, ends = inputs.uncommitted(), inputs.ends()
        clock.now += STEP

        for part in PARTS:
            at, end = broker.stable(part), broker.end(part)
            if at == end:
                assert Partition(*part) not in found
                since.pop(part, None)
            else:
                if since.get(part, (None,))[0] != at:
                    since[part] = at, before
                told = found[Partition(*part)]
                longest = clock.now - since[part][1]
                assert told[:2] == (at, end - at)
                assert longest - STEP - (clock.now - before) <= told.seconds <= longest
                stood = stood or told.seconds > 5 * STEP
            assert ends[Partition(*part)] == reached[Partition(*part)]
            assert not (found and consumer.rests), "a request for its end would wait"
    assert inputs.uncommitted() == {}
    return stood


def test_broker_waits_longer_while_no_records_come(monkeypatch) -> None:
    """Until the next one."""
    random, clock = Random(1), Clock()
    broker = Broker(clock)
    broker.create("in", 1)
    monkeypatch.setattr(kafka_inputs, "time", clock)
    options = KafkaOptions(["simulated:1"], {}).consumer()
    consumer = Consumer(broker, Weather(random, clock, CALM), **options)
    inputs = KafkaInputs(consumer, [Partition("in", 0)])
    inputs.seek({Partition("in", 0): 0})

    def rests() -> bool:
        inputs.poll(max_records=7, timeout=0.05, skip=(), max_bytes=UNBOUNDED)
        return consumer.rests

    assert not rests()
    clock.now += kafka_inputs._QUIET_SECONDS
    assert rests()
    broker.produce(None, 0, TopicPartition("in", 0), [(0, None, b"x", ())])
    rests()  # it brings the record
    assert not rests()
