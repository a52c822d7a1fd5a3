"""What must never be shown, and how it is masked: in the log, in messages, in tracebacks.

Two nets: a text that was read as a secret is masked wherever it appears, by its value; a text that
only looks like one (`password=…`, a login in a URL) is masked by its surroundings.
"""

from __future__ import annotations

import re

__all__ = ["DISTINCT", "HIDDEN", "Secret", "masked", "redacted", "secret_key", "without_login"]

HIDDEN = "***"

_WORDS = r"(?:password|passwd|passphrase|secret|token|credentials?|api_?key|private_?key)"
_KEY = re.compile(rf"{_WORDS}$", re.IGNORECASE)
_ASSIGNED = re.compile(
    rf"""({_WORDS}["']?\s*[=:]\s*)("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,;)}}\]]+)""",
    re.IGNORECASE,
)
_CREDENTIALS = re.compile(r"\b(bearer|authorization:\s*\w+)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
_IN_URL = re.compile(r"(\w://[^\s/:@]*:)[^\s/]+@")
DISTINCT = 8  # characters from which a text is its own word, whatever stands beside it

_known: set[str] = set()  # as they are, and as a repr would write them; a process reads a handful


class Secret(str):
    """A text that shows itself as ``***``; clients of it get the text.

    What is made a secret is also masked by `masked`, in whatever message it turns up.

    Examples
    --------
    >>> {"sasl_plain_password": Secret("correct horse")}
    {'sasl_plain_password': ***}
    >>> masked("refused: 'correct horse'")
    "refused: '***'"
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Secret:
        """Remember the text, so that it can be masked."""
        if text:
            _known.update((text, repr(text)[1:-1]))
        return super().__new__(cls, text)

    def __repr__(self) -> str:
        return HIDDEN


def secret_key(name: str) -> bool:
    """Whether a value under this name is a secret.

    Examples
    --------
    >>> secret_key("sasl_plain_password"), secret_key("ssl_keyfile")
    (True, False)
    """
    return _KEY.search(name) is not None


def masked(text: str) -> str:
    """The text without any secret that this process has read.

    A short one only where it stands alone: masking each "a" would make a message unreadable, and
    tell the password by it.
    """
    for known in sorted(_known, key=len, reverse=True):  # one may be a part of another
        if known in text:
            found = re.escape(known)
            if len(known) < DISTINCT:
                found = rf"(?<!\w){found}(?!\w)"
            text = re.sub(found, HIDDEN, text)
    return text


def redacted(text: str) -> str:
    """The text without known secrets, nor what looks like one.

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
