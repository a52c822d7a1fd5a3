"""IMAP folders as labels: what users move to Junk is spam, what stays in the inbox is ham.

    IMAP_PASSWORD=… python imap_folders.py --host mail.example.org --user jo --spam Junk --ham INBOX

Run it each hour: it reads the mails that came into a
folder since the last time, by the UIDs in `--state`, and changes nothing in the mailbox.

A mail is labelled by the folder in which it is found. So a mail that was moved is labelled again,
and that corrects its first label where the service takes corrections.
"""

from __future__ import annotations

import argparse
import imaplib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from headwater import Client
from headwater.mail import mail_record

MOST = 50  # mails that are fetched at once


def mails(imap: imaplib.IMAP4, folder: str, after: int) -> Iterator[tuple[int, bytes]]:
    """UID and bytes of each mail with a larger UID than `after`, the oldest first."""
    _, (found,) = imap.uid("SEARCH", f"UID {after + 1}:*")
    uids = sorted(uid for uid in map(int, found.split()) if uid > after)  # `*` is the last one
    for at in range(0, len(uids), MOST):
        some = ",".join(map(str, uids[at : at + MOST]))
        _, parts = imap.uid("FETCH", some, "(UID BODY.PEEK[])")
        for part in parts:
            if isinstance(part, tuple):
                yield int(re.search(rb"UID (\d+)", part[0])[1]), part[1]


def learned(imap: imaplib.IMAP4, client: Client, folder: str, label: str, seen: list[int]) -> int:
    """Write the new mails of a folder with their label; how many. `seen` advances with them."""
    quoted = '"' + folder.replace("\\", "\\\\").replace('"', '\\"') + '"'
    status, answer = imap.select(quoted, readonly=True)
    if status != "OK":
        raise SystemExit(f"{folder}: {answer[0].decode()}")
    validity = int(imap.response("UIDVALIDITY")[1][0])
    if seen[0] != validity:  # other UIDs than before: everything is read again
        seen[:] = validity, 0
    count = 0
    for uid, value in mails(imap, folder, seen[1]):
        record = mail_record(value)
        if client.prediction(record["id"]) is None:
            client.observe(record)
        client.label(record["id"], label)
        seen[1] = max(seen[1], uid)
        count += 1
    return count


def main() -> None:
    """Read the command line, and each folder once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, default=993)
    parser.add_argument("--plain", action="store_true", help="without TLS, on this machine only")
    parser.add_argument("--user", required=True)
    parser.add_argument("--spam", default="Junk", metavar="FOLDER")
    parser.add_argument("--ham", default="INBOX", metavar="FOLDER")
    parser.add_argument("--state", type=Path, default=Path("imap-folders.json"), metavar="FILE")
    parser.add_argument("--url", default="http://localhost:8321", help="the service of headwater")
    given = parser.parse_args()
    state = json.loads(given.state.read_text()) if given.state.exists() else {}
    opened = imaplib.IMAP4 if given.plain else imaplib.IMAP4_SSL
    with opened(given.host, given.port) as imap, Client(given.url) as client:
        imap.login(given.user, os.environ["IMAP_PASSWORD"])
        for folder, label in ((given.spam, "spam"), (given.ham, "ham")):
            seen = state.setdefault(folder, [0, 0])
            try:
                count = learned(imap, client, folder, label, seen)
            finally:  # at least once: what was written is not read again
                written = given.state.with_suffix(".new")
                written.write_text(json.dumps(state))
                written.replace(given.state)
            print(f"{folder}: {count} as {label}")  # noqa: T201


if __name__ == "__main__":
    main()
