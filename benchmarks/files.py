"""Files through the commands: python -m benchmarks.files [--write]

Each row of the table is one command as a process of its own, on the same records in several
formats. The rates are those that the commands report: `replay` from the first record of the second
reading to the last one, `produce` from the first append to the last one. `process` is the time of
the whole process, with the first reading that finds errors, and all imports.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from river import metrics, naive_bayes

from benchmarks.performance import put

FIELDS = 8
CONFIG = """
name = "rates"
[input]
transport = "sqlite:{log}"
observations = "rates"
label = "label"
[features]
{features}
[model]
type = "GaussianNB"
"""


def table(rows: int) -> pa.Table:
    """Records of two classes."""
    random = np.random.default_rng(0)
    numbers = random.normal(size=(rows, FIELDS))
    label = numbers[:, 0] + numbers[:, 1] ** 2 + random.normal(size=rows) > 1
    columns = {f"x{n}": numbers[:, n] for n in range(FIELDS)}
    return pa.table({**columns, "label": np.where(label, "yes", "no")})


def write_csv(records: pa.Table, path: Path) -> None:
    """The records with a header."""
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(records.column_names)
        lines.writerows(zip(*(column.to_pylist() for column in records.columns), strict=True))


def write_json_lines(records: pa.Table, path: Path) -> None:
    """One object a line."""
    with path.open("w") as file:
        file.writelines(json.dumps(record) + "\n" for record in records.to_pylist())


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "rates.parquet": pq.write_table,
    "rates.csv": write_csv,
    "rates.jsonl": write_json_lines,
}


def command(*arguments: object) -> tuple[str, float]:
    """What a headwater command prints, and its seconds."""
    began = time.monotonic()
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "consumers", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, time.monotonic() - began


def replay(config: Path, file: Path) -> tuple[float, float]:
    """Rows a second, and seconds of the process."""
    told, seconds = command("replay", config, file, "--json")
    return json.loads(told)["records_per_second"], seconds


def produce(log: Path, file: Path, rows: int) -> tuple[float, float]:
    """Rows a second, and seconds of the process."""
    log.unlink(missing_ok=True)
    told, seconds = command("produce", "rates", file, "--transport", f"sqlite:{log}")
    found = re.search(r"in ([\d.]+) s", told)
    if found is None:
        raise SystemExit(f"expected the time of the command, got {told!r}")
    return rows / float(found[1]), seconds


def river_loop(file: Path, rows: int) -> float:
    """Rows a second of river's GaussianNB on the same file, by pyarrow and a loop."""
    model, accuracy = naive_bayes.GaussianNB(), metrics.Accuracy()
    began, done = time.monotonic(), 0
    for batch in pq.ParquetFile(file).iter_batches(batch_size=1_000):
        for record in batch.to_pylist():
            label = record.pop("label")
            accuracy.update(label, model.predict_one(record))
            model.learn_one(record, label)
            done += 1
        if done >= rows:
            break
    return done / (time.monotonic() - began)


def measured(rows: int, rounds: int) -> Iterator[tuple[str, str, float, float | None]]:
    """Command, file, rows a second and seconds of the process: medians of the rounds."""
    with tempfile.TemporaryDirectory() as directory:
        home, records = Path(directory), table(rows)
        config = home / "rates.toml"
        features = "\n".join(f'x{n} = "numeric"' for n in range(FIELDS))
        config.write_text(CONFIG.format(log=home / "log.db", features=features))
        for name, write in WRITERS.items():
            write(records, home / name)
        found: dict[tuple[str, str], list[tuple[float, float]]] = {}
        river: list[float] = []
        for _ in range(rounds):
            for name in WRITERS:
                file = home / name
                found.setdefault(("replay", name), []).append(replay(config, file))
                found.setdefault(("produce", name), []).append(
                    produce(home / "produced.db", file, rows)
                )
            river.append(river_loop(home / "rates.parquet", rows // 20))
        for (done, name), pairs in sorted(found.items(), reverse=True):
            yield done, name, median(p[0] for p in pairs), median(p[1] for p in pairs)
        yield "river's loop", "rates.parquet", median(river), None


def lines(
    found: Iterable[tuple[str, str, float, float | None]], rows: int, rounds: int
) -> Iterator[str]:
    """The table."""
    yield f"{rows:,} records of {FIELDS} numbers; medians of {rounds} rounds."
    yield ""
    yield "| command | file | rows/s | process |"
    yield "|---|---|---|---|"
    for done, name, rate, seconds in found:
        whole = "–" if seconds is None else f"{seconds:.1f} s"
        yield f"| {done} | {name.partition('.')[2]} | {rate:,.0f} | {whole} |"


def main() -> None:
    """Run and print; with --write also into docs/performance.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    made = list(lines(measured(asked.rows, asked.rounds), asked.rows, asked.rounds))
    print("\n".join(made))  # noqa: T201
    if asked.write:
        put("files", made)


if __name__ == "__main__":
    main()
