"""Texts and labels of a block as arrays, without a Python object for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["CodedColumn", "ListLike", "TextColumn", "joined", "taken"]

UTF8 = ("utf-8", "surrogatepass")  # Python's texts may have half of a surrogate pair


class ListLike(Sequence[Any]):
    """A sequence that is equal to any other one with equal values."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence) and not isinstance(other, str | bytes):
            return len(self) == len(other) and list(self) == list(other)
        return NotImplemented

    def __repr__(self) -> str:
        return repr(list(self))


class TextColumn(ListLike):
    """Texts as bytes in UTF-8, one after the other. It cannot be changed.

    Parameters
    ----------
    data
        uint8: the bytes.
    start
        int64 (n + 1,): text k is data[start[k]:start[k + 1]].

    Examples
    --------
    >>> ids = TextColumn.of(["a", "", "né"])
    >>> ids[2], ids.take(np.array([2, 0])), ids == ["a", "", "né"]
    ('né', ['né', 'a'], True)
    """

    __slots__ = ("data", "start")

    def __init__(self, data: NDArray[np.uint8], start: NDArray[np.int64]) -> None:
        data.flags.writeable = False  # so that kernels are compiled for one type of arrays
        self.data, self.start = data, start

    @classmethod
    def of(cls, texts: Sequence[str]) -> TextColumn:
        """The same texts. O(bytes)."""
        if isinstance(texts, TextColumn):
            return texts
        whole, start = "".join(texts), np.zeros(len(texts) + 1, dtype=np.int64)
        lengths: Iterable[int]
        if whole.isascii():
            data, lengths = whole.encode(), map(len, texts)
        else:
            parts = [text.encode(*UTF8) for text in texts]
            data, lengths = b"".join(parts), map(len, parts)
        np.cumsum(np.fromiter(lengths, np.int64, len(texts)), out=start[1:])
        return cls(np.frombuffer(data, dtype=np.uint8), start)

    @classmethod
    def joined(cls, parts: Sequence[TextColumn]) -> TextColumn:
        """The texts of all parts, one after the other."""
        ends = np.array([0, *(part.data.size for part in parts)], dtype=np.int64).cumsum()
        starts = [part.start[:-1] + at for part, at in zip(parts, ends[:-1], strict=True)]
        return cls(
            np.concatenate([part.data for part in parts]), np.concatenate([*starts, ends[-1:]])
        )

    def __len__(self) -> int:
        return self.start.size - 1

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> TextColumn: ...
    def __getitem__(self, at: int | slice) -> str | TextColumn:
        if isinstance(at, slice):
            return self.take(np.arange(len(self))[at])
        k = range(len(self))[at]
        return self.data[self.start[k] : self.start[k + 1]].tobytes().decode(*UTF8)

    def __iter__(self) -> Iterator[str]:
        whole, at = self.data.tobytes(), self.start.tolist()
        if whole.isascii():
            text = whole.decode()
            return (text[a:b] for a, b in pairwise(at))
        return (whole[a:b].decode(*UTF8) for a, b in pairwise(at))

    def take(self, at: NDArray[np.int64]) -> TextColumn:
        """The texts at these places."""
        from stream.data._kernels import gather  # numba, which most commands do not need

        sizes, start = np.diff(self.start)[at], np.zeros(at.size + 1, dtype=np.int64)
        np.cumsum(sizes, out=start[1:])
        data = np.empty(int(start[-1]), dtype=np.uint8)
        gather(self.data, self.start, at, data)
        return TextColumn(data, start)


class CodedColumn(ListLike):
    """Values of which few are distinct, as numbers of these. It cannot be changed.

    Parameters
    ----------
    values
        The distinct values. Equal ones may be there twice.
    code
        int64 (n,): which one each is; -1: None.

    Examples
    --------
    >>> labels = CodedColumn(["ham", "spam"], np.array([1, -1, 0]))
    >>> labels[0], labels == ["spam", None, "ham"], labels.take(np.array([2]))
    ('spam', True, ['ham'])
    """

    __slots__ = ("code", "values")

    def __init__(self, values: Sequence[Any], code: NDArray[np.int64]) -> None:
        self.values, self.code = values, code

    @classmethod
    def nothing(cls, n: int) -> CodedColumn:
        """A column of n times None."""
        return cls((), np.full(n, -1, dtype=np.int64))

    @classmethod
    def joined(cls, parts: Sequence[CodedColumn]) -> CodedColumn:
        """The values of all parts, one after the other."""
        values: list[Any] = []
        codes = []
        for part in parts:
            codes.append(np.where(part.code < 0, -1, part.code + len(values)))
            values += part.values
        return cls(values, np.concatenate(codes))

    def __len__(self) -> int:
        return self.code.size

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> CodedColumn: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return CodedColumn(self.values, self.code[at])
        code = int(self.code[at])
        return None if code < 0 else self.values[code]

    def __iter__(self) -> Iterator[Any]:
        values = [*self.values, None]  # the last one is that of -1
        return map(values.__getitem__, self.code.tolist())

    def take(self, at: NDArray[np.int64]) -> CodedColumn:
        """The values at these places."""
        return CodedColumn(self.values, self.code[at])


def taken(values: Sequence[Any], at: NDArray[np.int64]) -> Sequence[Any]:
    """The values at these places."""
    if isinstance(values, TextColumn | CodedColumn):
        return values.take(at)
    return list(map(values.__getitem__, at.tolist()))


def joined(parts: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """The values of all parts, one after the other: as arrays if all parts are."""
    texts = [part for part in parts if isinstance(part, TextColumn)]
    coded = [part for part in parts if isinstance(part, CodedColumn)]
    if len(texts) == len(parts):
        return TextColumn.joined(texts)
    if len(coded) == len(parts):
        return CodedColumn.joined(coded)
    return [value for part in parts for value in part]
