"""The files that the rules look at. Each is read once, and parsed and walked at most once."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

__all__ = [
    "PACKAGES",
    "ROOT",
    "Finding",
    "Rules",
    "Source",
    "called",
    "dotted",
    "pages",
    "product",
    "source",
    "under",
]

ROOT = Path(__file__).parents[2]
PACKAGES = ("stream", "consumers", "headwater")  # each may import those before it


class Finding(NamedTuple):
    """One line of the step: where, what is wrong, and what to do."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {' '.join(self.text.split())}"


# Each rule, and what gives it all that it looks at.
Rules = Mapping[Callable[..., Iterable[Finding]], Callable[[], Any]]


class Source:
    """A file of the tree, by its path from there."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.parts = Path(path).with_suffix("").parts

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed file."""
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> dict[type[ast.AST], list[Any]]:
        """All nodes of the tree by their kind, in the order of `ast.walk`."""
        found: dict[type[ast.AST], list[Any]] = {}
        for node in ast.walk(self.tree):
            found.setdefault(type(node), []).append(node)
        return found

    def all(self, *kinds: type[ast.AST]) -> list[Any]:
        """The nodes of these kinds."""
        return [node for kind in kinds for node in self.nodes.get(kind, [])]

    @cached_property
    def imports(self) -> list[tuple[int, str]]:
        """Line and dotted name of everything imported, wherever in the file it stands."""
        out = [(n.lineno, alias.name) for n in self.all(ast.Import) for alias in n.names]
        for node in self.all(ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            out += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
        return out

    def at(self, position: int) -> int:
        """The line of a position in the text."""
        return self.text.count("\n", 0, position) + 1

    def line_of(self, piece: str) -> int:
        """The first line of a piece of the text; the first of the file if it is not there."""
        return self.at(max(0, self.text.find(piece)))

    def finding(self, line: int, text: str) -> Finding:
        """A finding in this file."""
        return Finding(self.path, line, text)


@cache
def source(path: str) -> Source:
    """The file of the tree at this path."""
    return Source(path, (ROOT / path).read_text(encoding="utf-8"))


def under(pattern: str, *folders: str) -> list[Source]:
    """The files of these folders and those in them, by a pattern of their names."""
    found = (path for folder in folders for path in (ROOT / folder).rglob(pattern))
    return [source(str(path.relative_to(ROOT))) for path in sorted(found)]


@cache
def product() -> list[Source]:
    """All Python of the packages."""
    return under("*.py", *PACKAGES)


@cache
def pages() -> list[Source]:
    """The README and the documentation."""
    return [source("README.md"), *under("*.md", "docs")]


def dotted(node: ast.expr) -> str:
    """`a.b.c` of a name or attribute, "" of anything else."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def called(file: Source, function: str) -> Iterator[ast.Call]:
    """The calls of a function in a file."""
    return (call for call in file.all(ast.Call) if dotted(call.func) == function)
