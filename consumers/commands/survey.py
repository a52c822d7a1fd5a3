"""The first reading of a file: it is read as a whole, so that errors are found before anything is
written or learned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from consumers.base.errors import ConfigError
from consumers.commands.meter import Meter

if TYPE_CHECKING:
    from consumers.offline.feed import LateLabels

__all__ = ["Survey", "survey"]

METERED = 100  # records between two looks at the clock


@dataclass(slots=True)
class Survey:
    """Counts of a first reading of the file."""

    records: int = 0
    labels: int = 0
    without_id: int = 0
    in_order: bool = True


def survey(
    records: Iterable[Mapping[str, object]],
    origin: str,
    labels: LateLabels | None,
    time_field: str | None,
    id_field: str = "id",
) -> Survey:
    """Read the whole file once, so that errors are found before the first record is written.

    Raises
    ------
    ConfigError
        No records, no labels, or an invalid time or id; the message names `origin`.
    """
    from consumers.base.fields import field_of, time_of
    from consumers.offline.feed import id_of

    found = Survey()
    latest = 0
    names: set[str] = set()
    with Meter("records read") as meter:
        for record in records:
            id_ = field_of(record, id_field)
            if id_ is None:
                found.without_id += 1
            elif type(id_) is not str or not id_:
                id_of(found.records, record, id_field)
            found.records += 1
            if not found.records % METERED:
                meter.advance(METERED)
            if labels is not None:
                found.labels += field_of(record, labels.field) is not None
                if not found.labels:
                    names.update(record)
            if time_field is not None:
                try:
                    timestamp = time_of(record, time_field)
                except ValueError as error:
                    where = f"{origin}: record {found.records}, field {time_field!r}"
                    raise ConfigError(f"{where}: {error}") from None
                found.in_order &= timestamp >= latest
                latest = timestamp
    if not found.records:
        raise ConfigError(f"{origin}: expected records, got none; nothing was written")
    if labels is not None and not found.labels:
        shown = ", ".join(sorted(names)[:20])
        raise ConfigError(
            f"{origin}: no record has a label in field {labels.field!r}; fields are {shown}"
        )
    return found
