"""Compare the scores of a shard with river's own loop over the same file. No I/O, no clock.

Rule: the twin reads each record by the slow path of the codec and asks the learner for one record
at a time. From the shard it takes only which records became dead letters, because river's loop has
no rule for bad records. What river's loop cannot do is refused in one line, not ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from datetime import timedelta
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumers.base.counts import counted
from consumers.base.errors import ConfigError
from consumers.base.fields import field_of
from consumers.base.records import Outgoing
from consumers.config import Config
from consumers.offline.feed import LateLabels
from consumers.shard.outcome import Outcome
from consumers.shard.shard import Shard
from consumers.shard.views import ShardView
from stream.evaluate.result import Timed, Verification
from stream.evaluate.verifier import Verifier

__all__ = ["FileVerifier", "check_verifiable", "verdict"]

# Label outcomes that river's loop needs not know: what is removed had no label to come, and what
# was rejected is left out.
HARMLESS = frozenset(
    {"joined", "rejected", "expired", "evicted", "forgotten", "early_expired", "early_evicted"}
)
GIVEN_UP = (
    "came after their observation was given up, and river's loop waits for every label; raise "
    "[labels] horizon, max_pending or max_pending_bytes"
)
WHY = {
    "duplicate_observation": "repeat an id, and river's loop has no ids; give each record its own",
    "late": GIVEN_UP,
    "early": GIVEN_UP,  # its observation was forgotten: in a file no label comes before it
    "held_back": "were not learned, because [output] max_dead_letter_ratio held them back, which "
    "river's loop does not do; raise it",
}


def check_verifiable(config: Config) -> None:
    """Refuse what river's loop cannot do, before any work is done.

    Raises
    ------
    ConfigError
        A drift action or a promotion changes the model.
    """
    actions = {found.action or config.drift.action for found in config.drift.detectors}
    if acting := sorted(actions - {"alert"}):
        raise ConfigError(
            f"--verify: river's loop has no drift actions, and [drift] has action = "
            f'"{acting[0]}"; set it to "alert", or remove --verify'
        )
    if config.challenger and config.promotion.rule != "off":
        raise ConfigError(
            "--verify: river's loop runs one model, and [promotion] can replace it; set its rule "
            'to "off", or remove --verify'
        )


class FileVerifier:
    """Notes what a shard does with a file; then has river's loop do the same.

    Parameters
    ----------
    shard
        The shard before the first record. Its learner is copied.
    observations
        Topic of the observations.
    late
        How the labels come; None if they are inside the observations.

    Notes
    -----
    Memory: 9 bytes a record, and the probabilities that `Verifier` keeps.
    """

    def __init__(self, shard: Shard, observations: str, late: LateLabels | None) -> None:
        self._spec = spec = shard.spec
        self._topic, self._late = observations, late
        self._decoder = spec.decoder()
        learner = deepcopy(shard.learner).declare(spec.schema)
        self._verifier = Verifier(learner, spec.config.telemetry.window)
        self._times: list[NDArray[np.int64]] = []
        self._dead = {"observations": bytearray(), "labels": bytearray()}
        self._early = 0  # labels of observations that are dead letters

    def note(self, outcome: Outcome) -> None:
        """Note predictions, times and dead letters of a batch."""
        batch = outcome.batch
        self._verifier.keep(batch.offsets[outcome.observed], outcome.result.predictions)
        sources = [p.topic == self._topic for p in batch.partitions]
        observed = np.array(sources, dtype=np.bool_)[batch.source]
        self._times.append(batch.timestamps[observed])
        for kind, count in (
            ("observations", int(np.count_nonzero(observed))),
            ("labels", int(np.count_nonzero(~observed))),
        ):
            self._dead[kind] += bytes(count)
        for record, _, _ in outcome.bad():
            kind = "observations" if record.topic == self._topic else "labels"
            self._dead[kind][record.offset] = 1

    def compare(
        self,
        records: Iterable[Mapping[str, object]],
        outgoing: Iterable[Outgoing],
        view: ShardView,
        progress: Callable[[int], None],
    ) -> Verification:
        """Run river's loop over the file.

        Parameters
        ----------
        records
            The records of the file, as the shard got them.
        outgoing
            The feed of the shard.
        view
            The scores of the shard after the last record.
        progress
            Called with the number of records that are done since the last call.

        Raises
        ------
        ConfigError
            The run did something that river's loop cannot do.
        """
        self._check(view, self._dead["observations"].count(1))
        observations = (record for record in outgoing if record.topic == self._topic)
        pairs = zip(records, observations, strict=True)
        found = self._verifier.compare(self._timed(pairs), view.quality, progress)
        self._check(view, self._early)
        return found

    def left_out(self) -> dict[str, int]:
        """How many dead letters river's loop did without, by kind."""
        return {kind: flags.count(1) for kind, flags in self._dead.items()}

    def _check(self, view: ShardView, in_vain: int) -> None:
        """Refuse label outcomes that river's loop does not have.

        `in_vain`: at most so many labels wait for an observation that is a dead letter.
        """
        found = {name: n for name, n in view.labels.items() if n and name not in HARMLESS}
        if found.get("early", 0) <= in_vain:
            found.pop("early", None)
        for name in (*WHY, *found):
            if (count := found.get(name, 0)) == 0:
                continue
            what = "observation" if name == "duplicate_observation" else "label"
            why = WHY.get(name, f'have the outcome "{name}", which river\'s loop does not have')
            raise ConfigError(f"--verify: {counted(count, what)} {why}, or remove --verify")

    def _timed(self, pairs: Iterable[tuple[Mapping[str, object], Outgoing]]) -> Iterator[Timed]:
        """The usable records with label and times: an observation precedes a label of its time."""
        names = [field.name for field in self._spec.schema.fields]
        times = np.concatenate(self._times) if self._times else np.empty(0, dtype=np.int64)
        labels = 0
        for n, (record, observation) in enumerate(pairs):
            y = None if self._late is None else field_of(record, self._late.field)
            if y is not None:
                y = None if _is_set(self._dead["labels"], labels) else y
                labels += 1
            if _is_set(self._dead["observations"], n):
                self._early += y is not None
                continue
            features, _, inside, _ = self._decoder.slow(observation.key, observation.value)
            x = {k: v for k, v in zip(names, features, strict=True) if v is not None}
            if self._late is None:
                yield Timed(n, x, inside, 1.0, n, 0)
                continue
            moment = _time(times, n)
            yield Timed(n, x, y, 1.0, moment, self._due(times, n) - moment)

    def _due(self, times: NDArray[np.int64], n: int) -> int:
        """The first time at which the label of record n is known to a prediction."""
        assert self._late is not None  # noqa: S101  the caller checked it
        delay = self._late.delay
        if isinstance(delay, timedelta):
            return _time(times, n) + round(delay / timedelta(milliseconds=1)) + 1
        return _time(times, n + max(delay, 1) - 1) + 1


def _time(times: NDArray[np.int64], n: int) -> int:
    """The time of record n; those after the last one have its time. Without times, the number."""
    return int(times[min(n, len(times) - 1)]) if len(times) else n


def _is_set(flags: bytearray, n: int) -> bool:
    return n < len(flags) and flags[n] == 1


def verdict(found: Verification, left_out: Mapping[str, int], others: int) -> dict[str, Any]:
    """The result as JSON values; a difference is null if a score exists on one side only.

    Parameters
    ----------
    left_out
        Dead letters by kind.
    others
        Challengers, which river's loop does not run.

    Examples
    --------
    >>> found = Verification(2, 1, 2, None, {"accuracy": 0.0, "kappa": float("inf")})
    >>> verdict(found, {"labels": 1}, 0)["differences"]
    {'accuracy': 0.0, 'kappa': None}
    """
    from importlib.metadata import version

    finite = {id_: gap if isfinite(gap) else None for id_, gap in found.differences.items()}
    return {
        "by": f"river {version('river')}, evaluate.iter_progressive_val_score",
        "equal": found.largest == 0.0,
        "largest_difference": found.largest if isfinite(found.largest) else None,
        "records": found.records,
        "scored": found.scored,
        "compared": found.compared,
        "first": found.first,
        "differences": finite,
        "left_out": {**left_out, "challengers": others},
    }
