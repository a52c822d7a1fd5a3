"""Memory of the service over many records: python -m benchmarks.memory [--records N] [--write]

`headwater run` on a real broker, GaussianNB on 8 numbers, labels on their own topic, defaults. The
inputs are filled step by step; after each step, once all labels are learned, the memory of the
process is read: resident now, and the most so far.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from benchmarks.main_job import create, outgoing, service_text
from benchmarks.performance import put
from consumers.transports import open_log
from tests.acceptance.service import Service
from tests.kafka.broker import running_broker

STEPS = 5


def megabytes(pid: int) -> tuple[float, float]:
    """Resident memory now, and the most so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = {name: value for name, _, value in (line.partition(":") for line in lines)}
    return tuple(int(found[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))  # type: ignore[return-value]


def lines(bootstrap: str, count: int) -> Iterator[str]:
    """The table."""
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    log = open_log(f"kafka://{bootstrap}")
    create(log, topic, 1)
    out = outgoing(topic, count // 2)
    yield "| records | resident, MB | most so far, MB |"
    yield "|---|---|---|"
    sent = told = 0
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "service.toml"
        path.write_text(service_text(bootstrap, topic, directory))
        with Service(path, "--shards", "0") as service:
            for step in range(1, STEPS + 1):
                while sent < step * count // STEPS and (chunk := list(islice(out, 5000))):
                    log.append(chunk)
                    sent += len(chunk)
                    told += sum(record.topic != topic for record in chunk)
                service.wait_until(
                    lambda told=told: service.metric('headwater_learned_total{shard="0"}') == told
                )
                now, most = megabytes(service.pid)
                yield f"| {sent:,} | {now:,.0f} | {most:,.0f} |"
    log.close()


def main() -> None:
    """Print the table; with --write also into docs/performance.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    made = []
    with running_broker() as bootstrap:
        for line in lines(bootstrap, options.records):
            made.append(line)
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
    if options.write:
        put("memory", made)


if __name__ == "__main__":
    main()
