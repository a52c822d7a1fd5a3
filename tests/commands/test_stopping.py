"""Ctrl-C and SIGTERM: whatever the main thread is doing, the run ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from types import FrameType
from typing import Any

import pytest

from consumers.commands.run import stopping
from tests.waiting import PATIENCE, until


class Shot:
    """A trace function that raises a signal before the k-th instruction of what it traces."""

    def __init__(self, k: int, number: int, stop: threading.Event) -> None:
        self.k, self.number, self.stop, self.fired = k, number, stop, False

    def __call__(self, frame: FrameType, event: str, _: Any) -> Shot:
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.k -= 1
            # After `stop` is set a signal is a second one, which ends the process.
            if self.k < 0 and not self.fired and not self.stop.is_set():
                self.fired = True
                signal.raise_signal(self.number)
        return self


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [0.001, None])
def test_signal_at_any_instruction_of_a_wait_stops_the_run(number, seconds) -> None:
    """Also while the wait holds the lock of the event, so that a handler could not set it."""
    traced, k = sys.gettrace(), 0
    while True:
        stop = threading.Event()
        shot = Shot(k, number, stop)
        timer = threading.Timer(1.0, stop.set)  # ends the one wait into which no signal came
        with stopping(stop):
            if seconds is None:
                timer.start()
            sys.settrace(shot)
            try:
                stop.wait(seconds)
            finally:
                sys.settrace(traced)
            if shot.fired:
                assert stop.wait(PATIENCE), f"no stop after a signal at instruction {k}"
        timer.cancel()
        if not shot.fired:
            break
        k += 1

    assert k > 30


def test_run_without_a_signal_leaves_no_thread() -> None:
    """And the handlers are those of before."""
    before = signal.getsignal(signal.SIGTERM)
    threads = threading.active_count()
    with stopping(threading.Event()):
        assert signal.getsignal(signal.SIGTERM) is not before

    assert signal.getsignal(signal.SIGTERM) is before
    assert threading.active_count() == threads


def main_thread_waits() -> bool:
    """Whether it is in a function of `threading`, such as a join."""
    frame = sys._current_frames()[threading.main_thread().ident or 0]
    return frame.f_code.co_filename == threading.__file__


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_in_another_thread_stops_the_run(number) -> None:
    """The main thread waits for that thread, and no signal interrupts its wait."""
    stop, seen = threading.Event(), []

    def shard() -> None:
        until(main_thread_waits)
        signal.pthread_kill(threading.get_ident(), number)
        seen.append(stop.wait(PATIENCE))

    thread = threading.Thread(target=shard)
    with stopping(stop):
        thread.start()
        thread.join()

    assert seen == [True]


SECOND = """
import signal, sys, threading, time
from consumers.commands.run import stopping
from tests.waiting import PATIENCE, until

stop = threading.Event()
number = int(sys.argv[1])


def shard() -> None:
    signal.pthread_kill(threading.get_ident(), number)
    stop.wait()
    signal.pthread_kill(threading.get_ident(), number)
    time.sleep(600)


with stopping(stop):
    thread = threading.Thread(target=shard)
    thread.start()
    thread.join()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_in_another_thread_ends_the_process_by_that_signal(number) -> None:
    """Although the first one has not ended anything yet."""
    ran = subprocess.run(
        [sys.executable, "-c", SECOND, str(int(number))],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert ran.returncode == -number
    assert "second signal: ended at once" in ran.stderr


def test_other_signals_do_not_stop_the_run() -> None:
    """The interpreter writes every signal that has a handler into the pipe."""
    stop = threading.Event()
    old = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with stopping(stop):
            signal.raise_signal(signal.SIGUSR1)
            assert not stop.wait(0.2)
            signal.raise_signal(signal.SIGTERM)
            assert stop.wait(PATIENCE)
    finally:
        signal.signal(signal.SIGUSR1, old)
