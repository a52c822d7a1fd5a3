"""What every Python process of a run of `tests.long.reach` does first, as its `sitecustomize`.

It marks which mutated statements a test reaches, and has only those kernels compiled that a
mutation has changed. The variable REACH names a file with what to do; without it, nothing is done.
"""

from __future__ import annotations

import ast
import builtins
import json
import mmap
import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

COMPILER = "stream.kernel.compiled"


def install(task: dict[str, Any]) -> None:
    """Do what a task asks for, as modules of the product are imported.

    Parameters
    ----------
    task
        `tree`: the folder of the product. `stamps`: that of the kernels of each package as they
        are on disk. `changed`: the kernels to compile again, into `machine_code`. `marks`: a file
        with a byte for each mutation, and `statements` and `kernels`: where they are.
    """
    if task["marks"]:
        with open(task["marks"], "r+b") as file:
            builtins.__reach__ = mmap.mmap(file.fileno(), 0)  # type: ignore[attr-defined]
    sys.meta_path.insert(0, _Finder(task))


class _Finder(MetaPathFinder):
    """Finds the modules of which something is to be done."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._task = task

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in ("stream", "consumers", "headwater"):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return spec
        file, tree = Path(spec.origin), Path(self._task["tree"])
        if tree not in file.parents:
            return spec
        places = self._task["statements"].get(str(file.relative_to(tree)), {})
        if places or fullname == COMPILER:
            spec.loader = _Loader(fullname, spec.origin, places, self._task)
        return spec


class _Loader(SourceFileLoader):
    """Loads a module with marks; they leave the lines as they are."""

    def __init__(self, name: str, path: str, places: dict[str, Any], task: dict[str, Any]) -> None:
        super().__init__(name, path)
        self._places, self._task = places, task

    def get_code(self, fullname: str) -> CodeType | None:
        if not self._places:
            return super().get_code(fullname)
        tree = _Marker(self._places).visit(ast.parse(self.get_data(self.path)))
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if module.__name__ == COMPILER:
            _patch(module, self._task)


class _Marker(ast.NodeTransformer):
    """Puts `__reach__[n] = 1` before each statement that mutation n is in."""

    def __init__(self, places: dict[str, list[int]]) -> None:
        self._places = places

    def visit(self, node: ast.AST) -> Any:
        seen = self.generic_visit(node)
        if not isinstance(node, ast.stmt):
            return seen
        numbers = self._places.get(f"{node.lineno}:{node.col_offset}", [])
        marks = [ast.parse(f"__reach__[{number}] = 1").body[0] for number in numbers]
        for mark in marks:
            for part in ast.walk(mark):
                ast.copy_location(part, node)
        return [*marks, seen]


def _patch(compiler: Any, task: dict[str, Any]) -> None:
    """Have the kernel cache ask what has changed, and marked kernels note their calls."""
    cache, tree = compiler._KernelCache, Path(task["tree"])
    plain = cache.__init__

    def init(self: Any, function: Any, root: Path, stamp: str) -> None:
        name = f"{function.__module__}:{function.__name__}"
        known = task["stamps"][root.name] if root.parent == tree else stamp
        plain(self, function, root, known)
        if root.parent == tree and name in task["changed"]:
            folder = Path(task["machine_code"], function.__module__)
            folder.mkdir(parents=True, exist_ok=True)
            self._bundle = None
            self._cache_file = compiler.KeptFiles(str(folder), self._impl.filename_base, stamp)

    cache.__init__ = init
    if task["marks"]:
        kernels, marks = task["kernels"], builtins.__reach__  # type: ignore[attr-defined]

        def call(self: Any, *args: Any, **options: Any) -> Any:
            function = self.py_func
            for number in kernels.get(f"{function.__module__}:{function.__name__}", ()):
                marks[number] = 1
            return compiler.CPUDispatcher.__call__(self, *args, **options)

        compiler._Kernel.__call__ = call


if "REACH" in os.environ:
    install(json.loads(Path(os.environ["REACH"]).read_text()))
