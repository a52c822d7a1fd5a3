"""What SpamScorer says about features and about parts of a text.

Rule: `SpamScorer.explain_rows` is the definition. `ExplainedSteps` gives the same contributions for
the predictions of a block, from compiled loops, and names only those that are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, Rows
from stream.data.schema import Label
from stream.learner.explain import BIAS, PRIOR, Explanation, TextSpan
from stream.linear._kernels.explained import HEAD, Reasons
from stream.text._kernels.occurrences import PLACE
from stream.text.characters import characters
from stream.text.features import Features, Named, Parts, Texts, TextSources, group_of

__all__ = ["ExplainedSteps", "FeatureEvidence", "contributions_of", "spans_of"]


class FeatureEvidence(NamedTuple):
    """What is known about a feature.

    log_odds: what it adds to the log-odds of a record whose view has no other feature; of m
    features each adds its own divided by √m. It is 0 if the feature is not known. records: the
    present weight of the learned records of each class that have it, where older records weigh
    less.
    """

    log_odds: float
    records: Mapping[Label, float]


def contributions_of(
    named: Mapping[int, Named], terms: Sequence[float]
) -> tuple[dict[str, float], dict[int, float]]:
    """What each part of a record adds to the log-odds, by its name; and each feature, by its id.

    Parameters
    ----------
    named
        Each feature of the record by its id, where it occurs first.
    terms
        The class shares, the bias of each view, and what each feature adds.
    """
    (prior, *biases), of_feature = terms[:HEAD], terms[HEAD:]
    out = {PRIOR: prior}
    if bias := sum(biases):
        out[BIAS] = bias
    for first, term in zip(named.values(), of_feature, strict=True):
        if term:
            name = f"{first.field}: {first.span}" if first.span else first.field
            out[name] = out.get(name, 0.0) + term
    return out, dict(zip(named, of_feature, strict=True))


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


class ExplainedSteps:
    """Explanations of the predictions of a block, as its steps are executed.

    Parameters
    ----------
    rows
        Those of the block.
    shares
        How many contributions each explanation keeps.

    Attributes
    ----------
    explanations : list of Explanation
        One for each prediction so far; None while fewer than two classes were known.
    """

    def __init__(self, rows: Rows, shares: int) -> None:
        self.explanations: list[Explanation | None] = []
        self._names, self._shares = rows.text_names, shares
        self._sources = TextSources(np.zeros(0, np.int64), [], [])
        self._reasons = _room(0, 0, shares)

    def arguments(
        self,
        texts: Texts,
        sources: TextSources,
        found: Features,
        op: NDArray[np.int8],
        bag: NDArray[np.int64],
    ) -> tuple[Texts, NDArray[np.uint64], NDArray[np.int64], int, Reasons]:
        """The last arguments of the kernel, for steps over rows with these texts and features."""
        told = bag[op != LEARN]
        views = (found.start.size - 1) // (texts.of_row.size - 1)
        features = found.start[(told + 1) * views] - found.start[told * views]
        self._sources = sources
        self._reasons = _room(told.size, int(features.sum()), self._shares)
        group = group_of(sources.others)
        return texts, group, characters(), len(self.explanations), self._reasons

    def add(self, classes: Sequence[Label]) -> None:
        """Add those of the steps that the kernel has executed; `classes` by code."""
        why, made, name = self._reasons, self.explanations, Parts(self._sources, self._names).name
        ends, head, value = why.end.tolist(), why.head.tolist(), why.value[: why.end[-1]].tolist()
        kept, tops, places = why.kept.tolist(), why.top.tolist(), why.place.tolist()
        for j, (a, b) in enumerate(why.pair.tolist()):
            if a < 0:
                made.append(None)
                continue
            parts, (prior, *biases) = value[ends[j] : ends[j + 1]], head[j]
            named = [(PRIOR, prior), (BIAS, bias)] if (bias := sum(biases)) else [(PRIOR, prior)]
            shares = named + [(name(*places[j][n]), parts[tops[j][n]]) for n in range(kept[j])]
            if len(parts) + len(named) > self._shares:
                shares.sort(key=lambda share: -abs(share[1]))
            contributions = dict(shares[: self._shares])
            total = sum([*dict(named).values(), *parts])
            made.append(Explanation(classes[a], classes[b], total, contributions))


def _room(predictions: int, parts: int, shares: int) -> Reasons:
    return Reasons(
        pair=np.empty((predictions, 2), dtype=np.int64),
        head=np.empty((predictions, HEAD)),
        value=np.empty(parts),
        end=np.zeros(predictions + 1, dtype=np.int64),
        top=np.empty((predictions, shares), dtype=np.int64),
        kept=np.zeros(predictions, dtype=np.int64),
        place=np.empty((predictions, shares, PLACE), dtype=np.int32),
    )
