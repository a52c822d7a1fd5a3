"""`headwater init --spam`: a spam filter's configuration, written before there are mails."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from consumers.base.errors import ConfigError
from consumers.commands.proposal import check_new, checked_name, write

__all__ = ["BudgetOption", "SpamOption", "write_filter"]

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
    from consumers.config.spam import MIN_LEARNED, spam_filter
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
