"""A command of `headwater`, called in this process: a start takes a second, and a test has several.

Rule: a command that ends by itself is called here. What is killed, sent a signal or looked at while
it runs is a process (`tests.acceptance.service`), and so is one start of each command
(`tests/acceptance/test_installed.py`).

Nothing is left of a call, as nothing is left of a process: no thread, no log, no secret. No command
may show a traceback, whatever it was given; every call is looked at for one.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryFile
from unittest.mock import patch

from consumers.base import secrets
from consumers.telemetry.log import REPEATS
from headwater.cli import main

__all__ = ["call", "ended"]


def call(
    *arguments: str | Path, directory: Path | None = None, code: int | None = None
) -> CompletedProcess[str]:
    """Run `headwater …` to its end; its exit code and what it said.

    Parameters
    ----------
    directory
        The one it is called in; by default that of this process.
    code
        The exit code that it must have; by default any.
    """
    words = [str(argument) for argument in arguments]
    with (
        TemporaryFile("w+", encoding="utf-8") as out,  # files: the log is written to a descriptor
        TemporaryFile("w+", encoding="utf-8") as err,
        open(os.devnull, encoding="utf-8") as nothing,
    ):
        with (
            redirect_stdout(out),
            redirect_stderr(err),
            patch("sys.stdin", nothing),
            chdir(directory or Path.cwd()),
            _as_in_a_process(),
        ):
            found = main(words)
        out.seek(0)
        err.seek(0)
        return ended(CompletedProcess(words, found, out.read(), err.read()), code)


def ended(done: CompletedProcess[str], code: int | None) -> CompletedProcess[str]:
    """A command that has ended, which it must have without a traceback and with this code."""
    said = f"headwater {' '.join(map(str, done.args))}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in said, said
    assert code in (None, done.returncode), f"it ended with {done.returncode}: {said}"
    return done


@contextmanager
def _as_in_a_process() -> Iterator[None]:
    """Take away what the command leaves. A thread that would keep its process alive is an error."""
    known, root = set(secrets._known), logging.getLogger()
    handlers, threads = root.handlers[:], set(threading.enumerate())
    REPEATS._kinds.clear()
    try:
        yield
    finally:
        root.handlers[:] = handlers
        secrets._known.intersection_update(known)
    left = [t for t in threading.enumerate() if t not in threads and not t.daemon]
    assert not left, f"its process would not end: {left}"
