"""How much memory the values of a column need as Python objects, at least.

A few bytes can claim any number of values: a dictionary has one text for all rows, the views of a
column may all show the same bytes, and a list of nulls has no bytes at all. So what a message
unpacks to is counted before it becomes values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumers.codecs.arrow.values import UnreadableTypeError

__all__ = ["byte_lengths", "volume"]

_CELL = 8  # bytes of a value in a list
_VIEW = 16  # bytes of a view of a text; the first four are its length


def volume(array: Any) -> int:
    """Bytes of the values of an array, each with eight of its own.

    Raises
    ------
    UnreadableTypeError
        The type is one whose values could not be bounded.
    """
    import pyarrow as pa

    kind, types = array.type, pa.types
    cells = _CELL * len(array)
    if types.is_primitive(kind):
        return cells
    if isinstance(kind, pa.BaseExtensionType):
        return volume(array.storage)
    if types.is_dictionary(kind):
        return cells + _of_dictionary(array)
    if types.is_struct(kind):
        return cells + sum(map(volume, array.flatten()))
    if types.is_map(kind):
        return cells + volume(array.keys) + volume(array.items)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return cells + volume(array.flatten())
    if types.is_nested(kind) or types.is_run_end_encoded(kind):
        raise UnreadableTypeError("it is not supported in messages")
    return cells + int(byte_lengths(array).sum())


def _of_dictionary(array: Any) -> int:
    import pyarrow as pa

    if pa.types.is_nested(array.dictionary.type) or pa.types.is_dictionary(array.dictionary.type):
        raise UnreadableTypeError("it is not supported in messages")
    used = array.indices.drop_null().to_numpy(zero_copy_only=False)
    return int(byte_lengths(array.dictionary)[used].sum())


def byte_lengths(array: Any) -> NDArray[np.int64]:
    """Bytes of each text or binary value; 0 for nulls and for values of other types."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, types = array.type, pa.types
    if types.is_fixed_size_binary(kind):
        return np.full(len(array), kind.byte_width, dtype=np.int64)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        _, views, *_ = array.buffers()
        whole = np.frombuffer(views or b"", np.int32)[:: _VIEW // 4]
        lengths = whole[array.offset : array.offset + len(array)].astype(np.int64)
        return np.where(array.is_null().to_numpy(zero_copy_only=False), 0, lengths)
    kinds = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    if any(is_kind(kind) for is_kind in kinds):
        found = pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        return np.asarray(found, dtype=np.int64)
    return np.zeros(len(array), dtype=np.int64)
