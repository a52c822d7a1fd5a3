"""Doubles in JSON: the shortest text, in the bytes of msgspec."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from numba import njit

from consumers.codecs._kernels.doubles import put_whole
from tests.consumers.codecs.doubles import differences, edges, kinds, texts


def test_edges_have_the_shortest_text() -> None:
    """Every power of two and ten, the doubles beside them, denormals, changes of notation."""
    assert list(differences(edges())) == []


@pytest.mark.parametrize(("name", "x"), [pytest.param(*k, id=k[0]) for k in kinds(200_000, 19)])
def test_random_doubles_have_the_shortest_text(name, x) -> None:
    """Bits, denormals, integers and halves, decimals, probabilities."""
    assert list(differences(x)) == []


def test_no_number_is_null() -> None:
    """As msgspec writes NaN and infinities."""
    x = np.array([np.nan, np.inf, -np.inf])

    assert texts(x) == [msgspec.json.encode(value) for value in x.tolist()] == [b"null"] * 3


def test_integers_are_written_whole() -> None:
    """Every length, both ends of 64 bits."""

    @njit
    def write(number, out):
        return put_whole(out, 0, number)

    near = [10**e + d for e in range(19) for d in (-1, 0, 1)] + [2**63 - 1, -(2**63), 1 - 2**63]
    out = np.empty(20, dtype=np.uint8)
    for number in near + [-n for n in near if n > -(2**63)]:
        assert out[: write(number, out)].tobytes() == str(number).encode()
