"""Our accuracies beside MOA's on every stream: python -m tests.long.moa [--only STREAM …]."""

from __future__ import annotations

import argparse
import sys

from tests.stream.evaluate.test_moa import (
    BUNDLED,
    EXPLAINED,
    FILES,
    POINT,
    accuracy,
    blocks,
    fresh,
    moas,
)


def main() -> int:
    """Print a line a figure; 1 where one is lower by more than a point without a reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[*FILES, *BUNDLED])
    options = parser.parse_args()
    lower = 0
    for name, learner, variant, theirs in moas(set(options.only)):
        ours = accuracy(fresh(name, learner, variant), blocks(name))
        why = EXPLAINED.get((name, learner, variant), "")
        lower += ours < theirs - POINT and not why
        told = (
            f"{name:15} {learner:11} {variant:16} {ours:7.3f} {theirs:7.3f} {ours - theirs:+6.2f}"
        )
        sys.stdout.write(f"{told} {why}\n")
        sys.stdout.flush()
    return int(lower > 0)


if __name__ == "__main__":
    sys.exit(main())
