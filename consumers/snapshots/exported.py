"""Load a model from a snapshot file, for notebooks and other programs.

Rule: the file names its learner and the parameters, so no configuration is needed. A file that is
damaged or cannot be verified gives no model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from consumers.base.errors import ConfigError, SnapshotError
from consumers.config.auto import Defaults
from consumers.config.learner import ModelConfig, accepted_keys
from consumers.journal.records import defaults_of
from consumers.shard.challengers import ChallengerSet
from consumers.shard.models import build, classes_that_fit
from consumers.snapshots.format import from_bytes
from stream.data.schema import Field, Schema
from stream.data.state import State
from stream.errors import StateError
from stream.learner.base import Learner

__all__ = ["load_model"]


def load_model(path: str | Path, key: str | None = None) -> Learner:
    """The champion of a snapshot, as `rebuild --export` and `snapshots export` write it.

    Parameters
    ----------
    path
        The file.
    key
        The service's `[snapshots] key`, if it has one.

    Returns
    -------
    Learner
        The champion at that time, with everything it had learned. It accepts dicts by the fields of
        the service: a string is a text if its field is a text. It may continue to learn, which
        changes neither the file nor the service.

    Raises
    ------
    SnapshotError
        The file is damaged, not signed with the key, not a snapshot, or holds a river model.

    Notes
    -----
    The cost is one read of the file and one copy of the model's arrays.

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
        raise SnapshotError(f"{path}: its configuration is missing; export the snapshot again")
    identity = about.entry.identity
    try:
        learner, saved = _champion(identity, state, defaults_of(about.entry))
        learner.load_state(saved)
    except (ConfigError, StateError, KeyError, TypeError, ValueError) as error:
        raise SnapshotError(f"{path}: this version cannot load its model: {error}") from None
    fields = tuple(Field(name, kind) for name, kind in about.entry.fields)  # type: ignore[arg-type]
    return learner.declare(Schema(fields))


def _champion(identity: dict[str, Any], state: State, defaults: Defaults) -> tuple[Learner, State]:
    """The empty learner of the champion, and its state."""
    model = ModelConfig.model_validate(accepted_keys(identity["model"]))
    learner = build(model, defaults)
    name = state.header["lineup"]["champion"] if "lineup" in state.header else ""
    if not name:
        return learner, state.nested("machine").nested("learner")
    saved = state.nested("lineup").header
    challenger_set = ChallengerSet(saved["challengers"], saved["threshold"])
    corrections = identity["labels"].get("corrections", False)
    classes = classes_that_fit(model, learner)
    champion = challenger_set.learner(name, (), classes, corrections, None, defaults)
    number = state.nested("roster").nested("roster").header["names"].index(name)
    return champion, state.nested("roster").nested(f"shadow {number}").nested("learner")
