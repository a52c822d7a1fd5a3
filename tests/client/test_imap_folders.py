"""examples/imap_folders.py with a Dovecot of this machine, if there is one."""

from __future__ import annotations

import imaplib
import json
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater import Client
from headwater.mail import mail_key
from tests.kafka.broker import free_ports
from tests.waiting import PATIENCE, until
from tests.web.living import living

FILE = Path(__file__).parents[2] / "examples" / "imap_folders.py"
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


@pytest.fixture
def mailbox() -> Iterator[tuple[imaplib.IMAP4, int]]:
    """A session of jo, and the port."""
    if DOVECOT is None or os.geteuid() != 0:
        pytest.skip("needs Dovecot and root: apt-get install dovecot-imapd")
    home = Path(tempfile.mkdtemp(prefix="imap"))  # other users must reach it
    home.chmod(0o755)
    (home / "mail").mkdir()
    shutil.chown(home / "mail", "nobody", "nogroup")
    (port,) = free_ports(1)
    (home / "dovecot.conf").write_text(CONFIG.format(home=home, port=port))
    server = subprocess.Popen([DOVECOT, "-F", "-c", home / "dovecot.conf"])
    try:
        until(lambda: "starting up" in (home / "log").read_text() if (home / "log").exists() else 0)
        with imaplib.IMAP4("127.0.0.1", port) as session:
            session.login("jo", "secret")
            session.create("Junk")
            yield session, port
    finally:
        server.terminate()
        server.wait(PATIENCE)
        shutil.rmtree(home)


def test_moved_mail_is_spam(mailbox: tuple[imaplib.IMAP4, int], tmp_path: Path) -> None:
    """Each mail is read once, and again after it was moved."""
    session, port = mailbox
    for n in range(3):
        session.append("INBOX", "", "", mail(n))  # type: ignore[arg-type]
    session.append("Junk", "", "", mail(3))  # type: ignore[arg-type]
    kind = {"wire": "mail", "model": "MultinomialNB", "features": 'text = "text"'}
    state = tmp_path / "state.json"
    with living(tmp_path, transport="sqlite", **kind) as service:
        where = ["--host", "127.0.0.1", "--port", str(port), "--plain", "--user", "jo"]
        words = [sys.executable, FILE, *where, "--state", state, "--url", service.url]

        def said() -> list[str]:
            env = {**os.environ, "IMAP_PASSWORD": "secret"}
            done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
            return done.stdout.splitlines()

        first, second = said(), said()
        session.select("INBOX")
        session.uid("MOVE", "2", "Junk")
        third = said()
        until(lambda: (view := service.status_feed.view) is not None and view.learned == 4)
        labels = dict(service.status_feed.view.labels)
        with Client(service.url) as client:
            known = client.prediction(mail_key(mail(1)))

    assert first == ["Junk: 1 as spam", "INBOX: 3 as ham"]
    assert second == ["Junk: 0 as spam", "INBOX: 0 as ham"]
    assert third == ["Junk: 1 as spam", "INBOX: 0 as ham"]
    assert known is not None
    assert labels["joined"] == 4
    assert sorted(json.loads(state.read_text())) == ["INBOX", "Junk"]


def test_last_mail_of_a_folder_is_not_read_again() -> None:
    """A range up to `*` always has the last mail, also one that was read."""
    example = runpy.run_path(str(FILE))

    class Folder:
        def uid(self, what: str, *_: str) -> tuple[str, list[bytes]]:
            assert what == "SEARCH"
            return "OK", [b"7"]

    assert list(example["mails"](Folder(), "INBOX", 7)) == []
