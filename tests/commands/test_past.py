"""`headwater rebuild`, `audit` and `rollback`: what they say, and how they end."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from consumers.base.counts import counted
from consumers.cli import main
from consumers.config import load
from consumers.snapshots.store import open_store
from consumers.transports import open_log
from tests.consumers.feeds import config_text, feed, fill, phishing

Said = pytest.CaptureFixture[str]


@pytest.fixture
def ran(tmp_path: Path, capsys: Said) -> str:
    """A service that has drained 300 records on the embedded log; its configuration."""
    url = f"sqlite:{tmp_path / 'log.db'}"
    log = open_log(url)
    fill(log, phishing(300))
    log.close()
    path = tmp_path / "svc.toml"
    path.write_text(config_text(url, sorted(phishing(1)[0][0])))
    assert main(["run", str(path), "--drain"]) == 0
    capsys.readouterr()
    return str(path)


def test_rebuild_tells_how_good_it_was_then(ran: str, capsys: Said) -> None:
    """As a report, and as JSON."""
    assert main(["rebuild", ran, "--at", "4", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert main(["rebuild", ran, "--at", "4"]) == 0
    shown = capsys.readouterr().out

    assert told["moment"]["entry"] == 3
    assert told["source"]["entries"] == 3
    assert told["fingerprint"] in shown


def test_rebuild_from_a_snapshot_counts_all_that_the_model_rests_on(ran: str, capsys: Said) -> None:
    """Records, observations and labels are the model's; what was replayed for it stands beside."""
    assert main(["replay", ran, "--journal", "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    end = str(whole["source"]["position"])
    assert main(["rebuild", ran, "--at", end, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert main(["rebuild", ran, "--at", end]) == 0
    shown = capsys.readouterr().out

    assert (whole["records"], whole["replayed"]) == (600, 600)
    assert (told["records"], told["replayed"]) == (600, 0)
    counts = "600 records (300 observations, 300 labels)"
    assert f"{counts}; 0 of them replayed after a snapshot" in shown


def test_audit_makes_the_prediction_again(ran: str, capsys: Said) -> None:
    """The same to the last byte, and why."""
    assert main(["audit", ran, "200"]) == 0
    shown = capsys.readouterr().out
    assert main(["audit", ran, "obs:0:200", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)

    assert "the same, byte for byte" in shown
    assert told["prediction"]["id"] == "200"
    assert told["published"]["offset"] == 200
    assert told["same"]


def test_audit_of_a_prediction_before_the_first_label_says_so(ran: str, capsys: Said) -> None:
    """It said "predicted None (none)"."""
    assert main(["audit", ran, "0"]) == 0

    assert "\npredicted nothing: no label was learned yet\n" in capsys.readouterr().out


def test_rollback_asks_first_and_then_cuts(ran: str, capsys: Said) -> None:
    """Without --yes nothing happens; with it the model is that of then, after a restart too."""
    assert main(["rebuild", ran, "--at", "4", "--json"]) == 0
    then = json.loads(capsys.readouterr().out)["learned"]
    assert main(["rollback", ran, "--to", "4"]) == 0
    asked = capsys.readouterr().out
    assert main(["rollback", ran, "--to", "4", "--yes", "--reason", "wrong labels"]) == 0
    done = capsys.readouterr().out
    assert main(["run", ran, "--drain"]) == 0
    capsys.readouterr()
    assert main(["replay", ran, "--journal", "--json"]) == 0

    assert "nothing was changed; add --yes" in asked
    assert "settings" not in asked
    assert "the model is that of record 3" in done
    assert json.loads(capsys.readouterr().out)["learned"] == then


def test_rollback_beside_the_service_says_that_nothing_needs_doing(ran: str, capsys: Said) -> None:
    """The process it has just fenced holds the directory of the snapshots until it ends."""
    settings = load(Path(ran))
    part = next(iter(open_store(settings).parts()))
    with part.locked():
        assert main(["rollback", ran, "--to", "4", "--yes"]) == 0
    (line,) = (x for x in capsys.readouterr().out.splitlines() if x.startswith("snapshot"))

    assert "the fenced process holds the directory until it ends" in line
    assert "another [snapshots] directory" not in line
    assert main(["run", ran, "--drain"]) == 0


def test_replay_says_what_a_rollback_cut_out(ran: str, capsys: Said) -> None:
    """It is in the journal, and not among the records that are counted."""
    assert main(["replay", ran, "--journal"]) == 0
    before = capsys.readouterr().out
    end = json.loads(_printed(capsys, "replay", ran, "--journal", "--json"))["source"]["position"]
    assert main(["rollback", ran, "--to", str(end - 1), "--yes"]) == 0
    assert "removed     1 journal record with " in capsys.readouterr().out
    told = json.loads(_printed(capsys, "replay", ran, "--journal", "--json"))
    shown = _printed(capsys, "replay", ran, "--journal")
    rebuilt = _printed(capsys, "rebuild", ran, "--at", str(end + 1))

    cut = told["source"]["cut_out"]
    assert cut["entries"] == 1
    assert cut["records"] + told["records"] == 600
    line = f"without 1 entry of {counted(cut['records'], 'record')} removed by a rollback"
    assert line in shown
    assert line in rebuilt
    assert "cut out" not in before


def test_audit_of_an_id_that_was_sent_twice_names_the_other(ran: str, capsys: Said) -> None:
    """The first is shown; the other is audited by its place."""
    settings = load(Path(ran))
    with closing(open_log(settings.input.transport)) as log:
        again = [one for one in feed(phishing(300), 0) if one.topic == "obs" and one.key == b"200"]
        log.append(again)
    assert main(["run", ran, "--drain"]) == 0
    shown = _printed(capsys, "audit", ran, "200")
    once = _printed(capsys, "audit", ran, "199")
    told = json.loads(_printed(capsys, "audit", ran, "200", "--json"))
    other = _printed(capsys, "audit", ran, "obs:0:300")

    assert "others    1 more prediction has this id" in shown
    assert f"headwater audit {ran} obs:0:300" in shown
    assert told["others"] == ["obs:0:300"]
    assert "others" not in once
    assert "obs[0] offset 300" in other


def _printed(capsys: Said, *arguments: str) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["rebuild", "--at", "never"], "\"2024-03-01T12:00:00Z\", got 'never'"),
        (["audit", "nobody"], "no prediction of 'nobody'"),
        (["rollback", "--to", "2999-01-01", "--yes"], "nothing to remove"),
        (["rebuild", "--at", "0"], "journal svc-journal: it starts with record 0"),
        (["rebuild", "--at", "²"], "expected a journal position or a time"),
        (["rebuild", "--at", "4", "--shard", "1"], "--shard expects 0, the only shard"),
        (["replay", "--journal", "--shard", "1"], "--shard expects 0, the only shard"),
    ],
)
def test_wrong_use_is_one_line(ran: str, capsys: Said, arguments: list[str], says: str) -> None:
    """Exit code 2, and what to do."""
    command, *rest = arguments

    assert main([command, ran, *rest]) == 2
    error = capsys.readouterr().err.splitlines()
    assert says in error[-1]


PAST = [
    ["rebuild", "--at", "4"],
    ["audit", "200"],
    ["rollback", "--to", "4"],
    ["promote"],
    ["replay", "--journal"],
]


@pytest.mark.parametrize("command", PAST, ids=[each[0] for each in PAST])
@pytest.mark.parametrize("made", [False, True])
def test_a_service_that_never_ran_is_reported_as_such(
    tmp_path: Path, capsys: Said, command: list[str], made: bool
) -> None:
    """Whether its topics are there or not; topics alone would not help."""
    url = f"sqlite:{tmp_path / 'log.db'}"
    with closing(open_log(url)) as log:
        fill(log, phishing(3))
        for topic in ("svc-predictions", "svc-dead-letters", "svc-journal") if made else ():
            log.create_topic(topic, 1)
    path = tmp_path / "svc.toml"
    path.write_text(config_text(url, sorted(phishing(1)[0][0])))

    name, *rest = command
    assert main([name, str(path), *rest]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"the service svc has not run yet; start it with `headwater run {path}`" in line


def test_the_past_of_a_lost_journal_is_not_that_of_a_service_that_never_ran(
    ran: str, tmp_path: Path, capsys: Said
) -> None:
    """Its snapshots show that it has run."""
    for file in tmp_path.glob("log.db*"):
        file.unlink()
    with closing(open_log(f"sqlite:{tmp_path / 'log.db'}")) as log:
        fill(log, phishing(3))

    assert main(["audit", ran, "200"]) == 2
    assert "has run before (a snapshot at journal position" in capsys.readouterr().err


def test_what_is_of_another_shard_says_which(tmp_path: Path, capsys: Said) -> None:
    """`audit` names the shard of an id, and with it the commands are about that shard."""
    url = f"sqlite:{tmp_path / 'log.db'}"
    log = open_log(url)
    for topic in ("obs", "ans"):
        log.create_topic(topic, 2)
    observations = [one for one in feed(phishing(40), 0) if one.topic == "obs"]
    log.append([one._replace(partition=None) for one in observations])  # by its key
    log.close()
    path = tmp_path / "svc.toml"
    more = "[scale]\nshards = 2\n"
    path.write_text(config_text(url, sorted(phishing(1)[0][0]), more=more))
    assert main(["run", str(path), "--drain"]) == 0
    capsys.readouterr()

    assert main(["audit", str(path), "obs:1:3"]) == 2
    assert "belongs to shard 1, not to 0; give --shard 1" in capsys.readouterr().err
    assert main(["audit", str(path), "obs:1:3", "--shard", "1"]) == 0
    capsys.readouterr()
    told = []
    for shard in ("0", "1"):
        assert main(["replay", str(path), "--journal", "--shard", shard, "--json"]) == 0
        told.append(json.loads(capsys.readouterr().out)["observations"])
    assert sum(told) == 40
    assert min(told) > 0
