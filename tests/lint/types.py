"""Types, by mypy: strict, for the packages; pyproject.toml has its settings."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from tests.lint.sources import ROOT, Finding, Rules, product

__all__ = ["RULES", "checked", "files", "shown"]


def files() -> list[str]:
    """All Python of the packages."""
    return [file.path for file in product()]


def shown() -> str:
    """What mypy reports, an object of JSON in a line."""
    command = [sys.executable, "-m", "mypy", "--output", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode and not done.stdout.startswith("{"):
        raise RuntimeError(done.stdout + done.stderr)
    return done.stdout


def checked(lines: str) -> Iterator[Finding]:
    """The errors of mypy, each with its hint."""
    for found in (json.loads(line) for line in lines.splitlines() if line.startswith("{")):
        hint = f"; {found['hint']}" if found["hint"] else ""
        text = f"{found['message']}{hint} [{found['code']}]"
        yield Finding(found["file"], found["line"], text)


RULES: Rules = {checked: shown}
