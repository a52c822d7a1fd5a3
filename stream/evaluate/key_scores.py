"""Scores of each key, such as a tenant, and the keys that are predicted worst.

Rule: a key's newest records count most, and each record of a key makes its earlier ones fade,
however long ago they were. So a score has as many records as it can get, and no clock is read. A
claim about a key is a bound that holds for all keys together (Chernoff 1952, and Boole's inequality
over the keys): a key with one record is never among the worst by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import log
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stream.data.block import PREDICT, Floats
from stream.data.columns import grown, padded
from stream.data.state import FINITE, Rules, Saved, State, pack, texts
from stream.errors import StateError
from stream.evaluate import _kernels as kernels
from stream.evaluate.pending import LabelledPredictions
from stream.keyed import PerKeyNB
from stream.learner.base import Learner, Predictions

__all__ = [
    "FEWEST",
    "MOST_SCORED",
    "FrozenKeyScores",
    "KeyScore",
    "KeyScores",
    "KeyScoresView",
    "compile_key_scores",
    "key_field",
]

MOST_SCORED = 2**14  # keys with a score; of more, the better half stays
FADING_FACTOR = 0.998  # about the last 500 records of a key count
LONGEST = 256  # characters of a key; those that differ only after them share a score
FEWEST = 20  # scored records before a key is compared with others
QUIET = 1000  # a key is quiet if an average key has had as many records since its last one
DOUBT = 0.01  # the probability that a claim about any of the keys is wrong
WORST = 10  # keys in a view
QUANTILES = (0.01, 0.05, 0.25, 0.5)
FIRST_ROOM = 16
SUMS, COUNTS = 5, 4


def key_field(learner: Learner) -> str | None:
    """The field with the key by which a learner, or a part of it, has its models; None without.

    Examples
    --------
    >>> key_field(PerKeyNB(per="tenant"))
    'tenant'
    """
    return next((p.per for p in learner.with_parts() if isinstance(p, PerKeyNB)), None)


class KeyScore(NamedTuple):
    """The scores of one key.

    Attributes
    ----------
    key : str
        The first 256 characters of its value.
    scored : int
        How many predictions were scored.
    accuracy, log_loss : float
        Over about the last 500 of them, fading.
    guess : float
        The accuracy of always predicting the label that this key had most often lately.
    least : float
        A lower bound of its error rate that holds for all keys together, with 99 %.
    worse : bool
        Whether the guess is better, beyond chance by the same bound.
    """

    key: str
    scored: int
    accuracy: float
    log_loss: float
    guess: float
    least: float
    worse: bool


class KeyScoresView(NamedTuple):
    """What is known about the keys.

    Attributes
    ----------
    per : str
        The field with the key.
    keys : int
        Keys with a score that are not quiet.
    compared : int
        Those of them with at least `FEWEST` scored records.
    worse : int
        Those of the compared that are predicted worse than by guessing, see `KeyScore.worse`.
    accuracies : mapping
        Quantile to the accuracy that this share of the compared keys does not exceed; empty
        without any.
    worst : tuple of KeyScore
        Of the compared, those with the highest `KeyScore.least`, at most ten; without those that
        made no error.
    """

    per: str
    keys: int
    compared: int
    worse: int
    accuracies: Mapping[float, float]
    worst: tuple[KeyScore, ...]


class FrozenKeyScores:
    """A frozen copy of the scores; `view` is computed by its reader, not in the loop. O(keys)."""

    def __init__(
        self,
        per: str,
        names: list[str],
        sums: Floats,
        counts: NDArray[np.int64],
        scored: int,
    ) -> None:
        self._per, self._names = per, names
        self._sums, self._counts, self._scored = sums, counts, scored

    @classmethod
    def of(cls, view: KeyScoresView) -> Self:
        """A copy of which only the view is left, as another process gets it."""
        out = cls(view.per, [], np.zeros((0, SUMS)), np.zeros((0, COUNTS), dtype=np.int64), 0)
        out.__dict__["view"] = view
        return out

    def __reduce__(self) -> tuple[Any, tuple[KeyScoresView]]:
        return FrozenKeyScores.of, (self.view,)

    @cached_property
    def view(self) -> KeyScoresView:
        """What is known about the keys."""
        heard = self._counts[:, 1] >= self._scored - QUIET * len(self._counts)
        at = np.flatnonzero(heard & (self._counts[:, 0] >= FEWEST))
        sums, n = self._sums[at], at.size
        evidence = log(max(n, 1) / DOUBT)
        worse = np.zeros(n, dtype=np.bool_)
        kernels.worse_than_guess(sums, evidence, worse)
        order, least = np.zeros(WORST, dtype=np.int64), np.zeros(WORST)
        found = kernels.worst_keys(sums, evidence, order, least)
        ranked = np.sort(1.0 - sums[:, 1] / sums[:, 0])
        shown = zip(order[:found].tolist(), least[:found].tolist(), strict=True)
        return KeyScoresView(
            self._per,
            int(np.count_nonzero(heard)),
            n,
            int(np.count_nonzero(worse)),
            {q: float(ranked[int(q * (n - 1))]) for q in QUANTILES} if n else {},
            tuple(self._score(int(at[i]), bound, bool(worse[i])) for i, bound in shown),
        )

    def _score(self, i: int, least: float, worse: bool) -> KeyScore:
        n, wrong, loss, won, lost = self._sums[i].tolist()
        accuracy = 1.0 - wrong / n
        guess = min(max(1.0 - ((wrong - lost) + won) / n, 0.0), 1.0)
        scored = int(self._counts[i, 0])
        return KeyScore(self._names[i], scored, accuracy, loss / n, guess, least, worse)


class KeyScores:
    """A bounded table of the scores of keys.

    Parameters
    ----------
    per
        The categorical field with the key. A record without it has no score here.

    Attributes
    ----------
    forgotten : int
        Keys whose scores were removed because there were too many.

    Notes
    -----
    A key has a row of float64 sums, which fade by 0.2 % with each of its records: the weight of the
    records, the errors, the log losses, and the records that only the model, and that only the
    guess, got right. And a row of int64: the records, the number of the last one among all scored
    records, the guess, and its votes. The guess is the label that the key had most often: a vote
    for each label of the key, and one less for each other label (Boyer and Moore 1991), of at most
    100, so that it follows a change. It is made when the label comes, from the earlier labels of
    the key, so with late labels it knows more than the model knew.

    At 16,384 keys the half with the least weight is removed, quiet keys first, of equal ones those
    that were scored longest ago. So a key stays if it has several records among those of 8,192 new
    keys, and many keys with one record each do not displace it.

    O(1) for each scored prediction; O(keys · log keys) where half of them are removed. Memory: 72
    bytes a key in the arrays, twice while a view has them, and about 120 bytes for its text of ten
    characters: at most 5 MB. With texts of 256 characters it is at most 9 MB, or 22 MB if they are
    not Latin.

    Examples
    --------
    >>> scores = KeyScores("tenant")
    >>> right, wrong = np.zeros(60, dtype=np.int64), np.ones(60, dtype=np.int64)
    >>> for tenant, predicted in (("shop", right), ("bank", wrong)):
    ...     scores.add([tenant] * 60, right, predicted, np.full(60, 0.1))
    >>> found = scores.frozen().view
    >>> [(one.key, one.accuracy, round(one.least, 3), one.worse) for one in found.worst]
    [('bank', 0.0, 0.911, True)]
    """

    def __init__(self, per: str) -> None:
        self.per = per
        self.forgotten = 0
        self._begin([], np.zeros((FIRST_ROOM, SUMS)), np.zeros((FIRST_ROOM, COUNTS), np.int64))
        self._scored = 0

    def _begin(self, names: list[str], sums: Floats, counts: NDArray[np.int64]) -> None:
        self._names, self._sums, self._counts = names, sums, counts
        self._codes: dict[str | None, int] = {name: i for i, name in enumerate(names)}
        self._viewed = False

    def __len__(self) -> int:
        return len(self._names)

    def follow(
        self, made: LabelledPredictions, predictions: Predictions, predicted: NDArray[np.int64]
    ) -> None:
        """Score the predictions that get their labels in a block. Call it before the block is
        scored, because scoring reuses the slots of labelled predictions.

        Parameters
        ----------
        made
            The predictions that get a label.
        predictions, predicted
            The predictions of this call, and their class codes; -1 for none.
        """
        block = made.block
        steps = made.scored(block.op != PREDICT)
        if self.per not in block.rows.categorical_names or not steps.size:
            return
        codes = {label: code for code, label in enumerate(predictions.classes)}
        code = np.array([codes.get(label, -1) for label in block.labels], dtype=np.int64)
        true, answer, p_true = made.outcomes(steps, code, predictions, predicted)
        named = answer >= 0  # predictions without a class are not scored
        if not named.all():
            steps, true, answer, p_true = steps[named], true[named], answer[named], p_true[named]
        column = block.rows.categorical[:, block.rows.categorical_names.index(self.per)]
        self.add(column[block.row[steps]].tolist(), true, answer, kernels.losses(p_true))

    def add(
        self,
        keys: list[str | None],
        true: NDArray[np.int64],
        predicted: NDArray[np.int64],
        loss: Floats,
    ) -> None:
        """Add scored predictions, in the order of their labels.

        Parameters
        ----------
        keys
            The key of each; None for a record without one, which is left out.
        true, predicted
            int64, (k,): class codes.
        loss
            float64, (k,): -log of the probability of the true class.
        """
        start, end = 0, len(keys)
        while True:
            slots = list(map(self._codes.get, keys[start:]))
            stop = start + self._name(keys[start:], slots)
            part = true[start:stop], predicted[start:stop], loss[start:stop]
            self._write(slots[: stop - start], *part)
            if stop == end:
                return
            self._halve()  # what was added before decides which keys stay
            start = stop

    def _name(self, keys: list[str | None], slots: list[int | None]) -> int:
        """Give rows to new keys, and -1 for no key. Returns for how many there is room."""
        codes, names = self._codes, self._names
        for i in [i for i, slot in enumerate(slots) if slot is None]:
            key = keys[i]
            if key is None:
                slots[i] = -1
                continue
            name, new = key[:LONGEST], len(names)
            if new >= MOST_SCORED and name not in codes:
                return i
            slots[i] = slot = codes.setdefault(name, new)
            if slot == new:
                names.append(name)
        return len(keys)

    def _write(
        self,
        slots: list[int | None],
        true: NDArray[np.int64],
        predicted: NDArray[np.int64],
        loss: Floats,
    ) -> None:
        """Add predictions of keys that have rows."""
        room = grown(len(self._names), len(self._sums), MOST_SCORED)
        if self._viewed or room > len(self._sums):
            self._sums, self._counts = _copy(self._sums, room), _copy(self._counts, room)
            self._viewed = False
        at = np.fromiter(slots, np.int64, len(slots))
        into = self._sums, self._counts, FADING_FACTOR, self._scored
        self._scored = kernels.add_by_key(at, true, predicted, loss, *into)

    def _halve(self) -> None:
        """Remove half of the keys."""
        n = len(self._names)
        last, weight = self._counts[:n, 1], self._sums[:n, 0]
        heard = last >= self._scored - QUIET * n
        kept = np.sort(np.lexsort((last, weight, heard))[n // 2 :])
        self.forgotten += n - kept.size
        names = [self._names[i] for i in kept.tolist()]
        self._begin(names, self._sums[kept], self._counts[kept])

    def frozen(self) -> FrozenKeyScores:
        """A frozen copy, in O(1); the next scored prediction copies the arrays."""
        n, self._viewed = len(self._names), True
        return FrozenKeyScores(
            self.per, self._names, self._sums[:n], self._counts[:n], self._scored
        )

    def to_state(self) -> State:
        """A copy of the whole state."""
        n = len(self._names)
        header = {"per": self.per, "scored": self._scored, "forgotten": self.forgotten}
        arrays = {"sums": self._sums[:n], "counts": self._counts[:n], **pack(self._names)}
        return State(header, arrays).copy()

    def load_state(self, state: State) -> None:
        """Load what `to_state` saved.

        Raises
        ------
        StateError
            The state is damaged, or of another field.
        """
        header, names = state.header, texts(state, distinct=True)
        if header["per"] != self.per or len(names) > MOST_SCORED:
            raise StateError(f"expected the scores of at most {MOST_SCORED} keys of {self.per!r}")
        least = np.zeros(SUMS)
        least[2] = -FINITE
        table = {
            "sums": Saved(np.float64, (len(names), SUMS), least),
            "counts": Saved(np.int64, (len(names), COUNTS), 0),
        }
        rules: Rules = {
            "weights above 0": lambda a: a["sums"][:, 0] > 0.0,
            "scored records": lambda a: a["counts"][:, 0] > 0,
        }
        sums, counts = state.read(table, rules).values()
        self._scored, self.forgotten = header["scored"], header["forgotten"]
        self._begin(names, sums, counts)


def compile_key_scores() -> None:
    """Compile the kernels of these scores."""
    scores, one = KeyScores("key"), np.ones(1, dtype=np.int64)
    scores.add(["a"], one, one, kernels.losses(np.ones(1)))
    scores.frozen().view  # noqa: B018  or the first page compiles it


def _copy(array: NDArray[Any], room: int) -> NDArray[Any]:
    """A copy with this many rows, of which the new ones are 0."""
    return array.copy() if room == len(array) else padded(array, (room, array.shape[1]))
