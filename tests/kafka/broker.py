"""A real broker for tests and benchmarks: Apache Kafka, KRaft, one node, free ports, its own data.

The first of these that the machine offers:

1. `$KAFKA_BOOTSTRAP_SERVERS`: a broker somebody else runs; it is used, never stopped
2. Java 17 or newer; Maven copies the jars of `pom.xml` into a cache, once
3. a Docker engine: the image apache/kafka

`$HEADWATER_TEST_KAFKA`, such as 3.9.1, chooses another release than that of `pom.xml`
(`tests/long/old_brokers.py`); only Java runs it.

By hand: `python -m tests.kafka.broker` starts one, prints its address, stops it at Ctrl-C.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

__all__ = [
    "BrokerUnavailableError",
    "bound",
    "free_ports",
    "installed_java",
    "running_broker",
    "running_java",
]

POM = Path(__file__).with_name("pom.xml")
IMAGE = "apache/kafka:4.1.0"
CLUSTER_ID = "aGVhZHdhdGVyLXRlc3RzMQ"  # any 16 bytes, base64
START_SECONDS = 300.0
FIRST_PORT, LAST_PORT = 20_000, 32_767  # Linux gives clients 32,768 and above

LOG4J2 = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.stdout.ref = stdout
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = [%d] %p %m (%c)%n
"""


class BrokerUnavailableError(Exception):
    """No broker can be had here; the message says what to install."""


@dataclass(frozen=True)
class _Server:
    """A server we started, whatever runs it."""

    alive: Callable[[], bool]
    stop: Callable[[], None]
    said: Callable[[], str]  # the end of its log


@contextlib.contextmanager
def running_broker() -> Iterator[str]:
    """Yield the bootstrap servers of a broker that is up; stop it afterwards, if we started it."""
    given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if given:
        yield given
        return
    port, controller_port = free_ports(2)
    with tempfile.TemporaryDirectory(prefix="headwater-kafka-", ignore_cleanup_errors=True) as home:
        java = installed_java()
        jars = _jars() if java else None
        if java and jars:
            settings = _properties(f"{home}/data", "127.0.0.1", port, controller_port)
            server = _start_java(java, jars, Path(home), settings)
        elif _answers("docker", "info"):
            server = _start_docker(port, controller_port)
        else:
            raise BrokerUnavailableError(
                "the Kafka tests need a broker: install Java 17 or newer and Maven "
                "(apt-get install openjdk-17-jre-headless maven), or start a Docker engine, or "
                "set KAFKA_BOOTSTRAP_SERVERS; pytest -m 'not kafka' leaves these tests out"
            )
        atexit.register(server.stop)  # where nothing unwinds this generator
        try:
            _wait_until_ready(f"127.0.0.1:{port}", server)
            yield f"127.0.0.1:{port}"
        finally:
            atexit.unregister(server.stop)
            server.stop()


@contextlib.contextmanager
def running_java(
    listeners: Mapping[str, str], more: Mapping[str, str], format_arguments: Sequence[str]
) -> Iterator[dict[str, int]]:
    """Yield the port of each listener of a broker of its own, by Java; stop it afterwards.

    Parameters
    ----------
    listeners
        Name to protocol; one is named PLAINTEXT, the broker speaks to itself there.
    more
        Settings of the server besides ours.
    format_arguments
        Arguments for the tool that formats its log, such as users to make.
    """
    java = installed_java()
    jars = _jars() if java else None
    if not (java and jars):
        raise BrokerUnavailableError(
            "tests of TLS and passwords start a broker of their own: install Java 17 or newer and "
            "Maven (apt-get install openjdk-17-jre-headless maven)"
        )
    *ports, controller_port = free_ports(len(listeners) + 1)
    named = dict(zip(listeners, ports, strict=True))
    plain = named["PLAINTEXT"]
    with tempfile.TemporaryDirectory(prefix="headwater-kafka-", ignore_cleanup_errors=True) as home:
        settings = _properties(f"{home}/data", "127.0.0.1", plain, controller_port)
        bound = ",".join(f"{name}://127.0.0.1:{port}" for name, port in named.items())
        settings["listeners"] = f"{bound},CONTROLLER://127.0.0.1:{controller_port}"
        settings["advertised.listeners"] = bound
        spoken = ",".join(f"{name}:{protocol}" for name, protocol in listeners.items())
        settings["listener.security.protocol.map"] = f"{spoken},CONTROLLER:PLAINTEXT"
        server = _start_java(java, jars, Path(home), {**settings, **more}, format_arguments)
        atexit.register(server.stop)
        try:
            _wait_until_ready(f"127.0.0.1:{plain}", server)
            yield named
        finally:
            atexit.unregister(server.stop)
            server.stop()


def installed_java() -> str | None:
    """A Java of version 17 or newer."""
    home = os.environ.get("JAVA_HOME")
    for java in ([f"{home}/bin/java"] if home else []) + ["java"]:
        with contextlib.suppress(OSError):
            told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
            version = re.search(r'version "(\d+)', told.stderr + told.stdout)
            if version and int(version[1]) >= 17:
                return java
    return None


def bound(signal_: str) -> list[str]:
    """What to write before a command that gets a signal when the thread that starts it ends.

    So it ends too where nobody can stop it: after a closed terminal, a crash, a kill.
    """
    return ["setpriv", "--pdeathsig", signal_] if shutil.which("setpriv") else []


def _jars() -> Path | None:
    """The directory with the broker's jars, filled by Maven the first time; None without Maven."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater-tests"
    release = os.environ.get("HEADWATER_TEST_KAFKA", "")
    version = [f"-Dkafka.version={release}"] if release else []
    of = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    jars = cache / "-".join(["kafka", of, *([release] if release else [])])
    if jars.is_dir():
        return jars
    maven = shutil.which("mvn")
    if maven is None:
        return None
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        copied = subprocess.run(
            [
                maven,
                "--quiet",
                "--batch-mode",
                f"--file={POM}",
                *version,
                "dependency:copy-dependencies",
                "-DincludeScope=runtime",
                f"-DoutputDirectory={scratch}/jars",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if copied.returncode:
            raise BrokerUnavailableError(
                f"Maven could not copy the jars of the Kafka broker: {_tail(copied.stdout)}"
            )
        # Whole or not at all; when another process was faster, its copy is as good.
        with contextlib.suppress(OSError):
            Path(scratch, "jars").rename(jars)
    return jars


def _answers(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=20).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def free_ports(count: int) -> list[int]:
    """Free ports below those that the kernel gives to clients.

    Among the kernel's, a client that asks for a stopped broker again and again would one day
    connect to itself, or to another server from that port. The broker could then not start again.
    """
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            port = secrets.randbelow(LAST_PORT + 1 - FIRST_PORT) + FIRST_PORT
            one = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):  # somebody else's
                one.bind(("127.0.0.1", port))
                ports.append(port)
        return ports


def _tail(text: str) -> str:
    return " | ".join(text.strip().splitlines()[-5:]) or "(it said nothing)"


def _properties(log_dir: str, bind: str, port: int, controller_port: int) -> dict[str, str]:
    """The server's settings: clients come to 127.0.0.1:`port` wherever it runs."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://{bind}:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": log_dir,
        "auto.create.topics.enable": "false",  # a typo in a topic's name must fail, not make one
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "2",  # 50 by default: a second of start-up
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "2",
        "group.initial.rebalance.delay.ms": "0",
        # A transaction past its timeout is aborted this soon after, so tests of it are short.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
        "log.retention.ms": "-1",  # data sets carry timestamps years old: nothing may expire
        "log.cleaner.dedupe.buffer.size": "4194304",  # 128 MiB by default, of a heap of 512
    }


def _start_java(
    java: str,
    jars: Path,
    home: Path,
    settings: Mapping[str, str],
    format_arguments: Sequence[str] = (),
) -> _Server:
    """Format a log directory and start the server on it."""
    properties = home / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    log4j2 = home / "log4j2.properties"
    log4j2.write_text(LOG4J2)
    command = [
        *bound("KILL"),
        java,
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        f"-Dlog4j2.configurationFile={log4j2}",
        "-cp",
        f"{jars}/*",
    ]

    def said() -> str:
        return _tail((home / "broker.log").read_text(errors="replace"))

    with (home / "broker.log").open("wb") as log:
        formatted = subprocess.run(
            [
                *[*command, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID],
                *["-c", properties, *format_arguments],
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if formatted.returncode:
            raise BrokerUnavailableError(
                f"the broker's log directory could not be formatted: {said()}"
            )
        process = subprocess.Popen(
            [*command, "kafka.Kafka", properties],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the tests; they stop the broker themselves
        )

    def stop() -> None:
        process.kill()  # its data are temporary: an orderly shutdown would only take time
        process.wait()

    return _Server(alive=lambda: process.poll() is None, stop=stop, said=said)


def _start_docker(port: int, controller_port: int) -> _Server:
    """Start the image, its log inside the container."""
    name = f"headwater-tests-{os.getpid()}-{port}"
    settings = _properties("/tmp/data", "0.0.0.0", port, controller_port)
    command = ["docker", "run", "--detach", "--rm", f"--name={name}"]
    command += [f"--publish=127.0.0.1:{port}:{port}", f"--env=CLUSTER_ID={CLUSTER_ID}"]
    command += ["--env=KAFKA_HEAP_OPTS=-Xmx512m"]
    for key, value in settings.items():
        command.append(f"--env=KAFKA_{key.upper().replace('.', '_')}={value}")
    started = subprocess.run([*command, IMAGE], capture_output=True, text=True, check=False)
    if started.returncode:
        raise BrokerUnavailableError(f"docker could not run {IMAGE}: {started.stderr.strip()}")

    def stop() -> None:
        ask("rm", "--force", name)

    def ask(*words: str) -> str:
        asked = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
        return asked.stdout + asked.stderr

    return _Server(
        alive=lambda: bool(ask("ps", "--quiet", f"--filter=name={name}").strip()),
        stop=stop,
        said=lambda: _tail(ask("logs", "--tail=5", name)),
    )


def _wait_until_ready(bootstrap: str, server: _Server) -> None:
    """Return once the broker serves clients."""
    host, port = bootstrap.split(":")
    deadline = time.monotonic() + START_SECONDS
    while server.alive() and time.monotonic() < deadline:
        try:
            # The port opens first; the client then waits until the metadata name a broker.
            socket.create_connection((host, int(port)), 1.0).close()
            KafkaAdminClient(bootstrap_servers=bootstrap, bootstrap_timeout_ms=10_000).close()
        except (OSError, KafkaError):
            time.sleep(0.05)
        else:
            return
    raise BrokerUnavailableError(f"the Kafka broker did not come up: {server.said()}")


def main() -> None:
    """Run a broker until Ctrl-C."""
    with contextlib.suppress(KeyboardInterrupt), running_broker() as bootstrap:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        sys.stdout.write(bootstrap + "\n")
        sys.stdout.flush()
        while True:  # unlike the wait of an Event, a sleep can be ended by an exception anywhere
            time.sleep(3600)


if __name__ == "__main__":
    main()
