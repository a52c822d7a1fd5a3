"""A mail has one id on each way to a service, before its delivery and after it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from consumers.api.rspamd import read
from consumers.codecs.registry import wire_format
from consumers.files.format import Options
from consumers.files.source import FileSource
from headwater.mail import mail_key, mail_record

MAIL = b"Message-ID: <7@a.org>\r\nFrom: Jo <jo@a.org>\r\nSubject: hi\r\n\r\nFrom here\r\n"
DELIVERED = b"X-Headwater: spam\nReceived: by b.org\nStatus: RO\n" + MAIL.replace(b"\r\n", b"\n")


def written(place: Path, value: bytes) -> Path:
    """One file of each format, in folders of their own."""
    for name in ("eml", "maildir/cur", "maildir/new", "mbox"):
        (place / name).mkdir(parents=True)
    quoted = value.replace(b"\nFrom here", b"\n>From here")
    (place / "eml" / "a.eml").write_bytes(value)
    (place / "maildir" / "cur" / "1.x:2,S").write_bytes(value)
    (place / "mbox" / "a.mbox").write_bytes(b"From jo\n" + quoted + b"\n")
    return place


def asked(value: bytes) -> dict[str, Any]:
    """The record that a request to /checkv2 becomes."""
    records = []
    answerer: Any = SimpleNamespace(read=lambda _, values: records.extend(values))
    config: Any = SimpleNamespace(input=SimpleNamespace(format="mail", id="id"))
    read(config, answerer, value, "")
    found: dict[str, Any] = json.loads(records[0])
    return found


@pytest.mark.parametrize("value", [MAIL, DELIVERED], ids=["sent", "delivered"])
def test_one_id_on_each_way(value: bytes, tmp_path: Path) -> None:
    """Client, a topic of mails without keys, and files of three formats."""
    identified = wire_format("mail").identified
    assert identified is not None
    ids = {"client": mail_record(value)["id"], "topic": identified(value)}
    for place in written(tmp_path, value).iterdir():
        options = Options(format="maildir") if place.name == "maildir" else None
        (record,) = FileSource(place, options).records()
        ids[place.name] = str(record["id"])
        assert record["mail"] == mail_record(value)["mail"]

    assert set(ids) == {"client", "topic", "eml", "maildir", "mbox"}
    assert set(ids.values()) == {mail_key(MAIL)}


@pytest.mark.parametrize("value", [MAIL, DELIVERED], ids=["sent", "delivered"])
def test_question_has_the_mail_of_the_record_and_no_id(value: bytes) -> None:
    """Nothing of `/checkv2` is written, so no label can ever name it: an id would be for nobody."""
    assert asked(value) == {"mail": mail_record(value)["mail"]}
