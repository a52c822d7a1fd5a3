"""What an extra of headwater needs, as a command that works in any folder.

Rule: no message names headwater itself to pip, because its name is on no registry. The packages of
an extra are in the metadata of the installation, as pyproject.toml declares them.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

__all__ = ["install"]


def install(extra: str) -> str:
    """The command that installs the packages of an extra for this Python.

    Examples
    --------
    >>> install("remote").partition("pip ")[2]
    "install 'fsspec>=2024.6'"
    """
    return f"{_pip()} install {_packages(extra)}"


def _packages(extra: str) -> str:
    """The packages of an extra as arguments; those of a clone if headwater is not installed."""
    from importlib.metadata import PackageNotFoundError, requires  # with the modules of email

    try:
        declared = requires("headwater") or []
    except PackageNotFoundError:
        return shlex.quote(f".[{extra}]")
    halves = (each.partition(";") for each in declared)
    named = (f"extra == '{extra}'", f'extra == "{extra}"')
    return " ".join(shlex.quote(of.strip()) for of, _, when in halves if when.strip() in named)


def _pip() -> str:
    """`pip` where that is the one of this Python; else this Python's, by its path."""
    found = shutil.which("pip")
    if found is not None and Path(found).parent == Path(sys.executable).parent:
        return "pip"
    return f"{shlex.quote(sys.executable)} -m pip"
