"""A real Prometheus for tests: the program of Debian's package, with the rules of docker/.

Rule: it runs the committed configuration; only the address it scrapes, and how often, are the
test's.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from tests.kafka.broker import free_ports
from tests.waiting import PATIENCE

__all__ = ["FOLDER", "Prometheus", "lacking", "promtool", "running"]

FOLDER = Path(__file__).parents[2] / "docker/prometheus"
START_SECONDS = 300.0


def lacking() -> str | None:
    """Why there is no Prometheus here; None where there is."""
    if shutil.which("prometheus") and shutil.which("promtool"):
        return None
    return "needs Prometheus: apt-get install prometheus"


def promtool(*arguments: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run `promtool …`, with this text as its input."""
    return subprocess.run(
        ["promtool", *map(str, arguments)],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


class Prometheus:
    """One that runs.

    Parameters
    ----------
    address
        HOST:PORT.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API; a ValueError where it is an error."""
        url = f"http://{self.address}/api/v1/{path}?{urlencode(parameters)}"
        try:
            with urlopen(url, timeout=PATIENCE) as answer:  # this machine only
                return json.loads(answer.read())["data"]
        except HTTPError as error:
            raise ValueError(json.loads(error.read())["error"]) from None

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series of an instant query."""
        found = self.ask("query", query=expression)
        if found["resultType"] == "scalar":
            return [({}, float(found["result"][1]))]
        return [(each["metric"], float(each["value"][1])) for each in found["result"]]


@contextlib.contextmanager
def running(directory: Path, target: str) -> Iterator[Prometheus]:
    """Yield a Prometheus that scrapes `target` every second; stop it afterwards."""
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(FOLDER / name) for name in config["rule_files"]]
    [job] = config["scrape_configs"]
    job["static_configs"] = [{"targets": [target]}]
    path = directory / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = [
        "prometheus",
        f"--config.file={path}",
        f"--storage.tsdb.path={directory / 'prometheus'}",
        f"--web.listen-address={address}",
        "--enable-feature=exemplar-storage",
        "--log.level=warn",
    ]
    said = directory / "prometheus.log"
    with said.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _ready(address):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Prometheus did not come up: {said.read_text()[-2000:]}")
            time.sleep(0.05)
        yield Prometheus(address)
    finally:
        process.kill()
        process.wait()


def _ready(address: str) -> bool:
    try:
        with urlopen(f"http://{address}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, ConnectionError, TimeoutError):
        return False
