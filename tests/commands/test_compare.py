"""`headwater replay --compare`: a model that fails has a row with the reason, the others run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from consumers.cli import main

CONFIG = """
name = "{name}"
input = {{transport = "sqlite:log.db", observations = "visits"}}
features = {{pages = "numeric", country = "categorical"}}
[model]
{model}
"""
MODELS = {
    "bayes": 'type = "MixedNB"',
    "tree": 'type = "river:tree.HoeffdingTreeClassifier"',
    "typo": 'type = "KNNClassifier"\nwindoww = 3',
    "unknown": 'type = "GausianNB"',
    "unscaled": 'type = "river:naive_bayes.GaussianNB"\npipeline = ["preprocessing.Normalizer"]',
    "mine": 'type = "python:compared_models:make"\ntrust_python = ["compared_models"]',
    "untrusted": 'type = "python:compared_models:make"',
}
CODE = """
from stream import MixedNB

class Fragile(MixedNB):
    def _execute(self, block, label, before, out):
        if len(block) > 3:
            raise ZeroDivisionError("division by zero")
        super()._execute(block, label, before, out)

def make():
    return Fragile()
"""
Said = pytest.CaptureFixture[str]
Compare = Callable[..., dict[str, Any]]


@pytest.fixture
def compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> Compare:
    """Run it on 60 visits with the models of these names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("compared_models.py").write_text(CODE)
    rows = (
        {"id": str(i), "pages": i % 7, "country": ["FR", "DE"][i % 3 > 0], "bought": i % 7 > 3}
        for i in range(60)
    )
    Path("visits.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for name, model in MODELS.items():
        Path(f"{name}.toml").write_text(CONFIG.format(name="svc", model=model))

    def run(*names: str, code: int, more: tuple[str, ...] = ("--json",)) -> Any:
        files = [f"{name}.toml" for name in names]
        given = ["replay", "--compare", *files, "visits.jsonl", "--label", "bought", *more]
        assert main(given) == code
        found = capsys.readouterr()
        assert "Traceback" not in found.err
        return json.loads(found.out) if more == ("--json",) and found.out else found

    return run


def test_every_model_that_works_has_a_row_and_the_exit_code_is_0(compare: Compare) -> None:
    """As before."""
    rows = compare("bayes", "tree", code=0)["challengers"]

    assert [row["name"] for row in rows] == ["bayes", "tree"]
    assert [row["failed"] for row in rows] == [None, None]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("typo", "no parameter 'windoww'; did you mean 'window'?"),
        ("unknown", "[model] type: expected one of"),
        ("unscaled", "river model Normalizer | GaussianNB failed to learn"),
        ("mine", "ZeroDivisionError: division by zero"),
        ("untrusted", "importing a module runs its code; if you trust it, set trust_python"),
    ],
)
@pytest.mark.parametrize("first", [False, True])
def test_model_that_fails_has_a_row_with_the_reason(
    compare: Compare, name: str, reason: str, first: bool
) -> None:
    """When it is made, or at a record; the others have the results that they have without it."""
    names = [name, "bayes", "tree"] if first else ["bayes", name, "tree"]
    results = compare(*names, code=1)
    rows = {row["name"]: row for row in results["challengers"]}

    assert [row["name"] for row in results["challengers"]] == names
    assert rows[name]["failed"].startswith(reason)
    assert rows[name]["accuracy"] is None
    alone = {row["name"]: row for row in compare("bayes", "tree", code=0)["challengers"]}
    assert {name: rows[name] for name in alone} == alone


def test_one_model_that_is_left_is_scored(compare: Compare) -> None:
    """Without evidence, because there is no other one."""
    rows = compare("typo", "unscaled", "bayes", code=1)["challengers"]

    assert [row["failed"] is None for row in rows] == [False, False, True]
    assert rows[2]["scored"] == 59


def test_nothing_is_left_if_every_model_fails(compare: Compare) -> None:
    """One line with each reason, and the exit code of a wrong configuration."""
    found = compare("typo", "untrusted", code=2)

    assert "--compare: every model failed: typo: no parameter" in found.err


def test_people_read_who_failed_and_why(compare: Compare) -> None:
    """A short row, and the reason below the table; the report has both."""
    pytest.importorskip("matplotlib")
    found = compare("bayes", "unscaled", code=1, more=("--report", "page.html"))
    page = Path("page.html").read_text()

    assert "unscaled failed: river model Normalizer | GaussianNB failed to learn" in found.out
    assert "failed to learn" in page
    assert "bayes (champion)" in found.out


def test_configurations_of_other_records_are_still_refused(compare: Compare) -> None:
    """The comparison would not be one."""
    text = CONFIG.format(name="svc", model=MODELS["tree"]).replace("visits", "others")
    Path("tree.toml").write_text(text)

    assert "differ in more than [model]" in compare("bayes", "tree", code=2).err
