"""Which kernels a change of a kernel file changes: those that use what was changed, and no others.

`stream.kernel` compiles all kernels of a package again when one of its kernel files has changed,
which takes minutes. A mutation changes one function or constant.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.long.mutations import ROOT, Mutation

__all__ = ["kernels_changed_by", "module_of"]

PACKAGES = ("stream", "consumers")


def module_of(path: str) -> str:
    """The dotted name of a file."""
    return ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")


def kernels_changed_by(mutation: Mutation) -> set[str]:
    """The names, as "module:function", at the top of kernel files that use the mutated one."""
    if not mutation.kernel:
        return set()
    users = _users()
    changed = {f"{module_of(mutation.path)}:{mutation.owner}"}
    waiting = list(changed)
    while waiting:
        new = users.get(waiting.pop(), set()) - changed
        changed |= new
        waiting += new
    return changed


@cache
def _users() -> dict[str, set[str]]:
    """Each name at the top of a kernel file, to those that use it directly."""
    users: dict[str, set[str]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "_kernels" in path.with_suffix("").parts:
                module = module_of(str(path.relative_to(ROOT)))
                for name, used in _uses(module, ast.parse(path.read_text())).items():
                    for each in used:
                        users.setdefault(each, set()).add(name)
    return users


def _uses(module: str, tree: ast.Module) -> dict[str, set[str]]:
    """What each name at the top of a file uses, of this file and of those it imports."""
    known: dict[str, str] = {}
    defined: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                known[alias.asname or alias.name] = f"{statement.module}:{alias.name}"
        elif isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            defined.setdefault(statement.name, []).append(statement)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            for name in _stored(statement):
                defined.setdefault(name, []).append(statement)
    known |= {name: f"{module}:{name}" for name in defined}
    return {
        known[name]: {known[used] for part in parts for used in _loaded(part) if used in known}
        for name, parts in defined.items()
    }


def _stored(statement: ast.stmt) -> list[str]:
    names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
    return [node.id for node in names if isinstance(node.ctx, ast.Store)]


def _loaded(statement: ast.stmt) -> list[str]:
    names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
    return [node.id for node in names if isinstance(node.ctx, ast.Load)]
