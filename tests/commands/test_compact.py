"""`headwater compact`: a service that was compacted goes on as one that was not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from consumers.base.records import Outgoing, Partition
from consumers.cli import main
from consumers.transports import open_log

CONFIG = """
name = "shop"
[input]
transport = "sqlite:shop.db"
observations = "orders"
labels = "orders-labels"
[features]
amount = "numeric"
[model]
type = "GaussianNB"
[commit]
max_records = 200
[snapshots]
keep = 2
[http]
enabled = false
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A service with 300 observations and labels, one a minute, and two snapshots."""
    monkeypatch.chdir(tmp_path)
    Path("shop.toml").write_text(CONFIG)
    assert main(["check", "shop.toml", "--create"]) == 0
    for part in (range(150), range(150, 300)):
        write(part)
        assert main(["run", "shop.toml", "--drain"]) == 0
    return tmp_path


def write(numbers: Sequence[int], path: str = "shop.db") -> None:
    """Observations, each with its label a minute later."""
    with closing(open_log(f"sqlite:{path}")) as log:
        records = []
        for n in numbers:
            at, key, label = 10**12 + n * 60_000, b"%d" % n, n % 3 == 0
            seen = json.dumps({"id": str(n), "amount": n % 7 + 3.0 * label}).encode()
            known = json.dumps({"id": str(n), "label": label}).encode()
            records.append(Outgoing("orders", key, seen, at))
            records.append(Outgoing("orders-labels", key, known, at + 60_000))
        log.append(records)


def lines(topic: str, path: str = "shop.db") -> dict[int, bytes | None]:
    """Offset to value of every record that is there."""
    partition = Partition(topic, 0)
    with closing(open_log(f"sqlite:{path}")) as log:
        chunks = log.read(log.beginning_offsets([partition]), log.end_offsets([partition]))
        return {at: v for c in chunks for at, v in zip(c.offsets, c.values, strict=True)}


def test_compacted_service_predicts_as_one_that_was_not(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a snapshot, byte for byte. Inputs reach back to the oldest snapshot; the journal, whole.

    The replay from the journal alone is what was given up, and says so.
    """
    shutil.copytree(directory, directory / "whole")
    journal = lines("shop-journal")
    assert main(["compact", "shop.toml", "--keep", "1h"]) == 0
    out = capsys.readouterr().out

    assert "orders[0]: 100 of 300 records to delete" in out
    assert min(lines("orders")) == 100  # by the last 50 before its position a start knows the input
    assert min(lines("shop-predictions")) == 239  # an hour before the newest prediction
    assert lines("shop-journal") == journal
    write(range(300, 360))
    write(range(300, 360), "whole/shop.db")
    assert main(["run", "shop.toml", "--drain"]) == 0
    assert main(["run", "whole/shop.toml", "--drain"]) == 0
    whole = lines("shop-predictions", "whole/shop.db")
    assert lines("shop-predictions") == {n: v for n, v in whole.items() if n >= 239}
    capsys.readouterr()
    assert main(["replay", "shop.toml", "--journal"]) == 1
    assert "orders[0] has lost its records 0 to 99" in capsys.readouterr().err


def test_without_an_age_nothing_is_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    """Records are packed, also twice, and a dry run does not even that."""
    before = {topic: lines(topic) for topic in ("orders", "orders-labels", "shop-predictions")}
    assert main(["compact", "shop.toml", "--keep", "1h", "--dry-run"]) == 0
    assert "100 of 300 records would be deleted" in capsys.readouterr().out
    assert main(["compact", "shop.toml"]) == 0
    assert main(["compact", "shop.toml"]) == 0

    assert {topic: lines(topic) for topic in before} == before
    assert "shop.db: " in capsys.readouterr().out


def test_inputs_of_another_service_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """It may not have read them yet."""
    orders = Partition("orders", 0)
    with closing(open_log("sqlite:shop.db")) as log:
        log.create_topic("other-journal", 1)
        owner = log.owner("other", 0, [orders])
        owner.commit([], Outgoing("other-journal", None, b"{}"), {orders: 3})
    assert main(["compact", "shop.toml", "--keep", "1h"]) == 0

    assert "orders: kept, because other reads it too" in capsys.readouterr().out
    assert min(lines("orders")) == 0


def test_wrong_use_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """No snapshot, a wrong age, a broker."""

    def refused(*arguments: str) -> str:
        assert main(["compact", *arguments]) == 2
        [line] = capsys.readouterr().err.splitlines()
        return line

    Path("broker.toml").write_text(CONFIG.replace("sqlite:shop.db", "kafka://nowhere:1"))
    capsys.readouterr()

    assert "--keep: expected a duration" in refused("shop.toml", "--keep", "old")
    assert "got kafka://nowhere:1; on Kafka set retention.ms" in refused("broker.toml")
    shutil.rmtree("headwater-state")
    assert "has no snapshot that a start would load" in refused("shop.toml", "--keep", "1h")
