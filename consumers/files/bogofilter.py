"""Counts of words of bogofilter, as `bogoutil -d wordlist.db` writes them.

A line is `token spam ham date`. Tokens that begin with a dot are about the list: `.MSG_COUNT` has
the numbers of messages, and `.ENCODING` is 2 if tokens are UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from consumers.base.errors import ConfigError
from consumers.files.file import File
from stream.data.schema import Label
from stream.linear import WordCount

__all__ = ["bogofilter_counts"]

MESSAGES, ENCODING = b".MSG_COUNT", b".ENCODING"
UTF_8 = "2"
FIELDS = {"subj": "subject", "from": "from", "rcvd": "received", "url": "links"}
OTHERS = ("to", "rtrn", "head", "mime", "ip")  # prefixes of tokens that no field has
LONGEST = 4096  # bytes of a line
MOST = 5_000_000  # tokens
SHOWN = 60  # bytes of a wrong line in an error


class BogofilterCounts(NamedTuple):
    """Messages of each class, words with their counts, and tokens that no field has."""

    records: dict[Label, float]
    words: list[WordCount]
    left_out: int


def bogofilter_counts(
    file: File, *, text: str = "text", spam: Label = "spam", ham: Label = "ham"
) -> BogofilterCounts:
    """The counts of a dump.

    Parameters
    ----------
    text
        The field that has the words of the body.
    spam, ham
        The labels of the classes.

    Raises
    ------
    ConfigError
        A line is not one of a dump, or the dump has no counts of messages.
    """
    records: dict[Label, float] | None = None
    found: list[tuple[bytes, dict[Label, float]]] = []
    encoding = "cp1252"
    for token, in_spam, in_ham in _lines(file):
        if token == MESSAGES:
            records = {spam: float(in_spam), ham: float(in_ham)}
        elif token == ENCODING:
            encoding = "utf-8" if str(in_spam) == UTF_8 else encoding
        elif not token.startswith(b".") or token.count(b".") == len(token):
            found.append((token, {spam: float(in_spam), ham: float(in_ham)}))
    if records is None or not sum(records.values()):
        raise ConfigError(
            f"{file}: expected a line .MSG_COUNT with messages, got none; write the file with "
            "bogoutil -d wordlist.db"
        )
    words = []
    for token, counts in found:
        prefix, colon, rest = token.decode(encoding, "replace").partition(":")
        if colon and prefix in FIELDS:
            words.append(WordCount(FIELDS[prefix], rest, counts))
        elif not colon or prefix not in OTHERS:
            words.append(WordCount(text, f"{prefix}{colon}{rest}", counts))
    return BogofilterCounts(records, words, len(found) - len(words))


def _lines(file: File) -> Iterator[tuple[bytes, int, int]]:
    """Token, spam and ham of each line."""
    with file.opened() as stream:
        at = 0
        while line := stream.readline(LONGEST):
            at += 1
            parts = line.split()
            if not parts:
                continue
            if len(parts) not in (3, 4) or not (parts[1].isdigit() and parts[2].isdigit()):
                start = line[:SHOWN].decode("utf-8", "replace").rstrip()
                raise ConfigError(
                    f"{file}: line {at}: expected 'token spam ham date', got {start!r}"
                )
            if at > MOST:
                raise ConfigError(
                    f"{file}: expected at most {MOST:,} tokens; drop rare ones with "
                    "bogoutil -c 2 -m wordlist.db"
                )
            yield parts[0], int(parts[1]), int(parts[2])
