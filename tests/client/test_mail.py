"""A mail between mail servers: its id, what is sent, the headers added."""

from __future__ import annotations

import base64
import email
import random
import re
from email.policy import compat32

import pytest

from consumers.api.contract import (
    Champion,
    DecidedAction,
    OwnExplanation,
    PredictedPosition,
    PredictionRecord,
)
from headwater.mail import LARGEST, Verdict, bare, mail_key, mail_record, stamped, verdict_of
from tests.consumers.mail.made import mails

MAIL = b"""Message-ID: <7@a.org>
From: Jo <jo@a.org>
Date: Mon, 1 Jan 2024 10:00:00 +0000
Subject: hello
 there

How are you?
>From here on it is fine.
"""
SPAM = Verdict("spam", 0.99871, "mail/spam/40", [("prize", 2.314), ("tëxt: free", -0.5)])


def made(**more: object) -> PredictionRecord:
    """A prediction."""
    shares = [("spam", 0.75), ("ham", 0.25)]
    at = PredictedPosition("mail", 0, 7)
    return PredictionRecord("7", "spam", shares, Champion("mail", "spam", 4), at, 0, **more)


@pytest.mark.parametrize(
    "changed",
    [
        MAIL.replace(b"\n", b"\r\n"),
        b"Received: from b\n\tby c\nX-Spam-Status: No\n" + MAIL,
        stamped(MAIL, SPAM),
        stamped(stamped(MAIL, SPAM), SPAM),
        MAIL.replace(b"hello\n there", b"hello   there"),
        MAIL.replace(b"fine.\n", b"fine.  \n\n\n"),
        b"From jo Mon Jan  1 10:00:00 2024\n" + MAIL + b"\n",
        MAIL.replace(b"Subject:", b"SUBJECT :"),
    ],
)
def test_id_survives_what_servers_and_mail_programs_change(changed: bytes) -> None:
    """Line ends, headers above, folding, white space at the ends, the line of an mbox."""
    assert mail_key(changed) == mail_key(MAIL)
    assert mail_key(changed).startswith("7@a.org#")


@pytest.mark.parametrize(
    "changed",
    [
        MAIL.replace(b"How", b"Who"),
        MAIL.replace(b"jo@a", b"mo@a"),
        MAIL.replace(b"hello", b"hallo"),
        MAIL.replace(b"10:00:00", b"10:00:01"),
        MAIL.replace(b"Message-ID: <7@a.org>\n", b""),
    ],
)
def test_another_mail_has_another_id(changed: bytes) -> None:
    """Also one that repeats the Message-ID."""
    assert mail_key(changed) != mail_key(MAIL)


def test_id_is_bounded_and_needs_no_escape() -> None:
    """An id has at most 512 characters, and stands in the path of a URL."""
    odd = b"Message-ID: <" + b"a/b c?\xff%" * 500 + b">\n\n"

    assert len(mail_key(odd)) < 512
    assert not set(mail_key(odd)) & set("/ ?%\xff")
    assert mail_key(b"") == mail_key(b"\n\n")
    assert mail_key(b"").startswith("#")


def test_long_mail_has_the_id_of_its_beginning() -> None:
    """Files are read up to a bound, so the end cannot count. Added headers move the bound."""
    long = MAIL + b"line\n" * 300_000

    assert mail_key(long) == mail_key(long[:LARGEST]) == mail_key(stamped(long, SPAM)[:LARGEST])
    assert len(base64.b64decode(mail_record(long)["mail"])) == LARGEST


def test_verdicts_and_filing_are_not_sent() -> None:
    """A model that sees its own verdict learns that."""
    filed = b"X-Mozilla-Keys: Junk\nX-Keywords: $Junk\n\tNonSpam\nStatus: RO\n"

    assert bare(filed + stamped(stamped(MAIL, SPAM), SPAM)) == MAIL
    assert bare(b"From jo Mon\n" + MAIL) == MAIL
    assert base64.b64decode(mail_record(stamped(MAIL, SPAM))["mail"]) == MAIL


def test_headers_are_folded_ascii_above_the_mail() -> None:
    """Nothing else of the mail changes."""
    done = stamped(MAIL, SPAM)
    parsed = email.message_from_bytes(done, policy=compat32)

    assert done.endswith(MAIL)
    assert done.isascii()
    assert parsed["X-Headwater"] == "spam score=0.998710 model=mail/spam/40"
    assert parsed["X-Headwater-Why"] == "prize=+2.31 t%C3%ABxt:free=-0.50"
    long = Verdict("ham", 0.0, "m" * 300, [("word\r\n: " * 30, 1.0)] * 100)
    lines = stamped(MAIL.replace(b"\n", b"\r\n"), long).split(b"\r\n\r\n")[0].split(b"\r\n")
    assert max(map(len, lines[2:])) <= 130
    assert all(line[:1] in b"X\t" for line in lines[: -len(MAIL.split(b"\n\n")[0].split(b"\n"))])


@pytest.mark.parametrize(
    ("forged", "kept"),
    [
        (b"X-Headwater: ham\n", b"X-Was-Headwater: ham\n"),
        (b"x-HEADWATER :\n ham\n", b"X-Was-Headwater :\n ham\n"),
        (b"X-Headwater-Why: a\n", b"X-Was-Headwater-Why: a\n"),
    ],
)
def test_headers_of_a_forger_are_renamed(forged: bytes, kept: bytes) -> None:
    """Wherever they stand. The body is not looked at."""
    body = b"\nX-Headwater: ham\n"
    mail = b"Subject: a\n" + forged + b"To: b\n" + body
    done = stamped(mail, SPAM)

    assert done.endswith(b"Subject: a\n" + kept + b"To: b\n" + body)
    assert email.message_from_bytes(done).get_all("X-Headwater") == [
        "spam score=0.998710 model=mail/spam/40"
    ]


def test_odd_mails_keep_their_bytes() -> None:
    """Whatever comes: without the added headers it is what it was."""
    rng = random.Random(4)
    odd = [b"", b"\n", b"no header\n", b"\r\n\r\nx", b" folded\nA: b\n\n", b"A: b", b"\xff\x00:\n"]
    odd += [rng.randbytes(rng.randrange(200)) for _ in range(200)]
    for mail in [*odd, *mails(100, seed=3)]:
        done = stamped(mail, SPAM)
        first = mail.partition(b"\n")[0] + b"\n" if mail.startswith(b"From ") else b""
        head = stamped(first or b"\n" if mail.partition(b"\n")[0][-1:] != b"\r" else b"\r\n", SPAM)
        own = len(head.rstrip(b"\r\n")) + (2 if b"\r" in head else 1)

        assert done[own:] == mail[len(first) :] or b"headwater" in mail.lower()
        assert isinstance(mail_key(mail), str)


def test_line_of_an_mbox_stays_the_first() -> None:
    """Otherwise the file has a mail less."""
    done = stamped(b"From jo Mon Jan  1 10:00:00 2024\n" + MAIL, SPAM)

    assert done.startswith(b"From jo Mon Jan  1 10:00:00 2024\nX-Headwater: spam")


@pytest.mark.parametrize(
    ("prediction", "word"),
    [
        (made(decision=DecidedAction("spam", 0.1)), "spam"),
        (made(decision=DecidedAction(None, None)), "unsure"),
        (made(decision=DecidedAction("ham", 0.75)), "ham"),
        (made(), "spam"),
    ],
)
def test_verdict_is_the_decision(prediction: PredictionRecord, word: str) -> None:
    """Without [decision] it is the most probable label."""
    assert verdict_of(prediction).word == word
    assert verdict_of(prediction).score == 0.75


@pytest.mark.parametrize("shares", [[], [("spam", 1.0)], [("ham", 1.0)]])
def test_score_of_one_label_is_even(shares: list[tuple[str, float]]) -> None:
    """The probability of the only label is 1, whatever the mail says."""
    early = made()
    early.probabilities, early.prediction = shares, shares[0][0] if shares else None
    verdict = verdict_of(early)

    assert (verdict.word, verdict.score) == ("unsure", 0.5)
    assert b"X-Headwater: unsure score=0.500000 model" in stamped(MAIL, verdict)


def test_verdict_of_actions_that_are_no_labels_is_refused() -> None:
    """Nobody knows whether `bin` is spam."""
    with pytest.raises(ValueError, match="expected a decision that is a label"):
        verdict_of(made(decision=DecidedAction("bin", 0.1)))


def test_reasons_speak_for_spam() -> None:
    """Whichever label was predicted."""
    why = [("free", 2.0), ("size", -1.0)]
    of_spam = made(explanation=OwnExplanation("ham", 1.0, why))
    of_ham = made(explanation=OwnExplanation("spam", 1.0, why))
    of_ham.prediction = "ham"

    assert verdict_of(of_spam).reasons == (("free", 2.0), ("size", -1.0))
    assert verdict_of(of_ham).reasons == (("free", -2.0), ("size", 1.0))


def test_evidence_is_that_of_spam() -> None:
    """Beside the score, in a word of its own; without it the header is as before."""
    weighed = made(evidence=[("spam", -2.345), ("ham", 2.345)])
    verdict = verdict_of(weighed)

    assert verdict.evidence == -2.345
    assert b"spam score=0.750000 evidence=-2.35 model=mail/spam/4\n" in stamped(MAIL, verdict)
    assert verdict_of(made()).evidence is None


def test_labels_may_be_bools_and_numbers() -> None:
    """`--spam-label true`."""
    at = PredictedPosition("mail", 0, 7)
    by = Champion("mail", "spam", 4)
    of = PredictionRecord("7", True, [(True, 0.9), (False, 0.1)], by, at, 0)
    number = PredictionRecord("7", 1, [(1, 0.9), (0, 0.1)], by, at, 0)

    assert verdict_of(of, "true")[:2] == ("spam", 0.9)
    assert verdict_of(number, "1")[:2] == ("spam", 0.9)


def test_texts_without_headers_have_ids_of_their_own() -> None:
    """And the line before a mail in an mbox is no part of it."""
    keys = {mail_key(text) for text in (b"win a prize\n", b"lunch at noon\nat home\n", b"\n", b"")}

    assert len(keys) == 3, "the last two have no text"
    assert mail_key(b"From x Mon Jan 1\n" + MAIL) == mail_key(MAIL)
    assert mail_key(b"win a prize\r\n") == mail_key(b"win a prize \n")


@pytest.mark.parametrize(
    "header",
    [
        b"Subject: a\rX-Headwater: ham\r\n",
        b"\rX-Headwater: ham\r\n",
        b"Subject: a\r\n b\r\rx-HEADWATER-Why: ham\r\n",
        b"X-Headwater: ham\rX-Headwater: ham\r\n",
    ],
)
def test_verdict_behind_a_bare_cr_is_renamed(header: bytes) -> None:
    """A program that ends lines at a bare CR finds no verdict but ours."""
    done = stamped(header + b"To: me\r\n\r\nX-Headwater: quoted\r\n", SPAM)
    head, _, body = done.partition(b"\r\n\r\n")
    lines = [line.lower() for line in re.split(rb"\r\n|\r|\n", head)]

    ours = [line for line in lines if line.startswith(b"x-headwater")]
    assert [line.partition(b":")[0] for line in ours] == [b"x-headwater", b"x-headwater-why"]
    assert ours[0].startswith(b"x-headwater: spam")
    assert body == b"X-Headwater: quoted\r\n"
