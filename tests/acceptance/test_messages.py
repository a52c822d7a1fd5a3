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
    """A configuration, a log with a topic, and files of which most are damaged."""
    shell = Shell(tmp_path_factory.mktemp("messages"))
    shell.write("pages.toml", CONFIG)
    shell.write("misspelt.toml", CONFIG.replace("\nport =", "\nprot ="))
    shell.write("section.toml", CONFIG.replace("[input]", "[inptu]"))
    shell.write("model.toml", CONFIG.replace("GaussianNB", "gausian_nb"))
    shell.write("parameter.toml", CONFIG.replace("[http]", "[model.parameters]\nalpha = 1\n[http]"))
    shell.write("broken.toml", "name = \n")
    shell.write("nowhere.toml", CONFIG.replace("sqlite:pages.db", "sqlite:no/pages.db"))
    shell.write("foreign.toml", CONFIG.replace("sqlite:pages.db", "sqlite:foreign.db"))
    shell.write("elsewhere.toml", CONFIG.replace('observations = "pages"', 'observations = "page"'))
    shell.write("foreign.db", "no database at all")
    shell.write("pages.jsonl", '{"id": 1, "x": 1.5, "y": "a"}\n{"id": 2, "x": 2, "y": "b"}\n')
    shell.write("broken.jsonl", '{"x": 1}\n{"x": \n')
    shell.write("empty.jsonl", "")
    shell.write("wide.csv", "a,b\n1,2,3\n")
    shell.write("broken.csv.gz", "this is no gzip")
    shell.write("pages.txt", "x")
    (shell.directory / "russian.csv").write_bytes("name\nРязань\n".encode("cp1251"))
    (shell.directory / "secret.jsonl").mkdir()  # a place without files
    shell("produce", "pages", "pages.jsonl", *URL)
    return shell


WRONG_USE = [
    (["run", "nope.toml"], ["no config file nope.toml", "headwater init FILE"]),
    (["run", "misspelt.toml"], ["[http] prot: unknown key", "did you mean 'port'?"]),
    (["check", "misspelt.toml"], ["[http] prot: unknown key", "did you mean 'port'?"]),
    (["run", "section.toml"], ["inptu: unknown key", "did you mean 'input'?"]),
    (["run", "model.toml"], ["[model] type", "did you mean 'GaussianNB'?"]),
    (["run", "parameter.toml"], ["[model] GaussianNB", "alpha"]),
    (["run", "broken.toml"], ["broken.toml: not valid TOML", "line 1"]),
    (["run", "elsewhere.toml"], ["no topic page, answers on", "--create"]),
    (["init", "nope.csv"], ["no file nope.csv", "--transport"]),
    (
        ["init", "pages.jsonl", "--label", "z", "--name", "p"],
        ["no field 'z'", "fields are id, x, y"],
    ),
    (["init", "pages.jsonl", "--output", "pages.toml"], ["pages.toml exists", "--force"]),
    (["init", "empty.jsonl"], ["empty.jsonl has no records"]),
    (["produce", "t", "nope.jsonl", *URL], ["nope.jsonl: no such file", "check the name"]),
    (["produce", "t", "broken.jsonl", *URL], ["broken.jsonl: line 2 is not JSON"]),
    (["produce", "t", "empty.jsonl", *URL], ["empty.jsonl: expected records, got none"]),
    (["produce", "t", "wide.csv", *URL], ["wide.csv: line 2 has 3 cells, the header has 2"]),
    (["produce", "t", "broken.csv.gz", *URL], ["damaged gzip file", "fetch it again"]),
    (["produce", "t", "russian.csv", *URL], ["russian.csv: line 2, byte 1: 0xd0", "--encoding"]),
    (["produce", "t", "secret.jsonl", *URL], ["secret.jsonl: the directory has no files"]),
    (["produce", "t", "pages.txt", *URL], ["ending in .arrow"]),
    (["produce", "t", "pages.jsonl"], ["--transport URL or --config CONFIG, got neither"]),
    (["produce", "t", "pages.jsonl", *URL, "--label", "y"], ["--label-topic T and --label"]),
    (["produce", "t", "pages.jsonl", *URL, "--time-field", "at"], ["'at'", "got None"]),
    (
        ["produce", "t", "pages.jsonl", "--transport", "redis:x"],
        ["expected a transport as ", "sqlite:FILE.db", "'redis:x'"],
    ),
    (["tail", "nope", *URL], ["no topic 'nope'", "topics are"]),
    (["tail", "pages", "--transport", "sqlite:nope.db"], ["sqlite:nope.db: no such file"]),
    (["replay", "pages.toml", "pages.jsonl"], ["expected --label FIELD", "fields are id, x, y"]),
    (["demo", "--from", "pages.jsonl"], ["needs --label FIELD", "the fields are id, x, y"]),
    (["demo", "--from", "nope.csv", "--label", "y"], ["nope.csv: no such file"]),
    (["demo", "--feed", "apples"], ["phishing, bananas, segments, got 'apples'"]),
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


def test_check_says_everything_that_is_wrong_in_a_line_each(place: Shell) -> None:
    """And leaves no log behind."""
    place.write("two.toml", CONFIG.replace("pages.db", "two.db"))

    done = place("check", "two.toml", code=2)

    wrong = [line for line in done.stdout.splitlines() if line.startswith("wrong ")]
    assert len(wrong) == 2
    assert all("`headwater check two.toml --create` creates it" in line for line in wrong)
    assert one_line(done.stderr) == ("headwater: 2 things are wrong with two.toml, shown above")
    assert not (place.directory / "two.db").exists()


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


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["fly"], "No such command 'fly'"),
        (["run"], "Missing argument"),
        (["tail", "t", "--nope"], "No such option"),
        (["replay", "pages.toml", "f.csv", "--limit", "0"], "Invalid value"),
    ],
)
def test_arguments_that_do_not_exist_exit_2(
    place: Shell, arguments: list[str], expected: str
) -> None:
    """With the way to the help."""
    done = place(*arguments, code=2)

    assert expected in done.stderr
    assert "headwater" in done.stderr
    assert "-h" in done.stderr


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
