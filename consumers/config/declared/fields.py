"""Declared fields: those of `init --fields`, and the kind of a field by the types of its values.

Rule: the same kinds and reasons as in a look at records, as far as a declaration shows them. What
only records show, such as the number of distinct values, is left to the reader of the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from consumers.base.errors import ConfigError
from consumers.config.propose import hint
from consumers.config.sample import InferredField, named_like_a_time, named_like_an_id
from consumers.config.sections import LONGEST_NAME
from stream.data.schema import KINDS, Kind

__all__ = ["MOST_FIELDS", "Declared", "by_types", "given", "without_label"]

MOST_FIELDS = 1000
DEFAULT_KIND: Kind = "categorical"  # it takes text, numbers and truth values, so nothing is lost
WHOLE = frozenset({"string", "integer", "boolean"})  # types of labels, as JSON names them
NUMBERS = frozenset({"integer", "number", "boolean"})

# The types of the values that a kind means. The label's must be those of classes.
_TYPES: dict[Kind, frozenset[str]] = {
    "numeric": frozenset({"number"}),
    "binary": frozenset({"boolean"}),
    "categorical": frozenset({"string", "integer"}),
    "text": frozenset({"text"}),
}
_ELSEWHERE = {  # words for kinds in other programs
    "numeric": "number float double real int integer long decimal count continuous numerical",
    "binary": "bool boolean flag",
    "categorical": "category string str enum nominal factor",
}
_KIND_OF = {word: kind for kind, words in _ELSEWHERE.items() for word in words.split()}
_MANY = {"array": "lists", "object": "objects without declared fields"}


@dataclass(frozen=True, slots=True)
class Declared:
    """A field, and the JSON types of its values without null: "text" is one with many words."""

    field: InferredField
    types: frozenset[str] = frozenset()


def given(texts: Iterable[str]) -> list[Declared]:
    """The fields of `--fields NAME[:KIND],…`, in their order.

    Raises
    ------
    ConfigError
        A name is empty, too long or there twice, or a kind is unknown.

    Examples
    --------
    >>> for declared in given(["amount:numeric,country"]):
    ...     print(declared.field.name, declared.field.kind, "-", declared.field.why)
    amount numeric - declared by --fields
    country categorical - declared by --fields without a kind: a category takes any value but lists
    """
    found: dict[str, Declared] = {}
    for part in (part.strip() for text in texts for part in text.strip().strip(",").split(",")):
        name, colon, word = part.rpartition(":")
        name, word = (name.strip(), word.strip()) if colon else (part.strip(), "")
        if not name:
            raise ConfigError(f"--fields: expected NAME or NAME:KIND, got {part!r}; give a name")
        if name in found:
            raise ConfigError(f"--fields: {name} is there twice; give it once")
        found[name] = _given(name, word) if colon else _without_kind(name)
    if not found:
        raise ConfigError("--fields: expected NAME:KIND,NAME:KIND,…, got none; give a field")
    _check([each.field for each in found.values()], "--fields")
    return list(found.values())


def _given(name: str, word: str) -> Declared:
    if word not in KINDS:
        near = _KIND_OF.get(word.lower()) or next(iter(get_close_matches(word, KINDS, n=1)), None)
        do = f"use {name}:{near}" if near else "use one of them"
        raise ConfigError(
            f"--fields: {name}: expected a kind of {', '.join(KINDS)}, got {word!r}; {do}"
        )
    kind: Kind = KINDS[KINDS.index(word)]
    return Declared(InferredField(name, kind, "declared by --fields"), _TYPES[kind])


def _without_kind(name: str) -> Declared:
    why = "declared by --fields without a kind: a category takes any value but lists"
    return Declared(InferredField(name, DEFAULT_KIND, why), WHOLE)


def by_types(
    name: str,
    types: Collection[str],
    *,
    values: Sequence[object] | None = None,
    optional: str = "",
    left_out: str = "",
) -> Declared:
    """The field that a schema describes.

    Parameters
    ----------
    types
        The JSON types of its values, without null; "array" and "object" are for what is no value.
    values
        All values it can have, if the schema lists them; None otherwise.
    optional
        Why it may be missing, "" if every record has it.
    left_out
        Why it is left out, "" if `types` decide.

    Examples
    --------
    >>> by_types("country", {"string"}, values=["DE", "FR"]).field.why
    'one of 2 values'
    >>> by_types("tags", {"array"}).field.kind is None
    True
    """
    if values is not None:
        values = [value for value in values if value is not None]
        types = {_type(value) for value in values}
    kind, why = (None, left_out) if left_out else _kind(name, frozenset(types), values)
    return Declared(InferredField(name, kind, why, optional), frozenset(types))


def _kind(
    name: str, types: frozenset[str], values: Sequence[object] | None
) -> tuple[Kind | None, str]:
    if not types:
        return None, "the schema gives no type"
    if types & _MANY.keys():
        kept = " or ".join(_MANY[each] for each in sorted(types & _MANY.keys()))
        return None, f"{kept}, which no model supports"
    if values is not None:
        return _kind_of_values(values, types)
    if "string" in types:
        return _kind_of_strings(name, types)
    if types == {"boolean"}:
        return "binary", "true or false"
    if named_like_an_id(name):
        why = 'numbers, and named like an id; declare it "categorical" if they are few'
        return None, why
    about = " or truth values" if "boolean" in types else ""
    if named_like_a_time(name):
        return "numeric", "numbers, and named like a time: remove it if it grows with every record"
    return "numeric", f"{'numbers' if 'number' in types else 'integers'}{about}"


def _kind_of_values(values: Sequence[object], types: frozenset[str]) -> tuple[Kind | None, str]:
    if len(values) == 1:
        return None, f"it is always {str(values[0])[:20]!r}"
    if types == {"boolean"} or (types <= NUMBERS and all(value in (0, 1) for value in values)):
        return "binary", f"one of {len(values)} values"
    return "categorical", f"one of {len(values)} values"


def _kind_of_strings(name: str, types: frozenset[str]) -> tuple[Kind | None, str]:
    if named_like_an_id(name):
        return None, 'strings, and named like an id; declare it "categorical" if they are few'
    if named_like_a_time(name):
        return None, "strings, and named like a time: future ones will all be new"
    if types != {"string"}:
        return "categorical", f"{_listed(types)}: a category takes all of them"
    return "categorical", 'strings; "text" if they have many words, remove it if they never repeat'


def without_label(
    declared: Sequence[Declared], label: str | None, id_field: str, source: str, *, strict: bool
) -> tuple[list[InferredField], str | None]:
    """The fields without label and id, and what the labels are, such as "one of 2 values".

    Parameters
    ----------
    source
        What declares the fields.
    strict
        Whether `source` has all fields, so that the label must be among them.

    Raises
    ------
    ConfigError
        The label cannot be one, or is not declared.
    """
    fields = [each.field for each in declared if each.field.name not in (label, id_field)]
    _check(fields, source)
    if label is None:
        return fields, None
    found = next((each for each in declared if each.field.name == label), None)
    if found is None:
        if strict:
            raise ConfigError(_no_field(label, declared, source))
        return fields, None
    if not found.types or not found.types <= WHOLE:
        came = _listed(found.types) if found.types else "no type"
        raise ConfigError(
            f"label {label!r}: expected strings, integers or truth values, got {came} in {source}; "
            "a model predicts classes, no numbers: name a field that holds classes"
        )
    return fields, found.field.why if found.field.kind else _listed(found.types)


def _no_field(name: str, declared: Sequence[Declared], source: str) -> str:
    names = sorted(each.field.name for each in declared)
    return (
        f"no field {name!r} in {source}; for labels that only a topic of their own has, give "
        f"--labels TOPIC in place of --label; {hint(name, names)}"
    )


def _check(fields: Sequence[InferredField], source: str) -> None:
    if len(fields) > MOST_FIELDS:
        raise ConfigError(
            f"{source} declares {len(fields):,} fields, expected at most {MOST_FIELDS:,}; "
            "declare the ones to learn from"
        )
    for field in fields:
        if len(field.name) > LONGEST_NAME:
            raise ConfigError(
                f"{source}: the name {field.name[:20]}… has {len(field.name):,} characters, "
                f"expected at most {LONGEST_NAME:,}; use a shorter one"
            )


def _type(value: object) -> str:
    """The JSON type of a value."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _listed(types: Iterable[str]) -> str:
    return " or ".join(sorted(types))
