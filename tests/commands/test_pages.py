"""Pages with a session in a shell: each command prints the lines that the page shows.

Rule: numbers may differ, because they depend on the machine and on the version of a model. All else
is compared, in order; `…` on a page stands for any lines.
"""

from __future__ import annotations

import gzip
import os
import re
import shlex
from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest

from headwater.cli import main
from tests.commands.ports import other_port
from tests.lint.sources import ROOT

PAGES = ROOT / "docs/howto"
# Only a machine that is slow, or starts a model for the first time, prints these.
PROGRESS = re.compile(r".*(?:compiling|compiled|\([\d,]+/s).*\n")


def sessions(page: str) -> Iterator[tuple[str, str]]:
    """Each command of a page, and the lines below it.

    Examples
    --------
    >>> list(sessions("```\\n$ headwater a \\\\\\n    b\\nc\\n…\\n```\\n"))
    [('headwater a      b', 'c\\n…\\n')]
    """
    for block in re.findall(r"^```(?:console)?\n(\$ .*?)^```", page, re.DOTALL | re.MULTILINE):
        for session in re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
            command, _, shown = session.partition("\n")
            yield command, shown


def plain(text: str) -> str:
    """Without numbers, the spaces and rules of tables, and what only some machines print.

    Examples
    --------
    >>> plain(" all   1,200    90.00 %  \\n ─────\\n2 of 9 (1,200/s)\\n      -0.41  hour\\n")
    'all 0 0 %\\n-\\n0 (because)\\n'
    """
    text = PROGRESS.sub("", text)
    text = re.sub(r"^ +[+-]\d\S*  \S.*$", "0 (because)", text, flags=re.MULTILINE)
    text = re.sub(r"\b[0-9a-f]{32,}\b", "0", text)
    text = re.sub(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z", "0", text)
    text = re.sub(r"-?\d[\d,.]*(?:e[+-]\d+)?", "0", text.replace("─", "-"))
    text = re.sub(r"-{3,}", "-", text)
    return "".join(" ".join(line.split()) + "\n" for line in text.splitlines() if line.strip())


def like(shown: str, printed: str) -> bool:
    """Whether a command printed what is shown."""
    lines = ["(?:.*\n)*?" if x == "…" else re.escape(x + "\n") for x in plain(shown).splitlines()]
    return re.fullmatch("".join(lines), plain(printed)) is not None


def follow(page: str, capsys: pytest.CaptureFixture[str]) -> int:
    """Run the commands of a page in this directory; how many printed what is shown."""
    followed = 0
    for command, shown in sessions(page):
        name, *words = shlex.split(command)
        if name == "cat":  # the reader has this file
            Path(words[0]).write_text(shown)
            continue
        assert name == "headwater"
        if words[0] == "audit":  # it explains each prediction of the commit, which takes 20 s
            continue
        assert main(words) == 0, command
        printed = "".join(capsys.readouterr())
        assert like(shown, printed), f"{command}\n{printed}"
        followed += 1
        if words[0] == "init":
            for path in Path.cwd().glob("*.toml"):
                if "port = 8321" in path.read_text():
                    other_port(path)
    return followed


@pytest.fixture(autouse=True)
def no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes more than a second for a command, and would show it."""
    monkeypatch.setattr("consumers.commands.meter.SILENT_SECONDS", inf)


def test_your_own_topic_is_as_its_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a file to predictions, scores and an audit."""
    monkeypatch.chdir(tmp_path)

    assert follow((PAGES / "own-topic.md").read_text(), capsys) == 9
    assert follow((PAGES / "init.md").read_text(), capsys) == 2


def test_scores_of_messages_are_shown_as_on_their_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The replay of a file with labels."""
    shared = Path(os.environ.get("HEADWATER_SHARED", ROOT.parent / "shared"))
    stored = shared / "data/sms_spam/sms_spam.csv.gz"
    if not stored.exists():
        pytest.skip(f"{stored.name} is not there; set HEADWATER_SHARED to the shared data")
    monkeypatch.chdir(tmp_path)
    Path("sms.csv").write_bytes(gzip.decompress(stored.read_bytes()))
    assert main(["init", "--spam", "--format", "json", "--name", "sms"]) == 0
    capsys.readouterr()

    assert follow((PAGES / "messages.md").read_text(), capsys) == 1
