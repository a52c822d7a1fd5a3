"""`headwater init --spam`: a filter, before there are mails."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from consumers.base.extras import install
from consumers.cli import main
from consumers.codecs import registry
from consumers.config import load
from consumers.config.propose import FORMATS
from consumers.mail.fields import MODULES
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
    assert config.model.max_classes == 2  # a third label is a mistake
    lines = [line.split("#")[0] for line in said.splitlines() if line.startswith("  headwater")]
    other_port("filter/spam.toml")
    check, run, third = (shlex.split(line)[1:] for line in lines)

    assert main(check) == 0
    checked = capsys.readouterr().out
    assert "registry" not in checked
    assert "note" not in checked.split("decision")[0]
    assert main([*run, "--drain"]) == 0
    assert third[0] in COMMANDS
    assert config.model.type == "SpamScorer"
    assert config.input.format == what
    assert config.decision.budget is not None
    assert (config.decision.budget.rate, config.decision.budget.min_learned) == (0.01, 5)
    assert f"before {config.decision.budget.needed:,} ham" in said


def test_name_and_budget_are_the_users(capsys: Said) -> None:
    """Everything is beside the configuration."""
    assert main(["init", "--spam", "--name", "post", "--budget", "0.001"]) == 0
    config = load(Path("post.toml"))

    assert config.name == "post"
    assert config.decision.budget is not None
    assert config.decision.budget.rate == 0.001
    assert "before 2,995 ham" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--spam", "--format", "mbox"], "expected --format mail, text, json, got 'mbox'"),
        (["--spam", "--budget", "2"], "--budget: rate must be from 1e-06 and below 0.5, got 2"),
        (["--spam", "--name", "a b"], "expected --name of up to 100 letters"),
        (["--spam", "taken"], "taken/spam.toml exists; give --force"),
        (["--spam", "Maildir"], "Maildir: this is a Maildir; give another directory"),
        (["--spam", "file/x"], "file/x: Not a directory; give another directory"),
        (["--budget", "0.01", "x.csv"], "--budget is for a spam filter; give --spam too"),
    ],
)
def test_wrong_filter_is_one_line(words: list[str], expected: str, capsys: Said) -> None:
    """And nothing is written."""
    Path("taken").mkdir()
    Path("taken/spam.toml").write_text("")
    for folder in ("cur", "new"):
        Path("Maildir", folder).mkdir(parents=True)
    Path("file").write_text("")

    assert main(["init", *words]) == 2
    assert expected in capsys.readouterr().err
    assert Path("taken/spam.toml").read_text() == ""


@pytest.mark.parametrize(
    ("there", "missing"),
    [
        ((), f"{', '.join(MODULES[:-1])} and {MODULES[-1]}, which are not installed"),
        (MODULES[1:-1], "selectolax and publicsuffixlist, which are not installed"),
        (MODULES[1:], "selectolax, which is not installed"),
    ],
)
def test_filter_without_its_extra_makes_no_directory(
    there: tuple[str, ...], missing: str, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one line names no file, because none was written."""
    monkeypatch.setattr(registry, "_is_there", lambda name: name in there)

    assert main(["init", "--spam", "filter"]) == 2
    run = f"run `{install('mail')}`"
    said = f"headwater: --spam: a filter of mail needs {missing}; {run}\n"
    assert capsys.readouterr().err == said
    assert not Path("filter").exists()
    assert main(["init", "--spam", "filter", "--format", "text"]) == 0


def test_look_at_mails_without_their_extra_says_what_installs_it(
    capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a traceback."""
    Path("mail/new").mkdir(parents=True)
    Path("mail/cur").mkdir()
    Path("mail/new/1").write_text("Subject: a\n\nb\n")
    monkeypatch.setattr(registry, "_is_there", lambda name: name != "selectolax")

    assert main(["init", "mail", "--format", "maildir"]) == 2
    said = "has mails; they need selectolax, which is not installed; run `"
    assert said in capsys.readouterr().err


def test_folders_of_mail_propose_the_scorer_of_messages(capsys: Said) -> None:
    """A Maildir is read as the service reads it, and its folder is the label."""
    for n in range(300):
        spam = n % 2
        path = Path("mail", ("in", "junk")[spam], "cur", str(n))
        path.parent.mkdir(parents=True, exist_ok=True)
        words = ("minutes of the meeting", "cheap pills and prizes")[spam]
        path.write_text(f"Message-ID: <{n}@example.org>\nSubject: {words}\n\n{words} {n}\n")

    assert main(["init", "mail", "--format", "maildir", "--label", "folder", "--name", "m"]) == 0
    said = capsys.readouterr().out
    other_port("m.toml")
    config = load(Path("m.toml"))

    assert "model spam: mail: words, pairs and byte 4-grams of each field" in said
    assert config.input.format == "mail"
    assert config.model.type == "SpamScorer"
    assert "\n[features]" not in Path("m.toml").read_text()
    assert main(["check", "m.toml", "--create"]) == 0
    labels = ["--label", "folder", "--label-topic", "m-labels", "--delay", "5"]
    produce = ["produce", "m", "mail", "--format", "maildir", "--config", "m.toml", *labels]
    assert main(produce) == 0
    assert main(["run", "m.toml", "--drain"]) == 0
    assert "300 observations, 300 learned" in capsys.readouterr().err


def test_text_of_a_table_is_compared_with_the_scorer_of_messages(capsys: Said) -> None:
    """Beside the models of other fields."""
    rows = [f"{('ham', 'spam')[n % 2]},see the word{n % 7} in row {n} of it\n" for n in range(300)]
    Path("sms.csv").write_text("label,text\n" + "".join(rows))

    assert main(["init", "sms.csv", "--label", "label"]) == 0
    table = capsys.readouterr().out.partition("  model ")[2]
    assert "\n  spam " in table
    assert "\n  auto " in table
