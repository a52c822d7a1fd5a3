"""The speed of a replay, compared with the live run and with only reading the topics.

    python -m benchmarks.replay [--partitions 1 3] [--records 45312 453120] [--rounds 3] [--write]

The records of the main job, once and ten times. `live`: the service with its defaults, until the
end of its inputs. `replay`: the shard rebuilt from journal record 0 without a snapshot; every
count, checksum and hash is compared; median of three. `reading`: both input topics are read
completely and not decoded, as columns by the client of the service, and by the public `poll` of
kafka-python. `--write` puts the table, with its date, into docs/performance.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from statistics import median
from typing import Any, NamedTuple

from kafka import KafkaConsumer, TopicPartition

from benchmarks.main_job import configuration, filled, headwater
from benchmarks.performance import put
from consumers.cli import collect_rarely
from consumers.service.recovery import rebuild, sources
from consumers.transports import open_log
from tests.kafka.broker import running_broker


class Rates(NamedTuple):
    """Records per second: live, replayed, read by columns and by public calls; and their number."""

    records: int
    live: float
    replay: float
    columns: float
    poll: float


def replayed(bootstrap: str, topic: str, directory: str) -> float:
    """Records a second of a rebuild from the journal alone."""
    config = configuration(bootstrap, topic, directory)
    log = open_log(config.input.transport, kafka=config.kafka)
    try:
        found = sources(config, log)
        end = log.end_offsets([found.journal])[found.journal]
        started = time.perf_counter()
        live = rebuild(config, log, found, None, end=end)
        return live.replayed / (time.perf_counter() - started)
    finally:
        log.close()


def read(bootstrap: str, topic: str, directory: str) -> float:
    """Records a second of reading the inputs as a replay does."""
    config = configuration(bootstrap, topic, directory)
    log = open_log(config.input.transport, kafka=config.kafka)
    try:
        inputs = sources(config, log).inputs
        starts, ends = log.beginning_offsets(inputs), log.end_offsets(inputs)
        started = time.perf_counter()
        count = sum(len(chunk) for chunk in log.read(starts, ends))
        return count / (time.perf_counter() - started)
    finally:
        log.close()


def polled(bootstrap: str, topic: str, partitions: int) -> float:
    """Records a second of reading the inputs by the client's public calls."""
    consumer: Any = KafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, isolation_level="read_committed"
    )
    inputs = [TopicPartition(t, p) for t in (topic, f"{topic}-labels") for p in range(partitions)]
    consumer.assign(inputs)
    consumer.seek_to_beginning(*inputs)
    total, count = sum(consumer.end_offsets(inputs).values()), 0
    started = time.perf_counter()
    while count < total:
        count += sum(map(len, consumer.poll(500, max_records=5_000).values()))
    seconds = time.perf_counter() - started
    consumer.close()
    return count / seconds


def measure(bootstrap: str, partitions: int, limit: int) -> Rates:
    """One after the other, on a topic of their own."""
    topic, sent = filled(bootstrap, partitions, limit)
    with tempfile.TemporaryDirectory() as directory:
        live = headwater(bootstrap, topic, directory, sent).rate
        again = median(replayed(bootstrap, topic, directory) for _ in range(3))
        columns = read(bootstrap, topic, directory)
        return Rates(sent, live, again, columns, polled(bootstrap, topic, partitions))


def table(rows: list[tuple[int, Rates]]) -> Iterator[str]:
    """The medians of the rounds as lines of Markdown."""
    kinds = list(dict.fromkeys((partitions, rates.records) for partitions, rates in rows))
    yield f"Medians of {len(rows) // len(kinds)} rounds."
    yield ""
    yield (
        "| partitions | records | live, records/s | replay, records/s | × live "
        "| reading by columns, records/s | replay is | reading by `poll`, records/s | replay is |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for kind in kinds:
        found = [rates for partitions, rates in rows if (partitions, rates.records) == kind]
        _, live, again, columns, poll = (median(each) for each in zip(*found, strict=True))
        times = median(each.replay / each.live for each in found)
        by_columns = median(each.replay / each.columns for each in found)
        by_poll = median(each.replay / each.poll for each in found)
        yield (
            f"| {kind[0]} | {kind[1]:,} | {live:,.0f} | {again:,.0f} | {times:.1f} | "
            f"{columns:,.0f} | {by_columns:.0%} | {poll:,.0f} | {by_poll:.0%} |"
        )


def main() -> None:
    """Print one line a run, and keep them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--records", type=int, nargs="+", default=[45_312, 453_120])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    collect_rarely()  # as the command does
    rows = []
    with running_broker() as bootstrap:
        for partitions in options.partitions:
            for limit in options.records:
                for _ in range(options.rounds):
                    rows.append((partitions, measure(bootstrap, partitions, limit)))
                    sys.stdout.write(list(table(rows))[-1] + "\n")
    if options.write:
        put("replay", table(rows))


if __name__ == "__main__":
    main()
