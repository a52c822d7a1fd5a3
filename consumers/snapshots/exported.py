"""A model out of a snapshot file: for notebooks and programs that are not the service.

Rule: the file says which learner it holds and with which parameters, so no configuration is needed;
a file that cannot be read whole and verified gives no model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from consumers.base.errors import ConfigError, SnapshotError
from consumers.config.learner import ModelConfig
from consumers.journal.records import FIRST_JOIN_RULES
from consumers.shard.challengers import RIVER_ONLY, ChallengerSet
from consumers.shard.models import build, classes_that_fit
from consumers.snapshots.format import from_bytes
from stream.data.schema import Field, Schema
from stream.data.state import State
from stream.errors import StateError
from stream.learner.base import Learner

__all__ = ["load_model"]


def load_model(path: str | Path, key: str | None = None) -> Learner:
    """The learner in a snapshot, as `headwater rebuild --export` and `snapshots export` write it.

    Parameters
    ----------
    path
        The file.
    key
        The service's `[snapshots] key`, where it has one.

    Returns
    -------
    Learner
        The champion at that moment, with all it had learned. It takes the values of a dict by the
        kinds of the service's fields: a string is a text where the field is one. It may learn on;
        neither the file nor the service changes by that.

    Raises
    ------
    SnapshotError
        The file is damaged, not signed with the key, no snapshot, or holds a pickled river model.

    Notes
    -----
    Costs a read of the file and one copy of the model's arrays.

    Examples
    --------
    >>> load_model("no-such-file.hws")
    Traceback (most recent call last):
    consumers.base.errors.SnapshotError: no-such-file.hws: No such file or directory
    """
    try:
        about, state = from_bytes(Path(path).read_bytes(), key)
    except OSError as error:
        raise SnapshotError(f"{path}: {error.strerror}") from None
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from None
    if about.entry is None:
        raise SnapshotError(
            f"{path}: its configuration is missing, an early version wrote it; export it again"
        )
    identity = about.entry.identity
    try:
        learner, saved = _champion(identity, state, first=about.entry.join == FIRST_JOIN_RULES)
        learner.load_state(saved)
    except (ConfigError, StateError, KeyError, TypeError, ValueError) as error:
        raise SnapshotError(f"{path}: this version cannot load its model: {error}") from None
    fields = tuple(Field(name, kind) for name, kind in about.entry.fields)  # type: ignore[arg-type]
    return learner.declare(Schema(fields))


def _champion(identity: dict[str, Any], state: State, *, first: bool) -> tuple[Learner, State]:
    """The empty learner that makes the predictions, and its state."""
    block = dict(identity["model"])
    if not block["type"].startswith("river:"):
        block = {key: value for key, value in block.items() if key not in RIVER_ONLY}
    model = ModelConfig.model_validate(block)
    learner = build(model, first=first)
    name = state.header["lineup"]["champion"] if "lineup" in state.header else ""
    if not name:
        return learner, state.nested("machine").nested("learner")
    told = state.nested("lineup").header
    challenger_set = ChallengerSet(told["challengers"], told["threshold"])
    corrections = identity["labels"].get("corrections", False)
    classes = classes_that_fit(model, learner)
    champion = challenger_set.learner(name, (), classes, corrections, first=first)
    number = state.nested("roster").nested("roster").header["names"].index(name)
    return champion, state.nested("roster").nested(f"shadow {number}").nested("learner")
