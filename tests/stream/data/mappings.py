"""What the tests of large arrays share."""

from __future__ import annotations

import sys

import pytest

resizes = pytest.mark.skipif(sys.platform != "linux", reason="mappings are copied there")


def no_memory(size: int):
    """What the system says."""
    raise MemoryError(size)
