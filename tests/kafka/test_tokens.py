"""`headwater tokens` reads the newest messages of a filter from a broker, over all partitions."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest

from consumers.base.records import Outgoing
from consumers.cli import main
from consumers.transports import open_log
from tests.commands.test_tokens import CONFIG, HAM, SPAM, TEXT, ran


def test_tokens_of_a_filter_on_kafka_are_those_of_one_on_a_file(
    kafka_bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same messages give the same names, log-odds and records."""
    name, n = f"filter-{uuid4().hex[:8]}", 40
    topics = {topic: f"{name}-{topic}" for topic in ("messages", "verdicts")}
    text = CONFIG.format(directory=tmp_path, model="spam", more=TEXT, wire="json")
    text = text.replace(f"sqlite:{tmp_path}/log.db", f"kafka://{kafka_bootstrap}")
    text = text.replace('name = "filter"', f'name = "{name}"')
    for topic, own in topics.items():
        text = text.replace(f'"{topic}"', f'"{own}"')
    path = tmp_path / "kafka.toml"
    path.write_text(text)
    log = open_log(f"kafka://{kafka_bootstrap}")
    try:
        log.create_topic(topics["messages"], 2)
        log.create_topic(topics["verdicts"], 1)
        for i in range(n):
            key, words = b"%d" % i, (SPAM if i % 2 else HAM)[i // 2 % 4]
            message = json.dumps({"id": str(i), "text": words}).encode()
            verdict = json.dumps({"id": str(i), "label": "spam" if i % 2 else "ham"}).encode()
            log.append([Outgoing(topics["messages"], key, message, 1000 + i)])
            log.append([Outgoing(topics["verdicts"], key, verdict, 1000 + i)])
    finally:
        log.close()
    assert main(["check", str(path), "--create"]) == 0
    assert main(["run", str(path), "--drain"]) == 0
    beside = tmp_path / "file"
    beside.mkdir()
    twin = ran(beside, n=n)
    capsys.readouterr()

    found = []
    for config in (str(path), twin):
        assert main(["tokens", config, "-n", "5", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document.pop("model") in (name, "filter")
        assert document.pop("position") > 0  # on Kafka transactions have offsets too
        found.append(document)
    assert found[0] == found[1]
