"""Compile a kernel with numba, and keep its machine code on disk.

Rule: numba alone compares a kernel on disk with the file of the kernel. It misses a change of a
function in another file that the kernel calls, and it fails if a class that the kernel takes was
renamed. Here each kernel is compared with the content of all kernel files of its top-level package
(`_kernels.py`, or in a folder `_kernels`), so that kernels may share functions
(docs/decisions/kernels.md#kernels-share-functions).
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

from llvmlite.binding import parse_assembly
from numba import config, types
from numba.core import event
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import Environment, lookup_environment
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys
from numba.core.typing import make_concrete_template
from numba.core.typing.templates import make_intrinsic_template
from numba.extending import intrinsic

from stream.errors import CompilationWarning
from stream.kernel.bundled import bundle_of
from stream.kernel.kept import KeptFiles

__all__ = ["cache_folder", "callee", "machine_code", "warn_once", "written"]

COMPILING = "compiling kernels, which takes seconds; later processes load their machine code"
WHERE = "set NUMBA_CACHE_DIR to a folder that can be written"
NOT_KEPT = f"compiling kernels, which takes seconds in each process: {WHERE}"
WITHIN = {"stream", "consumers", "headwater", "numba", "importlib"}

# Each is given, because numba gives those that are not to what is called.
OPTIONS = {"nopython": True, "no_cfunc_wrapper": True, "forceinline": False, "_nrt": True}


def machine_code(
    function: Callable[..., Any], options: Mapping[str, Any], root: Path, stamp: str | None
) -> Any:
    """A kernel as numba calls and compiles it. With options it is a part, which is not kept alone.

    Code is kept on disk if the kernel files can be read, which those in a zip cannot. A package may
    bring it (`stream.kernel.bundled`).
    """
    made = _Kernel(function, targetoptions={**OPTIONS, **options})
    if stamp is not None and not options:
        made._kept = partial(_KernelCache, function, root, stamp)
    return made


def cache_folder(function: Callable[..., Any]) -> str:
    """Where machine code of the functions in this one's file is kept."""
    return str(_OneFile(function).locator.get_cache_path())


def callee(machine: Any) -> Any:
    """The type of a kernel that another one calls."""
    return types.Dispatcher(machine)


def written(function: Callable[..., Any]) -> Any:
    """The type of the intrinsic that this function writes, which has no name as others do."""
    made = intrinsic(function)
    return types.Function(make_intrinsic_template(made, function, function.__name__, kwargs={}))


@cache
def _load_arrays() -> None:
    """Load numba's functions of arrays, which its compiler needs, without `scipy.linalg`.

    numba imports that there to see whether it exists, which takes 0.1 s. No kernel multiplies
    matrices, and the first function that does, such as one of a user, imports it again.
    """
    linalg: Any = import_module("numba.np.linalg")
    asks = getattr(linalg, "ensure_blas", None)
    if asks is None or find_spec("scipy") is None:
        return
    linalg.ensure_blas = lambda: None
    try:
        import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = asks


class _Kernel(CPUDispatcher):  # type: ignore[misc]
    """A kernel. What another kernel calls becomes a part of that kernel's machine code.

    numba alone would also make machine code of the part itself, with a wrapper for Python, and keep
    it on disk, see docs/decisions/kernels.md#a-called-kernel-is-a-part-of-its-caller.

    Attributes
    ----------
    absent
        Given the types of a call for which nothing is loaded. Returns what runs the call, or None
        to compile it in place. None: always in place.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._parts: dict[tuple[Any, ...], Any] = {}
        self._kept: Callable[[], _KernelCache] | None = None
        self._homeless = False
        self.absent: Callable[[Any], Any] | None = None

    @property
    def folder(self) -> str | None:
        """Where its machine code is kept; None if it is not."""
        with global_compiler_lock:
            if self._kept is not None:  # made here, because most kernels are never called
                try:
                    self._cache = self._kept()
                except RuntimeError:  # no folder can be written
                    self._homeless = True
                self._kept = None
            kept = isinstance(self._cache, _KernelCache)
            return str(self._cache.cache_path) if kept else None

    def load(self, types: Any) -> bool:
        """Load machine code for these types, if it was kept or brought."""
        with global_compiler_lock:
            if types in self.overloads:
                return True
            if self.folder is None:
                return False
            found = self._cache.load_overload(types, self.targetctx)
            if found is None:
                return False
            self.add_overload(found)
            return True

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        """What runs a call for whose types nothing is loaded; numba calls it then."""
        if self.absent is None:
            return super()._compile_for_args(*args, **kws)
        run = self.absent(self.types_of(args))
        return super()._compile_for_args(*args, **kws) if run is None else run

    def types_of(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The types of the arguments of a call."""
        found = tuple(map(self.typeof_pyval, args))
        self._types_active_call.clear()
        return found

    def compile(self, sig: Any) -> Any:
        """Compile for these types. Garbage is collected afterwards, which saves a tenth."""
        with global_compiler_lock:
            if self.load(sig):
                return self.overloads[sig].entry_point
            if self.folder is not None or self._homeless:
                warn_once(NOT_KEPT if self._homeless else COMPILING)
            _load_arrays()
            collects = gc.isenabled()
            gc.disable()
            try:
                return super().compile(sig)
            finally:
                if collects:
                    gc.enable()

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """How a kernel calls it. A constant argument has the type of a variable."""
        pysig, folded = self._compiler.fold_argument_types(args, kws)
        given = tuple(map(types.unliteral, folded))
        if given not in self._parts:
            details = {"dispatcher": self, "args": given, "return_type": None}
            with event.trigger_event("numba:compile", data=details):
                self._parts[given] = self._compiled_part(given)
        name = self.py_func.__name__
        known = [part.signature for part in self._parts.values()]
        return make_concrete_template(f"CallTemplate({name})", name, known), pysig, given, {}

    def get_overload(self, args: Any) -> Any:
        """The key of a part in numba's table of functions."""
        return self._parts[tuple(args)].entry_point

    def _compiled_part(self, args: tuple[Any, ...]) -> Any:
        flags = Flags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        flags.no_cpython_wrapper = flags.no_compile = True
        library = _Part(self.targetctx.codegen(), self.py_func.__qualname__)
        found = compile_extra(
            self.typingctx, self.targetctx, self.py_func, args, None, flags, {}, library
        )
        part = found._replace(entry_point=object())
        self.targetctx.insert_user_function(part.entry_point, part.fndesc, [library])
        return part


class _Part(JITCodeLibrary):  # type: ignore[misc]
    """Code that is only linked into that of its callers, which is optimised as a whole."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _OneFile(CompileResultCacheImpl):  # type: ignore[misc]
    """One index file for each kernel, which the next version replaces. numba names it by line.

    Code that checks its indices (NUMBA_BOUNDSCHECK) has a file of its own. In one file each kind
    would be taken for the other, and such a run would check nothing.
    """

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        checked = ".checked" if config.BOUNDSCHECK else ""
        return f"{fullname}.{sys.implementation.cache_tag}{abiflags}{checked}"

    def reduce(self, cres: Any) -> Any:
        """What is kept: without the copy of the code that numba would link into its callers.

        A kernel is a part of each of its callers, so the copy is never linked
        (docs/decisions/kernels.md#a-called-kernel-is-a-part-of-its-caller). numba reads only its
        names, and among them it looks for these two.
        """
        (name, kind, (code, _)), about, own, *rest, called = super().reduce(cres)
        names = about.llvm_func_name, about.llvm_cpython_wrapper_name
        copy = parse_assembly("\n".join(f'@"{each}" = global i32 0' for each in names))
        library = name, kind, (code, copy.as_bitcode())
        return library, about, _kept(own), *rest, list(map(_kept, called))

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """The inverse of `reduce`."""
        library, about, own, *rest, called = payload
        every = library, about, _environment(*own), *rest, [_environment(*one) for one in called]
        return super().rebuild(target_context, every)


def _kept(environment: Any) -> tuple[Any, ...]:
    """The constants of a function, of which its machine code raises errors, as plain values."""
    return environment.globals["__name__"], environment.consts, environment.env_name


def _environment(module: str, constants: list[Any], name: str) -> Any:
    """The inverse of `_kept`.

    numba would import the module of each function of its own that is a part of the code, such as
    `any` of an array, although only code with objects of Python reads the module.
    """
    found = lookup_environment(name)
    if found is None:
        loaded = sys.modules.get(module)
        found = Environment(vars(loaded) if loaded else {"__name__": module})
        found.consts[:], found.env_name = constants, name
        Environment._memo[name] = found
    return found


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """Machine code from the package, or that an earlier process has kept, or none yet."""

    _impl_class = _OneFile

    def __init__(self, function: Callable[..., Any], root: Path, stamp: str) -> None:
        super().__init__(function)
        base = self._impl.filename_base
        self._cache_file = KeptFiles(self.cache_path, base, stamp)
        self._bundle = bundle_of(root, Path(function.__code__.co_filename), base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load what was kept. numba would first load all that its compiler needs."""
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        if self._bundle is not None:
            data = self._bundle.load(self._index_key(sig, target_context.codegen()))
            if data is not None:
                return self._impl.rebuild(target_context, data)
        return super()._load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep it if that is possible; if not, the call for which it was made has it."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            warn_once(f"machine code cannot be kept ({error}): {WHERE}")


@cache
def warn_once(text: str) -> None:
    """Say why this process is silent for seconds, or slow.

    The warning names the user's line. With a line of this package it looks like a fault of it.
    """
    frame = sys._getframe()
    while _within(frame) and frame.f_back is not None:
        frame = frame.f_back
    place = frame.f_code.co_filename, frame.f_lineno
    warnings.warn_explicit(text, CompilationWarning, *place, _module(frame))


def _within(frame: FrameType) -> bool:
    """Whether the code is of these packages, of numba, or of an import."""
    return _module(frame).partition(".")[0] in WITHIN


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
