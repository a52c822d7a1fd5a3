"""`headwater sample`: write a sample file, so that the documentation can be followed.

Payments, a few of them fraud, are computed, not copied, so everybody may use them. Rule: the same
records on every machine and in every version of Python. So every number comes from `Random.random`,
whose sequence Python guarantees, and is rounded far above the last bit. From payment `CHANGE` on,
fraud looks different, as it does where fraudsters learn too.
"""

from __future__ import annotations

import csv
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from math import cos, exp, log, pi, sqrt
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer

from consumers.base.errors import ConfigError
from consumers.demo.data import FEEDS, bundled

__all__ = ["CHANGE", "RECORDS", "Sample", "as_csv", "payments", "sample", "samples"]

RECORDS = 4_000
CHANGE = 2_500
SEED = 2026

COUNTRIES = (("DE", 30), ("FR", 18), ("NL", 12), ("PL", 10), ("SE", 8), ("US", 8), ("BR", 5))
CHANNELS = (("app", 45), ("web", 35), ("shop", 15), ("phone", 5))
RISKY = {"BR": 2.5, "US": 1.5}  # log-odds that a country adds
HASTY = (2.0, 0.5)  # log-odds an attempt adds, before and after the change
GUESTS = 0.15  # share of payments without an account


def payments() -> Iterator[dict[str, object]]:
    """The payments in their order, with the label `fraud`.

    Examples
    --------
    >>> first = next(payments())
    >>> list(first)
    ['amount', 'country', 'channel', 'hour', 'attempts', 'account_days', 'new_device', 'fraud']
    """
    random = Random(SEED)  # noqa: S311  it has to be the same every time
    for number in range(RECORDS):
        yield _payment(random, changed=number >= CHANGE)


def _payment(random: Random, *, changed: bool) -> dict[str, object]:
    amount = round(exp(3.4 + 0.9 * _normal(random)), 2)
    country, channel = _one_of(random, COUNTRIES), _one_of(random, CHANNELS)
    hour = int(24 * (random.random() + random.random() + random.random()) / 3 + 3) % 24
    attempts = int(-log(1 - random.random()) / log(3.2))
    guest = random.random() < GUESTS
    account_days = int(exp(5.5 + 1.2 * _normal(random)))
    new_device = random.random() < (0.5 if guest else 0.12)
    odds = -6.0 + 1.7 * (log(amount) - 3.4) + HASTY[changed] * attempts
    odds += RISKY.get(country, 0.0) + 2.2 * new_device + 1.5 * (hour < 7)
    odds += 1.0 if guest else 0.9 * (5.5 - log(1 + account_days))
    odds += 4.0 * (channel == "phone") if changed else 0.4 * (channel == "web")
    return {
        "amount": amount,
        "country": country,
        "channel": channel,
        "hour": hour,
        "attempts": attempts,
        "account_days": None if guest else account_days,
        "new_device": new_device,
        "fraud": random.random() < 1 / (1 + exp(-odds)),
    }


def _normal(random: Random) -> float:
    """A normal number (Box and Muller 1958). `Random.gauss` may change between versions."""
    return sqrt(-2 * log(1 - random.random())) * cos(2 * pi * random.random())


def _one_of(random: Random, weighted: Sequence[tuple[str, int]]) -> str:
    left = random.random() * sum(weight for _, weight in weighted)
    for name, weight in weighted:
        left -= weight
        if left < 0:
            return name
    return weighted[-1][0]


Records = Iterator[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Sample:
    """Records with their labels inside, and what they are."""

    about: str
    label: str
    records: Callable[[], Records]


def samples() -> dict[str, Sample]:
    """All sample sets by name: one that is computed, and those that ship with river."""
    about = f"{RECORDS:,} payments, few of them fraud; fraud changes within the file"
    found = {"payments": Sample(about, "fraud", payments)}
    for name, (origin, label) in FEEDS.items():
        found[name] = Sample(origin, label, bundled(name).records)
    return found


def as_csv(records: Records) -> tuple[str, int]:
    """The records as the text of a CSV file, and their number.

    Examples
    --------
    >>> as_csv(iter([{"amount": 1.5, "fraud": True}, {"amount": None, "fraud": False}]))
    ('amount,fraud\\n1.5,true\\n,false\\n', 2)
    """
    text = StringIO()
    rows = csv.writer(text, lineterminator="\n")
    count = 0
    for record in records:
        if not count:
            rows.writerow(record)
        rows.writerow(map(_cell, record.values()))
        count += 1
    return text.getvalue(), count


def _cell(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


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
