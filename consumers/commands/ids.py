"""Which field `init` takes for the id of the records, and what it says about that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from consumers.base.counts import counted
from consumers.base.errors import ConfigError
from consumers.base.fields import field_of, name_of
from consumers.commands.proposal import quoted
from consumers.offline.lateness import FEWEST

if TYPE_CHECKING:
    from consumers.commands.sampled import Sampled

__all__ = ["ID", "doubts", "id_of_records", "no_field"]

Records = Sequence[Mapping[str, Any]]

ID = "id"
OLD = "key or id"
REPEATED = 0.05  # share of the records; more of them are about the same thing, not sent twice


def id_of_records(
    wanted: str | None, label: str | None, looked: Sampled, source: str, *, numbered: bool
) -> tuple[str, str | None]:
    """The field with the id, and a line about it. `numbered`: `produce` numbers records without."""
    from consumers.config.sample import SAMPLE_SIZE, likely_ids

    records, keyed = looked.records[:SAMPLE_SIZE], looked.keyed
    if wanted is None:
        if keyed or any(field_of(record, ID) is not None for record in records):
            repeated = _repeated(looked, ID)
            many = repeated > REPEATED * len(looked.records)
            if not many and not _never_meet(looked):
                return ID, _without_id(ID, records, keyed=keyed)
            better = _better(looked, label)
            if numbered:
                other = f"{quoted(better)} would use one" if better else "uses another field"
                return _number(looked.records), (
                    f"{repeated:,} of {counted(len(looked.records), 'record')} have the {ID} of an "
                    f"earlier one, so {ID} is a field like others: `produce` numbers the records; "
                    f"--id-field {other}"
                )
            return _instead(better, repeated, looked)
        found = likely_ids(looked.records, label)
        if len(found) == 1:
            [(name, why)] = found.items()
            return name, f"id {name}: {why}; --id-field uses another field"
        if found:
            return ID, f"no field {ID!r}; --id-field {quoted(found)} would use one"
        return ID, _without_id(ID, records, keyed=keyed)
    values = [name_of(field_of(record, wanted)) for record in records]
    there = [value for value in values if value is not None]
    if wanted == label:
        raise ConfigError(f"--id-field and --label are both {label!r}; name two fields")
    if not there:
        raise ConfigError(no_field(wanted, records, source))
    wrong = [v for v in there if isinstance(v, bool) or not isinstance(v, str | int) or v == ""]
    if wrong:
        raise ConfigError(
            f"--id-field {wanted}: expected text or integers, got {str(wrong[0])[:40]!r}; "
            "name another field"
        )
    return wanted, _without_id(wanted, records, keyed=keyed)


def _repeated(looked: Sampled, id_field: str) -> int:
    """How many records have the id of an earlier one."""
    there = [each for each in _ids(looked, id_field) if each is not None]
    return len(there) - len(set(there))


def _ids(looked: Sampled, id_field: str) -> list[str | None]:
    from consumers.commands.sampled import id_of

    keys = looked.keys or [None] * len(looked.records)
    return [id_of(r, key, id_field) for r, key in zip(looked.records, keys, strict=True)]


def _never_meet(looked: Sampled) -> bool:
    """Whether there are labels, and none has the id of a record."""
    return len(looked.labels) >= FEWEST and not looked.labels.keys() & set(_ids(looked, ID))


def _better(looked: Sampled, label: str | None) -> dict[str, str]:
    """Fields that are a better id than the field `id` and the key, each with the reason: those that
    have the ids of labels, else those whose values are all distinct."""
    from consumers.config.sample import likely_ids
    from consumers.offline.lateness import meeting_fields

    n, now = len(looked.labels), len(looked.labels.keys() & set(_ids(looked, ID)))
    meeting = meeting_fields(looked.records, looked.labels)
    meeting = {name: met for name, met in meeting.items() if met > max(now, 1) and name != ID}
    if n >= FEWEST and meeting:
        most = max(meeting.values())
        return {
            name: f"it has the ids of {met:,} of {counted(n, 'label')}, {OLD} of {now:,}"
            for name, met in meeting.items()
            if met == most
        }
    return {name: why for name, why in likely_ids(looked.records, label).items() if name != ID}


def _instead(better: Mapping[str, str], repeated: int, looked: Sampled) -> tuple[str, str | None]:
    """The id of a topic whose key and field `id` are no id, and a line about it."""
    what = (
        f"{repeated:,} of {counted(len(looked.records), 'record')} have the {OLD} of an earlier one"
    )
    if _never_meet(looked):
        mine = next((each for each in _ids(looked, ID) if each is not None), "")
        what = (
            f"none of {counted(len(looked.labels), 'label')} has the {OLD} of a record "
            f"({next(iter(looked.labels))!r:.40} and {mine!r:.40})"
        )
    if len(better) == 1:
        [(name, why)] = better.items()
        return name, f"id {name}: {why}; {what}; --id-field uses another field"
    if better:
        return ID, f"{what}; --id-field {quoted(better)} would use another field"
    return ID, f"{what}; --id-field names the field with the id of each record"


def _number(records: Records) -> str:
    """A name that no record has, for the numbers of the records."""
    taken = {name for record in records for name in record}
    return next(
        name for name in chain(["record"], map("record_{}".format, count(2))) if name not in taken
    )


def doubts(looked: Sampled, id_field: str) -> list[str]:
    """Warnings of change events, of few records, and of ids that repeat."""
    from consumers.codecs.changes import is_change
    from consumers.config.sample import FEW_RECORDS

    n, repeated = len(looked.records), _repeated(looked, id_field)
    warnings = []
    if all(map(is_change, looked.records)):
        warnings.append(
            'the records are change events of a table: with [input] changes = ["c", "r"] their '
            "rows are the records, and [features] are columns (docs/howto/change-data.md)"
        )
    if n < FEW_RECORDS:
        warnings.append(f"{counted(n, 'record')} cannot show what the fields are; give more")
    if repeated:
        warnings.append(
            f"id {id_field}: {repeated:,} of {counted(n, 'record')} have the id of an earlier one; "
            "such a record is predicted, and its label is not learned"
        )
    return warnings


def _without_id(name: str, records: Records, *, keyed: bool) -> str | None:
    """A line on records without an id; None if each has one."""
    n = sum(1 for record in records if field_of(record, name) is None)
    if keyed or not n:
        return None
    who = "the records have" if n == len(records) else f"{n} of {len(records)} records have"
    lack = f"{who} neither a field {name!r} nor a key"
    return f"{lack}: `produce` numbers them; --id-field uses another field"


def no_field(name: str, records: Records, source: str) -> str:
    from consumers.config.propose import hint

    names = sorted({name for record in records for name in record})
    of = f"{counted(len(records), 'record')} of {source}"
    return f"no field {name!r} in {of}; {hint(name, names)}"
