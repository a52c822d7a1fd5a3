"""The examples for IMAP with a Dovecot of this machine, if there is one."""

from __future__ import annotations

import imaplib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater import Client
from headwater.mail import mail_key
from tests.kafka.broker import free_ports
from tests.waiting import PATIENCE, until
from tests.web.living import living

EXAMPLES = Path(__file__).parents[2] / "examples"
FILE = EXAMPLES / "imap_folders.py"
DOVECOT = shutil.which("dovecot", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
CONFIG = """
base_dir = {home}/run
log_path = {home}/log
protocols = imap
ssl = no
disable_plaintext_auth = no
mail_location = maildir:{home}/mail/%u
listen = 127.0.0.1
service imap-login {{
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
passdb {{
  driver = static
  args = password=secret
}}
userdb {{
  driver = static
  args = uid=nobody gid=nogroup home={home}/mail/%u
}}
"""


def mail(n: int) -> bytes:
    """One of many mails."""
    return f"Message-ID: <{n}@example.org>\r\nSubject: {n}\r\n\r\nmail {n}\r\n".encode()


@contextmanager
def dovecot(more: str = "") -> Iterator[tuple[imaplib.IMAP4, int, Path]]:
    """A session of jo, its port, and a folder that the server may write."""
    if DOVECOT is None or os.geteuid() != 0:
        pytest.skip("needs Dovecot and root: apt-get install dovecot-imapd")
    home = Path(tempfile.mkdtemp(prefix="imap"))  # other users must reach it
    home.chmod(0o755)
    (home / "mail").mkdir()
    shutil.chown(home / "mail", "nobody", "nogroup")
    (port,) = free_ports(1)
    (home / "dovecot.conf").write_text(CONFIG.format(home=home, port=port) + more)
    server = subprocess.Popen([DOVECOT, "-F", "-c", home / "dovecot.conf"])
    try:
        until(lambda: "starting up" in (home / "log").read_text() if (home / "log").exists() else 0)
        with imaplib.IMAP4("127.0.0.1", port) as session:
            session.login("jo", "secret")
            session.create("Junk")
            yield session, port, home / "mail"
    finally:
        server.terminate()
        server.wait(PATIENCE)
        shutil.rmtree(home)


def put(session: imaplib.IMAP4, folder: str, value: bytes, flags: str = "") -> None:
    """A mail into a folder."""
    session.append(folder, flags, "", value)  # type: ignore[arg-type]


def test_moved_mail_is_spam(tmp_path: Path) -> None:
    """Each mail is learned once, after it was read, and again after it was moved."""
    kind = {"wire": "mail", "model": "MultinomialNB", "features": 'text = "text"'}
    state = tmp_path / "state.json"
    running = living(tmp_path, transport="sqlite", **kind)
    with dovecot() as (session, port, _), running as service:
        for n in range(3):
            put(session, "INBOX", mail(n), r"\Seen")
        put(session, "INBOX", mail(4))
        put(session, "INBOX", mail(5), r"\Seen \Deleted")
        put(session, "Junk", mail(3))
        where = ["--host", "127.0.0.1", "--port", str(port), "--plain", "--user", "jo"]
        where += ["--older-than", "0"]
        words = [sys.executable, FILE, *where, "--state", state, "--url", service.url]

        def said() -> list[str]:
            env = {**os.environ, "IMAP_PASSWORD": "secret"}
            done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
            return done.stdout.splitlines()

        first, second = said(), said()
        session.select("INBOX")
        session.uid("MOVE", "2", "Junk")
        third = said()
        session.uid("STORE", "4", "+FLAGS", r"\Seen")
        fourth = said()
        until(lambda: (view := service.status_feed.view) is not None and view.learned == 5)
        labels = dict(service.status_feed.view.labels)
        with Client(service.url) as client:
            known = client.prediction(mail_key(mail(1)))

    assert first == ["Junk: 1 as spam", "INBOX: 3 as ham"]
    assert second == ["Junk: 0 as spam", "INBOX: 0 as ham"]
    assert third == ["Junk: 1 as spam", "INBOX: 0 as ham"]
    assert fourth == ["Junk: 0 as spam", "INBOX: 1 as ham"]  # it was read later than others
    assert known is not None
    assert labels["joined"] == 5
    assert sorted(json.loads(state.read_text())) == ["INBOX", "Junk"]


def test_move_is_a_label_but_not_to_trash(tmp_path: Path) -> None:
    """Emptying Junk says nothing about its mails."""
    if shutil.which("sievec") is None:
        pytest.skip("needs Pigeonhole: apt-get install dovecot-sieve")
    place = Path(tempfile.mkdtemp(prefix="sieve"))  # the server reads it as another user
    place.chmod(0o755)
    config = (EXAMPLES / "imapsieve" / "dovecot.conf").read_text()
    with dovecot(config.replace("/usr/local/lib/headwater", str(place))) as (session, _, home):
        calls = home / "calls"
        for name in ("spam.sieve", "ham.sieve"):
            shutil.copy(EXAMPLES / "imapsieve" / name, place)
        program = place / "headwater-learn"
        program.write_text(f'#!/bin/sh\necho "$@" $(grep Subject) >> {calls}\n')
        program.chmod(0o755)

        def called(n: int) -> list[str]:
            return until(
                lambda: calls.exists() and len(found := calls.read_text().split("\n")) > n and found
            )[:-1]

        for n, folder in enumerate(("Trash", "Work", "INBOX")):
            session.create(folder)
            put(session, "INBOX", mail(n))
        session.select("INBOX")
        session.uid("MOVE", "1:3", "Junk")
        session.select("Junk")
        for n, folder in enumerate(("Trash", "Work", "INBOX")):
            session.uid("MOVE", str(n + 1), folder)
        found = called(5)
    shutil.rmtree(place)

    spam = [f"--spam Subject: {n}" for n in range(3)]
    assert found == [*spam, "--ham Subject: 1", "--ham Subject: 2"]
