"""`headwater learn`: mails that people call spam or ham, as observations and labels.

Rule: a mail is predicted before its label is learned, and its label before the next mails are
predicted. So the scores of the service are those of a filter that learns as mails come, and its
budget of false positives gets evidence.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from headwater.commands.asking import URL, FieldOption, SpamLabelOption, TokenOption, UrlOption
from headwater.commands.asking import client as client_of

if TYPE_CHECKING:
    from headwater.client import Client

__all__ = ["learn"]

STDIN = "-"
RETRIES = 100  # within the timeout: a service that starts is asked again
FIRST, MOST = 1, 64  # mails of a chunk, which doubles: the first labels teach the most
MOST_BYTES = 4 * 2**20  # of the mails of a chunk
REMEMBERED = 1_000_000  # ids of one call, to notice a mail that comes twice


class Mail(NamedTuple):
    """A mail and its label."""

    value: bytes
    label: str


class Counts(NamedTuple):
    """What a call did: labels written by label, mails that the service knew, and mails that came
    twice, with the same label and with another."""

    labels: dict[str, int]
    known: int = 0
    repeated: int = 0
    both: int = 0


def learn(
    spam: Annotated[
        list[str] | None,
        typer.Option("--spam", metavar="PLACE", help="Mails that are spam; may be repeated."),
    ] = None,
    ham: Annotated[
        list[str] | None,
        typer.Option("--ham", metavar="PLACE", help="Mails that are not; may be repeated."),
    ] = None,
    url: UrlOption = URL,
    timeout: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="For each answer; default 30.")
    ] = 30.0,
    token: TokenOption = None,
    field: FieldOption = "mail",
    spam_label: SpamLabelOption = "spam",
    ham_label: Annotated[
        str, typer.Option(metavar="LABEL", help="The label of other mails; by default ham.")
    ] = "ham",
    reporter: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Who calls them so, for a service with reporters."),
    ] = None,
    reporter_field: Annotated[
        str, typer.Option(metavar="FIELD", help="Its [labels] reporter; by default reporter.")
    ] = "reporter",
) -> None:
    """Write mails and their labels to a running service. Each of them may be sent again.

    PLACE is a folder of a Maildir (its cur and new, not the folders in it), an mbox, a file with
    one mail, or - for stdin, which has a mail or an mbox. With --spam and --ham together, mails of
    both are learned in turn, which is better than one folder after the other.

    \b
    Examples:
      headwater learn --spam ~/Maildir/.Junk --ham ~/Maildir
      headwater learn --spam < mail    # or to correct: it was learned as ham
      headwater learn --spam --reporter ann < mail
    """
    from consumers.base.errors import ConfigError, HeadwaterError

    if not (spam or ham):
        raise ConfigError("expected --spam PLACE or --ham PLACE, got none; - is stdin")
    if [*(spam or ()), *(ham or ())].count(STDIN) > 1:
        raise ConfigError("stdin can be given once")
    if spam_label == ham_label:
        raise ConfigError(f"expected two labels, got {spam_label!r} twice")
    sides = [_files(spam or (), spam_label), _files(ham or (), ham_label)]
    done = Counts({spam_label: 0, ham_label: 0})
    try:
        with client_of(url, token, timeout, RETRIES, reporter_field) as client:
            for counts in _learned(client, sides, field, reporter, done):
                done = counts
    except HeadwaterError as error:
        if sum(done.labels.values()):
            error.args = (f"{error}; {_summary(done)} before; run it again",)
        raise
    if not (sum(done.labels.values()) or done.repeated):
        raise ConfigError("expected a mail, got none; check what is given")
    typer.echo(_summary(done))


def _learned(
    client: Client,
    sides: Sequence[list[tuple[Path | None, str]]],
    field: str,
    reporter: str | None,
    counts: Counts,
) -> Iterator[Counts]:
    """Write all mails; yields what was done so far."""
    from consumers.commands.meter import Meter
    from headwater.mail import mail_record

    seen: dict[str, str] = {}
    with Meter("mails sent", None) as meter:
        for chunk in _chunks(_in_turn(sides)):
            records = {}
            for mail in chunk:
                record = mail_record(mail.value, field)
                before = seen.get(record["id"])
                if before == mail.label:
                    counts = counts._replace(repeated=counts.repeated + 1)
                    continue
                if before is not None:
                    counts = counts._replace(both=counts.both + 1)
                if len(seen) < REMEMBERED:
                    seen[record["id"]] = mail.label
                records[record["id"]] = (record, mail.label)
            new = [r for id_, (r, _) in records.items() if client.prediction(id_) is None]
            client.observe_many(new)
            given = [label for _, label in records.values()]
            client.label_many(records, given, reporters=[reporter] * len(given))
            labels = dict(counts.labels)
            for _, label in records.values():
                labels[label] += 1
            counts = counts._replace(labels=labels, known=counts.known + len(records) - len(new))
            meter.advance(len(chunk))
            yield counts


def _summary(counts: Counts) -> str:
    """The counts in one line.

    Examples
    --------
    >>> _summary(Counts({"spam": 2, "ham": 1_000}, both=1))
    'sent: 2 as spam, 1,000 as ham; 1 came with both labels, the last one counts'
    """
    parts = [", ".join(f"{n:,} as {label}" for label, n in counts.labels.items())]
    if counts.known == 1:
        parts.append("1 was known, and only its label was written")
    elif counts.known:
        parts.append(f"{counts.known:,} were known, and only their labels were written")
    if counts.repeated:
        parts.append(f"{counts.repeated:,} came twice")
    if counts.both:
        parts.append(f"{counts.both:,} came with both labels, the last one counts")
    return "sent: " + "; ".join(parts)


def _files(places: Sequence[str], label: str) -> list[tuple[Path | None, str]]:
    """The files of some places with the label of their mails; None for stdin."""
    from consumers.base.errors import ConfigError

    out: list[tuple[Path | None, str]] = []
    for place in places:
        path = Path(place).expanduser()
        if place == STDIN:
            out.append((None, label))
        elif path.is_dir():
            folders = [path / name for name in ("cur", "new") if (path / name).is_dir()]
            found = _listed(folders or [path])
            if not found:
                raise ConfigError(f"{place}: the directory has no mails; check the name")
            out += [(each, label) for each in found]
        elif path.is_file():
            out.append((path, label))
        else:
            raise ConfigError(f"{place}: no such file or directory; check the name")
    return out


def _listed(folders: Sequence[Path]) -> list[Path]:
    """The files of some folders, the oldest first."""
    found = [f for folder in folders for f in folder.iterdir() if not f.name.startswith(".")]
    return sorted((f for f in found if f.is_file()), key=lambda f: (f.stat().st_mtime, f.name))


def _in_turn(sides: Sequence[list[tuple[Path | None, str]]]) -> Iterator[Mail]:
    """The mails of all sides: the next one is of the side of which the least share was read."""
    totals = [sum(f.stat().st_size if f else 1 for f, _ in side) or 1 for side in sides]
    waiting = {n: _mails(side) for n, side in enumerate(sides)}
    read = [0] * len(sides)
    while waiting:
        n = min(waiting, key=lambda n: (read[n] / totals[n], n))
        mail = next(waiting[n], None)
        if mail is None:
            del waiting[n]
            continue
        read[n] += len(mail.value)
        yield mail


def _mails(files: Sequence[tuple[Path | None, str]]) -> Iterator[Mail]:
    """The mails of some files: an mbox begins with a line `From …`."""
    from consumers.base.errors import ConfigError
    from consumers.files.mails import mails_in
    from headwater.mail import LARGEST

    for path, label in files:
        try:
            stream = BytesIO(sys.stdin.buffer.read()) if path is None else path.open("rb")
            with stream:
                start = stream.read(5)
                stream.seek(0)
                values = mails_in(stream) if start == b"From " else iter([stream.read(LARGEST)])
                yield from (Mail(value, label) for value in values if value)
        except FileNotFoundError:
            continue  # a mail program has moved it meanwhile
        except OSError as error:
            raise ConfigError(f"{path or 'stdin'}: cannot be read ({error.strerror})") from None


def _chunks(mails: Iterator[Mail]) -> Iterator[list[Mail]]:
    """Chunks of mails, each twice as long as the one before."""
    most, size, chunk = FIRST, 0, list[Mail]()
    for mail in mails:
        chunk.append(mail)
        size += len(mail.value)
        if len(chunk) >= most or size >= MOST_BYTES:
            yield chunk
            most, size, chunk = min(2 * most, MOST), 0, []
    if chunk:
        yield chunk
