"""Why a label is a dead letter: what was expected, and what came."""

from __future__ import annotations

import json

from consumers.base.errors import RecordError
from stream.data.schema import LONGEST_LABEL, Label
from stream.errors import Reason

__all__ = ["refusal"]

SHOWN = 60  # characters of a label
KINDS = {
    str: f"text of at most {LONGEST_LABEL} characters",
    int: "a 64-bit integer",
    bool: "a truth value",
}


def refusal(label: object, reason: Reason, first: Label | None) -> RecordError:
    """Why a label is a dead letter.

    Parameters
    ----------
    label, reason
        The label and the rule that refused it.
    first
        The first label that was learned, which fixed the kind; None: it is not known.

    Examples
    --------
    >>> refusal(1, "label_kind", True).detail
    'expected a truth value, as the first label, got the integer 1'
    """
    if reason == "max_classes":
        why = "is one more than [model] max_classes, or than fits max_state_bytes"
        return RecordError(reason, f"label {_shown(label)} {why}")
    if reason != "label_kind":
        return RecordError(reason, f"label {_shown(label)} was refused")
    if first is None:
        expected = "{}, {} or {}, of the kind of the first label".format(*KINDS.values())
    else:
        expected = f"{KINDS[type(first)]}, as the first label"
    return RecordError(reason, f"expected {expected}, got {_came(label)}")


def _came(label: object) -> str:
    kind = type(label)
    if kind is str:
        long = f" of {len(label):,} characters" if len(label) > LONGEST_LABEL else ""  # type: ignore[arg-type]
        return f"the text{long} {_shown(label)}"
    names = {bool: "the truth value", int: "the integer", float: "the number"}
    return f"{names.get(kind, 'a ' + kind.__name__ + ',')} {_shown(label)}"


def _shown(label: object) -> str:
    """The label as it stands in JSON; the beginning of a long one."""
    try:
        text = repr(label) if isinstance(label, str) else json.dumps(label, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(label)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
