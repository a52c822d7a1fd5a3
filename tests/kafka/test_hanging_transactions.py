"""A transaction upstream that hangs, on a real broker: counted beside the lag, reported, over."""

from __future__ import annotations

import json
import logging
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from kafka import KafkaProducer

from consumers.commands.check import check
from consumers.telemetry import event_logger
from tests.kafka.running import Running

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("ending", ["commit_transaction", "abort_transaction"])
def test_records_behind_an_open_transaction_are_counted_and_reported(
    kafka_bootstrap: str, tmp_path: Path, monkeypatch, caplog, ending
) -> None:
    """200 records wait: the lag is 0, the metrics and a line of the log say why none is read."""
    monkeypatch.setattr(event_logger, "OPEN_SECONDS", 0.2)
    caplog.set_level(logging.WARNING, logger="headwater")
    name = f"hanging-{uuid4().hex[:10]}"
    path = tmp_path / "service.toml"
    path.write_text(
        f'name = "{name}"\n[input]\ntransport = "kafka://{kafka_bootstrap}"\n'
        f'observations = "{name}-in"\nlabel = "y"\n[features]\na = "numeric"\n'
        f'[model]\ntype = "GaussianNB"\n[snapshots]\ndirectory = "{tmp_path}/snapshots"\n'
    )
    check(path, create=True)
    hanging = KafkaProducer(bootstrap_servers=kafka_bootstrap, transactional_id=f"up-{name}")
    plain = KafkaProducer(bootstrap_servers=kafka_bootstrap)

    def write(producer: KafkaProducer, first: int, count: int) -> None:
        for i in range(first, first + count):
            producer.send(f"{name}-in", json.dumps({"id": i, "a": i, "y": i % 2}).encode())
        producer.flush(10)

    def metric(what: str) -> float | None:
        at = {"shard": "0", "topic": f"{name}-in", "partition": "0"}
        return running.runner.registry.get_sample_value(f"headwater_input_{what}", at)

    with closing(Running(path)) as running:
        write(plain, 0, 30)
        running.until(lambda: running.predicted == 30)
        before = metric("uncommitted_records"), metric("uncommitted_seconds")
        hanging.init_transactions()
        hanging.begin_transaction()
        write(hanging, 30, 1)
        write(plain, 31, 199)
        running.until(lambda: metric("uncommitted_records") == 200)
        running.until(lambda: (metric("uncommitted_seconds") or 0) > 0.5)
        running.until(lambda: f"{name}-in[0] is not read beyond offset 30" in caplog.text)
        lag, predicted = metric("lag_records"), running.predicted
        getattr(hanging, ending)()
        ended = 230 if ending == "commit_transaction" else 229
        running.until(lambda: running.predicted == ended)
        running.until(lambda: metric("uncommitted_records") == 0)

        assert before == (0, 0)
        assert (lag, predicted) == (0, 30)
        assert metric("uncommitted_seconds") == 0
    for producer in (hanging, plain):
        producer.close(timeout=5)
    assert ", 200 records wait after it; end it, or find it by" in caplog.text
