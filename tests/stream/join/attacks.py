"""Attacks by reporters on a stream of simulated messages, and how a model does under them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream import Learner, Rows, Schema
from stream.evaluate.progressive import Events, Progressive
from stream.join.join import LabelJoin
from stream.join.reported import ReportedJoin
from stream.join.reporters import ReporterRules

SCHEMA = Schema.of(text="text")
BEGIN, HONEST = 800, 20  # messages before the attack, honest reporters
WORDS = {kind: [f"{kind}{i}" for i in range(80)] for kind in ("ham", "spam", "any")}


class Report(NamedTuple):
    """A label of a message, at a time (in messages)."""

    at: float
    message: int
    label: str
    who: str


class Attack(NamedTuple):
    """Messages with their true labels, whose accuracy counts, and what was reported of them."""

    texts: list[str]
    truth: list[str]
    counted: list[bool]
    reports: list[Report]


def words(rng: np.random.Generator, *kinds: tuple[str, int]) -> str:
    """So many words of each kind; a few kinds of words are in nearly all messages."""
    return " ".join(WORDS[kind][int(80 * rng.random() ** 2)] for kind, n in kinds for _ in range(n))


def honest(rng: np.random.Generator, i: int, truth: str) -> list[Report]:
    """One or two different people report most messages. One report of fifty is wrong."""
    many = int(rng.choice([0, 1, 2], p=[0.2, 0.5, 0.3]))
    out = []
    for k, who in enumerate(rng.choice(HONEST, many, replace=False).tolist()):
        label = truth if rng.random() > 0.02 else {"ham": "spam", "spam": "ham"}[truth]
        out.append(Report(i + rng.uniform(2, 40) + 20 * k, i, label, f"u{who}"))
    return out


def flipped(n: int, seed: int) -> Attack:
    """From `BEGIN` on, one reporter is first at one message of ten, and always says the opposite:
    of the messages that are hard to tell apart."""
    rng, out = np.random.default_rng(seed), Attack([], [], [], [])
    for i in range(n):
        truth = "spam" if rng.random() < 0.4 else "ham"
        other = {"ham": "spam", "spam": "ham"}[truth]
        text = words(rng, (truth, 2), (other, 1), ("any", 4))
        out.texts.append(text)
        out.truth.append(truth)
        out.counted.append(i >= BEGIN)
        if i >= BEGIN and rng.random() < 0.1:
            out.reports.append(Report(i + 1.0, i, other, "eve"))
        out.reports.extend(honest(rng, i, truth))
    return out


def good_words(n: int, seed: int) -> Attack:
    """From `BEGIN` on, half of the spam hides among words of ham, and its senders report it as ham
    at once, with five accounts in turn."""
    rng, out = np.random.default_rng(seed), Attack([], [], [], [])
    for i in range(n):
        truth = "spam" if rng.random() < 0.4 else "ham"
        hidden = truth == "spam" and i >= BEGIN and rng.random() < 0.5
        spam = (("spam", 3), ("ham", 3)) if hidden else (("spam", 3),)
        out.texts.append(words(rng, *(spam if truth == "spam" else (("ham", 3),)), ("any", 4)))
        out.truth.append(truth)
        out.counted.append(i >= BEGIN)
        if hidden:
            out.reports.append(Report(i + 0.5, i, "ham", f"eve {int(rng.integers(5))}"))
        out.reports.extend(honest(rng, i, truth))
    return out


def accuracy(attack: Attack, learner: Learner, rules: ReporterRules | None) -> float:
    """Of the predictions since the attack began. Corrections are on if the learner can correct."""
    bounds = {"corrections": learner.can_correct}
    join = LabelJoin(**bounds) if rules is None else ReportedJoin(rules, **bounds)
    going = Progressive(learner, join, learner.prepare(Rows.empty(SCHEMA)))
    timed: list[tuple[float, int, Report | None]] = [
        (float(i), i, None) for i in range(len(attack.texts))
    ]
    timed += [(report.at, report.message, report) for report in attack.reports]
    timed.sort(key=lambda each: each[0])
    rows = Rows.empty(SCHEMA, len(attack.texts))
    rows.text[:, 0] = attack.texts
    events = Events(
        [str(i) for _, i, _ in timed],
        [i if report is None else -1 for _, i, report in timed],
        [None if report is None else report.label for *_, report in timed],
        [1.0] * len(timed),
        [int(at * 1000) for at, *_ in timed],
        reporters=[None if report is None else report.who for *_, report in timed],
    )
    result = going.process(rows, events)
    labels = [*result.predictions.classes]
    said = [labels[code] if code >= 0 else None for code in result.predicted.tolist()]
    right = [s == t for s, t, c in zip(said, attack.truth, attack.counted, strict=True) if c]
    return sum(right) / len(right)
