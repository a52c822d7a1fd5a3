"""What programs import: load a model that a service has learned; feed and ask a running service.

Importing it loads nothing: each name is loaded when it is used, because a mail filter starts once a
mail. The learners are in `stream`, which does no I/O.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from consumers.base.errors import ConfigError, HeadwaterError, RecordError, TransportError
    from consumers.snapshots.exported import load_model as load
    from headwater.aio import AsyncClient, AsyncPredictionStream
    from headwater.client import Client
    from headwater.errors import ServiceError
    from headwater.log import PredictionStream
    from headwater.records import Written

__all__ = [
    "AsyncClient",
    "AsyncPredictionStream",
    "Client",
    "ConfigError",
    "HeadwaterError",
    "PredictionStream",
    "RecordError",
    "ServiceError",
    "TransportError",
    "Written",
    "load",
]

_HOMES = {
    "AsyncClient": "headwater.aio",
    "AsyncPredictionStream": "headwater.aio",
    "Client": "headwater.client",
    "ConfigError": "consumers.base.errors",
    "HeadwaterError": "consumers.base.errors",
    "PredictionStream": "headwater.log",
    "RecordError": "consumers.base.errors",
    "ServiceError": "headwater.errors",
    "TransportError": "consumers.base.errors",
    "Written": "headwater.records",
    "load": "consumers.snapshots.exported",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), "load_model" if name == "load" else name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
