"""Which fields of records a service would use: for commands that read the records of a user."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from consumers.codecs.account import Unknown
    from consumers.codecs.json import JsonObservations
    from consumers.config import Config
    from stream.data.schema import Schema

__all__ = ["UsedFields", "lines_of"]

FIRST = 1000  # records


class UsedFields:
    """The account of the first records that pass, as the service of a configuration decodes them.

    Parameters
    ----------
    config
        The configuration; None: there is nothing to say.
    others
        Fields that are read although they are not declared.
    most
        How many records are counted.
    labels
        The fields that are read, if these are label records.

    Examples
    --------
    >>> from consumers.config import parse
    >>> of = 'transport = "memory:a"\\nobservations = "b"\\n[features]\\nx = "numeric"\\n'
    >>> used = UsedFields(parse('name = "c"\\n[input]\\n' + of, source="doc"))
    >>> records = list(used.passed([{"id": 1, "x": 2, "why": "?"}]))
    >>> used.lines()
    ["of the first observation: not declared, so not used: 'why'"]
    """

    def __init__(
        self,
        config: Config | None,
        others: Collection[str] = (),
        *,
        most: int = FIRST,
        labels: Collection[str] | None = None,
    ) -> None:
        from consumers.codecs.account import FieldAccount, names_of

        self._others, self._left = others, 0
        self._rejected, self._why = 0, ""
        self._changes = () if config is None else config.input.changes
        self._account = FieldAccount(())  # of one kind of records
        self._of_labels = None if config is None or labels is None else _unread(labels)
        schema = None if config is None else config.declared_schema
        if self._of_labels is not None:
            self._left = most
        elif config is not None and schema is not None and not config.parser:
            self._left = most  # else the fields are those of the records
            self._account, self._decoder = FieldAccount(names_of(schema)), _decoder(config, schema)

    def passed(
        self, records: Iterable[Mapping[str, object]], inside: str | None = None
    ) -> Iterator[Mapping[str, object]]:
        """The same records; the first ones are counted, of change events their rows. `inside`: the
        field that has each; what is no object there is not counted."""
        from consumers.codecs.raw import row_of

        for record in records:
            found = record if inside is None else record.get(inside)
            if self._left and isinstance(found, Mapping):
                found = row_of(found, self._changes) if self._changes else found
                if found is not None:
                    self._left -= 1
                    self._count(found)
            yield record

    def _count(self, record: Mapping[str, object]) -> None:
        from consumers.codecs.account import FieldTally
        from consumers.offline.feed import encoded

        seen = self._account.seen
        if self._of_labels is not None:
            tally = FieldTally.of_labels(self._of_labels, 1, lambda _: record, seen)
        else:  # one by one, because blocks need kernels, which may not be compiled
            value, decoder = encoded(record), self._decoder
            found = decoder.decode([b"?"], [value])  # the id may come later
            for error in found.rejected.values():
                self._rejected, self._why = self._rejected + 1, self._why or error.detail
            tally = FieldTally.of(decoder, found, lambda _: value, seen)
        self._account.add(tally)

    def lines(self) -> list[str]:
        """What was not used of them, in sentences for a terminal."""
        from consumers.base.counts import first_ones, printable
        from consumers.codecs.account import FieldAccount
        from consumers.telemetry.field_lines import field_lines

        one, whole = "observation", self._account
        if self._of_labels is not None:
            one, whole = "label", FieldAccount(())
            whole.labels = self._account
        of = f"of {first_ones(self._account.seen, one)}: "
        lines = field_lines(whole.view(), self._others)
        if self._rejected:
            be = "a dead letter" if self._rejected == 1 else "dead letters"
            lines.insert(0, f"{self._rejected:,} would be {be}, the first: {self._why}")
        return [printable(of + line) for line in lines]


def lines_of(
    records: Sequence[Mapping[str, object]], config: Config, others: Collection[str]
) -> list[str]:
    """What the service would not use of all of these observations."""
    used = UsedFields(config, others, most=len(records))
    deque(used.passed(records), maxlen=0)
    return used.lines()


def _unread(names: Collection[str]) -> Unknown:
    """Finds the fields of label records that are not among these names."""
    from consumers.codecs.unused import UnknownFields

    return UnknownFields(tuple(names)).values


def _decoder(config: Config, schema: Schema) -> JsonObservations:
    """Decodes the JSON of records of files; values that do not fit are kept, to be named."""
    from consumers.codecs.json import JsonObservations

    names = config.input
    return JsonObservations(
        schema,
        names.id,
        names.label,
        config.values.texts,
        keep=True,
        as_text=names.numbers_as_text,
    )
