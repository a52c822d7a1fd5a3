"""The oldest and the newest set of dependencies: python -m tests.long.dependencies [TESTS …].

For each Python from 3.11 on that this machine has, and for each set, an empty environment: the
project is installed with every dependency at its floor (or at the newest that its caps allow), and
the tests named (by default all that need no broker and no browser) run there. A floor that does not
resolve, or with which a test fails, is no floor.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
TESTS = ("tests/stream", "tests/consumers", "tests/config", "tests/commands", "tests/telemetry")
FLOOR = re.compile(r"^([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+)")
SHOWN = ("numpy", "scipy", "numba", "river", "kafka-python", "pydantic", "starlette", "uvicorn")

EXTRAS = "test,test-browser,test-kubernetes,test-polars,spark"


def main() -> int:
    """Run every set on every Python; 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", nargs="*", default=TESTS)
    parser.add_argument("--set", choices=("oldest", "newest"), help="Only this one.")
    parser.add_argument("--python", action="append", help="A path; several times for several.")
    options = parser.parse_args()
    failed = 0
    for python in options.python or PYTHONS:
        if not _there(python):
            _say(f"{python}: not on this machine")
            continue
        for name in (options.set,) if options.set else ("oldest", "newest"):
            failed += not _passes(python, name, options.tests)
    return min(failed, 1)


def _there(python: str) -> bool:
    """Whether it runs: what is on the path may be a shim of something that is not installed."""
    if shutil.which(python) is None:
        return False
    return subprocess.run([python, "--version"], capture_output=True).returncode == 0


def floors() -> list[str]:
    """Constraints that put each runtime dependency at its floor."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    given = [
        *project["dependencies"],
        *(r for e, rs in extras.items() if e[:4] != "test" for r in rs),
    ]
    found = [FLOOR.match(requirement) for requirement in given]
    return [f"{match[1]}=={match[2]}" for match in found if match is not None]


def _passes(python: str, name: str, tests: list[str]) -> bool:
    with tempfile.TemporaryDirectory() as home:
        own = f"{home}/bin/python"
        constraints = Path(home, "constraints.txt")
        subprocess.run([python, "-m", "venv", home], check=True)
        constraints.write_text("\n".join(floors() if name == "oldest" else []))
        install = [own, "-m", "pip", "install", "--quiet", "--upgrade", "-c", str(constraints)]
        _say(f"{python}, {name}: installing")
        if subprocess.run([*install, "-e", f".[{EXTRAS}]"], cwd=ROOT).returncode:
            _say(f"{python}, {name}: DOES NOT INSTALL")
            return False
        listed = subprocess.run(
            [own, "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True
        ).stdout.splitlines()
        _say(", ".join(line for line in listed if line.partition("==")[0] in SHOWN))
        command = [own, "-m", "pytest", "-q", "-n", "2", "--dist", "loadscope", "-m", "not kafka"]
        ended = subprocess.run([*command, *tests], cwd=ROOT, capture_output=True, text=True)
        last = "\n".join(ended.stdout.splitlines()[-20 if ended.returncode else -1 :])
        _say(f"{python}, {name}: {last}")
        return ended.returncode == 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
