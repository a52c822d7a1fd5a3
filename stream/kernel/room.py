"""The memory and the processors that this process may still use, by the machine and its cgroups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["free_bytes", "processors"]

ROOT = Path("/sys/fs/cgroup")


def free_bytes() -> int | None:
    """Bytes of memory; None where the system does not report them."""
    try:
        free = [_number("/proc/meminfo", "MemAvailable") * 1024]
    except (OSError, ValueError):
        return None
    for old, group in _groups("memory"):
        names = ("memory.max", "memory.current")
        if old:
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        with suppress(OSError, ValueError):  # "max": no limit
            most, used = (int((group / name).read_text()) for name in names)
            cached = _number(str(group / "memory.stat"), "inactive_file")
            free.append(most - used + cached)
    return min(free)


def processors() -> float:
    """Processors, by the affinity of this process and the limits of its cgroups."""
    has_affinity = hasattr(os, "sched_getaffinity")
    found = [float(len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1)]
    for old, group in _groups("cpu"):
        with suppress(OSError, ValueError):  # "max", or -1: no limit
            if old:
                names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
                most, period = (int((group / name).read_text()) for name in names)
            else:
                most, period = map(int, (group / "cpu.max").read_text().split())
            found += [most / period] if most > 0 else []
    return min(found)


def _groups(kind: str) -> Iterator[tuple[bool, Path]]:
    """The cgroups of this process that limit this; whether they are of the first version."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds and kind not in kinds.split(","):
            continue
        home = ROOT / (kind if kinds else "")
        for group in (home, *[home / p for p in _prefixes(path)]):
            yield bool(kinds), group


def _prefixes(path: str) -> list[str]:
    """`a`, `a/b`, `a/b/c` for the path `/a/b/c`."""
    parts = [part for part in path.split("/") if part]
    return ["/".join(parts[: i + 1]) for i in range(len(parts))]


def _number(path: str, name: str) -> int:
    """The number after a name in a file of the kernel."""
    for line in Path(path).read_text().splitlines():
        words = line.replace(":", " ").split()
        if words and words[0] == name:
            return int(words[1])
    raise ValueError(name)
