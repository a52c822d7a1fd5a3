"""Kernels compile in child processes, while the process that calls them runs them as Python.

Rule: a child compiles and keeps, and this process loads what was kept, between two calls. Both ways
give the same bits, so it never matters when that is. One process has children for a cache; others
look there for what it makes. Children end with their parent, because their pipe from it ends.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from select import select
from subprocess import DEVNULL, PIPE, Popen
from threading import Condition, Lock, Thread
from types import CodeType
from typing import Any, NamedTuple, Protocol

from stream.kernel.interpreted import names_of
from stream.kernel.room import free_bytes, processors

__all__ = ["Background", "Pace", "Progress", "most_children", "weight"]

MOST_CHILDREN = 2
CHILD_BYTES = 400_000_000  # what a child takes at most
SPARE_BYTES = 100_000_000  # for the process itself
LINGER_SECONDS = 2.0  # how long a child without work waits for more
LOOK_SECONDS = 1.0  # between two looks at what another process has kept
END_SECONDS = 0.5  # how long the end of the process waits for a kernel that is being loaded
NICE = 5  # of a child, where the process that serves comes first
NICE_SECONDS = 0.5  # between two looks whether the process waits for its children
REPORT_SECONDS = 10.0  # from the first line to the second; then twice as long each time
LEAST_SECONDS = 1.0  # of what is worth a line at its end
TRIES = 2  # of a kernel whose child ends
LOCK_FILE = "compiling.lock"
COMMAND = ("-P", "-m", "stream.kernel.child")


class Compilable(Protocol):
    """A kernel whose machine code is kept."""

    py_func: Callable[..., Any]

    @property
    def machine(self) -> Any:
        """The kernel as numba calls it."""


Types = tuple[Any, ...]  # of the arguments, as numba names them
Wanted = tuple[Compilable, Types]


class Progress(NamedTuple):
    """How many kernels were wanted, and how many of them are machine code by now."""

    done: int
    wanted: int

    def __str__(self) -> str:
        return f"kernels compile in the background, {self.done} of {self.wanted}"


class Pace:
    """When a line about the progress is due: now, after 10 s, after 20 s more, and so on.

    On a busy machine kernels are wanted one after the other for minutes, and a line every 10 s is
    most of what a command prints.

    Examples
    --------
    >>> pace = Pace(clock=iter(range(100)).__next__)
    >>> [second for second in range(100) if pace.due()]
    [0, 10, 30, 70]
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._next, self._apart = clock, 0.0, REPORT_SECONDS

    def due(self) -> bool:
        """Whether a line is due; then the next one is later."""
        now = self._clock()
        if now < self._next:
            return False
        self._next, self._apart = now + self._apart, 2 * self._apart
        return True


class Background:
    """What is wanted as machine code, and the children that make it.

    Parameters
    ----------
    quiet
        Called when nothing is wanted any more.
    variables
        Variables of the children.

    Attributes
    ----------
    why
        Why there are no children; empty if there can be some.
    loading
        Held by a thread of this class while it loads a kernel.
    note
        What happens meanwhile, for the first line.
    report
        Called with a line at the beginning, then at a `Pace`, and at the end of what it began with.
    """

    def __init__(self, quiet: Callable[[], None], variables: Mapping[str, str]) -> None:
        self.why = self.note = ""
        self.report: Callable[[str], None] | None = None
        self.loading = Lock()
        self._quiet, self._variables = quiet, variables
        self._changed = Condition()
        self._queue: dict[Wanted, int] = {}  # with the failures of each
        self._failed: set[Wanted] = set()  # they compile in place, which says why
        self._working: list[Compilable] = []
        self._children: list[Child] = []
        self._manager: Thread | None = None
        self._held = self._ended = False
        self._waiting = 0  # threads
        self._most: int | None = None
        self._done = self._wanted = 0
        self._began, self._pace = 0.0, Pace()
        self._open = False  # a line was reported since nothing was wanted
        atexit.register(self.end)

    @property
    def waits(self) -> bool:
        """Whether something is wanted, which runs as Python meanwhile."""
        return bool(self._queue)

    @property
    def collects(self) -> bool:
        """Whether nothing is compiled before the end of a block."""
        return self._held

    def progress(self) -> Progress:
        """That since nothing was wanted."""
        with self._changed:
            return Progress(self._done, self._wanted)

    def want(self, kernel: Compilable, types: Types) -> bool:
        """Have it compiled for these types; False if that must happen in place."""
        with self._changed:
            if (kernel, types) in self._queue:
                return True
            if (kernel, types) in self._failed or not self._has_room():
                return False
            if not self._queue:
                self._done = self._wanted = 0
                self._began, self._open = time.monotonic(), False
            self._queue[kernel, types] = 0
            self._wanted += 1
            self._start()
            return (kernel, types) in self._queue

    def wants(self, kernel: Compilable, types: Types) -> bool:
        """Whether its machine code is still to come."""
        return (kernel, types) in self._queue

    @contextmanager
    def held(self) -> Iterator[None]:
        """Only collect what the block wants, so that the costliest of all is the first."""
        self._held = True
        try:
            yield
        finally:
            with self._changed:
                self._held = False
                self._start()
            if not self._queue:  # nothing was, or nothing can be compiled there
                self._quiet()

    def forget(self) -> None:
        """Compile nothing of what is wanted now."""
        with self._changed:
            self._queue.clear()
            self._done = self._wanted = 0
        self._quiet()

    def wait(self, wanted: Wanted | None = None, stopped: Callable[[], bool] = bool) -> None:
        """Wait until this, or all that is wanted, is machine code or has failed.

        What the process does at its exit does not wait, because the children have ended.
        """
        with self._changed:
            self._waiting += 1
            try:
                while (wanted in self._queue if wanted else self._queue) and not self._ended:
                    if stopped():
                        return
                    self._changed.wait(0.1)
            finally:
                self._waiting -= 1

    def end(self) -> None:
        """End the children, and then the threads that talk to them."""
        with self._changed:
            self._ended = True
            for child in self._children:
                child.kill()
            self._changed.notify_all()
            manager = self._manager
        if manager is not None:
            manager.join(END_SECONDS)

    def forked(self) -> None:
        """In a fork: leave the children to the process that started them."""
        atexit.unregister(self.end)
        for child in self._children:
            child.leave()
        self._children.clear()

    def _has_room(self) -> bool:
        if self._most is None:
            self._most = most_children()
            self.why = "" if self._most else "there is no memory for a process that compiles"
        return self._most > 0

    def _start(self) -> None:
        """Have the thread look at the queue."""
        self._changed.notify_all()
        if self._queue and self._manager is None and not self._held and not self._ended:
            manager = Thread(target=self._manage, name="headwater-kernels", daemon=True)
            if _started(manager):
                self._manager = manager
            else:
                self._give_up()

    def _give_up(self) -> None:
        """From now on kernels compile in place."""
        self._most = 0
        self._failed.update(self._queue)
        self._queue.clear()
        self._done = self._wanted = 0
        self._changed.notify_all()

    def _manage(self) -> None:
        """Own the lock and the children while something is wanted."""
        if self.report is not None and self._pace.due():
            self._open = True
            self.report(f"{self.progress()}; {self.note}")
        from stream.kernel.compiled import cache_folder  # the kernels have loaded it

        try:
            lock = Path(cache_folder(most_children), LOCK_FILE)
        except RuntimeError:  # no folder of this package can be written, but one of a kernel
            lock = None
        while True:
            with self._lock(lock) as owned:
                if owned:
                    more = range(1, self._most or 1)
                    threads = [Thread(target=self._work, daemon=True) for _ in more]
                    started = [thread for thread in threads if _started(thread)]
                    self._work()
                    for thread in started:
                        thread.join()
            with self._changed:
                if self._ended or not self._queue:
                    self._manager = None
                    return

    @contextmanager
    def _lock(self, path: Path | None) -> Iterator[bool]:
        """Whether this process has children for the cache. While another one has, look there.

        Without a lock it has some: the file may be that of another user.
        """
        try:
            opened = None if path is None else path.open("ab")
        except OSError:
            opened = None
        if opened is None:
            yield not self._ended
            return
        with opened as file:
            while not self._locked(file.fileno()):
                for kernel, types in list(self._queue):
                    if self._loads(kernel, types):
                        self._finished((kernel, types))
                with self._changed:
                    if self._ended or not self._queue:
                        yield False
                        return
                    self._changed.wait(LOOK_SECONDS)
            yield not self._ended

    @staticmethod
    def _locked(number: int) -> bool:
        """A lock that a fork of this process does not have, and that ends with it."""
        try:
            fcntl.lockf(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:  # a file system without locks
            return True
        return True

    def _work(self) -> None:
        """Have kernels compiled by a child, the costliest first."""
        child: Child | None = None
        while (wanted := self._take()) is not None:
            kernel, types = wanted
            why: str | None = None
            if not self._loads(kernel, types):
                try:
                    if child is None:
                        child = self._child()
                    why = child.compiled(kernel, types, lambda: self._waiting > 0)
                except OSError:  # it has ended, or cannot begin
                    pass
                except Exception as error:  # there is no program, or no name for the types
                    why = str(error)
                if why is None and child is not None:
                    self._close(child)
                    child = None
            with self._changed:
                self._working.remove(kernel)
            if self._loads(kernel, types):
                self._finished(wanted)
            else:
                self._fails(wanted, for_good=why is not None)
        if child is not None:
            self._close(child)

    def _loads(self, kernel: Compilable, types: Types) -> bool:
        """Load what was kept, if it was."""
        with self.loading:
            return bool(kernel.machine.load(types))

    def _take(self) -> Wanted | None:
        """The costliest that is wanted and that no other child compiles; None after a while."""
        until = time.monotonic() + LINGER_SECONDS
        with self._changed:
            while not self._ended:
                found = [each for each in self._queue if each[0] not in self._working]
                if found and not self._held:
                    best = max(found, key=lambda each: weight(each[0].py_func))
                    self._working.append(best[0])
                    return best
                left = until - time.monotonic()
                if left <= 0.0 and not self._queue:
                    return None
                self._changed.wait(max(left, 0.1))
        return None

    def _child(self) -> Child:
        with self.loading, self._changed:  # a fork would keep pipes of which it does not know
            made = Child(self._variables)
            self._children.append(made)
            if self._ended:
                made.kill()
        return made

    def _close(self, child: Child) -> None:
        child.close()
        with self._changed:
            self._children.remove(child)

    def _finished(self, wanted: Wanted) -> None:
        with self._changed:
            if self._queue.pop(wanted, None) is None:
                return
            self._done += 1
        self._tell()

    def _fails(self, wanted: Wanted, *, for_good: bool) -> None:
        with self._changed:
            if self._ended or wanted not in self._queue:
                return
            self._queue[wanted] += 1
            if not for_good and self._queue[wanted] < TRIES:
                return
            del self._queue[wanted]
            self._wanted -= 1
            self._failed.add(wanted)
        self._tell()

    def _tell(self) -> None:
        """One fewer is wanted."""
        line = ""
        with self._changed:
            self._changed.notify_all()
            progress = Progress(self._done, self._wanted)
            seconds = time.monotonic() - self._began
            if not self._queue and self._open and seconds >= LEAST_SECONDS:
                line = f"kernels are compiled: {progress.done} in {seconds:.0f} s"
            elif self._queue and self._pace.due():
                line, self._open = str(progress), True
        if not self.waits:
            self._quiet()
        if line and self.report is not None:
            self.report(line)


class Child:
    """A process that compiles one kernel after the other, and keeps them."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        places = [place or os.getcwd() for place in sys.path]
        self._nice = 0
        self._process = Popen(  # noqa: S603  this very program
            [sys.executable, *COMMAND],
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env={**os.environ, **variables, "PYTHONPATH": os.pathsep.join(places)},
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for its parent
        )

    def compiled(self, kernel: Compilable, types: Types, awaited: Callable[[], bool]) -> str | None:
        """Why it could not be compiled, or empty; None if the child has ended.

        It gives way to this process once nobody waits for it. That cannot be taken back.
        """
        from numba.core.serialize import dumps  # loaded by the kernel

        assert self._process.stdin is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101
        function = kernel.py_func
        words = function.__module__, function.__qualname__, dumps(types).hex()
        self._process.stdin.write(" ".join(words).encode() + b"\n")
        while not self._nice and not select([self._process.stdout], [], [], NICE_SECONDS)[0]:
            if not awaited():
                self._gives_way()
        answer = self._process.stdout.readline()
        return answer.decode().strip() if answer.endswith(b"\n") else None

    def _gives_way(self) -> None:
        self._nice = NICE
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, self._nice)

    def kill(self) -> None:
        """End it now, so that there is no answer."""
        self._process.kill()

    def close(self) -> None:
        """End it, and wait for that."""
        self._process.kill()
        self._process.communicate()

    def leave(self) -> None:
        """Close this process's ends of its pipes."""
        for end in (self._process.stdin, self._process.stdout):
            if end is not None:
                end.close()
        self._process.returncode = 0  # it is no child of this process


def most_children() -> int:
    """How many children there is room for."""
    free = free_bytes()
    by_memory = MOST_CHILDREN if free is None else max(0, free - SPARE_BYTES) // CHILD_BYTES
    return min(MOST_CHILDREN, max(1, int(processors())), by_memory)


def _started(thread: Thread) -> bool:
    """False if there can be no other thread, as at the exit of the process."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


@cache
def weight(function: Callable[..., Any]) -> int:
    """About what it costs to compile a kernel: the bytes of its code and of all that it calls."""
    found: set[Callable[..., Any]] = set()

    def add(one: Callable[..., Any]) -> None:
        found.add(one)
        known = one.__globals__
        for name in names_of(one.__code__):
            called = getattr(known.get(name), "py_func", None)
            if called is not None and called not in found:
                add(called)

    add(function)
    return sum(_bytes(one.__code__) for one in found)


def _bytes(code: CodeType) -> int:
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return len(code.co_code) + sum(map(_bytes, inner))
