"""Brokers that can be killed and started again on their data: one behind a proxy, or three.

Java only: a broker that somebody else runs cannot be killed.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from tests.kafka import broker as fixture
from tests.kafka.broker import BrokerUnavailableError

__all__ = ["Cluster", "OwnBroker"]

NODES = 3
HEAP_MB = 384  # of one of three


class _Node:
    """A broker with data of its own; `bootstrap` is its address."""

    def __init__(self, home: Path, port: int, settings: Mapping[str, str], heap_mb: int) -> None:
        java = fixture.installed_java()
        jars = fixture._jars() if java is not None else None
        if java is None or jars is None:
            raise BrokerUnavailableError(
                "a broker to be killed needs Java 17 or newer and Maven; install them "
                "(apt-get install openjdk-17-jre-headless maven)"
            )
        home.mkdir(exist_ok=True)
        self.bootstrap = f"127.0.0.1:{port}"
        self._properties, log4j2 = home / "server.properties", home / "log4j2.properties"
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        log4j2.write_text(fixture.LOG4J2)
        self._command = [
            *fixture.bound("KILL"),
            java,
            f"-Xmx{heap_mb}m",
            "-XX:+UseSerialGC",
            "-XX:-UsePerfData",
            f"-Dlog4j2.configurationFile={log4j2}",
            "-cp",
            f"{jars}/*",
        ]
        self._said = home / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None

    def format(self) -> None:
        """Make its log directory."""
        formatting = ["kafka.tools.StorageTool", "format", "-t", fixture.CLUSTER_ID, "-c"]
        subprocess.run(
            [*self._command, *formatting, self._properties], check=True, capture_output=True
        )

    def launch(self) -> None:
        """Start it on the data there are."""
        with self._said.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, "kafka.Kafka", self._properties],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "KAFKA_BOOTSTRAP_SERVERS": ""},
            )

    def wait(self) -> None:
        """Until it serves."""
        process = self._process
        assert process is not None
        server = fixture._Server(
            alive=lambda: process.poll() is None,
            stop=self.kill,
            said=lambda: fixture._tail(self._said.read_text(errors="replace")),
        )
        fixture._wait_until_ready(self.bootstrap, server)

    def start(self) -> None:
        """Both."""
        self.launch()
        self.wait()

    @property
    def pid(self) -> int:
        """The number of its process."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def terminate(self) -> None:
        """SIGTERM: it hands over what it leads and ends."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None


class _Home:
    """A directory for the time of a `with`."""

    def __init__(self) -> None:
        self._home = tempfile.TemporaryDirectory(
            prefix="headwater-kafka-", ignore_cleanup_errors=True
        )
        self.home = Path(self._home.name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.kill()
        self._home.cleanup()

    def kill(self) -> None:
        """kill -9 of all there is."""


class OwnBroker(_Home):
    """`with OwnBroker() as broker:` starts it; `bootstrap` is its address for those not cut off.

    Whoever comes to `behind` is told to stay at 127.0.0.1:`proxied`, where a proxy may listen.
    """

    def __init__(self) -> None:
        super().__init__()
        port, self.behind, self.proxied, controller = fixture.free_ports(4)
        settings = fixture._properties(str(self.home / "data"), "127.0.0.1", port, controller)
        settings["listeners"] += f",BEHIND://127.0.0.1:{self.behind}"
        settings["advertised.listeners"] += f",BEHIND://127.0.0.1:{self.proxied}"
        settings["listener.security.protocol.map"] += ",BEHIND:PLAINTEXT"
        settings["inter.broker.listener.name"] = "PLAINTEXT"
        settings["num.recovery.threads.per.data.dir"] = "2"
        self._node = _Node(self.home, port, settings, 512)
        self.bootstrap = self._node.bootstrap

    def __enter__(self) -> Self:
        self._node.format()
        self.start()
        return self

    def start(self) -> None:
        """Start it on the data there are, and wait until it serves."""
        self._node.start()

    def kill(self) -> None:
        """kill -9."""
        self._node.kill()


class Cluster(_Home):
    """`with Cluster() as cluster:` starts three nodes, each a broker and a controller.

    Every topic has three replicas, two of which must have a record before it is acknowledged: one
    node may be away. Two may be where a fourth is the only controller (`apart`), because two of
    three controllers must be there to elect a leader.
    """

    def __init__(self, *, apart: bool = False) -> None:
        super().__init__()
        ports = fixture.free_ports(2 * NODES)
        voters = ",".join(f"{n}@127.0.0.1:{ports[NODES + n]}" for n in range(NODES))
        if apart:
            voters = f"{NODES}@127.0.0.1:{ports[-1]}"
        self._controller = self._apart(voters, ports[-1]) if apart else None
        self.nodes = []
        for n in range(NODES):
            home = self.home / str(n)
            settings = fixture._properties(
                str(home / "data"), "127.0.0.1", ports[n], ports[NODES + n]
            )
            settings |= {
                "node.id": str(n),
                "controller.quorum.voters": voters,
                "default.replication.factor": "3",
                "min.insync.replicas": "2",
                "offsets.topic.replication.factor": "3",
                "transaction.state.log.replication.factor": "3",
                "transaction.state.log.min.isr": "2",
                # A silent node is missed soon, so that the fault is what is tested.
                "broker.session.timeout.ms": "3000",
                "broker.heartbeat.interval.ms": "500",
            }
            if apart:
                settings["process.roles"] = "broker"
                settings["listeners"] = settings["advertised.listeners"]
            self.nodes.append(_Node(home, ports[n], settings, HEAP_MB))
        self.bootstrap = ",".join(node.bootstrap for node in self.nodes)

    def _apart(self, voters: str, port: int) -> _Node:
        """A node that is only a controller."""
        home = self.home / "controller"
        settings = fixture._properties(str(home / "data"), "127.0.0.1", 0, port)
        del settings["advertised.listeners"]
        settings |= {
            "process.roles": "controller",
            "node.id": str(NODES),
            "controller.quorum.voters": voters,
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
        }
        return _Node(home, port, settings, HEAP_MB)

    def __enter__(self) -> Self:
        if self._controller is not None:
            self._controller.format()
            self._controller.launch()
        for node in self.nodes:
            node.format()
        for node in self.nodes:  # none serves before there are two
            node.launch()
        for node in self.nodes:
            node.wait()
        return self

    def kill(self) -> None:
        """kill -9 of all."""
        for node in self.nodes:
            node.kill()
        if self._controller is not None:
            self._controller.kill()

    def partitions(self, topics: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Leader and replicas in sync of the partitions of these topics, or of all of them.

        None while no node answers.
        """
        try:
            with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
                told = admin.describe_topics(topics)
        except KafkaError:
            return []
        return [part for topic in told for part in topic["partitions"]]

    def in_sync(self) -> bool:
        """Whether every partition has all its replicas in sync now."""
        parts = self.partitions()
        return bool(parts) and all(len(part["isr_nodes"]) == NODES for part in parts)

    def whole(self, seconds: float = 120) -> bool:
        """Whether every partition came to have all its replicas in sync again in time."""
        deadline = time.monotonic() + seconds
        while not self.in_sync():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.2)
        return True
