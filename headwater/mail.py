"""A mail as a program between mail servers handles it: its id, what is sent, the headers added.

Rule: the bytes of a mail are never changed, except that `X-Headwater` headers of others are renamed
and own ones are added above the first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import quote

from consumers.mail.envelope import (
    ENVELOPE,
    EVEN,
    LARGEST,
    bare,
    fields_of,
    mail_key,
    parted,
    verdict_words,
)
from consumers.mail.lighter import mail_record

if TYPE_CHECKING:
    from consumers.api.contract import PredictionRecord

__all__ = ["LARGEST", "Verdict", "bare", "mail_key", "mail_record", "stamped", "verdict_of"]

WIDEST = 76  # columns of a header line
LONGEST_REASON = 40
HEADER, OLD = b"X-Headwater", b"X-Was-Headwater"

_OURS = re.compile(rb"x-headwater", re.IGNORECASE)
_AFTER_CR = re.compile(rb"(?<=\r)x-headwater", re.IGNORECASE)  # some programs end lines there
Word = Literal["spam", "unsure", "ham"]


class Verdict(NamedTuple):
    """What a service says of a mail.

    Parameters
    ----------
    word
        `spam`, `unsure` or `ham`.
    score
        The probability of spam; 0.5 before the service has learned both labels.
    model
        The model that predicted: name, type, and how many labels it had learned.
    reasons
        Features with their share of the log-odds of spam, the largest first.
    evidence
        What the mail says for spam, without the shares of the labels, as log-odds; None: the model
        does not know.
    """

    word: Word
    score: float
    model: str
    reasons: Sequence[tuple[str, float]] = ()
    evidence: float | None = None


def verdict_of(made: PredictionRecord, spam: str = "spam") -> Verdict:
    """The verdict of a prediction: its decision, or without `[decision]` the most probable label.

    Before the service has learned both labels it is unsure: the probability of the only label is 1.

    Parameters
    ----------
    made
        The prediction.
    spam
        The label of spam, as text.

    Raises
    ------
    ValueError
        The decision is no label, so it does not say what is spam; or the service has learned
        other labels.

    Examples
    --------
    >>> from consumers.api.contract import Champion, DecidedAction, PredictedPosition
    >>> from consumers.api.contract import PredictionRecord
    >>> by, at = Champion("mail", "spam", 40), PredictedPosition("mail", 0, 7)
    >>> shares = [("spam", 0.75), ("ham", 0.25)]
    >>> made = PredictionRecord("7", "spam", shares, by, at, 0, decision=DecidedAction(None, None))
    >>> verdict_of(made)
    Verdict(word='unsure', score=0.75, model='mail/spam/40', reasons=(), evidence=None)
    """
    shares = {_text(label): p for label, p in made.probabilities}
    action = made.prediction if made.decision is None else made.decision.action
    if action is not None and _text(action) not in shares:
        known = ", ".join(shares) or "none"
        raise ValueError(
            f"expected a decision that is a label ({known}), got {_text(action)!r}; use [decision] "
            "max_false_positive_rate, or actions named like the labels"
        )
    if len(shares) > 1 and spam not in shares:
        known = ", ".join(shares)
        raise ValueError(f"the service has no label {spam!r}, but {known}; give --spam-label")
    word: Word = "ham"
    both = len(shares) > 1
    if action is None or not both:
        word = "unsure"
    elif _text(action) == spam:
        word = "spam"
    why = made.explanation
    sign = 1.0 if made.prediction is not None and _text(made.prediction) == spam else -1.0
    reasons = [] if why is None else [(name, sign * share) for name, share in why.top]
    by = made.model
    model = f"{by.name}/{by.type}/{by.learned}"
    evidence = {_text(label): odds for label, odds in made.evidence or ()}.get(spam)
    return Verdict(word, shares[spam] if both else EVEN, model, tuple(reasons), evidence)


def stamped(value: bytes, verdict: Verdict) -> bytes:
    """The mail with the headers of a verdict above its own. Those of others are renamed.

    Examples
    --------
    >>> mail = b"X-Headwater: ham\\nSubject: hi\\n\\n"
    >>> made = stamped(mail, Verdict("spam", 0.998, "mail/spam/40", [("prize", 2.5)]))
    >>> print(made.decode())
    X-Headwater: spam score=0.998000 model=mail/spam/40
    X-Headwater-Why: prize=+2.50
    X-Was-Headwater: ham
    Subject: hi
    <BLANKLINE>
    <BLANKLINE>
    """
    lines, body = parted(value)
    end = b"\r\n" if value.partition(b"\n")[0].endswith(b"\r") else b"\n"
    envelope = b""
    if lines and lines[0].startswith(ENVELOPE):  # of an mbox; it stays the first line
        envelope, lines = lines[0], lines[1:]
    fields = [
        _AFTER_CR.sub(OLD, OLD + field[len(HEADER) :] if _OURS.match(name) else field)
        for name, field in fields_of(lines)
    ]
    return envelope + _headers(verdict, end) + b"".join(fields) + body


def _headers(verdict: Verdict, end: bytes) -> bytes:
    words = verdict_words(verdict.word, verdict.score, verdict.evidence)
    words.append(f"model={_ascii(verdict.model, 200)}")
    lines = _folded(f"{HEADER.decode()}:", words)
    if verdict.reasons:
        why = [f"{_ascii(name, LONGEST_REASON)}={share:+.2f}" for name, share in verdict.reasons]
        lines += _folded(f"{HEADER.decode()}-Why:", why)
    return b"".join(line.encode("ascii") + end for line in lines)


def _folded(head: str, words: Sequence[str]) -> list[str]:
    """A header of these words in lines of at most `WIDEST` columns, if the words are shorter."""
    lines = [head]
    for word in words:
        if len(lines[-1]) + 1 + len(word) <= WIDEST or lines[-1] == head:
            lines[-1] += f" {word}"
        else:
            lines.append(f"\t{word}")
    return lines


def _ascii(text: str, most: int) -> str:
    """The text in visible ASCII: anything else, and `%`, in percent-encoding."""
    return quote(text.replace(": ", ":")[:most], safe="!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~")


def _text(label: object) -> str:
    """A label as text, as JSON writes it."""
    return str(label).lower() if isinstance(label, bool) else str(label)
