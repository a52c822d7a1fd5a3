"""The header of a learner's state: its parameters, classes and count of rejected classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from stream.data.parameters import shown
from stream.data.schema import Label, plain_label
from stream.data.state import count_in
from stream.errors import InvalidRecordError, StateError

__all__ = ["labels_of", "plain", "refused_of", "without_refusals"]


def labels_of(header: Mapping[str, Any]) -> list[Label]:
    """The classes of a state's header."""
    labels = header.get("classes")
    try:
        plain = [plain_label(label) for label in labels] if isinstance(labels, list) else None
    except InvalidRecordError:
        plain = None
    if plain is None or len({(type(y), y) for y in plain}) < len(plain):
        raise StateError(f"expected each label once, got {shown(labels)}")
    if len({type(y) for y in plain}) > 1:
        raise StateError(f"expected labels of one kind, got {shown(labels)}")
    return plain


def without_refusals(header: Mapping[str, Any]) -> dict[str, Any]:
    """The header, and the headers of learners inside, without the count of rejected classes."""
    return {
        key: without_refusals(value) if isinstance(value, Mapping) else value
        for key, value in header.items()
        if key != "classes_refused"
    }


def refused_of(header: Mapping[str, Any]) -> int:
    """How many classes were rejected, by a state's header."""
    return count_in(header, "classes_refused", absent=0)


def plain(value: Any) -> Any:
    """A parameter as JSON. A mapping becomes pairs, because its keys may be of any kind."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return [[plain(k), plain(v)] for k, v in value.items()]
    if isinstance(value, Iterable):
        return [plain(v) for v in value]
    return str(value)
