"""`headwater init`: look at a sample, write a configuration that runs, and say why."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consumers.errors import ConfigError

if TYPE_CHECKING:
    from consumers.config.propose import Choice, Source
    from consumers.config.sample import Inferred

__all__ = ["init"]

Records = Sequence[Mapping[str, Any]]

LIKELY_LABELS = ("label", "class", "target", "y", "outcome", "is_fraud", "spam")
ID = "id"


def init(
    source: Annotated[
        str, typer.Argument(metavar="FILE|TOPIC", help="A JSONL or CSV file, or a topic.")
    ],
    label: Annotated[
        str | None, typer.Option(metavar="FIELD", help="The field that holds the label.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="The topic of labels that come later.")
    ] = None,
    transport: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Where the topics are: sqlite:FILE.db, kafka://HOST:PORT."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the service; by default that of the source.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What to write; by default NAME.toml.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
) -> None:
    """Infer the fields of a feed from a sample, choose a model, write a configuration that runs.

    Example:

        headwater init phishing.csv --label is_phishing

        headwater init orders --labels refunds --transport kafka://localhost:9092
    """
    from consumers.config.load import parse
    from consumers.config.propose import choose, service_name, toml
    from consumers.config.sample import infer

    if label and labels:
        raise ConfigError("--label and --labels exclude each other: the label comes one way")
    file = _file(source, transport)
    if name and name != service_name(name):
        raise ConfigError(
            f"expected --name of up to 100 letters, digits, '.', '_' and '-', got {name!r}; "
            f"for example --name {service_name(name)}"
        )
    name = name or service_name(_stem(file) if file else source)
    output = output or Path(f"{name}.toml")
    if output.exists() and not force:
        raise ConfigError(f"{output} exists; give --force to overwrite it or --output FILE")
    records = _of_file(file) if file else _of_topic(source, labels, transport or "")
    if label:
        _check_label(label, records, source)
    fields = infer(records, {ID, label or ID}, text=True)
    choice = choose(fields)
    origin = _origin(source, file, name, label, labels, transport, output, len(records))
    text = toml(origin, fields, choice)
    parse(text, source=str(output), directory=output.parent)  # --name and URLs are the user's
    _explain(source, records, fields, label, choice)
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as e:
        raise ConfigError(f"cannot write {output}: {e.strerror}; give --output FILE") from None
    typer.echo(f"\nwrote {output}; next:")
    for line in _next_steps(origin, file, label, output):
        typer.echo(f"  {line}")


def _file(source: str, transport: str | None) -> Path | None:
    """`source` as a file, None where it is a topic."""
    path = Path(source)
    if path.is_file():
        return path
    if path.is_dir():
        raise ConfigError(f"expected a file or a topic, got the directory {source}; name a file")
    if transport is None:
        raise ConfigError(
            f"no file {source}; if it is a topic, say where: --transport sqlite:FILE.db or "
            "--transport kafka://HOST:PORT"
        )
    return None


def _stem(file: Path) -> str:
    return file.name.split(".")[0] or file.name.strip(".")


def _of_file(file: Path) -> Records:
    from consumers.config.sample import SAMPLE_SIZE
    from consumers.files import read_records

    records = list(islice(read_records(file), SAMPLE_SIZE))
    if not records:
        raise ConfigError(f"{file} holds no records; give a file with at least one")
    return records


def _of_topic(topic: str, labels: str | None, transport: str) -> Records:
    from consumers.codecs.json import parse
    from consumers.commands.transport import open_chosen
    from consumers.config.sample import SAMPLE_SIZE
    from consumers.errors import RecordError
    from consumers.records import Partition

    _, log = open_chosen(transport, None, existing=True)
    try:
        topics = log.topics()
        for wanted in filter(None, (topic, labels)):
            if wanted not in topics:
                near = get_close_matches(wanted, topics, n=1)
                hint = f"did you mean {near[0]!r}?" if near else "check the name and --transport"
                raise ConfigError(f"no topic {wanted!r} on {transport}; {hint}")
        partitions = [Partition(topic, n) for n in range(topics[topic])]
        starts, ends = log.beginning_offsets(partitions), log.end_offsets(partitions)
        ends = {p: min(end, starts[p] + SAMPLE_SIZE) for p, end in ends.items()}
        records, bad, keyed = [], 0, True
        for fetched in log.read(starts, ends):
            for key, value in zip(fetched.keys, fetched.values, strict=True):
                try:
                    records.append(parse(value))
                    keyed &= key is not None
                except RecordError:
                    bad += 1
    finally:
        log.close()
    records = records[:SAMPLE_SIZE]
    if not records:
        raise ConfigError(
            f"topic {topic!r} holds no JSON objects ({bad} other records); feed it first or give "
            "a file"
        )
    if bad:
        typer.echo(f"{bad} records that are no JSON objects were passed over", err=True)
    if not keyed and not all(ID in record for record in records):
        typer.echo(
            f"some records have neither a field {ID!r} nor a key: they will be dead letters "
            "unless [input] id names another field",
            err=True,
        )
    return records


def _check_label(label: str, records: Records, source: str) -> None:
    if any(_at(record, label) is not None for record in records):
        return
    near = get_close_matches(label, {name for record in records for name in record}, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "name a field that the records have"
    raise ConfigError(f"no field {label!r} in {len(records)} records of {source}; {hint}")


def _at(record: Mapping[str, Any], path: str) -> Any:
    value: Any = record
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _origin(
    source: str,
    file: Path | None,
    name: str,
    label: str | None,
    labels: str | None,
    transport: str | None,
    output: Path,
    n: int,
) -> Source:
    from consumers.config.propose import Source

    sample = f"{n:,} records of {file.name if file else source}"
    if file is None:
        url = _relative(transport or "", output.parent)
        return Source(name, url, source, labels, label, sample)
    # `produce` sends the file's labels to a topic of their own, later: as they come in life.
    topic = labels or (f"{name}-labels" if label else None)
    url = _relative(transport, output.parent) if transport else f"sqlite:{name}.db"
    return Source(name, url, name, topic, None, sample)


def _relative(url: str, directory: Path) -> str:
    """A sqlite path of the command line as the configuration in `directory` has to name it."""
    scheme, _, path = url.partition(":")
    if scheme != "sqlite" or Path(path).is_absolute():
        return url
    return f"sqlite:{os.path.relpath(path, directory)}"


def _explain(
    source: str, records: Records, fields: Sequence[Inferred], label: str | None, choice: Choice
) -> None:
    typer.echo(f"{source}: {len(records):,} records sampled")
    width = max(len(field.name) for field in fields)
    for field in fields:
        typer.echo(f"  {field.name:<{width}}  {field.kind or 'left out':<11}  {field.why}")
    if label:
        typer.echo(_label_line(label, records))
    else:
        likely = [f.name for f in fields if f.name.lower() in LIKELY_LABELS]
        if likely:
            typer.echo(f"is {likely[0]!r} the label? then say --label {likely[0]}")
    typer.echo(f"model {choice.model}: {choice.why}")
    for remark in choice.remarks:
        typer.echo(f"  {remark}")


def _label_line(label: str, records: Records) -> str:
    values = [v for v in (_at(record, label) for record in records) if v is not None]
    wrong = sum(1 for v in values if not isinstance(v, str | int))
    if wrong:
        return (
            f"label {label}: {wrong} of {len(values)} values are neither text, integer nor truth "
            "value; such labels become dead letters"
        )
    counts = Counter(str(v) for v in values).most_common()
    shown = ", ".join(f"{value} {count}" for value, count in counts[:5])
    more = f" and {len(counts) - 5} more" if len(counts) > 5 else ""
    return f"label {label}: {len(counts)} classes: {shown}{more}"


def _next_steps(origin: Source, file: Path | None, label: str | None, output: Path) -> list[str]:
    config = shlex.quote(str(output))
    check = f"headwater check {config} --create"
    run = f"headwater run {config}"
    if file is None:
        return [check, run]
    produce = f"headwater produce {origin.observations} {shlex.quote(str(file))} --config {config}"
    if label:
        produce += f" --label-topic {origin.labels} --label {shlex.quote(label)} --delay 50"
    return [
        f"{check}    # makes the topics",
        f"{produce}    # all at once",
        f"{run}    # learns, and waits for more",
        f"{produce} --rate 50    # or this instead, in another terminal, to watch it learn",
    ]
