"""Limits of a process that are too low for the libraries: refused before any of them is loaded.

A library that gets no memory while it is loaded does not raise. OpenBLAS asks again for ever with
the interpreter's lock in its hands, so that not even SIGTERM ends the process; the C library and
LLVM abort it. So the limits are compared with what a command takes, first of all.
"""

from __future__ import annotations

import os
import resource

__all__ = ["MemoryLimitError", "check_limits", "one_blas_thread"]

_MIB = 2**20
# Measured with three challengers, drift and every kernel compiled: 1,150 and 617 MiB. The others
# load the same libraries but compile nothing: 303 and 86 MiB.
_LEARNING = frozenset(["audit", "demo", "rebuild", "replay", "rollback", "run"])
_NEEDED = {
    True: (("v", resource.RLIMIT_AS, 1536 * _MIB), ("d", resource.RLIMIT_DATA, 768 * _MIB)),
    False: (("v", resource.RLIMIT_AS, 448 * _MIB), ("d", resource.RLIMIT_DATA, 192 * _MIB)),
}


class MemoryLimitError(Exception):
    """A limit of this process is lower than what its libraries take."""


def one_blas_thread() -> None:
    """Have numpy and scipy load OpenBLAS with one thread, unless the environment says otherwise.

    Each thread reserves 32 MiB of addresses in each of the two, on every core there is, and
    nothing here is large enough to be shared out among threads.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def check_limits(command: str) -> None:
    """Compare this process's limits with what a command takes.

    Raises
    ------
    MemoryLimitError
        One of them is too low.
    """
    for letter, limit, needed in _NEEDED[command in _LEARNING]:
        allowed, _ = resource.getrlimit(limit)
        if allowed != resource.RLIM_INFINITY and allowed < needed:
            raise MemoryLimitError(
                f"not enough memory: `headwater {command}` needs `ulimit -{letter} "
                f"{needed // 1024}` ({needed // _MIB} MiB) or more, got {allowed // 1024}; raise "
                "the limit or remove it"
            )
