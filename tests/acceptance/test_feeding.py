"""`headwater produce` and `headwater tail`: what goes in is what comes out, and when."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from itertools import pairwise
from typing import Any

import pytest

from tests.acceptance.conftest import Shell
from tests.acceptance.service import HEADWATER
from tests.waiting import PATIENCE

SHOPS = """\
zip,size,open,sold,at
01234,3,yes,a,2024-03-01T12:00:00Z
53111,,no,b,2024-03-01T12:00:10Z
99999,4.5,yes,,2024-03-01T12:00:20Z
01067,2,yes,a,2024-03-01T12:00:40Z
"""
TIMES = [0, 10_000, 20_000, 40_000]  # ms after the first


@pytest.fixture
def shops(shell: Shell) -> Shell:
    """A directory with a small CSV."""
    shell.write("shops.csv", SHOPS)
    return shell


def produce(shell: Shell, file: str, *options: str) -> str:
    """Write it to topic `shops`; what was said."""
    url = ["--transport", "sqlite:log.db"]
    return shell("produce", "shops", file, *url, *options).stdout


def envelopes(shell: Shell, topic: str = "shops") -> list[dict[str, Any]]:
    """Every record of a topic with all that belongs to it."""
    options = ["--transport", "sqlite:log.db", "--from-beginning", "--drain", "--envelope"]
    return [json.loads(line) for line in shell.lines("tail", topic, *options)]


def test_csv_columns_are_numeric_only_where_every_cell_is_a_number(shops: Shell) -> None:
    """A leading zero makes a code of it, --types decides otherwise, an empty cell is missing."""
    produce(shops, "shops.csv", "--types", "size=categorical")
    rows = [record["value"] for record in envelopes(shops)]
    (shops.directory / "log.db").unlink()
    produce(shops, "shops.csv")
    plain = [record["value"] for record in envelopes(shops)]

    assert [row["zip"] for row in rows] == ["01234", "53111", "99999", "01067"]
    assert [row.get("size") for row in rows] == ["3", None, "4.5", "2"]
    assert [row.get("size") for row in plain] == [3, None, 4.5, 2]
    assert [row["id"] for row in rows] == ["0", "1", "2", "3"]


def test_compressed_json_lines_are_the_same_records(shell: Shell) -> None:
    """Nested objects, unicode and null as they are."""
    rows = [{"id": f"r{i}", "x": {"y": i}, "who": "Żółw", "none": None} for i in range(20)]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (shell.directory / "rows.jsonl.gz").write_bytes(gzip.compress(text.encode()))

    said = produce(shell, "rows.jsonl.gz")

    assert said.startswith("20 observations to shops in ")
    found = envelopes(shell)
    assert [record["value"] for record in found] == rows
    assert [record["key"] for record in found] == [row["id"] for row in rows]
    assert [record["offset"] for record in found] == list(range(20))


def test_labels_are_stripped_and_sent_so_many_records_later(shops: Shell) -> None:
    """A label two records late is known after observation i+1, before observation i+2."""
    options = ["--label-topic", "sold", "--label", "sold", "--delay", "2"]
    said = produce(shops, "shops.csv", *options)
    observations, labels = envelopes(shops), envelopes(shops, "sold")
    at = {record["key"]: record["timestamp"] for record in observations}

    assert said.startswith("4 observations to shops, 3 labels to sold in ")
    assert all("sold" not in record["value"] for record in observations)
    assert [r["value"] for r in labels] == [
        {"id": i, "label": y} for i, y in (("0", "a"), ("1", "b"), ("3", "a"))
    ]
    assert [r["timestamp"] for r in labels[:2]] == [at["1"], at["2"]]
    assert labels[2]["timestamp"] > at["3"]
    assert all(a["timestamp"] < b["timestamp"] for a, b in pairwise(observations))


def test_delay_may_be_a_duration_in_the_time_of_the_file(shops: Shell) -> None:
    """--time-field gives the timestamps, and --delay 15s is 15 s of them."""
    options = ["--label-topic", "sold", "--label", "sold", "--delay", "15s", "--time-field", "at"]
    produce(shops, "shops.csv", *options)
    observations = [record["timestamp"] for record in envelopes(shops)]
    labels = {r["value"]["id"]: r["timestamp"] for r in envelopes(shops, "sold")}

    assert [t - observations[0] for t in observations] == TIMES
    assert observations[0] == 1709294400000
    assert {i: t - observations[0] for i, t in labels.items()} == {
        "0": 15_000,
        "1": 25_000,
        "3": 55_000,
    }


def test_rate_is_that_of_real_time_and_progress_is_shown(shell: Shell) -> None:
    """60 records at 40 a second take 1.5 s and are 25 ms apart; after a second it says so.

    That it takes no longer is a claim of `tests/commands/test_produce.py`, on a clock of its own.
    """
    shell.write("rows.jsonl", "".join(f'{{"x": {i}}}\n' for i in range(60)))
    url = ["--transport", "sqlite:log.db"]

    done = shell("produce", "shops", "rows.jsonl", *url, "--rate", "40")

    found = [record["timestamp"] for record in envelopes(shell)]
    assert [b - a for a, b in pairwise(found)] == [25] * 59
    assert float(done.stdout.split(" in ")[1].split()[0]) >= 1.4
    assert re.search(r"^\d+ of 60 records written \(", done.stderr, re.MULTILINE)


def test_tail_starts_at_the_end_unless_told_otherwise(shops: Shell) -> None:
    """And with --drain it ends at once."""
    produce(shops, "shops.csv")
    url = ["--transport", "sqlite:log.db", "--drain"]

    assert shops.lines("tail", "shops", *url) == []
    assert len(shops.lines("tail", "shops", *url, "--from-beginning")) == 4


def test_envelope_has_all_that_belongs_to_a_record(shops: Shell) -> None:
    """Topic, partition, offset, timestamp, key, headers, value."""
    produce(shops, "shops.csv")

    record = envelopes(shops)[1]

    names = ["topic", "partition", "offset", "timestamp", "key", "headers", "value"]
    assert list(record) == names
    assert (record["topic"], record["partition"], record["offset"]) == ("shops", 0, 1)
    assert (record["key"], record["headers"]) == ("1", [])


def test_closed_pipe_ends_it_quietly(shell: Shell) -> None:
    """`headwater tail … | head -1`, with much more to say than a pipe holds."""
    shell.write("rows.jsonl", f'{{"x": "{"y" * 2000}"}}\n' * 500)
    produce(shell, "rows.jsonl")
    line = f"{HEADWATER} tail shops --transport sqlite:log.db --from-beginning {{}} | head -1"
    script = f"set -o pipefail; {line.format('--drain')}; {line.format('')}"

    done = subprocess.run(
        ["bash", "-c", script],
        cwd=shell.directory,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 2
