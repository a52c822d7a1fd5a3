"""A service of raw mail: run, and another version of the parser."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from consumers.base.records import Outgoing, Partition
from consumers.cli import main
from consumers.mail import versions as installed
from consumers.transports import open_log
from tests.consumers.mail.made import mails

Said = pytest.CaptureFixture[str]
CONFIG = """
name = "mail"
[input]
transport = "sqlite:{directory}/log.db"
observations = "mails"
labels = "verdicts"
format = "mail"
[model]
type = "MultinomialNB"
[http]
port = 0
[commit]
max_records = 20
[snapshots]
directory = "{directory}/state"
every_records = 20
"""


def fill(path: Path, first: int, end: int) -> None:
    """Mails first to end, and their labels."""
    log = open_log(f"sqlite:{path.parent / 'log.db'}")
    if "mails" not in log.topics():
        for topic in ("mails", "verdicts"):
            log.create_topic(topic, 1)
    records = []
    for n, value in list(enumerate(mails(end, seed=9)))[first:]:
        spam = b"free" in value
        subject = b"Subject: cheap pills\r\n" if spam else b"Subject: minutes\r\n"
        value = value.replace(b"Subject:", subject + b"X-Subject:", 1)
        label = json.dumps({"id": str(n), "label": "spam" if spam else "ham"}).encode()
        records.append(Outgoing("mails", b"%d" % n, value, 1000 + n))
        records.append(Outgoing("verdicts", b"%d" % n, label, 1000 + n))
    log.append(records)
    log.close()


@pytest.fixture
def ran(tmp_path: Path, capsys: Said) -> Path:
    """A service that drained 60 mails; its configuration."""
    path = tmp_path / "mail.toml"
    path.write_text(CONFIG.format(directory=tmp_path))
    fill(path, 0, 60)
    assert main(["run", str(path), "--drain"]) == 0
    capsys.readouterr()
    return path


@pytest.fixture
def upgraded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Installs another version of the HTML parser."""

    def install(number: str) -> None:
        monkeypatch.setattr(
            installed, "version", lambda name: number if name == "selectolax" else version(name)
        )
        installed.versions.cache_clear()

    yield install
    monkeypatch.undo()
    installed.versions.cache_clear()


def predictions(path: Path) -> list[dict]:
    """The published predictions."""
    log = open_log(f"sqlite:{path.parent / 'log.db'}")
    part = Partition("mail-predictions", 0)
    ends = log.end_offsets([part])
    values = [v for f in log.read({part: 0}, ends) for v in f.values]
    log.close()
    return [json.loads(value or b"") for value in values]


def test_service_predicts_and_learns_raw_mails(ran: Path, capsys: Said) -> None:
    """Without a section [features]. Labels and predictions are JSON."""
    made = predictions(ran)
    assert main(["replay", str(ran), "--journal", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]["all"]
    assert main(["audit", str(ran), "59", "--json"]) == 0
    audited = json.loads(capsys.readouterr().out)

    assert [each["id"] for each in made] == [str(n) for n in range(60)]
    assert scores["accuracy"] > 0.7
    assert audited["same"]


def test_another_parser_is_refused_and_can_be_relearned(
    ran: Path, upgraded: Callable[[str], None], capsys: Said
) -> None:
    """Other words would be another model. What was predicted before is not repeated by it."""
    config = str(ran)
    upgraded("9.9")
    assert main(["run", config, "--drain"]) == 2
    refused = capsys.readouterr().err
    assert main(["relearn", config, "--yes"]) == 0
    relearned = capsys.readouterr().out
    fill(ran, 60, 80)
    assert main(["run", config, "--drain"]) == 0
    capsys.readouterr()
    assert main(["audit", config, "79", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["same"]
    assert main(["audit", config, "5"]) == 2
    audited = capsys.readouterr().err

    assert f'input.parser.selectolax: was "{version("selectolax")}", now "9.9"' in refused
    assert "headwater relearn CONFIG" in refused
    assert "input.parser.selectolax" in relearned
    assert [each["id"] for each in predictions(ran)] == [str(n) for n in range(80)]
    assert f"install selectolax=={version('selectolax')}" in audited


def test_relearn_with_another_parser_needs_the_newest_snapshot(
    ran: Path, upgraded: Callable[[str], None], capsys: Said
) -> None:
    """Without it the records are parsed again for the old model, which this parser cannot do."""
    for snapshot in (ran.parent / "state").rglob("*.hws"):
        snapshot.unlink()
    upgraded("9.9")

    assert main(["relearn", str(ran), "--yes"]) == 2
    assert f"install selectolax=={version('selectolax')}" in capsys.readouterr().err
