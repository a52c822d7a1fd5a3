"""Programs against the oracle: posteriors to the digits that the condition of the problem leaves.

What is asked: after learning, after records were taken back, after two halves were merged. How
many questions are compared is counted too, for an oracle that is never sure proves nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from random import Random
from typing import Any

from stream import (
    CategoricalBayes,
    CategoricalNB,
    GaussianBayes,
    GaussianNB,
    KNNClassifier,
    Learner,
    MixedBayes,
    MixedNB,
    MultinomialNB,
    NotLearnedError,
    NotSupportedError,
)
from stream.data.block import LEARN, PREDICT
from tests.programs.counted import TableOracle, TokenOracle
from tests.programs.exact import (
    Answer,
    CategoryOracle,
    CovarianceOracle,
    GaussianOracle,
    Oracle,
    Term,
    plain,
)
from tests.programs.learners import HALF_LIVES, PRIORS, RIDGES, SMOOTHING
from tests.programs.nearest import NearestOracle
from tests.programs.records import NUMBERS, Stream, stream_of

__all__ = ["FAMILIES", "Compared", "ask", "compared", "pair"]

JOINT = (GaussianBayes, MixedBayes)
METRICS = ["auto", "euclidean", "heom", "manhattan", "chebyshev", "minkowski", "cosine", "hamming"]
ENOUGH = 1e-3  # an answer whose error may be larger is not compared
QUESTIONS = 5  # of a program: the oracle is slow

WIDTH = {
    "gaussian": (1, 12),
    "covariance": (1, 5),
    "categorical": (1, 8),
    "mixed": (1, 8),
    "nearest": (1, 6),
    "table": (1, 5),
    "mixed_bayes": (1, 6),
    "tokens": (1, 6),
}
FAMILIES = tuple(WIDTH)


@dataclass(slots=True)
class Compared:
    """What became of the questions."""

    asked: int = 0
    sure: int = 0
    wrong: list[str] = field(default_factory=list)


class MixedOracle(Oracle):
    """Numbers by one oracle, categories by another."""

    def __init__(
        self, numbers: GaussianOracle | CovarianceOracle, categories: CategoryOracle
    ) -> None:
        super().__init__(numbers.half_life, numbers.priors)
        self.parts = (numbers, categories)

    def features(self, x: Mapping[Any, Any]) -> dict[str, Any]:
        flags = {k: v for k, v in x.items() if isinstance(v, str | bool)}
        rest = {k: v for k, v in x.items() if k not in flags}
        return {**plain(rest), **CategoryOracle().features(flags)}

    def learn(self, x: Mapping[Any, Any], y: Hashable, w: float) -> None:
        super().learn(x, y, w)
        given = self.features(x)
        for part, text in zip(self.parts, (False, True), strict=True):
            part.learn({k: v for k, v in given.items() if isinstance(v, str) == text}, y, w)

    def unlearn(self, i: int) -> None:
        for each in (super(), *self.parts):
            each.unlearn(i)

    def likelihood(self, x: dict[str, Any], y: Hashable) -> Term:
        value, error = 0, 0
        self.parts[0].rough = self.rough
        for part, text in zip(self.parts, (False, True), strict=True):
            own = {k: v for k, v in x.items() if isinstance(v, str) == text}
            more = part.likelihood(own, y)
            value, error = value + more[0], error + more[1]
        return value, error


def pair(rng: Random, family: str) -> tuple[Learner, Oracle]:
    """A learner and its oracle, with the same random parameters."""
    shared: dict[str, Any] = {
        "half_life": rng.choice(HALF_LIVES),
        "priors": rng.choice(PRIORS),
    }
    spread: dict[str, Any] = {
        "variance": rng.choice(("ml", "sample")),
        "var_smoothing": rng.choice(SMOOTHING),
    }
    alpha = rng.choice((1.0, 0.3, 0))
    if family == "gaussian":
        return GaussianNB(**spread, **shared), GaussianOracle(**spread, **shared)
    if family == "categorical":
        return CategoricalNB(alpha=alpha, **shared), CategoryOracle(alpha, **shared)
    if family == "mixed":
        both = GaussianOracle(**spread, **shared), CategoryOracle(alpha, **shared)
        return MixedNB(alpha=alpha, **spread, **shared), MixedOracle(*both)
    if family == "table":
        return CategoricalBayes(alpha=alpha, **shared), TableOracle(alpha, **shared)
    if family == "tokens":
        alpha = alpha or 2.0
        vocabulary = rng.choice(("hashed", "exact"))
        return MultinomialNB(alpha, vocabulary, **shared), TokenOracle(alpha, **shared)
    if family == "nearest":
        near: dict[str, Any] = {
            "n_neighbors": rng.choice((1, 3, 5)),
            "window": rng.choice((7, 20, 200)),
            "metric": rng.choice(tuple(METRICS)),
            "p": rng.choice((1.0, 2.0, 3.0, 4.5)),
            "scale": rng.choice(("range", "std", None)),
            "weights": rng.choice(("uniform", "distance")),
        }
        return KNNClassifier(**near), NearestOracle(**near)
    joint: dict[str, Any] = {
        "covariance": rng.choice(("full", "full", "pooled", "diagonal", "pooled_diagonal")),
        "ridge": rng.choice(RIDGES),
        "variance": spread["variance"],
        "missing": rng.choice(("conditional", "complete")),
        **shared,
    }
    if family == "mixed_bayes":
        joint["covariance"] = rng.choice(("full", "diagonal"))
        numbers = CovarianceOracle(**joint)
        return MixedBayes(alpha=alpha, **joint), MixedOracle(numbers, TableOracle(alpha, **shared))
    joint["shrinkage"] = 0.0 if "diagonal" in joint["covariance"] else rng.choice((0.0, 0.0, 0.3))
    return GaussianBayes(**joint), CovarianceOracle(**joint)


KINDS = {
    "gaussian": frozenset({"numeric"}),
    "covariance": frozenset({"numeric"}),
    "categorical": frozenset({"categorical"}),
    "mixed": frozenset({"numeric", "categorical"}),
    "nearest": frozenset({"numeric", "categorical"}),
    "table": frozenset({"categorical"}),
    "mixed_bayes": frozenset({"numeric", "categorical"}),
    "tokens": frozenset({"numeric", "text"}),
}


def compared(family: str, seed: int) -> Compared:
    """One random program of a family."""
    rng = Random(f"{family} against the oracle {seed}")
    learner, oracle = pair(rng, family)
    # Without gaps records can be taken back.
    whole = family in ("covariance", "mixed_bayes") and rng.random() < 0.5
    numbers = {k: v for k, v in NUMBERS.items() if k != "constant"} if whole else None
    stream = stream_of(
        rng,
        KINDS[family],
        most=60,
        width=WIDTH[family],
        signed=family != "tokens",
        extremes=not whole and family != "tokens",
        numbers=numbers,
        texts=("text", "body") if family == "tokens" else (),
    )
    if whole:
        _fill(rng, stream)
    name = f"{family} {seed}: {learner!r}"
    out = Compared()
    learned = _learn(learner, oracle, stream, rng, out, name)
    _merged(learner, stream, learned, oracle, rng, out, name)
    _unlearned(learner, stream, learned, oracle, rng, out, name)
    return out


def _fill(rng: Random, stream: Stream) -> None:
    texts = {str(k) for x in stream.xs for k, v in x.items() if isinstance(v, str)}
    names = sorted({str(k) for x in stream.xs for k in x} - texts)
    for i, x in enumerate(stream.xs):
        given = plain(x)
        filled = {name: float(given.get(name, rng.gauss(0.0, 1.0))) for name in names}
        stream.xs[i] = {**filled, **{str(k): v for k, v in x.items() if isinstance(v, str)}}


def _learn(
    learner: Learner, oracle: Oracle, stream: Stream, rng: Random, out: Compared, name: str
) -> list[int]:
    """Run the steps; the rows that were learned, in order."""
    learned = []
    asks = [i for i, step in enumerate(stream.steps) if step.op != LEARN]
    chosen = set(rng.sample(asks, min(QUESTIONS, len(asks))))
    for i, step in enumerate(stream.steps):
        x = stream.xs[step.row]
        if i in chosen:
            ask(learner, oracle, x, out, f"{name} at step {i}")
        if step.op != PREDICT:
            learner.learn_one(x, stream.ys[step.row], stream.ws[step.row])
            oracle.learn(x, stream.ys[step.row], stream.ws[step.row])
            learned.append(step.row)
    return learned


def _merged(
    learner: Learner,
    stream: Stream,
    learned: list[int],
    oracle: Oracle,
    rng: Random,
    out: Compared,
    name: str,
) -> None:
    """Two halves, each learned alone, put together: as if learned in turn."""
    if isinstance(learner, JOINT) and not _without_gaps(learner, stream, learned):
        return
    if isinstance(learner, JOINT) and oracle.half_life is not None:
        return  # merged weights are in units of another record, and so is the ridge's rounding
    at = rng.randrange(len(learned) + 1)
    halves = []
    for rows in (learned[:at], learned[at:]):
        half = learner.clone()
        for row in rows:
            half.learn_one(stream.xs[row], stream.ys[row], stream.ws[row])
        halves.append(half)
    first, second = halves
    first.merge(second)
    if first.classes != learner.classes:
        out.wrong.append(f"state: {name}: merged at {at}: classes {first.classes}")
    oracle.rough = True
    for x in rng.sample(stream.xs, min(2, len(stream.xs))):
        ask(first, oracle, x, out, f"{name} merged at {at}")
    oracle.rough = False


def _without_gaps(learner: Any, stream: Stream, learned: list[int]) -> bool:
    """What a gap was filled with depends on what was known then."""
    sets = {
        frozenset(plain({k: v for k, v in stream.xs[row].items() if not isinstance(v, bool)}))
        for row in learned
    }
    return len(sets) <= 1 or "diagonal" in learner.covariance


def _unlearned(
    learner: Learner,
    stream: Stream,
    learned: list[int],
    oracle: Oracle,
    rng: Random,
    out: Compared,
    name: str,
) -> None:
    """Any of the records taken back, in any order: as if they had never come."""
    if oracle.half_life is not None:
        # A sum that keeps only a billionth of what was taken back keeps rounding.
        faded = [oracle.weight(record) for record in oracle.records]
        if isinstance(learner, JOINT) or min(faded, default=1) < 1e-6 * max(faded, default=1):
            return
    if isinstance(learner, JOINT) and not _without_gaps(learner, stream, learned):
        return
    if isinstance(learner, KNNClassifier) and learner.window < len(learned):
        return  # what has left the window cannot be taken back
    model, ever = copy.deepcopy(learner), len(learned)
    order = list(range(ever))
    rng.shuffle(order)
    for i in order[: rng.choice((1, ever // 2, ever))]:
        row = learned[i]
        age = None if oracle.half_life is None else ever - 1 - i
        try:
            model.unlearn_one(stream.xs[row], stream.ys[row], stream.ws[row], age=age)
        except (NotLearnedError, NotSupportedError) as error:
            out.wrong.append(f"state: {name}: record {i} cannot be taken back: {error}")
            return
        oracle.unlearn(i)
    if sorted(map(str, model.classes)) != sorted(map(str, oracle.classes())):
        out.wrong.append(f"state: {name}: classes {model.classes}, not {oracle.classes()}")
        return
    for x in rng.sample(stream.xs, min(2, len(stream.xs))):
        ask(model, oracle, x, out, f"{name} after taking back")


def ask(learner: Learner, oracle: Oracle, x: Any, out: Compared, where: str) -> None:
    said, answer = learner.predict_proba_one(x), oracle.answer(x)
    out.asked += 1
    if set(said) != set(answer.posterior):
        out.wrong.append(f"values: {where}: classes {list(said)}, not {list(answer.posterior)}")
        return
    if not all(isfinite(p) for p in said.values()):
        out.wrong.append(f"values: {where}: {said}")
        return
    if answer.error > ENOUGH:
        return
    out.sure += 1
    off = _off(said, answer)
    if off > answer.error:
        out.wrong.append(
            f"values: {where}: {said}, not {answer.posterior}: off by {off:.1e}, at most "
            f"{answer.error:.1e} is rounding"
        )


def _off(said: Mapping[Hashable, float], answer: Answer) -> float:
    return max((abs(said[y] - p) for y, p in answer.posterior.items()), default=0.0)
