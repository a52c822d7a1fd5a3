"""`headwater import`: a new service begins with a model file, by the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import headwater
from consumers.base.records import Partition
from consumers.cli import main
from consumers.transports import open_log
from tests.consumers.feeds import config_text, feed, fill, phishing

Said = pytest.CaptureFixture[str]
FEATURES = sorted(phishing(1)[0][0])


@pytest.fixture
def model(tmp_path: Path, capsys: Said) -> Path:
    """A model of 200 records, and a service `new.toml` on the same log that has not run."""
    url = f"sqlite:{tmp_path / 'log.db'}"
    with closing(open_log(url)) as log:
        fill(log, phishing(200))
    text = config_text(url, FEATURES)
    (tmp_path / "svc.toml").write_text(text)
    (tmp_path / "new.toml").write_text(text.replace('name = "svc"', 'name = "new"'))
    assert main(["run", str(tmp_path / "svc.toml"), "--drain"]) == 0
    assert main(["export", str(tmp_path / "svc.toml"), str(tmp_path / "model.hw")]) == 0
    capsys.readouterr()
    return tmp_path / "model.hw"


def predicted(directory: Path) -> list[tuple[str, dict[str, float]]]:
    """Id and probabilities of each prediction of the new service."""
    start = {Partition("new-predictions", 0): 0}
    with closing(open_log(f"sqlite:{directory / 'log.db'}")) as log:
        chunks = log.read(start, log.end_offsets(list(start)))
        made = [json.loads(value) for chunk in chunks for value in chunk.values]
    return [(p["id"], {str(k): v for k, v in p["probabilities"]}) for p in made]


def test_imported_service_is_known_to_every_command(
    model: Path, tmp_path: Path, capsys: Said
) -> None:
    """Run, replay, rebuild, audit, rollback and export: each begins with the model, and says so."""
    new = str(tmp_path / "new.toml")
    assert main(["import", new, str(model)]) == 0
    shown = capsys.readouterr().out
    assert main(["run", new, "--drain"]) == 0
    log = capsys.readouterr().err
    assert main(["replay", new, "--journal", "--json"]) == 0
    replayed = json.loads(capsys.readouterr().out)
    assert main(["rebuild", new, "--at", "2"]) == 0
    first = capsys.readouterr().out
    assert main(["audit", new, "0", "--json"]) == 0
    audited = json.loads(capsys.readouterr().out)
    assert main(["rollback", new, "--to", "2", "--yes"]) == 0
    assert main(["export", new, str(tmp_path / "again.hw")]) == 0
    again, own = headwater.load(tmp_path / "again.hw"), headwater.load(model)

    assert "svc (GaussianNB) of svc at journal position" in shown
    assert "200 labels learned" in shown
    assert "began with the model svc of the service svc" in log
    assert ", with 200 labels learned (sha256" in log
    assert "0 labels learned after the 200 before the import" in log
    assert replayed["imported"].startswith("svc of the service svc at journal position")
    assert (replayed["records"], replayed["learned"]) == (400, 200)
    assert "it began with the model svc" in first
    assert audited["same"]
    assert again.fingerprint() == own.fingerprint(), "the rollback leaves the imported model"
    p = dict(predicted(tmp_path)[:1])["0"]
    assert p == {str(k): v for k, v in own.predict_proba_one(phishing(1)[0][0]).items()}


def test_killed_import_is_repeated(model: Path, tmp_path: Path, capsys: Said) -> None:
    """A start refuses to begin empty."""
    new = str(tmp_path / "new.toml")
    killed = subprocess.run(
        [sys.executable, "-m", "consumers", "import", new, str(model)],
        env={**os.environ, "HEADWATER_FAILPOINT": "import_parts:kill"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == -9, killed.stderr
    assert main(["run", new, "--drain"]) == 2
    assert "run headwater import or headwater backfill again" in capsys.readouterr().err
    assert main(["import", new, str(model), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert main(["run", new, "--drain"]) == 0

    assert document["already"] == 0
    assert len(predicted(tmp_path)) == 200


def test_each_shard_begins_with_the_model(model: Path, tmp_path: Path, capsys: Said) -> None:
    """And learns its own records."""
    url = f"sqlite:{tmp_path / 'shards.db'}"
    with closing(open_log(url)) as log:
        for topic in ("obs", "ans"):
            log.create_topic(topic, 2)
        log.append([r._replace(partition=None) for r in feed(phishing(60), 5)])
    path = tmp_path / "shards.toml"
    text = config_text(url, FEATURES, more="[scale]\nshards = 2\n")
    path.write_text(text.replace('name = "svc"', 'name = "two"'))
    assert main(["import", str(path), str(model), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert main(["run", str(path), "--drain"]) == 0
    capsys.readouterr()
    for shard in ("0", "1"):
        assert main(["replay", str(path), "--journal", "--shard", shard, "--json"]) == 0

    reports = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (document["shards"], document["already"]) == (2, 0)
    assert sum(report["learned"] for report in reports) == 60
    assert min(report["learned"] for report in reports) > 10
    assert all(report["imported"] for report in reports)


def test_wrong_use_is_one_line(model: Path, tmp_path: Path, capsys: Said) -> None:
    """It names the file and what to do, and nothing is written."""
    new, old = str(tmp_path / "new.toml"), str(tmp_path / "svc.toml")
    text = (tmp_path / "new.toml").read_text()
    (tmp_path / "other.toml").write_text(text.replace("GaussianNB", "MixedNB"))
    (tmp_path / "private.toml").write_text(text.replace(f"sqlite:{tmp_path}/log.db", "memory:x"))
    (tmp_path / "absent.toml").write_text(text.replace("log.db", "absent.db"))
    (tmp_path / "damaged.hw").write_bytes(model.read_bytes()[:-9])
    for arguments, code, words in (
        ([new, str(tmp_path / "no.hw")], 2, "no.hw: there is no such file"),
        ([new, str(tmp_path)], 2, "there is no such file"),
        ([new, str(tmp_path / "damaged.hw")], 1, "damaged.hw: damaged, or not a model file"),
        ([old, str(model)], 2, "svc began with an empty model, and an import starts a new service"),
        ([str(tmp_path / "other.toml"), str(model)], 2, "model.hw: [model] is not the model of"),
        ([str(tmp_path / "private.toml"), str(model)], 2, "a log that outlives this command"),
        ([str(tmp_path / "absent.toml"), str(model)], 2, "no topic obs, ans"),
    ):
        assert main(["import", *arguments]) == code, arguments
        error = capsys.readouterr().err
        assert words in error, error
        assert error.count("\n") == 1, error
    assert not (tmp_path / "absent.db").exists()
