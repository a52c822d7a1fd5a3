"""`headwater sample`: write a sample file, so that the documentation can be followed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from consumers.base.errors import ConfigError

__all__ = ["sample"]


def sample(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The sample; without it, a list of them.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write; default NAME.csv.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a sample file of records with labels, or list the samples. It needs no network.

    \b
    Examples:
      headwater sample
      headwater sample payments
    """
    from consumers.demo.samples import as_csv, samples

    known = samples()
    if name is None:
        if output is not None or force:
            raise ConfigError(f"expected a sample to write, one of {', '.join(known)}; got none")
        width = max(map(len, known))
        for each, one in known.items():
            typer.echo(f"{each:<{width}}  {one.about}; label {one.label}")
        typer.echo(f"\n`headwater sample {next(iter(known))}` writes one as a CSV file")
        return
    if name not in known:
        raise ConfigError(f"expected a sample of {', '.join(known)}, got {name!r}; use one of them")
    output = output or Path(f"{name}.csv")
    text, count = as_csv(known[name].records())
    _write(output, text, force=force)
    next_step = f"headwater init {shlex.quote(str(output))} --label {known[name].label}"
    typer.echo(f"{output}: {count:,} records; next: {next_step}")


def _write(output: Path, text: str, *, force: bool) -> None:
    """Write the file. One with the same content is kept, so that the command can be repeated."""
    try:
        if output.exists() and not force:
            if output.is_file() and output.read_bytes() == text.encode():
                return
            raise ConfigError(f"{output} exists; give --force to overwrite it or --output FILE")
        output.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise ConfigError(f"cannot write {output}: {error.strerror}; give --output FILE") from None
