"""A broker that can be killed and started again on its data, and reached through a proxy.

Java only: a broker that somebody else runs cannot be killed.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kafka import broker as fixture
from tests.kafka.broker import BrokerUnavailableError

__all__ = ["OwnBroker"]


class OwnBroker:
    """`with OwnBroker() as broker:` starts it; `bootstrap` is its address for those not cut off.

    Whoever comes to `behind` is told to stay at 127.0.0.1:`proxied`, where a proxy may listen.
    """

    def __init__(self) -> None:
        java, jars = fixture._java(), None
        if java is not None:
            jars = fixture._jars()
        if java is None or jars is None:
            raise BrokerUnavailableError(
                "a broker to be killed needs Java 17 or newer and Maven; install them "
                "(apt-get install openjdk-17-jre-headless maven)"
            )
        self._home = tempfile.TemporaryDirectory(
            prefix="headwater-kafka-", ignore_cleanup_errors=True
        )
        home = Path(self._home.name)
        port, self.behind, self.proxied, controller = fixture._free_ports(4)
        self.bootstrap = f"127.0.0.1:{port}"
        settings = fixture._properties(str(home / "data"), "127.0.0.1", port, controller)
        settings["listeners"] += f",BEHIND://127.0.0.1:{self.behind}"
        settings["advertised.listeners"] += f",BEHIND://127.0.0.1:{self.proxied}"
        settings["listener.security.protocol.map"] += ",BEHIND:PLAINTEXT"
        settings["inter.broker.listener.name"] = "PLAINTEXT"
        settings["num.recovery.threads.per.data.dir"] = "2"
        properties, log4j2 = home / "server.properties", home / "log4j2.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        log4j2.write_text(fixture.LOG4J2)
        self._command = [
            java,
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:-UsePerfData",
            f"-Dlog4j2.configurationFile={log4j2}",
            "-cp",
            f"{jars}/*",
        ]
        self._properties = properties
        self._said = home / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        formatting = ["kafka.tools.StorageTool", "format", "-t", fixture.CLUSTER_ID, "-c"]
        subprocess.run(
            [*self._command, *formatting, self._properties], check=True, capture_output=True
        )
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.kill()
        self._home.cleanup()

    def start(self) -> None:
        """Start it on the data there are, and wait until it serves."""
        with self._said.open("ab") as log:
            process = subprocess.Popen(
                [*self._command, "kafka.Kafka", self._properties],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "KAFKA_BOOTSTRAP_SERVERS": ""},
            )
        self._process = process
        server = fixture._Server(
            alive=lambda: process.poll() is None,
            stop=self.kill,
            said=lambda: fixture._tail(self._said.read_text(errors="replace")),
        )
        fixture._wait_until_ready(self.bootstrap, server)

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
