"""The sample of `tests.long.reach` can be trusted: each edit is small, valid, and repeatable."""

from __future__ import annotations

import ast

import pytest

from tests.long.kernel_calls import kernels_changed_by
from tests.long.mutations import LEAST, ROOT, mutations_of, room_files, sample

SOURCE = '''
"""A module."""
import os
__all__ = ["f"]
LIMIT: int = 3

def f(a: int, *, loud: bool = False) -> "str":
    """Double."""
    assert a > 7, "too small"
    for i in range(a, 10):
        if a <= i and not loud:  # a < i
            log.info("at most %d", 5)
            break
    queue.append(a, key=1)
    raise ValueError(f"no {a + 1}")
    return "kept" if a == i else table[i]
'''
EDITS = [
    "comparison: <= -> <",
    "comparison: == -> !=",
    "boolean: and -> or",
    "boolean: not loud -> (loud)",
    "condition: a <= i and not loud -> (not (a <= i and not loud))",
    "condition: a == i -> (not (a == i))",
    "constant: 3 -> 4",
    "constant: False -> True",
    "constant: 10 -> 11",
    "constant: 1 -> 2",
    'constant: "kept" -> "kept_"',
    "index: i -> i + 1",
    "jump: break -> continue",
    "argument: a, 10 -> 10, a",
    "argument: , key=1 -> (nothing)",
    "statement: queue.append(a, key=1) -> pass",
    'statement: raise ValueError(f"no {a + 1}") -> pass',
    'return: "kept" if a == i else table[i] -> None',
]
ROOMS = room_files(["stream/mix", "stream/drift"])


def test_edits_are_of_what_runs() -> None:
    """Each kind once; nothing of a docstring, annotation, message, import, assert or `__all__`."""
    found = mutations_of("m.py", SOURCE.encode())

    assert sorted(str(each).split(" ", 1)[1] for each in found) == sorted(EDITS)


@pytest.mark.parametrize("path", [path for paths in ROOMS.values() for path in paths][::4])
def test_edited_file_is_another_program(path: str) -> None:
    """It can be parsed, and what it is parsed to differs."""
    source = (ROOT / path).read_bytes()
    whole = ast.dump(ast.parse(source))

    for each in mutations_of(path, source)[::40]:
        assert ast.dump(ast.parse(each.applied(source))) != whole, each


def test_sample_is_repeatable_and_has_five_of_each_room() -> None:
    """The seed alone decides; another one draws others."""
    found = sample(ROOMS, 15, 1)

    assert len({*found}) == 15
    assert min(sum(each.room == room for each in found) for room in ROOMS) >= LEAST
    assert found == sample(ROOMS, 15, 1)
    assert {*found} != {*sample(ROOMS, 15, 2)}


def test_a_change_of_a_kernel_changes_its_callers() -> None:
    """And only them: the kernels of a room that does not use it are loaded from disk."""
    path = "stream/kernel/_kernels.py"
    found = mutations_of(path, (ROOT / path).read_bytes())
    changed = kernels_changed_by(next(each for each in found if each.owner == "logs_of"))

    assert "stream.evaluate._kernels:losses" in changed  # by `take_logs`
    assert not [name for name in changed if name.startswith("stream.join.")]
