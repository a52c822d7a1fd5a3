"""Whose login is checked next: random crowds, and no turn is ever lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest
from hypothesis import example

from consumers.web import access
from consumers.web.access import LoginQueue
from consumers.web.limits import Connection
from tests.seed import seeds


async def crowd(random: Random) -> tuple[int, Counter[str]]:
    """Logins that come, end, are cancelled and refused at random; how many were checked at once at
    most, and what became of them."""
    turns, checking, most = LoginQueue(), 0, 0
    became: Counter[str] = Counter()

    async def login(connection: Connection) -> None:
        nonlocal checking, most
        if not await turns.take(connection):
            became["refused"] += 1
            return
        checking += 1
        most = max(most, checking)
        try:
            for _ in range(random.randrange(3)):
                await asyncio.sleep(0)
            if random.random() < 0.5:
                turns.wrong(connection.source)
        finally:
            checking -= 1
            turns.give()
        became["checked"] += 1

    tasks: list[asyncio.Task[None]] = []
    for _ in range(60):
        connection = Connection(random.choice("abcde"), lambda: None)
        tasks.append(asyncio.create_task(login(connection)))
        for _ in range(random.randrange(3)):
            await asyncio.sleep(0)
        if random.random() < 0.2:
            random.choice(tasks).cancel()
        connection.ended = random.random() < 0.2
    done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
    became["cancelled"] = sum(isinstance(each, asyncio.CancelledError) for each in done)
    assert await turns.take(Connection("z", lambda: None)), "the turn was lost"
    return most, became


@example(seed=0)  # each of the three happens
@seeds(0.5)
def test_one_login_at_a_time_and_no_turn_is_lost(seed) -> None:
    """Whatever comes and goes: each login is checked, refused or cancelled, and the next can be."""
    most, became = asyncio.run(crowd(Random(seed)))

    assert most == 1
    assert became.total() == 60
    assert len(+became) == 3 or seed != 0


def served(order: list[str], wrong: dict[str, int]) -> list[str]:
    """The sources in the order their logins are checked, having come in this one."""

    async def run() -> list[str]:
        turns, found = LoginQueue(), []
        for source, count in wrong.items():
            for _ in range(count):
                turns.wrong(source)
        await turns.take(Connection("first", lambda: None))

        async def wait(name: str) -> None:
            if await turns.take(Connection(name[0], lambda: None)):
                found.append(name)
                turns.give()

        tasks = [asyncio.create_task(wait(name)) for name in order]
        await asyncio.sleep(0)
        turns.give()
        await asyncio.gather(*tasks)
        return found

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("order", "wrong", "expected"),
    [
        # A hundred of one address do not stand before one of another.
        (["g1", "g2", "g3", "h1"], {"g": 2}, ["h1", "g3", "g2", "g1"]),
        # Within an address the newest goes first.
        (["a1", "a2", "a3"], {}, ["a3", "a2", "a1"]),
        # The fewest wrong ones lately first, however late they came.
        (["a1", "b1", "c1"], {"a": 3, "b": 1, "c": 2}, ["b1", "c1", "a1"]),
    ],
)
def test_whose_turn_it_is(order: list[str], wrong: dict[str, int], expected: list[str]) -> None:
    """By wrong logins of the address, then by age."""
    assert served(order, wrong) == expected


def test_turn_of_a_cancelled_login_goes_to_the_next() -> None:
    """Also if its task has not seen yet that it is cancelled."""

    async def run() -> bool:
        turns = LoginQueue()
        await turns.take(Connection("a", lambda: None))
        left, gone = (
            asyncio.create_task(turns.take(Connection(source, lambda: None))) for source in "bc"
        )
        await asyncio.sleep(0)
        gone.cancel()
        turns.give()
        return await asyncio.wait_for(left, access.WAIT_SECONDS / 2)

    assert asyncio.run(run())


def test_waiting_is_bounded_and_the_fullest_address_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """One login of another address keeps its place in a crowd of any size."""
    monkeypatch.setattr(access, "WAITING", 5)
    found = served(["h1", *(f"g{n}" for n in range(20))], {})

    assert len(found) == 5
    assert "h1" in found


def test_wrong_logins_are_counted_for_few_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand addresses are remembered, the last that were wrong."""
    monkeypatch.setattr(access, "ADDRESSES", 3)
    turns = LoginQueue()
    counts = [turns.wrong(source) for source in "aabcdea"]

    assert counts == [1, 2, 1, 1, 1, 1, 1]
