"""`headwater export`: the model of a service as one file."""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consumers.commands.past import ConfigArgument, JsonOption, Past, ShardOption, past

if TYPE_CHECKING:
    from consumers.service.live import LiveShard
    from consumers.snapshots.model_file import ModelInfo
    from consumers.timetravel.moment import PointInTime

__all__ = ["export"]


def export(
    config: ConfigArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write: model.hw.")],
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="POSITION|TIME",
            help="A journal position, or a time (UTC); default: the end of the journal.",
        ),
    ] = None,
    shard: ShardOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Write the model of a service, as it is now or was earlier, to a file.

    The model is rebuilt from the newest snapshot before that moment and the journal, so the service
    may run meanwhile. The file holds the champion with everything it has learned, its fields and
    its parameters, but no records and no scores. `headwater.load(FILE)` reads it in Python, and
    `headwater import` starts a new service with it. docs/model-file.md describes its content.

    \b
    Examples:
      headwater export visits.toml model.hw
      headwater export visits.toml --at 2026-11-20T17:00:00Z friday.hw
    """
    from consumers.base.errors import ConfigError
    from consumers.snapshots.places import Directory
    from consumers.timetravel.moment import exported, moment, rebuild_at

    if file.exists() or file.is_symlink():
        raise ConfigError(f"{file} exists already; choose another name, or remove it first")
    began = time.perf_counter()
    with past(config, shard) as of:
        _check_saved(of)
        end = of.log.end_offsets([of.found.journal])[of.found.journal]
        when = moment(of.log, of.found.journal, str(end) if at is None else at)
        live = rebuild_at(of.config, of.log, of.found, of.store, when, of.progress)
        info, data = exported(of.config, live)
    Directory(file.parent).write(file.name, [data])
    seconds = time.perf_counter() - began
    signed = of.config.snapshots.key is not None
    document = _document(file, info, data, live, seconds, signed=signed)
    if as_json:
        import msgspec

        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return
    _show(document, when)


def _check_saved(of: Past) -> None:
    """Refuse a model whose state is not saved before a replay, which may take long."""
    from consumers.base.errors import ConfigError
    from consumers.config.learner import uses_code
    from consumers.shard.models import build
    from consumers.timetravel.moment import check_exportable

    if of.config.challenger:  # the champion may be another model
        return
    kind = of.config.model.type
    if uses_code({"type": kind}):
        raise ConfigError(f"{kind} cannot be exported: its code would not be in the file")
    check_exportable(build(of.config.model), of.config.name)


def _document(
    file: Path, info: ModelInfo, data: bytes, live: LiveShard, seconds: float, *, signed: bool
) -> dict[str, Any]:
    """What was exported, as JSON values."""
    return {
        "file": str(file),
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "signed": signed,
        "model": info.source["model"],
        "learner": info.learner,
        "fields": len(info.fields),
        "classes": info.labels.classes,
        "learned": info.source["learned"],
        "position": live.position,
        "fingerprint": info.fingerprint,
        "replayed": live.replayed,
        "seconds": seconds,
    }


def _show(document: dict[str, Any], when: PointInTime) -> None:
    signed = ", signed" if document["signed"] else ""
    classes, kind = document["classes"], document["learner"]["type"]
    shown = ", ".join(map(str, classes[:5])) + (", …" if len(classes) > 5 else "")
    lines = {
        "model": f"{document['model']} ({kind}) at {when}",
        "learned": f"{document['learned']:,} labels, {document['fields']} fields, "
        f"{len(classes)} classes ({shown})",
        "replayed": f"{document['replayed']:,} records in {document['seconds']:.1f} s",
        "fingerprint": document["fingerprint"],
        "file": f"{document['file']}: {document['bytes']:,} bytes{signed}",
        "sha256": document["sha256"],
    }
    for name, value in lines.items():
        typer.echo(f"{name:11} {value}")
