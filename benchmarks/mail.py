"""Mails of 4 KB as documents: python -m benchmarks.mail [--write]

Each row is one kind of mail, read by one thread. Rates are of processor time, the best of several
rounds over different mails, so that other work on the machine counts little. `document` is all that
the service does with the bytes of a mail before the learner: parts, text of HTML, links and their
domains, words of headers. `columns` also makes columns of a block, and `learned` also scores and
learns them with a `SpamScorer`, every second one as spam. `parts` is the reader of parts
alone, `email` the standard library's `message_from_bytes` alone, which decodes no part.
"""

from __future__ import annotations

import argparse
import email
import random
import time
from collections.abc import Callable, Iterator, Sequence
from email.message import EmailMessage
from email.policy import SMTP

from benchmarks.performance import put
from consumers.codecs.json import JsonObservations
from consumers.codecs.raw import RawDocuments
from consumers.codecs.registry import wire_format
from consumers.mail.document import mail_document
from consumers.mail.fields import FIELDS
from consumers.mail.parts import mail_parts
from stream import SpamScorer
from stream.data.block import PREDICT_THEN_LEARN, Block
from stream.data.rows import Rows
from stream.data.schema import Field, Schema

SIZE = 4096  # bytes of a mail, about
BLOCK = 200  # mails that are learned at once
RECEIVED = (
    "from mx{n}.example.net (mx{n}.example.net [192.0.2.{n}]) by mail.example.org (Postfix) with "
    "ESMTPS id 4ABCDEF{n} for <user@example.org>; Tue, 24 Nov 2026 10:00:00 +0000 (UTC)"
)
DKIM = (
    "v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.net; s=sel; h=from:to:subject; "
    "bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=; b=dzdVyOfAKCdLXdJOc9G2q8LoXSlEniSbav+yuU4z"
)


def text(rng: random.Random, size: int) -> str:
    """Lines of words, of which few are frequent."""
    lines, left = [], size
    while left > 0:
        words = ["w" * (1 + int(rng.expovariate(0.2))) + str(int(rng.paretovariate(0.6)) % 10**5)]
        while sum(map(len, words)) + len(words) < min(70, left):
            words.append(f"{'abcdefghij'[rng.randrange(10)]}{int(rng.paretovariate(0.6)) % 10**5}")
        lines.append(" ".join(words))
        left -= len(lines[-1]) + 2
    return "\n".join(lines) + "\n"


def page(rng: random.Random, size: int) -> str:
    """A table as newsletters have it: a tag for about 60 bytes, and some links."""
    rows, made = [], 0
    while made < size:
        words = text(rng, 90).strip().replace("\n", " ")
        row = f'<tr><td style="color:#333"><b>{words[:20]}</b>{words[20:]}</td></tr>\n'
        if rng.random() < 0.3:
            host = f"www.shop{rng.randrange(1000)}.example.co.uk"
            row += f'<tr><td><a href="https://{host}/p/{rng.randrange(9999)}?id=1">go</a></td></tr>'
        rows.append(row)
        made += len(row)
    return f"<html><head><style>p {{margin:0}}</style></head><body><table>{''.join(rows)}</table>"


def mail(rng: random.Random, kind: str) -> bytes:
    """A mail of about `SIZE` bytes."""
    message = EmailMessage(SMTP)
    for n in range(2):
        message["Received"] = RECEIVED.format(n=rng.randrange(250) + n)
    message["DKIM-Signature"] = DKIM
    message["Message-ID"] = f"<{rng.getrandbits(64):x}@example.net>"
    message["Date"] = "Tue, 24 Nov 2026 10:00:00 +0000"
    message["From"] = f"Jürgen <info{rng.randrange(99)}@shop.example.net>"
    message["To"] = "user@example.org"
    message["Subject"] = f"Your order {rng.randrange(10**6)} is ready"
    message["X-Mailer"] = "Outlook 16.0"
    left = SIZE - 1100
    if kind == "html":
        message.set_content(page(rng, left * 3 // 4 - 200), subtype="html", cte="base64")
    elif kind == "plain":
        message.set_content(text(rng, left) + "https://example.org/a\n", cte="8bit")
    else:
        message.set_content(text(rng, left // 3), cte="quoted-printable")
        message.add_alternative(page(rng, left * 2 // 3 - 300), subtype="html", cte="8bit")
    return message.as_bytes()


def columns() -> Callable[[Sequence[bytes]], Rows]:
    """Reads mails into columns, as a shard does."""
    schema = Schema(tuple(Field(name, kind) for name, kind in sorted(FIELDS.items())))
    wire = wire_format("mail")
    decoder = JsonObservations(
        schema, "id", None, documents=RawDocuments(wire), identified=wire.identified
    )
    return lambda values: decoder.decode([b"k"] * len(values), values).rows


def learned() -> Callable[[Sequence[bytes]], object]:
    """Reads mails, and scores each before it is learned."""
    read, model = columns(), SpamScorer()

    def every(values: Sequence[bytes]) -> None:
        for first in range(0, len(values), BLOCK):
            rows = model.prepare(read(values[first : first + BLOCK]))
            labels = ["spam" if i % 2 else "ham" for i in range(len(rows))]
            model.run(Block.of(rows, PREDICT_THEN_LEARN, labels))

    return every


def each(read: Callable[[bytes], object]) -> Callable[[Sequence[bytes]], object]:
    """Reads mails one by one."""

    def every(values: Sequence[bytes]) -> None:
        for value in values:
            read(value)

    return every


READERS: dict[str, Callable[[Sequence[bytes]], object]] = {
    "document": each(mail_document),
    "columns": columns(),
    "learned": learned(),
    "parts": each(mail_parts),
    "email": each(email.message_from_bytes),
}


def lines(count: int, rounds: int) -> Iterator[str]:
    """The table."""
    # As the tables of a learner in a service: after it glibc keeps memory that a mail gives back.
    bytearray(1 << 23)
    yield f"{count:,} mails of each kind; the best of {rounds} rounds; mails a second."
    yield ""
    yield f"| mail | bytes | {' | '.join(READERS)} |"
    yield f"|---|---|{'---|' * len(READERS)}"
    for kind in ("plain", "alternative", "html"):
        rng = random.Random(1)  # noqa: S311  the same mails each time
        values = [mail(rng, kind) for _ in range(count)]
        rates = []
        for read in READERS.values():
            best = 1e9
            for _ in range(rounds):
                began = time.process_time()
                read(values)
                best = min(best, time.process_time() - began)
            rates.append(f"{count / best:,.0f}")
        yield f"| {kind} | {sum(map(len, values)) // count:,} | {' | '.join(rates)} |"


def main() -> None:
    """Run and print; with --write also into docs/performance.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mails", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    made = list(lines(asked.mails, asked.rounds))
    print("\n".join(made))  # noqa: T201
    if asked.write:
        put("mail", made)


if __name__ == "__main__":
    main()
