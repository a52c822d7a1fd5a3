"""Memory of SpamScorer over many distinct tokens: python -m tests.long.spam_memory [--tokens N].

Each message has 200 tokens that no other message has, and one word of its class. The resident
memory of the process is read after each tenth. The table is full, and half of it evicted, many
times. It fails if the memory of the second half is more than a twentieth above that of the first,
or if the words of the classes are no longer known.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from random import Random

from stream import SpamScorer

PER_MESSAGE = 200
BLOCK = 250
PAGE = 4096  # bytes
MOST_MORE = 1.05
KNOWN = 0.9


def resident() -> int:
    """MB of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE >> 20


def messages(rng: Random, n: int) -> tuple[list[dict[str, str]], list[str]]:
    """Messages of new tokens, and their labels."""
    xs, ys = [], []
    for _ in range(n):
        spam = rng.random() < 0.3
        found = [f"{rng.getrandbits(48):x}" for _ in range(PER_MESSAGE)]
        found.append("viagra" if spam else "lunch")
        rng.shuffle(found)
        xs.append({"text": " ".join(found)})
        ys.append("spam" if spam else "ham")
    return xs, ys


def main() -> None:
    """Run and print a line for each tenth."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=10_000_000)
    asked = parser.parse_args()
    rng, model = Random(1), SpamScorer()  # the same messages each time
    model.compile_kernels()
    tenth = asked.tokens // 10
    done, next_line, began, memory = 0, tenth, time.process_time(), []
    sys.stdout.write(
        "| distinct tokens | features | evicted | MB | CPU s |\n|---|---|---|---|---|\n"
    )
    while done < asked.tokens:
        xs, ys = messages(rng, BLOCK)
        model.learn_many(xs, ys)
        done += BLOCK * PER_MESSAGE
        if done >= next_line:
            next_line += tenth
            memory.append(resident())
            cells = done, model.n_parameters, model.overflows["features"], memory[-1]
            spent = time.process_time() - began
            sys.stdout.write(f"| {' | '.join(f'{x:,}' for x in cells)} | {spent:,.0f} |\n")
            sys.stdout.flush()
    half = len(memory) // 2
    if max(memory[half:]) > MOST_MORE * max(memory[:half]):
        sys.exit(f"memory grows: {memory} MB")
    p = [model.predict_proba_one({"text": word}) for word in ("viagra", "lunch")]
    if min(p[0]["spam"], p[1]["ham"]) < KNOWN:
        sys.exit(f"the words of the classes are not known any more: {p}")


if __name__ == "__main__":
    main()
