"""What `headwater check` and `headwater doctor` find: one line each, with what to do; and whether
labels meet their observations in time, by the first records of both topics.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import typer

from consumers.base.secrets import masked
from consumers.offline.lateness import FEWEST, Lateness, day_text, lateness, meeting_fields

if TYPE_CHECKING:
    from consumers.config import Config
    from consumers.transports.protocol import Log

__all__ = ["Finding", "Report", "check_meeting"]

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


READ = 20_000  # records of each topic


def check_meeting(config: Config, log: Log, report: Report) -> None:
    """Report whether labels have the ids of observations, and whether they come within the horizon.

    Only of JSON: what other formats hold is in the registry, which `check` asks for schemas alone.
    """
    from consumers.commands.sampled import first_objects, id_of, lacking
    from consumers.config.propose import ONE_CLASS, doubtful

    topics = log.topics()
    observations, labels = config.input.observations, config.input.labels
    if labels is None or config.input.format != "json" or not {observations, labels} <= set(topics):
        return
    changes = config.input.changes
    seen = first_objects(log, observations, topics[observations], READ, changes)
    given = first_objects(log, labels, topics[labels], READ, changes)
    if len(given) < FEWEST or not seen:
        return
    for line in lacking(given):
        report.note("labels", line)
    for line in doubtful([record.get("label") for _, _, record in given]):
        if not line.startswith(ONE_CLASS):  # the first ones may be sorted by time and class
            report.note("labels", line)
    ids = [(id_of(record, key, config.input.id), time) for time, key, record in seen]
    of_labels = [(id_of(record, key, "id"), time) for time, key, record in given]
    found = lateness(ids, of_labels)
    if found.delays:
        _report_delays(config, found, report)
        return
    wanted = [id_ for id_, _ in of_labels if id_ is not None]
    if not wanted:
        return
    fields = meeting_fields((record for _, _, record in seen), wanted)
    do = "the observations of these labels may have expired from their topic"
    if fields:
        name, n = next(iter(fields.items()))
        do = f"field {name!r} of the observations has {n:,} of their ids: set [input] id"
    report.note(
        "ids",
        f"none of the first {len(given):,} labels has the id of one of the first {len(seen):,} "
        f"observations (labels: {_shown(wanted)}; observations: {_shown([i for i, _ in ids])}); "
        f"{do}",
    )


def _report_delays(config: Config, found: Lateness, report: Report) -> None:
    horizon = config.labels.horizon_ms
    report.fine(
        "ids",
        f"{len(found.delays):,} of the first {found.labels:,} labels have the id of one of the "
        f"first {found.observations:,} observations; {found.told}",
    )
    if late := found.after(horizon):
        report.note(
            "labels",
            f"{late:,} of {len(found.delays):,} come after [labels] horizon ({day_text(horizon)}): "
            "their observation has expired by then, and they are not learned; horizon = "
            f'"{found.horizon(horizon) // 86_400_000}d" would cover them, and `headwater relearn` '
            "changes it",
        )
    need = found.pending(config.labels.max_pending)
    if need > config.labels.max_pending:
        report.note(
            "labels",
            f"some {need:,} observations come while the latest label is awaited, and [labels] "
            f"max_pending = {config.labels.max_pending:,} evicts the oldest",
        )


def _shown(ids: list[str | None] | list[str]) -> str:
    return ", ".join(repr(each)[:40] for each in ids[:2])
