"""Spelling, by codespell's list of common misspellings; [tool.codespell] has the exceptions."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

from tests.lint.sources import PACKAGES, ROOT, Finding, Rules

__all__ = ["RULES", "files", "spelled"]

PATHS = ("README.md", "CHANGELOG.md", "docs", *PACKAGES, "docker", "benchmarks")


def files() -> list[str]:
    """All but the tests, pictures and what is compiled."""
    found = [ROOT / path for path in PATHS]
    found += [path for folder in found for path in folder.rglob("*") if path.is_file()]
    skipped = (".svg", ".png", ".pyc", ".nbi", ".nbc", ".min.js")
    kept = (path for path in found if path.is_file() and not path.name.endswith(skipped))
    return sorted(str(path.relative_to(ROOT)) for path in kept)


def spelled(paths: list[str]) -> Iterator[Finding]:
    """The misspellings in these files."""
    command = [sys.executable, "-m", "codespell_lib", *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = re.findall(r"^(.+?):(\d+): (.+) ==> (.+)$", done.stdout, re.MULTILINE)
    if done.returncode and not found:
        raise RuntimeError(done.stdout + done.stderr)
    for path, line, wrong, right in found:
        yield Finding(path, int(line), f"{wrong!r} is misspelled; write {right}")


RULES: Rules = {spelled: files}
