"""What SpamScorer says about features and about parts of a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stream.data.schema import Label
from stream.learner.explain import TextSpan
from stream.text.features import Named

__all__ = ["FeatureEvidence", "spans_of"]


class FeatureEvidence(NamedTuple):
    """What is known about a feature.

    log_odds: what it adds to the log-odds of a record whose view has no other feature; of m
    features each adds its own divided by √m. It is 0 if the feature is not known. records: the
    present weight of the learned records of each class that have it, where older records weigh
    less.
    """

    log_odds: float
    records: Mapping[Label, float]


def spans_of(every: Sequence[Named], term: Mapping[int, float]) -> tuple[TextSpan, ...]:
    """The evidence of each token of the texts.

    Parameters
    ----------
    every
        The features of a record, as often as they occur.
    term
        What each adds, by its id. It is divided equally over the places of the feature.
    """
    times = Counter(found.id for found in every)
    out: dict[tuple[str, int, int], float] = {}
    for found in every:
        for begin, end in found.places:
            share = term[found.id] / (times[found.id] * len(found.places))
            at = found.field, begin, end
            out[at] = out.get(at, 0.0) + share
    return tuple(TextSpan(*at, total) for at, total in sorted(out.items()) if total)
