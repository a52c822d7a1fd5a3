"""The backup of docs/howto/backup.md, taken while the service runs, and its restore."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from consumers.base.records import Outgoing, Partition
from consumers.cli import main
from consumers.transports import open_log
from tests.lint.sources import ROOT
from tests.waiting import PATIENCE, until

CONFIG = """
name = "payments"
[input]
transport = "sqlite:payments.db"
observations = "payments"
labels = "payments-labels"
[features]
amount = "numeric"
[model]
type = "GaussianNB"
[commit]
max_records = 40
[snapshots]
directory = "state"
every_records = 50
[http]
enabled = false
"""
LOG = ("payments.db", "payments.db-wal", "payments.db-shm")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration whose topics exist."""
    monkeypatch.chdir(tmp_path)
    Path("payments.toml").write_text(CONFIG)
    assert main(["check", "payments.toml", "--create"]) == 0
    return tmp_path


def write(numbers: Sequence[int]) -> None:
    """Observations, and the label of each right after it, always with the same timestamps."""
    with closing(open_log("sqlite:payments.db")) as log:
        records = []
        for n in numbers:
            at, key, label = 10**12 + 1000 * n, b"%d" % n, n % 3 == 0
            seen = json.dumps({"id": str(n), "amount": n % 7 + 3.0 * label}).encode()
            known = json.dumps({"id": str(n), "label": label}).encode()
            records.append(Outgoing("payments", key, seen, at))
            records.append(Outgoing("payments-labels", key, known, at + 500))
        log.append(records)


def predictions() -> list[bytes | None]:
    partition = Partition("payments-predictions", 0)
    with closing(open_log("sqlite:payments.db")) as log:
        topics = log.topics()
        if partition.topic not in topics:
            return []
        chunks = log.read({partition: 0}, log.end_offsets([partition]))
        return [value for chunk in chunks for value in chunk.values]


def commands_of_the_page() -> str:
    """The shell lines of the section on the embedded log."""
    page = (ROOT / "docs/howto/backup.md").read_text()
    section = page.split("## The embedded log")[1].split("\n## ")[0]
    [block] = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return str(block)


def test_restored_service_predicts_what_the_lost_one_did() -> None:
    """Byte for byte, after the records since the backup were sent again."""
    write(range(120))
    run = [sys.executable, "-m", "consumers", "run", "payments.toml"]
    with subprocess.Popen(run, stderr=subprocess.DEVNULL) as service:
        until(lambda: len(predictions()) == 120)
        until(lambda: any(Path("state").rglob("snap-*.hws")))
        Path("backup").mkdir()
        shell = ["sh", "-ec", commands_of_the_page().replace("python3", sys.executable)]
        subprocess.run(shell, check=True, timeout=PATIENCE)
        write(range(120, 200))
        until(lambda: len(predictions()) == 200)
        service.send_signal(signal.SIGTERM)
        assert service.wait(PATIENCE) == 0
    before = predictions()
    for name in (*LOG, "payments.toml"):
        Path(name).unlink(missing_ok=True)
    shutil.rmtree("state")

    shutil.copytree("backup", ".", dirs_exist_ok=True)
    assert main(["doctor", "payments.toml", "--no-kernels"]) == 0
    assert main(["run", "payments.toml", "--drain"]) == 0
    assert predictions() == before[:120]
    write(range(120, 200))
    assert main(["run", "payments.toml", "--drain"]) == 0
    assert predictions() == before
    assert main(["replay", "payments.toml", "--journal"]) == 0


def test_log_that_is_older_than_its_snapshots_is_refused_until_they_are_moved(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The wrong order of a backup: the message names the position, and moving them is enough."""
    write(range(60))
    assert main(["run", "payments.toml", "--drain"]) == 0
    with closing(sqlite3.connect("payments.db")) as log, closing(sqlite3.connect("old.db")) as old:
        log.backup(old)
    write(range(60, 120))
    assert main(["run", "payments.toml", "--drain"]) == 0
    before = predictions()
    for name in LOG:
        Path(name).unlink(missing_ok=True)
    Path("old.db").rename("payments.db")
    capsys.readouterr()

    assert main(["run", "payments.toml", "--drain"]) == 2
    message = capsys.readouterr().err
    assert "has lost its newest records" in message
    match = re.search(r"move the snapshots after (\d+) out of (\S+)", message)
    assert match is not None, message
    for path in Path(match[2]).glob("snap-*.hws"):
        if int(path.stem.removeprefix("snap-")) > int(match[1]):
            path.unlink()
    write(range(60, 120))
    assert main(["run", "payments.toml", "--drain"]) == 0
    assert predictions() == before
