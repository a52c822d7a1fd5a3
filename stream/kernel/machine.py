"""The names with which intrinsics write machine code, each loaded when it is used.

Rule: importing a kernel file loads no compiler. An intrinsic is written only where a kernel that
calls it is compiled.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__: list[str] = []

_FROM = {
    "ir": "llvmlite.ir",
    "types": "numba.core.types",
    "cgutils": "numba.core.cgutils",
}


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = import_module(_FROM[name])
    return found
