"""Tables replayed as columns: the results and bits of the same file read as JSON records."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example

from consumers.commands.file_replay import ReplayOptions, replay_file
from consumers.config import parse
from consumers.files.source import FileSource
from consumers.offline.columns import TableFeed
from tests.seed import seeds

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = 80
NOON = datetime(2024, 3, 1, 12)
KINDS = ("numeric", "binary", "categorical", "text")
ODD = ("infinite", "large", "mixed", "float label", "no id", "empty id", "two", "nested", "equal")


def some(random: Random, make: Any) -> list[Any]:
    """A column; sometimes with nulls."""
    share = random.choice([0.0, 0.2])
    return [None if random.random() < share else make() for _ in range(ROWS)]


def column(random: Random, kind: str) -> Any:
    """A plain column of a kind, in one of the types that hold it."""
    if kind == "numeric":
        numbers = some(random, lambda: random.choice([-0.0, random.gauss(0, 1), math.nan, 1e30]))
        whole = some(random, lambda: random.randint(-(2**53), 2**53))
        return random.choice(
            [pa.array(numbers), pa.array(numbers).cast("float32"), pa.array(whole, "int64")]
        )
    if kind == "binary":
        bits = some(random, lambda: random.random() < 0.5)
        return pa.array(bits).cast(random.choice(["bool", "uint8"]))
    if kind == "categorical":
        texts = pa.array(some(random, lambda: random.choice(["é", "red", "", "x" * 300])))
        codes = pa.array(some(random, lambda: random.randint(0, 3)), "int16")
        return random.choice([texts, texts.dictionary_encode(), codes, codes.cast("float64")])
    return pa.array(some(random, lambda: " ".join(random.choices(["win", "{[", "né"], k=4))))


def table(random: Random, odd: str | None) -> tuple[Any, dict[str, str]]:
    """A table with columns of all kinds, ids and labels, and one oddity; and its features."""
    fields = {f"f{n}": random.choice(KINDS) for n in range(random.randint(1, 4))}
    columns = {name: column(random, kind) for name, kind in fields.items()}
    columns["extra"] = column(random, random.choice(KINDS))
    form = random.choice(["none", "text", "whole", "repeated"])
    if form != "none":
        ids = [n % 30 if form == "repeated" else n for n in range(ROWS)]
        columns["id"] = pa.array(ids) if form == "whole" else pa.array([f"i{n}" for n in ids])
    labels = some(random, lambda: random.randint(0, 2))
    columns["y"] = pa.array(labels)
    if random.random() < 0.5:
        columns["y"] = columns["y"].cast("string").dictionary_encode()
    steps = [random.randint(1, 2_000) for _ in range(ROWS)]
    times = [NOON + timedelta(milliseconds=sum(steps[:n])) for n in range(ROWS)]
    columns["at"] = pa.array(times, pa.timestamp(random.choice(["ms", "us", "ns"])))
    place = random.randrange(ROWS)
    if odd is not None:
        twist(odd, columns, fields, place)
    return pa.table(columns), fields


def twist(odd: str, columns: dict[str, Any], fields: dict[str, str], place: int) -> None:
    """Put one value into the table about which the decoder has to decide."""
    numbers = [float(n) for n in range(ROWS)]
    ids = [f"i{n}" for n in range(ROWS)]
    if odd == "infinite":
        numbers[place] = math.inf
        fields["f0"], columns["f0"] = "numeric", pa.array(numbers)
    elif odd == "large":
        fields["f0"] = "numeric"
        columns["f0"] = pa.array([2**60 + n for n in range(ROWS)])
    elif odd == "mixed":
        fields["f0"] = "numeric"
        columns["f0"] = pa.array(["NA" if n == place else str(n) for n in range(ROWS)])
    elif odd == "float label":
        columns["y"] = pa.array([float(n % 2) for n in range(ROWS)])
    elif odd == "no id":
        columns["id"] = pa.array([None if n == place else ids[n] for n in range(ROWS)])
    elif odd == "empty id":
        columns["id"] = pa.array([i if n != place else "i" * 600 for n, i in enumerate(ids)])
    elif odd == "two":
        fields["f0"] = "binary"
        columns["f0"] = pa.array([2 if n == place else n % 2 for n in range(ROWS)])
    elif odd == "nested":
        fields["in.x"] = "numeric"
        columns["in"] = pa.array([{"x": number} for number in numbers])
    else:
        columns["at"] = pa.array([NOON] * ROWS)


def config(fields: dict[str, str], random: Random, *, late: bool) -> Any:
    """A configuration for a table, with bounds small enough to be reached."""
    corrections = random.choice(["true", "false"])
    learner = "MixedNB" if corrections == "true" else "LogisticRegression"
    lines = "\n".join(f'"{name}" = "{kind}"' for name, kind in fields.items())
    label = 'labels = "ys"' if late else 'label = "y"'
    return parse(
        f"""
        name = "t"
        [input]
        transport = "sqlite:t.db"
        observations = "xs"
        {label}
        [features]
        {lines}
        [labels]
        horizon = "{random.choice(["1s", "7d"])}"
        max_pending = {random.choice([10, 10_000])}
        corrections = {corrections}
        [commit]
        max_records = {random.choice([1, 13, 5_000])}
        [model]
        type = "{learner}"
        """,
        directory=Path(),
    )


def replayed(seed: int, path: Path, odd: str | None) -> dict[str, Any] | str:
    """The results of a replay of a random table; the message if it fails."""
    random = Random(seed)
    data, fields = table(random, odd)
    pq.write_table(data, path, row_group_size=random.choice([7, 50, 100]))
    late = random.random() < 0.6
    asked = ReplayOptions(
        FileSource(path),
        label="y",
        delay=random.choice(["0", "1", "9", "200", "3s"]) if late else None,
        time_field="at" if random.random() < 0.5 or odd == "equal" else None,
        limit=random.choice([None, 57]),
    )
    try:
        found = replay_file(config(fields, random, late=late), asked)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return {k: v for k, v in found.items() if k not in ("seconds", "records_per_second")}


@pytest.mark.parametrize("odd", [None, *ODD])
@example(seed=0)  # takes the way that its values allow
@seeds(0.0225)
def test_columns_give_the_results_of_json_records(odd, seed, tmp_path_factory) -> None:
    """Scores, counts, dead letters and fingerprint, for a random table and settings; a value that
    the decoder must judge sends its file the other way."""
    survey, used = TableFeed.survey, set[bool]()

    def surveyed(feed: TableFeed, progress: Any) -> Any:
        found = survey(feed, progress)
        used.add(found is not None)
        return found

    path = tmp_path_factory.mktemp("tables") / "t.parquet"
    with patch.object(TableFeed, "survey", surveyed):
        columns = replayed(seed, path, odd)
    with patch.object(TableFeed, "survey", lambda feed, progress: None):
        json = replayed(seed, path, odd)

    assert columns == json
    assert isinstance(columns, dict)
    assert used == {odd is None} or seed != 0
