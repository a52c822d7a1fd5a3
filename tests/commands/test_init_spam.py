"""`headwater init --spam`: a filter, before there are mails."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from consumers.cli import main
from consumers.config import load
from consumers.config.spam import FORMATS
from headwater.cli import COMMANDS
from tests.commands.ports import other_port

Said = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test writes into a directory of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("what", FORMATS)
def test_filter_of_each_format_passes_the_check_and_drains(what: str, capsys: Said) -> None:
    """The first two commands that it names work as they are; the third exists."""
    assert main(["init", "--spam", "filter", "--format", what]) == 0
    said = capsys.readouterr().out
    config = load(Path("filter/spam.toml"))
    lines = [line.split("#")[0] for line in said.splitlines() if line.startswith("  headwater")]
    other_port("filter/spam.toml")
    check, run, third = (shlex.split(line)[1:] for line in lines)

    assert main(check) == 0
    assert "note" not in capsys.readouterr().out.split("decision")[0]
    assert main([*run, "--drain"]) == 0
    assert third[0] in COMMANDS
    assert config.model.type == "SpamScorer"
    assert config.input.format == what
    assert config.decision.budget is not None
    assert (config.decision.budget.rate, config.decision.budget.min_learned) == (0.01, 20)
    assert f"before about {config.decision.budget.needed:,.0f} ham" in said


def test_name_and_budget_are_the_users(capsys: Said) -> None:
    """Everything is beside the configuration."""
    assert main(["init", "--spam", "--name", "post", "--budget", "0.001"]) == 0
    config = load(Path("post.toml"))

    assert config.name == "post"
    assert config.decision.budget is not None
    assert config.decision.budget.rate == 0.001
    assert "before about 3,217 ham" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--spam", "--format", "mbox"], "expected --format mail, text, json, got 'mbox'"),
        (["--spam", "--budget", "2"], "--budget: rate must be from 1e-06 and below 0.5, got 2"),
        (["--spam", "--name", "a b"], "expected --name of up to 100 letters"),
        (["--spam", "taken"], "taken/spam.toml exists; give --force"),
        (["--spam", "file/x"], "file/x: Not a directory; give another directory"),
        (["--budget", "0.01", "x.csv"], "--budget is for a spam filter; give --spam too"),
    ],
)
def test_wrong_filter_is_one_line(words: list[str], expected: str, capsys: Said) -> None:
    """And nothing is written."""
    Path("taken").mkdir()
    Path("taken/spam.toml").write_text("")
    Path("file").write_text("")

    assert main(["init", *words]) == 2
    assert expected in capsys.readouterr().err
    assert Path("taken/spam.toml").read_text() == ""
