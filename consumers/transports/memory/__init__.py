"""A log in this process, for tests and notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from consumers.transports.registry import KeyHeaders, Transport, unknown_transport

if TYPE_CHECKING:
    from consumers.transports.protocol import Log

__all__ = ["TRANSPORT"]


def _open(name: str, _: Mapping[str, object], key_headers: KeyHeaders) -> Log:
    if not name:
        raise unknown_transport("memory:")
    from consumers.transports.memory.log import MemoryLog

    return MemoryLog(name, key_headers=key_headers)


TRANSPORT = Transport(
    scheme="memory",
    form="memory:NAME",
    about="this process only, for tests",
    pattern=r"[\w.-]+",
    open=_open,
    private=True,
)
