"""Arrow messages of a plain Kafka producer, on a real broker, with a service that is killed."""

from __future__ import annotations

import json
import os
from contextlib import closing
from io import BytesIO
from pathlib import Path
from subprocess import run
from uuid import uuid4

import pytest
from kafka import KafkaProducer

from consumers.base.records import Partition
from consumers.cli import main
from consumers.transports import open_log
from tests.acceptance.service import HEADWATER
from tests.kafka.running import Running
from tests.kafka.settled import settled_ends

pa = pytest.importorskip("pyarrow")

MESSAGES, ROWS = 20, 40


def table(first: int) -> bytes:
    """A message of 40 rows, packed; the last of its ids is bad."""
    numbers = range(first, first + ROWS)
    city = pa.array([("Bonn", "Rom")[n % 2] for n in numbers]).dictionary_encode()
    ids = [f"v{n}" for n in numbers[:-1]] + [None]
    made = pa.table({"id": ids, "amount": [n % 7 / 2 for n in numbers], "city": city, "y": city})
    sink, options = BytesIO(), pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, made.schema, options=options) as writer:
        writer.write_table(made)
    return sink.getvalue()


@pytest.mark.kafka
def test_every_row_is_predicted_once_though_the_service_is_killed(
    kafka_bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a commit; the journal repeats every prediction."""
    name, path = f"arrow-{uuid4().hex[:10]}", tmp_path / "service.toml"
    path.write_text(
        f'name = "{name}"\n[input]\ntransport = "kafka://{kafka_bootstrap}"\n'
        f'observations = "{name}-in"\nlabel = "y"\nformat = "arrow"\n'
        '[features]\namount = "numeric"\ncity = "categorical"\n[model]\ntype = "MixedNB"\n'
        f'[commit]\nmax_records = 100\n[snapshots]\ndirectory = "{tmp_path}/snapshots"\n'
        "[http]\nenabled = false\n",
    )
    with closing(open_log(f"kafka://{kafka_bootstrap}")) as log:
        for topic in ("in", "predictions", "dead-letters", "journal"):
            log.create_topic(f"{name}-{topic}", 1)
        with closing(KafkaProducer(bootstrap_servers=kafka_bootstrap, linger_ms=50)) as producer:
            for n in range(MESSAGES):
                producer.send(f"{name}-in", table(ROWS * n))
        for point in ("in_commit:kill@3",):
            environment = {**os.environ, "HEADWATER_FAILPOINT": point}
            done = run(
                [HEADWATER, "run", "service.toml", "--drain"],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
            )
            assert done.returncode == -9, done.stderr
        assert Running(path, drain=True).end() is None
        capsys.readouterr()
        assert main(["replay", str(path), "--journal", "--json"]) == 0
        assert main(["audit", str(path), f"{name}-in:0:9:38"]) == 0

        def values(topic: str) -> list[bytes]:
            part = Partition(f"{name}-{topic}", 0)
            chunks = log.read({part: 0}, settled_ends(log, kafka_bootstrap, part))
            return [value for chunk in chunks for value in chunk.values]

        places = [json.loads(value)["position"] for value in values("predictions")]
        letters = len(values("dead-letters"))

    expected = [(k, i) for k in range(MESSAGES) for i in range(ROWS - 1)]
    assert [(at["offset"], at["index"]) for at in places] == expected
    assert letters == MESSAGES
