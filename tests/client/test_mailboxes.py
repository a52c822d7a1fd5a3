"""Which mails of a mailbox teach: what a person has decided by leaving it, or by moving it."""

from __future__ import annotations

import io
import mailbox
import sys
from email.utils import formatdate
from pathlib import Path

import pytest

from consumers.base.errors import ConfigError
from headwater.commands.mailboxes import DAY, DAYS, Mailboxes, Side

NOW = 1_800_000_000.0
OLD, NEW = NOW - (DAYS + 1) * DAY, NOW - DAY


def put(box: Path, name: str, value: bytes = b"Subject: x\n\n", *, at: float = OLD) -> None:
    """A mail of a Maildir, `cur/…:2,S`; its text is its name."""
    for folder in ("cur", "new"):
        (box / folder).mkdir(parents=True, exist_ok=True)
    folder, _, flags = name.partition("/")
    file = box / folder / f"{at:.0f}.M{len(list(box.rglob('*.host*')))}.host{flags}"
    file.write_bytes(value.replace(b"\n\n", f"\n\n{name}\n".encode()))


def taught(place: Path, *, spam: bool, **options: bool | float) -> tuple[list[str], dict[str, int]]:
    """The last lines of the mails that teach, and what was skipped."""
    boxes = Mailboxes(now=NOW, **options)  # type: ignore[arg-type]
    found = boxes.mails([Side([str(place)], "label", spam)])
    return [mail.value.decode().split("\n")[-2] for mail in found], dict(boxes.skipped)


def test_ham_of_a_maildir_was_read_and_has_stayed(tmp_path: Path) -> None:
    """Not what waits in `new`, nor what was deleted, is a draft, or came yesterday."""
    for name in ("new/", "cur/:2,", "cur/:2,S", "cur/:2,FRS", "cur/:2,ST", "cur/:2,DS"):
        put(tmp_path, name)
    put(tmp_path, "cur/:2,S", at=NEW)

    skipped = {"marked as deleted": 1, "drafts": 1}
    young = {"newer than 3 days": 1}
    read = ["cur/:2,S", "cur/:2,FRS"]
    assert taught(tmp_path, spam=False) == (read, {"unread": 2, **skipped, **young})
    found, left = taught(tmp_path, spam=False, unread=True, days=0.0)
    assert sorted(found) == sorted(["new/", "cur/:2,", *read, "cur/:2,S"])
    assert left == skipped


def test_spam_was_moved_or_was_left_there(tmp_path: Path) -> None:
    """What the filter itself has put there waits: otherwise its errors would teach themselves."""
    filed, moved = b"X-Headwater: spam score=1\n\n", b"X-Headwater: unsure score=0.7\n\n"
    put(tmp_path, "new/old", filed)
    put(tmp_path, "new/filed", filed, at=NEW)
    put(tmp_path, "new/unknown", at=NEW)
    put(tmp_path, "new/moved", moved, at=NEW)
    put(tmp_path, "cur/:2,ST", moved)

    found, skipped = taught(tmp_path, spam=True)

    assert found == ["new/old", "new/moved"]
    assert skipped == {"newer than 3 days": 2, "marked as deleted": 1}


def test_forged_verdict_does_not_make_ham(tmp_path: Path) -> None:
    """A sender can write any header; an unread mail in the inbox stays undecided."""
    put(tmp_path, "new/", b"X-Headwater: spam score=1\n\n", at=NEW)

    assert taught(tmp_path, spam=False) == ([], {"unread": 1})


@pytest.mark.parametrize("seconds", [OLD, NEW])
def test_mbox_with_flags_is_a_mailbox(seconds: float, tmp_path: Path) -> None:
    """Flags as the standard library, and Thunderbird, write them."""
    box = mailbox.mbox(tmp_path / "inbox")
    for flags in ("R", "RO", "O", "", "RD", "RT"):
        message = mailbox.mboxMessage()
        message["Received"] = f"by a.org; {formatdate(seconds)}"
        message["Received"] = f"by b.org; {formatdate(0)}"
        message.set_payload(f"{flags}\n")
        message.set_flags(flags)
        box.add(message)
    for bits in ("0001", "0000", "0009"):
        message = mailbox.mboxMessage()
        message["Date"] = formatdate(seconds)
        message["X-Mozilla-Status"] = bits
        message.set_payload(f"{bits}\n")
        box.add(message)
    box.close()

    found, skipped = taught(tmp_path / "inbox", spam=False)

    read = ["R", "RO", "0001"]
    others = {"unread": 3, "marked as deleted": 2, "drafts": 1}
    assert found == (read if seconds == OLD else [])
    assert skipped == (others if seconds == OLD else {**others, "newer than 3 days": 3})


def test_corpus_has_no_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An mbox without them, a directory of files, one mail and stdin: all of it teaches at once."""
    now = f"Date: {formatdate(NOW)}\n\nx\n".encode()
    (tmp_path / "all.mbox").write_bytes(b"From a\n" + now + b"\nFrom b\n" + now + b"\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "1.eml").write_bytes(b"Status: O\n" + now)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"From a\nStatus: O\n" + now)))

    assert taught(tmp_path / "all.mbox", spam=False) == (["x", "x"], {})
    assert taught(tmp_path / "folder", spam=False) == (["x"], {})
    assert taught(tmp_path / "folder" / "1.eml", spam=False) == (["x"], {})
    assert taught(Path("-"), spam=False) == (["x"], {})


def test_places_are_checked(tmp_path: Path) -> None:
    """Before the first mail is read."""
    (tmp_path / "cur").mkdir()
    for place, expected in ((tmp_path, "has no mails"), (tmp_path / "no", "no such file")):
        with pytest.raises(ConfigError, match=expected):
            taught(place, spam=True)
