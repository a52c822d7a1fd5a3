"""All tests of the learners with every index of a kernel checked: `python -m tests.long.bounds`.

A compiled kernel that reads or writes outside an array usually goes unnoticed, and sometimes ends
the process. Here the kernels are compiled once more, with numba's bounds checks, in a copy of the
project, because the cache of kernels does not tell the two apart. Arguments go to pytest. Ends with
pytest's exit code; about 10 minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import copytree, ignore_patterns

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("HEADWATER_SHARED", ROOT.parent / "shared")).resolve()


def main(arguments: list[str]) -> int:
    """Copy, compile and test."""
    with tempfile.TemporaryDirectory(prefix="headwater-bounds-") as directory:
        copy = Path(directory) / "headwater"
        copytree(ROOT, copy, ignore=ignore_patterns(".*", "__pycache__", "build"))
        checked = os.environ | {"NUMBA_BOUNDSCHECK": "1", "HEADWATER_SHARED": str(SHARED)}
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
        return subprocess.run(
            [*command, *(arguments or ["tests/stream"])], cwd=copy, env=checked, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
