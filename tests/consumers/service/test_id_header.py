"""Observations whose id is in a header: CloudEvents in binary and in structured mode."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from pathlib import Path

import pytest

from consumers.base.errors import ConfigError
from consumers.base.records import Outgoing, Partition
from consumers.cli import main
from consumers.config import Config, parse
from consumers.service.runner import Runner
from consumers.transports import open_log
from tests.consumers.feeds import NOW

TEXT = """
name = "shop"
[input]
transport = "{transport}"
observations = "visits"
labels = "bought"
{more}
[features]
{features}
[model]
type = "GaussianNB"
[commit]
max_records = 20
[http]
enabled = false
"""
HEADER = 'id_header = "ce_id"'


def configured(directory: Path, more: str = HEADER, features: str = 'amount = "numeric"') -> Config:
    """A service with an embedded log in a directory."""
    text = TEXT.format(transport="sqlite:log.db", more=more, features=features)
    (directory / "shop.toml").write_text(text)
    return parse(text, directory=directory)


def event(i: int) -> Outgoing:
    """A visit as an event in binary mode; its data have an id of their own."""
    headers = [("ce_specversion", b"1.0"), ("ce_id", b"e%d" % i), ("ce_type", b"visit")]
    value = json.dumps({"id": "of the order", "amount": float(i % 7)}).encode()
    return Outgoing("visits", b"customer", value, NOW + 10 * i, tuple(headers), 0)


def run(config: Config) -> list[dict]:
    """Consume all that is there; the predictions."""
    source = config.input
    with closing(open_log(source.transport, key_headers=source.key_headers)) as log:
        Runner(config, log, threading.Event(), drain=True).run()
        at = Partition("shop-predictions", 0)
        chunks = log.read({at: 0}, log.end_offsets([at]))
        return [json.loads(value or b"") for chunk in chunks for value in chunk.values]


def fill(config: Config, records: list[Outgoing]) -> None:
    """Write records, and a label for each id."""
    with closing(open_log(config.input.transport)) as log:
        for topic in config.topics.values():
            log.create_topic(topic, 1)
        labels = [json.dumps({"id": f"e{i}", "label": "ny"[i % 2]}).encode() for i in range(60)]
        log.append(records)
        log.append([Outgoing("bought", None, v, NOW + 10 * i + 5) for i, v in enumerate(labels)])


def test_id_of_a_binary_event_is_its_header(tmp_path, capsys, monkeypatch) -> None:
    """Labels find it; a replay, an audit and a check read the same."""
    monkeypatch.chdir(tmp_path)
    config = configured(tmp_path)
    fill(config, [event(i) for i in range(60)])
    found = run(config)

    assert [each["id"] for each in found] == [f"e{i}" for i in range(60)]
    assert found[-1]["model"]["learned"] == 59
    for command in (
        ["replay", "shop.toml", "--journal"],
        ["check", "shop.toml"],
        ["audit", "shop.toml", "e41"],
    ):
        assert main(command) == 0, capsys.readouterr().err
    with closing(open_log(config.input.transport)) as log:
        extra = json.dumps({"ce_id": "in a field", "amount": 1.0}).encode()
        log.append(
            [Outgoing("visits", b"in the key", b'{"amount": 1.0}'), Outgoing("visits", b"k", extra)]
        )
    assert [each["id"] for each in run(config)][60:] == ["in the key", "in a field"]


def test_structured_events_are_read_by_paths(tmp_path) -> None:
    """The id of the event, and its data, by their dotted names."""
    config = configured(tmp_path, "", '"data.amount" = "numeric"')
    values = [
        {
            "specversion": "1.0",
            "id": f"e{i}",
            "type": "visit",
            "source": "/shop",
            "data": {"amount": i % 7},
        }
        for i in range(60)
    ]
    records = [
        Outgoing("visits", None, json.dumps(v).encode(), NOW + 10 * i) for i, v in enumerate(values)
    ]
    fill(config, records)

    assert [each["id"] for each in run(config)] == [f"e{i}" for i in range(60)]


def test_what_the_header_means_for_other_keys(tmp_path) -> None:
    """`id` may name another field; rows of messages have no headers."""
    assert configured(tmp_path).input.id == "ce_id"
    assert configured(tmp_path, f'{HEADER}\nid = "number"').input.id == "number"
    assert configured(tmp_path, "").input.key_headers == {}
    pytest.importorskip("pyarrow")
    with pytest.raises(ConfigError, match="rows of arrow messages have no headers of their own"):
        configured(tmp_path, f'{HEADER}\nformat = "arrow"')
