"""A spam stays spam, however it is written: each change of writing moves its evidence little."""

from __future__ import annotations

import math
import random
from functools import cache

import pytest

from consumers.mail.document import mail_document
from stream import SpamScorer
from tests.consumers.mail.test_shown import HIDDEN, HTML, written

MOST = 0.3  # of the evidence of the plain mail: 3 natural log-odds of 10
HEAD = b"From: Jo <jo@shop.example>\nTo: a@b.example\nMessage-ID: <7@shop.example>\nSubject: %s\n"
PLAIN = b"Content-Type: text/plain; charset=utf-8\n\n"
LEARNED = 300


def words(rng: random.Random, label: str, count: int) -> str:
    """Words of which a third are of the label."""
    kinds = [label, "any", "any"]
    return " ".join(f"{rng.choice(kinds)}{rng.randrange(300)}" for _ in range(count))


@cache
def scorer() -> SpamScorer:
    """It has learned plain mails, half of them spam."""
    rng = random.Random(5)
    model = SpamScorer()
    for i in range(LEARNED):
        label = "spam" if i % 2 else "ham"
        subject, text = words(rng, label, 4), words(rng, label, 60)
        model.learn_one(mail_document(HEAD % subject.encode() + PLAIN + text.encode()), label)
    return model


def evidence(mail: bytes) -> float:
    """The log-odds of spam."""
    probability = scorer().predict_proba_one(mail_document(HEAD % b"any1 any2" + mail))["spam"]
    return math.log(probability / (1 - probability))


SPAM, GOOD = words(random.Random(8), "spam", 60), words(random.Random(9), "ham", 60)
WRITTEN = written(SPAM)


@pytest.mark.parametrize("how", WRITTEN)
def test_each_change_of_writing_is_near_the_plain_score(how: str) -> None:
    plain = evidence(PLAIN + SPAM.encode())

    assert plain > 6.0
    assert abs(evidence(WRITTEN[how]) - plain) < MOST * plain


@pytest.mark.parametrize("how", HIDDEN)
def test_good_words_that_are_hidden_change_little(how: str) -> None:
    """Shown, they change much."""
    sheet, markup = HIDDEN[how]
    page = "<head>{}</head><p>{}</p>{}".format
    plain = evidence(HTML + page("", SPAM, "").encode())
    hidden = evidence(HTML + page(sheet, SPAM, markup.format(GOOD)).encode())
    shown = evidence(HTML + page("", SPAM, f"<p>{GOOD}").encode())

    assert plain - hidden < MOST * plain < plain - shown
