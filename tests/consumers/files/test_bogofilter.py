"""The dump of bogofilter's list of words."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers.base.errors import ConfigError
from consumers.files.bogofilter import bogofilter_counts
from consumers.files.file import local_file
from stream import SpamScorer

# As bogofilter 1.2.5 writes it.
DUMP = """\
.ENCODING 2 0 20261125
.MSG_COUNT 6 8 20261125
.WORDLIST_VERSION 20040500 0 20261125
Viagra 5 0 20261125
café 1 0 20261125
a:b 1 0 20261125
from:example.org 0 4 20261125
head:Outlook 0 4 20261125
lunch 0 7 20261125
shop.example.com 3 0 20261125
subj:Free 4 0 20261125
...  2 1 20261125
"""


def dump(path: Path, content: str | bytes) -> Path:
    """A file with this content."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_dump_has_words_with_their_fields(tmp_path) -> None:
    """Tokens about the list are no words, and those of other headers are left out."""
    found = bogofilter_counts(local_file(dump(tmp_path / "words.txt", DUMP)), ham="good")

    assert found.records == {"spam": 6.0, "good": 8.0}
    assert [(one.field, one.word) for one in found.words] == [
        ("text", "Viagra"),
        ("text", "café"),
        ("text", "a:b"),
        ("from", "example.org"),
        ("text", "lunch"),
        ("text", "shop.example.com"),
        ("subject", "Free"),
        ("text", "..."),
    ]
    assert found.words[0].records == {"spam": 5.0, "good": 0.0}
    assert found.left_out == 1


def test_scorer_begins_with_a_dump(tmp_path) -> None:
    """In the fields in which the words of a mail are."""
    found = bogofilter_counts(local_file(dump(tmp_path / "words.txt", DUMP)))
    model = SpamScorer()

    assert model.learn_counts(found.words, found.records)["learned"] > 4
    assert model.predict_one({"text": "cheap viagra", "subject": "FREE"}) == "spam"
    assert model.predict_one({"text": "lunch", "subject": "hi"}) == "ham"


def test_old_dump_is_windows_1252(tmp_path) -> None:
    """The encoding of a list without UTF-8."""
    content = DUMP.replace(".ENCODING 2", ".ENCODING 1").encode("cp1252")

    found = bogofilter_counts(local_file(dump(tmp_path / "words.txt", content)))
    assert found.words[1].word == "café"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "MSG_COUNT"),
        ("word 1 2 20261125\n", "MSG_COUNT"),
        (".MSG_COUNT 0 0 20261125\n", "MSG_COUNT"),
        (".MSG_COUNT 1 1 20261125\nword one 2\n", "line 2: .*'word one 2'"),
        ("From: jo@example.org\nSubject: hi\n\nhello\n", "line 1: .*token spam ham date"),
        (b"\x00\x01" * 5000, "line 1"),
        (".MSG_COUNT 1 1\n" + "w" * 9000 + " 1 1\n", "line 2"),
    ],
)
def test_what_is_no_dump_is_refused_in_one_line(tmp_path, content, problem) -> None:
    """With what to do, or with the line."""
    file = local_file(dump(tmp_path / "words.txt", content))

    with pytest.raises(ConfigError, match=problem) as refused:
        bogofilter_counts(file)
    assert "words.txt" in str(refused.value)
    assert "\n" not in str(refused.value)
