"""JSON objects as records: the fast decoder, the slow one, and why an object is bad."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from consumers.base.converter import UNDECODABLE
from consumers.base.errors import ConfigError
from consumers.codecs.json_document import Repeated, any_may_repeat, object_of
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
        It is no JSON object, or a name comes twice in it, with different values.
    """
    try:
        record = _fast(value)
    except UNDECODABLE:
        return _decode_slowly(file, line, value, what)
    return _decode_slowly(file, line, value, what) if any_may_repeat(value, record) else record


def _decode_slowly(file: File, line: int, value: bytes, what: str) -> Record:
    """Decode what the fast decoder rejects (NaN, for example), or raise the error."""

    def one_value_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for name, found in (record := object_of(pairs)).items():
            if type(found) is Repeated:
                raise ConfigError(
                    f"{file}: line {line}: field {shortened(name)!r} {found}; leave one of them, "
                    "or give it another name"
                )
        return record

    try:
        text = value.decode().rstrip("\r\n")
        record = json.loads(text, object_pairs_hook=one_value_each)
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
            rest = error.doc[error.pos :].strip()
            if rest == "," and error.msg == "Extra data":
                why, what = "a comma follows the object", f"{what}: remove these commas"
            elif value.strip() == b"[":
                why, what = "an array begins", f"{what}; --format json reads an array"
        elif "digits" in why:  # Python's advice is for programmers
            why = "it has an integer with more than 4,300 digits"
        raise ConfigError(f"{file}: line {line} is not JSON ({why}); {what}") from None
    if not isinstance(record, dict):
        array = "; --format json reads an array" if line == 1 and isinstance(record, list) else ""
        raise ConfigError(
            f"{file}: line {line} is JSON but not an object, got {shortened(value)}; {what}{array}"
        )
    return record
