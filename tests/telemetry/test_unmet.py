"""The sentence that labels find no observation, and where it is said."""

from __future__ import annotations

import pytest

from consumers.telemetry.advice import unmet_labels
from tests.telemetry.views import view


@pytest.mark.parametrize(
    ("labels", "early", "words"),
    [
        ({"joined": 50}, 49, None),  # few
        ({"joined": 51}, 49, None),
        ({"joined": 49}, 51, "do both topics use the same ids"),
        ({"early_expired": 200, "expired": 180}, 0, "180 observations expired before their label"),
        ({"late": 200, "expired": 180}, 0, "`headwater relearn` learns them with a larger horizon"),
        ({"late": 200, "evicted": 90, "expired": 8}, 0, "([labels] max_pending)"),
        ({"joined": 500, "expired": 10_000}, 0, None),  # nobody labels them
    ],
)
def test_sentence_says_why_labels_find_nothing(labels, early, words) -> None:
    """Other ids, or later than observations wait."""
    found = unmet_labels(view(labels=labels, early=early))

    assert (found is None) == (words is None)
    assert words is None or words in str(found)
