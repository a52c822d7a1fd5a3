"""What a first start and the commands take.

    python -m benchmarks.first_start [--write]

Each command is a process of its own; its time is that of the processor, without its children. The
demo and its records begin without machine code, the others with. `--write` puts the tables, with
their date, into docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.performance import show
from stream import KNNClassifier, Mixture, SpamScorer
from stream.learner.base import Learner
from tests.acceptance.service import processor_seconds

SEED = 44
KNOWN, ROUNDS = 20, 5  # records before the clock starts; groups that are timed
WINDOW = 1000
LETTERS = 4096  # of a mail
CASES = ("8 numbers", "100 numbers", "a mail of 4 KB", "8 numbers, a full window of 1,000")
RUNS = 9  # of each command
LOG = ("--transport", "sqlite:orders.db")
COMMANDS = {
    "`python -c pass`": (sys.executable, "-c", "pass"),
    "`headwater --help`": ("headwater", "--help"),
    "`classify` of a mail": ("headwater", "classify", "-e", "-I", "mail"),
    "`tail` of a record": ("headwater", "tail", "one", "--from-beginning", "--drain", *LOG),
    "`produce` of a record": ("headwater", "produce", "more", "one.jsonl", *LOG),
    "`check`": ("headwater", "check", "orders.toml"),
}
ORDERS = "id,amount,country,late\n" + "\n".join(
    f"{i},{(i * 37) % 101}.5,{['de', 'fr', 'it'][i % 3]},{'yes' if i % 7 else 'no'}"
    for i in range(500)
)
Row = tuple[str, float, float]  # what, seconds of the processor, seconds


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    here = os.getcwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        measured = [*demo(), *warm()]
        os.chdir(here)
    os.environ["HEADWATER_KERNELS"] = "interpreted"  # read at the first call of a kernel
    rows = ["| command | s of the processor | s |", "|---|---|---|"]
    rows += [f"| {what} | {cpu:.2f} | {wall:.2f} |" for what, cpu, wall in measured]
    rows += ["", "| learner | record | ms for a prediction and its label |", "|---|---|---|"]
    for learner, case in zip(learners(), CASES, strict=True):
        name = "auto" if isinstance(learner, Mixture) else type(learner).__name__
        rows.append(f"| {name} | {case} | {milliseconds(learner, case):.3g} |")
    show("first_start", rows, write=write)


def demo() -> Iterator[Row]:
    """The demo with an empty cache: its first prediction, all of its kernels."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(Path("cache").absolute())}
    begin = time.perf_counter()
    with lines_of(("headwater", "demo"), environment) as (process, lines):
        waited = {" of 1,250 ": "`demo`, its first prediction", "compiled:": "… all kernels"}
        for line in lines:
            for words in [words for words in waited if words in line]:
                seconds = time.perf_counter() - begin
                yield waited.pop(words), processor_seconds(process.pid), seconds


def warm() -> Iterator[Row]:
    """Commands with machine code, after a first run of each."""
    Path("orders.csv").write_text(ORDERS)
    Path("one.jsonl").write_text('{"id": "1", "amount": 12.5, "country": "de"}\n')
    Path("mail").write_text("Subject: prize\nMessage-ID: <7@x>\n\nwin a prize\n")
    for command in (
        ("init", "--spam", "mail.d"),
        ("check", "mail.d/spam.toml", "--create"),
        ("init", "orders.csv", "--label", "late", "--no-look"),
        ("check", "orders.toml", "--create"),
        (
            "produce",
            "orders",
            "orders.csv",
            *LOG,
            "--label",
            "late",
            "--label-topic",
            "orders-labels",
        ),
        ("produce", "one", "one.jsonl", *LOG),
        ("run", "orders.toml", "--drain"),
    ):
        finished(("headwater", *command))
    with live("mail.d/spam.toml"):
        for what, command in COMMANDS.items():
            yield what, *medians([finished(command) for _ in range(RUNS)])
    started = []
    for _ in range(RUNS):
        with live("orders.toml") as taken:
            started.append(taken)
    yield "`run`, until it is live", *medians(started)


def finished(command: Sequence[str]) -> tuple[float, float]:
    """What a command took."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603  of this file
    _, code, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(code)
    if process.returncode:
        raise SystemExit(f"expected {' '.join(command)} to end with 0, got {process.returncode}")
    return used.ru_utime + used.ru_stime, time.perf_counter() - begin


@contextmanager
def live(config: str) -> Iterator[tuple[float, float]]:
    """A service, and what its start took."""
    begin = time.perf_counter()
    with lines_of(("headwater", "run", config), os.environ) as (process, lines):
        next(line for line in lines if " live at " in line)
        yield processor_seconds(process.pid), time.perf_counter() - begin


@contextmanager
def lines_of(
    command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[str], Iterator[str]]]:
    """A command and its lines; it is interrupted at the end."""
    with subprocess.Popen(  # noqa: S603  of this file
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None  # noqa: S101
        yield process, process.stdout
        process.send_signal(signal.SIGINT)
        process.stdout.read()


def medians(taken: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Of both numbers."""
    return median(cpu for cpu, _ in taken), median(wall for _, wall in taken)


def learners() -> tuple[Learner, ...]:
    """That of each case."""
    return Mixture(), Mixture(), SpamScorer(), KNNClassifier(window=WINDOW)


def milliseconds(learner: Learner, case: str) -> float:
    """The median over groups of records, each predicted and then learned."""
    few = 2 if "mail" in case else 10
    known = WINDOW if "window" in case else KNOWN
    given = records(case, known + ROUNDS * few)
    if "window" in case:  # by far fewer calls than records
        learner.learn_many([x for x, _ in given[:known]], [y for _, y in given[:known]])
    else:
        for x, y in given[:known]:
            learner.learn_one(x, y)
    taken = []
    for first in range(known, len(given), few):
        began = time.process_time()
        for x, y in given[first : first + few]:
            learner.predict_proba_one(x)
            learner.learn_one(x, y)
        taken.append((time.process_time() - began) / few * 1e3)
    return median(taken)


def records(case: str, n: int) -> list[tuple[dict[str, object], str]]:
    """Records of two classes."""
    rng = np.random.default_rng(SEED)
    labels = ["spam" if positive else "ham" for positive in rng.random(n) < 0.5]
    if "mail" in case:
        words = [f"word{i}" for i in range(3000)]
        return [({"text": " ".join(rng.choice(words, 480))[:LETTERS]}, y) for y in labels]
    count = int(case.split()[0])
    values = rng.normal(size=(n, count)) + np.array([y == "spam" for y in labels])[:, None]
    return [
        ({f"x{i}": float(v) for i, v in enumerate(row)}, y)
        for row, y in zip(values, labels, strict=True)
    ]


if __name__ == "__main__":
    main()
