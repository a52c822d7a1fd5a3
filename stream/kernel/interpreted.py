"""Kernels as Python functions, with the bits of their machine code.

Rule: a kernel is written in the part of Python that means the same to numba. What differs between
both is given here, in the globals of a copy of the function: a kernel that it calls is its copy, an
intrinsic is its twin, and functions of `math` return what those of C return where Python raises.

Elements of narrow arrays are wide when they are read, as numba computes with them.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

__all__ = ["Interpreter", "names_of"]


def _by(operator: str) -> Callable[[Any, Any], Any]:
    """The operator of a `Single`."""
    narrow, wide = getattr(np.float32, operator), getattr(np.float64, operator)

    def do(self: Any, other: Any) -> Any:
        if isinstance(other, np.float32):
            return Single(narrow(self, other))
        return wide(np.float64(self), other)

    return do


class Single(np.float32):
    """A number of 32 bits. With one of 64 bits it is one of 64 bits, which numpy decides by where
    the other number is from."""

    __add__, __sub__, __mul__, __truediv__ = map(
        _by, ("__add__", "__sub__", "__mul__", "__truediv__")
    )
    __radd__, __rsub__, __rmul__, __rtruediv__ = map(
        _by, ("__radd__", "__rsub__", "__rmul__", "__rtruediv__")
    )


WIDE: dict[type, Callable[[Any], Any]] = {
    np.bool_: bool,  # two of them are added as numbers
    np.float32: Single,
    **dict.fromkeys((np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32), np.int64),
}
SAME = {np.dtype(kind) for kind in (np.float64, np.int64, np.uint64)}  # numpy reads them as numba
MAKERS = {np.empty, np.zeros, np.ones, np.full, np.array, np.empty_like, np.zeros_like}


class Narrow(np.ndarray):
    """An array whose elements are read as wide numbers."""

    def __getitem__(self, at: Any) -> Any:
        found = np.ndarray.__getitem__(self, at)
        wide = WIDE.get(type(found))
        return found if wide is None else wide(found)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


class Checked(Narrow):
    """An array that refuses negative indices too, which numpy and numba count from the end."""

    def __getitem__(self, at: Any) -> Any:
        _refuse_negative(at)
        return Narrow.__getitem__(self, at)

    def __setitem__(self, at: Any, value: Any) -> None:
        _refuse_negative(at)
        np.ndarray.__setitem__(self, at, value)


def _refuse_negative(at: Any) -> None:
    for index in at if isinstance(at, tuple) else (at,):
        for edge in (index.start, index.stop) if isinstance(index, slice) else (index,):
            if edge is not None and not isinstance(edge, np.ndarray) and edge < 0:
                raise IndexError(f"expected an index of at least 0, got {at}")


class Interpreter:
    """Runs kernels as Python.

    Parameters
    ----------
    checked
        Whether arrays refuse negative indices. Each access takes three times as long.
    around
        Given each kernel that another one calls, with its function; returns what is called.
    """

    def __init__(
        self,
        *,
        checked: bool = False,
        around: Callable[[Any, Callable[..., Any]], Callable[..., Any]] | None = None,
    ) -> None:
        self._checked, self._around = checked, around
        self._array = Checked if checked else Narrow
        self._made: dict[Callable[..., Any], Callable[..., Any]] = {}

    def run(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """What the kernel of this function returns for these arguments; it changes their arrays."""
        with np.errstate(all="ignore"):
            return _plain(self.copy(function)(*map(self._prepared, args)))

    def copy(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with twins of what it uses."""
        made = self._made.get(function)
        if made is None:
            known = function.__globals__
            names: dict[str, Any] = {"__builtins__": builtins}
            made = FunctionType(
                function.__code__,
                names,
                function.__name__,
                function.__defaults__,
                function.__closure__,
            )
            self._made[function] = made  # first: it may call itself
            for name in names_of(function.__code__):
                if name in known:
                    names[name] = self._twin(known[name])
        return made

    def _twin(self, value: Any) -> Any:
        if isinstance(value, ModuleType):
            return _Module(value, self._twin)
        if hasattr(value, "py_func"):
            made = self.copy(value.py_func)
            return made if self._around is None else self._around(value, made)
        if hasattr(value, "twin"):
            return value.twin
        if isinstance(value, (np.ndarray, tuple)):
            return self._prepared(value)
        if not callable(value):
            return value
        if value in MAKERS:
            return self._maker(value)
        return MATH.get(value, value)

    def _prepared(self, value: Any) -> Any:
        """An argument as the functions take it."""
        if isinstance(value, np.ndarray):
            same = value.dtype in SAME and not self._checked
            return value if same else value.view(self._array)
        if isinstance(value, tuple):
            parts = map(self._prepared, value)
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        return value

    def _maker(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **options: Any) -> Any:
            return self._prepared(make(*args, **options))

        return made


class _Module:
    """The functions of a module, as their twins."""

    def __init__(self, module: ModuleType, twin: Callable[[Any], Any]) -> None:
        self._module, self._twin = module, twin

    def __getattr__(self, name: str) -> Any:
        found = self._twin(getattr(self._module, name))
        setattr(self, name, found)
        return found


def names_of(code: CodeType) -> Iterator[str]:
    """The globals that a function may use, also in its comprehensions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_of(constant)


def _plain(value: Any) -> Any:
    """A result as machine code returns it."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Narrow):
        return value.view(np.ndarray)
    if isinstance(value, tuple):
        parts = map(_plain, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def _log(x: float) -> float:
    return math.log(x) if x > 0.0 else -math.inf if x == 0.0 else math.nan


def _log2(x: float) -> float:
    return math.log2(x) if x > 0.0 else -math.inf if x == 0.0 else math.nan


def _log1p(x: float) -> float:
    return math.log1p(x) if x > -1.0 else -math.inf if x == -1.0 else math.nan


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _sqrt(x: float) -> float:
    return math.sqrt(x) if x >= 0.0 else math.nan


def _single(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numpy whose result of 32 bits stays one."""

    def do(*args: Any) -> Any:
        found = function(*args)
        return Single(found) if type(found) is np.float32 else found

    return do


def _divide(a: Any, b: Any) -> Any:
    """numpy's quotient: no error for 0."""
    if isinstance(a, (np.ndarray, np.float32)):
        return a / b
    return np.float64(a) / b


MATH: dict[Any, Callable[..., Any]] = {
    math.log: _log,
    math.log2: _log2,
    math.log1p: _log1p,
    math.exp: _exp,
    math.sqrt: _sqrt,
    np.sqrt: _single(np.sqrt),
    np.float32: Single,
    np.true_divide: _divide,
    math.hypot: np.hypot,  # that of C; Python has its own
}
