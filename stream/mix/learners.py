"""The parts of a learner that mix: found, made, published and mixed.

Rule: of a learner the outermost parts that merge exactly mix. A naive Bayes classifier mixes as a
whole. Of a mixture those experts do; the others, and the weights of all, are of one shard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stream.data.schema import Label
from stream.data.state import State
from stream.errors import NotSupportedError, StateError
from stream.learner.base import Learner
from stream.learner.header import without_refusals
from stream.mix.mixed import MixedLearner
from stream.mixture.composed import Composed

__all__ = [
    "mix",
    "mixing",
    "mixing_parts",
    "peers_of",
    "statistics",
    "unmixed",
    "unmixed_fingerprint",
]


def mixing(learner: Learner, shard: int, shards: int) -> Learner:
    """An untrained learner whose parts mix, as far as they merge exactly.

    Raises
    ------
    NotSupportedError
        No part of it merges exactly.

    Examples
    --------
    >>> from stream import KNNClassifier, MixedNB
    >>> from stream.mixture import Mixture
    >>> model = mixing(Mixture([MixedNB(), KNNClassifier()]), 0, 2)
    >>> [type(part).__name__ for part in model.parts]
    ['ClassShares', 'NoChange', 'MixedLearner', 'KNNClassifier']
    """

    def replaced(part: Learner) -> Learner:
        if part.merges_exactly:
            return MixedLearner(part, shard, shards)
        if isinstance(part, Composed):
            part.replace_parts(replaced)
        return part

    out = replaced(learner)
    if not mixing_parts(out):
        raise NotSupportedError(f"no part of {type(learner).__name__} merges exactly")
    return out


def mixing_parts(learner: Learner) -> list[MixedLearner]:
    """The parts that mix, in the order of the learner."""
    return [part for part in learner.with_parts() if isinstance(part, MixedLearner)]


def statistics(learner: Learner) -> State:
    """What this shard alone has learned, of each part that mixes. O(bytes)."""
    parts = enumerate(mixing_parts(learner))
    return State.join({str(i): part.learner.to_state() for i, part in parts})


def peers_of(learner: Learner, state: State) -> list[Learner]:
    """The statistics of another shard, for each part that mixes.

    Raises
    ------
    StateError
        They are damaged, or of a learner with other parts or parameters.
    """
    parts = mixing_parts(learner)
    if len(state.header) != len(parts):
        raise StateError(f"expected the statistics of {len(parts)} parts, got {len(state.header)}")
    return [part.peer(state.nested(str(i))) for i, part in enumerate(parts)]


def mix(
    learner: Learner, peers: Mapping[int, Sequence[Learner]], without: Sequence[int] = ()
) -> dict[int, str]:
    """`MixedLearner.mix` of each part, with what `peers_of` returned for each shard. The learners
    around a part then know its classes."""
    left: dict[int, str] = {}
    for i, part in enumerate(mixing_parts(learner)):
        left |= part.mix({shard: those[i] for shard, those in peers.items()}, without)
    _know(learner)
    return left


def _know(learner: Learner) -> None:
    """Have each composed learner know the classes of its parts."""
    if not isinstance(learner, Composed):
        return
    labels: dict[Label, None] = {}
    for part in learner.parts:
        _know(part)
        labels |= dict.fromkeys(part.classes)
    learner.know(list(labels))


def unmixed_fingerprint(learner: Learner) -> str:
    """The fingerprint of the same learner whose parts do not mix."""
    state = unmixed(learner._whole_state())
    return State(without_refusals(state.header), state.arrays).fingerprint()


def unmixed(state: State) -> State:
    """The state of the same learner whose parts do not mix: each is the merge of all statistics."""
    arrays = dict(state.arrays)

    def plain(header: Any, path: str) -> Any:
        if not isinstance(header, Mapping):
            return header
        if header.get("learner") == MixedLearner.__name__:
            inner = header["inner"]
            name = "mixed" if "mixed" in inner else "own"
            kept = f"{path}{name}/"
            for key in [key for key in arrays if key.startswith(path)]:
                array = arrays.pop(key)
                if key.startswith(kept):
                    arrays[path + key.removeprefix(kept)] = array
            return inner[name]
        # The parts of a state are under the keys of its header; "inner" is the learner itself.
        return {
            key: plain(value, path if key == "inner" else f"{path}{key}/")
            for key, value in header.items()
        }

    return State(plain(state.header, ""), arrays)
