"""`headwater init --fields` and `--schema`: a configuration before there are records."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consumers.base.converter import UNDECODABLE
from consumers.base.errors import ConfigError
from consumers.commands.proposal import (
    check_directory,
    check_new,
    checked_name,
    relative,
    write,
)
from consumers.transports.registry import transport_of

if TYPE_CHECKING:
    from consumers.config.declared.fields import Declared
    from consumers.config.propose import ModelChoice, Source
    from consumers.config.sample import InferredField

__all__ = ["Declaration", "FieldsOption", "PerOption", "SchemaOption", "declare"]

FieldsOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[:KIND],…",
        help="The fields, if there are no records yet; without a kind, categorical.",
    ),
]
SchemaOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="The same from a JSON Schema or an Avro schema (.avsc)."),
]
PerOption = Annotated[
    str | None,
    typer.Option(metavar="FIELD", help="A model for each value of this field, such as a tenant."),
]

LARGEST_SCHEMA = 16 * 2**20  # bytes
UNNAMED = "feed"
NO_TABLE = (
    "No models were compared, because there are no records yet: `headwater replay --compare` "
    "compares them on a file."
)


@dataclass(frozen=True, slots=True)
class Declaration:
    """The options."""

    source: str | None
    fields: Sequence[str]
    schema: str | None
    label: str | None
    labels: str | None
    transport: str | None
    id_field: str | None
    per: str | None = None


def declare(
    given: Declaration,
    name: str | None,
    output: Path | None,
    missing: list[str] | None,
    how: Sequence[str | None],
    *,
    force: bool,
) -> None:
    """Write the configuration of declared fields, with the reasons, and print what comes next.

    `how` are the options of files, which have no effect here.
    """
    from consumers.config.declared.fields import without_label
    from consumers.config.load import parse
    from consumers.config.propose import Source, choose, service_name, toml, with_key

    if any(how):
        raise ConfigError("--fields and --schema read no records; remove the options of files")
    if given.fields and given.schema:
        raise ConfigError("--fields and --schema exclude each other; give one")
    if given.source is not None and Path(given.source).is_file():
        raise ConfigError(
            f"{given.source} is a file, and `headwater init {shlex.quote(given.source)}` looks at "
            "it; remove --fields or --schema, or name a topic"
        )
    declared, origin, stem = _declared(given)
    topic = given.source or service_name(stem)
    name = checked_name(name) if name else service_name(topic)
    output = output or Path(f"{name}.toml")
    check_new(output, force=force)
    if given.transport:
        check_directory(given.transport)
    id_field = given.id_field or "id"
    if given.label == id_field:
        raise ConfigError(f"--id-field and --label are both {id_field!r}; name two fields")
    strict = given.schema is not None
    fields, label = without_label(declared, given.label, id_field, origin, strict=strict)
    fields = with_key(fields, given.per) if given.per else fields
    choice = choose(fields, per=given.per)
    labels = given.labels or (f"{topic}-labels" if given.label else None)
    url = relative(given.transport, output.parent) if given.transport else f"sqlite:{name}.db"
    source = Source(name, url, topic, labels, None, origin, id_field)
    text = toml(source, fields, _without_table(choice), None, missing)
    parse(text, source=str(output), directory=output.parent)
    _explain(given, origin, fields, declared, choice, label, labels, id_field)
    write(output, text)
    typer.echo(f"\nwrote {output}; next:")
    for line in _next_steps(source, output, given.label):
        typer.echo(f"  {line}")


def _declared(given: Declaration) -> tuple[list[Declared], str, str]:
    """The fields, what declares them, and a name for the service."""
    from consumers.config.declared.fields import given as fields_of

    if given.schema is None:
        return fields_of(given.fields), "--fields", UNNAMED
    path = Path(given.schema)
    document = _read(path)
    return _fields_of(document, given.schema), path.name, path.name.split(".")[0] or UNNAMED


def _fields_of(document: Any, source: str) -> list[Declared]:
    """The fields of a schema. Its content decides which language it is in, not its name."""
    from consumers.config.declared.schemas import avro_fields, json_schema_fields

    if isinstance(document, dict):
        if document.get("type") == "record" or "fields" in document:
            return avro_fields(document, source)
        return json_schema_fields(document, source)
    if isinstance(document, list) and any(isinstance(each, dict) for each in document):
        raise ConfigError(
            f"{source}: expected the schema of one record, got a list of {len(document)}; "
            "give the one of the observations"
        )
    raise ConfigError(
        f"{source}: expected a JSON Schema or an Avro schema, got {str(document)[:40]!r}; "
        "give the schema of one record"
    )


def _read(path: Path) -> Any:
    import msgspec

    try:
        if path.stat().st_size > LARGEST_SCHEMA:
            raise ConfigError(
                f"--schema {path}: expected at most {LARGEST_SCHEMA // 2**20} MiB, got "
                f"{path.stat().st_size / 2**20:,.0f}; give a schema, not data"
            )
        return msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"--schema: cannot read {path}: {error.strerror}") from None
    except UNDECODABLE as error:
        raise ConfigError(
            f"--schema {path}: expected JSON (a JSON Schema or an Avro .avsc): {error}"
        ) from None


def _without_table(choice: ModelChoice) -> ModelChoice:
    from dataclasses import replace

    return replace(choice, scores=[NO_TABLE])


def _explain(
    given: Declaration,
    origin: str,
    fields: Sequence[InferredField],
    declared: Sequence[Declared],
    choice: ModelChoice,
    label: str | None,
    labels: str | None,
    id_field: str,
) -> None:
    names = {each.field.name for each in declared}
    typer.echo(f"{origin}: {len(declared)} {'field' if len(declared) == 1 else 'fields'} declared")
    width = max(len(field.name) for field in fields)
    for field in fields:
        typer.echo(f"  {field.name:<{width}}  {field.kind or 'left out':<11}  {field.about}")
    if given.schema and id_field not in names:
        typer.echo(
            f"the schema has no field {id_field!r}: the id of a record is its key; "
            "--id-field uses another field"
        )
    if given.label:
        about = f"{label}; " if label else ""
        typer.echo(f"label {given.label}: {about}it comes later, on topic {labels}")
    elif not labels:
        typer.echo("no label: nothing will be learned; give --label FIELD or --labels TOPIC")
    typer.echo(f"model {choice.model}: {choice.why}")
    typer.echo(f"  {NO_TABLE}")


def _next_steps(source: Source, output: Path, label: str | None) -> list[str]:
    config = shlex.quote(str(output))
    steps = [f"headwater check {config} --create    # creates the topics"]
    steps += [f"headwater run {config}    # predicts and learns as soon as records arrive"]
    if not transport_of(source.transport).names_path:
        return steps
    produce = f"headwater produce {source.observations} FILE --config {config}"
    if source.id != "id":
        produce += f" --id-field {shlex.quote(source.id)}"
    if label:
        produce += f" --label-topic {source.labels} --label {shlex.quote(label)}"
    return [*steps, f"{produce}    # once there is a file; or POST /v1/observations"]
