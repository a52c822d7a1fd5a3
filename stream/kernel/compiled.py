"""kernel: compile a function with numba, and keep its machine code on disk.

Rule: numba alone compares a kernel on disk with the file of the kernel. It misses a change of a
function in another file that the kernel calls, and it fails if a class that the kernel takes was
renamed. Here all kernels of a package are compared with the content of all its kernel
files, so that kernels may share functions (decision 0055).
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

__all__ = ["kernel"]


def kernel(function: Callable[..., Any]) -> Any:
    """Decorator: the function, compiled when it is first called with arguments of given types."""
    dispatcher = njit(function)
    dispatcher._cache = _KernelCache(function)
    return dispatcher


@cache
def _stamp(package: str) -> str:
    """The content of all kernel files of a top-level package, as a hash."""
    root = Path(next(iter(sys.modules[package].__path__)))
    files = (path for path in root.rglob("*.py") if "_kernels" in path.with_suffix("").parts)
    content = sha256()
    for path in sorted(files):
        content.update(sha256(path.read_bytes()).digest())
    return content.hexdigest()


class _OneFile(CompileResultCacheImpl):  # type: ignore[misc]
    """One index file for each kernel, which the next version replaces. numba names it by line."""

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return f"{fullname}.{sys.implementation.cache_tag}{abiflags}"


class _Index(IndexDataCacheFile):  # type: ignore[misc]
    """An index whose stamp is read when it is first needed, not on import."""

    _package = ""

    @property
    def _source_stamp(self) -> str:
        return _stamp(self._package)

    @_source_stamp.setter
    def _source_stamp(self, package: str) -> None:
        self._package = package

    def _load_index(self) -> dict[Any, str]:
        try:
            loaded: dict[Any, str] = super()._load_index()
        except Exception:
            return {}
        return loaded


class _KernelCache(FunctionCache):  # type: ignore[misc]
    _impl_class = _OneFile

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        package = function.__module__.partition(".")[0]
        self._cache_file = _Index(self.cache_path, self._impl.filename_base, package)
