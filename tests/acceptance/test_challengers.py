"""Champion and challengers on a real broker: killed, promoted by rule and by command."""

from __future__ import annotations

import json
from contextlib import closing
from itertools import groupby
from pathlib import Path
from uuid import uuid4

import pytest
from kafka import KafkaConsumer, TopicPartition

from tests.acceptance.kafka_feed import committed, configure, fill
from tests.acceptance.service import Service
from tests.calling import call
from tests.consumers.feeds import phishing

RECORDS = 9_500
CHALLENGERS = """
[[challenger]]
name = "categories"
type = "CategoricalNB"
[promotion]
rule = "e_value"
"""


def speakers(bootstrap: str, name: str) -> list[tuple[str, int]]:
    """Who spoke, one after another, and how often."""
    [predictions] = committed(bootstrap, name)
    models = (p["model"]["name"] for p in predictions)
    return [(model, len(list(run))) for model, run in groupby(models)]


@pytest.mark.kafka
def test_killed_service_changes_champions_where_it_would_have(
    kafka_bootstrap: str, tmp_path: Path
) -> None:
    """On Phishing categories are better than numbers: kill -9 in between moves no record of it.

    Then it is promoted back by command, which fences nobody here, and speaks no more.
    """
    few = [(x, str(y)) for x, y in phishing()]
    feed = fill(kafka_bootstrap, [few[i % len(few)] for i in range(RECORDS)], 1)
    paths, told = {}, {}
    for name in (f"whole-{uuid4().hex[:8]}", f"killed-{uuid4().hex[:8]}"):
        paths[name] = configure(tmp_path, feed, name, max_records=200, every_records=3_000)
        paths[name].write_text(paths[name].read_text() + CHALLENGERS)
        call("check", paths[name], "--create", code=0)
    whole, killed = paths
    predictions = TopicPartition(f"{killed}-predictions", 0)
    with (
        closing(KafkaConsumer(bootstrap_servers=kafka_bootstrap)) as watcher,
        Service(paths[killed], "--shards", "0") as service,
    ):
        third = RECORDS // 3
        service.wait_until(lambda: watcher.end_offsets([predictions])[predictions] > third)
        service.kill()
    for name, path in paths.items():
        call("run", path, "--drain", code=0)
        told[name] = speakers(kafka_bootstrap, name)
    replayed = json.loads(call("replay", paths[killed], "--journal", "--json").stdout)

    assert told[killed] == [(killed if n == whole else n, k) for n, k in told[whole]]
    assert {model for model, _ in told[whole]} == {whole, "categories"}
    assert replayed["promotions"] == 1
    call("promote", paths[whole], whole, "--yes", "--json", code=0)
    shown = json.loads(call("promote", paths[whole], "--json").stdout)
    assert [m["name"] for m in shown["models"]] == [whole, "categories"]
