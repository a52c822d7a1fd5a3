"""Which fields of records a service would use: for commands that read the records of a user."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from consumers.config import Config

__all__ = ["FIRST", "lines_of"]

FIRST = 1000  # observations


def lines_of(config: Config, values: Sequence[bytes], others: Collection[str] = ()) -> list[str]:
    """What the declared fields of a configuration leave of some observations, in sentences.

    Parameters
    ----------
    config
        The configuration.
    values
        The observations as JSON.
    others
        Fields that are read although they are not declared.
    """
    from consumers.codecs.account import account_of
    from consumers.codecs.json import JsonObservations
    from consumers.telemetry.field_lines import field_lines

    schema, names = config.declared_schema, config.input
    if schema is None or config.parser:  # the fields are those of the records
        return []
    decoder = JsonObservations(schema, names.id, names.label, config.values.texts, keep=True)
    return field_lines(account_of(decoder, values), others)
