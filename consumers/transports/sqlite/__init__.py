"""The embedded log: one SQLite file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from consumers.transports.registry import KeyHeaders, Transport, unknown_transport

if TYPE_CHECKING:
    from consumers.transports.protocol import Log

__all__ = ["TRANSPORT"]


def _open(path: str, _: Mapping[str, object], key_headers: KeyHeaders) -> Log:
    if path in ("", ":memory:"):
        raise unknown_transport(f"sqlite:{path}")
    from consumers.transports.sqlite.log import SqliteLog

    return SqliteLog(path, key_headers=key_headers)


def _warm_up() -> None:
    from consumers.transports.sqlite.batches import compile_batches

    compile_batches()


TRANSPORT = Transport(
    scheme="sqlite",
    form="sqlite:FILE.db",
    about="embedded, relative to this file",
    pattern=r"(?!//)(?!:memory:\Z).+",
    open=_open,
    names_path=True,
    compacts=True,
    warm_up=_warm_up,
)
