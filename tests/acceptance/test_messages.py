"""What is said where something is wrong: one line, what to do, the exit code, no traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.acceptance.conftest import Shell

CONFIG = """
name = "pages"
[input]
transport = "sqlite:pages.db"
observations = "pages"
labels = "answers"
[features]
x = "numeric"
[model]
type = "GaussianNB"
[http]
port = 0
"""
URL = ["--transport", "sqlite:pages.db"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A configuration, a log with a topic, and what is no log."""
    shell = Shell(tmp_path_factory.mktemp("messages"))
    shell.write("pages.toml", CONFIG)
    shell.write("nowhere.toml", CONFIG.replace("sqlite:pages.db", "sqlite:no/pages.db"))
    shell.write("foreign.toml", CONFIG.replace("sqlite:pages.db", "sqlite:foreign.db"))
    shell.write("elsewhere.toml", CONFIG.replace('observations = "pages"', 'observations = "page"'))
    shell.write("foreign.db", "no database at all")
    shell.write("pages.jsonl", '{"id": 1, "x": 1.5, "y": "a"}\n{"id": 2, "x": 2, "y": "b"}\n')
    shell("produce", "pages", "pages.jsonl", *URL)
    return shell


# One for each way to fail; the lines themselves are tested in the rooms that write them.
WRONG_USE = [
    (["run", "nope.toml"], ["no config file nope.toml", "headwater init FILE"]),
    (["run", "elsewhere.toml"], ["no topic page, answers on", "--create"]),
    (["init", "nope.csv"], ["no file nope.csv", "--transport"]),
    (["produce", "t", "pages.jsonl"], ["--transport URL or --config CONFIG, got neither"]),
]


@pytest.mark.parametrize(
    ("arguments", "expected"), WRONG_USE, ids=[" ".join(case[0]) for case in WRONG_USE]
)
def test_wrong_use_is_one_line_and_exit_2(
    place: Shell, arguments: list[str], expected: list[str]
) -> None:
    """What was expected, what came, what to do; and nothing is left behind."""
    before = {path.name for path in place.directory.iterdir()}

    done = place(*arguments, code=2)

    line = one_line(done.stderr)
    assert all(part in line for part in expected), line
    assert {path.name for path in place.directory.iterdir()} == before


def one_line(said: str) -> str:
    """The line of the error; a service that had already begun logged dated lines before it."""
    lines = [line for line in said.splitlines() if " info " not in line]
    assert len(lines) == 1, said
    assert lines[0].startswith("headwater: ")
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "nowhere.toml"], ["expected a directory for sqlite:no", "create it"]),
        (["run", "foreign.toml"], ["expected a headwater log in sqlite:foreign.db"]),
    ],
    ids=["no directory", "no log"],
)
def test_log_that_cannot_be_reached_is_one_line_and_exit_1(
    place: Shell, arguments: list[str], expected: list[str]
) -> None:
    """The fault is not in what was typed."""
    line = one_line(place(*arguments, code=1).stderr)

    assert all(part in line for part in expected), line


def test_python_m_headwater_is_the_same_command(
    place: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same help, the same records, the same errors."""
    monkeypatch.setenv("COLUMNS", "80")
    tail = ["tail", "pages", *URL, "--from-beginning", "--drain"]
    for arguments, code in ((["--help"], 0), (tail, 0), (["run", "nope.toml"], 2)):
        called = place(*arguments, code=code)
        module = subprocess.run(
            [sys.executable, "-m", "headwater", *arguments],
            cwd=place.directory,
            capture_output=True,
            text=True,
        )

        assert module.returncode == code
        assert (module.stdout, module.stderr) == (called.stdout, called.stderr)


def test_journal_of_another_model_is_said_before_a_port_is_opened(shell: Shell) -> None:
    """Who reads "metrics on" waits for a service that will never be there."""
    shell.write("pages.toml", CONFIG)
    shell.write("pages.jsonl", '{"id": 1, "x": 1.5, "y": "a"}\n{"id": 2, "x": 2, "y": "b"}\n')
    shell("produce", "pages", "pages.jsonl", *URL, "--label-topic", "answers", "--label", "y")
    shell("run", "pages.toml", "--drain")
    shell.write("pages.toml", CONFIG.replace("GaussianNB", "GaussianBayes"))
    done = shell("run", "pages.toml", "--drain", code=2)

    assert "belongs to another configuration" in done.stderr
    assert "metrics on" not in done.stderr
