"""Mails in files: mbox, EML and Maildir."""

from __future__ import annotations

import base64
import gzip
import mailbox
from io import BytesIO
from pathlib import Path

import pytest

from consumers.base.errors import ConfigError
from consumers.files import mails as reading
from consumers.files.format import Options
from consumers.files.mails import mails_in
from consumers.files.source import FileSource
from consumers.mail.document import mail_document
from consumers.mail.envelope import mail_key
from tests.consumers.mail.made import mails

MAILDIR = Options(format="maildir")


def read(place: Path, options: Options | None = None) -> list[tuple[object, object, bytes]]:
    """Message-ID, folder and bytes of each mail."""
    return [
        (str(each["id"]).partition("#")[0], each["folder"], base64.b64decode(str(each["mail"])))
        for each in FileSource(place, options).records()
    ]


def test_mbox_gives_what_the_standard_library_wrote(tmp_path: Path) -> None:
    """Lines that begin with From are quoted there."""
    values = [value.replace(b"\r\n", b"\n") for value in mails(20, seed=3)]
    values.append(b"Message-ID: <x@y>\n\nFrom here\n\nFrom there\n")
    box = mailbox.mbox(tmp_path / "Junk.mbox")
    for value in values:
        box.add(value)
    box.close()

    found = read(tmp_path / "Junk.mbox")

    assert {folder for _, folder, _ in found} == {"Junk"}
    assert [id_ for id_, _, _ in found] == [mail_key(value).partition("#")[0] for value in values]
    for (_, _, value), expected in zip(found, values, strict=True):
        made, wanted = mail_document(value), mail_document(expected)
        assert {**made, "size": 0} == {**wanted, "size": 0}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"From a\nA: b\n\nc\n\nFrom b\nA: d\n\n", [b"A: b\n\nc\n", b"A: d\n\n"]),
        (b"From a\r\nA: b\r\n\r\nc\r\n\r\n", [b"A: b\r\n\r\nc\r\n"]),
        (b"From a\nA: b\n\nno\nFrom c\n", [b"A: b\n\nno\nFrom c\n"]),
        (b"From a\n\n>>From c\n", [b"\n>From c\n"]),
        (b"\n\nFrom a\n", [b""]),
        (b"no mbox", []),
        (b"", []),
    ],
)
def test_mbox_is_split_at_from_after_an_empty_line(text: bytes, expected: list[bytes]) -> None:
    """And nowhere else."""
    assert list(mails_in(BytesIO(text))) == expected


def test_large_mail_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is whole."""
    monkeypatch.setattr(reading, "LARGEST_READ", most := 1000)
    text = b"From a\n\n" + b"x" * 99 + b"\n" * most + b"\nFrom b\nA: b\n\n"

    first, second = mails_in(BytesIO(text))

    assert most - 1 <= len(first) <= most + 100
    assert second == b"A: b\n\n"


def test_directory_of_eml_files(tmp_path: Path) -> None:
    """Compressed ones too; each has the name of its directory as its folder."""
    for name, folder in (("1.eml", "ham"), ("2.EML", "spam"), ("3.eml.gz", "spam")):
        (tmp_path / folder).mkdir(exist_ok=True)
        value = f"Message-ID: <{name[0]}@x>\n\n".encode()
        packed = gzip.compress(value) if name.endswith("gz") else value
        (tmp_path / folder / name).write_bytes(packed)

    found = read(tmp_path)

    assert [each[:2] for each in found] == [("1@x", "ham"), ("2@x", "spam"), ("3@x", "spam")]
    assert found[2][2] == b"Message-ID: <3@x>\n\n"


def test_maildir_has_folders_and_other_files(tmp_path: Path) -> None:
    """Only files in cur and new are mails."""
    box = mailbox.Maildir(tmp_path / "Mail")
    box.add(b"Message-ID: <1@x>\n\n")
    box.add_folder("Junk").add(b"Message-ID: <2@x>\n\n")
    (tmp_path / "Mail" / "subscriptions").write_text("Junk\n")
    (tmp_path / "Mail" / "cur" / ".lock").write_text("")

    found = read(tmp_path / "Mail", MAILDIR)

    assert sorted(each[:2] for each in found) == [("1@x", "Mail"), ("2@x", "Junk")]


def test_maildir_is_read_in_the_order_of_delivery(tmp_path: Path) -> None:
    """Not one folder after the other: a learner would see one label only, then the other."""
    for n, folder in enumerate(["", ".Junk", "", ".Junk", ".Junk"]):
        directory = tmp_path / folder / ("cur", "new")[n % 2]
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{1_704_067_200 + n}.M{9 - n}P1.host:2,S").write_bytes(
            b"Message-ID: <%d>" % n
        )
    (tmp_path / "cur" / "moved-by-hand").write_bytes(b"Message-ID: <9>")

    found = [id_ for id_, _, _ in read(tmp_path, MAILDIR)]

    assert found == ["9", "0", "1", "2", "3", "4"]


@pytest.mark.parametrize("inside", [False, True])
def test_maildir_without_its_format_is_recognized(
    inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, also where another file has a known suffix, and also from inside the Maildir."""
    place = tmp_path / "Mail"
    for folder in ("cur", "new", "tmp"):
        (place / folder).mkdir(parents=True)
    (place / "cur" / "1704067200.M1P7.host:2,S").write_bytes(b"Message-ID: <1@x>")
    said: list[str] = []
    if inside:
        monkeypatch.chdir(place)
        place = Path()

    with pytest.raises(ConfigError, match=r"looks like a Maildir, .*; give --format maildir$"):
        FileSource(place)
    (place / "labels.csv").write_text("id,label\n1@x,ham\n")
    FileSource(place, say=said.append)

    assert said == [
        f"{place}: 1 CSV file; 1 with other names left out (--format maildir reads the mails in "
        "cur and new)"
    ]
    assert [folder for _, folder, _ in read(place, MAILDIR)] == ["Mail"]


def test_eml_files_of_this_directory_have_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their folder was empty."""
    (tmp_path / "spam").mkdir()
    (tmp_path / "spam" / "1.eml").write_bytes(b"Message-ID: <1@x>")
    monkeypatch.chdir(tmp_path / "spam")

    assert [folder for _, folder, _ in read(Path("1.eml"))] == ["spam"]


def test_file_without_a_mail_is_an_error(tmp_path: Path) -> None:
    """One that is a mail itself needs another format."""
    (tmp_path / "a.mbox").write_bytes(b"Subject: a\n\nb")

    with pytest.raises(ConfigError, match="--format eml"):
        read(tmp_path / "a.mbox")
