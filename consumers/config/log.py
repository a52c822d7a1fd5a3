"""The log of a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from consumers.config.model import Config

if TYPE_CHECKING:
    from consumers.transports.protocol import Log

__all__ = ["log_of"]


def log_of(config: Config) -> Log:
    """Open the log with all that the configuration says about it.

    Raises
    ------
    ConfigError
        The URL names no log.
    TransportError
        The log cannot be reached or opened.
    """
    from consumers.transports import open_log

    source = config.input
    return open_log(source.transport, kafka=config.kafka, key_headers=source.key_headers)
