"""kernel: one function with two ways to run, as Python at once and as machine code.

Rule: both ways give the same bits (decision 0139), so it never matters which one ran. Python needs
no compiler: numba is loaded only where machine code is made or loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache, cached_property, update_wrapper
from pathlib import Path
from threading import RLock
from typing import Any

from stream.kernel.bundled import source_stamp
from stream.kernel.interpreted import Interpreter

__all__ = [
    "LOCK",
    "VARIABLE",
    "Intrinsic",
    "Kernel",
    "called",
    "inlined",
    "intrinsic",
    "kernel",
    "kernels",
]

VARIABLE = "HEADWATER_KERNELS"
WAYS = ("compiled", "interpreted", "checked")
# Machine code keeps all other threads out, and threads that predict with one learner share scratch.
# So while one kernel is interpreted, no other one runs.
LOCK = RLock()
_interpreting = False


def kernel(function: Callable[..., Any]) -> Any:
    """Decorator of functions in kernel files: run as Python, or as code for the types of a call."""
    return Kernel(function, {})


def inlined(function: Callable[..., Any]) -> Any:
    """Decorator of functions in kernel files that LLVM puts in place of each call by a kernel.

    They make no arrays, so that numba counts no references to arrays, which may cost more than a
    short function.
    """
    return Kernel(function, {"forceinline": True, "_nrt": False})


def called(function: Callable[..., Any]) -> Any:
    """Decorator of functions in kernel files that several places of a kernel call: as `inlined`,
    but LLVM decides whether it repeats them, which takes long for large ones."""
    return Kernel(function, {"_nrt": False})


def intrinsic(twin: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Decorator of functions in kernel files that write the instructions of a kernel, as numba's
    `intrinsic`. `twin` has their effect in Python, and checks indices."""
    return lambda function: Intrinsic(function, twin)


class Kernel:
    """A kernel. What another kernel calls becomes a part of that kernel's machine code.

    Parameters
    ----------
    function
        What it does.
    options
        Those of numba that differ from a kernel's. With some it is a part, which is not kept alone.

    Attributes
    ----------
    py_func
        The function.
    run
        What a call runs. The first call decides it.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.py_func, self.options = function, options
        self.root = _root(function.__module__.partition(".")[0])
        self.stamp = _stamp(self.root)
        self.run: Callable[..., Any] = self._first
        _KERNELS.append(self)

    def __call__(self, *args: Any) -> Any:
        if _interpreting:
            with LOCK:
                return self.run(*args)
        return self.run(*args)

    def __repr__(self) -> str:
        return f"<kernel {self.py_func.__module__}.{self.py_func.__qualname__}>"

    @cached_property
    def machine(self) -> Any:
        """The kernel as numba calls it. Types that are new to it are compiled, or loaded."""
        from stream.kernel.compiled import machine_code  # numba, which Python does without

        return machine_code(self.py_func, self.options, self.root, self.stamp)

    @property
    def _numba_type_(self) -> Any:  # numba looks for it where a kernel calls another one
        from stream.kernel.compiled import callee

        return callee(self.machine)

    def interpreted(self, *args: Any) -> Any:
        """The kernel as Python. No other kernel runs meanwhile."""
        global _interpreting
        _interpreting = True
        with LOCK:
            return _interpreter(way()).run(self.py_func, args)

    def _first(self, *args: Any) -> Any:
        self.run = self.machine if way() == "compiled" else self.interpreted
        return self.run(*args)


class Intrinsic:
    """Instructions that have no name in Python.

    Attributes
    ----------
    twin
        A function of Python with their effect.
    """

    def __init__(self, function: Callable[..., Any], twin: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self._function, self.twin = function, twin

    def __call__(self, *args: Any) -> Any:
        return self.twin(*args)

    @cached_property
    def _numba_type_(self) -> Any:
        from stream.kernel.compiled import written  # numba, which Python does without

        return written(self._function)


_KERNELS: list[Kernel] = []


def kernels() -> tuple[Kernel, ...]:
    """All kernels of the files that are loaded."""
    return tuple(_KERNELS)


@cache
def way() -> str:
    """How kernels run, by the environment."""
    given = os.environ.get(VARIABLE) or "compiled"
    if given not in WAYS:
        raise ValueError(f"{VARIABLE} expects one of {', '.join(WAYS)}, got {given!r}")
    return given


@cache
def _interpreter(way: str) -> Interpreter:
    return Interpreter(checked=way == "checked")


def _root(package: str) -> Path:
    """The folder of a top-level package."""
    return Path(next(iter(sys.modules[package].__path__)))


@cache
def _stamp(root: Path) -> str | None:
    """Read on import: at the first call the files may be those of a newer version."""
    return source_stamp(root)
