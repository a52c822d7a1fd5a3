"""Which test files belong to a room of the product: those in its folder, and those that import it.

A file of tests belongs to a room if its folder has the room's name, with or without the package
(`tests/stream/bayes`, `tests/web`), or if it imports a module of the room, directly or from the
`__init__` of a package. A room without a folder of tests has that of the room around it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

__all__ = ["RoomTests", "tests_in"]

PACKAGES = ("stream", "consumers", "headwater")
# Style, documents and long runs: they have other steps, and read the source instead of running it.
NO_ROOM = ("tests/long/", "tests/faults/", "tests/docker/", "tests/recorded/", "tests/lint/")
NO_ROOM += ("tests/suite/",)
BROKERS = ("tests/kafka/", "tests/spark/", "tests/web/test_browser.py")
BROKERS += ("tests/web/test_report_browser.py",)


@dataclass(frozen=True)
class RoomTests:
    """The test files of a tree.

    Parameters
    ----------
    tree
        The folder of the product and of the tests.
    brokers
        Whether tests that start a broker, a browser or Spark belong to a room, too.
    """

    tree: Path
    brokers: bool = False
    _imports: dict[str, set[str]] = field(default_factory=dict)

    def files(self) -> dict[str, set[str]]:
        """Each file of tests to the modules of the product that it imports."""
        if not self._imports:
            for path in sorted((self.tree / "tests").rglob("test_*.py")):
                name = str(path.relative_to(self.tree))
                left_out = NO_ROOM if self.brokers else (*NO_ROOM, *BROKERS)
                if path.parent != self.tree / "tests" and not name.startswith(left_out):
                    self._imports[name] = self._imported(path)
        return self._imports

    def of(self, room: str, path: str) -> dict[str, int]:
        """The files for a mutation in a file of a room, with how far they are from it: 0 in its
        folder, 1 if they import the file, 2 if they import the room."""
        found = {}
        folders = self._folders(room)
        module = _module(path)
        for name, imported in self.files().items():
            if str(Path(name).parent) in folders:
                found[name] = 0
            elif module in imported:
                found[name] = 1
            elif any(_room(each, self.tree) == room for each in imported):
                found[name] = 2
        if ">>> " in (self.tree / path).read_text():
            found[path] = 0
        return found

    def _folders(self, room: str) -> set[str]:
        parts = Path(room).parts
        while len(parts) > 1:
            inner = "/".join(parts[1:])
            names = {f"tests/{'/'.join(parts)}", f"tests/{inner}", f"tests/{parts[-1]}"}
            names &= {str(Path(name).parent) for name in self.files()}
            if names:
                return names
            parts = parts[:-1]
        return set()

    def _imported(self, path: Path) -> set[str]:
        found = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    found.add(self._defining(node.module, alias.name))
        return {name for name in found if name.split(".")[0] in PACKAGES}

    def _defining(self, module: str, name: str) -> str:
        """The module that a name comes from."""
        inner = f"{module}.{name}"
        if module.split(".")[0] not in PACKAGES:
            return module
        if _path(inner, self.tree):
            return inner
        return _exports(module, self.tree).get(name, module)


def _module(path: str) -> str:
    return ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")


@cache
def _path(module: str, tree: Path) -> Path | None:
    """The file of a module of the product."""
    stem = tree / module.replace(".", "/")
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        if path.exists():
            return path
    return None


def _room(module: str, tree: Path) -> str:
    path = _path(module, tree)
    return str(path.parent.relative_to(tree)).removesuffix("/_kernels") if path else ""


@cache
def _exports(module: str, tree: Path) -> dict[str, str]:
    """The names that a package imports from its modules, to those modules."""
    path = _path(module, tree)
    if path is None or path.name != "__init__.py":
        return {}
    found: dict[str, str] = {}
    for node in ast.parse(path.read_text()).body:
        source = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
        if source.split(".")[0] not in PACKAGES or source == module:
            continue
        assert isinstance(node, ast.ImportFrom)
        known = _exports(source, tree)
        for alias in node.names:
            if alias.name == "*":
                found |= known
            else:
                found[alias.asname or alias.name] = known.get(alias.name, source)
    return found


def tests_in(path: Path) -> list[tuple[str, str]]:
    """Name and syntax tree of each test of a file, with its decorators and without its layout."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, functions)]
    return [(node.name, ast.dump(node)) for node in nodes if node.name.startswith("test_")]
