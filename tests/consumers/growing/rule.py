"""The rule: 2, 4 and 8 times the bytes take at most 1.3 times that many times the time.

Rule: only times of one run are compared, from 10 ms of the processor on. Sizes beyond a bound of
the code are compared too, so a quadratic part below the bound shows. Once, where an input leaves a
cache, twice the bytes may take 1.6 times twice the time: of 4 and 8 times, the steepest doubling up
to that is left out.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise

from consumers.base.errors import RecordError

__all__ = ["LARGEST", "Construct", "repeated", "too_steep"]

LARGEST = 1 << 18  # bytes of an input
SHORTEST = 0.010  # seconds from which times are compared
MOST = 1.3  # times linear
STEP = 1.6  # the same of one doubling
WINDOW = 3  # doublings: 8 times the bytes
ROUNDS, TRIES = 5, 3


@dataclass(frozen=True, slots=True)
class Construct:
    """An input of any size, and what reads it.

    Parameters
    ----------
    made
        The input with so many repetitions; twice as many are more bytes.
    read
        Reads it, and returns what was read. A RecordError is an answer too.
    """

    made: Callable[[int], bytes]
    read: Callable[[bytes], object]


def repeated(before: bytes, piece: bytes, after: bytes = b"") -> Callable[[int], bytes]:
    """Makes `piece` n times between two texts. Each `%d` in it is the number of the piece."""
    numbered = piece.count(b"%d")

    def made(n: int) -> bytes:
        if numbered:
            return before + b"".join(piece % ((i,) * numbered) for i in range(n)) + after
        return before + piece * n + after

    return made


def too_steep(
    construct: Construct,
    largest: int = LARGEST,
    clock: Callable[[], float] = time.thread_time,
) -> tuple[str, float]:
    """Where time grows faster than bytes, "" if nowhere; and the seconds of the longest input.

    Parameters
    ----------
    largest
        Bytes of the largest input.
    clock
        Seconds of the processor.
    """
    n, longest = 1, 0.0
    values: list[bytes] = []
    times: list[float] = []
    _seconds(construct.read, construct.made(1), 1, clock)  # the first one may load its parser
    with _uncollected():
        while len(value := construct.made(n)) <= largest:
            values, n = [*values[-WINDOW:], value], 2 * n
            times = [*times[-WINDOW:], _seconds(construct.read, value, 1, clock)]
            longest = max(longest, times[-1])
            first = next((i for i, once in enumerate(times) if once >= SHORTEST), len(times))
            pairs = [*pairwise(values[first:])]
            found = [
                b / a * len(small) / len(large)
                for (a, b), (small, large) in zip(pairwise(times[first:]), pairs, strict=True)
            ]
            for _ in range(TRIES):
                if not _is_steep(found):
                    break
                found = [_steepness(construct.read, *pair, clock) for pair in pairs]
            if _is_steep(found):
                sizes = ", ".join(f"{len(each):,}" for each in values[first:])
                shown = ", ".join(f"{each:.2f}" for each in found)
                return f"{sizes} bytes: {shown} times linear; {longest * 1000:.0f} ms", longest
    return "", longest


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the collector, as in the service, which calls it by bytes."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _is_steep(doublings: list[float]) -> bool:
    """Whether one of the last doublings, or their product without the steepest, is too much."""
    if not doublings:
        return False
    last = doublings[-1]
    return last > STEP or math.prod(sorted(doublings)[:-1]) > MOST


def _steepness(
    read: Callable[[bytes], object], small: bytes, large: bytes, clock: Callable[[], float]
) -> float:
    """How many times as long as in proportion to its bytes the large input takes.

    The least of some times of each, in turn: other work makes a time longer, never shorter. The
    small input is read as often as makes the large one, so that both fill the same caches.
    """
    of_small = of_large = math.inf
    for _ in range(ROUNDS):
        of_small = min(of_small, _seconds(read, small, 2, clock))
        of_large = min(of_large, _seconds(read, large, 1, clock))
    return of_large / of_small * 2 * len(small) / len(large)


def _seconds(
    read: Callable[[bytes], object], value: bytes, times: int, clock: Callable[[], float]
) -> float:
    """The seconds of reading it so many times. All that is read is kept until the end."""
    kept = []
    begun = clock()
    for _ in range(times):
        with suppress(RecordError):
            kept.append(read(value))
    return clock() - begun
