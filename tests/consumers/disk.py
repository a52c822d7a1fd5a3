"""A disk that fails at one step: full, broken, short of breath, or without power.

It stands in for the `os` module of `consumers.snapshots.places`. After a power cut nothing of the
process runs on, and what was never fsynced is lost as the seed says: bytes of a file, the rename of
one.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random
from typing import Any

__all__ = ["FAULTS", "FailingOs", "PowerCutError"]

FAULTS = ("enospc", "eio", "short", "power")
_STEPS = ("open", "write", "fsync", "close", "replace", "mkdir", "unlink", "listdir")


class PowerCutError(BaseException):
    """The machine is off."""


class FailingOs:
    """The `os` module, one call of which fails.

    Parameters
    ----------
    fault
        One of `FAULTS`; `short` lets every write take a few bytes only.
    step
        Which call fails, counted from 0; -1: none.
    seed
        What a power cut takes.
    """

    def __init__(self, fault: str, step: int, seed: int = 0) -> None:
        self.fault, self.step, self.calls = fault, step, 0
        self._random, self._off = Random(seed), False
        self._paths: dict[int, Path] = {}
        self._synced: dict[Path, int] = {}  # bytes of a file that would survive
        self._renamed: list[tuple[Path, Path, bytes | None]] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in _STEPS:
            return real

        def step(*args: Any, **kwargs: Any) -> Any:
            self._count(name, args)
            return getattr(self, f"_{name}", real)(*args, **kwargs)

        return step

    def _count(self, name: str, args: tuple[Any, ...]) -> None:
        if self._off:
            raise PowerCutError
        self.calls += 1
        if self.calls - 1 != self.step or self.fault == "short":
            return
        if name == "write" and self.fault != "power":
            os.write(args[0], bytes(args[1])[: len(args[1]) // 2])
        if name == "close" and self.fault != "power":
            os.close(args[0])  # a close that fails has closed
        if self.fault == "power":
            self._off = True
            raise PowerCutError
        code = errno.ENOSPC if self.fault == "enospc" else errno.EIO
        raise OSError(code, os.strerror(code))

    def _open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        descriptor = os.open(path, flags, mode)
        self._paths[descriptor] = Path(path)
        if flags & os.O_WRONLY:
            self._synced[Path(path)] = 0
        return descriptor

    def _write(self, descriptor: int, data: memoryview) -> int:
        return os.write(descriptor, data[:1000] if self.fault == "short" else data)

    def _fsync(self, descriptor: int) -> None:
        path = self._paths[descriptor]
        if path.is_dir():
            self._renamed.clear()
        else:
            self._synced[path] = path.stat().st_size
        os.fsync(descriptor)

    def _replace(self, old: Path, new: Path) -> None:
        self._renamed.append((old, new, new.read_bytes() if new.exists() else None))
        os.replace(old, new)
        self._synced[new] = self._synced.pop(old, 0)

    def settle(self) -> None:
        """The power comes back: what was not on the disk is gone, or half gone."""
        self._off = True
        for path, size in self._synced.items():
            if path.exists() and path.stat().st_size > size:
                data = path.read_bytes()
                cut = self._random.randint(size, len(data))
                zeros = b"\0" * (len(data) - cut) if self._random.random() < 0.5 else b""
                path.write_bytes(data[:cut] + zeros)
        for old, new, before in reversed(self._renamed):
            if self._random.random() < 0.5:
                os.replace(new, old)
                if before is not None:
                    new.write_bytes(before)
