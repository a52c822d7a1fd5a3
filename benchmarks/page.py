"""What clients of the web server cost the loop: the same work with and without 100 open pages.

    python -m benchmarks.page [--records 100000] [--rounds 6] [--write]

Each round drains the same inputs twice, under new names, in turn: once alone, and once while
another process holds 100 pages open, scrapes /metrics ten times a second and keeps sending requests
that never end. Target: the loop keeps 95 % of its speed. The table also has the CPU time of the
loop, and the CPU share of the server. They do not depend on other work of the machine: the loop
loses the growth of its own CPU time, and the share of the server. `--write` puts the table, with
its date, into docs/performance.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from consumers.base.records import Outgoing
from consumers.commands.run import make_own_topics, served
from consumers.config import Config, parse
from consumers.service.runner import Runner
from consumers.service.warm_up import compile_kernels
from consumers.transports import open_log

PAGES = 100
SCRAPES_A_SECOND = 10
LORIS = 8  # requests that never end, at any time
FEATURES = 8
CLASSES = 20
TARGET = 0.95
MARK = "<!-- written by python -m benchmarks.page --write -->"
END = "<!-- end of what benchmarks.page wrote -->"
PAGE = Path(__file__).resolve().parent.parent / "docs/performance.md"

CONFIG = """
name = "{name}"
[input]
transport = "{transport}"
observations = "obs"
labels = "ans"
[features]
{features}
[model]
type = "GaussianNB"
[http]
port = 0
"""


def say(line: str) -> None:
    """A line, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def config(transport: str, directory: str, name: str) -> Config:
    """A service of a name of its own over the shared inputs."""
    features = "\n".join(f'f{i} = "numeric"' for i in range(FEATURES))
    text = CONFIG.format(name=name, transport=transport, features=features)
    return parse(text, directory=Path(directory))


def records(n: int) -> Iterator[Outgoing]:
    """Observations of twenty classes, each with its label a hundred records later."""
    rng = np.random.default_rng(1)
    label = rng.integers(CLASSES, size=n)
    x = rng.normal(size=(n, FEATURES)) + label[:, None] / 4
    now = int(time.time() * 1000) - n
    for i in range(n + 100):
        if i < n:
            value = {"id": str(i), **{f"f{j}": round(v, 3) for j, v in enumerate(x[i].tolist())}}
            yield Outgoing("obs", None, json.dumps(value).encode(), now + i, (), 0)
        if i >= 100:
            label_record = {"id": str(i - 100), "label": f"class {label[i - 100]}"}
            yield Outgoing("ans", None, json.dumps(label_record).encode(), now + i, (), 0)


class Run(NamedTuple):
    """Seconds from the first commit to the last; of a processor, those of loop and server."""

    seconds: float
    loop: float
    server: float


def drained(transport: str, directory: str, name: str, *, watched: bool) -> Run:
    """Run a service of that name to the end of the inputs."""
    settings = config(transport, directory, name)
    commits: list[Run] = []
    with closing(open_log(transport)) as log:
        make_own_topics(settings, log)
        runner = Runner(
            settings,
            log,
            threading.Event(),
            drain=True,
            subscribers=[
                lambda *_: commits.append(
                    Run(time.perf_counter(), time.thread_time(), server_seconds())
                )
            ],
        )
        with served(settings, runner) as url, looked_at(str(url)) if watched else alone():
            runner.run()
    return Run(*(last - first for first, last in zip(commits[0], commits[-1], strict=True)))


def server_seconds() -> float:
    """Of a processor, taken by the server's thread."""
    (thread,) = (t.ident for t in threading.enumerate() if t.name == "headwater-http")
    return time.clock_gettime(time.pthread_getcpuclockid(thread or 0))


@contextmanager
def alone() -> Iterator[None]:
    """No page is open."""
    yield


@contextmanager
def looked_at(url: str) -> Iterator[None]:
    """A process of its own holds the pages open; begins when they are."""
    command = [sys.executable, "-m", "benchmarks.page", "--look", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as looking:  # noqa: S603
        try:
            if looking.stdout is None or looking.stdout.readline() != "open\n":
                raise SystemExit("those who look were refused")
            yield
        finally:
            looking.terminate()
            output, _ = looking.communicate()
    if output:
        raise SystemExit(f"those who look were refused: {output}")


async def look(url: str) -> None:
    """Everybody who looks, in one process; says a line when all pages are open."""
    host, _, port = url.removeprefix("http://").partition(":")

    async def page(opened: asyncio.Event) -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET /events HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
        while part := await reader.read(1 << 16):
            opened.set()
            if b" 503 " in part[:20]:
                break
        say("a page ended")

    async def loris() -> None:
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(host, int(port))
                for letter in "GET / HTTP/1.1\r\nx-slow: and slower":
                    writer.write(letter.encode())
                    await writer.drain()
                    await asyncio.sleep(0.5)
                writer.close()

    async def scraper() -> None:
        while True:
            began = time.monotonic()
            reader, writer = await asyncio.open_connection(host, int(port))
            head = f"GET /metrics HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
            writer.write(head.encode())
            await reader.read()
            writer.close()
            await asyncio.sleep(max(0.0, 1 / SCRAPES_A_SECOND - (time.monotonic() - began)))

    opened = [asyncio.Event() for _ in range(PAGES)]
    async with asyncio.TaskGroup() as all_:
        for event in opened:
            all_.create_task(page(event))
        for _ in range(LORIS):
            all_.create_task(loris())
        all_.create_task(scraper())
        for event in opened:
            await event.wait()
        say("open")


def measure(n: int, rounds: int) -> list[tuple[Run, Run]]:
    """Alone and watched, a round; who begins alternates."""
    out = []
    with tempfile.TemporaryDirectory() as directory:
        transport = f"sqlite:{directory}/log.db"
        with closing(open_log(transport)) as log:
            for topic in ("obs", "ans"):
                log.create_topic(topic, 1)
            chunk: list[Outgoing] = []
            for record in records(n):
                chunk.append(record)
                if len(chunk) == 10_000:
                    log.append(chunk)
                    chunk = []
            log.append(chunk)
        compile_kernels(config(transport, directory, "none"), say)
        drained(transport, directory, "warm", watched=False)
        for number in range(rounds):
            runs = {}
            for watched in (False, True) if number % 2 else (True, False):
                name = f"round-{number}-{'watched' if watched else 'alone'}"
                runs[watched] = drained(transport, directory, name, watched=watched)
            out.append((runs[False], runs[True]))
            say(f"alone {out[-1][0]}, watched {out[-1][1]}")
    return out


def table(n: int, rounds: list[tuple[Run, Run]]) -> str:
    """The result as the page shows it."""
    sides = list(zip(*rounds, strict=True))
    alone_, watched = (min(run.seconds for run in side) for side in sides)
    taken = [median(run.server / run.seconds for run in side) for side in sides]
    loop = [median(run.loop for run in side) for side in sides]
    kept = median(a.seconds / w.seconds for a, w in rounds)
    return "\n".join(
        (
            f"{2 * n:,} records, {CLASSES} classes, {len(rounds)} rounds in turn, "
            f"{os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}:",
            "",
            "| | fastest round | records/s | CPU time of the loop | CPU share of the server |",
            "|---|---|---|---|---|",
            f"| alone | {alone_:.2f} s | {2 * n / alone_:,.0f} "
            f"| {loop[0]:.2f} s | {taken[0]:.1%} |",
            f"| {PAGES} pages, a scraper at {SCRAPES_A_SECOND} Hz, {LORIS} unfinished requests "
            f"| {watched:.2f} s | {2 * n / watched:,.0f} | {loop[1]:.2f} s | {taken[1]:.1%} |",
            "",
            f"By CPU time the loop keeps {loop[0] / loop[1] * (1 - taken[1]):.1%} of its speed. "
            f"By wall time it keeps {kept:.1%} (median of the rounds; ratio of the fastest rounds: "
            f"{alone_ / watched:.1%}). The clients run on the same machine. Target {TARGET:.0%}.",
        )
    )


def main() -> None:
    """Measure and print; with `--write` into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--look", metavar="URL", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.look:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(look(asked.look))
        return
    result = table(asked.records, measure(asked.records, asked.rounds))
    say(result)
    if asked.write:
        before, mark, after = PAGE.read_text(encoding="utf-8").partition(MARK)
        _, end, rest = after.partition(END)
        PAGE.write_text(f"{before}{mark}\n{result}\n{end}{rest}", encoding="utf-8")


if __name__ == "__main__":
    main()
