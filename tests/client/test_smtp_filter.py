"""examples/smtp_filter.py between two mail servers, over SMTP."""

from __future__ import annotations

import asyncio
import runpy
import smtplib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from aiosmtpd.controller import Controller

from consumers.base.records import Outgoing
from headwater.mail import mail_key
from tests.kafka.broker import free_ports
from tests.waiting import PATIENCE, until
from tests.web.living import NOW, Living, living

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "smtp_filter.py"))
NOBODY = "http://127.0.0.1:9"
MAIL = b"Message-ID: <1@example.org>\r\nSubject: cheap pills\r\n\r\nbuy now\r\n.dot\r\n"


class Inbox:
    """The mail server that delivers."""

    def __init__(self) -> None:
        self.mails: list[tuple[str, list[str], bytes]] = []
        self.answer = "250 delivered"

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, to: str, _: Any) -> str:  # noqa: N802
        """One recipient does not exist."""
        if to.startswith("nobody"):
            return "550 5.1.1 no such user"
        envelope.rcpt_tos.append(to)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        """Take the mail, or refuse it."""
        if self.answer.startswith("2"):
            mail = (envelope.mail_from, list(envelope.rcpt_tos), envelope.original_content)
            self.mails.append(mail)
        return self.answer


@pytest.fixture
def inbox() -> Iterator[tuple[Inbox, int]]:
    """It, and its port."""
    taken = Inbox()
    (port,) = free_ports(1)
    controller = Controller(taken, "127.0.0.1", port)
    controller.start()
    try:
        yield taken, port
    finally:
        controller.stop()


@contextmanager
def filtering(following: int, url: str) -> Iterator[smtplib.SMTP]:
    """A session with the filter."""
    started: Queue[tuple[str, int]] = Queue()
    stop = threading.Event()

    async def run() -> None:
        listen, to = ("127.0.0.1", 0), ("127.0.0.1", following)
        async with EXAMPLE["serving"](listen, to, url) as server:
            started.put(server.sockets[0].getsockname())
            await asyncio.to_thread(stop.wait)
            while len(asyncio.all_tasks()) > 1:  # sessions that end
                await asyncio.sleep(0.01)

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="filter")
    thread.start()
    try:
        with smtplib.SMTP(*started.get(timeout=PATIENCE), timeout=PATIENCE) as session:
            yield session
    finally:
        stop.set()
        thread.join()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    """A spam filter after a few labels."""
    path = tmp_path_factory.mktemp("smtp")
    kind = {"wire": "mail", "model": "MultinomialNB", "features": 'subject = "text"'}
    with living(path, more='[serve]\nmax_age = "10ms"', **kind) as running:
        for n, subject in enumerate([b"cheap pills", b"minutes"] * 5):
            value = b"Subject: " + subject + b"\n\n"
            label = b'{"id": "%d", "label": "%s"}' % (n, (b"spam", b"ham")[n % 2])
            running._feed.append([Outgoing("obs", b"%d" % n, value, NOW + 10 * n, (), 0)])
            running._feed.append([Outgoing("ans", None, label, NOW + 10 * n + 5, (), 0)])
        feed = running.status_feed
        until(lambda: (c := feed.copies.newest) is not None and c.learned == 10)
        yield running


def test_mail_goes_on_with_a_verdict(service: Living, inbox: tuple[Inbox, int]) -> None:
    """Two of them in one session, with the sender, the recipients and every byte."""
    taken, port = inbox
    with filtering(port, service.url) as session:
        session.sendmail("a@example.org", ["b@example.org", "c@example.org"], MAIL)
        session.sendmail("a@example.org", ["b@example.org"], b"Subject: minutes\r\n\r\nx\r\n")
    (first, second) = taken.mails

    assert first[:2] == ("a@example.org", ["b@example.org", "c@example.org"])
    assert first[2].startswith(b"X-Headwater: spam score=0.9")
    assert first[2].endswith(MAIL)
    assert mail_key(first[2]) == mail_key(MAIL)
    assert second[2].startswith(b"X-Headwater: ham")


def test_mail_passes_unchanged_without_headwater(inbox: tuple[Inbox, int]) -> None:
    """A mail server does not wait for a filter that is being updated."""
    taken, port = inbox
    with filtering(port, NOBODY) as session:
        session.sendmail("a@example.org", ["b@example.org"], MAIL)

    assert taken.mails == [("a@example.org", ["b@example.org"], MAIL)]


def test_answers_are_those_of_the_next_server(service: Living, inbox: tuple[Inbox, int]) -> None:
    """A recipient that it refuses, and a mail that it refuses now or for ever."""
    taken, port = inbox
    with filtering(port, service.url) as session:
        refused = session.sendmail("a@x.org", ["nobody@example.org", "b@example.org"], MAIL)
        for answer in ("452 4.3.1 the disk is full", "554 5.7.1 never"):
            taken.answer = answer
            with pytest.raises(smtplib.SMTPDataError) as caught:
                session.sendmail("a@example.org", ["b@example.org"], MAIL)

            assert caught.value.smtp_code == int(answer[:3])

    assert refused == {"nobody@example.org": (550, b"5.1.1 no such user")}
    assert [mail[1] for mail in taken.mails] == [["b@example.org"]]


def test_sender_keeps_the_mail_when_the_next_server_is_away(service: Living) -> None:
    """451: it tries again."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # nobody listens on it, and nobody else can
        port = held.getsockname()[1]
        with (
            filtering(port, service.url) as session,
            pytest.raises(smtplib.SMTPException) as caught,
        ):
            session.sendmail("a@example.org", ["b@example.org"], MAIL)

    assert caught.value.smtp_code == 451  # type: ignore[attr-defined]
