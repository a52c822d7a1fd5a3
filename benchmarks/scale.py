"""A model of throughput, lag, recovery and cost: constants are measured, then checked.

    python -m benchmarks.scale [--rounds 3] [--seconds 10] [--write]

Three nodes (replication 3, two in sync) on this machine, GaussianNB on 8 numbers, labels on their
own topic. The constants of `benchmarks.scale_model` are fitted to small services: backlogs of one
shard with few and many partitions and with small and large commits, a steady feed of one shard,
the same with a follower, and a takeover. Then three other services are measured that were not part
of the fit, each with a steady feed, a backlog and, where it has several processes, a `kill -9`. CPU
time is that of the processes, so other work on the machine changes it little; times of the clock
are only good on a quiet machine. The sides are measured in turn; a round that warms up the brokers
comes first and is not used. `--write` puts the tables, with their date, into docs/scale.md.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
from kafka import KafkaAdminClient
from scipy.optimize import nnls

from benchmarks.performance import show
from benchmarks.scale_model import INPUTS, REPLICAS, SESSION_SECONDS, Constants, Load, Model
from benchmarks.scale_runs import Bench, Drained, Fed, drained, fed
from consumers.cli import collect_rarely
from consumers.config import parse
from consumers.service.warm_up import compile_kernels
from tests.faults.broker import Cluster

PAGE = Path(__file__).resolve().parent.parent / "docs/scale.md"
BACKLOGS = (  # observations, partitions, records of a commit (None: the default)
    (60_000, 1, None),
    (10_000, 1, 100),
    (10_000, 32, 400),
    (60_000, 8, None),
)
STEADY = Load(processes=1, shards=1, partitions=1, rate=500.0)
FOLLOWED = replace(STEADY, processes=2)
FOUR = Load(processes=1, shards=4, partitions=4, rate=100.0, delay=0.4)
BACKLOG = 15_000  # observations of each shard of a point
BACKLOG_COMMITS = 3  # of 20,000, 5,000 and 5,000 records
POINTS = tuple(  # two cores must be enough for services and brokers
    replace(load, most=INPUTS * BACKLOG / BACKLOG_COMMITS)
    for load in (
        Load(processes=1, shards=2, partitions=8, rate=800.0, delay=0.1),
        Load(processes=2, shards=4, partitions=16, rate=400.0, delay=0.2),
        Load(processes=3, shards=8, partitions=64, rate=400.0, delay=0.5),
    )
)
MANY = 100  # partitions that nobody uses
EXAMPLES = (  # a million records/s on 64 partitions
    Load(processes=16, shards=64, partitions=64, rate=500_000.0, writes=10.0),
    Load(processes=16, shards=64, partitions=64, rate=500_000.0, writes=10.0, delay=0.2),
    Load(
        processes=16, shards=16, partitions=64, rate=500_000.0, writes=10.0, delay=0.2, standbys=0
    ),
)


@dataclass
class Round:
    """One measurement of everything."""

    backlogs: list[Drained]
    quiet: float  # cores of the brokers without anything
    replicas: float  # the same with many more replicas
    steady: Fed
    followed: Fed
    four: Fed
    points: list[tuple[Fed, Drained]]


def measured(bench: Bench, seconds: float, say: Callable[[str], None]) -> Round:
    """One round."""
    backlogs, points = [], []
    for observations, partitions, most in BACKLOGS:
        backlogs.append(drained(bench, observations, partitions, most))
        say(f"backlog of {observations}, {partitions} partitions: {backlogs[-1]}")
    still = quiet(bench, seconds), with_replicas(bench, seconds)
    steady = fed(bench, STEADY, seconds, kill=False)
    say(f"steady: {steady}")
    followed = fed(bench, FOLLOWED, seconds, kill=True)
    say(f"followed: {followed}")
    four = fed(bench, FOUR, seconds, kill=False)
    say(f"four shards: {four}")
    for load in POINTS:
        feed = fed(bench, load, seconds, kill=load.processes > 1)
        backlog = drained(bench, BACKLOG * load.shards, load.partitions, None, load.shards)
        points.append((feed, backlog))
        say(f"{load}: {points[-1]}")
    return Round(backlogs, *still, steady, followed, four, points)


def quiet(bench: Bench, seconds: float) -> float:
    """Cores of the brokers while nobody asks anything."""
    began, used = time.monotonic(), bench.brokers()
    time.sleep(seconds)
    return (bench.brokers() - used) / (time.monotonic() - began)


def with_replicas(bench: Bench, seconds: float) -> float:
    """The same beside a topic of many partitions."""
    admin = KafkaAdminClient(bootstrap_servers=bench.bootstrap)
    try:
        admin.create_topics({"many": {"num_partitions": MANY, "replication_factor": REPLICAS}})
        admin.wait_for_topics(["many"])
        time.sleep(seconds / 2)
        return quiet(bench, seconds)
    finally:
        admin.delete_topics(["many"])
        admin.close()


# --- the fit -------------------------------------------------------------------------------------


def solved(rows: Sequence[Sequence[float]], totals: Sequence[float]) -> list[float]:
    """Non-negative costs of each column, each row weighing the same."""
    scale = np.array(totals)[:, None]
    return [float(x) for x in nnls(np.array(rows) / scale, np.ones(len(totals)))[0]]


def per_second(run: Fed) -> tuple[float, float, float]:
    """Records, commits and their partitions."""
    counted = run.counted
    return (
        counted.records / run.seconds,
        counted.commits / run.seconds,
        counted.parts / run.seconds,
    )


def fitted(done: Round) -> Constants:
    """The constants by one round."""
    steady, followed, four = done.steady, done.followed, done.four
    runs = done.backlogs
    work = [(d.counted.records, d.counted.commits, d.counted.parts) for d in runs]
    record, commit, part = solved(work, [d.cpu for d in runs])
    answer, broker_commit, broker_part = solved(work, [d.brokers for d in runs])
    written = [d for d, (_, partitions, _) in zip(runs, BACKLOGS, strict=True) if partitions == 1]
    write = median(d.filled / d.counted.records for d in written)
    few = [(d.counted.commits, d.counted.parts) for d in runs]
    commit_bytes, part_bytes = solved(few, [d.other_bytes / REPLICAS for d in runs])
    large, small = runs[0], runs[1]
    ids = large.counted.observations - small.counted.observations
    each = (large.snapshot - small.snapshot) / ids
    again = [(d.counted.records, d.counted.commits) for d in runs]
    replay, replay_commit = solved(again, [d.replay_cpu * d.counted.records for d in runs])

    records, commits, parts = per_second(steady)
    own = records * record + commits * commit + parts * part
    live = (steady.service - steady.idle - own) / commits
    batches = parts + INPUTS * STEADY.writes  # each of one partition
    theirs = records * (write + answer) + commits * broker_commit + batches * broker_part
    broker_live = (steady.brokers - steady.broker_idle - theirs) / commits
    replica = max(0.0, done.replicas - done.quiet) / (REPLICAS * MANY)
    f_records, f_commits, _ = per_second(followed)
    follower = min(followed.each) - followed.idle
    shard_memory = max(0.0, four.memory - steady.memory) / (FOUR.shards - 1)
    return Constants(
        record=record,
        commit=commit,
        part=part,
        live=max(0.0, live),
        follow=max(0.0, (follower - f_records * replay) / f_commits),
        idle=four.idle / FOUR.shards,
        replay=replay,
        replay_commit=replay_commit,
        broker_write=write,
        broker_record=answer,
        broker_commit=broker_commit,
        broker_part=broker_part,
        broker_live=max(0.0, broker_live),
        broker_idle=done.quiet,
        broker_replica=replica,
        broker_shard=max(0.0, steady.broker_idle - done.quiet),
        input_bytes=large.input_bytes / REPLICAS / large.counted.records,
        prediction_bytes=large.prediction_bytes / REPLICAS / large.counted.observations,
        commit_bytes=commit_bytes,
        part_bytes=part_bytes,
        process_memory=steady.memory - shard_memory,
        shard_memory=shard_memory,
        snapshot_base=max(0.0, small.snapshot - each * small.counted.observations),
        snapshot_id=each,
        commit_seconds=steady.commit_seconds,
        busy=min(1.0, large.cpu / large.seconds),
        detection=max(0.0, followed.assigned - SESSION_SECONDS),
        takeover=followed.takeover - followed.assigned,
    )


def middle(found: Sequence[Constants]) -> Constants:
    """The median of each constant."""
    names = Constants.__dataclass_fields__
    return Constants(**{name: median(getattr(each, name) for each in found) for name in names})


# --- tables --------------------------------------------------------------------------------------

ABOUT = {  # constant -> what it is, its unit, and how many units are one
    "record": ("service: a record of a backlog", "µs of CPU", 1e6),
    "commit": ("service: a commit of a backlog", "ms of CPU", 1e3),
    "part": ("service: a partition in a commit", "µs of CPU", 1e6),
    "live": ("service: more for a commit of a steady feed", "ms of CPU", 1e3),
    "follow": ("follower: a commit, without its records", "ms of CPU", 1e3),
    "replay": ("follower or restart: a record", "µs of CPU", 1e6),
    "replay_commit": ("restart: a commit", "ms of CPU", 1e3),
    "idle": ("service: a shard that waits", "% of a core", 1e2),
    "broker_write": ("brokers: a record written to an input", "µs of CPU", 1e6),
    "broker_record": ("brokers: a record read, with its prediction", "µs of CPU", 1e6),
    "broker_commit": ("brokers: a commit of a backlog", "ms of CPU", 1e3),
    "broker_part": ("brokers: a partition in a commit or a write", "µs of CPU", 1e6),
    "broker_live": ("brokers: more for a commit of a steady feed", "ms of CPU", 1e3),
    "broker_idle": ("brokers: three nodes that wait", "% of a core", 1e2),
    "broker_replica": ("brokers: a replica that waits", "% of a core", 1e2),
    "broker_shard": ("brokers: a shard that waits", "% of a core", 1e2),
    "input_bytes": ("a record of an input, on one replica", "bytes", 1),
    "prediction_bytes": ("a prediction, on one replica", "bytes", 1),
    "commit_bytes": ("journal, offsets, transaction of a commit, on one replica", "bytes", 1),
    "part_bytes": ("the same for each partition in a commit", "bytes", 1),
    "process_memory": ("a process, in memory", "MB", 1e-6),
    "shard_memory": ("a shard or a followed one, in memory", "MB", 1e-6),
    "snapshot_base": ("a snapshot", "bytes", 1),
    "snapshot_id": ("a snapshot, for each id", "bytes", 1),
    "commit_seconds": ("a commit of a steady feed, from the poll to its end", "ms", 1e3),
    "busy": ("share of the time that a shard computes in a backlog", "%", 1e2),
    "detection": ("from the end of the session (6 s) to the assignment", "s", 1),
    "takeover": ("from the assignment to the first commit", "s", 1),
}


def constants_table(found: Sequence[Constants]) -> Iterator[str]:
    """Each with its spread."""
    yield "| constant | of what | median | spread | unit |"
    yield "|---|---|---|---|---|"
    for name, (what, unit, factor) in ABOUT.items():
        values = [factor * getattr(each, name) for each in found]
        low, high = shown(min(values)), shown(max(values))
        yield f"| `{name}` | {what} | {shown(median(values))} | {low}–{high} | {unit} |"


def shown(value: float) -> str:
    """Three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def compared(known: Constants, load: Load, runs: Sequence[tuple[Fed, Drained]]) -> Iterator[str]:
    """Rows of predicted beside measured."""
    model = Model(known, load)
    feeds, backlogs = zip(*runs, strict=True)
    rows: list[tuple[str, str, float, Sequence[float], float]] = [
        ("commits a second", "", model.commits, [f.counted.commits / f.seconds for f in feeds], 1),
        ("service, steady", " cores", model.service_cores, [f.service for f in feeds], 1),
        ("brokers, steady", " cores", model.broker_cores, [f.brokers for f in feeds], 1),
        ("written by the brokers", " kB/s", model.stored, [f.bytes for f in feeds], 1e-3),
        ("lag, mean", " ms", model.lag, [f.lag + f.commit_seconds for f in feeds], 1e3),
        ("memory of all processes", " MB", model.memory, [f.memory for f in feeds], 1e-6),
        (
            *("service, a record of a backlog", " µs", model.backlog_cpu),
            *([d.cpu / d.counted.records for d in backlogs], 1e6),
        ),
        (
            *("backlog, one shard at a time", " records/s", known.busy / model.backlog_cpu),
            *([d.counted.records / d.seconds for d in backlogs], 1),
        ),
        (
            *("snapshot of a shard after its backlog", " kB", model.snapshot(BACKLOG)),
            *([d.snapshot for d in backlogs], 1e-3),
        ),
        (
            *("restart, replay of the backlog", " s of CPU"),
            model.restart(INPUTS * BACKLOG, BACKLOG_COMMITS),
            *([d.replay_cpu * INPUTS * BACKLOG for d in backlogs], 1),
        ),
    ]
    if load.processes > 1:
        killed = [feed.takeover for feed in feeds]
        rows.append(("`kill -9` to the last first commit", " s", model.takeover, killed, 1))
    title = (
        f"{load.processes} process{'es' * (load.processes > 1)}, {load.shards} shards, "
        f"{load.partitions} partitions, {INPUTS * load.rate:,.0f} records/s, "
        f"`max_delay_ms = {1e3 * load.delay:.0f}`"
    )
    for what, unit, predicted, values, factor in rows:
        of = median(values)
        spread = f"{shown(factor * min(values))}–{shown(factor * max(values))}"
        yield (
            f"| {title} | {what} | {shown(factor * predicted)}{unit} | {shown(factor * of)}{unit} "
            f"| {spread} | {predicted / of - 1:+.0%} |"
        )
        title = ""


def example(known: Constants) -> Iterator[str]:
    """What the model predicts far from here."""
    yield (
        "| service | records of a commit | service | cores, of them for followers | brokers "
        "| written, all replicas | mean lag | capacity | backlog of 60 s ends after |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for load in EXAMPLES:
        model = Model(known, load)
        ends = model.catch_up(60.0)
        late = f"{ends:,.0f} s" if ends < float("inf") else "never"
        yield (
            f"| {load.processes} processes, {load.shards} shards, `max_delay_ms = "
            f"{1e3 * load.delay:.0f}`, `standbys = {load.standbys}` "
            f"| {INPUTS * load.rate / model.commits:,.0f} | {model.service_cores:.1f} cores "
            f"| {model.followed:.1f} | {model.broker_cores:.1f} cores "
            f"| {model.stored / 1e6:,.0f} MB/s | {1e3 * model.lag:.0f} ms "
            f"| {model.capacity / 1e6:.2f} M records/s | {late} |"
        )


def lines(rounds: Sequence[Round], seconds: float) -> Iterator[str]:
    """All that is written into the page."""
    found = [fitted(each) for each in rounds]
    known = middle(found)
    yield (
        f"{machine()}; {os.cpu_count()} cores for services and brokers; Kafka 4.1, three nodes; "
        f"{len(rounds)} rounds, {seconds:g} s for each steady feed."
    )
    yield ""
    yield from constants_table(found)
    yield ""
    yield "Predicted beside measured, for three services that the constants were not fitted to:"
    yield ""
    yield "| service | what | predicted | measured | spread | error |"
    yield "|---|---|---|---|---|---|"
    for n, load in enumerate(POINTS):
        yield from compared(known, load, [each.points[n] for each in rounds])
    yield ""
    yield "The model for 1,000,000 records/s on 64 partitions, which was not measured:"
    yield ""
    yield from example(known)


def machine() -> str:
    """The processor."""
    told = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    name = re.search(r"model name\s*: (.*)", told)
    return name[1] if name else platform.processor()


def main() -> None:
    """Print the tables; with --write also into docs/scale.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("headwater").setLevel(logging.ERROR)
    collect_rarely()  # as the command does

    def say(line: str) -> None:
        sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
        sys.stdout.flush()

    with Cluster() as cluster, tempfile.TemporaryDirectory() as home:
        bench = Bench(cluster)
        compile_kernels(parse(bench.config("none", home), directory=Path(home)), say)
        # In the first round Java compiles the brokers, which take up to four times the CPU.
        rounds = [measured(bench, options.seconds, say) for _ in range(1 + options.rounds)][1:]
    show("scale", lines(rounds, options.seconds), write=options.write, page=PAGE)


if __name__ == "__main__":
    main()
