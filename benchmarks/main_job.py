"""The main job on a real broker: headwater compared with bare copies and a hand-rolled loop.

    python -m benchmarks.main_job [--partitions 1 3] [--records 45312] [--rounds 3] [--write]

`--write` puts the table, with its date, into docs/performance.md.

Elec2 is used where the shared data is; otherwise river's Phishing, repeated. Labels go to a topic
of their own, 100 records late. Both topics are filled before either side starts.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import cycle, islice
from math import isnan
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bare_copy import bare_copy, copy_by_batches, copy_by_librdkafka
from benchmarks.hand_rolled import Measured, hand_rolled
from benchmarks.performance import put
from consumers.base.records import Outgoing
from consumers.cli import collect_rarely
from consumers.config import Config, parse
from consumers.files.source import read_records
from consumers.offline.feed import LateLabels, timed
from consumers.service.runner import Runner
from consumers.service.warm_up import compile_kernels
from consumers.transports import open_log
from tests.kafka.broker import running_broker

DELAY = 100
SIDES = (
    "headwater",
    "bare copy",
    "bare copy by batches",
    "bare copy by librdkafka",
    "hand-rolled",
)
ROOT = Path(__file__).resolve().parent.parent
ELEC2 = Path(os.environ.get("HEADWATER_SHARED", ROOT.parent / "shared")) / "data/elec2"


Source = Callable[[int], Iterator[Mapping[str, object]]]  # so many observations


def records(limit: int) -> Iterator[Mapping[str, object]]:
    """Elec2 where it is, else Phishing; over and over."""
    source = ELEC2 / "elecNormNew.csv.gz"
    once: Iterable[Mapping[str, object]]
    if source.exists():
        once = ({k: v for k, v in r.items() if k != "day"} for r in read_records(source))
    else:
        from river.datasets import Phishing

        once = ({**x, "class": y} for x, y in Phishing())
    return islice(cycle(once), limit)


def create(transport, topic: str, partitions: int, shards: int = 1) -> None:
    """The topics of a service."""
    for name in (topic, f"{topic}-labels", f"{topic}-predictions"):
        transport.create_topic(name, partitions)
    transport.create_topic(f"{topic}-dead-letters", 1)
    transport.create_topic(f"{topic}-journal", shards)


def outgoing(topic: str, limit: int, of: Source = records) -> Iterator[Outgoing]:
    """So many observations, each with its label on the other topic."""
    late = LateLabels(f"{topic}-labels", "class", DELAY)
    return timed(of(limit), topic, start=int(time.time() * 1000) - 2 * limit, labels=late)


def fill(
    transport,
    topic: str,
    partitions: int,
    limit: int,
    shards: int = 1,
    of: Source = records,
) -> int:
    """Make the topics, and write observations and labels; how many records that made."""
    create(transport, topic, partitions, shards)
    out, sent = outgoing(topic, limit, of), 0
    while chunk := list(islice(out, 5000)):
        transport.append(chunk)
        sent += len(chunk)
    return sent


def filled(
    bootstrap: str, partitions: int, limit: int, shards: int = 1, of: Source = records
) -> tuple[str, int]:
    """The topics of a new service, and how many records they have."""
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    with closing(open_log(f"kafka://{bootstrap}")) as transport:
        return topic, fill(transport, topic, partitions, limit, shards, of)


def service_text(
    bootstrap: str,
    topic: str,
    directory: str,
    *,
    transport: str = "",
    http: str = "port = 0",
    model: str = 'type = "GaussianNB"',
    more: str = "",
) -> str:
    """The configuration of a service of a topic, all defaults. `transport` "": the broker."""
    return f"""
        name = "{topic}"
        [input]
        transport = "{transport or f"kafka://{bootstrap}"}"
        observations = "{topic}"
        labels = "{topic}-labels"
        [model]
        {model}
        [snapshots]
        directory = "{directory}"
        [http]
        {http}
        {more}
        """


def configuration(bootstrap: str, topic: str, directory: str, **parts: str) -> Config:
    """The same without a server, as parsed."""
    return parse(service_text(bootstrap, topic, directory, http="enabled = false", **parts))


class TimedRunner(Runner):
    """One that keeps when it was live."""

    live_at = 0.0

    def _recover(self, *arguments: Any) -> Any:
        live = super()._recover(*arguments)
        self.live_at = time.perf_counter()
        return live


def headwater(bootstrap: str, topic: str, directory: str, sent: int, **parts: str) -> Measured:
    """Run the real service to the present end of its inputs; `parts` of `service_text`.

    As the others' clock, this one starts when the clients are connected: when the service is live.
    """
    config = configuration(bootstrap, topic, directory, **parts)
    compile_kernels(config, lambda line: None)
    transport = open_log(config.input.transport, kafka=config.kafka)
    try:
        runner = TimedRunner(config, transport, threading.Event(), drain=True)
        started = time.perf_counter()
        view = runner.run()
        seconds = time.perf_counter() - runner.live_at
    finally:
        transport.close()
    if view is None:
        raise RuntimeError("the service ended before it was live")
    accuracy = view.quality.scores["all"].accuracy or 0.0
    return Measured(sent, view.predictions, seconds, accuracy, runner.live_at - started)


def rate(bootstrap: str, partitions: int, limit: int, of: Source = records, **parts: str) -> float:
    """Records a second of `headwater` to the end of new topics."""
    topic, sent = filled(bootstrap, partitions, limit, of=of)
    with tempfile.TemporaryDirectory() as directory:
        return headwater(bootstrap, topic, directory, sent, **parts).rate


def compare(bootstrap: str, partitions: int, limit: int) -> tuple[Measured, ...]:
    """The sides on the same inputs."""
    topic, sent = filled(bootstrap, partitions, limit)
    with closing(open_log(f"kafka://{bootstrap}")) as transport:
        for name in ("hand", "copy", "batches", "librdkafka"):
            transport.create_topic(f"{topic}-{name}", partitions)
    collector = gc.get_threshold()
    collect_rarely()  # as the command does; the copy has the same
    with tempfile.TemporaryDirectory() as directory:
        ours = headwater(bootstrap, topic, directory, sent)
    inputs = (bootstrap, topic, f"{topic}-labels")
    copied = bare_copy(*inputs, f"{topic}-copy", partitions)
    batches = copy_by_batches(*inputs, f"{topic}-batches", partitions)
    compiled = copy_by_librdkafka(*inputs, f"{topic}-librdkafka", partitions)
    gc.set_threshold(*collector)
    return ours, copied, batches, compiled, hand_rolled(*inputs, f"{topic}-hand", partitions)


def table(rows: list[tuple[int, ...]]) -> Iterator[str]:
    """The median of the rounds of each side, as lines of Markdown."""
    numbers = list(dict.fromkeys(partitions for partitions, *_ in rows))
    rounds = len(rows) // len(numbers)
    yield f"Medians of {rounds} rounds; in brackets the least and the most of a round."
    yield ""
    yield (
        "| partitions | side | records | start, s | seconds | records/s | accuracy | headwater is |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for number in numbers:
        found = [runs for partitions, *runs in rows if partitions == number]
        for side, runs in zip(SIDES, zip(*found, strict=True), strict=True):
            ratios = [ours.rate / run.rate for (ours, *_), run in zip(found, runs, strict=True)]
            spread = f"({min(ratios):.2f}–{max(ratios):.2f})"
            times = "" if side == SIDES[0] else f"{median(ratios):.2f} × as fast {spread}"
            right = median(run.accuracy for run in runs)
            yield (
                f"| {number} | {side} | {runs[0].records:,} "
                f"| {median(run.start for run in runs):.2f} "
                f"| {median(run.seconds for run in runs):.2f} "
                f"| {median(run.rate for run in runs):,.0f} "
                f"| {'' if isnan(right) else f'{right:.6f}'} | {times} |"
            )


def main() -> None:
    """Print one line a run, and keep them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--records", type=int, default=45_312)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    with running_broker() as bootstrap:
        for partitions in options.partitions:
            for _ in range(options.rounds):
                rows.append((partitions, *compare(bootstrap, partitions, options.records)))
                sys.stdout.write("\n".join(list(table(rows))[-len(SIDES) :]) + "\n")
    if options.write:
        put("main_job", table(rows))


if __name__ == "__main__":
    main()
