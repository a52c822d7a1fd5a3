"""Files of change events of a table, as Debezium writes them: the rows are the records."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from consumers.base.records import Partition
from consumers.cli import main
from consumers.config import load
from consumers.transports import open_log

Said = pytest.CaptureFixture[str]
ROWS = [
    {"order_id": f"o{i}", "amount": f"{i % 7}.50", "country": "df"[i % 2], "returned": i % 7 > 3}
    for i in range(120)
]
EVENTS = [
    {"op": "cr"[i % 2], "before": None, "after": row, "source": {"lsn": i}, "ts_ms": i}
    for i, row in enumerate(ROWS)
]
OTHERS = [
    {"op": "u", "before": ROWS[0], "after": {**ROWS[0], "country": "f"}},
    {"op": "d", "before": ROWS[1], "after": None},
    {"op": "t", "source": {"lsn": 9}},
]


@pytest.fixture
def proposed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> str:
    """What `init` says of a file of the events, in whose folder the test is."""
    monkeypatch.chdir(tmp_path)
    Path("orders.jsonl").write_text("".join(json.dumps(e) + "\n" for e in [*EVENTS, *OTHERS]))
    assert main(["init", "orders.jsonl", "--label", "returned", "--no-look"]) == 0
    text = Path("orders.toml").read_text().replace('type = "auto"', 'type = "GaussianNB"')
    Path("orders.toml").write_text(text)
    return capsys.readouterr().out


@pytest.fixture
def orders(proposed: str) -> str:
    """The configuration."""
    assert "wrote orders.toml" in proposed
    return "orders.toml"


def stored(topic: str) -> list[dict[str, object]]:
    """The records of a topic."""
    with closing(open_log("sqlite:orders.db")) as log:
        start = {Partition(topic, 0): 0}
        parts = log.read(start, log.end_offsets(list(start)))
        return [json.loads(value or b"") for part in parts for value in part.values]


def test_features_are_the_columns_of_the_table(proposed: str) -> None:
    """It learned from `op` and the rows before, and the label was not found."""
    config = load(Path("orders.toml"))

    assert "change events of a table (c 60, d 1, r 60, t 1, u 1)" in proposed
    assert "label returned: 2 classes" in proposed
    assert config.features == {"amount": "numeric", "country": "categorical"}
    assert config.input.changes == ("c", "r")
    assert config.input.id == "order_id"


@pytest.mark.parametrize("events", [True, False])
def test_rows_are_written_as_events_of_the_topic(orders: str, capsys: Said, events: bool) -> None:
    """Also those of an export of the table. The label is a row of its own."""
    records = [*EVENTS, *OTHERS] if events else ROWS
    Path("more.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    capsys.readouterr()
    how = ["--label-topic", "orders-labels", "--label", "returned", "--config", orders]

    assert main(["produce", "orders", "more.jsonl", *how]) == 0
    assert capsys.readouterr().out.startswith("120 observations to orders, 120 labels to")
    first = {name: value for name, value in ROWS[0].items() if name != "returned"}
    assert stored("orders")[0] == {"op": "c", "after": first}
    assert stored("orders-labels")[0] == {"op": "c", "after": {"id": "o0", "label": False}}


def test_replay_and_backfill_learn_the_rows(orders: str, capsys: Said) -> None:
    """They saw events without a declared field."""
    capsys.readouterr()
    assert main(["replay", orders, "orders.jsonl", "--label", "returned", "--json"]) == 0
    replayed = json.loads(capsys.readouterr().out)
    assert replayed["labels"]["joined"] == len(ROWS)
    assert replayed["fields_in_words"] == []

    assert main(["check", orders, "--create"]) == 0
    assert main(["backfill", orders, "orders.jsonl", "--label", "returned"]) == 0
    assert "learned     120 labels" in capsys.readouterr().out
