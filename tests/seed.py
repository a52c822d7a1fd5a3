"""One seed for all that a run of the tests draws, and how many examples a property draws.

The day run has 20 examples for each property, `--all` has 400. The seed of the day run is the
commit's, so that it changes with the code and not from run to run; `--all` draws a fresh one.
HEADWATER_SEED is the seed of this run for all its processes.
"""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

__all__ = ["again", "choose", "load_profile", "of_run", "seeds", "share"]

ROOT = Path(__file__).parent
VARIABLE = "HEADWATER_SEED"
EXAMPLES = {"day": 20, "all": 400}
_SEEDS = 2**32  # numpy takes no others
_SPREAD = 0x9E3779B1  # an odd number: neighbours go far apart, and no two to one place


def choose(*, fresh: bool) -> int:
    """The seed of this run, from now on in the environment of its processes."""
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = str(secrets.randbelow(_SEEDS) if fresh else _of_commit())
    given = os.environ[VARIABLE]
    if not (given.isdecimal() and int(given) < _SEEDS):
        raise ValueError(f"{VARIABLE} expects a whole number below {_SEEDS:,}, got {given!r}")
    return of_run()


def of_run() -> int:
    """The seed of this run."""
    return int(os.environ[VARIABLE])


def again(arguments: list[str]) -> str:
    """The command that repeats a run of pytest with these arguments."""
    return f"{VARIABLE}={of_run()} {shlex.join(['tests/run', *arguments])}"


def load_profile(name: str) -> None:
    """Have hypothesis draw as many examples as this run has.

    There is no deadline, because the first call of a kernel compiles it; and no database, because
    the seed alone decides what a run draws.
    """
    for each, examples in EXAMPLES.items():
        settings.register_profile(each, max_examples=examples, deadline=None, database=None)
    settings.load_profile(name)


def share(of_examples: float) -> int:
    """So much of the examples of this run, and at least one: for those that take long."""
    return max(1, round(of_examples * settings().max_examples))


def seeds(of_examples: float = 1.0, **others: st.SearchStrategy[Any]) -> Callable[[Any], Any]:
    """Decorates a test of `seed`, and maybe others, with `given`: each run draws other ones.

    Hypothesis prefers small numbers, and the first is always the simplest: here the seed of the
    run. A seed is not shrunk, because a smaller one is no simpler.
    """
    drawn = st.integers(0, _SEEDS - 1).map(lambda n: (of_run() + n * _SPREAD) % _SEEDS)
    unshrunk = settings(max_examples=share(of_examples), phases=[Phase.explicit, Phase.generate])
    return lambda test: unshrunk(given(seed=drawn, **others)(test))


def _of_commit() -> int:
    """The first digits of the commit; 0 where no commit is known."""
    asked = ["git", "rev-parse", "HEAD"]
    try:
        commit = subprocess.check_output(asked, cwd=ROOT, text=True, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(commit[:8], 16)
