"""Mask secrets in the log, in messages and in tracebacks.

Two rules: a text that was read as a secret is masked by its value wherever it appears. A text that
only looks like a secret (`password=…`, a login in a URL) is masked by the text around it.
"""

from __future__ import annotations

import re

__all__ = ["DISTINCT", "HIDDEN", "Secret", "masked", "redacted", "secret_key", "without_login"]

HIDDEN = "***"

_WORDS = r"(?:password|passwd|passphrase|secret|token|credentials?|api_?key|private_?key)"
_KEY = re.compile(rf"{_WORDS}$", re.IGNORECASE)
_MASKED = r"(?:\w\*\*\*(?=[\"']?\s*[=:])|\*\*\*(?==))"  # a name in which a secret was masked
_ASSIGNED = re.compile(
    rf"""((?:{_WORDS}|{_MASKED})["']?\s*[=:]\s*)("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,;)}}\]]+)""",
    re.IGNORECASE,
)
_CREDENTIALS = re.compile(r"\b(bearer|authorization:\s*\w+)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
_IN_URL = re.compile(r"(\w://[^\s/:@]*:)[^\s/]+@")
DISTINCT = 8  # characters from which a secret is masked inside other words too

_known: set[str] = set()  # as they are, and as a repr writes them; a process reads few of them


class Secret(str):
    """A text whose repr is ``***``. Clients that use the text get it.

    `masked` also masks the text in every message that contains it.

    Examples
    --------
    >>> {"sasl_plain_password": Secret("correct horse")}
    {'sasl_plain_password': ***}
    >>> masked("refused: 'correct horse'")
    "refused: '***'"
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Secret:
        """Register the text, so that it can be masked."""
        if text:
            _known.update((text, repr(text)[1:-1]))
        return super().__new__(cls, text)

    def __repr__(self) -> str:
        return HIDDEN


def secret_key(name: str) -> bool:
    """Whether a value with this name is a secret.

    Examples
    --------
    >>> secret_key("sasl_plain_password"), secret_key("ssl_keyfile")
    (True, False)
    """
    return _KEY.search(name) is not None


def masked(text: str) -> str:
    """The text without the secrets that this process has read.

    A short secret is masked only where it is a word of its own. To mask each "a" would make a
    message unreadable, and would reveal the password.
    """
    for known in sorted(_known, key=len, reverse=True):  # one may be a part of another
        if known in text:
            found = re.escape(known)
            if len(known) < DISTINCT:
                found = rf"(?<!\w){found}(?!\w)"
            text = re.sub(found, HIDDEN, text)
    return text


def redacted(text: str) -> str:
    """The text without known secrets and without texts that look like a secret.

    Examples
    --------
    >>> redacted("kafka://me:hunter2@broker:9092, sasl_plain_password=hunter2, tokens=12")
    'kafka://me:***@broker:9092, sasl_plain_password=***, tokens=12'
    """
    text = _IN_URL.sub(rf"\1{HIDDEN}@", masked(text))
    text = _CREDENTIALS.sub(rf"\1 {HIDDEN}", text)
    return _ASSIGNED.sub(rf"\1{HIDDEN}", text)


def without_login(url: str) -> str:
    """The URL for a message: without a name and password before the host.

    Examples
    --------
    >>> without_login("kafka://me:secret@broker:9092")
    'kafka://***@broker:9092'
    """
    return re.sub(r"//[^/]*@", "//***@", url)
