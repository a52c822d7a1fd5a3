"""The response of `/metrics`: its formats, and the share of a processor that it may take.

Rule: a client chooses one of a few formats and names nothing. Whatever it sends, the number of
responses in memory and the processor time have a bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

__all__ = ["Exposition"]

# Share of a processor that all formats together can take, at any rate of requests: a response that
# took 6 ms to compute is reused for 0.6 s.
SHARE = 0.01
_OPENMETRICS = "application/openmetrics-text"
_TEXT = choose_encoder("")
# By version. A prometheus_client that does not support a version chooses another format for it.
_OPEN = {v: choose_encoder(f"{_OPENMETRICS}; version={v}") for v in ("1.0.0", "2.0.0")}


class Exposition:
    """The metrics of a registry in the format that a client accepts.

    Examples
    --------
    >>> Exposition(CollectorRegistry()).respond("application/openmetrics-text; version=junk")
    ('text/plain; version=0.0.4; charset=utf-8', b'')
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._kept: dict[str, tuple[float, bytes]] = {}  # content type -> reused until, response
        self._paid = 0.0  # when the share has paid for all computed responses

    def respond(self, accept: str) -> tuple[str, bytes]:
        """Content type and body for an `Accept` header.

        A response is reused until the share has paid for it and for all before it. So at most one
        response per format is unpaid, and an eager client of one format does not keep the client of
        another from new values.
        """
        encode, content_type = _format(accept)
        until, body = self._kept.get(content_type, (0.0, b""))
        if time.monotonic() >= until:
            began = time.thread_time()
            body = encode(self._registry)
            cost = time.thread_time() - began
            self._paid = max(self._paid, time.monotonic()) + cost / SHARE
            self._kept[content_type] = (self._paid, body)
        return content_type, body


def _format(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    """The first OpenMetrics version of the header that is supported; otherwise text."""
    for accepted in accept.split(","):
        kind, *parameters = (part.strip() for part in accepted.split(";"))
        if kind.lower() == _OPENMETRICS:
            versions = (p.removeprefix("version=") for p in parameters if p.startswith("version="))
            found = _OPEN.get(next(versions, "1.0.0"))
            if found is not None:
                return found
    return _TEXT
