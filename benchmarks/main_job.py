"""The main job on a real broker: headwater beside a hand-rolled loop, on the same topics.

    python -m benchmarks.main_job [--partitions 1] [--records 45312] [--csv FILE --label FIELD]

Elec2 is used where the shared data is; otherwise river's Phishing, repeated. Labels go to a topic
of their own, 100 records late. Both topics are filled before either side starts.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from benchmarks.hand_rolled import Measured, hand_rolled
from consumers.config import parse
from consumers.feed import LateLabels, timed
from consumers.files import read_records
from consumers.runner import Runner, compile_kernels
from consumers.transports import open_log
from tests.kafka.broker import running_broker

DELAY = 100
ROOT = Path(__file__).resolve().parent.parent
ELEC2 = Path(os.environ.get("HEADWATER_SHARED", ROOT.parent / "shared")) / "data/elec2"


def records(limit: int) -> Iterator[Mapping[str, object]]:
    """Elec2 where it is, else Phishing over and over."""
    source = ELEC2 / "elecNormNew.csv.gz"
    if source.exists():
        for record in islice(read_records(source), limit):
            yield {k: v for k, v in record.items() if k != "day"}
        return
    from river.datasets import Phishing

    for i in range(limit):
        x, y = list(Phishing())[i % 1250]
        yield {**x, "class": y}


def fill(transport, topic: str, partitions: int, limit: int) -> int:
    """Write observations and labels; how many records that made."""
    labels = f"{topic}-labels"
    for name in (topic, labels, f"{topic}-hand"):
        transport.create_topic(name, partitions)
    for name in (f"{topic}-predictions", f"{topic}-dead-letters", f"{topic}-journal"):
        transport.create_topic(name, partitions if name.endswith("predictions") else 1)
    start = int(time.time() * 1000) - 2 * limit
    late = LateLabels(labels, "class", DELAY)
    out = timed(records(limit), topic, start=start, labels=late)
    sent = 0
    while chunk := list(islice(out, 5000)):
        transport.append(chunk)
        sent += len(chunk)
    return sent


def headwater(bootstrap: str, topic: str, directory: str, sent: int) -> Measured:
    """Run the real service to the present end of its inputs."""
    config = parse(
        f"""
        name = "{topic}"
        [input]
        transport = "kafka://{bootstrap}"
        observations = "{topic}"
        labels = "{topic}-labels"
        [model]
        type = "gaussian_nb"
        [snapshots]
        directory = "{directory}"
        [http]
        enabled = false
        """
    )
    compile_kernels(config, lambda line: None)
    transport = open_log(config.input.transport, kafka=config.kafka)
    try:
        runner = Runner(config, transport, threading.Event(), drain=True)
        started = time.perf_counter()
        view = runner.run()
        seconds = time.perf_counter() - started
    finally:
        transport.close()
    if view is None:
        raise RuntimeError("the service ended before it was live")
    return Measured(sent, view.predictions, seconds, view.quality.scores["all"].accuracy or 0.0)


def main() -> None:
    """Print one line a side and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--records", type=int, default=45_312)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with running_broker() as bootstrap, tempfile.TemporaryDirectory() as directory:
        for _ in range(options.rounds):
            topic = f"bench-{uuid.uuid4().hex[:8]}"
            transport = open_log(f"kafka://{bootstrap}")
            sent = fill(transport, topic, options.partitions, options.records)
            transport.close()
            ours = headwater(bootstrap, topic, directory, sent)
            theirs = hand_rolled(
                bootstrap, topic, f"{topic}-labels", f"{topic}-hand", options.partitions
            )
            for name, run in (("headwater", ours), ("hand-rolled", theirs)):
                sys.stdout.write(
                    f"{name:12} {run.records:7,} records {run.predictions:7,} predictions "
                    f"{run.seconds:6.2f} s {run.rate:9,.0f} records/s  accuracy {run.accuracy!r}\n"
                )
            sys.stdout.write(f"ratio {ours.rate / theirs.rate:.2f}\n")


if __name__ == "__main__":
    main()
