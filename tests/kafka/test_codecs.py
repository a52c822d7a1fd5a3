"""Every codec a producer may choose, installed and missing, met by `check` and by `run`.

A library that is missing is simulated where the client looks for it: in `kafka.codec`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from kafka import KafkaProducer, codec

from consumers.base.errors import ConfigError, TransportError, UnreadableCodecError
from consumers.commands.check import check
from consumers.transports.kafka.options import KafkaOptions
from tests.kafka.running import Running
from tests.waiting import PATIENCE

# Codec: what the client asks for its library, and the package a message must name.
LIBRARIES = {
    "snappy": (["snappy"], "pip install python-snappy"),
    "lz4": (["lz4", "lz4f", "lz4framed"], "pip install lz4"),
    "zstd": (["zstd"], "pip install zstandard"),
}
CODECS = [None, "gzip", *LIBRARIES]

pytestmark = pytest.mark.kafka


def remove(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The codec's library is not installed."""
    for module in LIBRARIES[name][0]:
        monkeypatch.setattr(codec, module, None)


@pytest.fixture
def made(kafka_bootstrap: str, tmp_path: Path) -> tuple[Path, str]:
    """A service's configuration and its name; its topics are there."""
    name = f"codec-{uuid4().hex[:10]}"
    path = tmp_path / "service.toml"
    path.write_text(
        f'name = "{name}"\n[input]\ntransport = "kafka://{kafka_bootstrap}"\n'
        f'observations = "{name}-in"\nlabel = "y"\n[features]\na = "numeric"\n'
        f'[model]\ntype = "GaussianNB"\n[snapshots]\ndirectory = "{tmp_path}/snapshots"\n'
    )
    check(path, create=True)
    return path, f"{name}-in"


PRODUCER = """
import json, sys
from kafka import KafkaProducer
bootstrap, topic, compression, first, count = sys.argv[1:]
producer = KafkaProducer(
    bootstrap_servers=bootstrap, compression_type=compression or None, linger_ms=50
)
sent = [
    producer.send(topic, json.dumps({"id": i, "a": i % 7, "y": i % 2}).encode())
    for i in range(int(first), int(first) + int(count))
]
producer.flush(20)
assert all(future.succeeded() for future in sent)
producer.close(timeout=5)
"""


@pytest.fixture
def produce(kafka_bootstrap: str) -> Callable[..., None]:
    """Write records as another process does, with a codec that may be missing here."""

    def written(topic: str, compression: str | None, first: int, count: int = 50) -> None:
        arguments = [kafka_bootstrap, topic, compression or "", str(first), str(count)]
        subprocess.run([sys.executable, "-c", PRODUCER, *arguments], check=True, timeout=PATIENCE)

    return written


@pytest.fixture
def run() -> Iterator[Callable[..., Running]]:
    """Start services; all are stopped at the end."""
    started: list[Running] = []

    def begun(path: Path, *, drain: bool = False) -> Running:
        started.append(Running(path, drain=drain))
        return started[-1]

    yield begun
    for running in started:
        running.close()


@pytest.mark.parametrize("name", CODECS)
def test_check_and_run_read_every_codec(made, produce, run, name) -> None:
    """On a plain install; also where a producer changes its codec under a running service."""
    path, topic = made
    produce(topic, None, 0)
    running = run(path)
    running.until(lambda: running.predicted == 50)
    produce(topic, name, 50)
    running.until(lambda: running.predicted == 100)

    check(path)

    assert running.runner.health().ready


@pytest.mark.parametrize("name", LIBRARIES)
def test_check_names_the_missing_library(made, produce, monkeypatch, capsys, name) -> None:
    """The package to install, the place of the batch; exit code 2."""
    path, topic = made
    produce(topic, None, 0)
    produce(topic, name, 50)
    remove(monkeypatch, name)

    capsys.readouterr()
    with pytest.raises(ConfigError, match="1 thing is wrong"):
        check(path)

    line = next(n for n in capsys.readouterr().out.splitlines() if n.startswith("wrong"))
    assert f"got {name} partition 0 of {topic} at offset 50; {LIBRARIES[name][1]}" in line


@pytest.mark.parametrize("name", LIBRARIES)
def test_service_that_meets_a_missing_codec_waits_and_says_so(
    made, produce, run, monkeypatch, name
) -> None:
    """Not ready and alive; what came before is predicted; installed and restarted, it goes on."""
    path, topic = made
    produce(topic, None, 0)
    remove(monkeypatch, name)
    running = run(path)
    running.until(lambda: running.predicted == 50)
    produce(topic, name, 50)
    running.until(lambda: LIBRARIES[name][1] in str(running.runner.health()))
    health = running.runner.health()
    running.stop.set()
    ended = running.end()
    monkeypatch.undo()
    again = run(path)
    again.until(lambda: again.predicted == 100)

    assert (health.alive, health.ready) == (True, False)
    assert ended is None
    assert again.runner.health().ready


def test_run_with_an_end_ends_at_a_missing_codec(made, produce, run, monkeypatch) -> None:
    """Nobody looks at the health of a job: it must not wait for ever."""
    path, topic = made
    produce(topic, "zstd", 0)
    remove(monkeypatch, "zstd")

    error = run(path, drain=True).end()

    assert isinstance(error, UnreadableCodecError)
    assert isinstance(error, TransportError)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("zstd", "compression_type zstd: its library is not installed; pip install zstandard"),
        ("brotli", "compression_type: expected one of gzip, snappy, lz4, zstd, got 'brotli'"),
    ],
)
def test_codec_of_the_outputs_is_checked_before_a_connection(monkeypatch, name, told) -> None:
    """The client itself notices when it is made."""
    remove(monkeypatch, "zstd")

    with pytest.raises(ConfigError, match=told):
        KafkaOptions(["127.0.0.1:1"], {"compression_type": name})


def test_batch_that_unpacks_to_too_much_is_waited_at(made, kafka_bootstrap, run) -> None:
    """Alive, not ready, with the place and the way on; with more room it goes on."""
    path, topic = made
    text = path.read_text()
    path.write_text(f"{text}[kafka]\nfetch_max_bytes = 65536\n")
    bomb = json.dumps({"id": "big", "a": 1, "y": 1, "z": "0" * 600_000}).encode()
    producer = KafkaProducer(
        bootstrap_servers=kafka_bootstrap, compression_type="gzip", max_request_size=2**22
    )
    for value in (b'{"id": 1, "a": 2, "y": 0}', bomb):
        producer.send(topic, value)
        producer.flush()
    producer.close()

    running = run(path)
    running.until(lambda: "decompresses to more than 524,288 bytes" in str(running.runner.health()))
    health = str(running.runner.health())
    running.stop.set()
    running.end()
    path.write_text(text)
    again = run(path)
    again.until(lambda: again.predicted == 2)

    assert f"(partition 0 of {topic} at offset 1); raise fetch_max_bytes in [kafka]" in health
