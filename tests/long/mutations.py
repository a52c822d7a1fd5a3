"""Small mutations of the product's syntax trees, sampled by a seed.

Rule: a mutation is an exact edit of the source text at the place of a syntax node. It changes what
the program does, and nothing that only people or type checkers read: no docstring, annotation,
message, import, assert or `__all__`.
"""

from __future__ import annotations

import ast
import marshal
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

__all__ = ["ROOT", "Mutation", "mutations_of", "room_files", "sample"]

ROOT = Path(__file__).parents[2]
LEAST = 5  # mutations of a room

COMPARED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
COMPARED |= {"is": "is not", "is not": "is", "in": "not in", "not in": "in"}
COMPUTED = {"+": "-", "-": "+", "*": "+", "/": "*", "//": "*", "%": "+", "**": "*"}
COMPUTED |= {"<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "&", "@": "*"}
SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
SIGNS |= {ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}
SIGNS |= {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//"}
SIGNS |= {ast.Mod: "%", ast.Pow: "**", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&"}
SIGNS |= {ast.BitOr: "|", ast.BitXor: "^", ast.MatMult: "@", ast.And: "and", ast.Or: "or"}

UNTOUCHED = (ast.Import, ast.ImportFrom, ast.Assert, ast.JoinedStr, ast.Global, ast.Nonlocal)
LOGGED = re.compile(r"_?(log|logger|LOG|logging)\.(debug|info|warning|error|exception)$|warnings\.")
TYPES = {"TypeVar", "ParamSpec", "NewType", "NamedTuple", "Option", "Argument", "Field", "cast"}
READ_BY_PEOPLE = {"help", "metavar", "title", "description", "summary", "doc", "unit"}
MESSAGE = re.compile(r"\s|^.{40,}$", re.DOTALL)  # a string that nobody compares
CONTAINERS = (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.JoinedStr)


@dataclass(frozen=True)
class Mutation:
    """One edit.

    Attributes
    ----------
    path, line, start, end
        The file, the line, and the bytes that are replaced.
    old, new
        The bytes before and after, as text.
    kind
        What is done, such as "comparison".
    owner
        The function or name at the top of the file that it is in.
    statement
        Line and column of the innermost statement that it is in; None if that may run before a
        test begins: on import, or in a function whose result is cached.
    """

    path: str
    line: int
    start: int
    end: int
    old: str
    new: str
    kind: str
    owner: str
    statement: tuple[int, int] | None

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.path}:{self.line} {self.kind}: {old} -> {new or '(nothing)'}"

    @property
    def room(self) -> str:
        """The folder in the tree of docs/ARCHITECTURE.md; kernels are of the room around them."""
        return str(Path(self.path).parent).removesuffix("/_kernels")

    @property
    def kernel(self) -> bool:
        """Whether it is in a file of kernels."""
        return "_kernels" in Path(self.path).with_suffix("").parts

    def applied(self, source: bytes) -> bytes:
        """The mutated source."""
        assert source[self.start : self.end] == self.old.encode(), f"{self} is not in the source"
        return source[: self.start] + self.new.encode() + source[self.end :]


@dataclass
class _Place:
    """Where in a file the walk is."""

    owner: str = ""
    inside: bool = False  # a function
    cached: bool = False  # its result
    statement: ast.stmt | None = None


class _Finder:
    """All edits of one file."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path, self.source = path, source
        self.found: list[Mutation] = []
        lines = source.splitlines(keepends=True)
        self._offsets = [0]
        for line in lines:
            self._offsets.append(self._offsets[-1] + len(line))

    def start(self, node: ast.AST) -> int:
        return self._offsets[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> int:
        return self._offsets[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def text(self, node: ast.AST) -> str:
        return self.source[self.start(node) : self.end(node)].decode()

    def add(self, kind: str, place: _Place, span: tuple[int, int], new: str) -> None:
        start, end = span
        line = self.source.count(b"\n", 0, start) + 1
        old = self.source[start:end].decode()
        at = place.statement if place.inside and not place.cached else None
        statement = (at.lineno, at.col_offset) if at is not None else None
        edit = Mutation(self.path, line, start, end, old, new, kind, place.owner, statement)
        self.found.append(edit)

    def whole(self, kind: str, place: _Place, node: ast.AST, new: str) -> None:
        self.add(kind, place, (self.start(node), self.end(node)), new)

    def sign(self, kind: str, place: _Place, gap: tuple[ast.AST, ast.AST], new: str) -> None:
        """Replace an operator, of which the tree has no place, between its operands."""
        start, end = self.end(gap[0]), self.start(gap[1])
        between = self.source[start:end].decode()
        code = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), between)
        operator = re.search(r"[^\s()\\]+(\s+(not|in)\b)?", code)
        if operator is not None and code.isascii():
            self.add(kind, place, (start + operator.start(), start + operator.end()), new)

    def walk(self, node: ast.AST, place: _Place) -> None:
        """Note the edits of a node and of what is in it."""
        if isinstance(node, UNTOUCHED) or _read_only(node, place):
            return
        if isinstance(node, ast.stmt):
            place = replace(place, statement=node, owner=place.owner or _owner(node))
        for find in FINDERS.get(type(node), ()):
            find(self, node, place)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            self._function(node, place)
        elif isinstance(node, ast.ClassDef):
            for part in node.body:
                self.walk(part, place if place.inside else replace(place, statement=None))
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.walk(node.value, place)
        elif not isinstance(node, ast.Raise):
            for child in ast.iter_child_nodes(node):
                self.walk(child, place)

    def _function(self, node: ast.AST, place: _Place) -> None:
        """Defaults are evaluated where the function is made, its body when it is called."""
        assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.walk(default, place)
        if isinstance(node, ast.Lambda):
            self.walk(node.body, place)
            return
        cached = any("cache" in ast.unparse(each) for each in node.decorator_list)
        for part in node.body:
            self.walk(part, replace(place, inside=True, cached=place.cached or cached))


def _owner(node: ast.stmt) -> str:
    """The name that a statement at the top of a file defines."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    names = [n.id for t in targets if t for n in ast.walk(t) if isinstance(n, ast.Name)]
    return names[0] if names else ""


def _read_only(node: ast.AST, place: _Place) -> bool:
    """Whether only people or type checkers read it."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Call(func=function):
            called = ast.unparse(function)
            return bool(LOGGED.match(called)) or called.rpartition(".")[2] in TYPES
        case ast.Expr(value=ast.Call() as call):
            return _read_only(call, place)
        case ast.keyword(arg=str(name)):
            return name in READ_BY_PEOPLE
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            alias = isinstance(value, (ast.Subscript, ast.BinOp)) and not place.inside
            return name.startswith("__") or (alias and name[:1].isupper() and not name.isupper())
        case ast.If(test=test):
            shown = ast.unparse(test)
            return "TYPE_CHECKING" in shown or "__name__" in shown
    return False


def _comparison(at: _Finder, node: ast.AST, place: _Place) -> None:
    assert isinstance(node, ast.Compare)
    operands = [node.left, *node.comparators]
    for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
        at.sign("comparison", place, (left, right), COMPARED[SIGNS[type(operator)]])


def _boolean(at: _Finder, node: ast.AST, place: _Place) -> None:
    assert isinstance(node, ast.BoolOp)
    other = "or" if isinstance(node.op, ast.And) else "and"
    for left, right in zip(node.values, node.values[1:], strict=False):
        at.sign("boolean", place, (left, right), other)


def _not(at: _Finder, node: ast.AST, place: _Place) -> None:
    assert isinstance(node, ast.UnaryOp)
    if isinstance(node.op, ast.Not):
        at.whole("boolean", place, node, f"({at.text(node.operand)})")


def _arithmetic(at: _Finder, node: ast.AST, place: _Place) -> None:
    assert isinstance(node, ast.BinOp)
    for side in (node.left, node.right):
        text = isinstance(side, ast.Constant) and isinstance(side.value, (str, bytes))
        if text or isinstance(side, CONTAINERS):
            return
    at.sign("arithmetic", place, (node.left, node.right), COMPUTED[SIGNS[type(node.op)]])


def _augmented(at: _Finder, node: ast.AST, place: _Place) -> None:
    assert isinstance(node, ast.AugAssign)
    at.sign("arithmetic", place, (node.target, node.value), COMPUTED[SIGNS[type(node.op)]] + "=")


def _constant(at: _Finder, node: ast.AST, place: _Place) -> None:
    assert isinstance(node, ast.Constant)
    text = at.text(node)
    match node.value:
        case bool(value):
            at.whole("constant", place, node, str(not value))
        case int(value):
            at.whole("constant", place, node, f"{value + 1}")
        case float(value):
            at.whole("constant", place, node, f"({text} * 2)" if value else "1.0")
        case str() | bytes() if not MESSAGE.search(str(node.value)):
            if not text.endswith(('"""', "'''")):
                at.whole("constant", place, node, f"{text[:-1]}_{text[-1]}")


def _returned(at: _Finder, node: ast.AST, place: _Place) -> None:
    assert isinstance(node, ast.Return)
    if node.value is not None and at.text(node.value) != "None":
        at.whole("return", place, node.value, "None")


def _removed(at: _Finder, node: ast.AST, place: _Place) -> None:
    """A statement that has an effect; without a name that it defines, others cannot run at all."""
    if isinstance(node, ast.Assign):
        places = (ast.Attribute, ast.Subscript)
        if not all(isinstance(target, places) for target in node.targets):
            return
    if isinstance(node, ast.Expr) and not isinstance(node.value, (ast.Call, ast.Await)):
        return
    if place.inside:
        at.whole("statement", place, node, "pass")


def _negated(at: _Finder, node: ast.AST, place: _Place) -> None:
    test = node.test  # type: ignore[attr-defined]
    if not isinstance(test, (ast.UnaryOp, ast.Constant)):
        at.whole("condition", place, test, f"(not ({at.text(test)}))")


def _jump(at: _Finder, node: ast.AST, place: _Place) -> None:
    at.whole("jump", place, node, "continue" if isinstance(node, ast.Break) else "break")


def _index(at: _Finder, node: ast.AST, place: _Place) -> None:
    assert isinstance(node, ast.Subscript)
    parts = [node.slice]
    if isinstance(node.slice, ast.Slice):
        parts = [part for part in (node.slice.lower, node.slice.upper) if part is not None]
    for part in parts:
        if isinstance(part, ast.Name):
            at.whole("index", place, part, f"{part.id} + 1")


def _arguments(at: _Finder, node: ast.AST, place: _Place) -> None:
    assert isinstance(node, ast.Call)
    given = node.args
    if len(given) > 1 and not any(isinstance(each, ast.Starred) for each in given[:2]):
        first, second = at.text(given[0]), at.text(given[1])
        between = at.source[at.end(given[0]) : at.start(given[1])].decode()
        if first != second:
            span = at.start(given[0]), at.end(given[1])
            at.add("argument", place, span, f"{second}{between}{first}")
    for before, after in zip([*given, *node.keywords], node.keywords, strict=False):
        if after.arg is not None and after.arg not in READ_BY_PEOPLE and given:
            at.add("argument", place, (at.end(before), at.end(after)), "")


Find = Callable[[_Finder, ast.AST, _Place], None]
FINDERS: dict[type[ast.AST], tuple[Find, ...]] = {
    ast.Compare: (_comparison,),
    ast.BoolOp: (_boolean,),
    ast.UnaryOp: (_not,),
    ast.BinOp: (_arithmetic,),
    ast.AugAssign: (_augmented, _removed),
    ast.Constant: (_constant,),
    ast.Return: (_returned,),
    ast.Expr: (_removed,),
    ast.Assign: (_removed,),
    ast.Raise: (_removed,),
    ast.Delete: (_removed,),
    ast.If: (_negated,),
    ast.IfExp: (_negated,),
    ast.While: (_negated,),
    ast.Break: (_jump,),
    ast.Continue: (_jump,),
    ast.Subscript: (_index,),
    ast.Call: (_arguments,),
}


def mutations_of(path: str, source: bytes) -> list[Mutation]:
    """All edits of a file, in the order of its text."""
    finder = _Finder(path, source)
    for node in ast.parse(source).body:
        finder.walk(node, _Place())
    return sorted(finder.found, key=lambda each: (each.start, each.end, each.new))


def room_files(rooms: list[str]) -> dict[str, list[str]]:
    """The files of each room, its kernels included."""
    found = {}
    for room in rooms:
        folders = (ROOT / room, ROOT / room / "_kernels")
        paths = sorted(path for folder in folders for path in folder.glob("*.py"))
        found[room] = [str(path.relative_to(ROOT)) for path in paths]
    return found


def sample(rooms: dict[str, list[str]], count: int, seed: int) -> list[Mutation]:
    """`count` mutations: at least five a room if it has them, the others by the size of rooms."""
    possible = {
        room: [each for path in paths for each in mutations_of(path, (ROOT / path).read_bytes())]
        for room, paths in rooms.items()
    }
    shares = _shares({room: len(found) for room, found in possible.items()}, count)
    chosen = []
    for room, found in possible.items():
        # Independent of the other rooms, so that a room keeps its sample when another one changes.
        drawn = _drawn(found, Random(f"{seed} {room}"))
        chosen += [each for each, _ in zip(drawn, range(shares[room]), strict=False)]
    return chosen


def _shares(sizes: dict[str, int], count: int) -> dict[str, int]:
    """How many of each room: `LEAST`, and of what is left by the largest remainder."""
    shares = {room: min(LEAST, size) for room, size in sizes.items()}
    left, whole = max(0, count - sum(shares.values())), sum(sizes.values())
    exact = {room: left * size / whole for room, size in sizes.items()}
    rest = left - sum(map(int, exact.values()))
    by_remainder = sorted(exact, key=lambda room: int(exact[room]) - exact[room])
    for room in sizes:
        shares[room] += int(exact[room]) + (room in by_remainder[:rest])
    return shares


def _drawn(found: list[Mutation], random: Random) -> Iterator[Mutation]:
    """One of each kind in turn, in random order, none without effect; a second one of a statement
    only after all others."""
    kinds: dict[str, list[Mutation]] = {}
    for each in random.sample(found, len(found)):
        kinds.setdefault(each.kind, []).append(each)
    seen, others = set(), []
    while kinds:
        for kind in random.sample(sorted(kinds), len(kinds)):
            each = kinds[kind].pop()
            if not kinds[kind]:
                del kinds[kind]
            place = (each.path, each.statement or each.line)
            if place in seen:
                others.append(each)
            elif _changes(each):
                seen.add(place)
                yield each
    yield from filter(_changes, others)


def _changes(mutation: Mutation) -> bool:
    """Whether the mutated file can be compiled, and to other code."""
    source = _source(mutation.path)
    try:
        changed = _code(mutation.applied(source), mutation.path)
    except SyntaxError:
        return False
    return changed != _compiled(mutation.path)


@cache
def _source(path: str) -> bytes:
    return (ROOT / path).read_bytes()


@cache
def _compiled(path: str) -> bytes:
    return _code(_source(path), path)


def _code(source: bytes, path: str) -> bytes:
    return marshal.dumps(compile(source, path, "exec", dont_inherit=True))
