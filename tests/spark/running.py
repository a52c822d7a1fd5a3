"""The processes of a Spark cluster on this machine."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

__all__ = ["executors_with_tasks"]


def _session(process: subprocess.Popen[str]) -> list[tuple[int, int, str]]:
    """Number, parent and command of every process of its session."""
    out = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            rest = (path / "stat").read_text().rpartition(")")[2].split()
            if int(rest[3]) == process.pid:
                line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                out.append((int(path.name), int(rest[1]), line))
    return out


def executors_with_tasks(process: subprocess.Popen[str]) -> list[int]:
    """The executors whose Python processes have begun."""
    found = _session(process)
    python = {parent for _, parent, line in found if "pyspark.daemon" in line}
    return [pid for pid, _, line in found if "CoarseGrainedExecutor" in line and pid in python]
