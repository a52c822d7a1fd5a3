"""State: everything that a learner or join needs to continue, as a header and named arrays.

`State` is the only form in which the learning core is saved. It has no objects, so loading a state
runs no code. Two states are equal if they have the same bits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.errors import StateError

__all__ = ["State", "distinct_texts", "pack", "unpack"]


@dataclass(frozen=True)
class State:
    """A header of JSON values and named arrays.

    Parameters
    ----------
    header
        JSON values only (scalars, lists, dicts with text keys); floats must be finite.
    arrays
        Little-endian arrays of any dtype except object.

    Examples
    --------
    >>> import numpy as np
    >>> a = State({"n": 2}, {"mean": np.array([1.0, 2.0])})
    >>> a == State({"n": 2}, {"mean": np.array([1.0, 2.0])})
    True
    >>> a.fingerprint()[:8] == State({"n": 3}, a.arrays).fingerprint()[:8]
    False
    """

    header: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.header, Mapping) or not isinstance(self.arrays, Mapping):
            raise StateError("expected the header and the arrays as mappings")

    def fingerprint(self) -> str:
        """SHA-256 over header and arrays (name, dtype, shape, bits), as hex. O(bytes)."""
        digest = hashlib.sha256(self.header_bytes())
        for name in sorted(self.arrays):
            array = np.ascontiguousarray(self.arrays[name])
            digest.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode())
            digest.update(array.data if array.size else b"")
        return digest.hexdigest()

    def header_bytes(self) -> bytes:
        """The header as canonical JSON (sorted keys, shortest floats)."""
        try:
            text = json.dumps(self.header, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError) as error:
            why = " ".join(str(error).split())
            raise StateError(f"expected a header of JSON values: {why}") from None
        return text.encode("utf-8", "surrogatepass")

    def to_bytes(self) -> bytes:
        """The state as the content of an npz file. Nothing in it is executable.

        Examples
        --------
        >>> import numpy as np
        >>> a = State({"n": 2}, {"mean": np.array([1.0, 2.0])})
        >>> State.from_bytes(a.to_bytes()) == a
        True
        """
        for name, array in self.arrays.items():
            if not isinstance(array, np.ndarray) or array.dtype.hasobject:
                raise StateError(f"expected numbers or text, got another type for array {name!r}")
        file = BytesIO()
        header = np.frombuffer(self.header_bytes(), dtype=np.uint8)
        arrays = {f"array/{name}": array for name, array in self.arrays.items()}
        np.savez(file, allow_pickle=False, header=header, **arrays)
        return file.getvalue()

    @staticmethod
    def from_bytes(data: bytes) -> State:
        """The inverse of `to_bytes`.

        Raises
        ------
        StateError
            The bytes are damaged or belong to another program.
        """
        try:
            with np.load(BytesIO(data), allow_pickle=False) as file:
                header = json.loads(file["header"].tobytes())
                arrays = {k.removeprefix("array/"): file[k] for k in file.files if k != "header"}
            if not isinstance(header, dict):
                raise StateError("the header is not a mapping")
        except Exception as error:  # zipfile, zlib and numpy raise many types for damaged bytes
            came = f"{len(data):,} bytes" if isinstance(data, bytes) else type(data).__name__
            raise StateError(
                f"expected a state made by to_bytes, got {came} that are damaged or another "
                f"file ({type(error).__name__}); headwater.load reads the files of a service"
            ) from None
        return State(header, arrays)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.fingerprint() == other.fingerprint()

    def __hash__(self) -> int:
        return hash(self.fingerprint())

    def nested(self, prefix: str) -> State:
        """The part that `join` has stored under `prefix`.

        Raises
        ------
        StateError
            There is no such part.
        """
        if prefix not in self.header:
            raise StateError(f"state has no part {prefix!r}; it was saved by another program")
        path = prefix + "/"
        arrays = {k[len(path) :]: v for k, v in self.arrays.items() if k.startswith(path)}
        return State(self.header[prefix], arrays)

    @staticmethod
    def join(parts: Mapping[str, State]) -> State:
        """Join several states into one, each under its name. Names must not contain "/".

        Examples
        --------
        >>> both = State.join({"a": State({"n": 1}), "b": State({"n": 2})})
        >>> both.nested("b").header
        {'n': 2}
        """
        header = {name: part.header for name, part in parts.items()}
        if any("/" in name for name in parts):
            raise StateError(f'names of parts must not contain "/", got {sorted(parts)}')
        arrays = {f"{p}/{k}": v for p, part in parts.items() for k, v in part.arrays.items()}
        return State(header, arrays)

    def copy(self) -> State:
        """A copy with its own header and arrays, so that the original may change."""
        return State(deepcopy(dict(self.header)), {k: v.copy() for k, v in self.arrays.items()})

    def array(self, name: str, dtype: Any, ndim: int) -> NDArray[Any]:
        """A checked, writable copy of array `name`.

        Raises
        ------
        StateError
            The array is missing, or has another dtype or number of dimensions.
        """
        found = self.arrays.get(name)
        if found is None or found.dtype != np.dtype(dtype) or found.ndim != ndim:
            came = "nothing" if found is None else f"{found.dtype}, {found.ndim} dimensions"
            raise StateError(f"array {name!r}: expected {np.dtype(dtype)}, {ndim} dim., got {came}")
        return np.array(found, dtype=dtype, order="C")


def pack(values: Iterable[str | None]) -> dict[str, NDArray[Any]]:
    """Texts (or None) as two arrays, for a State.

    Examples
    --------
    >>> unpack(pack(["a", None, "", "é"]))
    ['a', None, '', 'é']
    """
    encoded = [None if v is None else v.encode("utf-8", "surrogatepass") for v in values]
    lengths = np.array([-1 if b is None else len(b) for b in encoded], dtype=np.int64)
    joined = b"".join(b for b in encoded if b is not None)
    return {"lengths": lengths, "bytes": np.frombuffer(joined, dtype=np.uint8)}


def unpack(arrays: Mapping[str, NDArray[Any]]) -> list[str | None]:
    """The inverse of `pack`."""
    data, at = arrays["bytes"].tobytes(), 0
    out: list[str | None] = []
    for length in arrays["lengths"].tolist():
        if length < 0:
            out.append(None)
            continue
        out.append(data[at : at + length].decode("utf-8", "surrogatepass"))
        at += length
    return out


def distinct_texts(state: State) -> list[str]:
    """The texts of a state that `pack` has made into arrays, if they are distinct.

    Raises
    ------
    StateError
        They are damaged, or not distinct.

    Examples
    --------
    >>> distinct_texts(State({}, pack(["b", "a"])))
    ['b', 'a']
    """
    lengths, data = state.array("lengths", np.int64, 1), state.array("bytes", np.uint8, 1)
    if (lengths < 0).any() or int(lengths.sum()) != data.size:
        raise StateError("expected the texts of the keys, got another number of bytes")
    found = unpack({"lengths": lengths, "bytes": data})
    texts = [text for text in found if text is not None]
    if len(set(texts)) < len(texts):
        raise StateError("expected distinct keys")
    return texts
