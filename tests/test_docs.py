"""What the pages show is what happens: their Python runs, their configurations are valid.

Rules about the pages themselves are in tests/lint.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from consumers.cli import main
from consumers.codecs.predictions import PredictionEncoder
from consumers.web.routes import ROUTES
from stream.data.schema import Label
from stream.decision.overall import RISK_SCORES
from stream.evaluate.table import SCORES, formulas
from stream.learner.predictions import Explanation
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCKS = [
    pytest.param(code, id=f"{page.name}-{n}")
    for page in PAGES
    if page.name not in ("feed.md", "messages.md")  # tests/client runs them beside a service
    for n, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("code", BLOCKS)
def test_python_of_the_documentation_runs(code: str, tmp_path: Path) -> None:
    """As a newcomer would paste it."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_example_of_the_library_prints_what_is_below_it(tmp_path: Path) -> None:
    """Line by line, on docs/learners.md."""
    text = (ROOT / "docs/learners.md").read_text()
    (code, shown) = re.findall(r"```python\n(.*?)```.*?```text\n(.*?)```", text, re.DOTALL)[0]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
    )

    assert done.stdout == shown


def test_every_route_that_a_page_names_is_in_the_table_of_routes() -> None:
    """With its method: a page once said that requests only read, beside POST /v1/labels."""
    known = {(each.method, re.sub(r"\{[^}]*\}", "*", each.path)) for each in ROUTES.values()}
    known |= {("HEAD", path) for method, path in known if method == "GET"}
    named = re.compile(r"\b(GET|HEAD|POST|PUT|DELETE|PATCH) (/[\w/{}.-]*)")
    wrong = []
    for page in PAGES:
        if page.name == "CHANGELOG.md":
            continue  # history
        for method, path in named.findall(page.read_text()):
            found = re.sub(r"\{[^}]*\}|\b[A-Z]{2,}\b", "*", path.rstrip("."))
            if (method, found) not in known and (method, found.rstrip("/")) not in known:
                wrong.append(f"{page.name}: {method} {path}")
    listed = set(named.findall((ROOT / "docs/routes.md").read_text()))

    assert wrong == []
    assert listed == {(each.method, each.path) for each in ROUTES.values()}


def test_formulas_of_scores_are_those_of_their_table() -> None:
    """docs/quality.md, made from stream/evaluate/table.py; no score is left out."""
    page = formulas((ROOT / "docs/quality.md").read_text())

    scores = (*SCORES, *RISK_SCORES)
    assert all(page.count(f"| {score.title} `{score.metric}` |") == 1 for score in scores)


CONFIGS = [
    pytest.param(text, id=f"{page.name}-{n}")
    for page in PAGES
    for n, text in enumerate(re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL))
    if text.startswith("name = ")
]


@pytest.mark.parametrize("text", CONFIGS)
def test_whole_configurations_of_the_documentation_pass_the_check(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that begin with a name, as `headwater check --create` sees them."""
    monkeypatch.chdir(tmp_path)
    Path("shown.toml").write_text(text)

    assert main(["check", "shown.toml", "--create"]) == 0


def test_there_is_a_whole_configuration_to_check() -> None:
    """docs/drift.md has one, or the test before would test nothing."""
    assert [param for param in CONFIGS if str(param.id).startswith("drift.md")]


def test_documented_prediction_has_the_fields_of_one() -> None:
    """docs/records.md, in their order."""
    page = (ROOT / "docs/records.md").read_text()
    [shown] = [text for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL) if "ts" in text]
    why = Explanation("ok", "fraud", 5.11, {"amount": 3.9, "(prior)": 1.6, "country": -0.4})
    posterior: list[tuple[Label, float]] = [("ok", 0.994), ("fraud", 0.006)]
    encoder = PredictionEncoder("payments", "MixedNB", explain=3)
    place = ("payments", 0, 1249)
    said = encoder.encode("1249", "ok", posterior, 1200, place, 1795260104702, ("pay", 0.06), why)

    assert list(json.loads(shown).items()) == list(json.loads(said).items())
