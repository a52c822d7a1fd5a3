"""A connection storm against a real service that may open few files.

Rule: loopback only, bounded in count and time, and each wait is for progress: so many health
checks, so many snapshots. What the service does meanwhile is measured from outside: its answers,
its snapshots, the size of its log, its memory.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import re
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import bcrypt
import trustme

from consumers.base.records import Outgoing
from consumers.transports import open_log
from tests.acceptance.service import Service
from tests.waiting import PATIENCE

__all__ = ["KINDS", "Report", "storm"]

PASSWORD = "correct horse"
COST = 10  # of bcrypt; some 70 ms a guess
AGAIN_SECONDS = 0.2  # before a connection that was closed is opened again
KINDS = ("idle", "hello", "slow", "guess", "requests")

CONFIG = """
name = "svc"
[input]
transport = "sqlite:feed.db"
observations = "obs"
label = "y"
[features]
a = "numeric"
[model]
type = "GaussianNB"
[snapshots]
every_seconds = 0.2
[commit]
max_delay_ms = 10
[http]
port = 0
web_config = "web.yml"
"""


@dataclass
class Report:
    """What was seen of the service during one storm."""

    kind: str
    answers: list[float] = field(default_factory=list)  # seconds each health check took
    failed: list[str] = field(default_factory=list)  # health checks without a right answer
    snapshots: int = 0  # written meanwhile
    failures: float = 0.0  # snapshots that failed
    log_bytes: int = 0  # written to the log meanwhile
    grown: int = 0  # bytes of memory
    opened: int = 0  # connections of the storm
    first_login: float | None = None  # seconds the first right login took, guessers about
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def violations(self) -> list[str]:
        """What no storm may do."""
        found = [f"{self.kind}: health check: {why}" for why in self.failed]
        if self.failures:
            found.append(f"{self.kind}: {self.failures:.0f} snapshots failed")
        if self.log_bytes > 100_000:
            found.append(f"{self.kind}: {self.log_bytes:,} bytes of log")
        if self.grown > 150 * 2**20:
            found.append(f"{self.kind}: {self.grown / 2**20:.0f} MiB more memory")
        return found


class Storm:
    """Connections of one kind, each opened again when it is closed, in a thread of their own."""

    def __init__(
        self, kind: str, port: int, tls: ssl.SSLContext | None, count: int, hosts: int, seed: int
    ) -> None:
        self._kind, self._port, self._tls = kind, port, tls
        self._count, self._hosts = count, hosts
        self._random = Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="storm")
        self.opened = 0
        self.errors: Counter[str] = Counter()

    def __enter__(self) -> Storm:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    async def _run(self) -> None:
        tasks = [asyncio.create_task(self._one(n)) for n in range(self._count)]
        while not self._stop.is_set():
            await asyncio.sleep(0.05)
        while not all(task.done() for task in tasks):  # one that just ended something goes on
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=0.2)

    async def _one(self, number: int) -> None:
        source = (f"127.0.{number % self._hosts // 200}.{number % self._hosts % 200 + 1}", 0)
        secure = self._tls if self._kind in ("slow", "guess", "requests") else None
        while True:
            try:
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", self._port, local_addr=source, ssl=secure
                )
            except (OSError, ssl.SSLError) as error:
                self.errors[type(error).__name__] += 1
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            self.opened += 1
            try:
                await self._annoy(reader, writer)
            except (OSError, ssl.SSLError, asyncio.IncompleteReadError) as error:
                self.errors[type(error).__name__] += 1
            finally:
                writer.transport.abort()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _annoy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._kind == "hello":
            writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 100)
        elif self._kind == "slow":
            writer.write(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n")
            while not reader.at_eof():
                writer.write(b"x: y\r\n")
                await writer.drain()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.5):
                        await reader.read(1000)
        elif self._kind in ("guess", "requests"):
            while True:
                word = f"guess {self._random.random()}" if self._kind == "guess" else "wrong"
                writer.write(_head("/metrics", word))
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head)
                await reader.readexactly(int(length[1]) if length else 0)
        await reader.read()  # the end


def _login(password: str) -> str:
    return base64.b64encode(f"ann:{password}".encode()).decode()


def _head(path: str, password: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic {_login(password)}\r\n\r\n"
    ).encode()


def _get(port: int, path: str, tls: ssl.SSLContext | None, source: str) -> tuple[int, str]:
    """A page, with the right password, over a connection of its own."""
    options = {"timeout": PATIENCE, "source_address": (source, 0)}
    connection = (
        http.client.HTTPConnection("127.0.0.1", port, **options)
        if tls is None
        else http.client.HTTPSConnection("127.0.0.1", port, context=tls, **options)
    )
    with closing(connection):
        connection.request("GET", path, headers={"authorization": f"Basic {_login(PASSWORD)}"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@contextmanager
def _fed(directory: Path) -> Iterator[None]:
    """Records keep coming."""
    stop = threading.Event()

    def feed() -> None:
        sent = 0
        with closing(open_log(f"sqlite:{directory / 'feed.db'}")) as log:
            while not stop.is_set():
                log.append([_record(n) for n in range(sent, sent + 20)])
                sent += 20
                stop.wait(0.05)

    with closing(open_log(f"sqlite:{directory / 'feed.db'}")) as log:
        log.create_topic("obs", 1)
    thread = threading.Thread(target=feed, name="feed")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _record(n: int) -> Outgoing:
    value = json.dumps({"id": f"r{n}", "a": n % 7, "y": "ab"[n % 2]}).encode()
    return Outgoing("obs", None, value, 1_700_000_000_000 + n, (), 0)


def _rss(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found
    return int(found[1]) * 1024


def _newest(directory: Path) -> int:
    """The journal position of the newest snapshot."""
    return max((int(p.stem[5:]) for p in directory.rglob("snap-*.hws")), default=0)


def _web_config(directory: Path, *, tls: bool) -> ssl.SSLContext | None:
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(COST)).decode()
    text, trusting = f"basic_auth_users:\n  ann: {hashed}\n", None
    if tls:
        authority = trustme.CA()
        leaf = authority.issue_cert("127.0.0.1")
        leaf.private_key_pem.write_to_path(directory / "key.pem")
        leaf.cert_chain_pems[0].write_to_path(directory / "cert.pem")
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        text += "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n"
    (directory / "web.yml").write_text(text)
    return trusting


def _until(look: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not (done := look()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return done


def storm(
    directory: Path,
    kind: str,
    *,
    tls: bool = True,
    count: int = 300,
    hosts: int = 1,
    checks: int = 10,
    snapshots: int = 5,
    source: str = "127.1.0.1",
    files: int = 160,
    seed: int = 0,
) -> Report:
    """One storm against a service of its own.

    Parameters
    ----------
    directory
        An empty one.
    kind
        One of `KINDS`: connections that send nothing; half a TLS handshake; a head that does not
        end; logins that are guessed; requests as fast as they are answered.
    count, hosts
        Connections at once, and the loopback addresses they come from.
    checks, snapshots
        Health checks to make and snapshots to wait for while it lasts.
    source
        Where health checks come from.
    files
        The service may open; an idle one has some thirty.
    """
    trusting = _web_config(directory, tls=tls)
    config = directory / "svc.toml"
    config.write_text(CONFIG)
    report = Report(kind)
    few = ("sh", "-c", f'ulimit -n {files} && exec "$@"', "sh")
    with _fed(directory), Service(config, prefix=few) as service:
        found = service.wait_said(r"metrics on https?://127\.0\.0\.1:(\d+)/metrics")
        port = int(found[1])
        service.wait_until(lambda: _newest(directory))

        def ask(path: str) -> tuple[int, str]:
            return _get(port, path, trusting, source)

        if kind != "guess":  # else the first login is measured
            ask("/healthz")
        memory, said = _rss(service.pid), len(service.output)
        with Storm(kind, port, trusting, count, hosts, seed) as others:
            assert _until(lambda: others.opened >= min(count, 100)), others.errors
            _check(report, ask, checks)
            seen = {_newest(directory)}

            def written() -> bool:
                seen.add(_newest(directory))
                return len(seen) > snapshots

            _until(written)
            report.snapshots = len(seen) - 1
            report.opened = others.opened
            report.grown = _rss(service.pid) - memory
        status, text = ask("/metrics")
        assert status == 200, text
        report.log_bytes = len(service.output) - said
        for place in ("local", "copy"):
            series = rf'headwater_snapshot_failures_total{{place="{place}",shard="0"}} (\S+)'
            report.failures += float(counted[1]) if (counted := re.search(series, text)) else 0
        for reason, n in re.findall(r'headwater_http_refused_total{reason="(\w+)"} (\S+)', text):
            report.refused[reason] = int(float(n))
    if report.snapshots < snapshots:
        report.failed.append(f"{report.snapshots} of {snapshots} snapshots came")
    return report


def _check(report: Report, ask: Callable[[str], tuple[int, str]], checks: int) -> None:
    for number in range(checks):
        began = time.monotonic()
        try:
            status, text = ask("/healthz")
        except (OSError, http.client.HTTPException) as error:
            status, text = 0, f"{type(error).__name__}: {error}"
        took = time.monotonic() - began
        report.answers.append(took)
        if number == 0:
            report.first_login = took
        if status != 200:
            report.failed.append(f"{status} {text}".strip())
