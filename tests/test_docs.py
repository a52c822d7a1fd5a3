"""The Python of the documentation runs, and its links lead somewhere."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer
from typer.core import TyperCommand

from consumers.base.errors import DEAD_LETTER_REASONS
from consumers.cli import application, main
from consumers.codecs.predictions import PredictionEncoder
from headwater.cli import COMMANDS, MORE
from stream.data.schema import Label
from stream.decision.table import RISK_SCORES
from stream.evaluate.table import SCORES, formulas
from stream.learner.explain import Explanation
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


def test_example_of_the_readme_prints_what_stands_below_it(tmp_path: Path) -> None:
    """Line by line."""
    text = (ROOT / "README.md").read_text()
    (code, shown) = re.findall(r"```python\n(.*?)```.*?```text\n(.*?)```", text, re.DOTALL)[0]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
    )

    assert done.stdout == shown


def test_formulas_of_scores_are_those_of_their_table() -> None:
    """docs/quality.md, made from stream/evaluate/table.py; no score is left out."""
    page = (ROOT / "docs/quality.md").read_text()

    assert page == formulas(page), "run docs/make_pages.py"
    scores = (*SCORES, *RISK_SCORES)
    assert all(page.count(f"| {score.title} `{score.metric}` |") == 1 for score in scores)


def test_page_of_the_join_is_made_from_its_table() -> None:
    """docs/join.md shows each transition; what the page shows is what runs."""
    made = runpy.run_path(str(ROOT / "docs/make_join_page.py"))["page"]()

    assert (ROOT / "docs/join.md").read_text() == made, "run docs/make_pages.py"


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_the_documentation_lead_somewhere(page: Path) -> None:
    """Files of the repository; other hosts are not asked."""
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    missing = [x for x in links if "://" not in x and not (page.parent / x).exists()]

    assert missing == []


def anchors(text: str) -> set[str]:
    """The anchors that GitHub makes of the headings of a page.

    Examples
    --------
    >>> sorted(anchors("# A `b`-c, d\\n```\\n# no heading\\n```\\n## 3. Ask\\n## 3. Ask\\n"))
    ['3-ask', '3-ask-1', 'a-b-c-d']
    """
    text = re.sub(r"^(`{3,})[^\n]*\n.*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    found: list[str] = []
    for heading in re.findall(r"^#{1,6} +(.+?) *$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.append(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return {
        slug if n == found.index(slug) else f"{slug}-{found[:n].count(slug)}"
        for n, slug in enumerate(found)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_of_links_are_headings_of_their_page(page: Path) -> None:
    """By GitHub's rule; tests/test_site.py checks those of the site."""
    links = re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text())
    inside = [(page.parent / path if path else page, at) for path, at in links if "://" not in path]
    dead = [
        f"{path.name}#{at}"
        for path, at in inside
        if path.suffix == ".md" and at not in anchors(path.read_text())
    ]

    assert dead == []


def command_lines(text: str) -> Iterator[list[str]]:
    """The arguments of each `headwater` line in the blocks of a page, fenced or indented.

    Examples
    --------
    >>> list(command_lines("    headwater run a.toml --drain   # once"))
    [['run', 'a.toml', '--drain']]
    """
    fenced = re.findall(r"^```(\S*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    blocks = [block for language, block in fenced if language in ("", "sh")]
    blocks += re.findall(r"(?:^    .*\n?)+", text, re.MULTILINE)
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        if match := re.match(r" *(?:\$ )?(?:\S*/)?headwater ((?:[a-z]|--).*)", line):
            yield shlex.split(match[1].split(" | ")[0], comments=True)


@cache
def command(name: str) -> TyperCommand:
    """The command of this name, with its options."""
    group = typer.main.get_command(application(name, MORE))
    return group.commands[name]  # type: ignore[attr-defined]


LINES = [
    pytest.param(given, id=f"{page.name}-{' '.join(given)}")
    for page in PAGES
    for given in command_lines(page.read_text())
]


@pytest.mark.parametrize("given", LINES)
def test_commands_of_the_documentation_exist(given: list[str]) -> None:
    """With each option that is shown, and a value where it takes one."""
    name, *arguments = given

    assert name in COMMANDS
    known = command(name)
    known.make_parser(known.context_class(known)).parse_args(arguments)


def test_figures_of_the_readme_are_those_that_were_measured() -> None:
    """They stood still while docs/performance.md was written again."""
    measured = (ROOT / "docs/performance.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")] for line in measured.splitlines()]
    by_hand = [float(r[8].split(" ×")[0]) for r in rows if r[2:3] == ["hand-rolled"]]
    ((beside, seconds),) = [
        (float(r[3].removesuffix(" ×").replace(",", "")), float(r[4].removesuffix(" µs")))
        for r in rows
        if r[1:2] == ["GaussianNB, d = 8"] and r[2].endswith("river")
    ]
    (mixture,) = [
        float(r[4].removesuffix(" µs")) for r in rows if r[1:2] and r[1].startswith("auto, d = 8")
    ]
    told = " ".join((ROOT / "README.md").read_text().split())

    assert f"`auto`, which runs seven learners, needs {mixture:.0f} µs" in told
    assert len(by_hand) >= 3
    assert f"takes {min(by_hand):.1f} to {max(by_hand):.1f} × as many records a second" in told
    assert f"in {seconds:.1f} µs, {beside:,.0f} × as fast as river's loop" in told


def test_every_reason_of_a_dead_letter_is_explained() -> None:
    """docs/records.md, and no reason that there is not."""
    page = (ROOT / "docs/records.md").read_text()
    rows = page.split("| reason | |\n|---|---|\n")[1].split("\n\n")[0].splitlines()

    assert sorted(row.split("`")[1] for row in rows) == sorted(DEAD_LETTER_REASONS)


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
