"""`headwater tokens`: the strongest features of a spam filter, and those of one message."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from consumers.base.records import Outgoing
from consumers.cli import main
from consumers.timetravel import moment
from consumers.transports import open_log
from stream import SpamScorer

Said = pytest.CaptureFixture[str]
SPAM = ["FREE money, call now", "win a free prize", "call now, v1agra", "\x1b[31m<b>free</b> pills"]
HAM = ["lunch at noon?", "see you at home", "the minutes are attached", "call me at noon"]
CONFIG = """
name = "filter"
[input]
transport = "sqlite:{directory}/log.db"
observations = "messages"
labels = "verdicts"
format = "{wire}"
{more}
[model]
type = "{model}"
[http]
enabled = false
[commit]
max_records = 20
[snapshots]
directory = "{directory}/state"
every_records = 30
"""
TEXT = '[features]\ntext = "text"'


def ran(
    directory: Path, model: str = "spam", more: str = TEXT, wire: str = "json", n: int = 80
) -> str:
    """A service that has learned n messages and drained; its configuration."""
    log = open_log(f"sqlite:{directory / 'log.db'}")
    for topic, partitions in (("messages", 2), ("verdicts", 1)):
        log.create_topic(topic, partitions)
    for i in range(n):
        text = (SPAM if i % 2 else HAM)[i // 2 % 4]
        value = json.dumps({"id": str(i), "text": text}) if wire == "json" else text
        label = json.dumps({"id": str(i), "label": "spam" if i % 2 else "ham"})
        log.append([Outgoing("messages", b"%d" % i, value.encode(), 1000 + i)])
        log.append([Outgoing("verdicts", b"%d" % i, label.encode(), 1000 + i)])
    log.close()
    path = directory / "filter.toml"
    path.write_text(CONFIG.format(directory=directory, model=model, more=more, wire=wire))
    assert main(["run", str(path), "--drain"]) == 0
    return str(path)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A filter of messages; its configuration."""
    return ran(tmp_path_factory.mktemp("tokens"))


def shown(capsys: Said, *arguments: str) -> dict:
    """The document of a call."""
    capsys.readouterr()
    assert main(["tokens", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_tokens_are_those_of_the_model(service: str, tmp_path: Path, capsys: Said) -> None:
    """Names, evidence and records are those of the exported learner."""
    import headwater

    found = shown(capsys, service, "--view", "words")
    assert main(["export", service, str(tmp_path / "model.hw")]) == 0
    model = headwater.load(tmp_path / "model.hw")

    assert isinstance(model, SpamScorer)
    named = {f.written: f.id for x in (*SPAM, *HAM) for f in model.features_of({"text": x})}
    of_words = {f.written: f.id for f in model.features_of({"text": "free noon"}) if not f.view}
    assert {"free", "call"} < named.keys()
    words = {each["name"]: each for side in ("for", "opposed") for each in found[side]}
    known = model.evidence_of(of_words.values(), "spam", "ham")
    for name, evidence in zip(of_words, known, strict=True):
        assert words[name]["log_odds"] == evidence.log_odds
        assert dict(words[name]["records"]) == evidence.records
    assert {each["name"] for each in found["for"]} > {"free", "prize", "v1agra"}
    assert {each["name"] for each in found["opposed"]} > {"lunch", "noon"}
    assert (found["label"], found["against"], found["learned"]) == ("spam", "ham", 80)
    assert found["observations"] == 80
    odds = [each["log_odds"] for each in found["for"]]
    assert odds == sorted(odds, reverse=True)


def test_table_shows_both_sides_without_control_codes(service: str, capsys: Said) -> None:
    """What a message contains reaches no terminal as a command."""
    assert main(["tokens", service, "--view", "4-grams", "--max", "200"]) == 0
    text = capsys.readouterr().out

    assert "for spam" in text
    assert "for ham" in text
    assert "ham records" in text
    assert "\x1b" not in text
    assert "\\x1b" in text


def test_only_the_newest_observations_give_names(service: str, capsys: Said) -> None:
    """A bound in records for each partition, and one in bytes."""
    few = shown(capsys, service, "--newest", "4")
    assert few["observations"] == 4
    assert few["compared"] < shown(capsys, service)["compared"]


def test_names_need_a_bounded_memory(
    service: str, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Larger records leave room for fewer."""
    monkeypatch.setattr(moment, "MOST_BYTES", 2_000)

    assert 0 < shown(capsys, service)["observations"] < 20


def test_rare_features_are_left_out(service: str, capsys: Said) -> None:
    """By the weight of their records."""
    found = shown(capsys, service, "--least", "15")

    weights = [sum(w for _, w in e["records"]) for e in [*found["for"], *found["opposed"]]]
    assert weights
    assert min(weights) >= 15


def test_text_of_one_message_is_explained(service: str, capsys: Said) -> None:
    """The parts add up to the log-odds."""
    found = shown(capsys, service, "--text", "free prize at noon")

    assert found["log_odds"] == pytest.approx(sum(share for _, share in found["contributions"]))
    assert "text: free" in dict(found["contributions"])
    names = {each["name"] for each in found["for"] if each["view"] == "words"}
    assert names == {"free", "prize"}
    assert main(["tokens", service, "--text", "free prize"]) == 0
    assert "log-odds of spam against ham: +" in capsys.readouterr().out


def test_message_on_stdin(service: str, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as on the command line."""
    given = shown(capsys, service, "--text", "free lunch")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"free lunch")))

    assert shown(capsys, service, "--text", "-") == given


def test_labels_can_be_turned_round(service: str, capsys: Said) -> None:
    """Evidence for ham is that against spam."""
    spam = shown(capsys, service, "--view", "words")
    ham = shown(capsys, service, "--view", "words", "--label", "ham")

    assert [e["name"] for e in ham["for"]] == [e["name"] for e in spam["opposed"]]
    assert [e["log_odds"] for e in ham["for"]] == [-e["log_odds"] for e in spam["opposed"]]


def test_raw_texts_have_names(tmp_path: Path, capsys: Said) -> None:
    """Records that are texts, without [features]."""
    path = ran(tmp_path, more="", wire="text", n=40)

    found = shown(capsys, path, "--view", "words")
    assert "free" in {each["name"] for each in found["for"]}
    assert shown(capsys, path, "--text", "free")["log_odds"] > 0


def test_wrong_use_gives_one_line(service: str, capsys: Said) -> None:
    """That names what is known."""
    wrong = {
        ("--label", "junk"): "--label expects a learned label ('ham', 'spam'), got 'junk'",
        ("--label", "ham", "--against", "ham"): "--against expects another label than 'ham'",
        ("--text", "x", "--field", "body"): "one of text, got 'body'",
    }
    for arguments, line in wrong.items():
        capsys.readouterr()
        assert main(["tokens", service, *arguments]) == 2
        assert line in capsys.readouterr().err


def test_another_model_is_refused_before_a_replay(tmp_path: Path, capsys: Said) -> None:
    """With the types that have features."""
    path = ran(tmp_path, "GaussianNB", '[features]\ntext = "text"\nsize = "numeric"', n=4)
    capsys.readouterr()

    assert main(["tokens", path]) == 2
    assert 'type = "spam"' in capsys.readouterr().err


def test_a_model_of_one_label_has_no_evidence(tmp_path: Path, capsys: Said) -> None:
    """There is nothing to compare yet."""
    path = ran(tmp_path, n=1)
    capsys.readouterr()

    assert main(["tokens", path]) == 2
    assert "the model has learned ham; send labels of both" in capsys.readouterr().err
