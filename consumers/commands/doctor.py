"""`headwater doctor`: everything `check` finds, and probes of what runs: log, disk, service."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from consumers.base.errors import ConfigError, HeadwaterError
from consumers.commands.check import counted_wrong, inspect
from consumers.commands.findings import Report
from consumers.commands.past import ConfigArgument, JsonOption

__all__ = ["doctor"]


def doctor(
    config: ConfigArgument,
    as_json: JsonOption = False,
    no_kernels: Annotated[
        bool, typer.Option("--no-kernels", help="Do not look whether kernels are compiled.")
    ] = False,
) -> None:
    """Check a configuration, and probe its log, disk and running service; nothing is changed.

    Ends with 0 if nothing is wrong, 1 if only a probe failed, 2 if `headwater check` would fail.

    \b
    Examples:
      headwater doctor payments.toml
      headwater doctor payments.toml --json
    """
    from consumers.commands.probes import probe_disk, probe_kernels, probe_log
    from consumers.commands.service_probes import probe_service
    from consumers.config import load

    settings = load(config)
    report = Report(quiet=as_json)
    inspect(settings, config, report)
    in_the_file = report.problems
    probe_log(settings, report)
    probe_disk(settings, report)
    if not no_kernels:
        probe_kernels(settings, report)
    probe_service(settings, report)
    if as_json:
        findings = [
            {"level": found.level, "what": found.what, "text": found.text}
            for found in report.findings
        ]
        document = {"config": str(config), "name": settings.name, "wrong": report.problems}
        typer.echo(json.dumps(document | {"findings": findings}, ensure_ascii=False))
    if report.problems:
        text = f"{counted_wrong(report.problems)} with {config}, shown above"
        raise ConfigError(text) if in_the_file else HeadwaterError(text)
