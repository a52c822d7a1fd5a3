"""Records of a file or data set -> records to write, each with its timestamp. Pure.

Rule: the timestamps alone define when a label became known. A service orders records by
(timestamp, observation before label), so a label that is N records late has the timestamp of
observation i+N-1: after that one, before observation i+N. Ids are compared as text and are the
keys, so that an observation and its label are in partitions of the same number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain, islice, repeat
from typing import Final, NamedTuple

from consumers.base.errors import ConfigError
from consumers.base.fields import TimeField, field_of, key_of, name_of, time_of
from consumers.base.records import Outgoing
from consumers.base.units import duration_ms
from consumers.codecs.encoded import encoded, encoded_many
from consumers.codecs.raw import event_of, row_of

__all__ = [
    "LateLabels",
    "ReporterField",
    "as_events",
    "due_seconds",
    "encoded",
    "id_of",
    "label_records",
    "parse_delay",
    "rows_of",
    "step_ms",
    "timed",
    "trailing_labels",
]

AT_ONCE: Final = 100  # records that are encoded at once; they may have 1 MiB each
_NONE: Final = type(None)


class ReporterField(NamedTuple):
    """Who gave a label: the field in the records of a file, and the field of a label record."""

    inside: str
    named: str = "reporter"

    def of(self, record: Mapping[str, object]) -> dict[str, object]:
        """The field of the label record; empty if the record names nobody.

        Examples
        --------
        >>> ReporterField("by.user").of({"by": {"user": "ann"}})
        {'reporter': 'ann'}
        """
        found = field_of(record, self.inside)
        return {} if found is None else {self.named: found}


@dataclass(frozen=True, slots=True)
class LateLabels:
    """Labels that are removed from the observations and written later.

    Parameters
    ----------
    topic
        Their topic; a label record is `{"id": …, "label": …}`.
    field
        The field of the observation that holds the label; a dotted name is a path.
    delay
        The delay: a number of records, or a duration in the time of the timestamps.
    reporter
        Where the observation names who gave the label; it is removed too.
    """

    topic: str
    field: str
    delay: int | timedelta = 0
    reporter: ReporterField | None = None

    @property
    def by_number(self) -> bool:
        """Whether labels are due after a number of records, not after a duration."""
        return isinstance(self.delay, int)

    @property
    def wait(self) -> int:
        """How many records or ms after its observation a label is due; 0: right after it.

        Examples
        --------
        >>> LateLabels("labels", "y", 1).wait, LateLabels("labels", "y", timedelta(hours=1)).wait
        (0, 3600000)
        """
        if isinstance(self.delay, timedelta):
            return round(self.delay / timedelta(milliseconds=1))
        return max(self.delay, 1) - 1


@dataclass(slots=True)
class _Waiting:
    """A label until it is due: `due` is an observation's index, or a timestamp."""

    due: int
    record: Outgoing


def timed(
    records: Iterable[Mapping[str, object]],
    topic: str,
    *,
    start: int,
    step_ms: float = 1.0,
    time_field: str | None = None,
    id_field: str = "id",
    first_id: int = 0,
    labels: LateLabels | None = None,
    moment: Callable[[int, Mapping[str, object]], int] | None = None,
    ahead: bool = False,
) -> Iterator[Outgoing]:
    """Observations and their labels to write, in time order.

    Parameters
    ----------
    records
        The observations, in time order; those without an id get their number.
    topic
        The topic of the observations.
    start, step_ms
        Timestamp (ms) of the first one, and from one to the next: at least 1, so that all differ.
    time_field, moment
        Field with the time of each observation; its timestamp by index and fields. Each replaces
        `start` and `step_ms`.
    id_field, first_id
        Field with the id (a dotted name is a path); number of the first record without an id.
    labels
        None leaves labels inside the observations; an absent or null field is no label. The
        remaining labels come last: 1 ms apart if the delay is in records, else at their time.
    ahead
        Whether some records may be taken before the first of them is returned, which is faster.

    Raises
    ------
    ConfigError
        A time or an id is invalid, or a time is earlier than the one before.

    Examples
    --------
    >>> flowers = [{"id": "a", "y": 1}, {"id": "b", "y": 0}]
    >>> late = LateLabels("labels", "y", delay=2)
    >>> for out in timed(flowers, "flowers", start=1000, labels=late):
    ...     print(out.timestamp, out.topic, out.value.decode())
    1000 flowers {"id":"a"}
    1001 flowers {"id":"b"}
    1001 labels {"id":"a","label":1}
    1002 labels {"id":"b","label":0}
    """
    moment = moment or _moments(start, step_ms, time_field)
    if ahead and labels is None:
        blocks = _blocks(records, topic, moment, id_field, first_id)
        yield from chain.from_iterable(blocks)
        return
    observations = (
        (moment(index, record), *_with_id(index, record, id_field, first_id))
        for index, record in enumerate(records)
    )
    if labels is not None:
        yield from _labelled_late(observations, topic, start, labels)
        return
    for timestamp, id_, record in observations:
        yield Outgoing(topic, key_of(id_), encoded(record), timestamp)


def _blocks(
    records: Iterable[Mapping[str, object]],
    topic: str,
    moment: Callable[[int, Mapping[str, object]], int],
    id_field: str,
    first_id: int,
) -> Iterator[Iterator[Outgoing]]:
    """The observations of some records, and so on; each is encoded as `encoded` does it."""
    rest, index = iter(records), 0
    while block := list(islice(rest, AT_ONCE)):
        numbers = range(index, index := index + len(block))
        times = list(map(moment, numbers, block))
        found = [record.get(id_field) for record in block]
        kinds = set(map(type, found))
        if kinds == {_NONE} and "." not in id_field:
            found = [str(first_id + n) for n in numbers]
            block = [{**x, id_field: id_} for x, id_ in zip(block, found, strict=True)]
        elif kinds != {int} and not (kinds == {str} and all(found)):
            pairs = [
                _with_id(n, x, id_field, first_id) for n, x in zip(numbers, block, strict=True)
            ]
            found, block = [id_ for id_, _ in pairs], [record for _, record in pairs]
        keys = map(key_of, found)
        cells = zip(repeat(topic), keys, encoded_many(block), times, repeat(()), repeat(None))
        yield map(Outgoing._make, cells)


def _labelled_late(
    observations: Iterable[tuple[int, str | int, Mapping[str, object]]],
    topic: str,
    start: int,
    labels: LateLabels,
) -> Iterator[Outgoing]:
    """Observations, each with its timestamp and id, and their labels when they are due."""
    wait, by_number = labels.wait, labels.by_number
    waiting: deque[_Waiting] = deque()  # in the order they are due
    timestamp = start - 1
    for index, (timestamp, id_, record) in enumerate(observations):
        observation, label = _split(id_, record, topic, timestamp, labels)
        if by_number:
            if label is not None:
                waiting.append(_Waiting(index + wait, label))
            yield observation
            while waiting and waiting[0].due <= index:
                yield waiting.popleft().record._replace(timestamp=timestamp)
        else:
            while waiting and waiting[0].due < timestamp:
                yield _due(waiting.popleft())
            if label is not None:
                waiting.append(_Waiting(timestamp + wait, label))
            yield observation
    for after, late in enumerate(waiting, 1):
        yield late.record._replace(timestamp=timestamp + after) if by_number else _due(late)


def trailing_labels(records: int, labels: LateLabels | None) -> int:
    """Milliseconds from the last of so many labelled observations to the last label.

    Examples
    --------
    >>> trailing_labels(3, LateLabels("labels", "y", delay=2))
    1
    """
    if labels is None:
        return 0
    return min(labels.wait, records) if labels.by_number else labels.wait


def step_ms(rate: float | None) -> float:
    """The step between timestamps: real time, but at least 1 ms, which keeps the order.

    Examples
    --------
    >>> step_ms(None), step_ms(50), step_ms(5000)
    (1.0, 20.0, 1.0)
    """
    return 1.0 if rate is None else max(1.0, 1000.0 / rate)


def due_seconds(start: int, rate: float) -> Callable[[int], float]:
    """Maps a timestamp to the seconds after the start at which the record is due.

    Timestamps are those of the plan, not of the write. So a feed that cannot keep up shows as a
    delay, as with a real producer.

    Examples
    --------
    >>> due_seconds(1000, rate=50)(1020), due_seconds(1000, rate=5000)(1001)
    (0.02, 0.0002)
    """
    # Above 1,000 per second the timestamps run ahead of the clock, so use the rate, not 1 ms.
    return lambda timestamp: (timestamp - start) / max(1000.0, rate)


def parse_delay(text: str) -> int | timedelta:
    """Parse a delay: a number of records, or a duration.

    Examples
    --------
    >>> parse_delay("50"), parse_delay("90s")
    (50, datetime.timedelta(seconds=90))
    """
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return timedelta(milliseconds=duration_ms(text))
    except ValueError:
        raise ConfigError(
            f"expected --delay as a number of records or a duration (50, 90s, 7d), got {text!r}"
        ) from None


def id_of(index: int, record: Mapping[str, object], name: str, first: int = 0) -> str | int:
    """The id in field `name`; without one, the record's number from `first` as text.

    Raises
    ------
    ConfigError
        The value is neither text nor an integer.
    """
    found = name_of(field_of(record, name))
    if found is None:
        return str(first + index)
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        raise ConfigError(
            f"record {index + 1}: field {name!r} is {found!r}, expected text or an integer; "
            "name another field with --id-field"
        )
    return found


def label_records(
    records: Iterable[Mapping[str, object]],
    origin: object,
    *,
    label: str | None = None,
    ids: Sequence[str] = ("id",),
    time_field: str | None = None,
    reporter: ReporterField | None = None,
) -> Iterator[dict[str, object]]:
    """The label records of a file of labels: `id`, `label`, and the fields `w`, `time_field` and
    that of the reporter.

    Parameters
    ----------
    origin
        The name of the file in messages.
    label
        The field with the label; None: `label`. Records without a label are left out.
    ids
        The fields with the id; the first one that a record has is used.

    Raises
    ------
    ConfigError
        A label without an id, which would find no observation, or no label at all.

    Examples
    --------
    >>> rows = [{"order": 7, "returned": "yes"}, {"order": 8}]
    >>> list(label_records(rows, "returns.csv", label="returned", ids=["order"]))
    [{'id': 7, 'label': 'yes'}]
    """
    field = label or "label"
    beside = ["w"] if time_field is None else ["w", TimeField.of(time_field).name]
    names: dict[str, None] = {}
    found = False
    for number, record in enumerate(records, 1):
        if not found:
            names |= dict.fromkeys(record)
        value = field_of(record, field)
        if value is None:
            continue
        found = True
        there = next((name for name in ids if field_of(record, name) is not None), None)
        if there is None:
            raise ConfigError(
                f"{origin}: record {number} has a label but no id in field "
                f"{' or '.join(map(repr, ids))}; name the field of its observation's id with "
                "--id-field"
            )
        rest = {name: field_of(record, name) for name in beside}
        kept = {name: value for name, value in rest.items() if value is not None}
        named = {} if reporter is None else reporter.of(record)
        yield {"id": id_of(number - 1, record, there), "label": value, **kept, **named}
    if not found and names:
        fields = ", ".join(sorted(names)[:20])
        raise ConfigError(
            f"{origin}: no record has a label in field {field!r}; name the field with --label; "
            f"fields are {fields}"
        )


def rows_of(
    records: Iterable[dict[str, object]], changes: Sequence[str]
) -> Iterator[dict[str, object]]:
    """The rows of those records that are change events of these operations. Without operations, and
    where a record is no change event, the record.

    Examples
    --------
    >>> events = [{"op": "c", "after": {"id": 7}}, {"op": "d", "after": None}, {"id": 8}]
    >>> list(rows_of(events, ["c", "r"]))
    [{'id': 7}, {'id': 8}]
    """
    if not changes:
        return iter(records)
    found = (row_of(record, changes) for record in records)
    return (row for row in found if row is not None)


def as_events(records: Iterable[Outgoing], changes: Sequence[str]) -> Iterator[Outgoing]:
    """The records as change events of the first of these operations; without any, as they are."""
    if not changes:
        return iter(records)
    return (r._replace(value=event_of(r.value or b"null", changes)) for r in records)


def _moments(
    start: int, step_ms: float, time_field: str | None
) -> Callable[[int, Mapping[str, object]], int]:
    """The timestamp of an observation, by its index and its fields."""
    if time_field is None:
        return lambda index, _: start + int(index * step_ms)
    latest = 0

    def moment(index: int, record: Mapping[str, object]) -> int:
        nonlocal latest
        try:
            timestamp = time_of(record, time_field)
        except ValueError as error:
            raise ConfigError(f"record {index + 1}, field {time_field!r}: {error}") from None
        if timestamp < latest:
            raise ConfigError(
                f"record {index + 1}, field {time_field!r}: expected times in order, got an "
                "earlier time than before; sort the records by it"
            )
        latest = timestamp
        return timestamp

    return moment


def _with_id(
    index: int, record: Mapping[str, object], id_field: str, first_id: int
) -> tuple[str | int, Mapping[str, object]]:
    """The id of an observation, and the observation with it."""
    found = record.get(id_field)
    if type(found) is str and found:
        return found, record
    id_ = id_of(index, record, id_field, first_id)
    if found is None and "." not in id_field:
        # No nested field is added; the key, which a service also reads, has the id.
        return id_, {**record, id_field: id_}
    return id_, record


def _split(
    id_: str | int,
    record: Mapping[str, object],
    topic: str,
    timestamp: int,
    labels: LateLabels,
) -> tuple[Outgoing, Outgoing | None]:
    """The observation without its label, and the label if it has one."""
    key = key_of(id_)
    found = field_of(record, labels.field)
    rest, who = _without(record, labels.field), {}
    if labels.reporter is not None:
        who = labels.reporter.of(record)
        rest = _without(rest, labels.reporter.inside)
    value = encoded(rest)
    label = None
    if found is not None:
        label = Outgoing(labels.topic, key, encoded({"id": id_, "label": found, **who}))
    return Outgoing(topic, key, value, timestamp), label


def _without(record: Mapping[str, object], name: str) -> Mapping[str, object]:
    """A copy without a field."""
    if name in record or "." not in name:
        return {k: v for k, v in record.items() if k != name}
    first, rest = name.split(".", 1)
    inner = record.get(first)
    return {**record, first: _without(inner, rest)} if isinstance(inner, dict) else record


def _due(label: _Waiting) -> Outgoing:
    return label.record._replace(timestamp=label.due)
