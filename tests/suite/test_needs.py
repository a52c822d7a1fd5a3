"""What is installed for the chosen tests, and which steps are left out."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.suite import steps
from tests.suite.needs import NEEDS, Chosen, needed
from tests.suite.steps import ROOT

DAY = {"polars", "Playwright", "kubernetes-validate", "Kafka", "Chromium", "Prometheus"}
COLLECTED = ("tests", "stream", "consumers", "headwater")


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ("", DAY),
        ("--all", DAY | {"pyspark", "Java"}),
        ("-q --maxfail 3", DAY),
        ("-m spark", {"pyspark", "Java"}),
        ("tests/spark", set()),
        ("tests/spark/test_spark.py", {"pyspark", "Java"}),
        ("--ignore tests/spark -p no:cacheprovider", DAY),
        ("--deselect tests/web/test_browser.py::test_x -n 0", DAY),
        ("./tests/web/../web", {"Playwright", "Chromium"}),
        ("-m 'not kafka and not browser'", DAY - {"Kafka", "Playwright", "Chromium"}),
        ("tests/web", {"Playwright", "Chromium"}),
        ("tests/web -m 'not browser'", set()),
        ("-k test_frames", {"polars"}),
        ("-qk test_frames", {"polars"}),
        ("-k 'test_frames and no_such_word'", set()),
        ("tests/docker/test_kubernetes.py::test_of_some_name", {"kubernetes-validate"}),
        ("tests/stream/join", set()),
    ],
)
def test_only_what_the_chosen_tests_need_is_asked_for(arguments: str, names: set[str]) -> None:
    """By paths, -m, -k and --all."""
    found = needed(Chosen.of(shlex.split(arguments)))

    assert {need.name for need in found} == names


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["tests/web/test_browse.py::test_x"], "tests/web/test_browse.py is not there"),
        (["-k", "join and"], "expected not OR left parenthesis OR identifier"),
        (["--maxfail", "some"], "argument --maxfail: invalid int value: 'some'"),
    ],
)
def test_wrong_argument_ends_the_run_before_it_begins(arguments: list[str], wrong: str) -> None:
    """In one line, not after minutes of installing and compiling."""
    with pytest.raises(SystemExit) as ended:
        Chosen.of(arguments)

    said = str(ended.value)
    assert said.startswith("tests/run: ")
    assert wrong in said


def test_file_that_cannot_be_imported_without_a_package_says_so() -> None:
    """pytest collects every file, for its doctests: a chosen test needs none of the others."""
    heavy = {
        "polars": "polars",
        "Playwright": "playwright|axe_playwright_python",
        "kubernetes-validate": "kubernetes_validate",
        "pyspark": "pyspark",
    }
    needs = {need.name: need for need in NEEDS if need.extra}
    assert needs.keys() == heavy.keys()

    files = [path for folder in COLLECTED for path in (ROOT / folder).rglob("*.py")]
    fails = [
        f"{path.relative_to(ROOT)}: {name}"
        for name, packages in heavy.items()
        for path in files
        if re.search(rf"^(from|import) ({packages})\b", path.read_text(), re.MULTILINE)
        and not needs[name].of(path)
    ]

    assert fails == []


def test_step_is_left_out_while_its_inputs_are_the_same(tmp_path: Path, monkeypatch) -> None:
    """A text, or the content of a file; a step that fails is done again."""
    monkeypatch.setattr(steps, "DONE", tmp_path / "steps")
    monkeypatch.setattr(steps, "ROOT", tmp_path)
    file = tmp_path / "input"
    file.write_text("1")
    done: list[int] = []

    def fails() -> None:
        raise SystemExit("no")

    def again(version: str) -> int:
        steps.step("one", [file, version], lambda: done.append(1))
        return len(done)

    assert [again("a"), again("a"), again("b"), again("b")] == [1, 1, 2, 2]
    file.write_text("2")
    assert again("b") == 3
    steps.forget("one")
    assert again("b") == 4
    with pytest.raises(SystemExit):
        steps.step("one", ["c"], fails)
    with pytest.raises(SystemExit):
        steps.step("one", ["c"], fails)
