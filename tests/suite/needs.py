"""What the chosen tests need besides the environment: heavy packages, and programs of the system.

Rule: a file of tests names what it needs by what it imports; nothing is listed twice. Whether one
of its tests runs is asked of the expressions that pytest was given, before anything is collected.
Only a file that is named runs by day what is of the night; a folder has its day tests.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.config import get_config
from _pytest.mark.expression import Expression

from tests.suite.steps import ROOT

__all__ = ["CHROMIUM", "NEEDS", "Chosen", "Need", "lacking", "needed"]


class Need(NamedTuple):
    """Something that only some files of tests need."""

    name: str
    sign: str  # a pattern: a file of tests that has it needs this
    there: Callable[[], bool]
    marker: str = ""  # of the tests of such a file that need it; all of them without one
    extra: str = ""  # of pyproject.toml
    packages: str = ""  # of Debian
    night: bool = False  # by day its tests run only where they are named

    def of(self, path: Path) -> bool:
        """Whether a test of the file needs it."""
        return re.search(self.sign, _text(path), re.MULTILINE) is not None


def _package(name: str) -> Callable[[], bool]:
    return lambda: find_spec(name) is not None


def _programs(*names: str) -> Callable[[], bool]:
    return lambda: all(map(shutil.which, names))


def _chromium() -> bool:
    return any(map(shutil.which, CHROMIUM))


def _java() -> bool:
    """Java as the broker of the tests takes it, and Maven."""
    from tests.kafka.broker import installed_java

    return installed_java() is not None and shutil.which("mvn") is not None


CHROMIUM = ("chromium", "chromium-browser", "google-chrome")  # the first that is there
SPARK = r"mark\.spark"
BROWSER = r"mark\.browser|^from (playwright|axe_playwright_python)"
JAVA = "openjdk-17-jre-headless maven"

NEEDS = (
    Need("polars", r"^\s*import polars", _package("polars"), extra="test-polars"),
    Need("Playwright", BROWSER, _package("playwright"), "browser", extra="test-browser"),
    Need(
        "kubernetes-validate",
        r"^import kubernetes_validate",
        _package("kubernetes_validate"),
        extra="test-kubernetes",
    ),
    Need("pyspark", SPARK, _package("pyspark"), "spark", extra="spark", night=True),
    Need("Java", SPARK, _java, "spark", packages=JAVA, night=True),
    Need("Kafka", r"mark\.kafka", _java, "kafka", packages=JAVA),
    Need("Chromium", BROWSER, _chromium, "browser", packages="chromium"),
    Need(
        "Prometheus",
        r'^from tests.docker.prometheus|"promtool"',
        _programs("promtool", "prometheus"),
        packages="prometheus",
    ),
)


class Chosen(NamedTuple):
    """The tests that pytest's arguments choose, as far as files and names tell."""

    paths: tuple[Path, ...]
    markers: str
    keywords: str
    everything: bool

    @classmethod
    def of(cls, arguments: Sequence[str]) -> Chosen:
        """From the command line of pytest, which its own parser reads.

        A path that is not there ends the run, before anything is installed or compiled for it.
        """
        try:
            known, _ = get_config()._parser.parse_known_and_unknown_args([*arguments])
            for expression in (known.markexpr, known.keyword):
                _holds(expression, [[]], exact=True)
        except SyntaxError as error:
            sys.exit(f"tests/run: {error.text!r} cannot be read: {error.msg}")
        except pytest.UsageError as error:
            sys.exit(f"tests/run: {str(error).strip()}")
        paths = []
        for word in known.file_or_dir:  # or the value of an option that only a plugin knows
            path = Path(os.path.normpath(ROOT / word.partition("::")[0]))
            if path.exists():
                paths.append(path)
            elif "/" in word or word.endswith(".py"):
                sys.exit(f"tests/run: {path} is not there; give a path from {ROOT}")
        return cls(tuple(paths), known.markexpr, known.keyword, "--all" in arguments)

    @property
    def few(self) -> bool:
        """Whether somebody tries a few tests."""
        return bool(self.paths or self.keywords)

    def has(self, path: Path, marker: str = "") -> bool:
        """Whether a test of the file may be chosen: one with this marker, if one is given."""
        if self.paths and not any(path.is_relative_to(chosen) for chosen in self.paths):
            return False
        text = _text(path)
        markers = set(re.findall(r"mark\.(\w+)", text))
        cases = [[*markers], [marker] if marker else []]
        names = re.findall(r"def (test_\w+)", text)
        around = [*path.relative_to(ROOT).parts, *markers]
        return _holds(self.markers, cases, exact=True) and (
            _holds(self.keywords, [[name, *around] for name in names], exact=False)
        )


def _holds(expression: str, cases: Iterable[Sequence[str]], *, exact: bool) -> bool:
    """Whether the expression is true of one of the cases, each given by its names."""
    if not expression:
        return True
    compiled = Expression.compile(expression)

    def asked(names: Sequence[str]) -> Callable[..., bool]:
        lower = [name.lower() for name in names]
        return lambda word, **_: (
            word in names if exact else any(word.lower() in name for name in lower)
        )

    return any(compiled.evaluate(asked(names)) for names in cases)


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def lacking(chosen: Chosen) -> list[Need]:
    """What the chosen tests need and this machine has not."""
    return [need for need in needed(chosen) if not need.there()]


def needed(chosen: Chosen) -> list[Need]:
    """What the chosen tests need."""
    named = {path for path in chosen.paths if path.is_file()}
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [
        need
        for need in NEEDS
        if any(
            need.of(path) and chosen.has(path, need.marker)
            for path in files
            if chosen.everything or not need.night or path in named or need.marker in chosen.markers
        )
    ]
