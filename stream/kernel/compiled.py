"""kernel: compile a function with numba, and keep its machine code on disk.

Rule: numba alone compares a kernel on disk with the file of the kernel. It misses a change of a
function in another file that the kernel calls, and it fails if a class that the kernel takes was
renamed. Here each kernel is compared with the content of all kernel files of its top-level package
(`_kernels.py`, or in a folder `_kernels`), so that kernels may share functions (decision 0055).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile

__all__ = ["inlined", "kernel"]


def kernel(function: Callable[..., Any]) -> Any:
    """Decorator of functions in kernel files: compile for the types of the arguments of a call.

    Code is kept on disk if the kernel files can be read, which those in a zip cannot.
    """
    dispatcher = njit(function)
    stamp = _stamp(function.__module__.partition(".")[0])
    if stamp is not None:
        dispatcher._cache = _KernelCache(function, stamp)
    return dispatcher


def inlined(function: Callable[..., Any]) -> Any:
    """Decorator of functions in kernel files that kernels take in whole instead of calling them.

    It saves the counting of references to arrays, which may cost more than a short function. It
    cannot be called with `*` arguments.
    """
    return njit(function, inline="always")


@cache
def _stamp(package: str) -> str | None:
    """The content of all kernel files of a top-level package, as a hash; None without such files.

    It is read on import: at the first call the files may be those of a newer version.
    """
    root = Path(next(iter(sys.modules[package].__path__)))
    files = (path for path in root.rglob("*.py") if "_kernels" in path.with_suffix("").parts)
    hashes = [sha256(path.read_bytes()).digest() for path in sorted(files)]
    return sha256(b"".join(hashes)).hexdigest() if hashes else None


class _OneFile(CompileResultCacheImpl):  # type: ignore[misc]
    """One index file for each kernel, which the next version replaces. numba names it by line."""

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return f"{fullname}.{sys.implementation.cache_tag}{abiflags}"


class _Index(IndexDataCacheFile):  # type: ignore[misc]
    """Files of the cache. If they cannot be read, the kernel is compiled again."""

    def _load_index(self) -> dict[Any, str]:
        try:
            loaded: dict[Any, str] = super()._load_index()
        except Exception:
            return {}
        return loaded

    def load(self, key: Any) -> Any:
        try:
            return super().load(key)
        except Exception:
            return None


class _KernelCache(FunctionCache):  # type: ignore[misc]
    _impl_class = _OneFile

    def __init__(self, function: Callable[..., Any], stamp: str) -> None:
        super().__init__(function)
        self._cache_file = _Index(self.cache_path, self._impl.filename_base, stamp)
