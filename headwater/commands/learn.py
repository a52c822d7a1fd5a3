"""`headwater learn`: mails that people call spam or ham, as observations and labels.

Rule: a mail is predicted before its label is learned, and its label before the next mails are
predicted. So the scores of the service are those of a filter that learns as mails come, and its
budget of false positives gets evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from headwater.commands.asking import URL, FieldOption, SpamLabelOption, TokenOption, UrlOption
from headwater.commands.asking import client as client_of
from headwater.commands.mailboxes import DAYS, STDIN, Mail, Mailboxes, Side

if TYPE_CHECKING:
    from headwater.client import Client

__all__ = ["learn"]

RETRIES = 100  # within the timeout: a service that starts is asked again
FIRST, MOST = 1, 64  # mails of a chunk, which doubles: the first labels teach the most
MOST_BYTES = 4 * 2**20  # of the mails of a chunk
REMEMBERED = 1_000_000  # ids of one call, to notice a mail that comes twice


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
    older_than: Annotated[
        float, typer.Option(min=0.0, metavar="DAYS", help="Of a mailbox, only mail so old; 0: all.")
    ] = DAYS,
    unread: Annotated[bool, typer.Option("--unread", help="Also ham that was not read.")] = False,
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

    A mailbox, which is a Maildir or an mbox with flags, gives what people have decided: ham that
    was read, mail that is some days old, and at once spam that headwater called ham or unsure,
    because a person has moved it. Other directories and files, and stdin, give all they have.

    \b
    Examples:
      headwater learn --spam ~/Maildir/.Junk --ham ~/Maildir
      headwater learn --spam corpus/spam --ham ~/Maildir --older-than 0 --unread
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
    sides = [Side(spam or (), spam_label, spam=True), Side(ham or (), ham_label, spam=False)]
    boxes = Mailboxes(older_than, unread)
    done = Counts({spam_label: 0, ham_label: 0})
    try:
        with client_of(url, token, timeout, RETRIES, reporter_field) as client:
            for counts in _learned(client, boxes.mails(sides), field, reporter, done):
                done = counts
    except HeadwaterError as error:
        if sum(done.labels.values()):
            error.args = (f"{error}; {_summary(done, boxes.skipped)} before; run it again",)
        raise
    if not (sum(done.labels.values()) or done.repeated or boxes.skipped):
        raise ConfigError("expected a mail, got none; check what is given")
    typer.echo(_summary(done, boxes.skipped))


def _learned(
    client: Client,
    mails: Iterator[Mail],
    field: str,
    reporter: str | None,
    counts: Counts,
) -> Iterator[Counts]:
    """Write all mails; yields what was done so far."""
    from consumers.commands.meter import Meter
    from headwater.mail import mail_record

    seen: dict[str, str] = {}
    with Meter("mails sent", None) as meter:
        for chunk in _chunks(mails):
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


def _summary(counts: Counts, skipped: Counter[str]) -> str:
    """The counts in one line.

    Examples
    --------
    >>> _summary(Counts({"spam": 2, "ham": 1_000}, both=1), Counter())
    'sent: 2 as spam, 1,000 as ham; 1 came with both labels, the last one counts'
    >>> _summary(Counts({"spam": 2, "ham": 9}), Counter({"unread": 3}))
    'sent: 2 as spam, 9 as ham; skipped: 3 unread (--unread takes them)'
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
    if skipped.total():
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in skipped.items() if n)
        how = {"unread": "--unread", "newer": "--older-than 0"}
        ways = [way for word, way in how.items() if any(r.startswith(word) for r in skipped)]
        takes = f" ({' and '.join(ways)} take{'s' * (len(ways) == 1)} them)" if ways else ""
        parts.append(f"skipped: {reasons}{takes}")
    return "sent: " + "; ".join(parts)


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
