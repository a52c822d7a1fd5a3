"""Histories in files: the same model from every format, and from labels in files of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumers.backfill.engines import local
from consumers.backfill.fit import Fitted, Job
from consumers.backfill.learn import learned, plan_files
from consumers.backfill.manifest import FileSpan, Reading, Split
from consumers.base.errors import ConfigError
from consumers.config import parse
from stream import MixedNB
from tests.consumers.backfill.histories import fits, same_up_to_rounding
from tests.consumers.backfill.test_logs import learner_of
from tests.seed import share

N = 600
START = 1_700_000_000_000
CONFIG = """
name = "svc"
[input]
transport = "sqlite:{directory}/log.db"
observations = "obs"
labels = "ans"
label = "label"
[features]
a = "numeric"
b = "numeric"
kind = "categorical"
[model]
type = "MixedNB"
"""


@pytest.fixture(scope="module")
def rows():
    """Records with times, labels, and the times of the labels."""
    rng = np.random.default_rng(3)
    out = []
    for i in range(N):
        y = "spam" if rng.random() < 0.4 else "ham"
        x = {"a": round(rng.normal(y == "spam"), 4), "b": round(rng.normal(), 4)}
        row = {"id": f"r{i}", "at": START + 1000 * i, **x, "kind": rng.choice(list("xyz")).item()}
        came = START + 1000 * i + int(rng.integers(0, 60_000))
        out.append({**row, "label": y, "came": came})
    return out


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """A service that reads these records."""
    return parse(CONFIG.format(directory=tmp_path_factory.mktemp("service")))


def as_parquet(path: Path, rows, groups: int = 50) -> str:
    """Write rows as Parquet."""
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=groups)
    return str(path)


def as_csv(path: Path, rows) -> str:
    """Write rows as CSV."""
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def as_jsonl(path: Path, rows) -> str:
    """Write rows as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def model(config, place, labels=None, reading=None, **options):
    """The history, learned in this process."""
    reading = reading or Reading(time_field="at")
    plan = plan_files(config, place, labels, reading, **options)
    return learned(plan, fits(plan))


def expected(rows) -> MixedNB:
    """What these rows teach, one after the other."""
    out = MixedNB()
    for row in rows:
        x = {name: row[name] for name in ("a", "b", "kind")}
        out.learn_one(x, row["label"])
    return out


@pytest.mark.parametrize("write", [as_parquet, as_csv, as_jsonl])
def test_every_format_gives_the_same_model(config, rows, tmp_path, write) -> None:
    """As if the records were learned one after the other."""
    found = model(config, write(tmp_path / f"h.{write.__name__[3:]}", rows), size=120)

    assert found.total("learned") == N
    same_up_to_rounding(learner_of(found), expected(rows))


def test_splits_are_whole_row_groups(config, rows, tmp_path) -> None:
    """As many as give the records of a split; the last one has what is left."""
    place = as_parquet(tmp_path / "h.parquet", rows, groups=70)
    splits = plan_files(config, place, size=200).job.manifest.splits

    assert [s.spans for s in splits] == [
        [FileSpan(0, [0, 1, 2], 210)],
        [FileSpan(0, [3, 4, 5], 210)],
        [FileSpan(0, [6, 7, 8], 180)],
    ]


@given(cut=st.integers(1, N - 1), groups=st.integers(7, 300), size=st.integers(1, 400))
@settings(max_examples=share(0.025))
def test_until_ends_the_history_in_the_middle_of_a_split(
    config, rows, tmp_path_factory, cut, groups, size
) -> None:
    """Records at that time or later are not learned."""
    place = as_parquet(tmp_path_factory.mktemp("history") / "h.parquet", rows, groups)
    found = model(config, place, until=START + 1000 * cut, size=size)

    same_up_to_rounding(learner_of(found), expected(rows[:cut]))


@pytest.mark.parametrize("minutes", [2, 5])
def test_labels_after_as_of_are_not_learned_and_wait(config, rows, tmp_path, minutes) -> None:
    """The label of a record is used only if it came before. Its observation waits for it."""
    until = START + 60_000 * minutes
    place = as_parquet(tmp_path / "h.parquet", rows)
    found = model(
        config, place, reading=Reading(time_field="at", label_time="came"), until=until, size=50
    )
    known = [row for row in rows if row["at"] < until and row["came"] < until]
    waiting = [row for row in rows if row["at"] < until <= row["came"]]

    same_up_to_rounding(learner_of(found), expected(sorted(known, key=lambda row: row["came"])))
    assert found.waiting == len(waiting) > 0


def test_labels_are_joined_from_files_of_their_own(config, rows, tmp_path) -> None:
    """By the id, in any order, and those without an observation are nobody's."""
    place = as_parquet(tmp_path / "h.parquet", [without(row) for row in rows])
    labels = [{"id": r["id"], "label": r["label"], "came": r["came"]} for r in rows[::-1]]
    labels.append({"id": "unknown", "label": "ham", "came": START})
    beside = as_csv(tmp_path / "labels.csv", labels)
    found = model(config, place, beside, size=50)
    as_of = rows[N // 2]["came"]  # a label of that time comes too late
    timed = model(config, place, beside, Reading(time_field="at", label_time="came"), as_of=as_of)

    same_up_to_rounding(learner_of(found), expected(rows))
    assert timed.total("learned") == sum(r["came"] < as_of for r in rows)


def without(row):
    """An observation without its label."""
    return {name: v for name, v in row.items() if name not in ("label", "came")}


def test_label_of_another_kind_is_a_dead_letter_in_every_split(config, rows, tmp_path) -> None:
    """Even where it is the first one of its split."""
    odd = [{**row, "label": 7} if i % 100 == 0 else row for i, row in enumerate(rows)]
    found = model(config, as_jsonl(tmp_path / "a.jsonl", odd[50:]), size=50)
    for i in range(6):
        as_jsonl(tmp_path / f"part-{i}.jsonl", odd[100 * i : 100 * (i + 1)])
    parts = model(config, str(tmp_path / "part-*.jsonl"))

    assert sum(fitted.dead_letters["label_kind"] for fitted in parts.splits) == 6
    assert len(parts.splits) == 6
    assert found.splits[0].dead_letters == {"label_kind": 5}


def test_files_in_processes_give_the_same_bits(config, rows, tmp_path) -> None:
    """Two processes, splits in any order."""
    place = as_parquet(tmp_path / "h.parquet", rows)
    plan = plan_files(config, place, None, Reading(time_field="at"), size=100)
    alone = learned(plan, fits(plan))
    done: list[int] = []
    together = learned(plan, local.run(plan.job, plan.job.manifest.splits, done.append, 2))

    assert together.model.data == alone.model.data
    assert sum(done) == N


def test_processes_that_die_are_started_again_while_splits_become_fewer(
    config, rows, tmp_path, monkeypatch
) -> None:
    """Without progress the third death is an error that says what to do."""
    place = as_parquet(tmp_path / "h.parquet", rows)
    plan = plan_files(config, place, None, Reading(time_field="at"), size=100)
    known = {fitted.number: fitted for fitted in fits(plan)}
    started: list[int] = []

    def dying(job: Job, splits: list[Split], workers: int) -> Iterator[Fitted]:
        started.append(len(splits))
        assert len(started) < 20, "it would never end"
        if len(splits) > 2:
            yield known[splits[0].number]
        raise BrokenProcessPool

    monkeypatch.setattr(local, "_pooled", dying)
    with pytest.raises(ConfigError, match="died 3 times; if it had too little memory"):
        list(local.run(plan.job, plan.job.manifest.splits, lambda count: None, 2))
    assert started == [6, 5, 4, 3, 2, 2]


def test_manifest_depends_on_content_not_on_the_place(config, rows, tmp_path) -> None:
    """A copy elsewhere is the same history; a changed one is not."""
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    one = as_parquet(tmp_path / "one" / "h.parquet", rows)
    two = as_parquet(tmp_path / "two" / "h.parquet", rows)
    three = as_parquet(tmp_path / "three" / "h.parquet", [*rows[:-1], {**rows[-1], "a": 99.0}])
    marks = [plan_files(config, place).job.manifest.sha256 for place in (one, two, three)]

    assert marks[0] == marks[1] != marks[2]


def test_files_with_offsets_say_where_the_history_ends(config, rows, tmp_path) -> None:
    """In each partition after the last record before `until`, in whatever order the rows are."""
    placed = [{**row, "p": i % 3, "o": 10 * i} for i, row in enumerate(rows)]
    place = as_parquet(tmp_path / "h.parquet", sorted(placed, key=lambda row: row["p"]))
    reading = Reading(offsets=["p", "o"])
    whole = model(config, place, reading=reading, size=100)
    before = model(
        config,
        as_csv(tmp_path / "h.csv", placed),
        reading=Reading(time_field="at", offsets=["p", "o"]),
        until=START + 300_000,
    )

    assert whole.history.record.cut == before.history.record.cut == "offsets"
    assert whole.history.starts == {("obs", 0): 5971, ("obs", 1): 5981, ("obs", 2): 5991}
    assert before.history.starts == {("obs", 0): 2971, ("obs", 1): 2981, ("obs", 2): 2991}


def test_offset_that_is_no_number_is_refused(config, rows, tmp_path) -> None:
    """It would decide where the service starts."""
    placed = [{**row, "p": 0, "o": None if i == 7 else i} for i, row in enumerate(rows)]
    place = as_jsonl(tmp_path / "h.jsonl", placed)

    with pytest.raises(ConfigError, match=r"record 8: expected whole numbers as 'p' and 'o'"):
        model(config, place, reading=Reading(time_field="at", offsets=["p", "o"]))


def test_field_of_a_time_that_no_record_has_is_refused(config, rows, tmp_path) -> None:
    """Else every label would count as one that came at once."""
    place = as_parquet(tmp_path / "h.parquet", rows)
    labels = as_csv(tmp_path / "labels.csv", [{"id": r["id"], "label": r["label"]} for r in rows])
    reading = Reading(time_field="at", label_time="cmae")

    for beside in (None, labels):
        with pytest.raises(ConfigError, match="--label-time: the first records have no field"):
            plan_files(config, place, beside, reading)


@pytest.mark.parametrize(
    ("configured", "reading", "message"),
    [
        (
            False,
            None,
            r"neither --label nor \[input\] label names the field of the label; give --l",
        ),
        (False, "lable", "the first records have no label in the field 'lable'; name its field"),
        (True, None, "the first records have no label in the field 'label'; name its field"),
    ],
)
def test_records_without_labels_are_refused(rows, tmp_path, configured, reading, message) -> None:
    """The message says which field was read, or that none was named."""
    line = 'label = "label"\n'
    text = CONFIG.format(directory=tmp_path).replace(line, line if configured else "")
    place = as_csv(tmp_path / "h.csv", [without(row) for row in rows])

    with pytest.raises(ConfigError, match=message):
        plan_files(parse(text), place, reading=Reading(time_field="at", label=reading))


def test_id_is_named_and_joins_labels(config, rows, tmp_path) -> None:
    """The files may have another name for it than the topics."""
    named = [{"key": r["id"], **{k: v for k, v in r.items() if k != "id"}} for r in rows]
    place = as_parquet(tmp_path / "h.parquet", [without(row) for row in named])
    labels = [{"key": r["id"], "label": r["label"]} for r in rows]
    beside = as_csv(tmp_path / "labels.csv", labels)
    found = model(config, place, beside, Reading(id="key", time_field="at"), size=100)

    assert found.total("learned") == N
    other = as_csv(tmp_path / "o.csv", [{"id": r["id"], "label": r["label"]} for r in rows])
    with pytest.raises(ConfigError, match="no record has the id in field 'id'"):
        plan_files(config, place, other, Reading(time_field="at"))


def test_row_without_a_label_waits_for_one_of_the_topic(config, rows, tmp_path) -> None:
    """Its label came later than the file was written."""
    late = [{**row, "label": None} if i >= N - 20 else row for i, row in enumerate(rows)]
    place = as_parquet(tmp_path / "h.parquet", late)
    found = model(config, place, until=START + 10**6, size=100)

    assert (found.total("learned"), found.waiting) == (N - 20, 20)


def test_fields_that_no_record_has_are_reported(config, rows, tmp_path) -> None:
    """A wrong name teaches nothing."""
    place = as_jsonl(tmp_path / "h.jsonl", [{**r, "B": r["b"], "b": None} for r in rows])

    plan = plan_files(config, place)

    assert list(plan.absent) == ["b"]
    fields = learned(plan, fits(plan)).fields
    assert fields is not None
    assert (fields.used["b"], "B" in fields.unknown) == (0, True)
    assert fields.used["a"] == fields.observations


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"until": START}, "--until needs the time of the records: give --time-field"),
        ({"as_of": START}, "--as-of needs the time of the labels: give --label-time"),
    ],
)
def test_times_without_their_fields_are_refused(config, rows, tmp_path, options, message) -> None:
    """The message names the option that is missing."""
    place = as_parquet(tmp_path / "h.parquet", rows)

    with pytest.raises(ConfigError, match=message):
        plan_files(config, place, **options)
