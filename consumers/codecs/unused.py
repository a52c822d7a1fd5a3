"""What a record has that is not used: fields that nobody declared, and values that do not fit.

Rule: a value of an observation is used as written, or it is named here. A field that is absent,
null, or a text of `[values] missing` says that there is no value, so it is not named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from consumers.base.counts import counted
from consumers.base.fields import field_of

if TYPE_CHECKING:
    from stream.errors import Reason

__all__ = [
    "LONGEST_NAME",
    "MOST_NOTES",
    "BadValue",
    "Note",
    "UnknownFields",
    "bounded",
    "like_one",
    "noted",
]

MOST_NOTES = 20  # of one record; the last one counts the others
LONGEST_NAME = 100  # characters of a name in a note
LONGEST_DETAIL = 200  # characters
MOST_COMPARED = 1_000  # declared names with which an unknown one is compared
SHORTEST = 4  # letters of a name that is like another one with one letter less

Path = tuple[str, ...]


class BadValue(NamedTuple):
    """A value that cannot be used, and why."""

    field: str
    reason: Reason
    detail: str
    value: object


class Note(msgspec.Struct, frozen=True):
    """One field of a record that was not used.

    Parameters
    ----------
    field
        Its name; "" for a note about the fields that are not listed.
    what
        `unknown`: it is not declared. `bad`: its value does not fit.
    detail
        Why, in words.
    """

    field: str
    what: Literal["unknown", "bad"]
    detail: str

    def __str__(self) -> str:
        """The note in words."""
        named = self.what == "unknown" and self.field
        return f"field {self.field!r}: {self.detail}" if named else self.detail

    @classmethod
    def of_bad(cls, bad: BadValue) -> Note:
        """The note about a value that does not fit."""
        return cls(bad.field, "bad", bad.detail)


class UnknownFields:
    """Finds the fields of documents that are not used.

    Parameters
    ----------
    declared
        The names of the features. As in `JsonObservations`, a dotted one is a path, and a field
        with the whole name comes before it.
    others
        The other names that are read: those of the id and of the label.

    Examples
    --------
    >>> unknown = UnknownFields(["amount", "shop.city"], ["id"])
    >>> for note in unknown.notes({"id": "7", "amuont": 5, "shop": {"zip": "53"}}):
    ...     print(note.field, "-", note.detail)
    amuont - no field of the model; did you mean 'amount'?
    shop.zip - no field of the model
    """

    def __init__(self, declared: Sequence[str], others: Collection[str] = ()) -> None:
        self._whole = {*declared, *others}
        paths = [tuple(name.split(".")) for name in self._whole]
        self._fields = set(paths)
        self._objects = {path[:n] for path in paths for n in range(1, len(path))}
        self._declared = declared[:MOST_COMPARED]

    @cached_property
    def _near(self) -> dict[str, str]:
        """Form to a declared name with it."""
        return {form: name for name in reversed(self._declared) for form in _forms(name)}

    def values(self, document: Mapping[str, Any]) -> list[tuple[str, object]]:
        """The fields that are not used, in their order, with their values."""
        return [(".".join(path), value) for path, value in self._unused(document, (), document)]

    def notes(self, document: Mapping[str, Any]) -> list[Note]:
        """The same as notes; the first ones with the declared field that the name may mean."""
        return [
            Note(".".join(path), "unknown", self._why(path, document) if i < MOST_NOTES else "")
            for i, (path, _) in enumerate(self._unused(document, (), document))
        ]

    def _unused(
        self, inside: Mapping[str, Any], above: Path, document: Mapping[str, Any]
    ) -> Iterator[tuple[Path, object]]:
        """The fields that are not used, among those of an object of the document."""
        for key, value in inside.items():
            path = (*above, key)
            declared = key in self._whole if not above else path in self._fields and "." not in key
            if path in self._objects and "." not in key and isinstance(value, Mapping):
                yield from self._unused(value, path, document)
            elif not declared:
                if path not in self._objects or value is not None:
                    yield path, value
            elif above and ".".join(path) in document:  # the field with the whole name came first
                yield path, value

    def _why(self, path: Path, document: Mapping[str, Any]) -> str:
        if path in self._objects:
            return "expected an object with fields of the model"
        if path in self._fields:
            return "the field with the whole name comes first"
        if not any(path):
            return "the name is empty: no field of the model"
        forms = _forms(".".join(path))
        meant = {self._near[form] for form in forms if form in self._near}
        absent = sorted(name for name in meant if field_of(document, name) is None)
        return "no field of the model" + (f"; did you mean {absent[0]!r}?" if absent else "")


def _forms(name: str) -> set[str]:
    """The name without case and signs, and each text that one letter less leaves of it. Names with
    a common form differ by a letter, or by two that changed places."""
    text = "".join(filter(str.isalnum, name[:LONGEST_NAME].casefold()))
    if len(text) < SHORTEST:
        return {text} - {""}
    return {text, *(text[:i] + text[i + 1 :] for i in range(len(text)))}


def noted(prediction: bytes, notes: Sequence[Note]) -> bytes:
    """The prediction as JSON, with these notes.

    Examples
    --------
    >>> noted(b'{"id":"7"}', [Note("x", "unknown", "no field of the model")])
    b'{"id":"7","notes":[{"field":"x","what":"unknown","detail":"no field of the model"}]}'
    """
    if not notes:
        return prediction
    return prediction[:-1] + b',"notes":' + msgspec.json.encode(notes) + b"}"


def like_one(name: str, others: Iterable[str]) -> str | None:
    """The first of other names that this one may mean, or None.

    Examples
    --------
    >>> like_one("card_country", ["zip", "cardCountry"])
    'cardCountry'
    """
    forms = _forms(name)
    return next((other for other in others if forms & _forms(other)), None)


def bounded(notes: Iterable[Note]) -> list[Note]:
    """At most `MOST_NOTES` of the notes, with bounded names; the last one counts the others.

    Examples
    --------
    >>> bounded([Note(f"n{i}", "unknown", "") for i in range(30)])[-1].detail
    '11 more fields were not used'
    """
    every = list(notes)
    shown = every if len(every) <= MOST_NOTES else every[: MOST_NOTES - 1]
    out = [Note(n.field[:LONGEST_NAME], n.what, n.detail[:LONGEST_DETAIL]) for n in shown]
    if left := len(every) - len(shown):
        more = counted(left, "more field was not used", "more fields were not used")
        out.append(Note("", every[-1].what, more))
    return out
