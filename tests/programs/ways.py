"""One program run in every way that must make no difference (I1, I2), to the last bit.

By ones, in one block, in random blocks; with the learner saved and loaded, pickled or copied
between; with the records a caller happens to ask about beside them. What is compared is each
prediction, with its classes in their order, and the fingerprint of the state at the end; after each
correction of a label, a saved and loaded learner with the corrected one; then the same after
records were taken back, another learner was merged and more was learned, for what a way left in
memory beside the state may show only then. No state may hold an infinity, which would poison all
later answers. At last several threads ask at once.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np

from stream import Learner, State, StreamError
from stream.data.block import LEARN, PREDICT, Block
from tests.programs.learners import choice
from tests.programs.records import Step, Stream, stream_of

__all__ = ["WAYS", "differences", "program"]

# Rests of the experts of a mixture in streams of some dozen records.
SHORT = {"PERIOD": 4, "FIRST": 4, "LEAST": 0.2, "LONGEST": 2}

Said = list[list[tuple[Any, float]]]


def ones(learner: Learner, stream: Stream, rng: Random) -> tuple[Said, Learner]:
    """One-record calls."""
    said: Said = []
    for step in stream.steps:
        _by_one(learner, stream, step, said)
    return said, learner


def blocks(learner: Learner, stream: Stream, rng: Random) -> tuple[Said, Learner]:
    """All steps in one block."""
    said: Said = []
    _by_block(learner, stream, stream.steps, said)
    return said, learner


def cuts(learner: Learner, stream: Stream, rng: Random) -> tuple[Said, Learner]:
    """Blocks and one-record calls in any order, the learner handed over between."""
    said: Said = []
    at = 0
    while at < len(stream.steps):
        end = at + rng.choice((1, 1, 2, 5, 17, 64))
        part = stream.steps[at:end]
        if rng.random() < 0.5:
            _by_block(learner, stream, part, said)
        else:
            for step in part:
                _by_one(learner, stream, step, said)
        if rng.random() < 0.2:
            learner = rng.choice(HANDS)(learner)
        at = end
    return said, learner


def asked(learner: Learner, stream: Stream, rng: Random) -> tuple[Said, Learner]:
    """One-record calls, with questions between that no step asks: they leave no trace."""
    said: Said = []
    for step in stream.steps:
        if rng.random() < 0.3:
            learner.predict_proba_one(rng.choice(stream.xs))
        if rng.random() < 0.2:
            learner.predict_proba_many(rng.choices(stream.xs, k=rng.randrange(1, 6)))
        _by_one(learner, stream, step, said)
    return said, learner


def saved(learner: Learner) -> Learner:
    """Through the bytes of its state."""
    state = State.from_bytes(learner.to_state().to_bytes())
    return learner.clone().load_state(state)


def pickled(learner: Learner) -> Learner:
    """Through pickle."""
    out: Learner = pickle.loads(pickle.dumps(learner))
    return out


HANDS: tuple[Callable[[Learner], Learner], ...] = (saved, pickled, copy.deepcopy)
WAYS = {"block": blocks, "cuts": cuts, "asked": asked}


def program(family: str, seed: int) -> list[str]:
    """A random learner of this family over random records: what some way does differently."""
    rng = Random(f"{family} {seed}")
    chosen = choice(rng, family)
    stream = stream_of(
        rng, chosen.kinds, width=chosen.width, signed=chosen.signed, texts=chosen.texts
    )
    with patch.multiple("stream.mixture.belief", **SHORT):
        found = differences(chosen.learner, stream, seed)
    return [f"{line} ({family} {seed}: {' '.join(repr(chosen.learner).split())})" for line in found]


def reference(learner: Learner, stream: Stream) -> tuple[Said, Learner]:
    """By ones: what every other way is compared with."""
    return ones(learner.clone(), stream, Random(0))


def differences(learner: Learner, stream: Stream, seed: int) -> list[str]:
    """What some way says or keeps that one-record calls do not."""
    said, model = reference(learner, stream)
    kept, wrong = model.fingerprint(), []
    wrong += infinite(model)
    wrong += corrected(copy.deepcopy(model), stream, Random(seed))
    later = aftermath(model, stream, Random(seed))
    wrong += infinite(model)
    for name, way in WAYS.items():
        other, after = way(learner.clone(), stream, Random(seed))
        odd = sum(a != b for a, b in zip(said, other, strict=True))
        if odd:
            first = next(i for i, (a, b) in enumerate(zip(said, other, strict=True)) if a != b)
            wrong.append(
                f"values: {name}: {odd} of {len(said)} predictions differ, the first is number "
                f"{first}: {_short(other[first])} for {_short(said[first])}"
            )
        if after.fingerprint() != kept:
            wrong.append(f"state: {name}: another state")
        elif aftermath(after, stream, Random(seed)) != later:
            wrong.append(f"state: {name}: another aftermath")
    return wrong + at_once(model, stream)


def aftermath(learner: Learner, stream: Stream, rng: Random) -> list[Any]:
    """Take records back, merge with others', learn on: what is answered, refused and kept."""
    learned = [step.row for step in stream.steps if step.op != PREDICT]
    taken = rng.sample(learned, min(len(learned), 8))
    out: list[Any] = [
        _outcome(lambda row=row: learner.unlearn_one(*_record(stream, row), age=0)) for row in taken
    ]
    other = learner.clone()
    for row in rng.choices(range(len(stream.xs)), k=5):
        other.learn_one(*_record(stream, row))
    out.append(_outcome(lambda: learner.merge(other)))
    for row in rng.choices(range(len(stream.xs)), k=5):
        out.append(list(learner.predict_proba_one(stream.xs[row]).items()))
        out.append(_outcome(lambda row=row: learner.learn_one(*_record(stream, row))))
    out.append([list(one.items()) for one in learner.predict_proba_many(stream.xs[:20])])
    return [*out, learner.overflows, learner.fingerprint()]


def corrected(learner: Learner, stream: Stream, rng: Random) -> list[str]:
    """Correct labels, also to one that no record had: a saved state is loaded, and is the same. A
    correction that is refused changes nothing."""
    learned = [step.row for step in stream.steps if step.op != PREDICT]
    new = {str: "new", int: 77, bool: False}[type(stream.ys[0])]
    found: list[str] = []
    for row in rng.sample(learned, min(len(learned), 5)) if learner.can_correct else ():
        x, y, w = _record(stream, row)
        before, label = learner.fingerprint(), rng.choice((*stream.ys, new))
        if _outcome(
            lambda x=x, old=(y, w), now=(label, 1.0): learner.correct_rows(
                learner.rows([x]), old, now, 0
            )
        ):
            if learner.fingerprint() != before:
                found.append("state: correction: one that was refused changed the state")
            continue
        try:
            other = saved(learner)
        except StreamError as error:
            return [*found, f"state: correction: its state cannot be loaded: {error}"]
        asked = stream.xs[:20]
        said, again = (each.predict_proba_many(asked) for each in (learner, other))
        if said != again or other.fingerprint() != learner.fingerprint():
            found.append("state: correction: a loaded copy is another learner")
    return found


def infinite(learner: Learner) -> list[str]:
    """The arrays of the state that hold an infinity: its answers would be lost for good."""
    arrays = learner.to_state().arrays.items()
    odd = [name for name, a in arrays if a.dtype.kind == "f" and np.isinf(a).any()]
    return [f"state: {name} holds an infinity" for name in odd]


def at_once(learner: Learner, stream: Stream) -> list[str]:
    """Four threads that ask: each gets what it would get alone."""
    asked = stream.xs[:6]
    alone = [learner.predict_proba_one(x) for x in asked]

    def ask(turn: int) -> int:
        order = [(i + turn) % len(asked) for i in range(5 * len(asked))]
        return sum(learner.predict_proba_one(asked[i]) != alone[i] for i in order)

    with ThreadPoolExecutor(4) as pool:
        wrong = sum(pool.map(ask, range(4)))
    return [f"values: threads: {wrong} answers were of another question"] if wrong else []


def _record(stream: Stream, row: int) -> tuple[Any, Any, float]:
    return stream.xs[row], stream.ys[row], stream.ws[row]


def _outcome(call: Callable[[], Any]) -> str:
    """The message of the error, or an empty text if there is no error."""
    try:
        call()
    except StreamError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _short(posterior: list[tuple[Any, float]]) -> str:
    return ", ".join(f"{y}: {p!r}" for y, p in posterior[:2])


def _by_one(learner: Learner, stream: Stream, step: Step, said: Said) -> None:
    x = stream.xs[step.row]
    if step.op != LEARN:
        said.append(list(learner.predict_proba_one(x).items()))
    if step.op != PREDICT:
        learner.learn_one(x, stream.ys[step.row], stream.ws[step.row])


def _by_block(learner: Learner, stream: Stream, steps: list[Step], said: Said) -> None:
    used = sorted({step.row for step in steps})
    rows = learner.rows([stream.xs[row] for row in used])
    place = {row: i for i, row in enumerate(used)}
    block = Block.of(
        rows.take(np.array([place[step.row] for step in steps], dtype=np.int64)),
        PREDICT,
        [stream.ys[step.row] for step in steps],
        [stream.ws[step.row] for step in steps],
    )
    block.op[:] = [step.op for step in steps]
    said += [list(one.items()) for one in learner.progressive_many(block).dicts()]
