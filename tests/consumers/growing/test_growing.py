"""Time grows with the input, not with its square: the rule, and what was found by it."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.consumers.growing.kept import kept
from tests.consumers.growing.mails import ENVELOPES, MAILS
from tests.consumers.growing.markup import MARKUPS
from tests.consumers.growing.records import RECORDS
from tests.consumers.growing.rule import SHORTEST, Construct, repeated, too_steep

CONSTRUCTS = MAILS | ENVELOPES | MARKUPS | RECORDS
LARGEST = 1 << 16
# Each was quadratic, and is so at this size if its bound or its reader is taken out.
FOUND = (
    *("HTML, attributes, distinct", "HTML, attributes, NULs", "HTML, attributes, slashes"),
    *("HTML, fonts and paragraphs", "HTML, links in tables in links"),
    *("mail, Content-Type in quotes: names", "mail, file name: empty ones"),
    *("mail, part: alternatives of one page", "JSON, names twice"),
    *("Avro, decimal", "Avro, whole decimal"),
    *("HTML, style, color: '(' before ''", "HTML, style, font-size: '1' before 'x'"),
    *("HTML, style, background: 'a(' before ''", "HTML, style, color: ' ' before '!'"),
    *("HTML, rules of all elements", "HTML, tests of attributes"),
)
# Each stayed in a cache that was bounded in entries only.
STAYED = (
    *("mail, header: long name", "mail, Content-Type: one name", "HTML, targets"),
    "HTML, long colour",
)


def timed(cost: Callable[[int], float]) -> tuple[Construct, Callable[[], float]]:
    """A construct whose reading takes so many seconds for so many bytes, and its clock."""
    now = 0.0

    def read(value: bytes) -> None:
        nonlocal now
        now += cost(len(value))

    return Construct(repeated(b"", b"a"), read), lambda: now


@pytest.mark.parametrize(
    ("cost", "steep"),
    [
        (lambda size: size / 1000, False),
        (lambda size: 1.0 + size / 1000, False),
        (lambda size: 1.0, False),
        (lambda size: size**2 / 1000, True),
        (lambda size: size**1.2 / 1000, True),
        (lambda size: size / 1000 + size**2 / 100_000, True),
        (lambda size: size / 1000 * (1.5 if size > 200 else 1.0), False),
        (lambda size: size / 1000 * (2.0 if size > 200 else 1.0), True),
        (lambda size: size / 1000 * (1.5 if size > 200 else 1.0) * size**0.2, True),
        (lambda size: min(size, 64) ** 2 / 1000 + size / 1000, True),
        (lambda size: min(size, 64) ** 2 * SHORTEST / 64**2 / 2, False),
    ],
)
def test_steep_times_are_found(cost: Callable[[int], float], steep: bool) -> None:
    """A square, also below a bound; not where all times are short."""
    construct, clock = timed(cost)
    found, longest = too_steep(construct, 1 << 12, clock)

    assert bool(found) == steep
    assert longest == pytest.approx(cost(1 << 12)) or steep


def test_other_work_is_not_taken_for_growth() -> None:
    """Half of the times are up to ten times as long."""
    rng = random.Random(3)
    construct, clock = timed(lambda size: size / 1000 * (1 if rng.random() < 0.5 else 10))

    assert too_steep(construct, 1 << 12, clock)[0] == ""


def test_every_construct_grows() -> None:
    """Or its walk would not end."""
    for name, construct in CONSTRUCTS.items():
        sizes = [len(construct.made(n)) for n in (8, 64, 512)]
        assert sizes == sorted(set(sizes)), name


@pytest.mark.parametrize("name", FOUND)
def test_what_was_quadratic_is_not(name: str) -> None:
    """The short form of `tests.long.proportion`, which walks every construct."""
    assert too_steep(CONSTRUCTS[name], LARGEST)[0] == ""


@pytest.mark.parametrize("name", STAYED)
def test_what_was_kept_is_not(name: str) -> None:
    """Thousands of mails with long texts took the memory of the process."""
    assert kept(CONSTRUCTS[name]) == ""


def test_what_stays_is_found() -> None:
    """A cache that is bounded in entries keeps whole inputs; one of what was read does not."""
    kept_values: list[bytes] = []

    def size(value: bytes) -> None:
        kept_values.append(value + b"!")

    assert kept(Construct(repeated(b"", b"a"), size))
    assert kept(Construct(repeated(b"", b"a"), len)) == ""
