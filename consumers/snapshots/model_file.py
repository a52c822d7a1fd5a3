"""A model as one file, `model.hw`, for other programs and other services. Pure.

The file is a zip archive without compression, so `numpy.load` and `zipfile` open it:

    model.json     what the model is, and the header of its state
    NAME.npy …     one array each, by the names of the state
    SHA256SUMS     a line for each member above, as `sha256sum` writes it
    signature      only with a key: HMAC-SHA-256 of SHA256SUMS, in hexadecimal

docs/model-file.md documents every field. Nothing in the file is executable, except the pickle of a
river model. The same model gives the same bytes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import re
from collections.abc import Mapping
from io import BytesIO
from tokenize import TokenError
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import msgspec
import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from consumers.base.converter import Converter
from consumers.base.errors import SnapshotError
from consumers.snapshots.format import DTYPES
from stream.data.state import State

__all__ = ["MAGIC", "Labels", "Limits", "ModelInfo", "from_bytes", "to_bytes"]

MAGIC = b"PK\x03\x04"
FORMAT, VERSION = "headwater model", 1
ABOUT, SUMS, SIGNATURE = "model.json", "SHA256SUMS", "signature"
MOST_MEMBERS = 10_000
END = b"PK\x05\x06"  # how the end record of an archive begins
_WHEN = (1980, 1, 1, 0, 0, 0)  # the earliest time of a zip: the bytes must not depend on the clock
_MARK = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[\w ./-]{1,200}\.npy", re.ASCII)


class Limits(msgspec.Struct, frozen=True):
    """The arguments of `Learner.limit`."""

    max_bytes: int
    max_classes: int


class Labels(msgspec.Struct, frozen=True):
    """The kind of the labels, "text", "integer" or "boolean", and the classes in the order in which
    they were learned. Without classes the kind is ""."""

    kind: str
    classes: list[str | int | bool]


class ModelInfo(msgspec.Struct, frozen=True):
    """What a model file says about its model.

    Parameters
    ----------
    learner
        The keys of [model] or of a [[challenger]] that decide what it learns.
    auto
        Type and parameters of the learner for which the type `auto` stands; None for another type.
    one_vs_rest
        Whether a classifier of river that knows two classes is there once for each class.
    limits
        The bounds of the state; None: no bounds.
    fields
        Name and kind of each field, in the order of the columns.
    values
        `[values]` of the service: which texts are missing values.
    labels
        The classes.
    source
        Where the model comes from.
    fingerprint
        That of the learner.
    state
        The header of the state.
    """

    learner: dict[str, Any]
    auto: dict[str, Any] | None
    one_vs_rest: bool
    limits: Limits | None
    fields: list[tuple[str, str]]
    values: dict[str, Any]
    labels: Labels
    source: dict[str, Any]
    fingerprint: str
    state: dict[str, Any]
    format: str = FORMAT
    version: int = VERSION


class _Version(msgspec.Struct):
    format: str
    version: int


_version, _model_info = Converter(_Version), Converter(ModelInfo)


def to_bytes(info: ModelInfo, arrays: Mapping[str, NDArray[Any]], key: str | None = None) -> bytes:
    """The file, signed if there is a key."""
    about = msgspec.to_builtins(info)
    head = {name: about.pop(name) for name in ("format", "version")}
    text = json.dumps(head | about, indent=1, allow_nan=False)
    members = {ABOUT: text.encode()} | {
        f"{name}.npy": _npy(name, arrays[name]) for name in sorted(arrays)
    }
    sums = "".join(f"{hashlib.sha256(v).hexdigest()}  {name}\n" for name, v in members.items())
    members[SUMS] = sums.encode()
    if key is not None:
        members[SIGNATURE] = _signature(members[SUMS], key)
    file = BytesIO()
    with ZipFile(file, "w", ZIP_STORED) as zipped:
        for name, value in members.items():
            member = ZipInfo(name, _WHEN)
            member.create_system, member.external_attr = 3, 0o600 << 16
            zipped.writestr(member, value)
    return file.getvalue()


def _npy(name: str, array: NDArray[Any]) -> bytes:
    array = np.ascontiguousarray(array)
    if array.dtype.str not in DTYPES or not _NAME.fullmatch(f"{name}.npy"):
        raise SnapshotError(f"array {name!r} of {array.dtype} cannot be written to a model file")
    out = BytesIO()
    npy.write_array(out, array, version=(1, 0), allow_pickle=False)
    return out.getvalue()


def _signature(sums: bytes, key: str) -> bytes:
    return hmac.digest(key.encode(), sums, "sha256").hex().encode()


def from_bytes(data: bytes, key: str | None = None) -> tuple[ModelInfo, State]:
    """The inverse of `to_bytes`, verified. It takes at most twice the memory of the file.

    Parameters
    ----------
    key
        The file must be signed with it. None: a signature is not checked.

    Raises
    ------
    SnapshotError
        The file is damaged, another file, of a newer version, or not signed with the key.
    """
    members = _members(data)
    if key is not None:
        _check_signature(members, key)
    members.pop(SIGNATURE, None)
    _check_sums(members)
    info = _info(members.pop(ABOUT))
    arrays = {name.removesuffix(".npy"): _array(name, raw) for name, raw in members.items()}
    return info, State(info.state, arrays)


def _members(data: bytes) -> dict[str, bytes]:
    """The content of each member. Compressed ones are refused, so nothing can unpack to more bytes
    than the file has."""
    try:
        with ZipFile(BytesIO(data)) as zipped:
            found = zipped.infolist()
            if min((m.header_offset for m in found), default=0) or not _ends_whole(data):
                raise SnapshotError("damaged: it has bytes before or after the archive")
            plain = all(m.compress_type == ZIP_STORED and not m.flag_bits & 1 for m in found)
            if not plain or any(m.file_size != m.compress_size for m in found):
                raise SnapshotError("not a model file: its members are compressed or encrypted")
            if len(found) > MOST_MEMBERS or sum(m.file_size for m in found) > len(data):
                raise SnapshotError("damaged: its members are larger than the file")
            members = {m.filename: zipped.read(m) for m in found}
    except (BadZipFile, EOFError, OSError, ValueError, NotImplementedError, RuntimeError) as error:
        raise SnapshotError(f"damaged, or not a model file ({_line(error)})") from None
    names = [name for name in members if name not in (ABOUT, SUMS, SIGNATURE)]
    if len(members) < len(found) or not all(map(_is_name, names)):
        raise SnapshotError("damaged: it has a member twice, or one with another name")
    if ABOUT not in members or SUMS not in members:
        missing = ABOUT if ABOUT not in members else SUMS
        raise SnapshotError(f"not a model file: it has no {missing}; `headwater export` writes one")
    return members


def _ends_whole(data: bytes) -> bool:
    """Whether the end record, which has 22 bytes and no comment, is the end of the file."""
    return data[-22:-18] == END and data[-2:] == bytes(2)


def _is_name(name: str) -> bool:
    """Whether a member may have this name: extracted, it must stay inside the folder."""
    return bool(_NAME.fullmatch(name)) and not {"", ".", ".."} & set(name.split("/"))


def _check_signature(members: Mapping[str, bytes], key: str) -> None:
    if SIGNATURE not in members:
        raise SnapshotError("not signed, and a key was given")
    if not hmac.compare_digest(members[SIGNATURE], _signature(members[SUMS], key)):
        raise SnapshotError("signed with another key, or changed since")


def _check_sums(members: dict[str, bytes]) -> None:
    """Compare every member with its hash, and remove the list of hashes."""
    listed = members.pop(SUMS)
    sums = "".join(f"{hashlib.sha256(v).hexdigest()}  {name}\n" for name, v in members.items())
    if sums.encode() != listed:
        raise SnapshotError(f"damaged: its members differ from {SUMS}")


def _info(raw: bytes) -> ModelInfo:
    try:
        # Not by msgspec: integers beyond 64 bits would become floats.
        document = json.loads(raw, parse_constant=_no_number)
        known = _version(document)
        if known.format != FORMAT:
            raise SnapshotError(f"not a model file: its format is {known.format[:40]!r}")
        if known.version > VERSION:
            raise SnapshotError(
                f"of version {known.version} of the format, and this headwater reads up to "
                f"{VERSION}; install a newer one"
            )
        info = _model_info(document)
        if not isinstance(info.learner.get("type"), str):
            raise ValueError("the learner has no type")
        if not _MARK.fullmatch(info.fingerprint):
            raise ValueError("the learner has no fingerprint")
        return info
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise SnapshotError(f"damaged: {ABOUT} cannot be read ({_line(error)})") from None


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _array(name: str, raw: bytes) -> NDArray[Any]:
    """An array from the bytes of its npy file. Its size is checked before memory is taken."""
    file = BytesIO(raw)
    try:
        if npy.read_magic(file) != (1, 0):
            raise ValueError("expected version 1.0 of npy")
        shape, fortran, dtype = npy.read_array_header_1_0(file)
    except (ValueError, TypeError, SyntaxError, TokenError, RecursionError, MemoryError) as error:
        raise SnapshotError(f"damaged: {name}: {_line(error)}") from None
    body = raw[file.tell() :]
    sound = dtype.str in DTYPES and not fortran and all(n >= 0 for n in shape)
    if not sound or math.prod(shape) * dtype.itemsize != len(body):
        raise SnapshotError(f"damaged: {name} cannot be {dtype.str} of shape {shape}")
    return np.frombuffer(body, dtype=dtype).reshape(shape)


def _line(error: BaseException) -> str:
    return " ".join(f"{error}".split())[:200] or type(error).__name__
