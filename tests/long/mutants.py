"""Each guard taken out, and its tests run: python -m tests.long.mutants [--only TEXT].

Prints guard and the test that caught it; 1 where one was not caught.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.faults.mutants import MUTANTS, Mutant
from tests.kafka.broker import running_broker
from tests.long.table import say

ROOT = Path(__file__).parents[2]
HANG = 90.0  # seconds after which a test that waits for ever has noticed, too


def main() -> int:
    """A copy of the tree, a mutant at a time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="guards with this in their name")
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if options.only in mutant.guard]
    missed = 0
    with running_broker() as bootstrap, tempfile.TemporaryDirectory() as directory:
        tree = Path(directory) / "tree"
        for part in ("consumers", "stream", "tests", "pyproject.toml"):
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            tree.mkdir(exist_ok=True)
            copy(ROOT / part, tree / part)
        every = sorted({test for mutant in chosen for test in mutant.tests})
        whole = _tested(tree, bootstrap, every, seconds=600)
        if whole is not None:
            say(f"without a mutant these fail already: {whole}")
            return 1
        for mutant in chosen:
            caught = _caught(tree, mutant, bootstrap)
            missed += caught is None
            sys.stdout.write(f"| {mutant.guard} | {caught or '**nothing**'} |\n")
            sys.stdout.flush()
    return int(missed > 0)


def _caught(tree: Path, mutant: Mutant, bootstrap: str) -> str | None:
    path = tree / mutant.path
    source = path.read_text()
    assert source.count(mutant.old) == 1, f"{mutant.guard}: the piece is not there once"
    path.write_text(source.replace(mutant.old, mutant.new))
    try:
        return _tested(tree, bootstrap, mutant.tests, seconds=HANG)
    finally:
        path.write_text(source)


def _tested(tree: Path, bootstrap: str, tests: tuple[str, ...] | list[str], seconds: float):
    """The first test that fails there; None where all pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",  # a mutant has the size and second of the original
        "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
    }
    try:
        ended = subprocess.run(
            command,
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return f"{tests[0].split('::')[1]} (it hangs)"
    if ended.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) \S+::(\S+)", ended.stdout, re.MULTILINE)
    assert ended.returncode == 1, f"{failed}: pytest could not run: {ended.stdout[-2000:]}"
    assert failed, ended.stdout[-2000:]
    return failed[1]


if __name__ == "__main__":
    sys.exit(main())
