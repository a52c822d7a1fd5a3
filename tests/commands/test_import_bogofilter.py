"""`headwater import --bogofilter`: a filter that begins with the words of another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from consumers.cli import main
from tests.consumers.files.test_bogofilter import DUMP, dump

Said = pytest.CaptureFixture[str]
CONFIG = """
name = "feed"
[input]
transport = "sqlite:{directory}/feed.db"
observations = "messages"
labels = "flags"
[features]
text = "text"
subject = "text"
[model]
type = "{kind}"
[http]
enabled = false
"""


@pytest.fixture
def config(tmp_path: Path, capsys: Said) -> Path:
    """A configuration with its topics."""
    path = tmp_path / "feed.toml"
    path.write_text(CONFIG.format(directory=tmp_path, kind="spam"))
    assert main(["check", str(path), "--create"]) == 0
    capsys.readouterr()
    return path


def test_filter_begins_with_the_words_of_bogofilter(config, tmp_path, capsys) -> None:
    """The service knows them at its first record, and after a restart."""
    words = dump(tmp_path / "words.txt", DUMP)
    assert main(["import", str(config), str(words), "--bogofilter"]) == 0
    said = capsys.readouterr()
    assert "5 words counted; 5 tokens left out" in said.err
    assert "words.txt (SpamScorer) of bogofilter" in said.out
    assert "14 labels learned" in said.out

    for n, (text, verdict) in enumerate([("Viagra", "spam"), ("lunch", "ham")]):
        asked = tmp_path / "asked.jsonl"
        asked.write_text(json.dumps({"id": f"m{n}", "text": text}) + "\n")
        assert main(["produce", "messages", str(asked), "--config", str(config)]) == 0
        assert main(["run", str(config), "--drain"]) == 0
        capsys.readouterr()
        shown = ["--config", str(config), "--from-beginning", "--drain"]
        assert main(["tail", "feed-predictions", *shown]) == 0
        *_, last = capsys.readouterr().out.splitlines()
        assert json.loads(last)["prediction"] == verdict


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("MultinomialNB", DUMP, '--bogofilter needs [model] type = "spam"'),
        ("spam", "free 1 2 20261125\n", "expected a line .MSG_COUNT with messages"),
        ("spam", b"PK\x03\x04 no words\n", "expected 'token spam ham date'"),
    ],
    ids=["another model", "no messages", "a model file"],
)
def test_what_is_no_dump_or_no_filter_is_refused(
    config, tmp_path, capsys, kind, content, message
) -> None:
    """In one line; nothing is written."""
    config.write_text(CONFIG.format(directory=tmp_path, kind=kind))
    words = dump(tmp_path / "words.txt", content)

    assert main(["import", str(config), str(words), "--bogofilter"]) != 0
    assert message in " ".join(capsys.readouterr().err.split())
