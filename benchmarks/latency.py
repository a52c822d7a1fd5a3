"""From an observation's append to its committed prediction, by rate and `max_delay_ms`.

    python -m benchmarks.latency [--rates 1000 10000] [--delays 50 5] [--seconds 30] [--write]

`headwater run` as its own process, exactly once, snapshots included. The clock starts when the
observation is due to be handed to the producing client and stops when a reader of committed records
has the prediction. The time includes both clients, and the broker twice. `--write` puts the
table, with its date, into docs/performance.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from benchmarks.flow import Flow
from benchmarks.performance import percentile, put
from consumers.config.sections import CommitConfig
from consumers.transports import open_log
from tests.acceptance.service import Service, processor_seconds
from tests.kafka.broker import running_broker

WARM_SECONDS = 5.0
PATIENCE = 60.0  # seconds for the last prediction, far beyond what would be a good figure
DELAY = CommitConfig().max_delay_ms  # the default
TARGETS = {(1_000, DELAY): "≤ 60 / 150 ms", (1_000, 5): "≤ 12 / 40 ms"}
CONFIG = """
name = "{name}"
[input]
transport = "kafka://{bootstrap}"
observations = "{name}"
labels = "{name}-labels"
[model]
type = "GaussianNB"
[commit]
max_delay_ms = {delay}
[snapshots]
directory = "{directory}"
[http]
port = 0
"""


@dataclass(frozen=True)
class Run:
    """Latencies in seconds of the observations of one run, and predictions never seen.

    `processor` is the share of a core that the service took.
    """

    rate: int
    delay: int
    seconds: list[float]
    missing: int
    doubled: int
    processor: float


def make(bootstrap: str, name: str) -> None:
    """The topics of a service, one partition each."""
    log = open_log(f"kafka://{bootstrap}")
    for suffix in ("", "-labels", "-predictions", "-dead-letters", "-journal"):
        log.create_topic(name + suffix, 1)
    log.close()


def configured(bootstrap: str, name: str, directory: Path, delay: int) -> Path:
    """A configuration in a directory of its own."""
    directory.mkdir()
    file = directory / "service.toml"
    state = directory / "state"
    file.write_text(CONFIG.format(name=name, bootstrap=bootstrap, directory=state, delay=delay))
    return file


def measure(bootstrap: str, rate: int, delay: int, seconds: float, directory: Path) -> Run:
    """One service at one rate with one `max_delay_ms`."""
    name = f"latency-{uuid.uuid4().hex[:8]}"
    make(bootstrap, name)
    file = configured(bootstrap, name, directory, delay)
    with Flow(bootstrap, name, f"{name}-labels", f"{name}-predictions", rate) as flow:
        time.sleep(1.0)  # a first start looks at the first observations
        with Service(file) as service:
            service.wait_said("live at journal record", 60)
            time.sleep(WARM_SECONDS)
            first, before = len(flow.sent), processor_seconds(service.pid)
            time.sleep(seconds)
            last, used = len(flow.sent), processor_seconds(service.pid) - before
            deadline = time.monotonic() + PATIENCE
            while not all(flow.read[first:last]) and time.monotonic() < deadline:
                time.sleep(0.1)
            service.terminate()
    pairs = list(zip(flow.sent[first:last], flow.read[first:last], strict=True))
    found = [read - sent for sent, read in pairs if read]
    return Run(rate, delay, found, len(pairs) - len(found), flow.doubled, used / seconds)


def table(runs: list[Run]) -> Iterator[str]:
    """The runs as lines of Markdown."""
    yield (
        "| observations/s | max_delay_ms | predictions | p50 | p95 | p99 | largest "
        "| target of p50 / p99 | of a core |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for run in runs:
        found = (percentile(run.seconds, share) for share in (0.5, 0.95, 0.99, 1))
        cells = " | ".join(f"{seconds * 1e3:.0f} ms" for seconds in found)
        lost = f", {run.missing} missing" if run.missing else ""
        lost += f", {run.doubled} doubled" if run.doubled else ""
        target = TARGETS.get((run.rate, run.delay), "reported")
        counted = f"{run.rate:,} | {run.delay} | {len(run.seconds):,}{lost}"
        yield f"| {counted} | {cells} | {target} | {run.processor:.0%} |"


def main() -> None:
    """Print the table, and keep it where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--delays", type=int, nargs="+", default=[DELAY, 5])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    runs = []
    with running_broker() as bootstrap, tempfile.TemporaryDirectory() as home:
        for rate, delay in product(options.rates, options.delays):
            directory = Path(home, f"{rate}-{delay}")
            runs.append(measure(bootstrap, rate, delay, options.seconds, directory))
            sys.stdout.write("\n".join(table(runs)) + "\n")
    if options.write:
        put("latency", table(runs))


if __name__ == "__main__":
    main()
