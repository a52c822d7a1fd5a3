"""Each command as it is installed: started in a process of its own, which does its work and ends.

Everywhere else a command that ends by itself is called in the process of the tests
(`tests/calling.py`), because a start takes longer than what most commands do.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from consumers.transports import open_log
from headwater.cli import COMMANDS
from tests.acceptance.conftest import Shell
from tests.consumers.feeds import config_text, fill, phishing

COUNT = 60
FEATURES = sorted(phishing(1)[0][0])
LOG = ["--transport", "sqlite:log.db"]
FILE = ["few.csv", "--label", "y"]

# Command -> its arguments, and words of what it says.
STARTED = {
    "demo": (["--from", *FILE, "--port", "0"], "60 labels learned within"),
    "sample": (["payments"], "payments.csv"),
    "init": ([*FILE, "--output", "few.toml"], "wrote few.toml; next:"),
    "check": (["svc.toml"], "ok       journal: of this service"),
    "doctor": (["svc.toml", "--no-kernels"], "ok       write: the log accepts a transaction"),
    "run": (["svc.toml", "--drain"], "60 learned"),
    "replay": (["svc.toml", "--journal", "--json"], '"labels": {"joined": 60}'),
    "rebuild": (["svc.toml", "--at", "2"], "the model at journal position 2"),
    "export": (["svc.toml", "again.hw"], "learned     60 labels"),
    "import": (["new.toml", "model.hw"], "then record 0"),
    "backfill": (["history.toml", *FILE, "--workers", "1"], "learned     60 labels"),
    "audit": (["svc.toml", "59"], "the same, byte for byte"),
    "promote": (["svc.toml"], "svc (champion)"),
    "rollback": (["svc.toml", "--to", "2"], "nothing was changed; add --yes"),
    "snapshots": (["list", "svc.toml"], " ok "),
    "compact": (["svc.toml"], "log.db"),
    "produce": (["more", "few.csv", *LOG], "60 observations to more"),
    "tail": (["svc-predictions", *LOG, "--from-beginning", "--drain"], '"prediction"'),
}
# Command -> its arguments, its exit code, and the line that refuses to do what cannot be done here.
REFUSED = {
    "tokens": (["svc.toml"], 2, "tokens reads the features of [model] type"),
    "relearn": (["svc.toml"], 2, "the model of svc already has these settings"),
    "reshard": (["svc.toml", "--shards", "2"], 2, "is more than the 1 partitions of obs"),
    "classify": ([], 3, "expected a mail on stdin, got nothing"),
    "learn": ([], 2, "expected --spam PLACE or --ham PLACE, got none"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A service that has learned, a file, a model file, and configurations of two new services."""
    shell = Shell(tmp_path_factory.mktemp("installed"))
    text = config_text("sqlite:log.db", FEATURES)
    for name in ("svc", "new", "history"):
        shell.write(f"{name}.toml", text.replace('name = "svc"', f'name = "{name}"'))
    lines = [",".join([*FEATURES, "y"])]
    for x, y in phishing(COUNT):
        lines.append(",".join([*(str(x[name]) for name in FEATURES), "yes" if y else "no"]))
    shell.write("few.csv", "\n".join([*lines, ""]))
    with closing(open_log(f"sqlite:{shell.directory / 'log.db'}")) as log:
        fill(log, phishing(COUNT))
    shell("run", "svc.toml", "--drain")
    shell("export", "svc.toml", "model.hw")
    return shell


def test_each_command_is_started_here() -> None:
    """A command that is added to the program is added to the tables."""
    assert sorted([*STARTED, *REFUSED]) == sorted(COMMANDS)


@pytest.mark.parametrize("name", STARTED)
def test_installed_command_does_its_work_and_ends(place: Shell, name: str) -> None:
    """With 0, and its output is complete."""
    arguments, words = STARTED[name]

    done = place.start(name, *arguments)

    assert words in done.stdout + done.stderr


@pytest.mark.parametrize("name", REFUSED)
def test_installed_command_that_refuses_ends_with_its_code(place: Shell, name: str) -> None:
    """In one line."""
    arguments, code, words = REFUSED[name]

    done = place.start(name, *arguments, code=code)

    assert words in done.stderr
    assert done.stderr.count("\n") == 1
