"""Mails of 4 KB as documents, and verdicts on them: python -m benchmarks.mail [--write]

Each row of the first table is one kind of mail, read by one thread. Rates are of processor time,
the best of several rounds over different mails, so that other work on the machine counts little.
`document` is all that the service does with the bytes of a mail before the learner: parts, text of
HTML, links and their domains, words of headers. `columns` also makes columns of a block, and
`learned` also scores and learns them with a `SpamScorer`, every second one as spam. `parts` is the
reader of parts alone, `email` the standard library's `message_from_bytes` alone.

Then a service as `init --spam` configures it learns 1,400 mails, and clients ask `POST /checkv2`
about others, each client as soon as it has its last answer. `CPU` is the processor time of the
service for a mail, the best of several rounds. Labels come one by one, and the time until a verdict
knows one counts from its append to the log. Clients and service share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import email
import json
import random
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import NamedTuple

from benchmarks.performance import percentile, put
from consumers.base.records import Outgoing
from consumers.codecs.json import JsonObservations
from consumers.codecs.raw import RawDocuments
from consumers.codecs.registry import wire_format
from consumers.config.propose import spam_filter
from consumers.mail.document import mail_document
from consumers.mail.fields import FIELDS
from consumers.mail.parts import mail_parts
from consumers.transports import open_log
from stream import SpamScorer
from stream.data.block import PREDICT_THEN_LEARN, Block
from stream.data.rows import Rows
from stream.data.schema import Field, Schema
from tests.acceptance.service import Service, processor_seconds

KINDS = ("plain", "alternative", "html")
KNOWN = 1_400  # labelled mails of the service
CLIENTS = (1, 64)
LABELS = 12  # one after the other, of each row
PATIENCE = 120.0
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
    for kind in KINDS:
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


class Asked(NamedTuple):
    """Mails that clients asked about: how many in a second, and processor seconds for one."""

    rate: float
    processor: float


class Filter:
    """A running spam filter, and the log that feeds it."""

    def __init__(self, service: Service, transport: str) -> None:
        self._service, self._transport = service, transport
        self.address = service.wait_said(r"http://([\d.]+):(\d+)").group(1, 2)
        self._rng, self.labels = random.Random(2), 0  # noqa: S311
        self.asked = [mail(self._rng, KINDS[i % 3]) for i in range(300)]

    def learn(self, count: int) -> None:
        """Append mails with labels. Every second one is spam, and says so."""
        out = []
        for n in range(self.labels, self.labels + count):
            label = ("ham", "spam")[n % 2]
            value = mail(self._rng, KINDS[n // 2 % 3]).replace(b"Your order", label.encode(), 1)
            told = json.dumps({"id": str(n), "label": label}).encode()
            now = time.time_ns() // 1_000_000
            out.append(Outgoing("spam-mail", b"%d" % n, value, now))
            out.append(Outgoing("spam-labels", b"%d" % n, told, now))
        self.labels += count
        with closing(open_log(self._transport)) as log:
            log.append(out)

    def knows(self) -> int:
        """How many labels the model of a verdict has learned."""
        host, port = self.address
        url = f"http://{host}:{port}/checkv2"
        with urllib.request.urlopen(url, b"Subject: hi\n\nhi\n", timeout=PATIENCE) as answer:
            (symbol,) = json.load(answer)["symbols"].values()
        return int(symbol["description"].partition(", ")[2].split()[0])

    def waited(self) -> float:
        """Seconds until a verdict knows all labels."""
        began = time.perf_counter()
        while self.knows() < self.labels:
            if time.perf_counter() - began > PATIENCE:
                raise SystemExit("the verdicts do not know a label")
            time.sleep(0.02)
        return time.perf_counter() - began

    async def _client(self, number: int, stop: Callable[[], bool]) -> int:
        reader, writer = await asyncio.open_connection(*self.address)
        turn = number * 7
        while not stop():
            value = self.asked[turn % len(self.asked)]
            head = b"POST /checkv2 HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"
            writer.write(head % len(value) + value)
            header = await reader.readuntil(b"\r\n\r\n")
            if not header.startswith(b"HTTP/1.1 200"):
                raise SystemExit(header.decode())
            await reader.readexactly(int(header.lower().split(b"content-length: ")[1].split()[0]))
            turn += 1
        writer.close()
        return turn - number * 7

    def ask(self, clients: int, stop: Callable[[], bool]) -> Asked:
        """Ask until `stop`."""

        async def every() -> int:
            return sum(await asyncio.gather(*(self._client(i, stop) for i in range(clients))))

        began, used = time.perf_counter(), processor_seconds(self._service.pid)
        count = asyncio.run(every())
        seconds, used = time.perf_counter() - began, processor_seconds(self._service.pid) - used
        return Asked(count / seconds, used / count)

    def for_seconds(self, clients: int, seconds: float) -> Asked:
        """Ask for some seconds."""
        until = time.perf_counter() + seconds
        return self.ask(clients, lambda: time.perf_counter() >= until)

    @contextmanager
    def beside(self, clients: int) -> Iterator[None]:
        """So many clients ask meanwhile."""
        end = threading.Event()
        load = threading.Thread(target=self.ask, args=(clients, end.is_set))
        if clients:
            load.start()
        try:
            yield
        finally:
            end.set()
            if clients:
                load.join()


@contextmanager
def running() -> Iterator[Filter]:
    """A filter that knows `KNOWN` mails."""
    with tempfile.TemporaryDirectory() as directory:
        file, transport = Path(directory, "spam.toml"), f"sqlite:{directory}/spam.db"
        text = spam_filter("spam", "mail", 0.01, corrections=True)
        text = text.replace('"sqlite:spam.db"', json.dumps(transport)).replace("8321", "0")
        file.write_text(text)
        with closing(open_log(transport)) as log:
            for topic in ("spam-mail", "spam-labels"):
                log.create_topic(topic, 1)
        with Service(file) as service:
            made = Filter(service, transport)
            service.wait_said("live at journal record", PATIENCE)
            made.learn(KNOWN)
            made.waited()
            yield made
            service.terminate()


def verdicts(seconds: float, rounds: int) -> Iterator[str]:
    """What verdicts cost, and how soon one knows a label."""
    with running() as service:
        yield "| clients | mails/s | CPU a mail |"
        yield "|---|---|---|"
        for clients in CLIENTS:
            runs = [service.for_seconds(clients, seconds) for _ in range(rounds)]
            best = min(run.processor for run in runs) * 1e3
            yield f"| {clients} | {max(run.rate for run in runs):,.0f} | {best:.2f} ms |"
        yield ""
        yield f"| a verdict knows a label, of {LABELS} | p50 | largest |"
        yield "|---|---|---|"
        for clients in (0, *CLIENTS):
            waits = []
            with service.beside(clients):
                for _ in range(LABELS):
                    service.learn(1)
                    waits.append(service.waited())
            beside = f"beside {clients} client{'s'[: clients > 1]}" if clients else "alone"
            yield f"| {beside} | {percentile(waits, 0.5):.2f} s | {max(waits):.2f} s |"


def main() -> None:
    """Run and print; with --write also into docs/performance.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mails", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--seconds", type=float, default=5.0, help="of clients, a round")
    asked = parser.parse_args()
    made = []
    for line in (*lines(asked.mails, asked.rounds), "", *verdicts(asked.seconds, asked.rounds)):
        print(line, flush=True)  # noqa: T201
        made.append(line)
    if asked.write:
        put("mail", made)


if __name__ == "__main__":
    main()
