"""The performance page: a benchmark's table is between its marks, with the date of the run."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

__all__ = ["percentile", "put", "rate_cells", "show"]

PAGE = Path(__file__).resolve().parent.parent / "docs/performance.md"


def put(benchmark: str, lines: Iterable[str], page: Path = PAGE) -> None:
    """Replace what `python -m benchmarks.NAME --write` wrote the last time."""
    mark = f"<!-- written by python -m benchmarks.{benchmark} --write -->"
    end = f"<!-- end of what benchmarks.{benchmark} wrote -->"
    head, found, rest = page.read_text(encoding="utf-8").partition(mark)
    _, ended, tail = rest.partition(end)
    if not (found and ended):
        raise SystemExit(f"expected the marks of {benchmark} in {page}, they are not there")
    table = "\n".join(lines)
    today = time.strftime("%Y-%m-%d")
    space = "\n\n" if table.startswith("|") else " "
    page.write_text(f"{head}{mark}\nMeasured {today}.{space}{table}\n{end}{tail}", "utf-8")


def show(benchmark: str, lines: Iterable[str], *, write: bool, page: Path = PAGE) -> None:
    """Print a finished table; with `write` also `put` it."""
    made = list(lines)
    sys.stdout.write("\n".join(made) + "\n")
    if write:
        put(benchmark, made, page)


def rate_cells(rates: Sequence[float]) -> str:
    """Median and spread of rates, as two cells of a table."""
    return f"{median(rates):,.0f} | {min(rates):,.0f}–{max(rates):,.0f}"


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]
