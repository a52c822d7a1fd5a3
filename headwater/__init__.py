"""What programs import: load a model that a service has learned; feed and ask a running service.

Importing it compiles nothing. The learners are in `stream`, which does no I/O.
"""

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
