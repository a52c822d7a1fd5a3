"""Kafka's own transactions: what the promise is with each kind of broker, and by which rule."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import strategies as st

from tests.seed import seeds
from tests.simulation.broker import NUMBERED, PROTOCOLS, UNVERIFIED, VERIFIED
from tests.simulation.client import AGAIN, LIES
from tests.simulation.weather import STORMY
from tests.simulation.world import SMALL, Told, World, violations

# Requests that come late, and failures in the transaction that they come into.
LATE = {
    **STORMY,
    "end_repeated": 0.3,
    "offsets_repeated": 0.05,
    "died": 0.02,
    "undelivered": 0.03,
    "unacknowledged": 0.02,
}
TEARING = [3, 28, 38, *range(60)]  # seeds, of which some tear a transaction


@seeds(0.05, protocol=st.sampled_from(PROTOCOLS))
def test_late_requests_break_no_promise_on_any_broker(
    seed, protocol, expected, tmp_path_factory
) -> None:
    """The end of a transaction is sent once, and a failed owner has an epoch of its own."""
    directory = tmp_path_factory.mktemp("world")
    told = World(seed, directory, **SMALL, chances=LATE, protocol=protocol).run()

    assert violations(told, expected) == []


def first_wrong(directory, expected: Told, protocol: str, seeds: list[int]) -> list[str]:
    """What a client that sends the end again breaks, in the first of these worlds."""
    for n, seed in enumerate(seeds):
        options = {"chances": LATE, "lies": LIES | {AGAIN}, "protocol": protocol}
        told = World(seed, directory / str(n), **SMALL, **options).run()
        if found := violations(told, expected):
            return found
    return []


@pytest.mark.parametrize("protocol", [UNVERIFIED, VERIFIED])
def test_client_that_sends_the_end_again_tears_commits(protocol, expected, tmp_path) -> None:
    """A late copy commits what is there of the next commit: predictions without their journal
    record are made again, and a journal record without some of its predictions loses them."""
    found = first_wrong(tmp_path, expected, protocol, TEARING)

    assert any("missing" in line or "doubled" in line for line in found)


def test_client_that_sends_the_end_again_does_no_harm_where_transactions_are_numbered(
    expected, tmp_path
) -> None:
    """In the worlds that tear a transaction of the older protocol."""
    assert first_wrong(tmp_path, expected, NUMBERED, TEARING[:3]) == []


def test_requests_do_come_late(tmp_path) -> None:
    """Or the worlds would prove nothing."""
    worlds = (World(seed, tmp_path / str(seed), **SMALL, chances=LATE) for seed in range(3))
    faults = sum((world.run().faults for world in worlds), Counter())

    assert min(faults["end_repeated"], faults["offsets_repeated"]) > 0
