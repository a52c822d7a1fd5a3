"""Compares two identities, lists the keys that differ, and knows which of them may change."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["RELEARNED_LABELS", "identity_difference", "relearnable"]

# The keys of [labels] that `headwater relearn` changes.
RELEARNED_LABELS = ("corrections", "horizon", "max_pending", "max_pending_bytes")

_ABSENT = object()


def identity_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The dotted keys in which two identities differ, with both values; empty when equal.

    Examples
    --------
    >>> old = {"model": {"type": "GaussianNB", "seed": 42}, "features": None}
    >>> new = {"model": {"type": "MultinomialNB", "seed": 42}, "features": {"x": "text"}}
    >>> for line in identity_difference(old, new):
    ...     print(line)
    features: was not set, now {"x": "text"}
    model.type: was "GaussianNB", now "MultinomialNB"
    """
    return list(_differences("", old, new))


def relearnable(differences: Sequence[str]) -> bool:
    """Whether `headwater relearn` can make all of these changes: [model], [labels] corrections,
    how long and how many observations wait, whether shards mix, and another version of the parser
    of the records.

    Examples
    --------
    >>> relearnable(['model.type: was "GaussianNB", now "MixedNB"'])
    True
    >>> relearnable(["model.seed: was 42, now 43", 'labels.horizon: was "7d", now "40d"'])
    True
    >>> relearnable(['labels.silence: was not set, now "ham"'])
    False
    """
    keys = [line.partition(":")[0] for line in differences]
    relearned = ("scale.mix", *(f"labels.{key}" for key in RELEARNED_LABELS))
    return all(key.startswith(("model.", "input.parser.")) or key in relearned for key in keys)


def _differences(key: str, old: object, new: object) -> list[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        lines = []
        for name in sorted(old.keys() | new.keys()):
            inner = f"{key}.{name}" if key else name
            lines += _differences(inner, old.get(name, _ABSENT), new.get(name, _ABSENT))
        return lines
    # As text: 1, 1.0 and true are equal in Python and different in a configuration.
    was, now = _shown(old), _shown(new)
    return [] if was == now else [f"{key}: was {was}, now {now}"]


def _shown(value: object) -> str:
    if value is None or value is _ABSENT:
        return "not set"
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
