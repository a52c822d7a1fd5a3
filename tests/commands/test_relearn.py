"""`headwater relearn`: both models are shown, then one record changes the model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from consumers.base.records import Partition
from consumers.cli import main
from consumers.snapshots.exported import load_model
from consumers.transports import open_log
from tests.consumers.feeds import MODEL, config_text, feed, fill, phishing

PREDICTIONS = [Partition("svc-predictions", 0)]
Said = pytest.CaptureFixture[str]
NEW = 'type = "MixedNB"\nhalf_life = 80'
FIELDS = sorted(phishing(1)[0][0])


def written(path: Path, model: str = MODEL) -> str:
    """The configuration with this model; its path."""
    url = f"sqlite:{path.parent / 'log.db'}"
    path.write_text(config_text(url, FIELDS, model=model, every_records=100))
    return str(path)


def more(path: Path, first: int, end: int) -> None:
    """Append records to the inputs."""
    log = open_log(f"sqlite:{path.parent / 'log.db'}")
    log.append([r for r in feed(phishing(end), 50) if int(r.key or b"0") >= first])
    log.close()


@pytest.fixture
def ran(tmp_path: Path, capsys: Said) -> Path:
    """A service that drained 200 records; its configuration."""
    path = tmp_path / "svc.toml"
    log = open_log(f"sqlite:{tmp_path / 'log.db'}")
    fill(log, phishing(200))
    log.close()
    assert main(["run", written(path), "--drain"]) == 0
    capsys.readouterr()
    return path


def rebuilt(path: Path, capsys: Said) -> dict:
    """What `rebuild` gives at the end of the journal."""
    capsys.readouterr()
    assert main(["rebuild", str(path), "--at", "2100-01-01T00:00:00Z", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_relearn_shows_both_models_and_asks_first(ran: Path, capsys: Said) -> None:
    """On the same records, beside guessing; without --yes nothing is written."""
    old = rebuilt(ran, capsys)
    config = written(ran, NEW)
    assert main(["relearn", config]) == 0
    shown = capsys.readouterr().out
    assert main(["relearn", config, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)

    assert 'model.type: was "GaussianNB", now "MixedNB"' in shown
    assert "old GaussianNB" in shown
    assert "new MixedNB" in shown
    assert "majority" in shown
    assert "nothing was changed" in shown
    (shard,) = told["shards"]
    assert [m["name"] for m in shard["models"]] == ["old", "new"]
    assert [m["scored"] for m in shard["models"]] == [150, 150]
    assert shard["models"][0]["accuracy"] == old["scores"]["all"]["accuracy"]
    written(ran)
    assert rebuilt(ran, capsys)["fingerprint"] == old["fingerprint"]


def test_service_continues_with_the_new_model(ran: Path, tmp_path: Path, capsys: Said) -> None:
    """From a snapshot. Later commands know both: audit, rebuild, snapshots, rollback."""
    config = written(ran, NEW)
    assert main(["relearn", config, "--yes", "--reason", "drift"]) == 0
    shown = capsys.readouterr().out
    more(ran, 200, 230)
    assert main(["run", config, "--drain"]) == 0
    log = capsys.readouterr().err
    kinds = {}
    for id_ in ("100", "220"):
        assert main(["audit", config, id_, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["same"]
        kinds[id_] = told["prediction"]["model"]["type"]
    assert main(["export", config, "--at", "3", str(tmp_path / "then.hw")]) == 0
    assert main(["snapshots", "verify", config]) == 0
    verified = capsys.readouterr().out
    assert main(["rollback", config, "--to", "4", "--yes"]) == 0
    rolled_back = capsys.readouterr().out
    assert main(["run", config, "--drain"]) == 2
    refused = capsys.readouterr().err
    assert main(["run", written(ran), "--drain"]) == 0

    assert "the model has the new settings" in shown
    assert ".hws" in shown
    assert "WARN" not in log
    assert kinds == {"100": "GaussianNB", "220": "MixedNB"}
    assert type(load_model(tmp_path / "then.hw")).__name__ == "GaussianNB"
    assert "other settings" in verified
    assert "headwater relearn CONFIG" in refused
    (line,) = (x for x in rolled_back.splitlines() if x.startswith("settings"))
    assert "change the configuration back" in line
    assert 'model.type: was "GaussianNB", now "MixedNB"' in line


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (MODEL, "nothing to re-learn"),
        ('type = "MixedNB"\nhalf_lif = 80', "did you mean 'half_life'"),
        (NEW + "\n[labels]\nsilence = 'ham'\ncorrections = true", "labels.silence"),
    ],
)
def test_what_cannot_be_learned_again_is_one_line(
    ran: Path, capsys: Said, model: str, words: str
) -> None:
    """And ends with 2."""
    assert main(["relearn", written(ran, model), "--yes"]) == 2

    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_service_that_never_ran_has_nothing_to_learn_again(tmp_path: Path, capsys: Said) -> None:
    """One line, which says how to start it."""
    log = open_log(f"sqlite:{tmp_path / 'log.db'}")
    fill(log, phishing(20))
    log.close()
    assert main(["relearn", written(tmp_path / "svc.toml")]) == 2

    assert "has not run yet" in capsys.readouterr().err


BEFORE = ("relearn_fenced",)
AFTER = (
    "relearn_journaled",
    "snap_mid_write",
    "snap_pre_fsync",
    "snap_pre_rename",
    "snap_post_rename",
)


@pytest.mark.parametrize("point", [*BEFORE, *AFTER])
def test_kill_before_the_record_leaves_the_old_model_and_after_it_the_new_one(
    ran: Path, capsys: Said, point: str
) -> None:
    """Each time the service continues, once with each record, with the bits of a run without it."""
    config = written(ran, NEW)
    killed = subprocess.run(
        [sys.executable, "-m", "consumers", "relearn", config, "--yes"],
        env={**os.environ, "HEADWATER_FAILPOINT": f"{point}:kill"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == -9, killed.stderr
    assert f"failpoint {point}" in killed.stderr
    other = written(ran) if point in AFTER else config
    assert main(["run", other, "--drain"]) == 2
    config = written(ran, NEW if point in AFTER else MODEL)
    here = rebuilt(ran, capsys)["fingerprint"]
    more(ran, 200, 260)
    assert main(["run", config, "--drain"]) == 0
    model = rebuilt(ran, capsys)
    if point in BEFORE:
        config = written(ran, NEW)
        assert main(["relearn", config, "--yes"]) == 0
    there = rebuilt(ran, capsys)

    fresh = ran.parent / "fresh" / "svc.toml"
    fresh.parent.mkdir()
    log = open_log(f"sqlite:{fresh.parent / 'log.db'}")
    fill(log, phishing(200))
    log.close()
    assert main(["run", written(fresh, NEW), "--drain"]) == 0
    if point in AFTER:
        assert rebuilt(fresh, capsys)["fingerprint"] == here
    more(fresh, 200, 260)
    assert main(["run", str(fresh), "--drain"]) == 0
    assert rebuilt(fresh, capsys)["fingerprint"] == there["fingerprint"]
    assert model["model"] == ("MixedNB" if point in AFTER else "GaussianNB")
    log = open_log(f"sqlite:{ran.parent / 'log.db'}")
    assert log.end_offsets(PREDICTIONS)[PREDICTIONS[0]] == 260, "each once"
    log.close()


def test_every_shard_is_changed_also_after_a_kill_between_two(tmp_path: Path, capsys: Said) -> None:
    """The message of a start says what to do, and the same command does the rest."""
    path, url = tmp_path / "svc.toml", f"sqlite:{tmp_path / 'log.db'}"
    log = open_log(url)
    for topic in ("obs", "ans", "svc-predictions", "svc-dead-letters", "svc-journal"):
        log.create_topic(topic, 2)
    log.append([r._replace(partition=None) for r in feed(phishing(200), 50)])  # by its key
    log.close()
    assert main(["run", written(path, f"{MODEL}\n[scale]\nshards = 2"), "--drain"]) == 0
    config = written(path, f"{NEW}\n[scale]\nshards = 2")
    assert main(["relearn", config]) == 0
    compared = capsys.readouterr().out
    killed = subprocess.run(
        [sys.executable, "-m", "consumers", "relearn", config, "--yes"],
        env={**os.environ, "HEADWATER_FAILPOINT": "relearn_journaled:kill"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == -9, killed.stderr
    assert main(["run", config, "--drain"]) == 2
    refused = capsys.readouterr().err
    assert main(["relearn", config, "--yes"]) == 0
    rest = capsys.readouterr().out
    assert main(["relearn", config, "--yes"]) == 2
    nothing = capsys.readouterr().err
    assert main(["run", config, "--drain"]) == 0
    capsys.readouterr()

    assert "shard 0 old GaussianNB" in compared
    assert "shard 1 new MixedNB" in compared
    assert "svc-journal[1] belongs to another configuration" in refused
    assert "if relearn was interrupted, only some shards changed: run it again" in refused
    assert "unchanged   shards 0 have these settings already" in rest
    assert "of shard 1: the model has the new settings" in rest
    assert rest.count("snapshot ") == 1
    assert "nothing to re-learn" in nothing
    assert main(["rollback", config, "--shard", "1", "--to", "2"]) == 0
    assert "roll back the other shards too, then change the config" in capsys.readouterr().out
    for shard in ("0", "1"):
        at = ["--at", "2100-01-01T00:00:00Z", "--shard", shard, "--json"]
        assert main(["rebuild", config, *at]) == 0
        assert json.loads(capsys.readouterr().out)["model"] == "MixedNB"
