"""The wire formats that records may have: one module of `formats` each.

Rule: what is true of a format is stated once, in its `FORMAT`. No other file asks for a format by
its name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules

import msgspec

from consumers.base.extras import install
from consumers.codecs.format import HEADER, Document, Reader, WireFormat, framed

__all__ = [
    "lacks",
    "prediction_as_json",
    "prediction_writer",
    "wire_format",
    "wire_formats",
]


@cache
def wire_formats() -> dict[str, WireFormat]:
    """Name to format, by name.

    Examples
    --------
    >>> wire_formats()["avro"].schema_type
    'AVRO'
    """
    folder = Path(__file__).parent / "formats"
    names = sorted(found.name for found in iter_modules([str(folder)]))
    entries: list[WireFormat] = [
        import_module(f"{__package__}.formats.{name}").FORMAT for name in names
    ]
    return {entry.name: entry for entry in entries}


def wire_format(name: str) -> WireFormat:
    """The format of this name.

    Examples
    --------
    >>> wire_format("json").schema_type
    ''
    """
    return wire_formats()[name]


@lru_cache(maxsize=16)
def prediction_writer(name: str, id_: int) -> Callable[[Document], bytes] | None:
    """The encoder of predictions in a format, framed with the id of their registered schema; None
    for JSON without a schema."""
    wire = wire_format(name)
    if wire.predictions is None:
        return None
    _, schema = wire.predictions()
    write, to_wire = wire.writer(schema), wire.to_wire
    return lambda made: framed(id_, write(to_wire(made)))


def prediction_as_json(name: str, value: bytes) -> bytes:
    """A prediction that this version wrote, as JSON.

    Examples
    --------
    >>> prediction_as_json("json", b'{"id":"7"}')
    b'{"id":"7"}'
    """
    wire = wire_format(name)
    if wire.predictions is None:
        return value
    return msgspec.json.encode(wire.from_wire(_reader(name)(value[HEADER:])))


@lru_cache(maxsize=16)
def _reader(name: str) -> Reader:
    wire = wire_format(name)
    assert wire.predictions is not None  # noqa: S101  the caller has checked
    return wire.reader(wire.predictions()[1], None)


def lacks(wire: WireFormat) -> str | None:
    """The modules of the format that are not installed, and the command that installs them; None
    if it has all, as the end of a sentence.

    Examples
    --------
    >>> lacks(wire_format("json")) is None
    True
    """
    missing = [name for name in wire.modules if not _is_there(name)]
    if not missing:
        return None
    names = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
    are = "is" if len(missing) == 1 else "are"
    return f"{names}, which {are} not installed; run `{install(wire.extra)}`"


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # its package is missing
        return False
