"""kernel: one function with two ways to run, as Python at once and as machine code.

Rule: both ways give the same bits (docs/decisions/kernels.md#a-kernel-is-python-and-machine-code),
so it never matters which one ran. Machine code that was kept is loaded at the first call. What was
not is compiled in the background, and is Python until then.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property, partial, update_wrapper
from inspect import CO_VARARGS
from pathlib import Path
from threading import RLock, local
from typing import TYPE_CHECKING, Any

from stream.errors import SchemaError
from stream.kernel.bundled import source_stamp
from stream.kernel.interpreted import Interpreter
from stream.kernel.interrupts import interruptible, uninterrupted

if TYPE_CHECKING:
    from stream.kernel.background import Background

__all__ = [
    "LOCK",
    "MANY",
    "VARIABLE",
    "Kernel",
    "background",
    "called",
    "collected",
    "inlined",
    "interpreting",
    "intrinsic",
    "kernel",
    "kernels",
    "machine_first",
    "waiting",
    "way",
]

VARIABLE = "HEADWATER_KERNELS"
WAYS = ("background", "compiled", "interpreted", "checked")
BESIDE = (
    "compiling kernels in the background, which takes up to a minute; results are exact meanwhile, "
    "and slower"
)
MANY = 200  # records: to wait for machine code is sooner, also if each is a mail
# Machine code keeps all other threads out, and threads that predict with one learner share scratch.
# So while one kernel is interpreted, no other one runs.
LOCK = RLock()
_mixed = False  # some kernels are machine code, and others are not yet: each takes the lock
_patience = local()


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


class Kernel(partial[Any]):
    """A kernel. What another kernel calls becomes a part of that kernel's machine code.

    It is a `partial` because a call of one costs nothing beside that of its function, which changes
    with the way to run.

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
    """

    def __new__(cls, function: Callable[..., Any], options: dict[str, Any]) -> Kernel:
        """The first call decides what a call runs."""
        return super().__new__(cls, function)

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        if function.__code__.co_flags & CO_VARARGS:  # numba hands these over as one tuple
            raise TypeError(f"{function.__qualname__}: a kernel takes no *arguments")
        self.py_func, self.options = function, options
        self.root = _root(function.__module__.partition(".")[0])
        self.stamp = _stamp(self.root)
        self.runs(self._first)
        _KERNELS.append(self)

    def runs(self, target: Callable[..., Any]) -> None:
        """From now on a call runs this."""
        self.__setstate__((target, (), {}, self.__dict__))  # type: ignore[attr-defined]

    def __reduce__(self) -> str:
        """A copy is the kernel itself."""
        return self.py_func.__qualname__

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
        with LOCK, uninterrupted():
            return _interpreter(way()).run(self.py_func, args)

    def locked(self, *args: Any) -> Any:
        """The kernel as machine code where that is there, while another one is not."""
        if getattr(_patience, "many", False):
            self._await(self.machine.types_of(args))  # before the lock, which others want
        with LOCK:
            return self.machine(*args)

    def _first(self, *args: Any) -> Any:
        with LOCK:
            if way() in ("interpreted", "checked"):
                self.runs(self.interpreted)
            else:
                if way() == "background" and self.stamp is not None and not self.options:
                    self.machine.absent = self._absent
                self.runs(self.locked if _mixed else self.machine)
        return self(*args)

    def _absent(self, types: tuple[Any, ...]) -> Callable[..., Any] | None:
        """What runs a call for whose types nothing is loaded; None: it is compiled in place."""
        if not self.machine.load(types):
            if not self._wanted(types):
                return None
            _mix()
            _warn()
            if getattr(_patience, "many", False):
                self._await(types)
        return partial(self._meanwhile, types)

    def _wanted(self, types: tuple[Any, ...]) -> bool:
        """Whether a child compiles it. Two threads that call first share the children."""
        if self.machine.folder is None:
            return False
        with LOCK:
            children = background()
        return children.want(self, types)

    def _await(self, types: tuple[Any, ...]) -> None:
        """Wait until it is machine code, unless what is called is only collected."""
        if self.machine.load(types) or not self._wanted(types) or background().collects:
            return
        with interruptible():
            background().wait((self, types))

    def _meanwhile(self, types: tuple[Any, ...], *args: Any) -> Any:
        """As Python, unless that has changed while it waited for another kernel."""
        with LOCK, uninterrupted():
            if _mixed and background().wants(self, types):
                return _interpreter(way()).run(self.py_func, args)
            return self.machine(*args)


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
    # Children need the locks and sessions of a Unix.
    given = os.environ.get(VARIABLE) or ("background" if os.name == "posix" else "compiled")
    if given not in WAYS:
        raise SchemaError(f"{VARIABLE} expects one of {', '.join(WAYS)}, got {given!r}")
    return given


def interpreting() -> bool:
    """Whether some kernels run as Python."""
    return _mixed or way() in ("interpreted", "checked")


def waiting() -> int:
    """How many kernels run as Python until they are compiled."""
    if not _mixed:
        return 0
    progress = background().progress()
    return progress.wanted - progress.done


@cache
def background() -> Background:
    """The children of this process that compile."""
    from stream.kernel.background import Background  # with processes, which few need

    made = Background(_quiet, {VARIABLE: "compiled"})  # a child has no children
    # A fork has what its parent had: a lock that another thread of the parent holds stays locked.
    os.register_at_fork(
        before=made.loading.acquire,
        after_in_parent=made.loading.release,
        after_in_child=partial(_forked, made),
    )
    return made


@contextmanager
def machine_first() -> Iterator[None]:
    """Calls of kernels in the block wait for machine code, which is sooner for many records."""
    before, _patience.many = getattr(_patience, "many", False), True
    try:
        yield
    finally:
        _patience.many = before


@contextmanager
def collected(*, wait: bool = False) -> Iterator[None]:
    """Compile what the block calls after it, the costliest first; wait for that, or not."""
    if way() != "background":
        yield
        return
    with LOCK:  # as `Kernel._wanted`
        children = background()
    with children.held():
        yield
    if wait:
        children.wait()


def _warn() -> None:
    from stream.kernel.compiled import warn_once  # the kernel has loaded it

    if background().report is None:
        warn_once(BESIDE)


def _mix() -> None:
    """From now on machine code takes the lock, because another kernel is Python."""
    global _mixed
    with LOCK:
        if not _mixed:
            _mixed = True
            for each in _KERNELS:
                if each.func is vars(each).get("machine"):
                    each.runs(each.locked)


def _quiet() -> None:
    """All that was called is machine code, which needs no lock."""
    global _mixed
    with LOCK:
        if _mixed and not background().waits:
            _mixed = False
            _unlock()


def _unlock() -> None:
    for each in _KERNELS:
        if each.func == each.locked:
            each.runs(each.machine)


def _forked(parent: Background) -> None:
    """The threads and the children of the parent are not those of its fork."""
    global _mixed
    LOCK._at_fork_reinit()  # type: ignore[attr-defined]
    parent.loading.release()
    parent.forked()
    background.cache_clear()
    _mixed = False
    _unlock()


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
