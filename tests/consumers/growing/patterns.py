"""Every regular expression of the program, and texts that could make each try again and again.

A pattern that tries a text again at each of its places takes the square of its length, and holds
all other threads meanwhile. Texts are made from the pattern itself: what its first parts match,
then characters that it names, many times, then an end that it refuses. Times of 1, 2 and 4 times
as many are compared.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from random import Random
from re import _parser  # type: ignore[attr-defined]
from typing import Any

__all__ = ["Used", "patterns", "slow"]

ROOT = Path(__file__).parents[3]
PACKAGES = ("consumers", "headwater", "stream")
METHODS = ("search", "match", "fullmatch", "sub", "findall", "finditer", "split")
PLAIN = ("a", "1", " ", "\n", "é", "(", ")", '"', "'", ".", "<", "=", ":", ";", "/")
ENDS = ("", "!", "\0", "z", "\n\n")
MOST = 700  # texts of a pattern
SIZES = (12, 24, 1_000, 4_000)  # characters; exponential time shows in a few, cubic in 1,000
FEW = 125  # characters that take no measurable time, unless it is exponential
# Seconds from which times can be compared. The square of 4,000 takes a multiple on any machine, and
# work beside it only makes it longer.
SUSPECT = 0.002
STEEP = 1.6  # times linear, of each of two doublings
TRIES = 3


@dataclass(frozen=True, slots=True)
class Used:
    """A pattern, and a method that the program calls on it."""

    name: str
    pattern: re.Pattern[Any]
    method: str

    def __str__(self) -> str:
        return f"{self.name}.{self.method}"


def patterns() -> list[Used]:
    """Each pattern of the program with each of its uses. Modules that have some are imported."""
    found: list[Used] = []
    trees = {
        path: ast.parse(path.read_text())
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }
    everywhere = {call for tree in trees.values() for call in _calls(tree)}
    for path, tree in trees.items():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for name in _compiled(tree):
            pattern = getattr(import_module(module), name)
            calls = {*_calls(tree)} if name.startswith("_") else everywhere
            methods = [method for method in METHODS if (name, method) in calls]
            found += [Used(f"{module}.{name}", pattern, method) for method in methods or ["search"]]
        for line, method, text in _inline(tree):
            found.append(Used(f"{module}:{line}", re.compile(text), method))
    return found


def _compiled(tree: ast.Module) -> Iterator[str]:
    """The names of patterns at the top of a file."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            called, (target, *_) = node.value.func, node.targets
            if isinstance(target, ast.Name) and ast.unparse(called) == "re.compile":
                yield target.id


def _calls(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            yield ast.unparse(node.value).rpartition(".")[2], node.attr


def _inline(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Line, method and text of patterns that are written where they are used."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            text, method = node.args[0], node.func.attr
            if ast.unparse(node.func.value) != "re" or method not in METHODS:
                continue
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield node.lineno, method, text.value


def slow(used: Used, seed: int = 0) -> str:
    """A text that takes this pattern more than linear time; "" if there is none among those."""
    call = _call(used)
    for before, piece, after in _texts(used.pattern, seed):
        made = _maker(used.pattern, before, piece, after)
        if any(_seconds(call, made(n)) > SUSPECT for n in SIZES) and _is_steep(call, made):
            return f"{before!r} + {piece!r} * n + {after!r}"
    return ""


def _call(used: Used) -> Callable[[Any], object]:
    pattern = used.pattern
    if used.method == "sub":
        empty = pattern.pattern[:0]
        return lambda text: pattern.sub(empty, text)
    if used.method == "finditer":
        return lambda text: [*pattern.finditer(text)]
    method: Callable[[Any], object] = getattr(pattern, used.method)
    return method


def _maker(
    pattern: re.Pattern[Any], before: str, piece: str, after: str
) -> Callable[[int], str | bytes]:
    def made(n: int) -> str | bytes:
        text = before + piece * (n // len(piece) + 1) + after
        return text if isinstance(pattern.pattern, str) else text.encode("latin-1", "replace")

    return made


def _is_steep(call: Callable[[Any], object], made: Callable[[int], str | bytes]) -> bool:
    """Whether each of two doublings takes longer than in proportion, from where times can be
    compared; an exponential one is seen before."""
    n = SIZES[0]
    while _least(call, made(n)) < SUSPECT:
        n *= 2
    if n < FEW:  # so slow for so few
        return True
    texts = [made(m) for m in (n, 2 * n, 4 * n)]
    rounds = [[_seconds(call, text) for text in texts] for _ in range(TRIES)]
    times = [min(each) for each in zip(*rounds, strict=True)]  # in turn: all beside the same work
    return times[1] > STEEP * 2 * times[0] and times[2] > STEEP * 2 * times[1]


def _least(call: Callable[[Any], object], text: str | bytes) -> float:
    """Other work makes a time longer, never shorter."""
    return min(_seconds(call, text) for _ in range(TRIES))


def _seconds(call: Callable[[Any], object], text: str | bytes) -> float:
    begun = time.thread_time()
    call(text)
    return time.thread_time() - begun


def _texts(pattern: re.Pattern[Any], seed: int) -> Iterator[tuple[str, str, str]]:
    """What comes before, what is repeated, and what comes after it."""
    text = (
        pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    )
    parts = [*_parts(_parser.parse(text, pattern.flags & ~re.UNICODE))]
    begins = ["", *("".join(parts[: i + 1]) for i in range(min(len(parts), 16)))]
    own = [*dict.fromkeys([*parts, *_runs(parts), *begins[1:]])]
    pieces = [*dict.fromkeys([*own, *PLAIN])]
    pairs = [a + b for a, b in product(pieces, repeat=2)]
    rng = Random(f"{seed} {text!r}")
    for every in (product(begins, own, ENDS), product(begins, [*pieces, *pairs], ENDS)):
        texts = [*every]
        yield from rng.sample(texts, min(len(texts), MOST))


def _parts(tree: Any) -> Iterator[str]:
    """Of each part of a pattern a text that it matches, one after the other."""
    for op, value in tree:
        name = str(op)
        if name == "LITERAL":
            yield chr(value)
        elif name == "NOT_LITERAL":
            yield "a" if value != ord("a") else "b"
        elif name == "ANY":
            yield "a"
        elif name == "IN":
            yield _one(value)
        elif name == "BRANCH":
            for branch in value[1]:
                yield from _parts(branch)
        elif name == "SUBPATTERN":
            yield from _parts(value[3])
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            yield from _parts(value[2])
        elif name == "ATOMIC_GROUP":
            yield from _parts(value)
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from _parts(value[1])


def _one(members: Any) -> str:
    """A character of a set."""
    (op, value), *_ = members
    name = str(op)
    if name == "NEGATE":
        refused = {_one([member]) for member in members[1:]}
        return next(c for c in "a1 <;\n(" if c not in refused)
    if name == "RANGE":
        return chr(value[0])
    if name == "CATEGORY":
        kinds = {"DIGIT": "1", "SPACE": " ", "WORD": "a"}
        kind = str(value).removeprefix("CATEGORY_")
        return {"NOT_DIGIT": "a", "NOT_SPACE": "a", "NOT_WORD": "-"}.get(kind) or kinds[kind]
    return chr(value)


def _runs(parts: list[str]) -> Iterator[str]:
    """What parts match that follow each other."""
    yield "".join(parts)
    for size in (2, 3, 5):
        for i in range(0, len(parts) - size + 1, max(1, len(parts) // 8)):
            yield "".join(parts[i : i + size])
