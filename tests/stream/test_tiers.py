"""Kernels as Python and as machine code: the same bits.

The reasons are in docs/decisions/kernels.md#a-kernel-is-python-and-machine-code.

`python -m tests.long.tiers` compares more calls, and names the kernels that none has reached.
"""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

from stream.kernel import kernel
from stream.kernel.interpreted import Interpreter, Single
from stream.kernel.tiers import VARIABLE, Kernel
from tests.both_ways import BothWays, DiffersError
from tests.programs.wide import WIDE, wide_program
from tests.waiting import PATIENCE

LEARN = """
import sys
from stream import GaussianNB
model = GaussianNB()
for i in range(20):
    model.predict_proba_one({"a": i / 7, "b": -0.0})
    model.learn_one({"a": i / 7, "b": 5e-324 * i}, i % 3)
print("numba" in sys.modules, model.fingerprint())
"""


@kernel
def doubled_last(x: np.ndarray, n: int) -> None:
    """A kernel that reads a place before its array, if n is 0."""
    x[n - 1] *= 2.0


@kernel
def differing(x: np.ndarray) -> int:
    """A kernel whose two ways differ: Python has no whole numbers of 64 bits."""
    total = 1
    for _ in range(70):
        total *= 2
    return total


@pytest.mark.parametrize("kind", WIDE[:: max(1, len(WIDE) // 6)])
def test_python_has_the_bits_of_machine_code(kind: str) -> None:
    """The first calls of each kernel, for records at the ends of each kind.

    Long texts take Python half a second a call.
    """
    with BothWays(most=6).installed() as ways:
        assert wide_program(kind, 1, 12) == []

    assert ways.compared


def test_index_before_an_array_is_found() -> None:
    """numpy and numba take it for one from the end."""
    x = np.ones(3)

    with BothWays().installed(), pytest.raises(DiffersError, match="an index of at least 0"):
        doubled_last(x, 0)


def test_different_ways_are_found() -> None:
    """The comparison is not blind."""
    with BothWays().installed(), pytest.raises(DiffersError, match="differs"):
        differing(np.ones(1))


def test_numbers_of_32_bits_meet_those_of_64() -> None:
    """numpy would round the result to 32 bits, because the other number is one of Python."""
    x = Single(0.1)

    assert (x + 1.0).dtype == (1.0 - x).dtype == np.float64
    assert (x * x).dtype == np.float32
    assert x * 0.5 == float(np.float32(0.1)) * 0.5


def test_python_runs_without_a_compiler() -> None:
    """numba is not even loaded, and the model is the same."""
    found = [ran(LEARN, way) for way in ("interpreted", "checked", "compiled")]

    assert [text.split()[0] for text in found] == ["False", "False", "True"]
    assert len({text.split()[1] for text in found}) == 1


def test_unknown_way_is_refused() -> None:
    """In one line, at the first call; for a command it is a mistake, and no bug."""
    with pytest.raises(subprocess.CalledProcessError) as failed:
        ran(LEARN, "fast")

    assert f"stream.errors.SchemaError: {VARIABLE} expects one of" in failed.value.stderr


def test_kernel_has_a_fixed_number_of_arguments() -> None:
    """While it compiles, numba would call Python with one tuple in their place."""

    def many(*values: float) -> float:
        return values[0]

    with pytest.raises(TypeError, match="many: a kernel takes no"):
        Kernel(many, {})


def test_copy_of_a_kernel_is_the_kernel() -> None:
    """What holds one can be copied and pickled."""
    assert copy.deepcopy(doubled_last) is doubled_last
    assert pickle.loads(pickle.dumps(doubled_last)) is doubled_last


def test_result_is_that_of_machine_code() -> None:
    """Numbers of Python and plain arrays."""
    found = Interpreter(checked=True).run(doubled_last.py_func, (np.ones(3), 1))

    assert found is None


def ran(program: str, way: str) -> str:
    """What a program prints."""
    command = [sys.executable, "-c", f"import os; os.environ[{VARIABLE!r}] = {way!r}\n{program}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return done.stdout
