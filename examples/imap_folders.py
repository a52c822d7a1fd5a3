"""IMAP folders as labels: what users move to Junk is spam, what stays in the inbox is ham.

    IMAP_PASSWORD=… python imap_folders.py --host mail.example.org --user jo --spam Junk --ham INBOX

Run it each hour. It learns each mail of a folder once, and changes nothing in the mailbox. Ham must
have been read, and all mail must be in the mailbox for `--older-than` days, so that a person had
time to move it. The UIDs that were learned are in `--state`.

A mail is labelled by the folder in which it is found. So a mail that was moved is labelled again,
and that corrects its first label where the service takes corrections. Mail in Trash has no label:
a folder that is emptied into Trash says nothing about its mails.
"""

from __future__ import annotations

import argparse
import imaplib
import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from headwater import Client
from headwater.mail import mail_record

MOST = 50  # mails that are fetched at once


def mails(imap: imaplib.IMAP4, uids: list[int]) -> Iterator[tuple[int, bytes]]:
    """UID and bytes of some mails."""
    for at in range(0, len(uids), MOST):
        some = ",".join(map(str, uids[at : at + MOST]))
        _, parts = imap.uid("FETCH", some, "(UID BODY.PEEK[])")
        for part in parts:
            if isinstance(part, tuple):
                yield int(re.search(rb"UID (\d+)", part[0])[1]), part[1]


def found(imap: imaplib.IMAP4, *which: str) -> list[int]:
    """The UIDs of the mails that a search finds, the oldest first."""
    _, (uids,) = imap.uid("SEARCH", *which)
    return sorted(map(int, uids.split()))


def learned(
    imap: imaplib.IMAP4, client: Client, folder: str, label: str, seen: dict, which: list[str]
) -> int:
    """Write the mails of a folder that were not written yet; how many. `seen` has their UIDs."""
    quoted = '"' + folder.replace("\\", "\\\\").replace('"', '\\"') + '"'
    status, answer = imap.select(quoted, readonly=True)
    if status != "OK":
        raise SystemExit(f"{folder}: {answer[0].decode()}")
    validity = int(imap.response("UIDVALIDITY")[1][0])
    if seen.get("validity") != validity:  # other UIDs than before: everything is read again
        seen.update(validity=validity, uids=[])
    seen["uids"] = sorted(set(seen["uids"]) & set(found(imap, "ALL")))  # as many as the folder has
    new = [uid for uid in found(imap, *which) if uid not in set(seen["uids"])]
    for uid, value in mails(imap, new):
        record = mail_record(value)
        if client.prediction(record["id"]) is None:
            client.observe(record)
        client.label(record["id"], label)
        seen["uids"].append(uid)
    return len(new)


def main() -> None:
    """Read the command line, and each folder once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, default=993)
    parser.add_argument("--plain", action="store_true", help="without TLS, on this machine only")
    parser.add_argument("--user", required=True)
    parser.add_argument("--spam", default="Junk", metavar="FOLDER")
    parser.add_argument("--ham", default="INBOX", metavar="FOLDER")
    parser.add_argument("--older-than", type=float, default=3.0, metavar="DAYS")
    parser.add_argument("--state", type=Path, default=Path("imap-folders.json"), metavar="FILE")
    parser.add_argument("--url", default="http://localhost:8321", help="the service of headwater")
    given = parser.parse_args()
    state = json.loads(given.state.read_text()) if given.state.exists() else {}
    since = datetime.now(UTC) - timedelta(days=given.older_than)
    old = ["UNDELETED", "UNDRAFT"]
    if given.older_than > 0:
        old += ["BEFORE", since.strftime("%d-%b-%Y")]
    opened = imaplib.IMAP4 if given.plain else imaplib.IMAP4_SSL
    with opened(given.host, given.port) as imap, Client(given.url) as client:
        imap.login(given.user, os.environ["IMAP_PASSWORD"])
        for folder, label, which in (
            (given.spam, "spam", old),
            (given.ham, "ham", ["SEEN", *old]),
        ):
            seen = state.setdefault(folder, {})
            try:
                count = learned(imap, client, folder, label, seen, which)
            finally:  # at least once: what was written is not read again
                written = given.state.with_suffix(".new")
                written.write_text(json.dumps(state))
                written.replace(given.state)
            print(f"{folder}: {count} as {label}")  # noqa: T201


if __name__ == "__main__":
    main()
