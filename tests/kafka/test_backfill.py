"""A history on a real broker: aborted records, two partitions, kills, and what comes after it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from subprocess import run
from uuid import uuid4

import numpy as np
import pytest
from kafka import KafkaProducer

from consumers.base.records import Outgoing, Partition
from consumers.cli import main
from consumers.transports import open_log
from stream import GaussianNB
from tests.acceptance.service import HEADWATER
from tests.kafka.running import Running
from tests.kafka.settled import settled_ends

N, CUT = 2000, 1400
START = 1_700_000_000_000
SEED = 5


def records() -> Iterator[tuple[int, dict[str, float], str]]:
    """Number, features and label."""
    rng = np.random.default_rng(SEED)
    for i in range(N):
        y = rng.random() < 0.4
        yield i, {"a": rng.normal(y), "b": rng.normal(2 * y)}, "spam" if y else "ham"


def filled(bootstrap: str, name: str) -> None:
    """Each label comes 300 records later. Aborted records lie between the others."""
    with closing(open_log(f"kafka://{bootstrap}")) as log:
        for topic, count in (("in", 2), ("labels", 2), ("predictions", 1), ("dead-letters", 1)):
            log.create_topic(f"{name}-{topic}", count)
        log.create_topic(f"{name}-journal", 1)
        aborting = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"{name}-aborts")
        aborting.init_transactions()
        for first in range(0, N, 500):
            aborting.begin_transaction()
            aborted = json.dumps({"id": f"never-{first}", "a": 1e6, "b": 1e6}).encode()
            aborting.send(f"{name}-in", aborted, partition=0, timestamp_ms=START + 1000 * first)
            aborting.flush()
            aborting.abort_transaction()
            some = [r for r in records() if first <= r[0] < first + 500]
            log.append([observation(name, *r) for r in some])
        aborting.close()
        log.append([label(name, i, y) for i, _, y in records()])


def observation(name: str, i: int, x: dict[str, float], y: str) -> Outgoing:
    """The record of an observation."""
    value = json.dumps({"id": str(i), **x}).encode()
    return Outgoing(f"{name}-in", None, value, START + 1000 * i, (), i % 2)


def label(name: str, i: int, y: str) -> Outgoing:
    """The record of its label."""
    value = json.dumps({"id": str(i), "label": y}).encode()
    return Outgoing(f"{name}-labels", None, value, START + 1000 * (i + 300), (), i % 2)


@pytest.mark.kafka
def test_each_record_is_in_the_history_or_predicted_once(
    kafka_bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The backfill is killed after its parts, the service in a commit. In the end the model has
    learned every label once, as one that never stopped, and a replay of the journal agrees."""
    name, path = f"history-{uuid4().hex[:10]}", tmp_path / "service.toml"
    filled(kafka_bootstrap, name)
    path.write_text(
        f'name = "{name}"\n[input]\ntransport = "kafka://{kafka_bootstrap}"\n'
        f'observations = "{name}-in"\nlabels = "{name}-labels"\n'
        '[features]\na = "numeric"\nb = "numeric"\n[model]\ntype = "GaussianNB"\n'
        f'[commit]\nmax_records = 100\n[snapshots]\ndirectory = "{tmp_path}/snapshots"\n'
        "[http]\nenabled = false\n",
    )
    words = ["backfill", str(path), "--until", str(START + 1000 * CUT), "--split", "150", "--json"]

    def killed(point: str, *arguments: str) -> None:
        environment = {**os.environ, "HEADWATER_FAILPOINT": point}
        done = run([HEADWATER, *arguments], cwd=tmp_path, env=environment, capture_output=True)
        assert done.returncode == -9, done.stderr

    killed("import_parts:kill", *words)
    assert main(["run", str(path), "--drain"]) == 2
    capsys.readouterr()
    assert main([*words, "--workers", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    killed("in_commit:kill@3", "run", "service.toml", "--drain")
    assert Running(path, drain=True).end() is None
    capsys.readouterr()
    assert main(["replay", str(path), "--journal", "--json"]) == 0
    replayed = json.loads(capsys.readouterr().out)
    assert main(["export", str(path), str(tmp_path / "model.hw")]) == 0

    import headwater

    with closing(open_log(f"kafka://{kafka_bootstrap}")) as log:
        part = Partition(f"{name}-predictions", 0)
        chunks = log.read(log.beginning_offsets([part]), log.end_offsets([part]))
        made = sorted(int(json.loads(value or b"")["id"]) for c in chunks for value in c.values)
    model, expected = headwater.load(tmp_path / "model.hw"), GaussianNB()
    for _, x, y in records():
        expected.learn_one(x, y)

    assert (found["learned"], found["waiting"], found["splits"]) == (CUT - 300, 300, 10)
    assert made == list(range(CUT, N))
    assert (replayed["learned"], replayed["unscored"]) == (N - CUT + 300, 300)
    for _, x, _ in records():
        p, q = model.predict_proba_one(x), expected.predict_proba_one(x)
        assert p == pytest.approx(q, rel=1e-9)


@pytest.mark.kafka
def test_a_time_is_found_at_a_record_that_readers_get(kafka_bootstrap: str) -> None:
    """A marker has the time of its commit, and an aborted record has a time too."""
    topic = f"times-{uuid4().hex[:10]}"
    part = Partition(topic, 0)
    with closing(open_log(f"kafka://{kafka_bootstrap}")) as log:
        log.create_topic(topic, 1)
        producer = KafkaProducer(bootstrap_servers=kafka_bootstrap, transactional_id=topic)
        producer.init_transactions()
        for at, end in ((0, producer.commit_transaction), (2000, producer.abort_transaction)):
            producer.begin_transaction()
            producer.send(topic, b"in a transaction", partition=0, timestamp_ms=START + at)
            producer.flush()
            end()
        producer.close()
        log.append([Outgoing(topic, None, b"alone", START + 3000)])
        committed, alone = [
            o
            for c in log.read({part: 0}, settled_ends(log, kafka_bootstrap, part))
            for o in c.offsets
        ]

        assert log.offsets_at([part], START) == {part: committed}
        for later in (1, 1000, 2000, 3000):
            assert log.offsets_at([part], START + later) == {part: alone}
        assert log.offsets_at([part], START + 3001) == log.end_offsets([part])
