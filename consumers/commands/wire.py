"""Records of commands in the wire format of a configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from consumers.base.errors import ConfigError

if TYPE_CHECKING:
    from consumers.base.records import Outgoing
    from consumers.config import Config
    from consumers.schemas.translate import Translator

__all__ = ["in_format", "translator_of"]


def translator_of(config: Config | None) -> Translator | None:
    """The translator of a configuration whose records have schemas; else None."""
    from consumers.codecs.registry import wire_format
    from consumers.schemas.translate import Translator

    if config is None or not wire_format(config.input.format).schema_type:
        return None
    return Translator(config)


def in_format(translator: Translator | None, records: Iterable[Outgoing]) -> Iterator[Outgoing]:
    """JSON records in the format of their topic, by its newest registered schema.

    Raises
    ------
    ConfigError
        There is no schema, or a record does not fit it.
    """
    if translator is None:
        yield from records
        return
    for count, record in enumerate(records, 1):
        document = msgspec.json.decode(record.value or b"null")
        try:
            value = translator.record(record.topic, document)
        except ValueError as error:
            raise ConfigError(
                f"record {count} for {record.topic}, with the key {record.key!r}, {error}; correct "
                "the file, or register a schema that it fits"
            ) from None
        yield record._replace(value=value)
