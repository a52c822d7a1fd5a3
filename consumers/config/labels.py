"""Whether a model can learn the labels of a sample, and what is odd about them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from consumers.base.counts import counted, first_ones
from consumers.base.errors import ConfigError
from consumers.base.fields import name_of
from consumers.config.sample import FEW_RECORDS, share_text

__all__ = ["ONE_CLASS", "check_labels", "doubtful", "other_kinds"]

# What to do with a label that is a measurement.
RANGES = "a model predicts classes, no numbers: name a field that holds classes, or ranges"
MEASURED, REPEATS = 30, 10  # as many different integers, each in fewer records, are measurements

MOST_CLASSES = 256  # the default of [model] max_classes
ONE_CLASS = "only one class"  # how the warning of it begins


def check_labels(label: str, values: Sequence[Any], where: str) -> list[str]:
    """Check that a model can learn these labels; returns warnings, each one line.

    Parameters
    ----------
    values
        The labels of the sample, None for a record without one.
    where
        What the sample is, such as "500 records of pages.csv".

    Raises
    ------
    ConfigError
        They are decimal numbers, lists or objects, ids, or too many classes.

    Examples
    --------
    >>> check_labels("bought", [True, True], "2 records of visits.csv")
    ['only one class in 2 records of visits.csv; is it sorted by class?']
    """
    missing = sum(v is None or v != v for v in values)
    values = [v for v in values if v is not None and v == v]
    names = [name_of(v) for v in values]
    if not any(isinstance(name, float) for name in names):  # or they are measurements
        values = names
    wrong = [v for v in values if not isinstance(v, str | int)]
    if wrong and len(wrong) * 2 >= len(values):
        raise ConfigError(_no_class(label, wrong, where))
    classes = {(type(v) is bool, v) for v in values if isinstance(v, str | int)}
    if len(classes) == len(values) >= FEW_RECORDS:
        raise ConfigError(
            f"label {label!r}: all {len(values):,} values are distinct in {where}: this looks like "
            "an id or a measurement; name a field that holds classes"
        )
    numbers = all(type(v) is int for v in values)
    if len(classes) > MOST_CLASSES:
        raise ConfigError(
            f"label {label!r}: {len(classes):,} classes in {where}, expected at most "
            f"{MOST_CLASSES}; " + (RANGES if numbers else "name a field that holds fewer")
        )
    warnings = []
    if numbers and len(classes) >= MEASURED and len(classes) * REPEATS > len(values):
        warnings.append(
            f"label {label}: {len(classes):,} different integers in {where} look like a "
            f"measurement; {RANGES}"
        )
    warnings += _spelled_alike(label, values)
    if wrong:
        warnings.append(
            f"label {label}: "
            + share_text(len(wrong), len(values), "neither text, integer nor truth value")
            + "; such labels become dead letters"
        )
    if len(classes) == 1:
        do = "is it sorted by class?"
        if missing:
            do = (
                f"{missing:,} of them have no label: if they never get one, [labels] silence says "
                "what they are (docs/operations.md)"
            )
        warnings.append(f"{ONE_CLASS} in {where}; {do}")
    return warnings


def doubtful(values: Sequence[Any]) -> list[str]:
    """What is odd about the labels of a topic, one line each, also if a model cannot learn them.

    Examples
    --------
    >>> print(*doubtful([0.5, 0.7]))
    label 'label': expected text, integers or truth values, got 0.5 in the first 2 labels; a model \
predicts classes, no numbers: name a field that holds classes, or ranges
    """
    values = [value for value in values if value is not None]
    if not values:
        return []
    try:
        found = check_labels("label", values, first_ones(len(values), "label"))
    except ConfigError as error:
        return [str(error)]
    return [*found, *other_kinds("label", values)]


def other_kinds(label: str, values: Sequence[Any]) -> list[str]:
    """A warning of labels of another kind than the first one, which a service refuses; [] without
    such.

    Examples
    --------
    >>> print(*other_kinds("paid", [True, None, False, "true", 1]))
    label paid: 2 of 4 labels are of another kind than the first one (True, then 'true'): they \
would be dead letters; write them alike
    """
    names = [name_of(value) for value in values]
    known = [name for name in names if isinstance(name, str | int)]
    others = [name for name in known if type(name) is not type(known[0])]
    if not others:
        return []
    are = "is" if len(others) == 1 else "are"
    return [
        f"label {label}: {len(others):,} of {counted(len(known), 'label')} {are} of another kind "
        f"than the first one ({known[0]!r:.40}, then {others[0]!r:.40}): they would be dead "
        "letters; write them alike"
    ]


def _spelled_alike(label: str, values: Sequence[Any]) -> list[str]:
    """A warning of classes whose names differ only in case or spaces; [] without such."""
    by_spelling: dict[str, set[str]] = {}
    for value in values:
        if isinstance(value, str):
            by_spelling.setdefault(" ".join(value.split()).casefold(), set()).add(value)
    same = next((sorted(names) for names in by_spelling.values() if len(names) > 1), None)
    if same is None:
        return []
    return [
        f"label {label}: {' and '.join(map(repr, same[:3]))} are different classes; if they mean "
        "the same, spell them alike"
    ]


def _no_class(label: str, wrong: Sequence[Any], where: str) -> str:
    """Raise the error for values that cannot be labels, with what to do."""
    do = "name a field that holds classes"
    if all(isinstance(v, float) for v in wrong):
        do = RANGES
    shown = repr(wrong[0])
    shown = shown if len(shown) <= 40 else shown[:39] + "…"
    return f"label {label!r}: expected text, integers or truth values, got {shown} in {where}; {do}"
