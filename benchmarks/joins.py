"""How long records wait while a process joins: python -m benchmarks.joins [--joins 6] [--write]

One process runs two shards of a service, with a history in its journal and 200 observations and as
many labels a second in the second shard. Another process starts on an empty disk: it has to replay
the history, and the second shard moves to it. The wait of an observation is from the moment when it
was due to be written until a reader has its prediction. Then the new process is stopped, and its
shard goes back. `--write` puts the table, with its date, into docs/performance.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.flow import Flow, placed
from benchmarks.main_job import create, records, service_text
from benchmarks.performance import percentile, show
from consumers.base.records import Outgoing
from consumers.transports import open_log
from tests.acceptance.service import Service
from tests.kafka.broker import running_broker

RATE = 200
MOVED = 1  # the shard that the new process gets
SETTLE_SECONDS = 5.0
PATIENCE = 300.0
CHUNK = 5000


class Join(NamedTuple):
    """Seconds: from the start of the process to its first prediction, and the waits meanwhile."""

    took: float
    waits: list[float]


def fill(bootstrap: str, name: str, history: int) -> None:
    """The topics, with labelled records in the partition of the shard that moves."""
    now, source = int(time.time() * 1000) - history, records(history)
    with closing(open_log(f"kafka://{bootstrap}")) as log:
        create(log, name, 2, 2)
        for first in range(0, history, CHUNK):
            out = []
            for i, record in enumerate(islice(source, CHUNK), first):
                fields, key = dict(record), placed(f"h{i}", MOVED, 2)
                label = {"id": key, "label": fields.pop("class")}
                for topic, value in ((name, {"id": key, **fields}), (f"{name}-labels", label)):
                    body = msgspec.json.encode(value)
                    out.append(Outgoing(topic, key.encode(), body, now + i, (), MOVED))
            log.append(out)


def measure(bootstrap: str, joins: int, history: int, model: str, home: Path) -> Iterator[Join]:
    """One service, which another process joins so often."""
    name = f"joins-{uuid.uuid4().hex[:8]}"
    fill(bootstrap, name, history)

    numbers = [f'{name} = "numeric"' for name in next(records(1)) if name != "class"]

    def started(number: int) -> Service:
        directory = home / str(number)
        directory.mkdir()
        lines = ["[scale]", "shards = 2", "standbys = 0", "[features]", *numbers]
        text = service_text(bootstrap, name, str(directory), model=model, more="\n".join(lines))
        (directory / "service.toml").write_text(text)
        return Service(directory / "service.toml")

    topics = name, f"{name}-labels", f"{name}-predictions"
    with started(0) as first, Flow(bootstrap, *topics, RATE, MOVED, 2) as flow:
        first.wait_until(lambda: any(flow.read), PATIENCE)
        time.sleep(SETTLE_SECONDS)
        for number in range(1, joins + 1):
            begin, began = len(flow.sent), time.perf_counter()
            with started(number) as other:
                other.wait_until(lambda: "live at journal record" in other.output, PATIENCE)
                at = len(flow.sent)
                other.wait_until(lambda: any(flow.read[at:]), PATIENCE)  # noqa: B023
                took, end = time.perf_counter() - began, len(flow.sent)
                other.wait_until(lambda: all(flow.read[begin:end]), PATIENCE)  # noqa: B023
                pairs = zip(flow.sent[begin:end], flow.read[begin:end], strict=True)
                yield Join(took, [read - sent for sent, read in pairs])
                back = len(flow.sent)
                other.terminate()
            first.wait_until(lambda: all(flow.read[:back]), PATIENCE)  # noqa: B023
            time.sleep(SETTLE_SECONDS)
    if flow.doubled:
        raise SystemExit(f"{flow.doubled} predictions were doubled")


def table(found: dict[str, list[Join]], history: int) -> Iterator[str]:
    """A line for each model, as Markdown."""
    yield (
        "| model | records in the journal | joins | seconds until the new process predicts | "
        "longest wait of a record: median | largest |"
    )
    yield "|---|---|---|---|---|---|"
    for model, joins in found.items():
        took = percentile([j.took for j in joins], 0.5)
        waits = [max(j.waits) for j in joins]
        cells = f"{took:.1f} | {percentile(waits, 0.5):.2f} s | {max(waits):.2f} s"
        yield f"| {model} | {history:,} | {len(joins)} | {cells} |"


def main() -> None:
    """Print one line for each join and the table, and keep that where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--joins", type=int, default=6)
    parser.add_argument("--history", type=int, default=200_000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, list[Join]] = {}
    for model in ("GaussianNB", "auto"):
        with running_broker() as bootstrap, tempfile.TemporaryDirectory() as home:
            what = bootstrap, options.joins, options.history, f'type = "{model}"', Path(home)
            for join in measure(*what):
                found.setdefault(model, []).append(join)
                sys.stdout.write(
                    f"{model}: {join.took:.1f} s, waits up to {max(join.waits):.2f} s\n"
                )
                sys.stdout.flush()
    show("joins", table(found, options.history), write=options.write)


if __name__ == "__main__":
    main()
