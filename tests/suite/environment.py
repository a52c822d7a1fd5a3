"""The environment of the tests, `.venv`: run by any Python from 3.11 on, before anything is there.

Rule: only what runs is installed. The heavy packages are extras of their own, and `needs.py`
says whose tests run.
"""

from __future__ import annotations

import subprocess
import sys
import venv

from tests.suite.steps import ROOT, forget, step

__all__ = ["PYTHON", "install"]

FOLDER = ROOT / ".venv"
PYTHON = FOLDER / "bin" / "python"


def install(*extras: str, again: bool = False) -> None:
    """The project as it stands here, with these extras; again, if one of them is gone."""
    name = "-".join(["environment", *extras])
    if again:
        forget(name)
    # The folder counts, because `headwater` of a clone that was moved or copied is that of the old.
    inputs = [ROOT / "pyproject.toml", sys.version, str(ROOT)]
    step(name, inputs, lambda: _install(f".[{','.join(extras)}]"))


def _install(what: str) -> None:
    if not _has_pip():
        _make()
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    uv = FOLDER / "bin" / "uv"
    # uv downloads side by side and compiles no bytecode, which is most of what pip does here. It
    # does not read pip's settings, so where only those know the way, pip installs all.
    if not uv.exists():
        subprocess.run([*pip, "uv"], cwd=ROOT, check=False)
    chosen = [str(uv), "pip", "install", "--quiet", f"--python={PYTHON}", "-e", what]
    if uv.exists() and subprocess.run(chosen, cwd=ROOT, check=False).returncode == 0:
        return
    if subprocess.run([*pip, "--no-compile", "-e", what], cwd=ROOT, check=False).returncode:
        sys.exit("tests/run: the environment could not be installed; the lines above say why")


def _has_pip() -> bool:
    """Whether the environment is whole; one that was interrupted while it was made is not."""
    asked = [str(PYTHON), "-m", "pip", "--version"]
    try:
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _make() -> None:
    """Make it, or mend it. Without a Python that starts, nothing of the old one is of use."""
    try:
        venv.create(FOLDER, with_pip=True, clear=not PYTHON.exists())
    except subprocess.CalledProcessError:
        sys.exit(
            f"tests/run: {sys.executable} cannot make an environment with pip; install its venv "
            "(on Debian, apt-get install python3-venv), or put another Python first in PATH"
        )


if __name__ == "__main__":
    install("test")
