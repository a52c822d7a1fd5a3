"""Machine code that an installed package brings, so that its users compile nothing.

Rule: numba's own processor stays as it is. Code for a *level* of x86-64 runs in every process whose
processor has that level, so it is found by the level and not by numba's name of this processor
(docs/decisions/kernels.md#wheels-have-machine-code). Code of another source, and for another numba
or Python, is not used.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

__all__ = ["FOLDER", "LEVELS", "bundle_of", "collect", "source_stamp", "unused"]

FOLDER = "machine_code"  # in a top-level package
MAKERS = ("compiled.py", "tiers.py")  # with numba's options; it compares none of them
MADE = "made.json"  # in it: for which numba and Python
# The newest one first, with what it has and "generic" has not, by LLVM's names.
LEVELS = {
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
    "generic": (),
}


class Bundle:
    """The machine code of one kernel, for each level and each types of arguments.

    Parameters
    ----------
    folder
        Where its files are.
    base
        The name of the files, without their endings.
    stamp
        The source of all kernels, as a hash. Code of another source is not used.
    """

    def __init__(self, folder: Path, base: str, stamp: str) -> None:
        from stream.kernel.kept import KeptFiles  # the stamp is read without numba

        self._files = KeptFiles(str(folder), base, stamp)

    def load(self, key: tuple[Any, ...]) -> Any:
        """What numba kept of the kernel, for the newest level of this processor; None without it.

        Parameters
        ----------
        key
            That of numba: signature, (triple, processor, features), bytecode.
        """
        signature, (triple, *_), code = key
        kept = (self._files.load((signature, triple, level, code)) for level in _levels())
        return next((data for data in kept if data is not None), None)

    def add(self, key: tuple[Any, ...], data: Any) -> None:
        """Keep what numba has compiled for a level."""
        signature, (triple, level, _), code = key
        self._files.save((signature, triple, level, code), data)


def bundle_of(root: Path, file: Path, base: str, stamp: str) -> Bundle | None:
    """What the package in `root` brings for a kernel in `file`; None if that cannot be used."""
    if _made(root) != _needed():
        return None
    return Bundle(root / FOLDER / file.parent.relative_to(root), base, stamp)


def unused(root: Path) -> str:
    """Why the machine code in a package cannot be used; empty if it can, or without any."""
    made, needed = _made(root), _needed()
    other = [f"{what} {made.get(what)}, not {now}" for what, now in needed.items()]
    if not made or made == needed:
        return ""
    return f"the machine code of this package is for {' and '.join(other)}"


def collect(root: Path) -> int:
    """Put the machine code that numba has kept beside the kernels of a package into its bundle.

    They were compiled with NUMBA_CPU_NAME set to a level, and NUMBA_CPU_FEATURES empty.

    Returns
    -------
    int
        The number of kernels.
    """
    from stream.kernel.kept import KeptFiles

    stamp = source_stamp(root)
    indexes = sorted(root.rglob("__pycache__/*.nbi"))
    for index in indexes:
        folder = root / FOLDER / index.parent.parent.relative_to(root)
        folder.mkdir(parents=True, exist_ok=True)
        kept = KeptFiles(str(index.parent), index.stem, stamp)
        bundle = Bundle(folder, index.stem, stamp or "")
        for key in kept.known():
            bundle.add(key, kept.load(key))
    (root / FOLDER / MADE).write_text(json.dumps(_needed()) + "\n")
    return len(indexes)


def source_stamp(root: Path) -> str | None:
    """The content of all kernel files of a package, and of what compiles them, as a hash.

    None without such files.
    """
    files = (path for path in root.rglob("*.py") if "_kernels" in path.with_suffix("").parts)
    hashes = [sha256(path.read_bytes()).digest() for path in sorted(files)]
    return sha256(b"".join([*hashes, _makers()])).hexdigest() if hashes else None


@cache
def _makers() -> bytes:
    """The content of what compiles kernels, also where this package is in a zip, as a hash."""
    loader: Any = __spec__.loader
    contents = [loader.get_data(str(Path(__file__).with_name(name))) for name in MAKERS]
    return sha256(b"".join(contents)).digest()


@cache
def _needed() -> dict[str, str]:
    """For what machine code must be made to be used by this process."""
    from importlib.metadata import version  # only a wheel asks for it

    return {"numba": version("numba"), "python": sys.implementation.cache_tag}


@cache
def _made(root: Path) -> dict[str, str]:
    """For what the machine code in a package was made; empty without any."""
    try:
        found = json.loads((root / FOLDER / MADE).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


@cache
def _levels() -> tuple[str, ...]:
    """The levels that this processor has, the newest one first."""
    from llvmlite import binding

    has = binding.get_host_cpu_features()
    return tuple(name for name, flags in LEVELS.items() if all(has.get(flag) for flag in flags))
