"""Calls that are made all the time cost no more than in proportion to the number of partitions.

Work is counted as the function calls of the calling thread: a number that no load changes. A call
whose work is quadratic makes 64 times as many with eight times the partitions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from consumers.base.records import Partition
from tests.waiting import PATIENCE

FEW, FACTOR = 12, 8
SLACK = 1.5  # besides the factor: dictionaries that grow, chunks that are cut otherwise


def work(call: Callable[[], Any]) -> int:
    """How many functions the call has called in this thread, of Python and of C."""
    count = 0

    def counted(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        call()
    finally:
        sys.setprofile(before)
    return count


def per_turn(call: Callable[[], Any], turns: int = 5) -> int:
    """The least work of a few calls: one of them may have had something special to do."""
    return min(work(call) for _ in range(turns))


@pytest.fixture
def inputs(log, make_topic, numbered):
    """Makes a topic of so many partitions, a record in each, and lists them."""

    def made(count: int) -> list[Partition]:
        topic = make_topic(f"in-{count}", count)
        log.append([record for n in range(count) for record in numbered(topic, 1, partition=n)])
        return [Partition(topic, n) for n in range(count)]

    return made


def at_the_ends(own, partitions, shard=0):
    """An owner that has been given every record."""
    owner = own(*partitions, shard=shard)
    found, deadline = 0, time.monotonic() + PATIENCE
    while found < len(partitions) and time.monotonic() < deadline:
        found += sum(map(len, owner.poll(max_records=100, timeout=0.2)))
    assert found == len(partitions)
    return owner


@pytest.mark.parametrize(
    "call",
    ["ends", "poll", "poll and skip"],
)
def test_turn_of_an_idle_owner_costs_in_proportion_to_its_inputs(own, inputs, call):
    """The loop makes these calls several times a second, whatever comes in."""
    calls = {
        "ends": lambda owner, _: owner.ends(),
        "poll": lambda owner, _: owner.poll(max_records=100, timeout=0),
        "poll and skip": lambda owner, some: owner.poll(max_records=100, timeout=0, skip=some),
    }
    few, many = inputs(FEW), inputs(FACTOR * FEW)
    small, large = at_the_ends(own, few), at_the_ends(own, many, shard=1)

    little = per_turn(lambda: calls[call](small, few[::2]))
    much = per_turn(lambda: calls[call](large, many[::2]))

    assert much <= SLACK * FACTOR * max(little, FEW)


def test_reading_costs_in_proportion_to_the_partitions(log, inputs, read_all):
    """A replay reads all inputs at once, each to an end of its own."""
    few, many = inputs(FEW), inputs(FACTOR * FEW)

    little = per_turn(lambda: read_all(log, few))
    much = per_turn(lambda: read_all(log, many))

    assert sum(len(chunk) for chunk in read_all(log, many)) == len(many)
    assert much <= SLACK * FACTOR * little
