"""The environment of the tests, `.venv`: run by any Python from 3.11 on, before anything is there.

Rule: only what runs is installed. The heavy packages are extras of their own, and `needs.py`
says whose tests run.
"""

from __future__ import annotations

import subprocess
import sys
import venv

from tests.suite.steps import ROOT, step

__all__ = ["PYTHON", "install"]

FOLDER = ROOT / ".venv"
PYTHON = FOLDER / "bin" / "python"


def install(*extras: str) -> None:
    """The project as it stands here, with these extras."""
    step(
        "-".join(["environment", *extras]),
        [ROOT / "pyproject.toml", sys.version],
        lambda: _install(f".[{','.join(extras)}]"),
    )


def _install(what: str) -> None:
    if not PYTHON.exists():
        venv.create(FOLDER, with_pip=True)
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


if __name__ == "__main__":
    install("test")
