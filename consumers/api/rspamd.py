"""Verdicts on mails in the shape of rspamd's `POST /checkv2`.

Programs that ask rspamd get an answer of headwater: an action, a score beside the score that is
required, and symbols. Nothing is ever rejected: the strongest action is `add header`.
"""

from __future__ import annotations

import zlib
from base64 import b64encode
from io import BytesIO
from math import log
from typing import NamedTuple

import msgspec

from consumers.api.bodies import ProblemError
from consumers.api.contract import PredictionRecord, RspamdReply, RspamdSymbol
from consumers.config import Config
from consumers.mail.envelope import EVEN, LARGEST_ASKED, bare, header_of, verdict_words
from consumers.mail.lighter import lighter
from consumers.shard.answer import Answerer, ReadRecords
from stream.decision.risk import named
from stream.learner.predictions import PRIOR

__all__ = ["REASONS", "checked", "read", "unpacked"]

_decode = msgspec.json.Decoder(PredictionRecord).decode
REASONS = 5
SPAM = "spam"
LEAST = 2.0**-52  # of a probability and of 1 - p, as in scores
MOST = log((1.0 - LEAST) / LEAST)  # of a score
GZIP = 31  # of zlib: with the header and the checksum of gzip
WINDOW = 2**23  # bytes that a zstd frame may refer back to; more need a level above 19
ACTIONS = {"spam": "add header", "unsure": "no action", "ham": "no action"}


def unpacked(body: bytes, coding: str) -> bytes:
    """The first bytes of a mail, as many as are looked at.

    Parameters
    ----------
    body
        The bytes of the request; the end may be missing.
    coding
        The header `Content-Encoding`, or `Compression` as rspamd calls it.

    Raises
    ------
    ProblemError
        The coding is not known (415), or the body does not have it (400).

    Examples
    --------
    >>> import gzip
    >>> unpacked(gzip.compress(b"Subject: hi"), "gzip")
    b'Subject: hi'
    """
    word = coding.strip().lower()
    try:
        if word == "zstd":
            from zstandard import ZstdDecompressor  # most mails are not compressed

            frames = ZstdDecompressor(max_window_size=WINDOW)
            with frames.stream_reader(BytesIO(body), read_across_frames=True) as mail:
                return mail.read(LARGEST_ASKED)
        if word in ("gzip", "x-gzip"):
            unpacker = zlib.decompressobj(GZIP)
            found = unpacker.decompress(body, LARGEST_ASKED)
            if not unpacker.eof and max(len(found), len(body)) < LARGEST_ASKED:
                raise EOFError("it ends too early")
            return found
    except Exception as error:  # each library has its own
        raise ProblemError(400, f"expected a body in {word}, got another: {error}") from None
    if word not in ("", "identity"):
        raise ProblemError(415, f"expected a mail in zstd, gzip or as it is, got {coding[:100]!r}")
    return body


class ReadMail(NamedTuple):
    """A mail with its fields, and its Message-ID as it is."""

    asked: ReadRecords
    message_id: str


def read(config: Config, answerer: Answerer, body: bytes, coding: str) -> ReadMail:
    """The mail in a request. O(bytes), but a mail may take much longer than other records.

    Parameters
    ----------
    body, coding
        See `unpacked`.

    Raises
    ------
    ProblemError
        See `unpacked`; or the service is not one of mail (404), or the mail is empty (400).
    """
    value = unpacked(body, coding)
    field = "mail" if config.input.format == "mail" else config.input.mail
    if field is None:
        raise ProblemError(
            404, 'expected a service of mail ([input] format = "mail"); ask /v1/predict instead'
        )
    if not value:
        raise ProblemError(400, "expected a mail as the body, got nothing")
    text = b64encode(lighter(bare(value))).decode()
    record = msgspec.json.encode({field: text})  # its id is not in the answer
    return ReadMail(answerer.read([b"0"], [record]), header_of(value, b"message-id"))


def checked(config: Config, answerer: Answerer, mail: ReadMail, now: int) -> RspamdReply:
    """The verdict on a mail. Nothing is learned or written.

    Parameters
    ----------
    mail
        The mail.
    now
        Milliseconds since 1970.
    """
    budget = config.decision.budget
    spam = SPAM if budget is None else budget.label
    explain = REASONS + 1 if answerer.explains else 0  # one of them may be the class shares
    (found,) = answerer.answer(mail.asked, now, explain=explain)
    if not isinstance(found, bytes):
        raise ProblemError(422, found.detail, reason=found.reason)
    made = _decode(found)
    threshold: float | None = EVEN if len(made.probabilities) > 1 else None
    if made.decision is not None or budget is not None:  # nothing is decided before labels
        threshold = answerer.threshold
    required = _log_odds(1.0 if threshold is None else threshold)
    return _reply(made, spam, required, mail.message_id)


def _reply(made: PredictionRecord, spam: str, required: float, message_id: str) -> RspamdReply:
    shares = {named(label): p for label, p in made.probabilities}
    evidence = {named(label): odds for label, odds in made.evidence or ()}.get(spam)
    both = len(shares) > 1  # the probability of the only label is 1, whatever the mail says
    p = shares.get(spam, 0.0) if both else EVEN
    score = _log_odds(p) if evidence is None else _bounded(evidence)
    action = made.prediction if made.decision is None else made.decision.action
    word = "unsure" if action is None or not both else "spam" if named(action) == spam else "ham"
    name = f"HEADWATER_{word.upper()}"
    by = made.model
    what = "log-odds" if evidence is None else "evidence"
    about = f"{by.name}/{by.type}, {by.learned} labels learned; {what} of {spam}"
    symbol = RspamdSymbol(name, score, score, about, _reasons(made, spam))
    return RspamdReply(
        is_skipped=False,
        score=score,
        required_score=required,
        action=ACTIONS[word],
        symbols={name: symbol},
        message_id=message_id,
        milter={
            "remove_headers": {"X-Headwater": 0, "X-Headwater-Why": 0},
            "add_headers": {
                "X-Headwater": {
                    "value": " ".join(verdict_words(word, p, evidence)),
                    "order": 0,
                }
            },
        },
    )


def _reasons(made: PredictionRecord, spam: str) -> list[str]:
    """Features with their share of the score; evidence is without the class shares."""
    if made.explanation is None or made.prediction is None:
        return []
    sign = 1.0 if named(made.prediction) == spam else -1.0
    kept = [each for each in made.explanation.top if not (made.evidence and each[0] == PRIOR)]
    return [f"{name}={sign * share:+.2f}" for name, share in kept[:REASONS]]


def _log_odds(p: float) -> float:
    p = min(max(p, LEAST), 1.0 - LEAST)
    return _bounded(log(p / (1.0 - p)))


def _bounded(odds: float) -> float:
    return round(min(max(odds, -MOST), MOST), 4)
