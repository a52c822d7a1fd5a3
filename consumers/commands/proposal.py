"""What `init` proposes: the name of the configuration, its place and its log, the field of the id
with what is odd about it, and with `--spam` a filter's configuration, written before there are
mails.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consumers.base.counts import counted
from consumers.base.errors import ConfigError
from consumers.base.fields import field_of, name_of
from consumers.offline.lateness import FEWEST
from consumers.transports.registry import local_path

if TYPE_CHECKING:
    from consumers.commands.sampled import Sampled

__all__ = [
    "ID",
    "BudgetOption",
    "NameOption",
    "OutputOption",
    "SpamOption",
    "about_changes",
    "check_directory",
    "check_new",
    "checked_name",
    "doubts",
    "id_of_records",
    "no_field",
    "quoted",
    "relative",
    "write",
    "write_filter",
]

NameOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Name of the service; by default that of the source."),
]
OutputOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="File to write; default NAME.toml.")
]


def checked_name(name: str) -> str:
    """`name`, if it can be the name of a service."""
    from consumers.config.propose import service_name

    if name != service_name(name):
        raise ConfigError(
            f"expected --name of up to 100 letters, digits, '.', '_' and '-', got {name!r}; "
            f"for example --name {service_name(name)}"
        )
    return name


def check_new(output: Path, *, force: bool) -> None:
    """Reject a file that exists, unless it may be replaced."""
    if output.exists() and not force:
        raise ConfigError(f"{output} exists; give --force to overwrite it or --output FILE")


def write(output: Path, text: str) -> None:
    """Write the configuration."""
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as e:
        raise ConfigError(f"cannot write {output}: {e.strerror}; give --output FILE") from None


def check_directory(transport: str) -> None:
    """Reject a log that the next command could not create."""
    path = local_path(transport)
    directory = Path(path or "").parent
    if path is not None and not directory.is_dir():
        raise ConfigError(f"--transport {transport}: no directory {directory}; create it first")


def quoted(names: Iterable[str]) -> str:
    """Names of fields as a shell takes them, to choose from.

    Examples
    --------
    >>> quoted(["at", "Order Date"])
    "at or 'Order Date'"
    """
    return " or ".join(map(shlex.quote, names))


def relative(url: str, directory: Path) -> str:
    """A path of the command line, relative to the configuration in `directory`."""
    path = local_path(url)
    if path is None or Path(path).is_absolute():
        return url
    return f"{url.partition(':')[0]}:{os.path.relpath(path, directory)}"


Records = Sequence[Mapping[str, Any]]

ID = "id"
OLD = "key or id"
REPEATED = 0.05  # share of the records; more of them are about the same thing, not sent twice


def id_of_records(
    wanted: str | None, label: str | None, looked: Sampled, source: str, *, numbered: bool
) -> tuple[str, str | None]:
    """The field with the id, and a line about it. `numbered`: `produce` numbers records without."""
    from consumers.config.sample import SAMPLE_SIZE, likely_ids

    records, keyed = looked.records[:SAMPLE_SIZE], looked.keyed
    if wanted is None:
        if keyed or any(field_of(record, ID) is not None for record in records):
            repeated = _repeated(looked, ID)
            many = repeated > REPEATED * len(looked.records)
            if not many and not _never_meet(looked):
                return ID, _without_id(ID, records, keyed=keyed)
            better = _better(looked, label)
            if numbered:
                other = f"{quoted(better)} would use one" if better else "uses another field"
                return _number(looked.records), (
                    f"{repeated:,} of {counted(len(looked.records), 'record')} have the {ID} of an "
                    f"earlier one, so {ID} is a field like others: `produce` numbers the records; "
                    f"--id-field {other}"
                )
            return _instead(better, repeated, looked)
        found = likely_ids(looked.records, label)
        if len(found) == 1:
            [(name, why)] = found.items()
            return name, f"id {name}: {why}; --id-field uses another field"
        if found:
            return ID, f"no field {ID!r}; --id-field {quoted(found)} would use one"
        return ID, _without_id(ID, records, keyed=keyed)
    values = [name_of(field_of(record, wanted)) for record in records]
    there = [value for value in values if value is not None]
    if wanted == label:
        raise ConfigError(f"--id-field and --label are both {label!r}; name two fields")
    if not there:
        raise ConfigError(no_field(wanted, records, source))
    wrong = [v for v in there if isinstance(v, bool) or not isinstance(v, str | int) or v == ""]
    if wrong:
        raise ConfigError(
            f"--id-field {wanted}: expected text or integers, got {str(wrong[0])[:40]!r}; "
            "name another field"
        )
    return wanted, _without_id(wanted, records, keyed=keyed)


def _repeated(looked: Sampled, id_field: str) -> int:
    """How many records have the id of an earlier one."""
    there = [each for each in _ids(looked, id_field) if each is not None]
    return len(there) - len(set(there))


def _ids(looked: Sampled, id_field: str) -> list[str | None]:
    from consumers.commands.sampled import id_of

    keys = looked.keys or [None] * len(looked.records)
    return [id_of(r, key, id_field) for r, key in zip(looked.records, keys, strict=True)]


def _never_meet(looked: Sampled) -> bool:
    """Whether there are labels, and none has the id of a record."""
    return len(looked.labels) >= FEWEST and not looked.labels.keys() & set(_ids(looked, ID))


def _better(looked: Sampled, label: str | None) -> dict[str, str]:
    """Fields that are a better id than the field `id` and the key, each with the reason: those that
    have the ids of labels, else those whose values are all distinct."""
    from consumers.config.sample import likely_ids
    from consumers.offline.lateness import meeting_fields

    n, now = len(looked.labels), len(looked.labels.keys() & set(_ids(looked, ID)))
    meeting = meeting_fields(looked.records, looked.labels)
    meeting = {name: met for name, met in meeting.items() if met > max(now, 1) and name != ID}
    if n >= FEWEST and meeting:
        most = max(meeting.values())
        return {
            name: f"it has the ids of {met:,} of {counted(n, 'label')}, {OLD} of {now:,}"
            for name, met in meeting.items()
            if met == most
        }
    return {name: why for name, why in likely_ids(looked.records, label).items() if name != ID}


def _instead(better: Mapping[str, str], repeated: int, looked: Sampled) -> tuple[str, str | None]:
    """The id of a topic whose key and field `id` are no id, and a line about it."""
    what = (
        f"{repeated:,} of {counted(len(looked.records), 'record')} have the {OLD} of an earlier one"
    )
    if _never_meet(looked):
        mine = next((each for each in _ids(looked, ID) if each is not None), "")
        what = (
            f"none of {counted(len(looked.labels), 'label')} has the {OLD} of a record "
            f"({next(iter(looked.labels))!r:.40} and {mine!r:.40})"
        )
    if len(better) == 1:
        [(name, why)] = better.items()
        return name, f"id {name}: {why}; {what}; --id-field uses another field"
    if better:
        return ID, f"{what}; --id-field {quoted(better)} would use another field"
    return ID, f"{what}; --id-field names the field with the id of each record"


def _number(records: Records) -> str:
    """A name that no record has, for the numbers of the records."""
    taken = {name for record in records for name in record}
    return next(
        name for name in chain(["record"], map("record_{}".format, count(2))) if name not in taken
    )


def doubts(looked: Sampled, id_field: str) -> list[str]:
    """Warnings of few records, and of ids that repeat."""
    from consumers.config.sample import FEW_RECORDS

    n, repeated = len(looked.records), _repeated(looked, id_field)
    warnings = []
    if n < FEW_RECORDS:
        warnings.append(f"{counted(n, 'record')} cannot show what the fields are; give more")
    if repeated:
        warnings.append(
            f"id {id_field}: {repeated:,} of {counted(n, 'record')} have the id of an earlier one; "
            "such a record is predicted, and its label is not learned"
        )
    return warnings


def about_changes(looked: Sampled) -> list[str]:
    """A line about the change events whose rows are the records; [] without any."""
    if not looked.changes:
        return []
    counts = ", ".join(f"{op} {n:,}" for op, n in sorted(looked.events.items()))
    return [
        f"the records are change events of a table ({counts}): the rows of the operations "
        f"{' and '.join(looked.changes)} are the observations, others are ignored: [input] changes "
        "(docs/howto/change-data.md)"
    ]


def _without_id(name: str, records: Records, *, keyed: bool) -> str | None:
    """A line on records without an id; None if each has one."""
    n = sum(1 for record in records if field_of(record, name) is None)
    if keyed or not n:
        return None
    who = "the records have" if n == len(records) else f"{n} of {len(records)} records have"
    lack = f"{who} neither a field {name!r} nor a key"
    return f"{lack}: `produce` numbers them; --id-field uses another field"


def no_field(name: str, records: Records, source: str) -> str:
    from consumers.config.propose import hint

    names = sorted({name for record in records for name in record})
    if len(records) == 1 and (inside := _records_inside(records[0])) is not None:
        raise ConfigError(
            f"{source} is one object, whose field {inside!r} has a list of objects: write this "
            "list to a file, each object in a line"
        )
    of = f"{counted(len(records), 'record')} of {source}"
    return f"no field {name!r} in {of}; {hint(name, names)}"


def _records_inside(record: Mapping[str, Any]) -> str | None:
    """The field of an answer of an API that has the records; None without one.

    Examples
    --------
    >>> _records_inside({"next": None, "data": [{"id": 1}, {"id": 2}]})
    'data'
    """
    lists = {name: value for name, value in record.items() if isinstance(value, list) and value}
    return next((n for n, v in lists.items() if all(isinstance(x, dict) for x in v)), None)


BUDGET = 0.01

SpamOption = Annotated[
    bool, typer.Option("--spam", help="A spam filter in the directory FILE; --format text too.")
]
BudgetOption = Annotated[
    float | None,
    typer.Option(metavar="RATE", help="With --spam: most ham called spam; default 0.01."),
]


def write_filter(
    wanted: bool,
    directory: str | None,
    file_format: str | None,
    name: str | None,
    output: Path | None,
    budget: float | None,
    *,
    force: bool,
) -> None:
    """Write the configuration into a directory, and say what is next.

    Raises
    ------
    ConfigError
        A value is not valid, the file exists, or a budget was given for something else.
    """
    if not wanted:
        raise ConfigError("--budget is for a spam filter; give --spam too, or remove it")
    where = (Path(directory or "."), file_format or "mail", checked_name(name or "spam"))
    _written(*where, output, BUDGET if budget is None else budget, force=force)


def _written(
    directory: Path, what: str, name: str, output: Path | None, rate: float, *, force: bool
) -> None:
    from consumers.codecs.registry import lacks, wire_format
    from consumers.config.learner import ModelConfig
    from consumers.config.load import parse
    from consumers.config.propose import MIN_LEARNED, spam_filter
    from consumers.shard.models import build

    path = output or directory / f"{name}.toml"
    if all((path.parent / folder).is_dir() for folder in ("cur", "new")):
        raise ConfigError(
            f"{path.parent}: this is a Maildir; give another directory for the filter, because "
            "`headwater learn` reads the Maildir where it is"
        )
    check_new(path, force=force)
    can = build(ModelConfig(type="spam")).can_correct
    text = spam_filter(name, what, rate, corrections=can)
    if missing := lacks(wire_format(what)):
        raise ConfigError(f"--spam: a filter of {what} needs {missing}")
    config = parse(text, source=str(path), directory=path.parent)
    try:  # after all that can fail, so that no empty directory stays
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path.parent}: {error.strerror}; give another directory") from None
    write(path, text)
    shown = shlex.quote(str(path))
    rule = config.decision.budget
    needed = rule.needed if rule is not None else 0
    typer.echo(
        f"wrote {path}: spam, unsure or ham; nothing but unsure before {MIN_LEARNED} labels of "
        f"each, no spam before {needed:,} ham; next:"
    )
    typer.echo(f"  headwater check {shown} --create    # creates the topics")
    typer.echo(f"  headwater run {shown}    # in a terminal of its own")
    if what == "mail":
        typer.echo(
            "  headwater learn --spam ~/Maildir/.Junk --ham ~/Maildir    # then classify < mail"
        )
    else:
        fields = "--types text=text" if what == "json" else ""
        produce = f"headwater produce {config.input.observations} FILE --config {shown}"
        labels = f"--label-topic {config.input.labels} --label label --delay 1"
        typer.echo(f"  {' '.join(filter(None, [produce, labels, fields]))}    # texts with labels")
