"""Change events and tombstones: rows are records, the rest is ignored and counted."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path

import pytest

from consumers.base.errors import ConfigError
from consumers.base.records import Outgoing, Partition
from consumers.config import parse
from consumers.service.runner import Runner
from consumers.transports import open_log

CONFIG = """
name = "s"
[input]
transport = "{}"
observations = "o"
labels = "l"
{}
[features]
x = "numeric"
[model]
type = "GaussianNB"
[http]
enabled = false
"""


def events(seed: int, n: int, *, schema: bool) -> tuple[list[bytes | None], list[dict]]:
    """Values of a topic of changes, and the new rows in their order, written down beside them."""
    rng = random.Random(seed)
    values: list[bytes | None] = []
    rows = []
    for i in range(n):
        row = {"id": f"r{i}", "x": rng.choice([0.5, 2]), "op": "of the row"}
        kind = rng.choice(["c", "r", "u", "d", "t", "tombstone"])
        if kind == "tombstone":
            values.append(None)
            continue
        event = {"op": kind, "before": None, "after": None if kind in "dt" else row, "ts_ms": i}
        values.append(json.dumps({"schema": {}, "payload": event} if schema else event).encode())
        if kind in "cr":
            rows.append(row)
    return values, rows


def drained(directory: Path, values, keys: str, labels=()):
    """The records of the outputs, and the metrics that count, after a run."""
    url = f"sqlite:{directory}/a.db"
    config = parse(CONFIG.format(url, keys), directory=directory)
    log = open_log(url)
    for topic in config.topics.values():
        log.create_topic(topic, 1)
    log.append([Outgoing("o", b"k", value, 1000 + i) for i, value in enumerate(values)])
    log.append([Outgoing("l", b"k", value, 1000 + i) for i, value in enumerate(labels)])
    view = Runner(config, log, threading.Event(), drain=True).run()
    out = {topic: read(log, topic) for topic in ("s-predictions", "s-dead-letters")}
    log.close()
    assert view is not None
    return out, view


def read(log, topic: str) -> list[bytes | None]:
    """All values of a topic."""
    partition = Partition(topic, 0)
    ends = log.end_offsets([partition])
    return [v for fetched in log.read({partition: 0}, ends) for v in fetched.values]


@pytest.mark.parametrize("schema", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_new_rows_are_predicted_and_other_changes_are_ignored(tmp_path, seed, schema) -> None:
    """Deletes, updates and tombstones are no dead letters."""
    values, rows = events(seed, 150, schema=schema)
    out, view = drained(tmp_path, values, 'changes = ["c", "r"]\ntombstones = "skip"')

    assert [json.loads(p)["id"] for p in out["s-predictions"]] == [row["id"] for row in rows]
    assert out["s-dead-letters"] == []
    assert view.read_otherwise["ignored"] == len(values) - len(rows)


def test_what_is_no_change_event_is_a_dead_letter(tmp_path) -> None:
    """And so is a tombstone, unless it is skipped."""
    values = [b'{"id": "a", "x": 1}', b'{"op": "c", "after": 5}', None]
    _, view = drained(tmp_path, values, 'changes = ["c"]')

    assert view.dead_letters["unparsable"] == 3
    assert "ignored" not in view.read_otherwise


def test_labels_are_rows_too(tmp_path) -> None:
    """A table with the columns id and label."""
    values, rows = events(1, 60, schema=False)
    labels = [
        json.dumps({"op": "c", "after": {"id": row["id"], "label": "a"}}).encode() for row in rows
    ]
    _, view = drained(tmp_path, values, 'changes = ["c", "r"]\ntombstones = "skip"', labels)

    assert view.labels["joined"] == len(rows)


def test_changes_need_declared_features() -> None:
    """The first start infers from whole records."""
    text = CONFIG.format("memory:x", 'changes = ["c"]').replace('[features]\nx = "numeric"', "")
    with pytest.raises(ConfigError, match="changes needs"):
        parse(text)
