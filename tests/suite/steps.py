"""A step of `tests/run` is left out while its inputs are those of its last success."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

__all__ = ["ROOT", "forget", "step", "tracked"]

ROOT = Path(__file__).parents[2]
DONE = ROOT / ".venv" / "steps"  # gone with the environment


def step(name: str, inputs: Iterable[Path | str], work: Callable[[], None]) -> None:
    """Do the work, unless it succeeded with the same inputs before; say which.

    Parameters
    ----------
    name
        Of the step, as a file name.
    inputs
        Files, of which the content counts, and texts, such as a version.
    work
        Raises an exception, `SystemExit` for one line, where it fails. The step is then done again.
    """
    stamp = _hash(inputs)
    done = DONE / name
    if done.exists() and done.read_text() == stamp:
        print(f"== {name}: unchanged", flush=True)  # noqa: T201
        return
    began = time.monotonic()
    work()
    done.parent.mkdir(parents=True, exist_ok=True)
    done.write_text(stamp)
    print(f"== {name}: {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201


def forget(name: str) -> None:
    """Have a step done again, because what it made is gone."""
    (DONE / name).unlink(missing_ok=True)


def tracked(*folders: str, suffix: str = "") -> list[Path]:
    """The files of these folders of the project that git knows or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *folders]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        sys.exit(f"tests/run: git cannot list the files here: {listed.stderr.strip()}")
    paths = (ROOT / name for name in listed.stdout.split("\0") if name.endswith(suffix) and name)
    return sorted({path for path in paths if path.is_file()})


def _hash(inputs: Iterable[Path | str]) -> str:
    total = hashlib.sha256()
    for one in inputs:
        content = one.read_bytes() if isinstance(one, Path) else b""
        name = str(one.relative_to(ROOT)) if isinstance(one, Path) else one
        total.update(f"{len(name)} {name} {len(content)}\n".encode() + content)
    return total.hexdigest()
