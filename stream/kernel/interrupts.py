"""Ctrl-C waits until what belongs together is written.

Rule: several kernels learn a record, with Python between them. The handler of a signal runs there,
and that of Ctrl-C raises an exception, which would leave half of a record in the learner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from signal import SIGINT, getsignal, signal
from threading import current_thread, main_thread
from typing import Any

__all__ = ["interruptible", "uninterrupted"]


class uninterrupted:  # noqa: N801  read as `with uninterrupted():`
    """A block after which the handler of Ctrl-C runs. The second Ctrl-C does not wait.

    Only the main thread runs handlers, so a block in another one has no effect.
    """

    __slots__ = ("came", "handler")

    handler: Callable[[int, Any], Any] | None
    came: bool

    def __enter__(self) -> None:
        self.handler = None
        self.came = False
        handler = getsignal(SIGINT)
        if callable(handler) and _block_of(handler) is None and current_thread() is main_thread():
            self.handler = handler  # before ours is there, which calls it
            signal(SIGINT, self.note)

    def __exit__(self, *_: object) -> None:
        if self.handler is not None:
            signal(SIGINT, self.handler)
            if self.came:
                self.handler(SIGINT, None)

    def note(self, number: int, frame: Any) -> None:
        """The handler in the block."""
        if self.came and self.handler is not None:
            self.handler(number, frame)
        self.came = True


@contextmanager
def interruptible() -> Iterator[None]:
    """In a block of `uninterrupted`: one that waits for long, which Ctrl-C ends."""
    note = getsignal(SIGINT)
    block = _block_of(note)
    if block is None or block.handler is None or current_thread() is not main_thread():
        yield
        return
    signal(SIGINT, block.handler)
    try:
        if block.came:
            block.came = False
            block.handler(SIGINT, None)
        yield
    finally:
        signal(SIGINT, note)


def _block_of(handler: Any) -> uninterrupted | None:
    block = getattr(handler, "__self__", None)
    return block if isinstance(block, uninterrupted) else None
