"""Failing worlds whose service has features at random: each on or off, and faults likewise.

A world with everything in it hides what two features alone would show, because one keeps the other
from happening ("Swarm Testing", Groce et al., ISSTA 2012). So a seed draws which features and which
faults there are, how likely each fault is, which Kafka, and whether one process runs at a time
(`world.py`) or several (`crowd.py`). What is due is what a world of the same features without
faults gives, of another seed: commits of other sizes must not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from consumers.base.errors import ConfigError
from tests.simulation.broker import PROTOCOLS
from tests.simulation.crowd import CROWDED, Crowd
from tests.simulation.weather import CALM, STORMY
from tests.simulation.world import KEY, Told, World, violations

__all__ = ["FEATURES", "Swarm", "found", "swarm"]

SMALL = {"records": 80, "commits": 12}
SECTIONS = {
    "challengers": """
[[challenger]]
name = "bins"
type = "CategoricalNB"
[[challenger]]
name = "near"
type = "KNNClassifier"
window = 20
[promotion]
rule = "e_value"
threshold = 1.2
""",
    "drift": """
[drift]
keep = 20
warm_up = 5
[[drift.detectors]]
on = "error"
type = "ADWIN"
clock = 1
delta = 0.5
action = "forget"
""",
    "reject": "[decision]\nreject = 0.2\n",
    "losses": """
[decision]
losses.stay = {true = 1, false = 0}
losses.go = {true = 0, false = 2}
""",
    "explained": "[output]\nexplain = 2\ntop = 2\n",
    "silence": """
[labels]
corrections = true
silence = false
after = "150ms"
score_silence = true
""",
    "corrections": "[labels]\ncorrections = true\n",
    "early": '[labels]\nhorizon = "200ms"\nmax_pending = 20\n',
}
ONE_OF = (("reject", "losses"), ("silence", "corrections", "early"))  # the same section of a file
MODELS = {
    "GaussianNB": 'type = "GaussianNB"',
    "MixedNB": 'type = "MixedNB"',
    "near": 'type = "KNNClassifier"\nwindow = 30',
    "fading": 'type = "GaussianNB"\nhalf_life = 40',
    "logistic": 'type = "LogisticRegression"',
}
OTHERS = ("keys", "keys on disk", "at least once", "crowd", "mix")
FEATURES = (*SECTIONS, *MODELS, *OTHERS, *PROTOCOLS)
# What a service refuses beside another feature, which stays.
REFUSED = (
    ("keys", "corrections"),
    ("keys", "silence"),
    ("keys", "mix"),
    ("near", "explained"),
    ("near", "mix"),
    ("fading", "mix"),
    ("logistic", "mix"),
    ("logistic", "corrections"),
    ("logistic", "silence"),
    ("fading", "corrections"),
    ("fading", "silence"),
    ("mix", "drift"),
    ("keys on disk", "drift"),
)
LIKELY = {"keys": 0.2, "keys on disk": 0.7, "mix": 0.7, "drift": 0.3}  # others have 0.4
STRONGER = (1.0, 3.0, 10.0)
MOST = 0.1  # of a fault, at a call


class Swarm(NamedTuple):
    """The features and faults of a seed."""

    on: frozenset[str]
    options: dict[str, Any]
    chances: Mapping[str, float]

    def world(self, seed: int, directory: Path, chances: Mapping[str, float]) -> World:
        """A world with these features."""
        kind = Crowd if "crowd" in self.on else World
        return kind(seed, directory, **{**SMALL, **self.options, "chances": chances})


def swarm(seed: int) -> Swarm:
    """What a seed draws. Not each configuration is one that a service takes."""
    random = Random(seed)
    on = {name for name in (*SECTIONS, *OTHERS) if random.random() < LIKELY.get(name, 0.4)}
    for names in ONE_OF:
        on -= set(random.sample(names, len(names) - 1))
    model = "GaussianNB" if "keys" in on else random.choice([*MODELS])
    protocol = random.choice(PROTOCOLS)
    on |= {model, protocol}
    for stays, goes in REFUSED:
        on -= {goes} if stays in on else set()
    on -= set() if "keys" in on else {"keys on disk"}
    on -= set() if "crowd" in on else {"mix"}
    faults = [name for name in (CROWDED if "crowd" in on else STORMY) if random.random() < 0.5]
    chances = {name: min(MOST, STORMY[name] * random.choice(STRONGER)) for name in faults}
    options = {
        "more": "".join(SECTIONS[name] for name in SECTIONS if name in on),
        "model": MODELS[model],
        "key": KEY if "keys" in on else "",
        "on_disk": "keys on disk" in on,
        "guarantee": "at_least_once" if "at least once" in on else "exactly_once",
        "protocol": protocol,
        "mix": "mix" in on,
        "corrected": "corrections" in on,
    }
    return Swarm(frozenset(on), options, chances)


def found(seed: int, directory: Path) -> tuple[list[str], Told, frozenset[str]] | None:
    """What is wrong in the world of a seed, what happened in it, and its features; None if a
    service does not take its configuration."""
    drawn = swarm(seed)
    try:
        due = drawn.world(seed + 1, directory / "calm", CALM).run()
    except ConfigError:
        return None
    told = drawn.world(seed, directory / "failing", drawn.chances).run()
    wrong = violations(told, due, repeats="at least once" in drawn.on)
    if "mix" in drawn.on:  # the clock decides when shards mix, so what they predict then
        wrong = [line for line in wrong if not line.startswith(("values", "state: the journal's"))]
    return wrong, told, drawn.on
