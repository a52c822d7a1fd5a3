"""Each bound of the models is explained."""

from __future__ import annotations

from consumers.codecs.schemas import SchemaBook
from consumers.commands.tables import _counts
from consumers.telemetry.advice import explained
from stream.checks.__main__ import shipped

RESULTS = {
    "labels": {"joined": 5},
    "pending": 0,
    "dead_letters": {},
    "bad_values": {},
    "dead_letter_details": {},
    "confusion": {"labels": ["a", "b"], "counts": [[3, 1], [1, 1]]},
    "unscored": 0,
    "drift": None,
    "keys": None,
    "fingerprint": "f",
    "pickles_left_out": False,
}


def test_every_bound_of_a_model_has_a_sentence() -> None:
    """Also those of the join and of the schemas."""
    found = {bound for learner in shipped() for bound in learner.overflows}
    others = {"labels", "reporters", "scored_keys", *SchemaBook().overflow}

    assert {"indicators", "features", "tokens"} <= found
    assert [bound for bound in found | others if not explained(bound)] == []


def test_replay_explains_what_is_beyond_a_bound() -> None:
    """Below the counts, and only what was reached."""
    overflows = {"indicators": 1_234, "classes": 0}

    lines = [text.plain for text in _counts({**RESULTS, "overflows": overflows})]

    at = lines.index("beyond bounds: indicators 1,234")
    assert lines[at + 1].startswith("  indicators: categories, words, or pairs of values ")
    assert sum("classes" in line for line in lines) == 0
