"""JSON lines replayed as columns: the results and bits of the same file read record by record."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example

from consumers.commands.file_replay import ReplayOptions, replay_file
from consumers.config import parse
from consumers.files.source import FileSource
from consumers.offline.columns import LineFeed
from tests.seed import seeds

ROWS = 80
ODD: dict[str, Callable[[dict[str, Any]], object]] = {
    "a number as a text": lambda record: record.update(price="12"),
    "a label with a fraction": lambda record: record.update(y=1.5),
    "an id that is an integer": lambda record: record.update(id=7),
    "no time": lambda record: record.update(at="noon"),
    "a large number": lambda record: record.update(price=1e200),
    "a long number": lambda record: record.update(price=float("nan")),
}
COLOURS = ["red", "é", "", '"', "a\nb", "7"]


def records(random: Random) -> list[dict[str, Any]]:
    """Records with all kinds of fields, some of which are missing."""
    form, kind = random.choice(["none", "text", "whole", "repeated"]), random.choice([str, int])
    out = []
    for n in range(ROWS):
        record: dict[str, Any] = {
            "price": random.choice([random.gauss(0, 1), 3, -0.0, None, 1e-30]),
            "urgent": random.choice([True, False, 0, 1.0, None]),
            "shop": {"city": random.choice([*COLOURS, 3, True, None]), "x": [1, {"y": 5}]},
            "text": " ".join(random.choices(["win", "{[", "né", "\t"], k=4)),
            "y": random.choice([None, *map(kind, range(3))]),
            "at": 1_700_000_000_000 + 1_000 * n + random.randrange(1_000),
        }
        if form != "none":
            number = n % 30 if form == "repeated" else n
            record["id"] = number if form == "whole" else f"i{number}"
        for name in ("price", "shop", "y"):
            if random.random() < 0.1:
                del record[name]
        out.append(record)
    return out


def replayed(seed: int, folder: Path, odd: str | None) -> dict[str, Any] | str:
    """The results of a replay of a random file; the message if it fails."""
    random = Random(seed)
    made = records(random)
    if odd is not None:
        made[40].setdefault("id", "i40")
        made[41].setdefault("id", "i41")
        ODD[odd](made[40])
    ascii_only = random.random() < 0.5
    lines = [json.dumps(record, ensure_ascii=ascii_only) for record in made]
    text = random.choice(["\n", "\r\n", " \n\n"]).join(lines) + random.choice(["", "\n"])
    path = folder / random.choice(["t.jsonl", "t.jsonl.gz"])
    raw = random.choice([b"", b"\xef\xbb\xbf"]) + text.encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    late = random.random() < 0.6
    asked = ReplayOptions(
        FileSource(path),
        label="y",
        delay=random.choice(["0", "1", "9", "200", "3s"]) if late else None,
        time_field="at" if random.random() < 0.5 or odd == "no time" else None,
        limit=random.choice([None, 57]),
    )
    try:
        found = replay_file(config(random, late=late), asked)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return {k: v for k, v in found.items() if k not in ("seconds", "records_per_second")}


def config(random: Random, *, late: bool) -> Any:
    """A configuration for these records, with bounds small enough to be reached."""
    return parse(
        f"""
        name = "t"
        [input]
        transport = "sqlite:t.db"
        observations = "xs"
        {'labels = "ys"' if late else 'label = "y"'}
        [features]
        price = "numeric"
        urgent = "binary"
        "shop.city" = "categorical"
        text = "text"
        [labels]
        max_pending = {random.choice([10, 10_000])}
        [commit]
        max_records = {random.choice([1, 13, 5_000])}
        [model]
        type = "MixedNB"
        """,
        directory=Path(),
    )


@pytest.mark.parametrize("odd", [None, *ODD])
@example(seed=0)  # takes the way that its values allow
@seeds(0.01)
def test_lines_as_columns_give_the_results_of_records(odd, seed, tmp_path_factory) -> None:
    """Scores, counts, dead letters and fingerprint, for a random file and settings; a value that is
    not plain sends its file the other way."""
    survey, used = LineFeed.survey, set[bool]()

    def surveyed(feed: LineFeed, progress: Any) -> Any:
        found = survey(feed, progress)
        used.add(found is not None)
        return found

    folder = tmp_path_factory.mktemp("lines")
    with patch.object(LineFeed, "survey", surveyed):
        columns = replayed(seed, folder, odd)
    with patch.object(LineFeed, "survey", lambda feed, progress: None):
        one_by_one = replayed(seed, folder, odd)

    assert columns == one_by_one
    assert isinstance(columns, dict) or odd == "no time"
    assert used == {odd is None} or seed != 0
