"""Names of a package that are loaded when they are used (PEP 562), so that importing it is cheap.

Rule: a command imports only what it uses. `__all__` lists the names, and type checkers read the
imports beside it. A name differs from those of the package's files: the import of a file would
replace it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy"]


def lazy(
    package: str, files: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package.

    Parameters
    ----------
    package
        Its name.
    files
        Module to the names that come from there; `NAME as OTHER` is called OTHER here.

    Examples
    --------
    >>> look, names = lazy("stream", {"stream.errors": ["StreamError"]})
    >>> look("StreamError").__module__, "StreamError" in names()
    ('stream.errors', True)
    """
    homes = {}
    for file, names in files.items():
        for there, _, here in (name.partition(" as ") for name in names):
            homes[here or there] = (file, there)

    def look(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        file, there = homes[name]
        found = getattr(import_module(file), there)
        setattr(sys.modules[package], name, found)  # found there from now on
        return found

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return look, listed
