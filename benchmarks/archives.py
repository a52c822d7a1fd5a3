"""SpamScorer on archives of raw mails, beside bogofilter.

HEADWATER_MAILS=DIR python -m benchmarks.archives [--held-out NAME …]

Each folder of DIR is a collection, and each file in it a mail; a collection whose name has `spam`
or `junk` is spam. All are shuffled with a seed, and each mail is scored before it is learned. Where
collections are held out, the others are learned, and only those are scored: what separates two
archives, such as their dates and servers, does not help there. (1 - ROCA) % is as in
`benchmarks.spam`; recall is that at 0.1 % false positives. The public corpus of SpamAssassin has
collections of such names; the mails are not part of this repository.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from benchmarks.spam import NEVER, SPAM, Floats, log_odds, ranked
from consumers.mail.document import mail_document
from stream import SpamScorer
from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN, Block

SEED = 7
BUDGET = 0.001
BLOCK = 200
SPAMS = re.compile("spam|junk", re.IGNORECASE)
NO_MAIL = (".json", ".csv", ".js")


class Kept(NamedTuple):
    """A mail of a collection."""

    collection: str
    label: str
    value: bytes


def archive(folder: Path) -> list[Kept]:
    """All mails of a folder, in a seeded order."""
    out: list[Kept] = []
    for each in sorted(path for path in folder.iterdir() if path.is_dir()):
        label = SPAM if SPAMS.search(each.name) and "ham" not in each.name else "ham"
        files = (path for path in sorted(each.rglob("*")) if path.suffix not in NO_MAIL)
        out += [Kept(each.name, label, path.read_bytes()) for path in files if path.is_file()]
    random.Random(SEED).shuffle(out)  # noqa: S311  # an order, not a secret
    return out


def ours(learned: list[Kept], scored: list[Kept]) -> Floats:
    """The scorer; without mails learned before, each is learned after its score."""
    model = SpamScorer()
    model.compile_kernels()
    out = []
    for mails, op in ((learned, LEARN), (scored, PREDICT if learned else PREDICT_THEN_LEARN)):
        for first in range(0, len(mails), BLOCK):
            part = mails[first : first + BLOCK]
            rows = model.rows([mail_document(mail.value) for mail in part])
            found = model.run(Block.of(rows, op, [mail.label for mail in part]))
            if op != LEARN:
                out.append(log_odds(found))
    return np.concatenate(out)


def bogofilters(learned: list[Kept], scored: list[Kept]) -> Floats:
    """bogofilter, a process for each score and each lesson."""
    score = np.zeros(len(scored))
    with TemporaryDirectory() as directory:
        base = ["bogofilter", "-d", directory]

        def learn(mail: Kept) -> None:
            lesson = "-s" if mail.label == SPAM else "-n"
            subprocess.run([*base, lesson], input=mail.value, check=True)  # noqa: S603

        for mail in learned:
            learn(mail)
        for i, mail in enumerate(scored):
            if i or learned:
                told = subprocess.run([*base, "-T"], input=mail.value, capture_output=True)  # noqa: S603
                score[i] = float(told.stdout.split()[1]) - NEVER
            if not learned:
                learn(mail)
    return score


def lines(mails: list[Kept], held_out: list[str]) -> Iterator[str]:
    """The table."""
    yield "| mails | filter | (1 - ROCA) % | recall at 0.1 % FP |"
    yield "|---" * 4 + "|"
    runs = [("all", list[Kept](), mails)]
    if held_out:
        kept = [mail for mail in mails if mail.collection not in held_out]
        out = [mail for mail in mails if mail.collection in held_out]
        runs.append((f"held out: {', '.join(held_out)}", kept, out))
    filters = {"SpamScorer": ours}
    if shutil.which("bogofilter"):
        filters["bogofilter"] = bogofilters
    for name, learned, scored in runs:
        spam = np.array([mail.label == SPAM for mail in scored])
        for title, run in filters.items():
            lost, recall = ranked(run(learned, scored), spam, BUDGET)
            yield f"| {name} | {title} | {100 * lost:.4f} | {100 * recall:.2f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--held-out", nargs="*", default=[], help="collections, of both classes")
    options = parser.parse_args()
    folder = os.environ.get("HEADWATER_MAILS")
    if not folder:
        sys.exit("HEADWATER_MAILS is not set; it names a folder of collections of mails")
    for line in lines(archive(Path(folder)), options.held_out):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
