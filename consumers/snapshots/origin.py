"""The programs and the processor that made a snapshot. The last bits of a replay depend on them.

A state is exact wherever it is loaded. What is learned after it runs in compiled kernels, and
another compiler or processor may round a sum differently.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import version

from consumers.snapshots.format import SnapshotInfo

__all__ = ["cpu", "difference", "newer", "versions"]

_PROGRAMS = ("headwater", "numpy", "numba", "llvmlite", "river")


@cache
def versions() -> dict[str, str]:
    """The programs that affect what a record changes in a state."""
    return {name: version(name) for name in _PROGRAMS}


@cache
def cpu() -> dict[str, str]:
    """The processor for which kernels are compiled: the host's, or NUMBA_CPU_NAME."""
    from llvmlite import binding
    from numba.core import config as numba_config

    # If a CPU name is set, numba takes the features from NUMBA_CPU_FEATURES only.
    if numba_config.CPU_NAME:
        named, features = numba_config.CPU_NAME, numba_config.CPU_FEATURES or ""
    else:
        named = binding.get_host_cpu_name()
        features = numba_config.CPU_FEATURES or binding.get_host_cpu_features().flatten()
    on = sorted(part for part in features.split(",") if part.startswith("+"))
    return {"name": named, "features": ",".join(on)}


def difference(about: SnapshotInfo) -> str | None:
    """Versions and processor that differ from those here, in one line; None if none differ.

    Examples
    --------
    >>> from consumers.journal.records import IdentityRecord
    >>> entry = IdentityRecord("shop", 0, {}, [], [], "", {}, {})
    >>> about = SnapshotInfo("shop", 0, 9, 8, 0, "", versions(), entry, cpu=cpu())
    >>> difference(about) is None
    True
    >>> import msgspec
    >>> difference(msgspec.structs.replace(about, versions={**versions(), "numba": "0.1"}))[:12]
    'numba 0.1 (n'
    """
    here = versions()
    lines = [
        f"{name} {was} (now {here.get(name, 'unknown')})"
        for name, was in sorted(about.versions.items())
        if here.get(name) != was
    ]
    if about.cpu and about.cpu != cpu():
        was, now = about.cpu.get("name", "unknown"), cpu()["name"]
        same = " with other features" if was == now else ""
        lines.append(f"a processor {was}{same} (now {now})")
    return ", ".join(lines) or None


def newer(about: SnapshotInfo) -> str | None:
    """Why a newer version of this program made the snapshot; None if none did.

    A newer version may save more, of which this one would take a part for the whole.

    Examples
    --------
    >>> from consumers.journal.records import IdentityRecord
    >>> entry = IdentityRecord("shop", 0, {}, [], [], "", {}, {})
    >>> about = SnapshotInfo("shop", 0, 9, 8, 0, "", {"headwater": "99.1.0"}, entry)
    >>> newer(about)[:31]
    'of a newer version: headwater 9'
    >>> import msgspec
    >>> newer(msgspec.structs.replace(about, versions=versions())) is None
    True
    """
    was, here = about.versions.get("headwater", ""), versions()["headwater"]
    if _release(was) <= _release(here):
        return None
    return f"of a newer version: headwater {was} (now {here})"


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a version, as far as they go."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()
