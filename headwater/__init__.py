"""What programs import: the learners; a model that a service has learned; a client of a service.

Importing it loads nothing: each name is loaded when it is used, because a mail filter starts once a
mail. The learners are those of `stream`, which does no I/O.
"""

from typing import TYPE_CHECKING

import stream

try:
    from stream.lazy import lazy
except ModuleNotFoundError:
    raise ImportError(
        f"expected the package stream of headwater, got {stream.__file__}; rename that file, or "
        "start the program in another folder"
    ) from None

if TYPE_CHECKING:
    from consumers.base.errors import ConfigError, HeadwaterError, RecordError, TransportError
    from consumers.snapshots.exported import load_model as load
    from headwater.aio import AsyncClient, AsyncPredictionStream
    from headwater.client import Client
    from headwater.errors import ServiceError
    from headwater.log import PredictionStream
    from headwater.records import Written
    from stream import *  # noqa: F403
    from stream.checks import check_laws
    from stream.decision import BayesDecision
    from stream.evaluate import progressive
    from stream.preprocessing import Discretized, Discretizer, MDLDiscretizer

__all__ = [
    "AsyncClient",
    "AsyncPredictionStream",
    "BayesDecision",
    "Client",
    "ConfigError",
    "Discretized",
    "Discretizer",
    "HeadwaterError",
    "MDLDiscretizer",
    "PredictionStream",
    "RecordError",
    "ServiceError",
    "TransportError",
    "Written",
    "check_laws",
    "load",
    "progressive",
]
__all__ += stream.__all__

__getattr__, __dir__ = lazy(
    __name__,
    {
        "consumers.base.errors": (
            "ConfigError",
            "HeadwaterError",
            "RecordError",
            "TransportError",
        ),
        "consumers.snapshots.exported": ("load_model as load",),
        "headwater.aio": ("AsyncClient", "AsyncPredictionStream"),
        "headwater.client": ("Client",),
        "headwater.errors": ("ServiceError",),
        "headwater.log": ("PredictionStream",),
        "headwater.records": ("Written",),
        "stream": stream.__all__,
        "stream.checks": ("check_laws",),
        "stream.decision": ("BayesDecision",),
        "stream.evaluate": ("progressive",),
        "stream.preprocessing": ("Discretized", "Discretizer", "MDLDiscretizer"),
    },
)
