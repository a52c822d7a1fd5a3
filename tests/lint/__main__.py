"""Look at all files and pages: `python -m tests.lint [SUBJECT...]`.

It prints a line for each finding, `path:line: what is wrong and what to do`, in the order of files
and lines, and exits with 1 if there is one. mypy, ruff and codespell run beside the other rules.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

from tests.lint.sources import Finding

# mypy takes longest, so it is started first.
PROGRAMS = ("types", "style", "spelling")
OURS = ("architecture", "purity", "prose", "docs", "generated", "faults")


def look(subjects: Sequence[str]) -> tuple[set[str], list[Finding]]:
    """The files of these subjects, and the findings in them."""
    files: set[str] = set()
    findings: list[Finding] = []
    for subject in subjects:
        module = import_module(f"tests.lint.{subject}")
        files |= set(module.files())
        for rule, given in module.RULES.items():
            findings += rule(given())
    return files, findings


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the findings of these subjects, or of all; the exit code."""
    everything = (*PROGRAMS, *OURS)
    parser = argparse.ArgumentParser(prog="python -m tests.lint")
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=", ".join(everything))
    asked = parser.parse_args(arguments).subjects
    if unknown := sorted({*asked} - {*everything}):
        parser.error(f"no subject {', '.join(unknown)}; write some of: {', '.join(everything)}")
    chosen = asked or everything
    gc.disable()  # what is read and parsed stays
    ours = [subject for subject in OURS if subject in chosen]
    lanes = [*([subject] for subject in PROGRAMS if subject in chosen), ours]
    with ThreadPoolExecutor(len(lanes)) as pool:
        running = [pool.submit(look, lane) for lane in lanes]
    # A subject that cannot run hides no finding of the others.
    done = [lane.result() for lane in running if not lane.exception()]
    files = set().union(*(files for files, _ in done))
    findings = sorted({finding for _, found in done for finding in found})
    lines = [*map(str, findings), f"{len(files)} files, {len(findings)} findings"]
    sys.stdout.write("\n".join(lines) + "\n")
    for lane in running:
        lane.result()
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
