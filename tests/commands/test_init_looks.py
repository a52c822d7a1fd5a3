"""`headwater init`: what it finds in the records, and says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from consumers.base.records import Outgoing
from consumers.commands.init import init
from consumers.config import load
from consumers.transports import open_log
from tests.commands.test_init import ROWS, write


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test writes into a directory of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


LEAKY = [
    {
        "amount": i % 40 + 0.5,
        "refunded": "yes" if i % 7 == 0 else None,
        "fraud": i % 7 == 0,
    }
    for i in range(700)
]


def test_leak_is_warned_of_beside_the_field(capsys: pytest.CaptureFixture[str]) -> None:
    """On the terminal and in the file; the field stays, because only people know what it is."""
    init(write("paid.jsonl", LEAKY), label="fraud")

    warning = "refunded is filled in only where fraud is true (100 of 100 records): is it known"
    assert f"warning: field {warning} before the label?" in capsys.readouterr().out
    assert f"# warning: {warning}" in Path("paid.toml").read_text()
    assert load(Path("paid.toml")).features == {"amount": "numeric", "refunded": "categorical"}


def test_no_look_reads_a_sample_only(capsys: pytest.CaptureFixture[str]) -> None:
    """The fields are inferred as before; what a look would find is not reported."""
    init(write("paid.jsonl", LEAKY), label="fraud", no_look=True)

    assert "700 records" not in (out := capsys.readouterr().out)
    assert "warning" not in out
    assert "paid.jsonl: 500 records sampled" in out


def test_labels_of_a_topic_are_looked_at_too(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are joined with their observations by the id, or by the key."""
    log = open_log(f"sqlite:{directory / 'x.db'}")
    for topic in ("paid", "frauds"):
        log.create_topic(topic, 2)
    for i, row in enumerate(LEAKY):
        x = json.dumps({k: v for k, v in row.items() if k != "fraud"} | {"id": i}).encode()
        given = json.dumps({"label": row["fraud"]} | ({"id": i} if i % 2 else {})).encode()
        key = str(i).encode()
        log.append([Outgoing("paid", key, x, 10 * i), Outgoing("frauds", key, given, 10 * i + 500)])
    log.close()

    init("paid", labels="frauds", transport=f"sqlite:{directory / 'x.db'}")

    out = capsys.readouterr().out
    assert "warning: field refunded is filled in only where the label is true (100 of 100" in out
    assert "  The first 700 records, labels as late as in the topic:" in out


def test_labels_inside_the_records_of_a_topic_come_at_once(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is learned after its prediction, as in the service."""
    log = open_log(f"sqlite:{directory / 'x.db'}")
    log.create_topic("paid", 1)
    for i, row in enumerate(LEAKY):
        log.append([Outgoing("paid", b"k", json.dumps({**row, "id": i}).encode(), 10 * i)])
    log.close()

    init("paid", label="fraud", transport=f"sqlite:{directory / 'x.db'}")

    out = capsys.readouterr().out
    assert "  The first 700 records, each label inside its record:" in out
    assert "field refunded is filled in only where fraud is true" in out


def test_missing_values_of_a_csv_are_reported_and_the_label_keeps_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`?` makes no number a text, and the class `-` is no gap."""
    rows = "".join(f"{i % 7 if i % 5 else '?'},{i % 3},{'+-'[i % 2]}\n" for i in range(100))
    Path("credit.csv").write_text("age,size,y\n" + rows)

    init("credit.csv", label="y")

    shown = capsys.readouterr().out
    config = load(Path("credit.toml"))
    assert config.features == {"age": "numeric", "size": "numeric"}
    assert "80 of 80 values are numbers; missing in 20 of 100 records" in shown
    assert "label y: 2 classes: + 50, - 50" in shown
    assert "; missing in 20 of 100 records" in Path("credit.toml").read_text()


def test_missing_and_odd_values_after_the_sample_are_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of all records that are looked at. An odd cell makes a column of CSV text."""
    ages: list[object] = ["NA" if i > 600 and i % 10 == 0 else i % 7 + 0.5 for i in range(900)]
    ages[701], ages[777] = "many", "few"
    records = [{"age": age, "y": "+-"[i % 2]} for i, age in enumerate(ages)]
    Path("late.csv").write_text("age,y\n" + "".join(f"{r['age']},{r['y']}\n" for r in records))

    init(write("late.jsonl", records), label="y")
    shown = capsys.readouterr().out
    init("late.csv", label="y", output=Path("csv.toml"))

    odd = "2 values after the sample ('many') count as missing"
    assert f"missing in {ages.count('NA')} of 900 records; {odd}" in shown
    assert "some after the sample are no plain numbers" in capsys.readouterr().out


def test_fields_that_come_after_the_sample_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Fields are inferred from the first records only, so these are not used."""
    late = {"id": "x", "age": "old", "color": "red", "town": "t1", "spam": True}
    many = [{**row, "id": i} for i, row in enumerate(ROWS * 12)]

    init(write("a.jsonl", [*many, late]), label="spam")

    shown = capsys.readouterr().out
    assert "of the first 1,081 observations: field 'age': 1 of 1,081 values do not fit" in shown
    assert "not declared, so not used" not in shown  # it is not among those that are looked at


def test_worse_than_guessing_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    """Labels in runs that no field explains: every model is worse than the last label."""
    rows = [{"x": i * 37 % 101 + 0.5, "y": i // 500 % 2} for i in range(6000)]
    init(write("runs.jsonl", rows), label="y")

    out = capsys.readouterr().out
    assert re.search(r"warning: \w+ is worse than guessing: .* \(no-change\) is right in 9", out)
    assert "; either the fields do not show the label, or the records are not in the order" in out
    assert "guess: last label" in Path("runs.toml").read_text()
