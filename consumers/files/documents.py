"""JSON objects as records: the fast decoder, the slow one, and why an object is bad."""

from __future__ import annotations

import json

import msgspec

from consumers.base.errors import ConfigError
from consumers.files.file import File, shortened
from consumers.files.format import Record

__all__ = ["decode"]

_fast = msgspec.json.Decoder(dict[str, object]).decode


def decode(file: File, line: int, value: bytes, what: str) -> Record:
    """One object as a record.

    Parameters
    ----------
    line
        Its line in the file, from 1.
    what
        What the file must be, for messages.

    Raises
    ------
    ConfigError
        It is no JSON object.
    """
    try:
        return _fast(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_slowly(file, line, value, what)


def _decode_slowly(file: File, line: int, value: bytes, what: str) -> Record:
    """Decode what the fast decoder rejects (NaN, for example), or raise the error."""
    try:
        record = json.loads(value.decode().rstrip("\r\n"))
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{file}: line {line}, byte {error.start + 1}: 0x{value[error.start]:02x} is not "
            "UTF-8; correct the file, or name its encoding, for example --encoding cp1252"
        ) from None
    except RecursionError:
        raise ConfigError(f"{file}: line {line} is nested too deeply; flatten it") from None
    except ValueError as error:
        why = str(error)
        if isinstance(error, json.JSONDecodeError):  # its line number is within this value
            before = error.doc[: error.pos]
            line += before.count("\n")
            byte = len(before.rpartition("\n")[2].encode())
            why = f"{error.msg.removesuffix(' at')} at byte {byte + 1}"
        elif "digits" in why:  # Python's advice is for programmers
            why = "it has an integer with more than 4,300 digits"
        raise ConfigError(f"{file}: line {line} is not JSON ({why}); {what}") from None
    if not isinstance(record, dict):
        array = "; --format json reads an array" if line == 1 and isinstance(record, list) else ""
        raise ConfigError(
            f"{file}: line {line} is JSON but not an object, got {shortened(value)}; {what}{array}"
        )
    return record
