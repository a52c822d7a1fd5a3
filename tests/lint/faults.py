"""The faults that tests make are in the code: a guard or a point that moved is not skipped."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache

from tests.faults.mutants import MUTANTS, Mutant
from tests.lint.sources import ROOT, Finding, Rules, Source, source, under

__all__ = ["RULES", "files"]

LIST = "tests/faults/mutants.py"
POINTS = "consumers/base/failpoints.py"


@cache
def service() -> list[Source]:
    """All Python of the service."""
    return under("*.py", "consumers")


@cache
def runs() -> list[Source]:
    """All Python that names tests to run."""
    return under("*.py", "tests/faults", "tests/long")


def files() -> list[str]:
    """The list of mutants and what else names tests, and the code with the points."""
    return [file.path for file in (*runs(), *service())]


def guards(mutants: Sequence[Mutant]) -> Iterator[Finding]:
    """Each guard is in the code once, and the tests that must notice its absence exist."""
    for mutant in mutants:
        line = source(LIST).line_of(f'"{mutant.guard}"')
        found = source(mutant.path).text.count(mutant.old) if exists(mutant.path) else 0
        if found != 1:
            text = f"{mutant.guard!r}: what it replaces is in {mutant.path} {found} times, not once"
            yield Finding(LIST, line, f"{text}; write the piece as it is there")
        for test in mutant.tests:
            path, name = test.split("::")
            wanted = f"def {name.split('[')[0]}("
            if not exists(path) or wanted not in source(path).text:
                text = f"{mutant.guard!r}: there is no test {test}; name one that fails without it"
                yield Finding(LIST, line, text)


def exists(path: str) -> bool:
    """Whether the tree has this file."""
    return (ROOT / path).is_file()


def points(sources: Sequence[Source]) -> Iterator[Finding]:
    """Every failpoint is reached at one place: one that nobody calls would be survived always."""
    (table,) = (file for file in sources if file.path == POINTS)
    (named,) = (n for n in table.all(ast.Assign) if ast.unparse(n.targets[0]) == "POINTS")
    unreached = {point.value: point.lineno for point in named.value.elts}
    for file in sources:
        for found in re.finditer(r'\breach\("(\w+)"\)', file.text) if file is not table else ():
            if unreached.pop(found[1], None) is None:
                text = f"{found[1]!r} is no failpoint, or reached elsewhere too"
                yield file.finding(file.at(found.start()), f"{text}; name a new one in {POINTS}")
    for point, line in unreached.items():
        yield table.finding(line, f"nothing reaches the failpoint {point!r}; remove it")


def suites(sources: Sequence[Source]) -> Iterator[Finding]:
    """Every file and folder of tests that a run names is there: without one, pytest runs none."""
    for file in sources:
        for node in file.all(ast.Constant):
            named = node.value if isinstance(node.value, str) else ""
            if re.fullmatch(r"tests/[\w./]+", named) and not (ROOT / named).exists():
                yield file.finding(node.lineno, f"there is no {named}; name what it is called now")


RULES: Rules = {guards: lambda: MUTANTS, points: service, suites: runs}
