"""Write the model at a point in time as a model file. Pure."""

from __future__ import annotations

import msgspec

from consumers.base.errors import ConfigError, SnapshotError
from consumers.config import Config
from consumers.config.learner import uses_river
from consumers.service.live import LiveShard
from consumers.service.recovery import about_of
from consumers.snapshots import model_file
from consumers.snapshots.exported import extracted, learned
from consumers.snapshots.model_file import ModelInfo
from stream.learner.base import Learner
from stream.mix import unmixed_fingerprint

__all__ = ["check_exportable", "exported"]


def check_exportable(learner: Learner, what: str) -> None:
    """Raise ConfigError if the state of the learner must not leave the service."""
    if not learner.can_save:
        raise ConfigError(
            f"{what} holds a model of river, whose state is a pickle: it is exported only with "
            "trust_pickle = true"
        )


def exported(config: Config, live: LiveShard) -> tuple[ModelInfo, bytes]:
    """The champion as a model file, signed if the service has a key.

    Raises
    ------
    ConfigError
        Its state is a pickle that the configuration does not trust.
    SnapshotError
        The file would not give the same model.
    """
    learner = live.shard.champion_learner
    check_exportable(learner, live.shard.champion or config.name)
    with live.shard.pickling():  # a challenger that is not saved does not matter
        info, state = extracted(about_of(config, live), live.shard.to_state())
    pickled = uses_river(info.learner)
    # A pickle has other bytes each time, so only the state itself identifies it.
    mark = state.fingerprint() if pickled else unmixed_fingerprint(learner)
    info = msgspec.structs.replace(info, fingerprint=mark)
    data = model_file.to_bytes(info, state.arrays, config.snapshots.key)
    again = learned(*model_file.from_bytes(data, config.snapshots.key), trust_pickle=True)
    if not pickled and again.fingerprint() != mark:
        raise SnapshotError("the file gives another model; nothing was written: this is a bug")
    return info, data
