"""The statistics of other shards, which the models of a shard predict with. No I/O.

Rule: statistics that do not fit are refused with a reason and counted, and nothing else changes. So
no shard can stop another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from consumers.shard.views import MixView, Peer
from stream.contest.champion import ChampionChallenger
from stream.data.schema import Label
from stream.data.state import State
from stream.errors import InvalidRecordError, StateError
from stream.join.join import LabelJoin
from stream.learner.base import Learner
from stream.mix import mix, mixing_parts, peers_of, statistics

__all__ = ["ShardMix"]


class ShardMix:
    """Publishes what the models of a shard have learned, and takes over what others have.

    Parameters
    ----------
    contest
        The models.
    join
        Its labels have the classes of all models.
    """

    def __init__(self, contest: ChampionChallenger, join: LabelJoin) -> None:
        self._contest, self._join = contest, join
        self.peers: dict[int, Peer] = {}
        self._refused: Counter[str] = Counter()

    @property
    def active(self) -> bool:
        """Whether the model of [model] mixes."""
        return "" in dict(self._models())

    def _models(self) -> Iterator[tuple[str, Learner]]:
        """The models that mix, by name."""
        for contestant in self._contest.contestants():
            learner = contestant.machine.learner
            if mixing_parts(learner):
                yield contestant.name, learner

    def statistics(self) -> dict[str, State]:
        """What each model that mixes has learned here, by name. O(bytes)."""
        return {name: statistics(learner) for name, learner in self._models()}

    def take(self, published: Mapping[int, tuple[Peer, Mapping[str, State]]]) -> None:
        """Predict with these statistics from now on, beside those of all other shards.

        Parameters
        ----------
        published
            Shard to what was read of it, and its statistics by model. Without any nothing changes.
        """
        if not published or not self.active:
            return
        models = dict(self._models())
        loaded: dict[str, dict[int, list[Learner]]] = {name: {} for name in models}
        for shard, (peer, states) in sorted(published.items()):
            self.peers[shard] = peer
            for name, learner in models.items():
                if name and name not in states:
                    continue  # a challenger that the other shard does not have
                try:
                    if name not in states:
                        raise StateError("expected the statistics of the model")
                    peers = peers_of(learner, states[name])
                    self._admit([label for one in peers for label in one.classes])
                except StateError:
                    self._refused["model"] += 1
                except InvalidRecordError as error:
                    self._refused[error.reason] += 1
                else:
                    loaded[name][shard] = peers
        for name, learner in models.items():
            gone = [shard for shard in published if shard not in loaded[name]]
            left = mix(learner, loaded[name], gone)
            self._refused.update("merge" for _ in left)

    def _admit(self, labels: list[Label]) -> None:
        """Add the classes of another shard to those of this one. InvalidRecordError: they do not
        fit, and none was added."""
        mine = self._join.labels
        new = [label for label in dict.fromkeys(labels) if label not in mine]
        if not all(_encodable(label) for label in labels):
            raise InvalidRecordError("label_kind", "a label is no valid text")
        kinds = {type(label) for label in (*mine.values[:1], *labels)}
        if len(kinds) > 1:
            raise InvalidRecordError("label_kind", "labels of another kind")
        if len(mine) + len(new) > mine.bound:
            raise InvalidRecordError("max_classes", f"more than {mine.bound} classes")
        for label in new:
            mine.add(label)

    def view(self) -> MixView | None:
        """A frozen copy, with the shards whose statistics are in use; None if the model does not
        mix."""
        learner = dict(self._models()).get("")
        if learner is None:
            return None
        used = {shard for part in mixing_parts(learner) for shard in part.peers}
        peers = {shard: peer for shard, peer in self.peers.items() if shard in used}
        return MixView(peers, dict(self._refused))

    def to_header(self) -> dict[str, Any]:
        """What was read and refused, as JSON; the statistics are in the states of the models."""
        peers = [[shard, *peer] for shard, peer in sorted(self.peers.items())]
        return {"peers": peers, "refused": dict(self._refused)} if peers else {}

    def load(self, header: Mapping[str, Any]) -> None:
        """Load what `to_header` saved."""
        self.peers = {shard: Peer(*peer) for shard, *peer in header.get("peers", ())}
        self._refused = Counter(header.get("refused", {}))


def _encodable(label: Label) -> bool:
    """Whether a prediction can show the label."""
    try:
        str(label).encode()
    except UnicodeEncodeError:
        return False
    return True
