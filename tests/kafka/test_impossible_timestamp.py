"""A record three hours ahead, on a real broker whose input takes it and whose outputs do not."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from consumers.base.records import Outgoing, Partition
from consumers.commands.check import check
from consumers.config import load
from consumers.service.recovery import rebuild, sources
from consumers.snapshots.store import open_store
from consumers.transports import open_log
from tests.kafka.running import Running
from tests.kafka.settled import settled_ends

AHEAD = 3 * 3_600_000


@pytest.mark.kafka
def test_timestamp_outputs_refuse_ends_nothing_and_changes_no_value(
    kafka_bootstrap: str, tmp_path: Path
) -> None:
    """It is predicted, at every start; the record carries the clock, the value what was sent."""
    name = f"ahead-{uuid4().hex[:10]}"
    path = tmp_path / "service.toml"
    path.write_text(
        f'name = "{name}"\n[input]\ntransport = "kafka://{kafka_bootstrap}"\n'
        f'observations = "{name}-in"\nlabel = "y"\n[features]\na = "numeric"\n'
        f'[model]\ntype = "GaussianNB"\n[snapshots]\ndirectory = "{tmp_path}/snapshots"\n'
    )
    settings, log = load(path), open_log(f"kafka://{kafka_bootstrap}")
    admin = KafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    configs = {"message.timestamp.after.max.ms": str(2**62)}
    with suppress(KafkaError):  # before Kafka 3.6 there is no such limit
        admin.create_topics(
            {f"{name}-in": {"num_partitions": 1, "replication_factor": 1, "configs": configs}}
        )
    admin.close()
    check(path, create=True)
    now = int(time.time() * 1000)
    times = [now - 2, now - 1, now + AHEAD, now, now + AHEAD, now + 1]
    values = [json.dumps({"id": i, "a": i, "y": i % 2}).encode() for i in range(5)]
    log.append(
        [
            Outgoing(f"{name}-in", None, value, at, partition=0)
            for value, at in zip([*values, b"no record"], times, strict=True)
        ]
    )
    marks = []
    for _ in range(2):  # the second start replays the first
        running = Running(path, drain=True)
        assert running.end() is None
        metric = running.runner.registry.get_sample_value
        marks.append(metric("headwater_future_timestamps_total", {"shard": "0"}))
    found = sources(settings, log)
    end = settled_ends(log, kafka_bootstrap, found.journal)[found.journal]
    whole, kept = (
        rebuild(settings, log, found, store, end=end).shard.fingerprint()
        for store in (None, open_store(settings))
    )
    out = Partition(f"{name}-predictions", 0)
    said = [
        (at, json.loads(value or b""))
        for chunk in log.read({out: 0}, settled_ends(log, kafka_bootstrap, out))
        for at, value in zip(chunk.timestamps, chunk.values, strict=True)
    ]
    log.close()

    assert marks[0] is not None
    assert marks[0] >= 2
    assert marks[1] == 0
    assert {value["id"]: value["ts"] for _, value in said} == dict(
        zip("01234", times, strict=False)
    )
    assert len(said) == 5
    assert max(at for at, _ in said) < now + AHEAD // 2
    assert whole == kept
