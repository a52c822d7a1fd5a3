"""What the long runs share: their options, running side by side on one broker, a row of the table.

A row is what `docs/reliability.md` shows: the day, the date of the code, fault, count, lost,
doubled, state mismatches, recovery. Each run adds its own there, also one that found something.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from tests.kafka.broker import running_broker

__all__ = [
    "HEAD",
    "PAGE",
    "Row",
    "add_row",
    "arguments",
    "options_of",
    "report",
    "say",
    "side_by_side",
]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
HEAD = (
    "| date | code of | fault | count | lost | doubled | state mismatches | others "
    "| recovery p50/p99 |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)


@dataclass
class Row:
    """One fault's figures; violations are sorted by what they break."""

    fault: str
    count: int
    lost: int = 0
    doubled: int = 0
    mismatches: int = 0
    others: int = 0
    recoveries: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    code: str = field(default_factory=lambda: code_of())

    def add(self, violations: Sequence[str], recoveries: Sequence[float] = ()) -> None:
        """Count one run's."""
        self.violations += violations
        self.recoveries += recoveries
        for line in violations:
            if "missing" in line:
                self.lost += 1
            elif "doubled" in line or "too many" in line:
                self.doubled += 1
            elif line.startswith(("state:", "values:")):
                self.mismatches += 1
            else:
                self.others += 1

    def text(self) -> str:
        """The row in Markdown."""
        recovery = "–"
        if self.recoveries:
            p50, p99 = np.percentile(self.recoveries, [50, 99])
            recovery = f"{p50:.2f} s / {p99:.2f} s"
        cells = [self.lost, self.doubled, self.mismatches, self.others]
        figures = " | ".join(map(str, cells))
        days = f"{date.today().isoformat()} | {self.code}"
        return f"| {days} | {self.fault} | {self.count:,} | {figures} | {recovery} |\n"


def code_of() -> str:
    """When the code under test was last changed: a hash would not outlive a rebase."""
    rooms = ["--", "consumers", "stream"]
    told = [
        subprocess.run(["git", *command, *rooms], cwd=ROOT, capture_output=True, text=True)
        for command in (["log", "-1", "--format=%ad", "--date=format:%Y-%m-%d %H:%M"], ["diff"])
    ]
    return told[0].stdout.strip() + (", changed" if told[1].stdout else "")


def arguments(description: str | None, what: str, count: int) -> argparse.Namespace:
    """The options of a long run that has no others."""
    return options_of(description, what, count).parse_args()


def options_of(description: str | None, what: str, count: int) -> argparse.ArgumentParser:
    """The options every long run has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(f"--{what}", type=int, default=count)
    parser.add_argument("--seed", type=int, default=1)
    add_write(parser)
    return parser


def add_write(parser: argparse.ArgumentParser) -> None:
    """Where the row goes."""
    parser.add_argument("--write", type=Path, default=PAGE, help="the page with the table")
    parser.add_argument("--print", action="store_true", help="write no row, only print it")


def say(line: str) -> None:
    """Progress, at once."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stderr.flush()


Job = Callable[[str, Path, Callable[[str], None]], Any]


def side_by_side(jobs: Sequence[Job], n: int) -> list[Any]:
    """Run each job with (bootstrap, directory, say) on one broker, `n` at a time; their results."""
    with running_broker() as bootstrap, tempfile.TemporaryDirectory() as directory:

        def run(numbered: tuple[int, Job]) -> Any:
            number, job = numbered
            own = Path(directory) / str(number)
            own.mkdir()
            done = job(bootstrap, own, say)
            say(f"{number + 1} of {len(jobs)} done: {getattr(done, 'violations', '')}")
            return done

        with ThreadPoolExecutor(n) as pool:
            return list(pool.map(run, enumerate(jobs)))


def report(options: argparse.Namespace, row: Row, notes: str) -> int:
    """Print the row and write it; 1 where anything was violated."""
    for line in row.violations:
        say(f"VIOLATED {line}")
    sys.stdout.write(f"{HEAD}{row.text()}\n{row.fault}: {notes}\n")
    sys.stdout.flush()
    if not options.print:
        options.write.write_text(add_row(options.write.read_text(), row))
    return 1 if row.violations else 0


def add_row(page: str, row: Row) -> str:
    """The page with one more row at the end of its table of faults."""
    before, head, after = page.partition(HEAD)
    assert head, "the page has no table of faults"
    rows, blank, rest = after.partition("\n\n")
    return f"{before}{head}{rows}\n{row.text().rstrip()}{blank}{rest}"
