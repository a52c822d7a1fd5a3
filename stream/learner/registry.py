"""The registry of learners. Each learner registers itself in the file that defines it.

Rule: the facts of a learner are stated once, at its class. The laws, the tests and the tables of
docs/learners.md are made from the registry; the types that a configuration accepts are `names`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TypeVar

from stream.data.schema import KINDS, Kind
from stream.learner.base import Learner
from stream.learner.names import ROOMS

__all__ = ["Facts", "distributions", "facts_of", "learners", "registered", "tables"]

L = TypeVar("L", bound=Learner)


@dataclass(frozen=True, slots=True)
class Facts:
    """The entries of a learner in docs/learners.md, as Markdown.

    Parameters
    ----------
    model
        Its assumption about the fields, given the class.
    cost
        Per record, to predict; to learn. C classes, D features.
    memory
        In floats, unless it names a unit.
    merge_unlearn
        Whether it can merge, and whether it can unlearn.
    missing
        Its treatment of missing values.
    source
        The text whose definition it follows.
    reads
        Each kind of field that it learns from, and how it reads a value of that kind.
    distribution
        The name by which `MixedNB` can use it for a numeric field; empty: it cannot.
    """

    model: str
    cost: str
    memory: str
    missing: str
    source: str
    reads: Mapping[Kind, str]
    merge_unlearn: str = "yes, yes"
    distribution: str = ""


_LEARNERS: dict[str, tuple[type[Learner], Facts]] = {}


def registered(facts: Facts) -> Callable[[type[L]], type[L]]:
    """Class decorator: register this learner under the name of its class."""

    def register(kind: type[L]) -> type[L]:
        _LEARNERS[kind.__name__] = kind, facts
        return kind

    return register


def learners() -> dict[str, type[Learner]]:
    """Name to class of every included learner, sorted by name.

    Examples
    --------
    >>> from stream.learner.registry import learners
    >>> list(learners())[0], learners()["GaussianNB"].__module__
    ('BernoulliNB', 'stream.bayes.gaussian')
    """
    return {name: kind for name, (kind, _) in sorted(_all().items())}


def distributions() -> dict[str, type[Learner]]:
    """Name of a distribution to the learner whose model of numbers it is.

    Examples
    --------
    >>> from stream.learner.registry import distributions
    >>> distributions()["bernoulli"].__name__
    'BernoulliNB'
    """
    every = (facts_of(name).distribution for name in learners())
    return {d: kind for d, kind in zip(every, learners().values(), strict=True) if d}


def facts_of(name: str) -> Facts:
    """The facts of the learner with this name."""
    return _all()[name][1]


def _all() -> dict[str, tuple[type[Learner], Facts]]:
    """The registry, after all included learners are imported."""
    _load()
    return _LEARNERS


@cache
def _load() -> None:
    for room, names in ROOMS.items():
        module = import_module(f"stream.{room}")
        for name in names:
            getattr(module, name)


def tables(page: str) -> str:
    """A Markdown page with the rows of its three tables of learners made from the registry.

    The row of river's classifiers does not change, because it has no class here.
    """
    for heading, row, names in (
        ("class", _model_row, learners()),
        ("learner", _kinds_row, learners()),
        ("distribution", _distribution_row, distributions()),
    ):
        above, header, rest = page.partition(f"| {heading} | ")
        titles, rule, *rows = rest.partition("\n\n")[0].splitlines()
        river = [line for line in rows if line.startswith("| `river:")]
        below = rest.removeprefix("\n".join([titles, rule, *rows]))
        page = above + "\n".join([header + titles, rule, *map(row, names), *river]) + below
    return page


def _model_row(name: str) -> str:
    kind, facts = _LEARNERS[name]
    file = f"{kind.__module__.replace('.', '/')}.py"
    cells = (
        f"`{name}`",
        facts.model,
        facts.cost,
        facts.memory,
        facts.merge_unlearn,
        facts.missing,
        facts.source,
        f"[{file.rpartition('/')[2]}](../{file})",
    )
    return f"| {' | '.join(cells)} |"


def _distribution_row(distribution: str) -> str:
    name = distributions()[distribution].__name__
    return f"| `{distribution}` | {facts_of(name).reads['numeric']} | `{name}` |"


def _kinds_row(name: str) -> str:
    reads = facts_of(name).reads
    return f"| `{name}` | {' | '.join(reads.get(kind, 'ignored') for kind in KINDS)} |"
