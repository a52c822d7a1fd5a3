"""The shape of the code: rooms, sizes, names.

The rooms stand in the order of docs/ARCHITECTURE.md; a room imports only rooms above it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePath

from consumers.transports.registry import transports
from stream.learner.registry import learners
from tests.lint.sources import PACKAGES, Finding, Rules, Source, dotted, product, source

__all__ = ["RULES", "files"]

PAGE = "docs/ARCHITECTURE.md"
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def files() -> list[str]:
    """All Python of the packages, and the page with their order."""
    return [PAGE, *(file.path for file in product())]


@cache
def rooms_of(package: str) -> list[str]:
    """Its rooms in dependency order: the folders and files at the top of the tree."""
    block = re.search(rf"^{package}/.*?(?=^\w|^```)", source(PAGE).text, re.DOTALL | re.MULTILINE)[
        0
    ]
    return [*re.findall(r"^  (\w+)(?:/|\.py) ", block, re.MULTILINE), "__main__"]


def drawn(page: Source) -> tuple[dict[str, int], dict[str, int]]:
    """The tree of the page: the line of each folder, and that of each file it names there."""
    tree = re.search(r"```\n(stream/.*?)```", page.text, re.DOTALL)
    folders: dict[str, int] = {}
    named: dict[str, int] = {}
    above: list[str] = []
    for line, text in enumerate(tree[1].splitlines(), page.at(tree.start(1))):
        indent, opens = re.match(r"( *)(\w+/|\w+\.py)?", text).groups()
        depth = len(indent) // 2
        if opens and depth < 3:
            above[depth:] = [opens.removesuffix("/")] if opens.endswith("/") else []
            folders.setdefault("/".join(above), line)
        for name in re.findall(r"\b(\w+\.py)\b", text):
            named.setdefault("/".join([*above, name]), line)
    return folders, named


def tree(drawing: tuple[Source, Sequence[Source]]) -> Iterator[Finding]:
    """The tree of the page names every file in its room, and no other."""
    page, sources = drawing
    folders, named = drawn(page)
    paths = [PurePath(file.path) for file in sources if "_kernels" not in file.parts]
    rooms = {str(path.parent) for path in paths}
    wanted = {str(path) for path in paths if path.stem not in ("__init__", "__main__")}
    # These have a generated table: learners in docs/learners.md, transports of one file in
    # docs/config.md.
    tabled = {f"{kind.__module__.replace('.', '/')}.py" for kind in learners().values()}
    for folder in (f"consumers/transports/{scheme}" for scheme in transports()):
        if {path for path in wanted if path.startswith(f"{folder}/")} == {f"{folder}/log.py"}:
            tabled.add(f"{folder}/log.py")
            rooms.discard(folder)

    for path in wanted - tabled - {*named}:
        yield Finding(path, 1, f"is not in the tree of {PAGE}; name it there, in its room")
    for room in rooms - {*folders}:
        yield Finding(f"{room}/__init__.py", 1, f"its folder is not in the tree of {PAGE}; draw it")
    for path, line in named.items():
        if path not in wanted - tabled:
            why = "is in a generated table" if path in tabled else "does not exist"
            yield page.finding(line, f"the tree names {path}, which {why}; remove it")
    for room, line in folders.items():
        if room not in rooms:
            why = "does not exist, or is in a generated table"
            yield page.finding(line, f"the tree has {room}/, which {why}; remove it")


def misplaced(package: str, room: str, imported: str) -> str | None:
    """Why a file in this room may not import this; None where it may."""
    parts = imported.split(".")
    if imported.startswith("."):
        return "a relative import hides which room it is from; write the whole name"
    if parts[0] in PACKAGES and PACKAGES.index(parts[0]) > PACKAGES.index(package):
        return f"{package} never imports {parts[0]}"
    if parts[0] != package:
        return None
    rooms = rooms_of(package)
    if room == "__init__":
        return None
    other = parts[1] if len(parts) > 1 else ""
    if other not in rooms:
        return f"{other!r} is no room of {package}: import from the room that defines it"
    if rooms.index(other) > rooms.index(room):
        return f"{other} comes below {room} in {PAGE}"
    return None


def order(sources: Sequence[Source]) -> Iterator[Finding]:
    """A room imports only rooms above it, so that it can be read without those below."""
    for file in sources:
        package, room = file.parts[:2]
        if room not in [*rooms_of(package), "__init__"]:
            yield file.finding(1, f"{room!r} is no room of {package}; draw it in {PAGE}")
            continue
        for line, imported in file.imports:
            if why := misplaced(package, room, imported):
                yield file.finding(line, f"imports {imported}: {why}")


def graph(sources: Sequence[Source]) -> dict[str, dict[str, int]]:
    """Each module to those it imports, wherever in it that stands, with the line."""
    # A package is its `__init__.py`.
    modules = {".".join(file.parts).removesuffix(".__init__"): file for file in sources}
    found: dict[str, dict[str, int]] = {module: {} for module in modules}
    for module, file in modules.items():
        for line, what in file.imports:
            # `from a.b import c` means the file a/b/c.py, or else a name in a/b.py.
            meant = what if what in modules else what.rpartition(".")[0]
            if meant in modules and meant != module:
                found[module].setdefault(meant, line)
    return found


def circles(sources: Sequence[Source]) -> Iterator[Finding]:
    """No files import each other in a circle, inside a room and for the type checker too: every
    file can be read bottom up."""
    found = graph(sources)
    try:
        TopologicalSorter({module: sorted(found[module]) for module in sorted(found)}).prepare()
    except CycleError as error:
        imported, module, *_ = circle = error.args[1]
        file = next(f for f in sources if module == ".".join(f.parts).removesuffix(".__init__"))
        shown = " <- ".join(circle)
        yield file.finding(found[module][imported], f"imports in a circle: {shown}; remove one")


def sizes(sources: Sequence[Source]) -> Iterator[Finding]:
    """A file fits in the head, a function on a screen."""
    for file in sources:
        lines = len(file.text.splitlines())
        if lines > MAX_FILE_LINES:
            long = f"the file has {lines} lines, {MAX_FILE_LINES} are allowed"
            yield file.finding(MAX_FILE_LINES + 1, f"{long}; split it by what changes")
        for function in file.all(*FUNCTIONS):
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                long = f"{function.name} has {lines} lines, {MAX_FUNCTION_LINES} are allowed"
                yield file.finding(function.lineno, f"{long}; split it")


def vague(sources: Sequence[Source]) -> Iterator[Finding]:
    """utils, helpers, common and misc say nothing about what is inside."""
    for file in sources:
        for part in file.parts:
            if part.strip("_") in VAGUE:
                yield file.finding(1, f"{part!r} says nothing; name it by what is inside")


def classes(sources: Sequence[Source]) -> Iterator[Finding]:
    """No two public classes have one name: it means one thing in a message, page or review."""
    first: dict[str, Source] = {}
    for file in sources:
        for node in file.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                other = first.setdefault(node.name, file)
                if other is not file:
                    named = f"{other.path} has a public class {node.name} too"
                    yield file.finding(node.lineno, f"{named}; rename one of them")


def described(sources: Sequence[Source]) -> Iterator[Finding]:
    """Every file says its rule: a docstring of one line at least."""
    for file in sources:
        if not ast.get_docstring(file.tree):
            yield file.finding(1, "the file has no docstring; say its rule in the first line")


def documented(sources: Sequence[Source]) -> Iterator[Finding]:
    """Public classes and functions of the core say what they do."""
    for file in sources:
        for node in file.tree.body if file.parts[0] == "stream" else ():
            public = isinstance(node, (ast.ClassDef, *FUNCTIONS)) and node.name[0] != "_"
            if public and ast.get_docstring(node) is None:
                yield file.finding(node.lineno, f"{node.name} is public and has no docstring")


def reaches(file: Source) -> Iterator[tuple[int, str]]:
    """Private names that the file uses but does not define."""
    attributes = file.all(ast.Attribute)
    defined = {
        node.attr
        for node in attributes
        if isinstance(node.ctx, ast.Store) and dotted(node.value) in ("self", "cls")
    }
    defined |= {node.name for node in file.all(ast.FunctionDef, ast.ClassDef)}
    defined |= {"_asdict", "_fields", "_make", "_replace"}  # public names of every NamedTuple
    used = [(node.lineno, node.attr) for node in attributes]
    used += [(line, what.rsplit(".", 1)[-1]) for line, what in file.imports]
    for line, name in used:
        if name.startswith("_") and not name.startswith("__") and name not in defined:
            yield line, name


def privates(sources: Sequence[Source]) -> Iterator[Finding]:
    """No file of the join reads the privates of another, which can then change without it."""
    for file in sources:
        if file.parts[0] == "stream" and file.parts[-2] == "join":
            for line, name in reaches(file):
                yield file.finding(line, f"{name} is private to another file; ask for it by a name")


def schemes_asked(file: Source) -> Iterator[tuple[int, str]]:
    """Where the file compares a text with the scheme of a transport."""
    wanted = {*transports(), *(f"{scheme}:" for scheme in transports())}
    methods = ("startswith", "removeprefix")
    compared = [
        (call.lineno, call.args)
        for call in file.all(ast.Call)
        if dotted(call.func).rpartition(".")[2] in methods
    ]
    compared += [
        (node.lineno, [node.left, *node.comparators])
        for node in file.all(ast.Compare)
        if "scheme" in ast.unparse(node)
    ]
    for line, parts in compared:
        texts = [part.value for part in parts if isinstance(part, ast.Constant)]
        yield from ((line, text) for text in texts if text in wanted)


def schemes(sources: Sequence[Source]) -> Iterator[Finding]:
    """Only a transport knows its scheme: others ask the registry what the transport can do."""
    for file in sources:
        if "transports" not in file.parts:
            for line, text in schemes_asked(file):
                yield file.finding(line, f"compares with {text!r}; ask the registry of transports")


RULES: Rules = {
    tree: lambda: (source(PAGE), product()),
    order: product,
    circles: product,
    sizes: product,
    vague: product,
    classes: product,
    described: product,
    documented: product,
    privates: product,
    schemes: product,
}
