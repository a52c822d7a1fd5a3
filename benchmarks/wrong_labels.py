"""What wrong labels and runs of labels do to the spam scorer, and what its budget finds.

python -m benchmarks.wrong_labels [--placements 20] [--write]

1,400 mails of Enron-1 are learned (HEADWATER_SHARED), then some are labelled, and the next 600 are
only predicted. The mails that are labelled come after those 600. Placements are drawn by the seed
1. "Moved" mails are ham of the 1,400 whose label is corrected to spam, and then back to ham. The
mail without a known word has letters of another script.

The budget is that of `init --spam`: 1 % of ham. It is compared, from the first flag on, with the
best fixed threshold of evidence that keeps the budget in hindsight.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.performance import put
from benchmarks.texts import ROOT, Stream, enron, sms
from consumers.config.propose import MIN_LEARNED, MIN_PROBABILITY, UNSURE
from stream import SpamScorer
from stream.data.block import PREDICT, PREDICT_THEN_LEARN, Block
from stream.decision import Budget, FalsePositiveBudget
from stream.decision.budget import EVIDENCE, FLAGGED_LABEL
from stream.decision.budget import Verdicts as BudgetVerdicts

HAM, SPAM = "ham", "spam"
LEARNED, ASKED = 1400, 600
RATE = 0.01
UNKNOWN = "ⲁⲃⲅⲇ ⲉⲍⲏ ⲑⲓⲕⲗ ⲙⲛⲝⲟⲡ"

Floats = NDArray[np.float64]


class Verdicts(NamedTuple):
    """Of the mails that are asked: the probability of spam, that by the evidence alone; and the
    evidence of a mail without a known word."""

    p: Floats
    even: Floats
    unknown: float


def spam_of(model: SpamScorer, texts: Sequence[str]) -> tuple[Floats, Floats]:
    """The probability of spam, and that by the evidence alone."""
    made = model.run(Block.of(model.rows([{"text": text} for text in texts]), PREDICT))
    code = made.classes.index(SPAM)
    return made.proba[:, code], made.judged[:, code]


def asked(model: SpamScorer, mails: Stream) -> Verdicts:
    """What the model says now."""
    p, even = spam_of(model, [text for text, _ in mails[LEARNED : LEARNED + ASKED]])
    unknown = spam_of(model, [UNKNOWN])[1].item()
    return Verdicts(p, even, float(np.log(unknown / (1 - unknown))))


def taught(model: SpamScorer, mails: Iterable[tuple[str, str]]) -> SpamScorer:
    """A copy that has learned these too."""
    model = copy.deepcopy(model)
    for text, label in mails:
        model.learn_one({"text": text}, label)
    return model


def moved(model: SpamScorer, texts: Sequence[str], ages: Sequence[int], to: str) -> SpamScorer:
    """A copy in which the labels of these were corrected."""
    model, old = copy.deepcopy(model), HAM if to == SPAM else SPAM
    for text, age in zip(texts, ages, strict=True):
        model.correct_rows(model.rows([{"text": text}]), (old, 1.0), (to, 1.0), age)
    return model


def row(name: str, said: Verdicts, spam: NDArray[np.bool_], threshold: float) -> str:
    """Ham and spam above a half, those that are called spam, and the mail without a known word."""
    counts = [
        (part[which] >= least).sum()
        for part, least in ((said.p, 0.5), (said.even, threshold))
        for which in (~spam, spam)
    ]
    cells = (name, *counts, f"{said.unknown:+.2f}")
    return f"| {' | '.join(map(str, cells))} |"


def table(mails: Stream, model: SpamScorer) -> Iterator[str]:
    """One row for each thing that happens to the scorer."""
    spam = np.array([label == SPAM for _, label in mails[LEARNED : LEARNED + ASKED]])
    rest = mails[LEARNED + ASKED :]
    hams = [text for text, label in rest if label == HAM]
    spams = [text for text, label in rest if label == SPAM]
    old = [i for i, (_, label) in enumerate(mails[:LEARNED]) if label == HAM][-10:]
    texts, ages = [mails[i][0] for i in old], [LEARNED - 1 - i for i in old]
    threshold = spent_on(mails[:LEARNED])
    heads = ("then", "ham above ½", "spam above ½", "ham called spam", "spam called spam")
    yield f"| {' | '.join((*heads, 'evidence of no known word'))} |"
    yield "|---" * 6 + "|"
    yield row("nothing", asked(model, mails), spam, threshold)
    for n in (1, 10):
        wrong = taught(model, [(text, SPAM) for text in hams[:n]])
        yield row(f"{n} ham labelled spam", asked(wrong, mails), spam, threshold)
    back = moved(wrong, hams[:10], range(9, -1, -1), HAM)
    yield row("… and moved back", asked(back, mails), spam, threshold)
    junk = moved(model, texts, ages, SPAM)
    yield row("10 learned ham moved to Junk", asked(junk, mails), spam, threshold)
    yield row("… and moved back", asked(moved(junk, texts, ages, HAM), mails), spam, threshold)
    run = taught(model, [(text, SPAM) for text in spams[:50]])
    yield row("50 right labels of spam in a row", asked(run, mails), spam, threshold)
    run = taught(model, [(text, HAM) for text in hams[:50]])
    yield row("50 right labels of ham in a row", asked(run, mails), spam, threshold)


def changed(a: Verdicts, b: Verdicts) -> tuple[int, int]:
    """How many mails are on another side of a half, by probability and by evidence."""
    return tuple(int(((x > 0.5) != (y > 0.5)).sum()) for x, y in zip(a[:2], b[:2], strict=True))


def placements(mails: Stream, model: SpamScorer, n: int) -> Iterator[str]:
    """The most verdicts of 600 that changed in any placement."""
    rng, now = Random(1), asked(model, mails)  # noqa: S311  # a sample, not a secret
    rest = mails[LEARNED + ASKED :]
    hams = [text for text, label in rest if label == HAM]
    spams = [text for text, label in rest if label == SPAM]
    found: dict[str, list[tuple[int, int]]] = {}
    start, tail = 1000, mails[1000:LEARNED]
    begun = taught(SpamScorer(), mails[:start])
    for _ in range(n):
        which = sorted(rng.sample(range(len(tail)), 10))
        flipped = {i: (tail[i][0], HAM if tail[i][1] == SPAM else SPAM) for i in which}
        wrong = taught(begun, [flipped.get(i, mail) for i, mail in enumerate(tail)])
        back = wrong
        for i in which:
            back = moved(back, [tail[i][0]], [len(tail) - 1 - i], tail[i][1])
        texts = rng.sample(hams, 10)
        late = taught(model, [(text, SPAM) for text in texts])
        late_back = moved(late, texts, range(9, -1, -1), HAM)
        never = taught(model, [(text, HAM) for text in texts])
        of_class = ((SPAM, spams), (HAM, hams))
        runs = [taught(model, [(t, y) for t in rng.sample(of, 50)]) for y, of in of_class]
        for name, one, other in (
            ("10 wrong among the last 400", wrong, model),
            ("… and corrected", back, model),
            ("10 ham labelled spam at the end", late, model),
            ("… and corrected, and never wrong", late_back, never),
            ("50 right labels of spam", runs[0], model),
            ("50 right labels of ham", runs[1], model),
        ):
            pair = (asked(one, mails), now if other is model else asked(other, mails))
            found.setdefault(name, []).append(changed(*pair))
    yield f"| {n} placements | most changed of {ASKED} | mean | most, by evidence |"
    yield "|---|---|---|---|"
    for name, counts in found.items():
        most, by_evidence = (max(column) for column in zip(*counts, strict=True))
        mean = sum(count for count, _ in counts) / len(counts)
        yield f"| {name} | {most} | {mean:.1f} | {by_evidence} |"


class Spent(NamedTuple):
    """A budget after a stream: what it decided, and the probabilities by the evidence."""

    budget: FalsePositiveBudget
    done: BudgetVerdicts
    even: Floats
    spam: NDArray[np.bool_]


def followed(stream: Stream) -> Spent:
    """The budget of `init --spam` over a stream whose labels come at once."""
    model, even = SpamScorer(), np.full(len(stream), 0.0)
    spam = np.array([label == SPAM for _, label in stream])
    for first, last in pairwise([*range(0, len(stream), 500), len(stream)]):
        part = stream[first:last]
        rows = model.rows([{"text": text} for text, _ in part])
        made = model.run(Block.of(rows, PREDICT_THEN_LEARN, [label for _, label in part]))
        if SPAM in made.classes:
            even[first:last] = made.judged[:, made.classes.index(SPAM)]
    rule = Budget(SPAM, RATE, MIN_LEARNED, UNSURE, MIN_PROBABILITY)
    budget, steps = FalsePositiveBudget(rule), np.arange(len(stream))
    labels = np.where(spam, FLAGGED_LABEL, EVIDENCE)
    none = np.zeros(len(stream), dtype=np.bool_)
    done = budget.follow(steps, even, labels, steps, (even, none, none))
    return Spent(budget, done, even, spam)


def spent_on(stream: Stream) -> float:
    """The threshold after a stream."""
    threshold = followed(stream).budget.threshold
    return 1.0 if threshold is None else threshold


def spent(name: str, stream: Stream) -> str:
    """What the budget finds in a stream."""
    _, done, even, spam = followed(stream)
    first = int(np.argmax(done.flagged))
    late = np.arange(len(stream)) >= first
    ham = np.sort(even[late & ~spam])[::-1]
    best = even[late & spam] > ham[int(RATE * ham.size)]
    cells = (
        name,
        int((~spam[:first]).sum()),
        f"{100 * done.flagged[late & spam].mean():.1f}",
        f"{100 * best.mean():.1f}",
        f"{100 * done.flagged[~spam].sum() / (RATE * (~spam).sum()):.0f} %",
        f"{100 * done.unsure[late].mean():.1f} %",
    )
    return f"| {' | '.join(map(str, cells))} |"


def budgets() -> Iterator[str]:
    """One row for each stream."""
    heads = ("stream", "ham before the first flag", "recall %", "best fixed threshold %")
    yield f"| {' | '.join((*heads, 'of the budget used', 'unsure from then on'))} |"
    yield "|---" * 6 + "|"
    both = {"SMS": sms(), "Enron-1": enron()}
    for name, stream in both.items():
        yield spent(name, stream)
    for a, b in (("Enron-1", "SMS"), ("SMS", "Enron-1")):
        yield spent(f"{a}, then {b}", both[a] + both[b])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--placements", type=int, default=20)
    parser.add_argument("--only", choices=("table", "placements", "budget"), nargs="*", default=[])
    parser.add_argument("--write", action="store_true", help="the tables into docs/learners.md")
    options = parser.parse_args()
    mails = enron()
    model = taught(SpamScorer(), mails[:LEARNED])
    parts = {
        "table": lambda: table(mails, model),
        "placements": lambda: placements(mails, model, options.placements),
        "budget": budgets,
    }
    lines: list[str] = []
    for name, made in parts.items():
        if options.only and name not in options.only:
            continue
        for line in made():
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
            lines.append(line)
        sys.stdout.write("\n")
        lines.append("")
    if options.write:
        put("wrong_labels", lines[:-1], Path(ROOT) / "docs/learners.md")


if __name__ == "__main__":
    main()
