"""Why a label is a dead letter: what was expected, and what was found."""

from __future__ import annotations

import json

from consumers.base.errors import RecordError
from stream.data.schema import LONGEST_LABEL, Label
from stream.errors import Reason
from stream.join.correction_rate import LABELS_PER_CORRECTION, MOST_CORRECTIONS

__all__ = ["refusal"]

SHOWN = 60  # characters of a label
KINDS = {
    str: f"text of at most {LONGEST_LABEL} characters",
    int: "a 64-bit integer",
    bool: "a truth value",
}


def refusal(label: object, reason: Reason, first: Label | None) -> RecordError:
    """The error that makes a label a dead letter.

    Parameters
    ----------
    label, reason
        The label and the rule that refused it.
    first
        The first learned label, which fixed the kind; None if it is not known.

    Examples
    --------
    >>> refusal(1, "label_kind", True).detail
    'expected a truth value, like the first label, got the integer 1'
    """
    if reason == "max_classes":
        why = "exceeds [model] max_classes, or the classes that fit max_state_bytes"
        return RecordError(reason, f"label {_shown(label)} {why}")
    if reason == "reporter_rate":
        return RecordError(
            reason, "its reporter sent more than [reporters] max_labels_per_hour in this hour"
        )
    if reason == "correction_rate":
        return RecordError(
            reason,
            f"{MOST_CORRECTIONS:,} labels are corrected at once, and one more for each "
            f"{LABELS_PER_CORRECTION} labels learned; send it again later",
        )
    if reason != "label_kind":
        return RecordError(reason, f"label {_shown(label)} was refused")
    if first is None:
        expected = "{}, {} or {}, of the kind of the first label".format(*KINDS.values())
    else:
        expected = f"{KINDS[type(first)]}, like the first label"
    return RecordError(reason, f"expected {expected}, got {_described(label)}")


def _described(label: object) -> str:
    kind = type(label)
    if kind is str:
        long = f" of {len(label):,} characters" if len(label) > LONGEST_LABEL else ""  # type: ignore[arg-type]
        return f"the text{long} {_shown(label)}"
    names = {bool: "the truth value", int: "the integer", float: "the number"}
    return f"{names.get(kind, 'a ' + kind.__name__ + ',')} {_shown(label)}"


def _shown(label: object) -> str:
    """The label as JSON. A long one is cut."""
    try:
        text = repr(label) if isinstance(label, str) else json.dumps(label, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(label)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
