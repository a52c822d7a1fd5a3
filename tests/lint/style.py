"""Style, by ruff: its rules and its format. pyproject.toml says which rules, and why not others."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

from tests.lint.sources import ROOT, Finding, Rules

__all__ = ["RULES", "checked", "files", "formatted"]

SETTINGS = ("--config", "pyproject.toml")


def ruff(*arguments: str) -> str:
    """What ruff prints. A file that is no Python has no format; the rules find it."""
    command = [sys.executable, "-m", "ruff", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode and not done.stdout and "Failed to parse" not in done.stderr:
        raise RuntimeError(done.stderr)
    return done.stdout


def files() -> list[str]:
    """All Python of the repository."""
    return [within(path) for path in ruff("check", "--show-files").splitlines()]


def within(path: str) -> str:
    """The path from the root of the repository."""
    return os.path.relpath(ROOT / path, ROOT)


def checked(paths: list[str]) -> Iterator[Finding]:
    """The rules of ruff."""
    for found in json.loads(ruff("check", *SETTINGS, "--output-format", "json", *paths)):
        text = f"{found['code']} {found['message']}"
        if found["fix"]:
            text += f"; {found['fix']['message']}"
        elif found["url"]:  # a file that is no Python has none
            text += f"; {found['url']} has what to write"
        yield Finding(within(found["filename"]), found["location"]["row"], text)


def formatted(paths: list[str]) -> Iterator[Finding]:
    """The format of ruff, with the first line that differs and those around it."""
    shown = ruff("format", *SETTINGS, "--diff", *paths)
    for path, line in re.findall(r"^--- (.*)\n\+\+\+ .*\n@@ -(\d+)", shown, re.MULTILINE):
        yield Finding(within(path), int(line), "is not in ruff's format; run `ruff format`")


RULES: Rules = {checked: lambda: ["."], formatted: lambda: ["."]}
