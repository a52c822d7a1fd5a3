"""The public API of `stream` under strange arguments, and damaged states; 1 where one is broken.

`python -m tests.long.api_fuzz [--seeds 1000] [--states 20000]`: so many seeds of every call of
every learner, and so many damages of the state of each.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
from collections import Counter

from tests.stream.learner.strange import (
    LEARNERS,
    Broken,
    attack,
    attack_others,
    each_altered,
    each_damage,
    known,
)

SHOWN = 20


def main() -> int:
    """All of it; says what was broken, by how often."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--states", type=int, default=20_000)
    options = parser.parse_args()
    faulthandler.enable()
    started, made = time.monotonic(), Counter[str]()
    broken: list[Broken] = []
    for name in LEARNERS:
        for seed in range(options.seeds):
            count, found = attack(name, seed)
            made["calls of learners"] += count
            broken += found
        state = known(LEARNERS[name]).to_state()
        count, found = each_damage([(name, state)], range(options.states))
        made["damaged files"] += count
        altered, more = each_altered([name], range(options.states))
        made["damaged states"] += altered
        broken += [*found, *more]
        sys.stdout.write(f"{name}: {len(broken)} broken so far\n")
    for seed in range(options.seeds):
        count, found = attack_others(seed)
        made["other calls"] += count
        broken += found
    kinds = Counter((b.learner, b.call, b.why[:80]) for b in broken)
    for (learner, call, why), times in kinds.most_common(SHOWN):
        sys.stdout.write(f"{times} x {learner} {call}: {why}\n")
    counts = ", ".join(f"{count:,} {what}" for what, count in made.items())
    sys.stdout.write(f"{counts}: {len(broken)} broken, {time.monotonic() - started:.0f} s\n")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
