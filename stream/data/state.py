"""State: everything that a learner or join needs to continue, as a header and named arrays.

`State` is the only form in which the learning core is saved. It has no objects, so loading a state
runs no code. Two states are equal if they have the same bits. What loads one says in a table what
each array must be (`Saved`), and in rules how they must fit together; `State.read` checks both.
"""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.errors import StateError

__all__ = [
    "FINITE",
    "LONGEST",
    "Rules",
    "Saved",
    "State",
    "count_in",
    "list_in",
    "pack",
    "texts",
    "unpack",
]

FINITE = np.finfo(np.float64).max  # the largest number
LONGEST = 2**31  # bytes of a text


class Saved(NamedTuple):
    """What one array of a state must be.

    Attributes
    ----------
    dtype : data type
    shape : tuple
        Its lengths. A text is the name of a length, which is one number in all of a table.
    low, high : number, array or None
        Bounds of each value, which is then finite. None: the largest number; both None: any value.
    rising : bool
        Whether each value is above the one before.
    absent : number or None
        The value of all if the array was not saved. None: it must have been.
    """

    dtype: Any
    shape: tuple[str | int, ...] = (1,)
    low: Any = None
    high: Any = None
    rising: bool = False
    absent: float | None = None

    def objection(self, array: NDArray[Any]) -> str | None:
        """What was expected of these values; None if they are right."""
        bounded = self.low is not None or self.high is not None
        low = -FINITE if self.low is None else self.low
        high = FINITE if self.high is None else self.high
        if bounded and not ((array >= low) & (array <= high)).all():
            ends = ["its own bound" if np.ndim(end) else f"{end:g}" for end in (low, high)]
            return f"numbers from {ends[0]} to {ends[1]}"
        if self.rising and not (array[1:] > array[:-1]).all():
            return "rising numbers"
        return None


# What must hold for all arrays together, by the words of the error.
Rules = Mapping[str, Callable[[Mapping[str, NDArray[Any]]], Any]]


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
        except (TypeError, ValueError, RecursionError) as error:
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

    def read(
        self, table: Mapping[str, Saved], rules: Rules | None = None, **lengths: int
    ) -> dict[str, NDArray[Any]]:
        """Checked, writable copies of the arrays of a table.

        Parameters
        ----------
        rules
            What must hold for the arrays together, each with the words of its error.
        **lengths
            The lengths that are known. Another one is that of the first array which has it.

        Raises
        ------
        StateError
            An array is missing or is not what the table says, or a rule is broken.

        Examples
        --------
        >>> import numpy as np
        >>> table = {"n": Saved(np.int64, ("k",), low=0), "mean": Saved(np.float64, ("k",))}
        >>> state = State({}, {"n": np.array([1, 2]), "mean": np.array([0.5])})
        >>> state.read(table)
        Traceback (most recent call last):
            ...
        stream.errors.StateError: array 'mean': expected shape (2,), got (1,)
        """
        found: dict[str, NDArray[Any]] = {}
        for name, saved in table.items():
            if saved.absent is not None and name not in self.arrays:
                given = tuple(lengths[k] if isinstance(k, str) else k for k in saved.shape)
                array = np.full(given, saved.absent, dtype=saved.dtype)
            else:
                array = self.array(name, saved.dtype, len(saved.shape))
                shape = tuple(
                    lengths.setdefault(k, n) if isinstance(k, str) else k
                    for k, n in zip(saved.shape, array.shape, strict=True)
                )
                if array.shape != shape:
                    raise StateError(f"array {name!r}: expected shape {shape}, got {array.shape}")
            if (expected := saved.objection(array)) is not None:
                raise StateError(f"array {name!r}: expected {expected}, got others")
            found[name] = array
        for expected, holds in (rules or {}).items():
            if not np.all(holds(found)):
                raise StateError(f"expected {expected}, got others")
        return found


def count_in(
    header: Mapping[str, Any], name: str, most: int = 2**62, *, absent: int | None = None
) -> int:
    """A count of a header, from 0 to `most`; `absent` if the header has none.

    Raises
    ------
    StateError
        It is no such number.
    """
    found = header.get(name, absent)
    if type(found) is not int or not 0 <= found <= most:
        raise StateError(f"{name}: expected 0 to {most}, got {reprlib.repr(found)}")
    return found


def list_in(header: Mapping[str, Any], name: str, length: int) -> list[Any]:
    """A list of a header, of this length.

    Raises
    ------
    StateError
        It is no such list.
    """
    found = header.get(name)
    if not isinstance(found, list) or len(found) != length:
        came = f"{len(found)}" if isinstance(found, list) else reprlib.repr(found)
        raise StateError(f"{name}: expected a list of {length}, got {came}")
    return list(found)


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


def texts(state: State, prefix: str = "", *, distinct: bool = False) -> list[str]:
    """The texts that `pack` has made into arrays, whose names begin with `prefix`.

    Raises
    ------
    StateError
        They are damaged, or not distinct.

    Examples
    --------
    >>> texts(State({}, pack(["b", "a"])))
    ['b', 'a']
    """
    lengths, data = f"{prefix}lengths", f"{prefix}bytes"
    table = {lengths: Saved(np.int64, ("texts",), 0, LONGEST), data: Saved(np.uint8, ("size",))}
    whole = {"the bytes of all texts": lambda a: a[lengths].sum() == a[data].size}
    found = state.read(table, whole)
    try:
        out = [str(text) for text in unpack({"lengths": found[lengths], "bytes": found[data]})]
    except UnicodeDecodeError as error:
        raise StateError(f"array {data!r}: expected texts as UTF-8: {error.reason}") from None
    if distinct and len({*out}) < len(out):
        raise StateError(f"array {data!r}: expected distinct texts, got one twice")
    return out
