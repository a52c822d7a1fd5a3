"""The process that compiles kernels for its parent: `python -P -m stream.kernel.child`.

Each line of the input names a kernel and the types of its arguments. The answer is an empty line,
or why the kernel could not be compiled. The kernel is then kept. The process ends with its input.
"""

from __future__ import annotations

import os
import sys
from functools import reduce
from importlib import import_module
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO

__all__ = ["main"]


def main() -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a library prints is no answer
    lines: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_listen, args=(sys.stdin.buffer, lines), daemon=True).start()
    while True:
        answers.write(_compiled(lines.get()).encode() + b"\n")


def _listen(requests: BinaryIO, lines: SimpleQueue[bytes]) -> None:
    """End at once where the parent has ended, also while a kernel compiles."""
    for line in requests:
        lines.put(line)
    os._exit(0)


def _compiled(line: bytes) -> str:
    """Why it could not be compiled, or empty."""
    module, name, types = line.decode().split()
    try:
        kernel = reduce(getattr, name.split("."), import_module(module))
        from numba.core.serialize import loads

        kernel.machine.compile(loads(bytes.fromhex(types)))
    except Exception as error:  # compiled in place, it says what is wrong
        return f"{type(error).__name__}: {error}".replace("\n", " ")
    return ""


if __name__ == "__main__":
    main()
