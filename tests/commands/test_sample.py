"""`headwater sample`, and the block of docs/start.md that begins with it."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from pathlib import Path

import pytest

from consumers.cli import main
from tests.commands.ports import other_port
from tests.lint.docs import command_lines
from tests.lint.sources import ROOT

# Of the file, so that a change of Python, of the platform or of the code is noticed.
PAYMENTS = "35c6d91634201923"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test writes into a directory of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_first_steps_work_for_a_newcomer(capsys: pytest.CaptureFixture[str]) -> None:
    """Word for word, without a file at the beginning; only the port of the page is a free one. The
    README shows what they print."""
    page = (ROOT / "docs/start.md").read_text()
    block = page.split("## Your own topic in five minutes\n\n")[1]
    lines = [line for _, line in command_lines(block.split("\n\n")[0])]
    shown = {}

    for line in lines:
        code = main(line)
        out = capsys.readouterr()
        assert code == 0, f"{line}: {out.err}"
        shown[line[0]] = out.out + out.err
        if line[0] == "init":
            other_port("payments.toml")

    assert [line[0] for line in lines] == [
        *("sample", "init", "check", "produce", "run", "tail", "replay")
    ]
    assert "chosen" in shown["init"]
    assert "4,000 observations to payments, 4,000 labels to payments-labels" in shown["produce"]
    assert "4,000 observations, 4,000 learned" in shown["run"]
    assert shown["tail"].count('"prediction":') == 4000
    figures = re.findall(r"last 1,000 .*? ([\d.]+) % +[\d.]+ +([\d.]+) %", shown["replay"])
    [(accuracy, majority)] = figures
    assert float(accuracy) > float(majority)
    assert_shown((ROOT / "README.md").read_text(), shown)


def assert_shown(readme: str, shown: dict[str, str]) -> None:
    """The README has what commands print, except times and most digits of probabilities."""
    rows = re.findall(r"^ +(\w+|guess: [\w ]+?) +(\d+\.\d%) +(0\.\d+)", readme, re.MULTILINE)
    live = re.search(r"live at journal record 0, .*", readme)
    prediction = json.loads(re.search(r"\{\"id\":.*?\}\n", readme, re.DOTALL)[0])
    printed = json.loads(shown["tail"].splitlines()[-1])
    for each in printed["probabilities"]:
        each[1] = round(each[1], 3)

    assert len(rows) == 3
    assert all(re.search(rf"{name} +{share} +{loss}", shown["init"]) for name, share, loss in rows)
    assert live[0] in shown["run"]
    assert {**printed, "ts": prediction["ts"]} == prediction


def test_payments_are_the_same_everywhere() -> None:
    """The content is pinned: the documentation shows figures of this file."""
    assert main(["sample", "payments"]) == 0
    assert main(["sample", "payments"]) == 0  # the same content is no conflict

    with Path("payments.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert hashlib.sha256(Path("payments.csv").read_bytes()).hexdigest()[:16] == PAYMENTS
    assert len(rows) == 4000
    assert {row["fraud"] for row in rows} == {"true", "false"}
    assert 0.05 < sum(row["fraud"] == "true" for row in rows) / 4000 < 0.15
    assert any(row["account_days"] == "" for row in rows)


def test_samples_are_listed_and_each_can_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    """The data sets of the demo are samples too; each line names the label."""
    assert main(["sample"]) == 0
    listed = capsys.readouterr().out.split("\n\n")[0].splitlines()
    for line in listed:
        name, label = line.split()[0], line.split()[-1]
        assert main(["sample", name, "--output", f"my {name}.csv"]) == 0
        with Path(f"my {name}.csv").open(newline="") as file:
            assert label in next(csv.reader(file))

    assert [line.split()[0] for line in listed] == ["payments", "phishing", "bananas", "segments"]
    assert "headwater init 'my payments.csv' --label fraud" in capsys.readouterr().out


def test_sample_refuses_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown name, a file with other content, a directory that does not exist."""
    Path("payments.csv").write_text("mine\n")

    assert main(["sample", "paymens"]) == 2
    assert "expected a sample of payments, phishing" in capsys.readouterr().err
    assert main(["sample", "payments"]) == 2
    assert "payments.csv exists; give --force" in capsys.readouterr().err
    assert Path("payments.csv").read_text() == "mine\n"
    assert main(["sample", "payments", "--output", "no/p.csv"]) == 2
    assert "cannot write no/p.csv: No such file or directory" in capsys.readouterr().err
    assert main(["sample", "--output", "p.csv"]) == 2
    assert "expected a sample to write" in capsys.readouterr().err
    assert main(["sample", "payments", "--force"]) == 0
    assert Path("payments.csv").read_text().startswith("amount,")
