"""`headwater produce`: what is in the log afterwards, and what it says."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.base.records import RECORD_BYTES, Outgoing, Partition, Record, record_bytes
from consumers.cli import main
from consumers.commands.wire import send
from consumers.offline.feed import due_seconds
from consumers.transports import open_log
from consumers.transports.memory.log import MemoryLog

Said = pytest.CaptureFixture[str]
Produce = Callable[..., int]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """An embedded log that is not there yet."""
    return f"sqlite:{tmp_path / 'log.db'}"


@pytest.fixture
def produce(tmp_path: Path, url: str) -> Produce:
    """Write a file of this content and produce it."""

    def run(topic: str, content: str, *options: str, name: str = "a.jsonl") -> int:
        path = tmp_path / name
        path.write_text(content)
        return main(["produce", topic, str(path), "--transport", url, *options])

    return run


def jsonl(records: Sequence[dict[str, Any]]) -> str:
    """Records as lines."""
    return "".join(json.dumps(record) + "\n" for record in records)


def stored(url: str, *topics: str) -> list[Record]:
    """What these topics hold, partition by partition."""
    log = open_log(url)
    try:
        have = log.topics()
        starts = {Partition(t, n): 0 for t in topics for n in range(have[t])}
        return [
            Record(*part.partition, *column)
            for part in log.read(starts, log.end_offsets(list(starts)))
            for column in zip(part.offsets, part.timestamps, part.keys, part.values, strict=True)
        ]
    finally:
        log.close()


def test_observations_and_late_labels_are_in_their_topics(
    produce: Produce, url: str, capsys: Said
) -> None:
    """Topics are made, timestamps end in the present, the summary counts both."""
    records = [{"id": f"r{i}", "x": i, "y": i % 2} for i in range(1250)]

    code = produce("obs", jsonl(records), "--label-topic", "lab", "--label", "y", "--delay", "50")

    out = capsys.readouterr()
    observations, labels = stored(url, "obs"), stored(url, "lab")
    assert code == 0
    assert out.out.startswith("1,250 observations to obs, 1,250 labels to lab in ")
    assert [json.loads(r.value or b"") for r in observations] == [
        {"id": f"r{i}", "x": i} for i in range(1250)
    ]
    assert [r.key for r in observations] == [r.key for r in labels]
    assert json.loads(labels[7].value or b"") == {"id": "r7", "label": 1}
    assert labels[7].timestamp == observations[7 + 49].timestamp
    assert labels[-1].timestamp == observations[0].timestamp + 1249 + 49


def test_observations_and_labels_are_written_interleaved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that runs beside it sees a label right when it became known."""
    written: list[str] = []
    monkeypatch.setattr(
        MemoryLog, "append", lambda _, chunk: written.extend(r.topic for r in chunk)
    )
    path = tmp_path / "a.jsonl"
    path.write_text(jsonl([{"y": 1}] * 4))

    labels = ["--label-topic", "l", "--label", "y", "--delay", "2"]
    code = main(["produce", "o", str(path), "--transport", "memory:interleaved", *labels])

    assert code == 0
    assert "".join(written) == "oolololl"


def test_key_puts_observation_and_label_into_partitions_of_one_number(
    produce: Produce, url: str
) -> None:
    """Both topics are made with as many partitions, and several of them are used."""
    options = ["--label-topic", "lab", "--label", "y", "--partitions", "3"]

    assert produce("obs", jsonl([{"id": i, "y": 1} for i in range(50)]), *options) == 0

    places = {r.key: r.partition for r in stored(url, "obs")}
    assert {r.key: r.partition for r in stored(url, "lab")} == places
    assert set(places.values()) == {0, 1, 2}


def test_csv_types_are_obeyed(produce: Produce, url: str) -> None:
    """Two options or one with a comma are the same."""
    content = "zip,size,note\n53111,1,5\n"
    options = ["--types", "zip=categorical,size=text", "--types", "note=text"]

    assert produce("obs", content, *options, name="a.csv") == 0

    (record,) = stored(url, "obs")
    assert json.loads(record.value or b"") == {"zip": "53111", "size": "1", "note": "5", "id": "0"}


def test_time_field_sorts_a_file_that_is_not_in_order(produce: Produce, url: str) -> None:
    """Records lie in the log in order of the time they have."""
    records = [{"id": 0, "t": 1709294460}, {"id": 1, "t": 1709294400}, {"id": 2, "t": 1709294400}]

    assert produce("obs", jsonl(records), "--time-field", "t") == 0

    found = [(r.key, r.timestamp - 1709294400000) for r in stored(url, "obs")]
    assert found == [(b"1", 0), (b"2", 0), (b"0", 60_000)]


@pytest.mark.parametrize(("unit", "size"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_unit_of_times_is_said_with_the_first_moment(
    produce: Produce, capsys: Said, unit: str, size: int
) -> None:
    """A unit that fits by chance, as of ticks of 100 ns, shows by the year."""
    assert produce("obs", jsonl([{"id": 1, "at": 1_711_852_200 * size}]), "--time-field", "at") == 0

    said = f"time at: read in {unit}, the first is 2024-03-31 02:30:00 UTC; --time-field at:"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("zones", "said"),
    [
        (["", ""], "time at: no zone, read as UTC; write one, as in "),
        (["", "Z"], "time at: 1 of the first 2 values has no zone and is read as UTC"),
        (["Z", "+02:00"], None),
    ],
)
def test_times_without_a_zone_are_said(
    produce: Produce, capsys: Said, zones: list[str], said: str | None
) -> None:
    """They were read as UTC, also beside others with a zone, and nobody heard of it."""
    records = [{"id": n, "at": f"2026-03-29T0{4 + n}:30{zone}"} for n, zone in enumerate(zones)]
    assert produce("obs", jsonl(records), "--time-field", "at") == 0

    shown = capsys.readouterr().err
    assert "zone" not in shown if said is None else said in shown


def test_config_names_the_log(tmp_path: Path, url: str, capsys: Said) -> None:
    """`--config` takes the transport of a configuration, relative to the file."""
    config = tmp_path / "c.toml"
    config.write_text(
        'name = "n"\n[input]\ntransport = "sqlite:log.db"\nobservations = "obs"\n'
        '[model]\ntype = "GaussianNB"\n'
    )
    path = tmp_path / "a.jsonl"
    path.write_text('{"x": 1}\n')

    assert main(["produce", "obs", str(path), "--config", str(config)]) == 0
    assert len(stored(url, "obs")) == 1
    assert capsys.readouterr().out.startswith("1 observation to obs in ")


def test_fields_that_the_service_does_not_use_are_said(
    tmp_path: Path, url: str, capsys: Said
) -> None:
    """Of the configuration that reads the topic; not the fields of id, label and time."""
    config = tmp_path / "svc.toml"
    config.write_text(
        f'name = "svc"\ninput = {{ transport = "{url}", observations = "obs", labels = "lab" }}\n'
        '[features]\namount = "numeric"\nage = "numeric"\ncountry = "categorical"\n'
    )
    records = tmp_path / "a.jsonl"
    rows = [
        {"id": i, "amuont": i, "age": "7" if i % 2 else 7, "country": "de", "y": 1, "at": 10**9 + i}
        for i in range(40)
    ]
    records.write_text(jsonl(rows))
    labels = ["--label-topic", "lab", "--label", "y", "--time-field", "at"]

    assert main(["produce", "obs", str(records), "--config", str(config), *labels]) == 0

    assert capsys.readouterr().out.splitlines()[1:] == [
        "of the first 40 observations: field 'age': 20 of 40 values do not fit its kind "
        '(wrong_kind), the last: "7"',
        "of the first 40 observations: no value of 'amount'; they have 'amuont'",
        "of the first 40 observations: not declared, so not used: 'amuont'",
    ]


def test_first_line_that_is_a_record_is_no_header(tmp_path: Path, url: str, capsys: Said) -> None:
    """Whole numbers and words may be names; here none of them is a declared one."""
    config, rows = tmp_path / "shop.toml", tmp_path / "rows.csv"
    of = f'transport = "{url}"\nobservations = "obs"\n[features]\nx = "numeric"\ny = "binary"\n'
    config.write_text(f'name = "shop"\n[input]\n{of}')
    rows.write_text("5,a\n6,b\n")
    how = ["produce", "obs", str(rows), "--config", str(config)]

    assert main(how) == 2
    assert capsys.readouterr().err == (
        f"headwater: {rows}: none of the declared fields (x, y) is a column; the first line is "
        "5, a: if it is a record, give the names by --columns a,b,c\n"
    )
    assert main([*how, "--columns", "x,what"]) == 0
    assert [json.loads(r.value or b"")["x"] for r in stored(url, "obs")] == [5, 6]


def test_records_that_would_be_dead_letters_are_counted(
    tmp_path: Path, url: str, capsys: Said
) -> None:
    """No value of such a record fits, although bad values count as missing."""
    config, rows = tmp_path / "shop.toml", tmp_path / "rows.csv"
    of = f'transport = "{url}"\nobservations = "obs"\n[features]\nx = "numeric"\n'
    config.write_text(f'name = "shop"\n[input]\n{of}[values]\non_bad_value = "missing"\n')
    rows.write_text("x,id\n" + "".join(f"{i}.5,{i}\n" for i in range(40)) + "high,8\n" * 2)

    assert main(["produce", "obs", str(rows), "--config", str(config)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "of the first 42 observations: 2 would be dead letters, the first: field 'x' expects a "
        "number, got str"
    ]


def test_a_number_that_the_service_reads_from_text_is_said_to_be_used(
    tmp_path: Path, url: str, capsys: Said
) -> None:
    """The fields are decoded as the service does it: here a row after a change, with decimals."""
    config = tmp_path / "c.toml"
    config.write_text(
        f'name = "n"\n[input]\ntransport = "{url}"\nobservations = "obs"\nchanges = ["c"]\n'
        'numbers_as_text = ["amount"]\n[features]\namount = "numeric"\nage = "numeric"\n'
        '[model]\ntype = "GaussianNB"\n'
    )
    records = tmp_path / "a.jsonl"
    records.write_text(jsonl([{"op": "c", "after": {"id": 1, "amount": "7.50", "agee": 3}}]))

    assert main(["produce", "obs", str(records), "--config", str(config)]) == 0

    assert [line for line in capsys.readouterr().out.splitlines() if "of the first" in line] == [
        "of the first observation: no value of 'age'; they have 'agee'",
        "of the first observation: not declared, so not used: 'agee'",
    ]


def test_ids_that_were_made_are_said_and_not_repeated_by_a_second_file(
    produce: Produce, url: str, tmp_path: Path, capsys: Said
) -> None:
    """Both files are learned whole: the numbers go on where the first file ended."""
    config = tmp_path / "c.toml"
    config.write_text(
        'name = "n"\n[input]\ntransport = "sqlite:log.db"\nobservations = "obs"\n'
        'labels = "lab"\n[model]\ntype = "GaussianNB"\n[http]\nenabled = false\n'
    )
    rows = jsonl([{"x": i + 0.5, "y": i % 2} for i in range(1000)])
    labels = ["--label-topic", "lab", "--label", "y", "--delay", "5"]

    for _ in range(2):
        assert produce("obs", rows, *labels) == 0
    said = capsys.readouterr().out
    assert main(["run", str(config), "--drain"]) == 0

    assert "no field 'id': ids 0 to 999 assigned; --id-field uses another field\n" in said
    assert "no field 'id': ids 1000 to 1999 assigned; --id-field uses another field\n" in said
    predictions = [json.loads(r.value or b"") for r in stored(url, "n-predictions")]
    assert [p["id"] for p in predictions] == [str(i) for i in range(2000)]
    assert main(["replay", str(config), "--journal", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["learned"], report["pending"]) == (2000, 0)


def test_ids_are_taken_from_the_field_that_the_configuration_reads(
    tmp_path: Path, url: str, capsys: Said
) -> None:
    """Else every label would be sent under an invented id and find no observation."""
    config, file = tmp_path / "c.toml", tmp_path / "a.jsonl"
    config.write_text(
        'name = "n"\n[input]\ntransport = "sqlite:log.db"\nobservations = "obs"\n'
        'labels = "lab"\nid = "order"\n'
    )
    file.write_text(jsonl([{"order": "A7", "x": 1, "y": True}]))
    labels = ["--label-topic", "lab", "--label", "y"]

    assert main(["produce", "obs", str(file), "--config", str(config), *labels]) == 0

    [observation, label] = stored(url, "obs", "lab")
    assert (observation.key, label.key) == (b"A7", b"A7")
    assert json.loads(label.value or b"") == {"id": "A7", "label": True}
    assert "made" not in capsys.readouterr().out


def test_ids_that_are_missing_here_and_there_are_counted(produce: Produce, capsys: Said) -> None:
    """The others keep their own."""
    assert produce("obs", jsonl([{"id": "a"}, {"x": 1}, {"x": 2}])) == 0

    said = capsys.readouterr().out
    assert "no field 'id' in 2 of 3 records: their ids are record numbers from 0 on" in said


def test_topics_the_configuration_does_not_read_are_refused(tmp_path: Path, capsys: Said) -> None:
    """A typo makes no topic and writes no label; --any-topic means it. Labels may come alone."""
    url = f"sqlite:{tmp_path / 'log.db'}"
    config, file = tmp_path / "c.toml", tmp_path / "a.jsonl"
    config.write_text(
        f'name = "n"\n[input]\ntransport = "{url}"\nobservations = "obs"\n'
        'labels = "lab"\n[model]\ntype = "GaussianNB"\n'
    )
    file.write_text('{"id": 1, "y": 1}\n')
    command = ["--config", str(config), "--label", "y", "--label-topic"]

    assert main(["produce", "abs", str(file), *command, "lob"]) == 2
    assert main(["produce", "abs", str(file), *command, "lab"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 2
    assert "does not read 'abs' (its [input] observations is 'obs') and 'lob' (its [input]" in err
    assert "correct the name, or give --any-topic; nothing was written" in err
    assert not (tmp_path / "log.db").exists()

    assert main(["produce", "obs", str(file), *command, "lab"]) == 0
    assert capsys.readouterr().out.startswith("1 observation to obs, 1 label to lab in ")
    assert main(["produce", "lab", str(file), "--config", str(config), "--label", "y"]) == 0
    assert capsys.readouterr().out.startswith("1 label to lab in "), "labels alone"
    assert main(["produce", "abs", str(file), *command, "lob", "--any-topic"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ('{"a": 1}\n{"a": \n', [], "line 2 is not JSON"),
        ("\n", [], "expected records, got none; nothing was written"),
        ('{"id": 1.5}', [], "expected text or an integer; name another field with --id-field"),
        ('{"a": 1}', ["--label-topic", "l"], "labels need --label-topic T and --label FIELD"),
        ('{"a": 1}', ["--delay", "5"], "labels need --label-topic T and --label FIELD"),
        ('{"a": 1}', ["--label", "a", "--label-topic", "obs"], "both go to 'obs'"),
        ('{"a": 1}', ["--label", "b", "--label-topic", "l"], "no record has a label in field 'b'"),
        ('{"a": 1}', ["--delay", "soon"], "expected --delay as a number of records or a duration"),
        ('{"a": 1}', ["--rate", "0"], "expected --rate above 0, got 0"),
        ('{"a": 1}', ["--rate", "1", "--time-field", "a"], "give one"),
        (
            '{"a": "soon"}',
            ["--time-field", "a"],
            "field 'a': expected a time since 1970 (ISO 8601, or epoch s, ms, µs or ns)",
        ),
        ('{"a": 1}', ["--types", "a=text"], "--types is for CSV"),
        ('{"a": 1}', ["--types", "a"], "expected --types FIELD=KIND, got 'a'"),
        ('{"a": 1}', ["--config", "c.toml"], "got both"),
    ],
)
def test_wrong_use_is_one_line_and_leaves_no_trace(
    produce: Produce, url: str, capsys: Said, content: str, options: list[str], said: str
) -> None:
    """Exit code 2; the log is not even made."""
    code = produce("obs", content, *options)

    out = capsys.readouterr()
    assert code == 2
    assert said in out.err
    assert out.err.count("\n") == 1
    assert not Path(url.removeprefix("sqlite:")).exists()


def test_other_number_of_partitions_than_the_topic_has_is_refused(
    produce: Produce, capsys: Said
) -> None:
    """A topic cannot be re-divided by producing to it."""
    assert produce("obs", '{"a": 1}', "--partitions", "2") == 0

    assert produce("obs", '{"a": 1}', "--partitions", "3") == 2
    assert "topic 'obs' has 2 partitions" in capsys.readouterr().err
    assert produce("obs", '{"a": 1}') == 0


def test_topic_is_made_on_kafka_only_when_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Said
) -> None:
    """Topics of a shared broker belong to its operator."""
    log = MemoryLog("as-kafka")
    monkeypatch.setattr("consumers.transports.open_log", lambda url: log)
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}')
    command = ["produce", "obs", str(path), "--transport", "kafka://broker:9092"]

    assert main(command) == 2
    assert "has no topic 'obs'; create it, or give --create" in capsys.readouterr().err
    assert main([*command, "--create"]) == 0
    assert log.topics() == {"obs": 1}


def test_rate_gives_real_time_steps(produce: Produce, url: str) -> None:
    """Timestamps at 500 a second are 2 ms apart."""
    assert produce("obs", jsonl([{"a": 1}] * 20), "--rate", "500") == 0

    times = [r.timestamp for r in stored(url, "obs")]
    assert [b - a for a, b in pairwise(times)] == [2] * 19


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("rate", [2.0, 300.0, 20_000.0])
def test_paced_records_are_written_when_due(rate: float) -> None:
    """None later than its time, none more than 10 ms (and a rounded ms) before it."""
    clock = Clock()
    log = MemoryLog(f"paced-{rate}")
    log.create_topic("t", 1)
    step = max(1.0, 1000 / rate)
    records = [Outgoing("t", None, b"{}", 5000 + int(i * step)) for i in range(100)]
    moments: list[float] = []

    send(
        log,
        records,
        pace=due_seconds(5000, rate),
        wrote=lambda chunk: moments.extend([clock.now] * len(chunk)),
        clock=clock,
        sleep=clock.sleep,
    )

    early = [i / rate - moment for i, moment in enumerate(moments)]
    assert len(moments) == 100
    assert min(early) >= -1e-9
    assert max(early) <= 0.0115


def test_interrupted_feed_says_what_was_written(
    produce: Produce, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    """Ctrl-C ends with 130 and a count that is true."""

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(
        "consumers.commands.produce.send",
        lambda log, outgoing, **options: send(log, outgoing, sleep=interrupted, **options),
    )

    assert produce("obs", jsonl([{"a": 1}] * 5), "--rate", "1") == 130
    assert capsys.readouterr().out == "stopped: 1 observation to obs\n"


def test_long_work_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    """After a second a line on stderr, then one every five, with rate and time left."""
    from consumers.commands.meter import Meter

    clock = Clock()
    with Meter("records written", 1200, clock=clock) as meter:
        for _ in range(12):
            clock.sleep(0.6)
            meter.advance(100)

    err = capsys.readouterr().err
    assert err == (
        "200 of 1,200 records written (167/s)\n1,100 of 1,200 records written (167/s, 1 s left)\n"
    )


def test_time_that_is_left_is_not_by_a_slow_start(capsys: Said) -> None:
    """The first record may wait for a compiler."""
    from consumers.commands.meter import Meter

    clock = Clock()
    with Meter("records read", 20_000, clock=clock) as meter:
        clock.sleep(6.0)
        for _ in range(60):
            meter.advance(100)
            clock.sleep(0.1)

    first, second = capsys.readouterr().err.splitlines()
    assert first == "100 of 20,000 records read"  # a rate needs two
    assert second == "5,200 of 20,000 records read (1,000/s, 15 s left)"


def test_progress_counts_one_record(capsys: Said) -> None:
    """It is not "1 mails sent"."""
    from consumers.commands.meter import Meter

    clock = Clock()
    with Meter("mails sent", clock=clock) as meter:
        clock.sleep(2.0)
        meter.advance(1)

    assert capsys.readouterr().err == "1 mail sent\n"


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 12), st.integers(1, 100))
def test_chunk_ends_at_its_bytes_or_its_count(sizes, most, most_bytes) -> None:
    """Every record once, in order; a chunk passes its bytes by one record at most."""
    chunks: list[list[Outgoing]] = []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{send.__module__}.CHUNK", most)
        patch.setattr(f"{send.__module__}.CHUNK_BYTES", most_bytes + RECORD_BYTES)
        log: Any = SimpleNamespace(append=chunks.append)
        send(log, (Outgoing("t", None, b"x" * n) for n in sizes))

    assert [len(out.value or b"") for chunk in chunks for out in chunk] == sizes
    for chunk in chunks:
        held = [record_bytes(out.key, out.value) for out in chunk]
        assert 1 <= len(chunk) <= most
        assert sum(held[:-1]) < most_bytes + RECORD_BYTES
    for chunk in chunks[:-1]:  # and none ends before it must
        held = [record_bytes(out.key, out.value) for out in chunk]
        assert len(chunk) == most or sum(held) >= most_bytes + RECORD_BYTES


def test_reporters_go_to_the_label_records_alone(produce: Produce, url: str) -> None:
    """Beside an observation by name, and a label without one names nobody."""
    records = [
        {"id": "a", "x": 1, "y": "spam", "by": "ann"},
        {"id": "b", "x": 2, "y": "ham", "by": None},
        {"id": "c", "x": 3, "y": None, "by": "bob"},
    ]

    options = ("--label-topic", "lab", "--label", "y", "--reporter", "by")
    assert produce("obs", jsonl(records), *options) == 0

    assert [json.loads(r.value or b"") for r in stored(url, "obs")] == [
        {"id": "a", "x": 1},
        {"id": "b", "x": 2},
        {"id": "c", "x": 3},
    ]
    assert [json.loads(r.value or b"") for r in stored(url, "lab")] == [
        {"id": "a", "label": "spam", "reporter": "ann"},
        {"id": "b", "label": "ham"},
    ]


@pytest.mark.parametrize(
    ("declared", "options", "expected"),
    [
        ('[labels]\nreporter = "by"', (), [{"by": "007"}, {}]),
        ('[labels]\nreporter = "told.by"', ("--reporter", "by"), [{"told.by": "007"}, {}]),
        ("", (), [{}, {}]),
    ],
)
def test_a_file_of_labels_keeps_its_reporters(
    tmp_path: Path, url: str, declared: str, options: Sequence[str], expected: list[Any]
) -> None:
    """Under the name that the service reads, and as they are written: 007 is not 7."""
    config, file = tmp_path / "c.toml", tmp_path / "labels.csv"
    config.write_text(
        'name = "c"\nmodel = { type = "spam" }\n[input]\n'
        f'transport = "{url}"\nobservations = "obs"\nlabels = "lab"\n{declared}\n'
    )
    file.write_text("id,label,by\n1,spam,007\n2,ham,\n")

    assert main(["produce", "lab", str(file), "--config", str(config), *options]) == 0

    found = [json.loads(r.value or b"") for r in stored(url, "lab")]
    plain = [{"id": 1, "label": "spam"}, {"id": 2, "label": "ham"}]
    assert [{**a, "id": str(a["id"])} for a in found] == [
        {**a, "id": str(a["id"]), **b} for a, b in zip(plain, expected, strict=True)
    ]


def test_a_reporter_that_the_service_would_not_read_is_refused(
    tmp_path: Path, url: str, capsys: Said
) -> None:
    """Nothing is written."""
    config, file = tmp_path / "c.toml", tmp_path / "labels.jsonl"
    config.write_text(
        'name = "c"\nmodel = { type = "spam" }\n[input]\n'
        f'transport = "{url}"\nobservations = "obs"\nlabels = "lab"\n'
    )
    file.write_text(jsonl([{"id": "1", "label": "spam", "by": "ann"}]))

    assert main(["produce", "lab", str(file), "--config", str(config), "--reporter", "by"]) == 2
    assert "[labels] reporter is not set" in capsys.readouterr().err
