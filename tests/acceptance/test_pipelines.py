"""`tail | … | produce`: at least once, whichever part is killed; each record is learned once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from consumers.base.records import Outgoing, Partition
from consumers.cli import main
from consumers.transports import open_log
from consumers.transports.protocol import Log
from tests.waiting import PATIENCE, until

N = 2000  # records before each start
TAIL, FILTER, PRODUCE = 0, 1, 2
CONFIG = """
name = "copied"
[input]
transport = "sqlite:log.db"
observations = "b"
label = "y"
[features]
x = "numeric"
[model]
type = "GaussianNB"
[http]
enabled = false
"""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """A log with an empty topic of two partitions, and one for the copy."""
    with closing(open_log(f"sqlite:{tmp_path / 'log.db'}")) as opened:
        opened.create_topic("a", 2)
        opened.create_topic("b", 1)
        yield opened


def send(log: Log, numbers: range) -> None:
    """Records with these numbers, in turn in both partitions."""
    rows = [{"id": f"r{n}", "x": n / 7, "y": n % 2} for n in numbers]
    log.append(
        [
            Outgoing("a", None, json.dumps(row).encode(), 1000 + n, (), n % 2)
            for n, row in zip(numbers, rows, strict=True)
        ]
    )


def values(log: Log) -> list[dict[str, float]]:
    """The records of the copy."""
    partition = Partition("b", 0)
    chunks = log.read({partition: 0}, log.end_offsets([partition]))
    return [json.loads(value or b"") for chunk in chunks for value in chunk.values]


@contextmanager
def pipeline(directory: Path, *ending: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """headwater tail a … | sed … | headwater produce b …; `sed` keeps 4 KiB of lines and more."""
    headwater = [sys.executable, "-m", "consumers"]
    resume = ["--transport", "sqlite:log.db", "--envelope", "--resume", "a.pos"]
    commands = [
        [*headwater, "tail", "a", *resume, "--no-advance", "--from-beginning", *ending],
        ["sed", 's/"x":/"twice":true,"x":/'],
        [*headwater, "produce", "b", "-", *resume],
    ]
    parts: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            stdin = parts[-1].stdout if parts else subprocess.DEVNULL
            last = command is commands[-1]
            parts.append(
                subprocess.Popen(
                    command,
                    stdin=stdin,
                    stdout=subprocess.DEVNULL if last else subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=directory,
                )
            )
            if len(parts) > 1:
                parts[-2].stdout.close()  # type: ignore[union-attr]  # only the next one has it
        yield parts
    finally:
        for part in parts:
            part.kill()
            part.wait()
            part.stderr.close()  # type: ignore[union-attr]


def test_killed_pipeline_copies_each_record_at_least_once(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each part is killed once by SIGKILL; the others end without a traceback. Records that the
    restart repeats are recognized by their id."""
    sent = 0

    def all_ended() -> bool:
        nonlocal sent
        send(log, range(sent, sent + 100))  # a part notices at the next record that another died
        sent += 100
        return all(part.poll() is not None for part in parts)

    def arrived(before: int) -> bool:
        for part in parts:
            assert part.poll() is None, part.stderr.read()  # type: ignore[union-attr]
        return len(values(log)) > before

    for killed in (PRODUCE, TAIL, FILTER):
        before = len(values(log))
        send(log, range(sent, sent + N))
        sent += N
        with pipeline(tmp_path, "--follow") as parts:
            until(partial(arrived, before))
            parts[killed].kill()
            until(all_ended)
            errors = [part.stderr.read() for part in parts]  # type: ignore[union-attr]

        assert b"Traceback" not in b"".join(errors)
        # A line that its writer could not finish is no record.
        assert parts[PRODUCE].returncode in (-9, 0, 2), errors
        assert parts[TAIL].returncode in (-9, 0), errors
    with pipeline(tmp_path, "--drain") as parts:
        codes = [part.wait(timeout=PATIENCE) for part in parts]

    found = values(log)
    ids = list(dict.fromkeys(str(value["id"]) for value in found))
    assert codes == [0, 0, 0]
    assert len(ids) == sent
    assert all(value["twice"] for value in found)
    for parity in (0, 1):  # the order of each partition
        numbers = [int(id_[1:]) for id_ in ids if int(id_[1:]) % 2 == parity]
        assert numbers == sorted(numbers)

    (tmp_path / "b.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "b.toml", "--drain"]) == 0
    capsys.readouterr()
    assert main(["replay", "b.toml", "--journal", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["learned"] == sent
    assert report["observations"] == len(found) > sent
