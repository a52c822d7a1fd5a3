"""A service of raw mail: run, and another version of the parser."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from consumers.base.records import Outgoing, Partition, Record
from consumers.cli import main
from consumers.config import parse
from consumers.files.format import Options
from consumers.files.source import read_records
from consumers.mail import fields as installed
from consumers.mail.document import mail_document
from consumers.shard.assembly import shard_of
from consumers.shard.shard import Shard
from consumers.transports import open_log
from tests.consumers.feeds import batch
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
            "importlib.metadata.version",
            lambda name: number if name == "selectolax" else version(name),
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


@pytest.fixture
def maildir(tmp_path: Path) -> Path:
    """40 mails in two folders, and files that are no mails."""
    home = tmp_path / "Maildir"
    for n, value in enumerate(mails(40, seed=4)):
        spam = n % 3 == 0
        folder = home / ".Junk" / "cur" if spam else home / "new"
        folder.mkdir(parents=True, exist_ok=True)
        subject = b"Subject: cheap pills\r\n" if spam else b"Subject: minutes\r\n"
        (folder / f"{n}.host:2,S").write_bytes(subject + value.replace(b"Subject:", b"X-S:", 1))
    (home / "dovecot.index").write_bytes(b"no mail")
    (home / "tmp").mkdir()
    (home / "tmp" / "1.host").write_bytes(b"Subject: not delivered\n\n")
    return home


def test_replay_of_a_maildir_parses_as_the_service_does(
    maildir: Path, tmp_path: Path, capsys: Said
) -> None:
    """The folder is the label."""
    path = tmp_path / "mail.toml"
    path.write_text(CONFIG.format(directory=tmp_path))
    documents = [
        {"folder": record["folder"], "id": record["id"]}
        | mail_document(base64.b64decode(str(record["mail"])))
        for record in read_records(maildir, options=Options(format="maildir"))
    ]
    (tmp_path / "same.jsonl").write_text("\n".join(map(json.dumps, documents)))
    asked = ["--label", "folder", "--json"]
    assert main(["replay", str(path), str(maildir), "--format", "maildir", *asked]) == 0
    told = json.loads(capsys.readouterr().out)
    assert main(["replay", str(path), str(tmp_path / "same.jsonl"), *asked]) == 0
    same = json.loads(capsys.readouterr().out)

    assert told["observations"] == told["scores"]["all"]["scored"] + 1 == 40
    assert told["fingerprint"] == same["fingerprint"]


def test_produce_writes_the_raw_mails(maildir: Path, tmp_path: Path, capsys: Said) -> None:
    """Under their ids, and the folders as labels. The service learns them."""
    path = tmp_path / "mail.toml"
    path.write_text(CONFIG.format(directory=tmp_path))
    given = ["--format", "maildir", "--config", str(path)]
    labels = ["--label", "folder", "--label-topic", "verdicts"]
    assert main(["produce", "mails", str(maildir), *given, *labels]) == 0
    log = open_log(f"sqlite:{tmp_path / 'log.db'}")
    parts = [Partition("mails", 0), Partition("verdicts", 0)]
    ends = log.end_offsets(parts)
    found = {f.partition.topic: f for f in log.read(dict.fromkeys(parts, 0), ends)}
    log.close()
    assert main(["run", str(path), "--drain"]) == 0
    capsys.readouterr()

    stored = [p.read_bytes() for p in maildir.rglob("*host*") if p.parent.name != "tmp"]
    assert sorted(v or b"" for v in found["mails"].values) == sorted(stored)
    assert {json.loads(v or b"")["label"] for v in found["verdicts"].values} == {"Junk", "Maildir"}
    assert [each["id"] for each in predictions(tmp_path / "mail.toml")] == [
        (key or b"").decode() for key in found["mails"].keys
    ]


def test_faults_of_mails_are_counted_and_survive_a_restart() -> None:
    """By fault, from the first mail on, whatever the batches are."""
    config = parse(CONFIG.format(directory="/tmp"))
    schema = config.declared_schema
    assert schema is not None
    values = [b"", b"\n\na\0", b"\n\nb\0", b"Content-Type: multipart/mixed\n\nx"]
    records = [Record("mails", 0, n, 1000 + n, b"%d" % n, value) for n, value in enumerate(values)]

    def empty() -> Shard:
        return shard_of(config, schema)

    machine = empty()
    before = dict(machine.view().mail_faults)
    machine.process(batch(records[:2]), now=2000)
    restored = empty()
    restored.load_state(machine.to_state())
    restored.process(batch(records[2:]), now=2000)

    assert set(before.values()) == {0}
    assert {k: n for k, n in restored.view().mail_faults.items() if n} == {"malformed": 1, "nul": 2}
