"""`headwater init` before there are records: by `--fields` and by `--schema`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from consumers.cli import main
from consumers.config import load

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "order_id", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "note", "type": {"type": "array", "items": "string"}},
        {"name": "returned", "type": ["null", "boolean"]},
    ],
}


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test writes into a directory of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that ends with exit code 2."""
    assert main(["init", *arguments]) == 2
    [line] = capsys.readouterr().err.splitlines()
    return line


def test_fields_give_a_configuration_that_passes_check(capsys: pytest.CaptureFixture[str]) -> None:
    """The kinds, the topic of labels, and no table of models, with the reason."""
    assert main(["init", "payments", "--fields", "amount:numeric,country", "--label", "fraud"]) == 0
    config, shown = load(Path("payments.toml")), capsys.readouterr().out

    assert config.features == {"amount": "numeric", "country": "categorical"}
    assert config.input_topics == ["payments", "payments-labels"]
    assert config.input.transport == "sqlite:payments.db"
    assert "No models were compared, because there are no records yet" in shown
    assert "No models were compared" in Path("payments.toml").read_text()
    assert main(["check", "payments.toml", "--create"]) == 0


def test_fields_alone_name_the_service_feed() -> None:
    """The command of the documentation needs no name."""
    assert main(["init", "--fields", "amount:numeric,country", "--label", "fraud"]) == 0

    assert load(Path("feed.toml")).input_topics == ["feed", "feed-labels"]


def test_avro_schema_gives_a_configuration_with_what_is_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its name names the topic; what cannot be used is a comment with the reason."""
    Path("orders.v2.avsc").write_text(json.dumps(ORDER))
    arguments = ["--label", "returned", "--id-field", "order_id", "--transport", "sqlite:shop.db"]
    assert main(["init", "--schema", "orders.v2.avsc", *arguments]) == 0
    config, shown = load(Path("orders.toml")), capsys.readouterr().out

    assert config.features == {"amount": "numeric"}
    assert config.input.id == "order_id"
    assert "# note is left out: lists, which no model supports" in Path("orders.toml").read_text()
    assert "label returned: true or false; it comes later, on topic orders-labels" in shown
    assert "produce orders FILE --config orders.toml --id-field order_id" in shown


def test_json_schema_on_a_broker_names_the_topics(capsys: pytest.CaptureFixture[str]) -> None:
    """The topic is the argument; without a file, `produce` is no next step."""
    schema = {"properties": {"amount": {"type": "number"}}}
    Path("payment.schema.json").write_text(json.dumps(schema))
    options = ["--schema", "payment.schema.json", "--labels", "refunds", "--name", "refund-risk"]
    assert main(["init", "payments", *options, "--transport", "kafka://localhost:9092"]) == 0

    assert load(Path("refund-risk.toml")).input_topics == ["payments", "refunds"]
    shown = capsys.readouterr().out
    assert "the schema has no field 'id': the id of a record is its key" in shown
    assert "headwater produce" not in shown


def test_label_that_only_its_own_topic_has_is_named_by_the_topic(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A schema of observations without the label: the message has the option that takes it."""
    Path("orders.avsc").write_text(json.dumps(ORDER))

    said = refused(capsys, "pay", "--schema", "orders.avsc", "--label", "chargeback")
    assert "no field 'chargeback' in orders.avsc; for labels that only a topic of their own" in said
    assert "give --labels TOPIC in place of --label; fields are " in said
    assert main(["init", "pay", "--schema", "orders.avsc", "--labels", "pay-labels"]) == 0
    assert load(Path("pay.toml")).input_topics == ["pay", "pay-labels"]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "expected JSON (a JSON Schema or an Avro .avsc)"),
        ("[]", "expected a JSON Schema or an Avro schema, got '[]'"),
        ('"string"', "expected a JSON Schema or an Avro schema, got 'string'"),
        ('[{"type": "record"}]', "expected the schema of one record, got a list of 1"),
        ('{"type": "record", "name": "A", "fields": []}', "the record has no fields"),
        ('{"type": "enum", "name": "A", "fields": 1}', "expected an Avro schema of type record"),
        ('{"type": "array"}', "expected a JSON Schema of an object with properties, got none"),
        ('{"properties": {"a": {"type": "array"}}}', "no field can be learned from"),
        ("[" * 100_000, "expected JSON"),
        (b"\xff\xfe{}", "expected JSON"),
    ],
)
def test_schema_that_cannot_be_used_is_refused_in_one_line(
    document: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback, exit code 2, and no file."""
    Path("s.json").write_bytes(document if isinstance(document, bytes) else document.encode())

    assert message in refused(capsys, "--schema", "s.json")
    assert not Path("s.toml").exists()


def test_options_that_do_not_fit_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A file beside declared fields, both declarations, an option of files, an existing result."""
    Path("rows.csv").write_text("a,b\n1,2\n")
    Path("feed.toml").touch()

    assert "rows.csv is a file" in refused(capsys, "rows.csv", "--fields", "a")
    assert "exclude each other" in refused(capsys, "--fields", "a", "--schema", "s.json")
    assert "read no records" in refused(capsys, "--fields", "a", "--sep", ";")
    assert "feed.toml exists" in refused(capsys, "--fields", "a")
    assert "cannot read s.json" in refused(capsys, "--schema", "s.json")
    assert "expected a file or a topic" in refused(capsys)
    assert "are both 'a'" in refused(capsys, "x", "--fields", "a", "--label", "a", "--id-field=a")
    assert "no directory" in refused(capsys, "x", "--fields=a", "--transport", "sqlite:no/x.db")
