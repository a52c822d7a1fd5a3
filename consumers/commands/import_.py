"""`headwater import`: a new service that begins with a model from a file."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consumers.commands.meter import metered
from consumers.commands.past import ConfigArgument, JsonOption

if TYPE_CHECKING:
    from consumers.config import Config
    from consumers.service.importing import ModelToImport
    from consumers.transports.protocol import Log

__all__ = ["import_"]


def import_(
    config: ConfigArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The model file: model.hw.")],
    unsigned: Annotated[
        bool,
        typer.Option("--unsigned", help="Accept a file that [snapshots] key has not signed."),
    ] = False,
    new_journal: Annotated[
        bool,
        typer.Option(
            "--new-journal", help="Start a new journal although the service has run before."
        ),
    ] = False,
    bogofilter: Annotated[
        bool,
        typer.Option(
            "--bogofilter",
            help="FILE has bogofilter's words, as `bogoutil -d wordlist.db` writes them.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Start a new service from a model file. `headwater run` then continues it.

    The service must not have run before. [model] and [features] must be those of the file; without
    [features] those of the file are used. The file is written to the journal, so the file itself is
    not needed afterwards, and every replay starts with it. With several shards each begins with the
    same model. Scores begin at zero. After an interruption repeat the command. The topics must
    exist: `headwater check CONFIG --create` creates them.

    \b
    Examples:
      headwater import visits-2.toml model.hw
      headwater import filter/spam.toml words.txt --bogofilter
    """
    from consumers.base.errors import ConfigError, SnapshotError
    from consumers.commands.transport import check_topics, has_directory, is_absent
    from consumers.config import load
    from consumers.config.load import log_of
    from consumers.service.importing import checked
    from consumers.transports.registry import transport_of

    settings = load(config)
    url = settings.input.transport
    if transport_of(url).private:
        raise ConfigError(f"import needs a log that outlives this command, got {url}")
    try:
        _check_alone(settings)
        content = _counted(settings, file) if bogofilter else _content(file)
        model = checked(settings, content, unsigned=unsigned)
    except (ConfigError, SnapshotError) as error:
        raise type(error)(f"{file}: {error}") from None
    began = time.perf_counter()
    if is_absent(url) and has_directory(url):  # opening it would create an empty log
        check_topics(settings, config, settings.input_topics, ())
    with closing(log_of(settings)) as log:
        fresh = _imported(config, settings, log, model, new_journal=new_journal)
    result = {
        "service": settings.name,
        "shards": len(fresh),
        "already": fresh.count(False),
        "sha256": model.record.sha256,
        "bytes": model.record.size,
        "fingerprint": model.info.fingerprint,
        "source": model.info.source,
        "seconds": time.perf_counter() - began,
    }
    _report(result, model, as_json=as_json)


def _check_alone(config: Config) -> None:
    """ConfigError if several shards would begin with the model and then exchange it."""
    from consumers.base.errors import ConfigError

    if config.scale.mix is not None:
        raise ConfigError(
            "[scale] mix and an imported model exclude each other: each shard would begin with "
            "the model, and the mix would count it once for each; remove mix, or use one shard"
        )


def _counted(config: Config, file: Path) -> bytes:
    """A model file with the counts of a dump."""
    from consumers.snapshots.exported import of_bogofilter

    found = of_bogofilter(config, file)
    typer.echo(
        f"{found.words:,} words counted; {found.left_out:,} tokens left out, which are not one "
        "word, or are of headers that are no fields",
        err=True,
    )
    return found.data


def _content(file: Path) -> bytes:
    """The bytes of the file. One that is too large is not read."""
    from consumers.base.errors import ConfigError
    from consumers.service.importing import check_size

    try:
        if not file.is_file():
            raise ConfigError("there is no such file; `headwater export` writes one")
        check_size(file.stat().st_size)
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}") from None


def _imported(
    file: Path, config: Config, log: Log, model: ModelToImport, *, new_journal: bool
) -> list[bool]:
    """Import into each shard. Which of them did not begin with the model before."""
    from consumers.commands.run import prepare_topics
    from consumers.service.importing import import_model
    from consumers.service.recovery import sources
    from consumers.snapshots.store import open_store

    prepare_topics(file, config, log)
    fresh = []
    with ExitStack() as stack:
        progress = stack.enter_context(metered("parts written"))
        for shard in range(config.scale.shards):
            found, store = sources(config, log, shard), open_store(config, shard)
            now = time.time_ns() // 1_000_000
            fresh.append(
                import_model(
                    config,
                    log,
                    found,
                    store,
                    model,
                    now=now,
                    new_journal=new_journal,
                    progress=progress,
                )
            )
    return fresh


def _report(result: dict[str, Any], model: ModelToImport, *, as_json: bool) -> None:
    if as_json:
        import msgspec

        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
        return
    from consumers.base.counts import counted

    source, kind = result["source"], model.info.learner["type"]
    lines = {
        "model": f"{source['model']} ({kind}) of {source['service']} at journal position "
        f"{source['position']}, {source['learned']:,} labels learned",
        "fields": f"{len(model.info.fields)}, {len(model.info.labels.classes)} classes",
        "fingerprint": result["fingerprint"],
        "journal": f"{result['service']}: {result['bytes']:,} bytes in "
        f"{counted(model.record.parts, 'part')}, then record 0",
        "scores": "begin at zero",
    }
    if result["already"]:
        lines["already"] = (
            f"{result['already']} of {result['shards']} shards began with this model before: "
            "nothing was written for them"
        )
    for name, value in lines.items():
        typer.echo(f"{name:11} {value}")
