"""Commands on topics whose observations are Arrow messages."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from consumers.base.extras import install
from consumers.base.records import Partition
from consumers.cli import main
from consumers.codecs import registry
from consumers.codecs.arrow.messages import documents
from consumers.config import load
from consumers.transports import open_log
from headwater import Client
from tests.commands.ports import other_port

pytest.importorskip("pyarrow")

CONFIG = """
name = "shop"
[input]
transport = "sqlite:shop.db"
observations = "visits"
labels = "bought"
format = "arrow"
[features]
amount = "numeric"
shop.city = "categorical"
[model]
type = "MixedNB"
[commit]
max_records = 30
[http]
enabled = false
"""
ROWS = [{"id": i, "amount": i % 7 / 2, "shop": {"city": ("Bonn", "Rom")[i % 2]}} for i in range(70)]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A configuration in the present directory, with a file of visits and one of labels."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.toml").write_text(CONFIG)
    (tmp_path / "visits.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    labels = (json.dumps({"id": i, "label": "ny"[i % 2]}) + "\n" for i in range(70))
    (tmp_path / "labels.jsonl").write_text("".join(labels))
    return "shop.toml"


def messages(topic: str) -> list[bytes]:
    """The values in a topic of the log."""
    with closing(open_log("sqlite:shop.db")) as log:
        at = [Partition(topic, n) for n in range(log.topics()[topic])]
        chunks = log.read(dict.fromkeys(at, 0), log.end_offsets(at))
        return [value or b"" for chunk in chunks for value in chunk.values]


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What was printed."""
    return capsys.readouterr().out.splitlines()


def test_a_file_is_produced_predicted_printed_and_audited(config: str, capsys) -> None:
    """In messages of `max_records` rows; the counts are those of rows."""
    assert main(["produce", "visits", "visits.jsonl", "--config", config]) == 0
    assert lines(capsys)[-1].startswith("70 observations to visits")
    assert main(["produce", "bought", "labels.jsonl", "--config", config]) == 0
    assert main(["run", config, "--drain"]) == 0
    capsys.readouterr()

    assert [len(documents(value, 99)) for value in messages("visits")] == [30, 30, 10]
    assert main(["tail", "visits", "--config", config, "--from-beginning", "--drain"]) == 0
    assert [json.loads(line) for line in lines(capsys)] == ROWS
    command = ["tail", "visits", "--config", config, "--from-beginning", "--drain", "--envelope"]
    assert main(command) == 0
    assert [json.loads(line)["value"] for line in lines(capsys)] == [
        ROWS[:30],
        ROWS[30:60],
        ROWS[60:],
    ]
    assert main(["audit", config, "visits:0:1:29", "--json"]) == 0
    made = json.loads(lines(capsys)[-1])
    assert made["same"]
    assert (made["prediction"]["id"], made["prediction"]["position"]["index"]) == ("59", 29)
    assert main(["replay", config, "--journal"]) == 0
    assert main(["check", config]) == 0


def test_init_recognizes_messages(config: str) -> None:
    """By their first bytes; fields come from the rows, and the id from a column."""
    assert main(["produce", "visits", "visits.jsonl", "--config", config]) == 0
    assert main(["produce", "bought", "labels.jsonl", "--config", config]) == 0
    command = ["init", "visits", "--labels", "bought", "--transport", "sqlite:shop.db"]
    assert main([*command, "--output", "made.toml", "--name", "made"]) == 0
    made = load(Path("made.toml"))
    assert (made.input.format, made.input.id) == ("arrow", "id")
    assert made.features == {"amount": "numeric", "shop.city": "categorical"}
    other_port("made.toml")
    assert main(["run", "made.toml", "--drain"]) == 0
    assert len(messages("made-predictions")) == 70


def test_labels_keep_their_place_between_observations(config: str, capsys) -> None:
    """A label ends the message before it, and rows of one message have one partition."""
    (Path("both.jsonl")).write_text("".join(json.dumps({**row, "y": 1}) + "\n" for row in ROWS))
    with closing(open_log("sqlite:shop.db")) as log:
        log.create_topic("visits", 2)
        log.create_topic("bought", 2)
    late = ["--label-topic", "bought", "--label", "y", "--delay", "50"]
    assert main(["produce", "visits", "both.jsonl", "--config", config, *late]) == 0
    assert "70 observations to visits, 70 labels to bought" in lines(capsys)[-1]

    sizes = [len(documents(value, 99)) for value in messages("visits")]
    assert sum(sizes) == 70
    assert max(sizes) <= 30
    assert sizes.count(1) >= 20
    with closing(open_log("sqlite:shop.db")) as log:
        places = {}
        for topic in ("visits", "bought"):
            for n in range(2):
                at = Partition(topic, n)
                for chunk in log.read({at: 0}, log.end_offsets([at])):
                    for value in chunk.values:
                        rows = documents(value, 99) if topic == "visits" else [json.loads(value)]
                        places.update({(topic, str(row["id"])): n for row in rows})
    assert all(places["visits", str(i)] == places["bought", str(i)] for i in range(70))


def test_client_writes_messages(config: str) -> None:
    """Made from the configuration it writes a message of one row each, and reads predictions."""
    assert main(["check", config, "--create"]) == 0
    with Client.from_config(config) as client:
        written = client.observe_many([{"amount": 1.0}, {"amount": 2.5}], ids=["a", "b"])
        client.label("a", "y")
        assert main(["run", config, "--drain"]) == 0
        stream = client.predictions(from_beginning=True, follow=False)
        found = [(p.id, p.position.offset, p.position.index) for p in stream]

    assert [w.offset for w in written] == [0, 1]
    assert found == [("a", 0, 0), ("b", 1, 0)]


def test_values_without_a_common_type_are_found_before_anything_is_written(config, capsys) -> None:
    """Unless they fit into messages of their own."""
    Path("visits.jsonl").write_text('{"id": 1, "amount": 1}\n{"id": 2, "amount": "x"}\n')
    assert main(["produce", "visits", "visits.jsonl", "--config", config]) == 0
    assert [len(documents(value, 9)) for value in messages("visits")] == [1, 1]
    Path("visits.jsonl").write_text(
        '{"id": 1, "amount": 1}\n{"id": 2, "amount": 1' + "0" * 30 + "}\n"
    )
    assert main(["produce", "visits", "visits.jsonl", "--config", config]) == 2
    error = capsys.readouterr().err
    assert "the record with the key b'2' for visits has values in 'amount'" in error
    assert len(messages("visits")) == 2


def test_missing_pyarrow_is_an_error_of_the_configuration(config, capsys, monkeypatch) -> None:
    """With the command that installs it."""
    monkeypatch.setattr(registry, "_is_there", lambda name: name != "pyarrow")
    assert main(["check", config]) == 2
    error = capsys.readouterr().err
    assert f"'arrow' needs pyarrow, which is not installed; run `{install('arrow')}`" in error
