"""`headwater promote`, and what other commands say of challengers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from consumers.cli import main
from consumers.snapshots.exported import load_model
from consumers.transports import open_log
from tests.consumers.feeds import config_text, feed, fill, phishing

Said = pytest.CaptureFixture[str]
CHALLENGERS = """
[[challenger]]
name = "joint"
type = "GaussianBayes"
[[challenger]]
name = "bins"
type = "CategoricalNB"
"""


@pytest.fixture
def ran(tmp_path: Path, capsys: Said) -> str:
    """A service with challengers that drained 200 records; its configuration."""
    url = f"sqlite:{tmp_path / 'log.db'}"
    log = open_log(url)
    fill(log, phishing(200))
    log.close()
    path = tmp_path / "svc.toml"
    path.write_text(config_text(url, sorted(phishing(1)[0][0]), more=CHALLENGERS))
    assert main(["run", str(path), "--drain"]) == 0
    capsys.readouterr()
    return str(path)


def test_promote_shows_how_they_stand_and_asks_first(ran: str, capsys: Said) -> None:
    """Without a name, and without --yes, nothing is written."""
    assert main(["promote", ran]) == 0
    assert main(["promote", ran, "joint"]) == 0
    shown = capsys.readouterr().out
    assert main(["promote", ran, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)

    assert "svc (champion)" in shown
    assert "nothing was changed" in shown
    assert [m["name"] for m in told["models"]] == ["svc", "joint", "bins"]
    against = told["models"][1]["against"]
    assert against["compared"] == 150
    assert against["lower"] < against["difference"] < against["upper"]


def test_promoted_challenger_speaks_after_the_next_start(
    ran: str, tmp_path: Path, capsys: Said
) -> None:
    """It is journaled, and a snapshot saves the start the replay."""
    assert main(["promote", ran, "joint", "--yes", "--reason", "it is better"]) == 0
    shown = capsys.readouterr().out
    log = open_log(f"sqlite:{tmp_path / 'log.db'}")
    log.append([r for r in feed(phishing(230), 50) if int(r.key or b"0") >= 200])
    log.close()
    assert main(["run", ran, "--drain"]) == 0
    capsys.readouterr()
    assert main(["audit", ran, "220", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert main(["export", ran, str(tmp_path / "now.hw")]) == 0

    assert type(load_model(tmp_path / "now.hw")).__name__ == "GaussianBayes", "the champion"
    assert "joint is champion from here on" in shown
    assert ".hws" in shown
    assert told["same"]
    assert told["prediction"]["model"]["name"] == "joint"
    assert told["prediction"]["model"]["type"] == "GaussianBayes"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nobody"], "no challenger nobody: expected joint or bins"),
        (["svc"], "svc is the champion already; promote joint or bins"),
        (["GaussianNB"], "no challenger GaussianNB: expected joint or bins"),
        (["--yes"], "--yes needs the NAME"),
    ],
)
def test_what_cannot_be_promoted_is_one_line(
    ran: str, capsys: Said, arguments: list[str], words: str
) -> None:
    """And ends with 2."""
    assert main(["promote", ran, *arguments]) == 2

    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_check_builds_every_challenger(ran: str, capsys: Said) -> None:
    """A parameter that one does not have is found before the service runs."""
    assert main(["check", ran]) == 0
    fine = capsys.readouterr().out
    path = Path(ran)
    path.write_text(path.read_text() + '[[challenger]]\nname = "odd"\ntype = "GaussianNB"\nk = 3\n')
    assert main(["check", ran]) == 2

    assert "challenger: joint, GaussianBayes" in fine
    assert "[[challenger]] odd: GaussianNB: no parameter 'k'" in capsys.readouterr().out


def test_snapshots_with_challengers_are_shown_and_verified(ran: str, capsys: Said) -> None:
    """They are loaded whole, each model of them."""
    assert main(["snapshots", "verify", ran]) == 0
    assert main(["snapshots", "show", ran]) == 0

    assert "GaussianNB" in capsys.readouterr().out


def test_replay_of_a_file_compares_them_too(ran: str, tmp_path: Path, capsys: Said) -> None:
    """On the same records, in the tables and as JSON."""
    file = tmp_path / "pages.jsonl"
    rows = (json.dumps({"id": str(i), **x, "y": y}) for i, (x, y) in enumerate(phishing(120)))
    file.write_text("\n".join(rows))
    command = ["replay", ran, str(file), "--label", "y", "--delay", "20"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)

    assert "svc (champion)" in shown
    assert [m["name"] for m in told["challengers"]] == ["svc", "joint", "bins"]
    assert told["challengers"][2]["against"]["compared"] == 100
