"""The laws that every Learner must satisfy, as a part of the package, like river.checks.

A law takes a learner, works on clones of it with generated, seeded records, and raises
AssertionError with one sentence. It needs neither pytest nor hypothesis.
"""

from __future__ import annotations

from collections.abc import Iterator

from stream.checks import algebra, explanations, rejection, restoration, splits
from stream.checks.streams import Law
from stream.data.parameters import shown
from stream.errors import SchemaError
from stream.learner.base import Learner

__all__ = ["Law", "check_laws", "yield_laws"]

FAMILIES = (splits, rejection, restoration, algebra, explanations)


def yield_laws(learner: Learner) -> Iterator[Law]:
    """The laws that `learner` must satisfy: all that apply to it.

    Examples
    --------
    >>> from stream import GaussianNB
    >>> from stream.checks import yield_laws
    >>> next(yield_laws(GaussianNB())).__name__
    'any_split_gives_the_same_bits'
    """
    if not isinstance(learner, Learner):
        raise SchemaError(f"learner must be a Learner, got {shown(learner)}")
    for family in FAMILIES:
        for law in family.LAWS:
            if law.__name__ not in learner.not_applicable:
                yield law


def check_laws(learner: Learner) -> None:
    """Raise AssertionError for the first law that `learner` breaks."""
    for law in yield_laws(learner):
        law(learner)
