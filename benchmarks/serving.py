"""Predictions over HTTP: what they cost the loop, and how long a client waits.

    python -m benchmarks.serving [--records 200000] [--rounds 5] [--seconds 20] [--write]

First the loop drains the same inputs three times a round, in turn: alone, while a process asks 500
times a second the thread of the service, and while it asks a process for requests (`[serve] port`).
Target: with the process the loop keeps 95 % of its speed. Then a service reads 10,000 observations
a second while 200 requests a second come; the time of a request begins when it is due. Target: a
p99 of at most 10 ms. Everything runs on one machine, the clients too. `--write` puts the tables
into docs/performance.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import socket
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

from benchmarks.page import config, records, say
from benchmarks.performance import percentile, put
from consumers.base.records import Outgoing
from consumers.commands.run import make_own_topics, served
from consumers.config import Config
from consumers.service.runner import Runner
from consumers.service.warm_up import compile_kernels
from consumers.transports import open_log
from tests.acceptance.service import Service

BUSY, CALM, FEED = 500, 200, 10_000  # requests and records a second
CONNECTIONS = 16
WAYS = ("alone", "thread", "process")
BODY = json.dumps({f"f{i}": 0.5 * i for i in range(8)}).encode()


class Run(NamedTuple):
    """Seconds of a drain, CPU seconds of its loop, and the requests' seconds."""

    seconds: float
    loop: float
    waits: list[float]


def free_port() -> int:
    """A port that nothing uses now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@contextmanager
def asking(port: int, rate: int) -> Iterator[list[float]]:
    """Requests from a process of their own; their seconds are there at the end."""
    command = [sys.executable, "-m", "benchmarks.serving", "--ask", f"{port}:{rate}"]
    waits: list[float] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:  # noqa: S603
        if client.stdout is None or client.stdout.readline() != "asking\n":
            raise SystemExit("the client did not get an answer")
        yield waits
        client.send_signal(signal.SIGINT)
        waits += json.loads(client.communicate()[0])


async def ask(port: int, rate: int) -> None:
    """Send requests when they are due until interrupted; print the seconds of each."""
    head = b"POST /v1/predict HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    request = head + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
    waits: list[float] = []
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(request)
        header = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in header.lower().split(b"\r\n")
            if line.startswith(b"content-length")
        )
        await reader.readexactly(length)
        return header.startswith(b"HTTP/1.1 200")

    async def connected() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for _ in range(600):  # until the service has a model
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                opened = await asyncio.open_connection("127.0.0.1", port)
                if await answered(*opened):
                    return opened
            await asyncio.sleep(0.05)
        raise SystemExit("no answer")

    first = await connected()
    every = [first, *[await connected() for _ in range(CONNECTIONS - 1)]]
    say("asking")
    began = time.perf_counter()

    async def one(number: int) -> None:
        turn = number
        while not stop.is_set():
            due = began + turn / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            if not await answered(*every[number]):
                raise SystemExit("a request was refused")
            waits.append(time.perf_counter() - due)
            turn += CONNECTIONS

    await asyncio.gather(*(one(number) for number in range(CONNECTIONS)))
    say(json.dumps(waits))


def configured(transport: str, directory: str, name: str, way: str) -> Config:
    """The service of benchmarks.page, answering requests in one of the `WAYS`."""
    base = config(transport, directory, name)
    port = free_port() if way == "process" else None
    serve = base.serve.model_copy(update={"enabled": way != "alone", "port": port})
    return base.model_copy(update={"serve": serve})


def drained(transport: str, directory: str, name: str, way: str) -> Run:
    """Run a service of that name to the end of the inputs."""
    settings = configured(transport, directory, name, way)
    commits: list[tuple[float, float]] = []
    go, asked = threading.Event(), threading.Event()

    def committed(*_: object) -> None:
        if not commits:
            asked.wait(60)  # the first commit has a model, so requests can begin
        commits.append((time.perf_counter(), time.thread_time()))

    with closing(open_log(transport)) as log:
        make_own_topics(settings, log)
        runner = Runner(settings, log, threading.Event(), drain=True, subscribers=[committed])
        with served(settings, runner) as url, contextlib.ExitStack() as stack:
            thread = threading.Thread(target=runner.run)
            thread.start()
            waits: list[float] = []
            if way != "alone":
                port = settings.serve.port or int(str(url).rpartition(":")[2])
                waits = stack.enter_context(asking(port, BUSY))
            asked.set()
            thread.join()
        go.set()
    (began, loop), (ended, spent) = commits[0], commits[-1]
    return Run(ended - began, spent - loop, waits)


def filled(transport: str, n: int) -> None:
    """Put the inputs into the log."""
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


def kept(n: int, rounds: int) -> Iterator[str]:
    """What requests cost the loop, as lines of Markdown."""
    runs: dict[str, list[Run]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as directory:
        transport = f"sqlite:{directory}/log.db"
        filled(transport, n)
        compile_kernels(config(transport, directory, "none"), say)
        drained(transport, directory, "warm", "alone")
        for number in range(rounds):
            for way in WAYS[number % 3 :] + WAYS[: number % 3]:
                runs[way].append(drained(transport, directory, f"{way}-{number}", way))
                say(f"{way} {runs[way][-1][:2]}")
    yield "| requests | records/s | of the speed alone | CPU time of the loop | p50 | p99 |"
    yield "|---|---|---|---|---|---|"
    for way, name in zip(
        WAYS,
        ("none", f"{BUSY} a second, by a thread", f"{BUSY} a second, by a process"),
        strict=True,
    ):
        pairs = zip(runs["alone"], runs[way], strict=True)
        share = median(a.seconds / b.seconds for a, b in pairs)
        speed = 2 * n / median(run.seconds for run in runs[way])
        loop = median(run.loop for run in runs[way])
        waits = [wait for run in runs[way] for wait in run.waits]
        shown = [f"{percentile(waits, s) * 1e3:.1f} ms" if waits else "–" for s in (0.5, 0.99)]
        yield f"| {name} | {speed:,.0f} | {share:.1%} | {loop:.2f} s | {' | '.join(shown)} |"


def waited(seconds: float) -> Iterator[str]:
    """How long clients wait beside a steady feed, as lines of Markdown."""
    yield f"| beside {FEED:,} observations a second | requests | p50 | p95 | p99 | largest |"
    yield "|---|---|---|---|---|---|"
    for way in WAYS[1:]:
        with tempfile.TemporaryDirectory() as directory:
            waits = steady(directory, way, seconds)
        found = " | ".join(f"{percentile(waits, s) * 1e3:.1f} ms" for s in (0.5, 0.95, 0.99, 1))
        yield f"| {CALM} a second, by a {way} | {len(waits):,} | {found} |"


def steady(directory: str, way: str, seconds: float) -> list[float]:
    """The seconds of requests beside a steady feed."""
    transport, port = f"sqlite:{directory}/log.db", free_port()
    file, stop = Path(directory, "service.toml"), threading.Event()
    fields = "\n".join(f'f{i} = "numeric"' for i in range(8))
    serve = f"[http]\nport = 0\n[serve]\nport = {port}\n"
    text = f"""name = "steady"
[input]
transport = "{transport}"
observations = "obs"
labels = "ans"
[features]
{fields}
[model]
type = "GaussianNB"
{serve if way == "process" else f"[http]{chr(10)}port = {port}"}
"""
    file.write_text(text)
    made = list(records(100_000))

    def feed() -> None:
        with closing(open_log(transport)) as log:
            began, at = time.perf_counter(), 0
            while not stop.is_set():
                due = int((time.perf_counter() - began) * 2 * FEED)
                if due > at:
                    chunk = [made[i % len(made)] for i in range(at, due)]
                    now = time.time_ns() // 1_000_000
                    log.append([record._replace(timestamp=now) for record in chunk])
                    at = due
                time.sleep(0.005)

    with closing(open_log(transport)) as log:
        for topic in ("obs", "ans"):
            log.create_topic(topic, 1)
    thread = threading.Thread(target=feed)
    with Service(file) as service:
        service.wait_said("live at journal record", 60)
        thread.start()
        try:
            with asking(port, CALM) as waits:
                time.sleep(seconds)
        finally:
            stop.set()
            thread.join()
        service.terminate()
    return waits[CALM:]  # without the first second


def main() -> None:
    """Measure and print; with `--write` into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--ask", metavar="PORT:RATE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        port, rate = map(int, options.ask.split(":"))
        asyncio.run(ask(port, rate))
        return
    lines = [*waited(options.seconds), "", *kept(options.records, options.rounds)]
    say("\n".join(lines))
    if options.write:
        put("serving", lines)


if __name__ == "__main__":
    main()
