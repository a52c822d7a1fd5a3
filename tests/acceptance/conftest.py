"""The command line as a user has it: a directory, a command, what it said and its exit code."""

from __future__ import annotations

import csv
import json
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from river.datasets import Phishing

from consumers.base.records import Partition
from consumers.transports import open_log
from tests.acceptance.service import headwater
from tests.calling import call, ended

__all__ = ["PAGES", "Shell"]

PAGES = 1250  # records of river's Phishing


@dataclass(frozen=True)
class Shell:
    """A directory in which commands are typed."""

    directory: Path

    def __call__(self, *arguments: str | Path, code: int = 0) -> CompletedProcess[str]:
        """Run `headwater …` in this process to its end, which must be `code`."""
        return call(*arguments, directory=self.directory, code=code)

    def start(self, *arguments: str | Path, code: int = 0) -> CompletedProcess[str]:
        """Start the installed command, as a user does; the same."""
        return ended(headwater(*arguments, directory=self.directory), code)

    def lines(self, *arguments: str | Path) -> list[str]:
        """The lines it prints on stdout."""
        return self(*arguments).stdout.splitlines()

    def raw(self, log: str, topic: str) -> list[bytes | None]:
        """Every value of a topic with one partition, by offset, read beside the commands."""
        partition = Partition(topic, 0)
        with closing(open_log(f"sqlite:{self.directory / log}")) as opened:
            chunks = opened.read({partition: 0}, opened.end_offsets([partition]))
            return [value for chunk in chunks for value in chunk.values]

    def values(self, log: str, topic: str) -> list[Any]:
        """The same, as JSON."""
        return [json.loads(value or b"null") for value in self.raw(log, topic)]

    def write(self, name: str, text: str) -> Path:
        """A file in the directory."""
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        return path

    def edit(self, name: str, *changes: tuple[str, str]) -> str:
        """Change a text file as with an editor; each text to change must be there once."""
        text = (self.directory / name).read_text(encoding="utf-8")
        for old, new in changes:
            assert text.count(old) == 1, f"{old!r} is not once in {name}:\n{text}"
            text = text.replace(old, new)
        self.write(name, text)
        return text


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """An empty directory."""
    return Shell(tmp_path)


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Phishing as somebody would have it in a CSV: with an id, and https as words."""
    path = tmp_path_factory.mktemp("pages") / "pages.csv"
    words = {0.0: "no", 0.5: "untrusted", 1.0: "trusted"}
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        for number, (x, y) in enumerate(Phishing()):
            https = x.pop("https")
            if number == 0:
                rows.writerow(["id", *x, "https", "is_phishing"])
            rows.writerow([f"page-{number}", *x.values(), words[https], "yes" if y else "no"])
    return path
