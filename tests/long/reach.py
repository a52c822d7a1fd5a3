"""What the tests notice: python -m tests.long.reach [--only ROOM] [--tests-from COMMIT]

A seeded sample of small mutations of the product (`tests.long.mutations`), each run against the
tests of its room (`tests.long.room_tests`) that reach it: first those of the day run, and if all of
them pass, those of `--all`. So one pass counts what each of the two runs catches.

First each test runs once without a mutation. That finds which mutated statements it reaches, and
how long it takes; a test that fails then is left out and named. A test that hangs, takes more than
4 GB or ends its process has caught the mutation. In each of the two runs of a mutation at most
`--seconds` of tests run, the nearest and quickest first, and of other rooms' tests 5 s; the summary
has the mutations for which that was not enough. A mutation without effect survives all tests, now
and later.

Tests that need a broker, a browser or Spark run with `--brokers` only; so do most guards in
consumers/transports/kafka, which `tests.long.mutants` takes out by hand.

`--tests-from COMMIT` runs what `--all` has not caught against the tests of a commit, to see whether
they caught more. Tests that are the same now, word for word, are left out. Everything is kept in
`--directory`: `--resume` continues there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from queue import Queue
from typing import Any

from tests.lint.architecture import PAGE, drawn
from tests.lint.sources import source
from tests.long.mutant_trees import Worker
from tests.long.mutations import ROOT, Mutation, room_files, sample
from tests.long.room_tests import RoomTests, tests_in
from tests.long.table import code_of, say

TABLE = ROOT / "tests" / "long" / "reach.tsv"
COLUMNS = ["room", "mutation", "old", "new", "day", "all", "seconds", "caught by"]
FIRST = 3.0  # seconds of the nearest tests, which run before the others are collected
SHORT = 0.1  # of the seconds of a property: by day it has a twentieth of the examples
OTHER = 3  # the rank of tests of other rooms
OTHERS = 5.0  # seconds of tests of other rooms that reach the mutation, too


def main() -> int:
    """Sample, look once without a mutation, then one mutation at a time."""
    options = _options()
    mutations = sample(room_files(list(drawn(source(PAGE))[0])), options.count, options.seed)
    key = hashlib.sha256("\n".join(map(str, mutations)).encode()).hexdigest()[:12]
    chosen = [n for n, each in enumerate(mutations) if each.room in (options.only or [each.room])]
    options.directory.mkdir(parents=True, exist_ok=True)
    commit = options.tests_from
    if commit is not None:
        known = _Kept(options.directory / f"{key}-mutants.jsonl", resume=True).rows
        chosen = [n for n in chosen if known.get(str(n), {}).get("all") == "survived"]
    of = f"-{commit[:12]}" if commit else ""
    results = _Kept(options.directory / f"{key}-mutants{of}.jsonl", options.resume)
    tests = _Kept(options.directory / f"{key}-tests{of}.jsonl", options.resume)
    say(f"{len(chosen)} of {len(mutations)} mutations, kept in {options.directory}/{key}*")
    run = _Reach(options, mutations, chosen, tests, results)
    run.look()
    run.mutate()
    run.close()
    rows = [results.rows[str(n)] for n in chosen if str(n) in results.rows]
    sys.stdout.write(_summary(rows, tests.rows))
    if len(rows) == len(mutations) and commit is None:
        options.write.write_text(_table(rows, options))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=400, help="mutations in all rooms")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", metavar="ROOM", action="append", help="may be given again")
    parser.add_argument("--tests-from", metavar="COMMIT", help="only what --all did not catch")
    parser.add_argument("--resume", action="store_true", help="keep what is in the directory")
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "reach")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0, help="of tests in a run of one")
    parser.add_argument("--brokers", action="store_true", help="also tests that start services")
    parser.add_argument("--write", type=Path, default=TABLE, help="the table, of a whole sample")
    return parser.parse_args()


class _Kept:
    """Rows by a name, each appended to a file as it comes."""

    def __init__(self, path: Path, resume: bool) -> None:
        self._path = path
        self.rows: dict[str, dict[str, Any]] = {}
        if not resume:
            path.unlink(missing_ok=True)
        elif path.exists():
            lines = path.read_text().splitlines()
            self.rows = {row["name"]: row for row in map(json.loads, lines)}

    def add(self, row: dict[str, Any]) -> None:
        """Keep one."""
        self.rows[row["name"]] = row
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")


@dataclass
class _Test:
    """What is known of a test."""

    name: str
    seconds: float
    rank: int
    day: bool
    generated: bool


class _Reach:
    """One run of the command."""

    def __init__(
        self,
        options: argparse.Namespace,
        mutations: list[Mutation],
        chosen: list[int],
        tests: _Kept,
        results: _Kept,
    ) -> None:
        self._options, self._mutations, self._chosen = options, mutations, chosen
        self._tests, self._results = tests, results
        self._workers: Queue[Worker] = Queue()
        for number in range(options.processes):
            folder = options.directory / f"worker-{number}"
            self._workers.put(Worker(folder, mutations, options.tests_from))
        first = self._workers.queue[0]
        self._tree = first.tree
        self._room_tests = RoomTests(first.tree, options.brokers)
        self._all = ["--all"] if _has_two_runs(first.tree) else []
        self._day: set[str] | None = None
        files = (ROOT / "tests").rglob("test_*.py") if options.tests_from else ()
        self._here = {each for file in files for each in tests_in(file)}

    def close(self) -> None:
        """End the servers."""
        while not self._workers.empty():
            self._workers.get().close()

    def _each(self, what: str, work: list[Any], job: Any) -> None:
        """Do all of it, side by side, and report how long it will take."""
        began = time.monotonic()
        done = 0

        def one(item: Any) -> None:
            nonlocal done
            worker = self._workers.get()
            try:
                line = job(worker, item)
            finally:
                self._workers.put(worker)
            done += 1
            left = (time.monotonic() - began) / done * (len(work) - done)
            say(f"{done} of {len(work)} {what}, {left / 60:.0f} min left: {line}")

        with ThreadPoolExecutor(self._options.processes) as pool:
            for future in [pool.submit(one, item) for item in work]:
                future.result()

    # Without a mutation

    def look(self) -> None:
        """Run each file of tests once, to find what its tests reach."""
        wanted: set[str] = set()
        for number in self._chosen:
            mutation = self._mutations[number]
            wanted |= set(self._room_tests.of(mutation.room, mutation.path))
        if self._options.tests_from is not None:  # the same tests have not caught it
            wanted = {name for name in wanted if self._changed(name)}
        left = sorted(wanted - set(self._tests.rows))
        left.sort(key=lambda name: -(self._tree / name).stat().st_size)
        if left:
            self._each("files without a mutation", left, self._seen)

    def _changed(self, name: str) -> list[str]:
        """The tests of a file of the commit that this tree does not have in the same words."""
        return [
            test for test, text in tests_in(self._tree / name) if (test, text) not in self._here
        ]

    def _of_day(self) -> set[str] | None:
        """The tests of the day run; None if there is one run only."""
        if not self._all:
            return None
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
        environment = {**os.environ, "PYTHONPATH": str(self._tree)}
        done = subprocess.run(
            command, cwd=self._tree, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-2000:]
        return {line for line in done.stdout.splitlines() if "::" in line}

    def _seen(self, worker: Worker, name: str) -> str:
        chosen = (
            [] if self._options.tests_from is None else ["-k", " or ".join(self._changed(name))]
        )
        answer = worker.look(name, [*self._all, *self._marked(), *chosen])
        shared: set[int] = set()
        failed, ran = set(), []
        for event in answer["events"]:
            if event["event"] == "collected":
                shared |= set(event["reached"])
            elif event["event"] == "failed":
                failed.add(name if event["test"] == "pytest" else event["test"])
            elif event["event"] == "end" and not event["skipped"]:
                ran.append(event)
        if answer["ended"] not in ("passed", "failed"):
            failed.add(answer["test"] or name)
        tests = [
            {
                "test": each["test"],
                "seconds": each["seconds"],
                "generated": each["generated"],
                "reached": sorted(shared | set(each["reached"])),
            }
            for each in ran
            if each["test"] not in failed
        ]
        row = {"name": name, "failed": sorted(failed), "tests": tests}
        self._tests.add(row | {"seconds": answer["seconds"], "cpu": answer["cpu"]})
        lost = f", left out: {', '.join(sorted(failed))}" if failed else ""
        cpu = f"({answer['cpu']:.1f} s of a processor)"
        return f"{answer['seconds']:.1f} s {cpu} {name}: {len(tests)} tests{lost}"

    def _marked(self) -> list[str]:
        return [] if self._options.brokers else ["-m", "not kafka and not spark"]

    # With one

    def mutate(self) -> None:
        """Run the tests of each mutation that has no result."""
        left = [n for n in self._chosen if str(n) not in self._results.rows]
        self._day = self._of_day() if left else None
        self._each("mutations", left, self._mutated)

    def _reaching(self, number: int) -> list[_Test]:
        """The tests of a mutation, the nearest and quickest first."""
        mutation = self._mutations[number]
        ranks = self._room_tests.of(mutation.room, mutation.path)
        found = []
        for name, row in self._tests.rows.items():
            rank = ranks.get(name, OTHER)
            for test in row["tests"]:
                always = mutation.statement is None and rank != OTHER
                if always or number in test["reached"]:
                    day = self._day is None or test["test"] in self._day
                    found.append(_Test(test["test"], test["seconds"], rank, day, test["generated"]))
        return sorted(found, key=lambda test: (test.rank, test.seconds, test.name))

    def _mutated(self, worker: Worker, number: int) -> str:
        mutation, reaching = self._mutations[number], self._reaching(number)
        day = [t for t in reaching if t.day]
        if self._all:
            day = [replace(t, seconds=t.seconds * SHORT) if t.generated else t for t in day]
        day = _within(day, self._options.seconds)
        rest = [t for t in reaching if not t.day or (self._all and t.generated)]
        rest = _within(rest, self._options.seconds)
        began, cpu = time.monotonic(), 0.0
        row = {"name": str(number), "room": mutation.room, "mutation": str(mutation)}
        row |= {"old": mutation.old, "new": mutation.new, "day": "survived", "all": "survived"}
        row |= {"test": "", "reaching": len(reaching), "ran": len({t.name for t in [*day, *rest]})}
        with worker.mutated(number):
            for run, tests, more in (("day", day, []), ("all", rest, self._all)):
                if not tests:
                    continue
                answer = worker.run(number, _stages(tests), [*more, *self._marked()])
                cpu += answer["cpu"]
                if answer["ended"] != "passed":
                    row[run] = row["all"] = answer["ended"]
                    row["test"] = answer["test"]
                    break
        seconds = round(time.monotonic() - began, 1)
        self._results.add(row | {"seconds": seconds, "cpu": round(cpu, 1)})
        verdict = "SURVIVED" if row["all"] == "survived" else f"{row['all']} in {row['test']}"
        times = f"{seconds} s ({cpu:.1f} s of a processor)"
        return f"{times} {mutation}: {verdict} ({row['ran']} of {row['reaching']} tests)"


def _within(tests: list[_Test], seconds: float) -> list[_Test]:
    """The first ones that take so long; at least one."""
    found, used = [], 0.0
    others = 0.0
    for test in tests:
        if test.rank == OTHER:
            others += test.seconds
        if (used + test.seconds <= seconds and others <= OTHERS) or not found:
            found.append(test)
            used += test.seconds
    return found


def _stages(tests: list[_Test]) -> list[dict[str, Any]]:
    """The nearest file first, if it is quick; then all others."""
    nearest: dict[str, list[_Test]] = {}
    for test in tests:
        nearest.setdefault(test.name.split("::")[0], []).append(test)
    first, used = [], 0.0
    for file in list(nearest):
        for test in nearest[file]:
            if used + test.seconds <= FIRST:
                first.append(test)
                used += test.seconds
        if used > FIRST / 2:
            break
    kept = {test.name for test in first}
    rest = [test for file in nearest for test in nearest[file] if test.name not in kept]
    return [_stage(part) for part in (first, rest) if part]


def _stage(tests: list[_Test]) -> dict[str, Any]:
    names = [test.name for test in tests]
    limits = {test.name: 20 + 8 * test.seconds for test in tests}
    files = list(dict.fromkeys(name.split("::")[0] for name in names))
    return {"files": files, "tests": names, "limits": limits}


def _has_two_runs(tree: Path) -> bool:
    """Whether the tests have an option --all."""
    return '"--all"' in (tree / "tests" / "conftest.py").read_text()


def _summary(rows: list[dict[str, Any]], tests: dict[str, dict[str, Any]]) -> str:
    """A table in Markdown, a row a room; then what was not caught."""
    lines = ["| room | mutations | caught by day | caught by all |", "|---|---|---|---|"]
    for room in [*dict.fromkeys(row["room"] for row in rows), ""]:
        of = [row for row in rows if room in (row["room"], "")]
        caught = [sum(row[run] != "survived" for row in of) for run in ("day", "all")]
        lines.append(f"| {room or 'all'} | {len(of)} | {caught[0]} | {caught[1]} |")
    lines.append("")
    for row in rows:
        if row["all"] == "survived":
            more = row["reaching"] - row["ran"]
            lines.append(f"survived {row['ran']} tests: {row['mutation']}")
            lines[-1] += f"; {more} more reach it" if more else ""
    failed = [name for row in tests.values() for name in row["failed"]]
    lines += [f"left out, it fails without a mutation: {name}" for name in failed]
    return "\n".join(lines) + "\n"


def _table(rows: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """The results, to be committed."""
    head = f"# {date.today().isoformat()}, code of {code_of()}, seed {options.seed}, "
    lines = [f"{head}at most {options.seconds:g} s of tests a run", "\t".join(COLUMNS)]
    for row in rows:
        mutation = row["mutation"].split(": ")[0]
        cells = [row["room"], mutation, json.dumps(row["old"]), json.dumps(row["new"])]
        cells += [row["day"], row["all"], f"{row['seconds']:g}", json.dumps(row["test"])]
        lines.append("\t".join(cells))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
