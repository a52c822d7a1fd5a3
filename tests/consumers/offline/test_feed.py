"""Records and labels in time: the timestamps must put every label where its delay says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from consumers.base.errors import ConfigError
from consumers.base.fields import UNITS, timestamp_ms
from consumers.base.records import Outgoing
from consumers.codecs.json import JsonLabels, JsonObservations
from consumers.files.source import read_records
from consumers.offline.feed import (
    LateLabels,
    due_seconds,
    parse_delay,
    step_ms,
    timed,
    trailing_labels,
)
from stream.data.schema import Schema

START = 1_700_000_000_000


def fed(
    records: Sequence[Mapping[str, object]], delay: int | timedelta, **options: Any
) -> list[Outgoing]:
    """Observations to `obs`, the field y late to `lab`."""
    return list(timed(records, "obs", start=START, labels=LateLabels("lab", "y", delay), **options))


def shown(out: Sequence[Outgoing]) -> str:
    """The order as text: o1 is the observation with id 1, l1 its label."""
    return " ".join(f"{r.topic[0]}{(r.key or b'').decode()}" for r in out)


def value(record: Outgoing) -> Any:
    """The value, decoded."""
    return json.loads(record.value or b"")


@given(n=st.integers(0, 30), delay=st.integers(0, 40), rate=st.sampled_from([None, 3, 999, 7000]))
def test_service_order_puts_each_label_after_delay_minus_one_observations(
    n: int, delay: int, rate: float | None
) -> None:
    """Label i is taken after observation i+N-1 and before observation i+N, as river releases it."""
    out = fed([{"id": i, "y": i % 2} for i in range(n)], delay, step_ms=step_ms(rate))

    taken = sorted(out, key=lambda r: (r.timestamp, r.topic != "obs"))
    order = shown(taken).split()
    assert out == taken
    for i in range(n):
        before = {f"o{j}" for j in range(min(i + max(delay, 1), n))}
        assert {o for o in order[: order.index(f"l{i}")] if o[0] == "o"} == before


@pytest.mark.parametrize(
    ("delay", "order"),
    [
        (0, "o0 l0 o1 l1 o2 l2"),
        (1, "o0 l0 o1 l1 o2 l2"),
        (2, "o0 o1 l0 o2 l1 l2"),
        (3, "o0 o1 o2 l0 l1 l2"),
        (50, "o0 o1 o2 l0 l1 l2"),
        (timedelta(milliseconds=1), "o0 o1 l0 o2 l1 l2"),
        (timedelta(milliseconds=2), "o0 o1 o2 l0 l1 l2"),
    ],
)
def test_delays_by_hand(delay: int | timedelta, order: str) -> None:
    """Observations are 1 ms apart; at one moment the observation comes first."""
    out = fed([{"id": i, "y": i} for i in range(3)], delay)

    assert shown(out) == order


def test_label_has_the_timestamp_of_the_observation_it_follows() -> None:
    """Labels that are left at the end come 1 ms apart after the last observation."""
    out = fed([{"id": i, "y": 0} for i in range(4)], 3)

    assert [(r.timestamp or 0) - START for r in out if r.topic == "obs"] == [0, 1, 2, 3]
    assert [(r.timestamp or 0) - START for r in out if r.topic == "lab"] == [2, 3, 4, 5]
    assert trailing_labels(4, LateLabels("lab", "y", 3)) == 5 - 3


def test_label_is_stripped_from_its_observation_and_keyed_by_its_id() -> None:
    """Nothing of the answer is left in the question."""
    out = fed([{"id": 7, "x": 1.5, "y": "spam"}], 0)

    assert value(out[0]) == {"id": 7, "x": 1.5}
    assert value(out[1]) == {"id": 7, "label": "spam"}
    assert [r.key for r in out] == [b"7", b"7"]


def test_record_without_id_gets_its_running_number() -> None:
    """Also where the id is null; it is text, in the field and as the key."""
    out = list(timed([{"x": 1}, {"id": None}, {"id": "own"}], "obs", start=START))

    assert [value(r) for r in out] == [{"x": 1, "id": "0"}, {"id": "1"}, {"id": "own"}]
    assert [r.key for r in out] == [b"0", b"1", b"own"]


def test_running_numbers_begin_where_they_are_told_to() -> None:
    """A second file must not repeat the ids of the first; the label has its observation's."""
    out = fed([{"y": 1}, {"id": "own", "y": 0}, {"y": 1}], 0, first_id=1000)

    assert [r.key for r in out] == [b"1000", b"1000", b"own", b"own", b"1002", b"1002"]
    assert value(out[1]) == {"id": "1000", "label": 1}


def test_dotted_names_are_paths_unless_a_field_has_that_name() -> None:
    """Nested ids and labels are found and taken out, and the source is left as it was."""
    record = {"meta": {"id": "a", "y": 1}, "x": 2}
    late = LateLabels("lab", "meta.y")

    nested = list(timed([record], "obs", start=START, id_field="meta.id", labels=late))
    flat = list(timed([{"id": 1, "meta.y": 0}], "obs", start=START, labels=late))

    assert [value(r) for r in nested] == [
        {"meta": {"id": "a"}, "x": 2},
        {"id": "a", "label": 1},
    ]
    assert record == {"meta": {"id": "a", "y": 1}, "x": 2}
    assert [value(r) for r in flat] == [{"id": 1}, {"id": 1, "label": 0}]


def test_observation_without_label_has_no_label_record() -> None:
    """Null and absent are no labels, and do not move the others."""
    out = fed([{"id": 0, "y": None}, {"id": 1}, {"id": 2, "y": False}], 1)

    assert shown(out) == "o0 o1 o2 l2"
    assert value(out[-1]) == {"id": 2, "label": False}


def test_time_field_gives_the_timestamps_and_delays_are_in_that_time() -> None:
    """ISO 8601 with or without a zone; a label due at an observation's moment follows it."""
    records = [
        {"id": 0, "at": "2024-03-01T00:00:00", "y": 1},
        {"id": 1, "at": "2024-03-01T01:01:00+01:00", "y": 0},
        {"id": 2, "at": "2024-03-01T00:05:00Z", "y": 1},
    ]

    out = fed(records, timedelta(minutes=1), time_field="at")

    base = timestamp_ms("2024-03-01")
    assert shown(out) == "o0 o1 l0 l1 o2 l2"
    assert [(r.timestamp or 0) - base for r in out] == [
        0,
        60_000,
        60_000,
        120_000,
        300_000,
        360_000,
    ]


@pytest.mark.parametrize(
    ("moment", "ms"),
    [
        (1709294400, 1709294400000),
        (1709294400.25, 1709294400250),
        (1709294400250, 1709294400250),
        (1709294400250123, 1709294400250),
        (1709294400250123456, 1709294400250),
        (1709294400250123456.0, 1709294400250),
        ("2024-03-01T12:00:00.250Z", 1709294400250),
        ("1970-01-01", 0),
    ],
)
def test_times_are_iso_or_epoch_numbers_whose_size_says_their_unit(moment: object, ms: int) -> None:
    """Seconds, milliseconds, microseconds and nanoseconds."""
    assert timestamp_ms(moment) == ms


@given(st.integers(10**8, 10**10 - 1), st.sampled_from(["s", "ms", "us", "ns"]))
@example(10**10 - 1, "ns")  # whose quotient as a float is rounded up
def test_every_unit_is_the_same_moment_with_and_without_its_name(second: int, unit: str) -> None:
    """From 1973 to 2286 no size fits two units."""
    number = second * UNITS[unit]

    assert timestamp_ms(number) == timestamp_ms(number, unit) == second * 1000
    assert timestamp_ms(second * UNITS[unit] + UNITS[unit] - 1) // 1000 == second


@pytest.mark.parametrize("moment", [20240331, 45382.1, 20240331123000, 5, 0, 3e10, 1e300])
def test_number_without_a_likely_unit_needs_its_name(moment: float) -> None:
    """Dates as digits, days of spreadsheets, counts."""
    with pytest.raises(ValueError, match="name its unit after the field, as in at:s"):
        timestamp_ms(moment)


@pytest.mark.parametrize("moment", [None, True, "soon", "", -5, float("nan"), "1969-12-31"])
def test_what_is_no_time_is_refused(moment: object) -> None:
    """The message says what a time is."""
    with pytest.raises(ValueError, match="expected a time since 1970"):
        timestamp_ms(moment)


def test_times_that_go_back_and_bad_ids_are_refused_by_record() -> None:
    """The number of the record is named, from 1."""
    with pytest.raises(ConfigError, match=r"record 2, field 't:s': expected times in order"):
        fed([{"t": 5}, {"t": 4}], 0, time_field="t:s")
    with pytest.raises(ConfigError, match=r"record 2, field 't': expected a time"):
        fed([{"t": 5e8}, {}], 0, time_field="t")
    for bad in (1.5, True, "", ["a"]):
        with pytest.raises(
            ConfigError, match=r"record 1: field 'id' is .* expected text or an int"
        ):
            fed([{"id": bad}], 0)


def test_infinity_nan_and_half_surrogates_reach_the_service_as_they_were() -> None:
    """Nothing is turned into null on the way: the service must be able to reject it."""
    (out,) = timed([{"id": "é", "a": float("inf"), "b": "\ud800"}], "obs", start=START)
    (plain,) = timed([{"id": "é"}], "obs", start=START)

    assert out.value == b'{"id":"\\u00e9","a":Infinity,"b":"\\ud800"}'
    assert plain.value == '{"id":"é"}'.encode()


@given(rate=st.floats(0.01, 1e6), i=st.integers(0, 100_000))
def test_paced_record_is_due_when_its_turn_comes(rate: float, i: int) -> None:
    """Observation i is due i/rate seconds after the start, to the 1 ms of a timestamp."""
    timestamp = START + int(i * step_ms(rate))

    assert due_seconds(START, rate)(timestamp) == pytest.approx(i / rate, abs=0.001 + 1e-9)


@pytest.mark.parametrize("text", ["", "-1", "1.5", "soon", "5 parsecs", "٣"])
def test_delay_that_is_none_is_refused(text: str) -> None:
    """A delay is a number of records or a duration."""
    with pytest.raises(ConfigError, match="expected --delay as a number of records or a duration"):
        parse_delay(text)


digits = st.integers(-(10**40), 10**40).map(str)
texts = st.text("0123456789.+-_abcE ", min_size=1, max_size=12).filter(str.strip)


@given(st.lists(digits, min_size=1, max_size=8, unique=True), st.lists(texts, max_size=2))
def test_id_in_a_csv_is_text_as_written_at_both_ends(tmp_path_factory, numbers, others) -> None:
    """At any length, and where a label comes from the same file."""
    ids = [*numbers, *(["+49171", "007", *others] if others else [])]
    path = tmp_path_factory.mktemp("ids") / "a.csv"
    path.write_text("id,y\n" + "".join(f"{id_},{i % 2}\n" for i, id_ in enumerate(ids)))

    read = read_records(path, verbatim=("id", "y"))
    sent = list(timed(read, "o", start=0, labels=LateLabels("l", "y")))

    for topic, decoder in (("o", JsonObservations(Schema(()), "id", None)), ("l", JsonLabels())):
        values = [s.value for s in sent if s.topic == topic]
        assert list(decoder.decode([None] * len(values), values).ids) == ids


@pytest.mark.parametrize("block", [1, 100])
def test_number_with_a_whole_value_is_an_integer_at_both_ends(block) -> None:
    """Programs write 1.0 for 1 where other values of a column are missing."""
    read = [{"id": float(i), "y": float(i % 2)} for i in range(block)]

    sent = list(timed(read, "o", start=0, labels=LateLabels("l", "y")))

    [x, y] = [[s.value for s in sent if s.topic == topic] for topic in "ol"]
    assert [s.key.decode() for s in sent if s.topic == "o"] == list(map(str, range(block)))
    assert list(JsonObservations(Schema(()), "id", None).decode([None] * block, x).ids) == [
        str(i) for i in range(block)
    ]
    found = JsonLabels().decode([None] * block, y)
    assert list(found.ids) == list(map(str, range(block)))
    assert [(type(y), y) for y in found.labels] == [(int, i % 2) for i in range(block)]


VALUES = (1.5, -0.0, 1e300, 7, 2**63, True, None, "é\n\u2028", 'a"b', "null", "un", "\ud800",
          float("inf"), [1, None], {"a": {"b": "x"}}, np.float64(0.1), np.int64(3))  # fmt: skip
IDS = ("a", "é", "\ud800", 7, np.int64(7), "", None, True, 1.5)


@pytest.mark.parametrize("ids", [("a", "é"), (7,), (None,), ("a", 7), (None, "b"), IDS])
@pytest.mark.parametrize("id_field", ["id", "meta.id"])
@pytest.mark.parametrize("time_field", [None, "at"])
def test_records_encoded_together_are_those_encoded_alone(ids, id_field, time_field) -> None:
    """Bytes, keys and times, or an error, whatever the ids and the values of a block are."""
    random = Random(repr((ids, id_field, time_field)))
    for _ in range(60):
        own, values = random.sample(ids, random.randint(1, len(ids))), VALUES
        if random.random() < 0.5:
            values = (1.5, 7, "x", "é")
        records = []
        for n in range(random.choice((0, 1, 99, 100, 101, 250))):
            record = {f"x{i}": random.choice(values) for i in range(random.randint(0, 4))}
            id_ = random.choice(own)
            if id_ is not None or random.random() < 0.5:
                record |= {"meta": {"id": id_}} if "." in id_field else {"id": id_}
            records.append(record | {"at": 1_700_000_000_000 + n - (random.random() < 1e-3)})
        options = {"id_field": id_field, "time_field": time_field, "first_id": 40}

        def made(records=records, options=options, **more) -> list[Outgoing] | None:
            try:
                return list(timed(records, "obs", start=START, step_ms=2.5, **options, **more))
            except ConfigError:
                return None

        assert made(ahead=True) == made()
