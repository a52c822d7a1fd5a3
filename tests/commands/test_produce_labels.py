"""`headwater produce` of a file of labels alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from consumers.cli import main
from tests.commands.test_produce import Produce, Said, stored


@pytest.fixture
def url(tmp_path: Path) -> str:
    """An embedded log that is not there yet."""
    return f"sqlite:{tmp_path / 'log.db'}"


@pytest.fixture
def produce_labels(tmp_path: Path, url: str) -> Produce:
    """Write a file of labels and produce it to the topic of labels of a configuration."""
    config = tmp_path / "c.toml"
    config.write_text(
        f'name = "n"\n[input]\ntransport = "{url}"\nobservations = "obs"\n'
        'labels = "lab"\nid = "order"\n[model]\ntype = "GaussianNB"\n'
    )

    def run(content: str, *options: str, name: str = "a.csv") -> int:
        path = tmp_path / name
        path.write_text(content)
        return main(["produce", "lab", str(path), "--config", str(config), *options])

    return run


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("id,label\n7,yes\n8,\n9,no\n", []),
        ("order,label\n7,yes\n8,\n9,no\n", []),
        ("order,returned,shop\n7,yes,a\n8,,b\n9,no,c\n", ["--label", "returned"]),
        ("no,label\n7,yes\n8,\n9,no\n", ["--id-field", "no"]),
    ],
)
def test_file_of_labels_alone_is_written_as_labels(
    produce_labels: Produce, url: str, content: str, options: list[str]
) -> None:
    """By the names of its columns; a row without a label is left out."""
    assert produce_labels(content, *options) == 0

    assert [(r.key, json.loads(r.value or b"")) for r in stored(url, "lab")] == [
        (b"7", {"id": 7, "label": "yes"}),
        (b"9", {"id": 9, "label": "no"}),
    ]


def test_columns_of_a_file_of_labels_that_are_not_used_are_said(
    produce_labels: Produce, capsys: Said
) -> None:
    """A weight with a wrong name would count as 1."""
    assert produce_labels("order,label,weihgt\n7,yes,3\n8,no,1\n") == 0

    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "of the first 2 labels: in label records, not used: 'weihgt'"


def test_labels_alone_keep_their_weight_and_their_time(produce_labels: Produce, url: str) -> None:
    """As an observation keeps its time."""
    rows = "id,label,w,at\na,yes,2.5,2026-01-01T00:00:02Z\nb,no,,2026-01-01T00:00:01Z\n"

    assert produce_labels(rows, "--time-field", "at") == 0

    first, second = stored(url, "lab")
    assert second.timestamp - first.timestamp == 1000
    assert json.loads(first.value or b"") == {"id": "b", "label": "no", "at": rows[-21:-1]}
    assert json.loads(second.value or b"")["w"] == 2.5


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        (
            "order,returned\n7,yes\n",
            [],
            "a.csv: no record has a label in field 'label'; name the field with --label; fields "
            "are order, returned\n",
        ),
        (
            "n,label\n7,yes\n",
            [],
            "a.csv: record 1 has a label but no id in field 'id' or 'order'; name the field of its "
            "observation's id with --id-field\n",
        ),
        (
            "id,label\n1.5,yes\n2,no\n",
            [],
            "record 1: field 'id' is 1.5, expected text or an integer",
        ),
        ("id,label\n", [], "expected records, got none; nothing was written"),
        ("id,label\n7,yes\n", ["--delay", "5"], "labels need --label-topic T and --label FIELD"),
    ],
)
def test_labels_alone_that_would_be_dead_letters_are_refused(
    produce_labels: Produce,
    tmp_path: Path,
    capsys: Said,
    content: str,
    options: list[str],
    said: str,
) -> None:
    """Before anything is written: a label that got a number as its id found no observation."""
    assert produce_labels(content, *options) == 2

    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "log.db").exists()
