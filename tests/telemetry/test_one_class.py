"""The sentence that only one class was ever labelled, and where it is said."""

from __future__ import annotations

import logging

import pytest

from consumers.shard.views import Committed, ShardView
from consumers.telemetry.advice import only_one_class
from consumers.telemetry.event_logger import EventLogger
from consumers.web.status_feed import StatusFeed
from tests.telemetry.test_prometheus import telemetry
from tests.telemetry.views import quality, view
from tests.web.test_status import document, status_feed

SAID = (
    "only one class was ever labelled: all 100 labels so far are 'spam', so every prediction is "
    "that class; send labels of the other classes too, or set [labels] silence if users report one "
    "class only"
)


def spam(learned: int) -> ShardView:
    """A view after labels of one class."""
    return view(quality=quality(("spam",), [[learned]]), learned=learned)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (view(learned=100), None),  # two classes
        (view(quality=quality((), []), learned=0), None),
        (spam(99), None),
        (spam(100), SAID),
    ],
)
def test_sentence_is_said_of_many_labels_of_one_class(seen, expected) -> None:
    """In the metric too."""
    _, registry = telemetry(seen)

    assert only_one_class(seen) == expected
    found = registry.get_sample_value("headwater_only_one_class", {"shard": "0"})
    assert found == (expected is not None)


def test_log_says_it_once_and_at_the_end(caplog) -> None:
    """Not with each commit, and not after another class came."""
    caplog.set_level(logging.INFO, logger="headwater")
    event_logger = EventLogger(lambda: 0.0)
    commit = Committed(10, 10, 10, {}, {}, 0.1, 3)

    for after in (spam(99), spam(100), spam(120), view(learned=121)):
        event_logger.committed(commit, after)
    assert [message for message in caplog.messages if "one class" in message] == [SAID]

    event_logger.ended("drained", 3, spam(100))
    event_logger.ended("drained", 3, view(learned=121))
    assert [message for message in caplog.messages if "one class" in message] == [SAID, SAID]


def test_accuracy_of_one_scored_class_is_called_its_recall(caplog) -> None:
    """With silence the log said "accuracy 32.7% (majority 0.3%)" of a filter that worked."""
    caplog.set_level(logging.INFO, logger="headwater")
    silent = view(
        quality=quality(("spam", "ham"), [[33, 67], [0, 0]]), labels={"joined": 9, "silence": 9}
    )
    both = view(quality=quality(("spam", "ham"), [[33, 67], [0, 1]]), labels={"silence": 9})
    words = "only labels 'spam' are scored, because silence is not: the accuracy is their recall"

    for shown in (silent, both):
        EventLogger(lambda: 0.0).ended("drained", 3, shown)
    posted: StatusFeed = status_feed()
    posted.recovered(silent)

    assert [words in message for message in caplog.messages] == [True, False]
    assert document(posted).shard.only_one_class == words
    assert only_one_class(silent) is None


def test_document_of_the_page_has_the_sentence() -> None:
    """The page shows it where it says that a model is worse than guessing."""
    posted: StatusFeed = status_feed()
    assert document(posted).shard.only_one_class is None

    posted.recovered(spam(100))

    assert document(posted).shard.only_one_class == SAID
