"""A history on every engine: python -m benchmarks.backfill [--records N] [--write].

kdd99 (10 %, from the shared data, HEADWATER_SHARED) and a generated history of N records (default
10⁸) in Parquet files, learned by MixedNB in processes of this machine and by Spark. The cluster
loses an executor every so many seconds, and speculates. Every engine must give one fingerprint.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.performance import show
from tests.spark.running import executors_with_tasks

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("HEADWATER_SHARED", ROOT.parent / "shared")) / "data"
FILE = 5_000_000  # rows
GROUP = 250_000
APART = 20.0  # seconds between two kills
CONFIG = """
name = "{name}"
[input]
transport = "sqlite:{name}.db"
observations = "records"
label = "{label}"
[model]
type = "MixedNB"
"""
SPARK = ("--engine", "spark", "--conf", "spark.speculation=true")
ENGINES: dict[str, tuple[tuple[str, ...], bool]] = {
    "local, 1 process": (("--workers", "1"), False),
    "local, 2 processes": (("--workers", "2"), False),
    "Spark `local[2]`": ((*SPARK, "--master", "local[2]"), False),
    "Spark `local-cluster[2,1,1024]`, executors killed": (
        (*SPARK, "--master", "local-cluster[2,1,1024]"),
        True,
    ),
}


def generated(directory: Path, records: int) -> None:
    """A history of eight numbers, a category and a label."""
    directory.mkdir()
    for number, first in enumerate(range(0, records, FILE)):
        rng, n = np.random.default_rng(number), min(FILE, records - first)
        y = rng.random(n) < 0.3
        columns = {f"x{i}": rng.normal(i * y * 0.2, 1.0 + 0.1 * i) for i in range(8)}
        kinds = np.array(["card", "cash", "transfer", "voucher"])
        columns["kind"] = pa.array(kinds[rng.integers(0, 4, n)]).dictionary_encode()
        columns["label"] = pa.array(np.where(y, "fraud", "ok")).dictionary_encode()
        pq.write_table(pa.table(columns), directory / f"{number:03}.parquet", row_group_size=GROUP)


def kdd(directory: Path) -> None:
    """kdd99 as Parquet."""
    directory.mkdir()
    with gzip.open(SHARED / "kdd99_10pct/kddcup_10_percent.csv.gz") as stream:
        table = pyarrow.csv.read_csv(stream)
    pq.write_table(table, directory / "kdd99.parquet", row_group_size=50_000)


def learned(
    directory: Path, name: str, label: str, place: Path, words: tuple[str, ...], kills: bool
) -> tuple[dict[str, object], int]:
    """The result of the command, and how many executors were killed."""
    path = directory / f"{name}.toml"
    path.write_text(CONFIG.format(name=name, label=label))
    program = [sys.executable, "-m", "consumers"]
    subprocess.run(  # noqa: S603  this program
        [*program, "check", str(path), "--create"], check=True, capture_output=True
    )
    process = subprocess.Popen(  # noqa: S603  this program
        [*program, "backfill", str(path), str(place), "--split", "50000", "--json", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    killed = _kill_executors(process) if kills else 0
    out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{name}: exit code {process.returncode}")
    return json.loads(out), killed


def _kill_executors(process: subprocess.Popen[str]) -> int:
    """Kill an executor that has tasks, again and again until the end."""
    killed, due = 0, 0.0
    while process.poll() is None:
        found = executors_with_tasks(process)
        if found and time.monotonic() >= due:
            with suppress(ProcessLookupError):
                os.kill(found[killed % len(found)], signal.SIGKILL)
                killed += 1
            due = time.monotonic() + APART
        time.sleep(0.2)
    return killed


def rows(records: int) -> Iterator[str]:
    """The table, line by line."""
    yield "| history | engine | splits | seconds | records a second | fingerprint |"
    yield "|---|---|---|---|---|---|"
    makers: dict[str, tuple[str, Callable[[Path], None]]] = {
        "kdd99": ("class", kdd),
        "generated": ("label", lambda directory: generated(directory, records)),
    }
    with tempfile.TemporaryDirectory() as directory:
        for history, (label, make) in makers.items():
            make(place := Path(directory, history))
            marks = set()
            for number, (engine, (words, kills)) in enumerate(ENGINES.items()):
                found, killed = learned(
                    Path(directory), f"{history}-{number}", label, place, words, kills
                )
                marks.add(mark := str(found["fingerprint"]))
                seconds, count = float(str(found["seconds"])), int(str(found["records"]))
                lost = f" ({killed})" if kills else ""
                yield (
                    f"| {history}, {count:,} records | {engine}{lost} | {found['splits']} | "
                    f"{seconds:,.1f} | {count / seconds:,.0f} | `{mark[:16]}` |"
                )
            if len(marks) != 1:
                raise SystemExit(f"{history}: the engines gave {len(marks)} models")


def main() -> None:
    """Print the table."""
    given = sys.argv[1:]
    records = int(given[given.index("--records") + 1]) if "--records" in given else 100_000_000
    lines = []
    for line in rows(records):
        sys.stderr.write(f"{line}\n")
        lines.append(line)
    show("backfill", lines, write="--write" in given)


if __name__ == "__main__":
    main()
