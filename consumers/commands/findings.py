"""What `headwater check` and `headwater doctor` find: one line each, with what to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import typer

from consumers.base.secrets import masked

__all__ = ["Finding", "Report"]

Level = Literal["ok", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: `note` needs no action, `wrong` does."""

    level: Level
    what: str
    text: str


@dataclass(slots=True)
class Report:
    """Collects the findings, and prints each at once unless `quiet`."""

    quiet: bool = False
    findings: list[Finding] = field(default_factory=list)

    @property
    def problems(self) -> int:
        """How many are wrong."""
        return sum(1 for found in self.findings if found.level == "wrong")

    def fine(self, what: str, text: str) -> None:
        self.add(Finding("ok", what, text))

    def note(self, what: str, text: str) -> None:
        self.add(Finding("note", what, text))

    def wrong(self, what: str, text: str) -> None:
        self.add(Finding("wrong", what, masked(text)))

    def add(self, found: Finding) -> None:
        """Add a finding whose text has no secret."""
        self.findings.append(found)
        if not self.quiet:
            typer.echo(f"{found.level:<8} {found.what}: {found.text}")
