"""Refuse memory limits of the process that are too low, before any library is loaded.

A library that gets no memory while it is loaded does not raise an error. OpenBLAS retries for ever
and holds the interpreter's lock, so not even SIGTERM ends the process. The C library and LLVM abort
the process. So each command first compares the limits with what it needs.
"""

from __future__ import annotations

import os
import resource

__all__ = ["MemoryLimitError", "check_limits", "one_blas_thread"]

_MIB = 2**20
# Measured with three challengers, drift detection and every kernel compiled: 1,150 and 617 MiB. The
# other commands load the same libraries but compile nothing: 303 and 86 MiB.
_LEARNING = frozenset(["audit", "demo", "rebuild", "replay", "rollback", "run"])
_NEEDED = {
    True: (("v", resource.RLIMIT_AS, 1536 * _MIB), ("d", resource.RLIMIT_DATA, 768 * _MIB)),
    False: (("v", resource.RLIMIT_AS, 448 * _MIB), ("d", resource.RLIMIT_DATA, 192 * _MIB)),
}


class MemoryLimitError(Exception):
    """A limit of this process is lower than what its libraries need."""


def one_blas_thread() -> None:
    """Make numpy and scipy load OpenBLAS with one thread, unless the environment sets a number.

    Both load their own OpenBLAS, and each thread reserves 32 MiB of address space on every core. No
    array here is large enough to gain from threads.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def check_limits(command: str) -> None:
    """Compare the limits of this process with what a command needs.

    Raises
    ------
    MemoryLimitError
        A limit is too low.
    """
    for letter, limit, needed in _NEEDED[command in _LEARNING]:
        allowed, _ = resource.getrlimit(limit)
        if allowed != resource.RLIM_INFINITY and allowed < needed:
            raise MemoryLimitError(
                f"not enough memory: `headwater {command}` needs `ulimit -{letter} "
                f"{needed // 1024}` ({needed // _MIB} MiB) or more, got {allowed // 1024}; raise "
                "the limit or remove it"
            )
