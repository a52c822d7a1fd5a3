"""What an account of fields says, in sentences for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from consumers.base.counts import counted
from consumers.codecs.account import FieldsView
from consumers.codecs.unused import like_one

__all__ = ["field_lines"]

MOST = 10  # fields that are named in all


def field_lines(view: FieldsView, others: Collection[str] = ()) -> list[str]:
    """A line for each kind of fields that were not used; empty if all were.

    Parameters
    ----------
    others
        Fields that are read although they are not declared, as that of the time.

    Examples
    --------
    >>> from consumers.codecs.account import BadField, UnknownField
    >>> bad, unknown = {"age": BadField(3, "wrong_kind", '"7"')}, {"amuont": UnknownField(9, "1")}
    >>> view = FieldsView(("age", "amount"), 9, {"age": 6, "amount": 0}, bad, 9, unknown, 0)
    >>> print(*field_lines(view), sep="\\n")
    field 'age': 3 of 9 values do not fit its kind (wrong_kind), the last: "7"
    no value of 'amount'; they have 'amuont'
    not declared, so not used: 'amuont'
    """
    parts = [name.split(".") for name in others]
    return list(_lines(view, {".".join(p[:n]) for p in parts for n in range(1, len(p) + 1)}))


def _lines(view: FieldsView, others: Collection[str]) -> Iterator[str]:
    if view.observations:
        yield from _of_observations(view, others)
    if view.labels is not None and view.labels.unknown:
        unknown = _some(list(view.labels.unknown), view.labels.unnamed)
        yield f"in label records, not used: {unknown}"


def _of_observations(view: FieldsView, others: Collection[str]) -> Iterator[str]:
    most = sorted(view.bad.items(), key=lambda item: -item[1].found)
    for name, bad in most[:MOST]:
        given = view.used[name] + bad.found
        yield (
            f"field {name!r}: {bad.found:,} of {counted(given, 'value')} do not fit its kind "
            f"({bad.reason}), the last: {bad.example}"
        )
    if len(most) > MOST:
        yield f"{counted(len(most) - MOST, 'more field')} with values that do not fit"
    absent = {
        name: like_one(name, view.unknown)
        for name in view.names
        if view.missing(name) == view.observations
    }
    hinted = [name for name, like in absent.items() if like is not None]
    for name in hinted[:MOST]:
        yield f"no value of {name!r}; they have {absent[name]!r}"
    plain = [name for name in absent if name not in hinted[:MOST]]
    if plain:
        yield f"no value of {_some(plain)}"
    shadowed = [name for name in view.unknown if name in view.names]
    if shadowed:
        yield (
            f"not used within objects, because a field with the whole name comes first: "
            f"{_some(shadowed)}"
        )
    unknown = [name for name in view.unknown if name not in others and name not in view.names]
    if unknown:
        yield f"not declared, so not used: {_some(unknown, view.unnamed)}"


def _some(names: list[str], unnamed: int = 0) -> str:
    """The first of the names, and how many others there are."""
    more = max(len(names) - MOST, 0) + unnamed
    left = f" and {counted(more, 'other')}" if more > 0 else ""
    return ", ".join(map(repr, names[:MOST])) + left
