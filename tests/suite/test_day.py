"""The rule of the day run; no kind of test and no module of the product is without day tests."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.suite.day import FAMILY, LONGEST, Measured, by_day, family_of, load
from tests.suite.steps import ROOT, tracked

KINDS = {
    "law": r"stream\.checks|@given",
    "oracle": r"tests\.oracles",
    "contract": r"^tests/contract/",
    "simulation": r"^tests/simulation/",
    "kill": r"SIGKILL|\.kill\(\)",
    "door": r"^tests/(api|client|commands)/",
    "page": r"mark\.browser",
    "broker": r"mark\.kafka",
    "docs": r"^tests/test_docs",
}
PRODUCT = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in ("stream", "consumers", "headwater")
    for path in sorted((ROOT / package).rglob("*.py"))
}
PRODUCT_NAMES = {path: name for name, path in PRODUCT.items()}
# Imported by a name that is made of a command, a format or a class of river.
BY_NAME = re.compile(
    r"(consumers|headwater)\.commands\.|consumers\.(codecs|files)\.formats\.|stream\.compat\.trans"
)
IMPORT = re.compile(
    r"^ *(?:from ([\w.]+) )?import (?:\(([^)]*)\)|(.+))$", re.MULTILINE
)  # far quicker than the parser
SECONDS = load()
FILES = sorted((ROOT / "tests").rglob("test_*.py"))


def family(name: str, cases: int) -> list[str]:
    """The node ids of a test function with so many parameters."""
    return [f"tests/{name}[{i}]" for i in range(cases)]


def test_cases_of_a_family_fit_into_its_seconds() -> None:
    """A hundred cases have ten times the seconds of one."""
    ids = [*family("a.py::test_long", 100), "tests/a.py::test_short"]
    table = {"tests/a.py::test_long": Measured(100, 100 * FAMILY / 3.01)}

    chosen = by_day(ids, table)

    assert "tests/a.py::test_short" in chosen
    assert len(chosen) == 30 + 1
    assert chosen == by_day(reversed(ids), table), "the same sample in any order"


def test_family_of_which_no_case_fits_is_of_the_night() -> None:
    """Beside a shorter one in its file."""
    ids = [*family("a.py::test_long", 3), "tests/a.py::test_short"]
    table = {"tests/a.py::test_long": Measured(3, 6 * FAMILY)}

    assert by_day(ids, table) == {"tests/a.py::test_short"}


def test_file_of_long_families_keeps_a_case_of_the_cheapest() -> None:
    """So that few files are silent by day: one whose cheapest case takes too long is."""
    ids = [*family("a.py::test_longer", 2), *family("a.py::test_long", 2), "tests/b.py::test_kill"]
    table = {
        "tests/a.py::test_longer": Measured(2, 2 * LONGEST),
        "tests/a.py::test_long": Measured(2, 1.9 * LONGEST),
        "tests/b.py::test_kill": Measured(1, 1.1 * LONGEST),
    }

    assert [*map(family_of, by_day(ids, table))] == ["tests/a.py::test_long"]


def test_table_names_tests_that_exist() -> None:
    """Or a renamed test would cost by day what it cost by night."""
    gone = [name for name in SECONDS if not _exists(*name.split("::", 1))]

    assert gone == [], "measure again: tests/run --all --hypothesis-profile day --write-seconds"


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_test_has_day_tests(kind: str) -> None:
    """Most of its files have; those of which each test takes long have none."""
    files = [path for path in FILES if _is_of(kind, path)]
    day = [path for path in files if _day_tests(path)]

    assert files
    assert len(day) >= 0.75 * len(files)


def test_each_module_of_the_product_has_day_tests() -> None:
    """A file with day tests imports it, or what such a file imports does.

    What a registry finds by its file's name has that name, as a word of its own, in such a file.
    """
    files = [path for path in FILES if _day_tests(path)]
    words = {word for path in files for word in re.findall(r"[a-z_]+", path.read_text())}
    near = {"consumers.config.docs"}  # writes a page, which `tests.lint generated` compares
    near |= {m for path in files for m in _imported(path)}
    near |= {m for m in PRODUCT if BY_NAME.match(m) and m.rpartition(".")[2].strip("_") in words}
    while more := {m for module in near for m in _brought(module)} - near:
        near |= more

    assert sorted(m for m in PRODUCT.keys() - near if not m.endswith("__main__")) == []


def test_each_test_is_in_a_file_that_is_collected() -> None:
    """Of another name, or in another folder, it would run neither by day nor by night."""
    lost = [
        f"{path.relative_to(ROOT)}"
        for path in tracked(suffix=".py")
        if re.search(r"^ *(async )?def test_", path.read_text(), re.MULTILINE) and path not in FILES
    ]

    assert lost == [], "name it tests/…/test_….py"


def _is_of(kind: str, path: Path) -> bool:
    name = path.relative_to(ROOT).as_posix()
    return re.search(KINDS[kind], f"{name}\n{path.read_text()}", re.MULTILINE) is not None


def _brought(module: str) -> set[str]:
    """What is imported with a module: its package, and what it imports."""
    return (_imported(PRODUCT[module]) | {module.rpartition(".")[0]}) & PRODUCT.keys()


def _exists(path: str, test: str) -> bool:
    """Whether a test, or what a doctest belongs to, is still there."""
    file, name = ROOT / path, test.rpartition("::")[2]
    if not file.exists():
        return False
    last = name.rpartition(".")[2]  # of a doctest that of a module, a class or a function
    words = rf"def {name}\(" if path.startswith("tests/") else rf"(def|class) {last}\b"
    return re.search(words, file.read_text()) is not None or name == PRODUCT_NAMES.get(file)


@cache
def _day_tests(path: Path) -> set[str]:
    name = path.relative_to(ROOT).as_posix()
    found = re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    return by_day([f"{name}::{test}" for test in found], SECONDS)


@cache
def _imported(path: Path) -> set[str]:
    """The modules of the product that a file imports, also inside of functions."""
    names: set[str] = set()
    for module, inside, line in IMPORT.findall(path.read_text()):
        found = re.findall(r"[\w.]+", inside or line)
        names |= {module, *(f"{module}.{name}" for name in found)} if module else {*found}
    return names & PRODUCT.keys()
