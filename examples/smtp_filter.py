"""An SMTP content filter: a mail comes in, gets the verdict of headwater as a header, and goes on.

    python smtp_filter.py --listen 127.0.0.1:10025 --next 127.0.0.1:10026

Needs `pip install aiosmtpd`. docs/howto/mail-server.md has Postfix's lines.

No mail is lost, because this program keeps none: each command is passed to the next server, and its
answer is the answer. So the sender has the mail until the next server has it. If the next server
does not answer, the answer is 451, and the sender tries again. If headwater does not answer, the
mail goes on unchanged.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import smtplib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from aiosmtpd.smtp import SMTP, Envelope, Session

from headwater import AsyncClient
from headwater.mail import mail_record, stamped, verdict_of

LATER = "451 4.3.0 the next mail server does not answer; try again later"
MOST_BYTES = 64 * 2**20  # of a mail; a larger one is refused with 552
SECONDS = 300  # for each command at the next server
VERDICT_SECONDS = 10

log = logging.getLogger("smtp_filter")


class Filter:
    """The answers to the commands of one connection."""

    def __init__(self, following: tuple[str, int], client: AsyncClient) -> None:
        self._following, self._client = following, client
        self._next: smtplib.SMTP | None = None

    async def handle_MAIL(  # noqa: N802  aiosmtpd calls it so
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Open the same at the next server."""
        answer = await self._passed(self._opened, address, options)
        if answer.startswith("2"):
            envelope.mail_from = address
            envelope.mail_options.extend(options)
        return answer

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Only a recipient that the next server takes is taken."""
        answer = await self._passed(lambda: self._there().rcpt(address, options))
        if answer.startswith("2"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Add the verdict, hand the mail on, and answer what the next server answers."""
        value = await self._judged(envelope.original_content or b"")
        answer = await self._passed(lambda: self._there().data(value))
        self.close()
        return answer

    async def handle_RSET(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Forget what was begun."""
        self.close()
        return "250 OK"

    async def _judged(self, value: bytes) -> bytes:
        try:
            made = await self._client.predict(mail_record(value), explain=5)
            return stamped(value, verdict_of(made))
        except Exception as error:  # whatever it is, the mail goes on
            log.warning("no verdict, the mail goes on unchanged: %s", error)
            return value

    async def _passed(self, command: Callable[..., tuple[int, bytes]], *arguments: object) -> str:
        try:
            code, text = await asyncio.to_thread(command, *arguments)
        except smtplib.SMTPResponseException as error:
            code, text = error.smtp_code, error.smtp_error
        except (OSError, smtplib.SMTPException) as error:
            log.warning("the next server: %s", error)
            self.close()
            return LATER
        shown = text if isinstance(text, str) else text.decode("ascii", "replace")
        return f"{code} {' '.join(shown.split())}"

    def _opened(self, address: str, options: list[str]) -> tuple[int, bytes]:
        self.close()
        self._next = smtplib.SMTP(*self._following, timeout=SECONDS)
        self._next.ehlo()
        if "SMTPUTF8" in options and not self._next.has_extn("smtputf8"):
            return 550, b"5.6.7 the next mail server does not take SMTPUTF8"
        known = {"SMTPUTF8": "smtputf8", "BODY": "8bitmime"}  # not SIZE: the headers add to it
        there = [o for o in options if self._next.has_extn(known.get(o.partition("=")[0], "-"))]
        return self._next.mail(address, there)

    def _there(self) -> smtplib.SMTP:
        if self._next is None:
            raise smtplib.SMTPServerDisconnected("there is no connection to the next server")
        return self._next

    def close(self) -> None:
        """Close the connection to the next server."""
        following, self._next = self._next, None
        if following is not None:
            with suppress(OSError, smtplib.SMTPException):
                following.close()


class FilterSession(SMTP):
    """A connection; the one to the next server ends with it."""

    def connection_lost(self, error: Exception | None) -> None:
        """The client has gone."""
        self.event_handler.close()
        super().connection_lost(error)


@asynccontextmanager
async def serving(
    listen: tuple[str, int], following: tuple[str, int], url: str
) -> AsyncIterator[asyncio.Server]:
    """A server that listens."""
    loop = asyncio.get_running_loop()
    async with AsyncClient(url, timeout=VERDICT_SECONDS, retries=1) as client:

        def made() -> FilterSession:
            how = {"data_size_limit": MOST_BYTES, "enable_SMTPUTF8": True, "ident": "headwater"}
            return FilterSession(Filter(following, client), loop=loop, **how)

        async with await loop.create_server(made, *listen) as server:
            yield server


def place(text: str) -> tuple[str, int]:
    """HOST:PORT."""
    host, _, port = text.rpartition(":")
    return host.strip("[]") or "127.0.0.1", int(port)


async def main() -> None:
    """Read the command line and serve until the process is stopped."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--listen", type=place, default=("127.0.0.1", 10025), metavar="HOST:PORT")
    parser.add_argument("--next", type=place, default=("127.0.0.1", 10026), metavar="HOST:PORT")
    parser.add_argument("--url", default="http://localhost:8321", help="the service of headwater")
    given = parser.parse_args()
    async with serving(given.listen, given.next, given.url) as server:
        log.warning("listening at %s:%s", *given.listen)
        await server.serve_forever()


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(message)s")
    asyncio.run(main())
