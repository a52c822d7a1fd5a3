"""The pure part of `headwater replay`: where labels are, and the order of records."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from consumers.base.errors import ConfigError
from consumers.base.records import Outgoing
from consumers.config import Config, parse
from consumers.offline.evaluate import batches, late_labels
from consumers.offline.feed import LateLabels

LATE = 'labels = "told"'


def configured(label: str) -> Config:
    """A configuration whose labels are there."""
    return parse(
        f"""
        name = "pages"
        input = {{ transport = "memory:none", observations = "seen", {label} }}
        model = {{ type = "GaussianNB" }}
        """
    )


def test_records_of_one_time_come_before_the_labels_of_that_time() -> None:
    """Also across the end of a batch: the merge is the service's."""
    topics = ["seen", "told", "seen", "told", "seen"]
    feed = [Outgoing(t, f"{t}{i}".encode(), b"{}", 5) for i, t in enumerate(topics)]
    feed.append(Outgoing("seen", b"later", b"{}", 6))

    cut = [list(b.keys) for b in batches(feed, "seen", ["told"], 2)]
    assert cut == [[b"seen0", b"seen2"], [b"seen4", b"told1"], [b"told3", b"later"]]


def test_large_records_are_read_a_few_at_a_time() -> None:
    """A batch ends at its bytes, and no more is read before it is asked for."""
    read: list[int] = []

    def feed() -> Iterator[Outgoing]:
        for n in range(100):
            read.append(n)
            yield Outgoing("seen", b"%d" % n, b"x" * 1000, n)

    found = batches(feed(), "seen", [], 1000, max_bytes=5000)

    assert len(next(found).keys) <= 6
    assert len(read) <= 8
    assert sum(len(batch.keys) for batch in found) >= 94


@pytest.mark.parametrize(
    ("declared", "label", "delay", "fields", "expected"),
    [
        ('label = "y"', None, None, "", None),
        ('label = "y"', "y", None, "", None),
        ('label = "y"', "z", None, "", LateLabels("seen-labels", "z", 0)),
        ('label = "y"', None, 0, "", LateLabels("seen-labels", "y", 0)),
        (LATE, None, None, ["label"], LateLabels("told", "label", 0)),
        (LATE, "z", 9, ["label"], LateLabels("told", "z", 9)),
        (LATE, "z", timedelta(1), "", LateLabels("told", "z", timedelta(1))),
    ],
)
def test_where_the_label_is_and_when_it_comes(declared, label, delay, fields, expected) -> None:
    """Inside only where the configuration says so and the command does not say otherwise."""
    settings = configured(declared)

    assert late_labels(settings, label=label, delay=delay, fields=fields) == expected


def test_no_guess_is_made_about_the_label() -> None:
    """It names the fields there are."""
    settings = configured(LATE)

    with pytest.raises(ConfigError, match=r"--label FIELD.*fields are a, b"):
        late_labels(settings, label=None, delay=5, fields=["b", "a"])
