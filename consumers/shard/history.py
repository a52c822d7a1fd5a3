"""Records that wait for their counterpart when a shard begins with a model of their history. Pure.

Rule: such an observation was never published, and the model has learned from later records. So what
the model says of it is not a prediction: its label is learned, and counts as unscored.
"""

from __future__ import annotations

import numpy as np

from consumers.base.records import Batch
from consumers.shard.shard import Shard
from stream.data.state import State

__all__ = ["let_wait"]


def let_wait(shard: Shard, other: Shard, batch: Batch, time: int) -> None:
    """Have the records of a batch wait in a shard that has processed nothing.

    Parameters
    ----------
    shard, other
        Two equal shards, except that the other one has no horizon and no bounds of what waits. It
        must not be used afterwards.
    batch
        The records, in the order of their times.
    time
        The stream time in ms at which the shard continues. Records of the batch may be later: a
        history may have labels of a later time than its observations, or of an earlier one.

    Notes
    -----
    Counters and scores begin with the records of the service, so only what waits is taken over, and
    what a record of the batch has taught by its counterpart.
    """
    other.process(batch, int(batch.timestamps.max()))
    empty, used = _parts(shard.to_state()), _parts(other.to_state())
    header = {**empty["shard"].header, "stream_time": time}
    machine, processed = _parts(empty["machine"]), _parts(used["machine"])
    counted = {name: machine["join"].header[name] for name in ("outcomes", "account")}
    join = {**processed["join"].header, **counted, "time": time}
    machine["join"] = State(join, processed["join"].arrays)
    machine["learner"] = processed["learner"]
    rows = dict(processed["waiting"].arrays)
    rows["predicted"] = np.full_like(rows["predicted"], -1)
    rows |= {name: np.zeros_like(rows[name]) for name in ("proba", "prior", "squares")}
    machine["waiting"] = State(processed["waiting"].header, rows)
    shard.load_state(State.join({**empty, "shard": State(header), "machine": State.join(machine)}))


def _parts(state: State) -> dict[str, State]:
    return {name: state.nested(name) for name in state.header}
