"""MixedLearner: the learner of one shard, which predicts with what all shards have learned.

Rule: it keeps the statistics of its own records and of each other shard apart, and predicts with
their merge. Only its own statistics are given to others, so no record is counted twice.

The parts of a learner that mix: found, made, published and mixed.

Rule: of a learner the outermost parts that merge exactly mix. A naive Bayes classifier mixes as a
whole. Of a mixture those experts do; the others, and the weights of all, are of one shard.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, Block, Rows, learning
from stream.data.parameters import shown, whole
from stream.data.schema import Label, Schema
from stream.data.state import State
from stream.errors import (
    InvalidRecordError,
    NotLearnedError,
    NotSupportedError,
    SchemaError,
    StateError,
)
from stream.learner.base import Learner, Predictions
from stream.learner.header import without_refusals
from stream.learner.wrapper import Wrapper
from stream.mixture.composed import Composed

__all__ = [
    "MOST_SHARDS",
    "MixedLearner",
    "byte_parts",
    "mix",
    "mixing",
    "mixing_parts",
    "peers_of",
    "statistics",
    "unmixed",
    "unmixed_fingerprint",
]

MOST_SHARDS = 1024
SLACK, LEAST = 2, 2**16  # a state may be larger than the formula of its bound, by so much
APART = "the statistics of the other shards are not its own"


class MixedLearner(Wrapper):
    """A learner that predicts with its own statistics and those of other shards.

    Parameters
    ----------
    learner
        The untrained learner of the records of this shard. It learns in place, and it must merge
        exactly.
    shard
        The number of this shard.
    shards
        How many shards there are.

    Attributes
    ----------
    classes, features : list
        Those of all statistics.
    learner : Learner
        What this shard has learned from its own records: its own statistics.
    peers : dict
        Shard to its statistics, as they were mixed in last.
    predictor : Learner
        The merge of all statistics. It learns each record of this shard too.

    Raises
    ------
    SchemaError
        The learner does not merge exactly, or a number is out of range.

    Notes
    -----
    All statistics are merged in the order of the shards, so shards with the same statistics have
    the same bits. Until the first `mix` it is its learner, and costs the same. After it, a record
    is learned twice, a `mix` costs one merge for each shard, and the state has the statistics of
    each shard and their merge: `limit` gives one half of its bytes to the merge, and divides the
    other by the number of shards, so that what fits in each fits together.

    `classes` may have labels that this shard never saw, because another shard did. Corrections and
    unlearning change the statistics of this shard only.

    Source: iterative parameter mixing, as in Jubatus (MIX) and in the allreduce of Vowpal Wabbit
    (Agarwal et al. 2014, A Reliable Effective Terascale Linear Learning System). They average
    weights; the statistics of naive Bayes are added, which loses nothing.

    Examples
    --------
    >>> from stream import GaussianNB
    >>> from stream.mix import MixedLearner
    >>> one, two = MixedLearner(GaussianNB(), 0, 2), MixedLearner(GaussianNB(), 1, 2)
    >>> for height in (1.6, 1.7):
    ...     one.learn_one({"height": height}, "a")
    >>> for height in (1.9, 2.0):
    ...     two.learn_one({"height": height}, "b")
    >>> one.mix({1: one.peer(two.learner.to_state())})
    {}
    >>> one.predict_one({"height": 1.95}), one.learner.classes
    ('b', ['a'])
    """

    def __init__(self, learner: Learner, shard: int = 0, shards: int = 2) -> None:
        if not isinstance(learner, Learner) or not learner.merges_exactly:
            raise SchemaError(f"expected a learner that merges exactly, got {shown(learner)}")
        self.learner = learner
        self.shards = whole("shards", shards, 2, MOST_SHARDS)
        self.shard = whole("shard", shard, 0, shards - 1)
        self.peers: dict[int, Learner] = {}
        self._mixed: Learner | None = None  # None: nothing was mixed in

    def __repr__(self) -> str:
        return f"MixedLearner({self.learner!r}, {self.shard}, {self.shards})"

    @property
    def predictor(self) -> Learner:
        return self.learner if self._mixed is None else self._mixed

    @property
    def _speaker(self) -> Learner:
        return self.predictor

    def peer(self, state: State) -> Learner:
        """The statistics of another shard, from its state.

        Raises
        ------
        StateError
            The state is damaged, of a learner with other parameters, or far larger than a shard
            may be.
        """
        if self._limited is not None:
            most = SLACK * self._limited[0] // byte_parts(self.shards) + LEAST
            held = sum(a.nbytes for a in state.arrays.values()) + len(state.header_bytes())
            if held > most:
                raise StateError(f"expected at most {most:,} bytes, got {held:,}")
        return self.learner.restarted(proven=True).load_state(state)

    def mix(self, peers: Mapping[int, Learner], without: Collection[int] = ()) -> dict[int, str]:
        """Replace the statistics of these shards, and merge all. The older statistics of a shard
        are part of the newer ones.

        Parameters
        ----------
        peers
            Shard to its statistics, see `peer`.
        without
            Shards whose statistics are no longer used.

        Returns
        -------
        dict
            Shards whose statistics are not in the merge, because a field or label is of another
            kind than in those before, and the reason. `peers` has them, so a later `mix` may
            succeed.
        """
        for shard in (*peers, *without):
            if not 0 <= shard < self.shards or shard == self.shard:
                raise SchemaError(
                    f"expected another shard than {self.shard}, below {self.shards}, got {shard!r}"
                )
        self.peers = dict(sorted({**self.peers, **peers}.items()))
        for shard in without:
            self.peers.pop(shard, None)
        return self._merge()

    def _merge(self) -> dict[int, str]:
        """Merge all statistics. Returns the shards that do not fit and why."""
        everyone = dict(sorted({**self.peers, self.shard: self.learner}.items()))
        merged, left = self._merged(everyone)
        if not _finite(merged):  # a sum has overflowed
            everyone = {self.shard: self.learner}
            for shard, peer in self.peers.items():
                if _finite(self._merged({**everyone, shard: peer})[0]):
                    everyone[shard] = peer
                else:
                    left[shard] = "its sums are too large"
            everyone = dict(sorted(everyone.items()))
            merged = self._merged(everyone)[0]
        if self.shard in left:  # its own statistics are always in it
            own = {self.shard: self.learner}
            merged, left = self._merged({**own, **everyone})
        with self._refusals_kept():
            self._mixed = merged if self.peers else None
        return left

    def _merged(self, everyone: Mapping[int, Learner]) -> tuple[Learner, dict[int, str]]:
        merged, left = self._empty_merge(), dict[int, str]()
        for shard, learner in everyone.items():
            try:
                with np.errstate(over="ignore", invalid="ignore"):  # see `_finite`
                    merged.merge(learner)
            except (InvalidRecordError, SchemaError) as error:
                left[shard] = str(error)
        return merged, left

    @property
    def not_applicable(self) -> Mapping[str, str]:
        """Laws that do not apply to it or to its learner, with the reason."""
        return {
            **super().not_applicable,
            "merging_equals_learning_both": APART,
            "merging_what_does_not_fit_is_refused": APART,
            "merging_with_oneself_is_learning_twice": APART,
        }

    # How it reads values is decided by its learner, not by its class.
    numbers = property(lambda self: self.learner.numbers)
    truths = property(lambda self: self.learner.truths)
    strings = property(lambda self: self.learner.strings)
    kinds = property(lambda self: self.learner.kinds)

    def prepare(self, rows: Rows) -> Rows:
        """As the learner does. Pure."""
        return self.learner.prepare(rows)

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows that the learner rejects, or the merge, with the reason."""
        out = self.learner.refusals(rows)
        return out if self._mixed is None else {**out, **self._mixed.refusals(rows)}

    def limit(self, max_bytes: int, schema: Schema, max_classes: int) -> int:
        """See `Learner.limit` and the notes."""
        fit = self.learner.limit(max_bytes // byte_parts(self.shards), schema, max_classes)
        return super().limit(max_bytes, schema, fit)

    def _empty_merge(self) -> Learner:
        """An empty learner with room for the statistics of all shards."""
        if self._limited is None:
            return self.learner.restarted(proven=True)
        out, (most, schema, classes) = self.learner.clone(), self._limited
        out.limit(most // 2, schema, classes)
        return out

    def compile_kernels(self) -> None:
        """Those of the learner; the merge has no others."""
        self.learner.compile_kernels()

    def _execute(
        self, block: Block, label: NDArray[np.int64], before: int, out: Predictions
    ) -> None:
        self.predictor._execute(block, label, before, out)
        learns = learning(block)
        if self._mixed is not None and learns.size:
            op = np.full(learns.size, LEARN, dtype=np.int8)
            steps = op, block.row[learns], block.y[learns], block.w[learns], block.labels
            self.learner.run_accepted(Block(block.rows, *steps))

    def _export(self) -> State:
        everyone = {"own": self.learner}
        if self._mixed is not None:
            everyone |= {"mixed": self._mixed, **{f"peer {n}": p for n, p in self.peers.items()}}
        return State.join({name: self._part_of_state(each) for name, each in everyone.items()})

    def load_state(self, state: State) -> Self:
        """Load what `to_state` saved, or the state of the learner alone: then that is what this
        shard has learned, and nothing is mixed in.

        Raises
        ------
        StateError
            The state is damaged or belongs to another learner. This learner is then unusable.
        """
        if _learner_in(state) != type(self.learner).__name__:
            return super().load_state(state)
        self.peers, self._mixed = {}, None
        self.learner.load_state(state)
        return self

    def _restore(self, state: State) -> None:
        found = {name: state.nested(name) for name in state.header}
        peers = {int(name[5:]): s for name, s in found.items() if name.startswith("peer ")}
        if bool(peers) != ("mixed" in found) or not peers.keys() <= set(self._others()):
            raise StateError(f"expected statistics of shards below {self.shards}, got {[*found]}")
        with self._refusals_kept():
            self.learner.load_state(found["own"])
            self.peers = {shard: self.peer(peers[shard]) for shard in sorted(peers)}
            self._mixed = self._empty_merge().load_state(found["mixed"]) if peers else None

    def _others(self) -> Iterable[int]:
        return (shard for shard in range(self.shards) if shard != self.shard)

    def unlearn_one(
        self, x: Mapping[Any, Any], y: Any, w: float = 1.0, *, age: int | None = None
    ) -> None:
        """Unlearn one record that this shard has learned."""
        self.learner.unlearn_one(x, y, w, age=age)
        self._unlearn(lambda mixed: mixed.unlearn_one(x, y, w, age=age))

    def unlearn_rows(self, rows: Rows, y: Any, w: float = 1.0, *, age: int | None = None) -> None:
        """`unlearn_one` of the one row of `rows`."""
        self.learner.unlearn_rows(rows, y, w, age=age)
        self._unlearn(lambda mixed: mixed.unlearn_rows(rows, y, w, age=age))

    def _unlearn(self, unlearn: Callable[[Learner], None]) -> None:
        """Repeat in the merge what the own statistics have unlearned."""
        if self._mixed is None:
            return
        try:
            unlearn(self._mixed)
        except NotLearnedError:  # its sums are rounded in another way
            self._merge()


def byte_parts(shards: int) -> int:
    """Into how many parts `MixedLearner.limit` divides its bytes: one for the statistics of each
    shard, and as many for the merge.

    Examples
    --------
    >>> byte_parts(3)
    6
    """
    return 2 * shards


def _finite(learner: Learner) -> bool:
    arrays = learner._export().arrays.values()
    return all(np.isfinite(array).all() for array in arrays if array.dtype.kind == "f")


def _learner_in(state: object) -> object:
    """The type of the learner that saved a state; None if it has none."""
    header = state.header if isinstance(state, State) else None
    return header.get("learner") if isinstance(header, Mapping) else None


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
