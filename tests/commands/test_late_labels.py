"""Labels that come weeks late, and ids that do not meet: `init`, `run`, `check`, `relearn`."""

from __future__ import annotations

import json
import random
from contextlib import closing
from pathlib import Path

import pytest

from consumers.base.records import Outgoing
from consumers.cli import main
from consumers.commands.init import init
from consumers.config import load
from consumers.transports import open_log

DAY = 86_400_000
START = 1_700_000_000_000
URL = "sqlite:feed.db"


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def fill(n: int = 400, days: tuple[float, float] = (14, 35), *, nested: bool = False) -> list[int]:
    """Payments over 60 days, and their refunds so many days later. Returns the delays in ms.

    `nested`: the key is the account, and the id is within an object.
    """
    rng = random.Random(7)
    observations, labels, delays = [], [], []
    for i in range(n):
        at, fraud = START + i * 60 * DAY // n, rng.random() < 0.3
        delays.append(int(rng.uniform(*days) * DAY))
        x = {"amount": round(rng.gauss(90 if fraud else 10, 5), 2)}
        value = {"payment": {"id": f"p{i}"}, **x} if nested else {"id": f"p{i}", **x}
        key = f"account {i % 40}".encode() if nested else b""
        observations.append(Outgoing("payments", key, json.dumps(value).encode(), at))
        label = json.dumps({"id": f"p{i}", "label": fraud}).encode()
        labels.append(Outgoing("refunds", b"", label, at + delays[-1]))
    with closing(open_log(URL)) as log:
        for topic in ("payments", "refunds"):
            log.create_topic(topic, 1)
        log.append([*observations, *sorted(labels, key=lambda record: record.timestamp)])
    return delays


def learned(config: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """How many labels a run learns, and what it says."""
    capsys.readouterr()
    path = Path(config)  # its port may be that of another service of this machine
    path.write_text(path.read_text().replace("port = 8321", "port = 0"))
    assert main(["check", config, "--create"]) == 0
    checked = capsys.readouterr().out
    assert main(["run", config, "--drain"]) == 0
    text = capsys.readouterr()
    said = checked + text.out + text.err
    [number] = [w.split()[-1] for w in said.replace(" learned", "|").split("|")[:-1]][-1:]
    return int(number.replace(",", "")), said


def with_horizon(text: str, horizon: str) -> str:
    """The configuration with this horizon, a model that compiles soon, and no page."""
    head, _, rest = text.partition("[labels]\n")
    rest = rest.partition("\n\n")[2].replace('type = "auto"', 'type = "GaussianNB"')
    return f'{head}[labels]\nhorizon = "{horizon}"\n\n{rest}enabled = false\n'


def test_init_writes_a_horizon_for_labels_that_come_weeks_late(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every delay of the sample is within it, so every label is learned."""
    delays = fill()
    init("payments", labels="refunds", transport=URL, name="late", no_look=True)
    said = capsys.readouterr().out

    config = load(Path("late.toml"))
    assert config.labels.horizon_ms > max(delays)
    assert "labels come up to 35 days after their observation" in said
    assert f"[labels] horizon = {config.labels.horizon}" in said


def test_usual_delays_leave_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    """And are said."""
    fill(days=(0.01, 2))
    init("payments", labels="refunds", transport=URL, name="soon", no_look=True)

    assert "labels come up to 2 days" in capsys.readouterr().out
    assert "[labels]\nhorizon" not in Path("soon.toml").read_text()


def test_labels_after_the_horizon_are_said_to_be_and_learned_by_relearn(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`run` and `check` name the horizon, and `relearn` changes it under the same name."""
    fill()
    init("payments", labels="refunds", transport=URL, name="late", no_look=True)
    text = Path("late.toml").read_text()
    Path("late.toml").write_text(with_horizon(text, "7d"))
    number, said = learned("late.toml", capsys)

    assert number == 0
    assert "400 of 400 come after [labels] horizon (7 days)" in said
    assert "observations expired before their label came ([labels] horizon)" in said
    Path("late.toml").write_text(with_horizon(text, "44d"))
    assert main(["relearn", "late.toml"]) == 0
    shown = capsys.readouterr().out
    assert "new: 400 joined" in shown
    assert main(["relearn", "late.toml", "--yes"]) == 0
    capsys.readouterr()
    assert main(["run", "late.toml", "--drain"]) == 0
    assert "400 learned" in capsys.readouterr().err


def test_the_table_of_init_obeys_the_horizon() -> None:
    """It learned what a run cannot learn: labels that come after the horizon."""
    from consumers.offline.look import Arrivals, _parts

    late = [2 * DAY, 9 * DAY]
    [part] = _parts([0, 1], Arrivals(["a", "b"], late, [START, START + 1], horizon=7 * DAY))

    assert [y for y in part.events.labels if y is not None] == ["a"]


def test_a_key_that_repeats_is_no_id_where_labels_have_another_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The key is the account; the labels have the ids within `payment`."""
    fill(days=(0.01, 2), nested=True)
    init("payments", labels="refunds", transport=URL, name="nested", no_look=True)
    said = capsys.readouterr().out

    assert load(Path("nested.toml")).input.id == "payment.id"
    assert "id payment.id: it has the ids of 400 of 400 labels, key or id of 0" in said
    number, said = learned("nested.toml", capsys)
    assert number == 400
    assert "400 of the first 400 labels have the id of one of the first 400 observations" in said


def test_check_names_the_field_that_labels_mean(capsys: pytest.CaptureFixture[str]) -> None:
    """None of the labels meets an observation by the configured id."""
    fill(days=(0.01, 2), nested=True)
    init("payments", labels="refunds", transport=URL, name="nested", no_look=True)
    text = Path("nested.toml").read_text()
    Path("nested.toml").write_text(text.replace('id = "payment.id"', 'id = "id"'))
    capsys.readouterr()

    main(["check", "nested.toml", "--create"])
    said = capsys.readouterr().out
    assert "none of the first 400 labels has the id of one of the first 400 observations" in said
    assert "field 'payment.id' of the observations has 400 of their ids: set [input] id" in said


def write(observations: list[dict[str, object]], labels: list[dict[str, object]]) -> None:
    """Records at once in two topics."""
    with closing(open_log(URL)) as log:
        for topic, values in (("payments", observations), ("refunds", labels)):
            log.create_topic(topic, 1)
            log.append([Outgoing(topic, None, json.dumps(v).encode(), START) for v in values])


def checked(name: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What `init` and `check` say."""
    capsys.readouterr()
    init("payments", labels="refunds", transport=URL, name=name, no_look=True)
    proposed = capsys.readouterr().out
    assert main(["check", f"{name}.toml", "--create"]) == 0
    return proposed, capsys.readouterr().out


SEEN: list[dict[str, object]] = [{"id": i, "amount": i % 7 + 0.5} for i in range(40)]


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ({"id": 1, "refunded": True}, "have no 'label', so they would be dead letters; they have"),
        ({"order": 1, "label": "a"}, "have no 'id' that is text or an integer, and no key, so"),
        ({"id": 2.0**60, "label": "a"}, "have no 'id' that is text or an integer, and no key, so"),
        (
            {"id": 1, "label": None},
            "have no 'label', so they would be dead letters; they have 'id'",
        ),
    ],
)
def test_labels_without_what_a_label_needs_are_said_before_the_run(
    capsys: pytest.CaptureFixture[str], label: dict[str, object], expected: str
) -> None:
    """Each is a dead letter; `check` called their ids fine."""
    write(SEEN, [label | ({"id": i} if label.get("id") == 1 else {}) for i in range(40)])

    for said in checked("lacking", capsys):
        assert f"40 of the first 40 label records {expected}" in said


def test_labels_of_two_kinds_are_said_before_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    """The first one decides the kind: text beside truth values is refused."""
    labels: list[object] = [True, False] * 15 + ["true", 1] * 5
    write(SEEN, [{"id": i, "label": label} for i, label in enumerate(labels)])

    for said in checked("kinds", capsys):
        assert "10 of 40 labels are of another kind than the first one (True, then 'true')" in said


def test_labels_that_are_measurements_are_said_before_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A model predicts classes: each of these is a dead letter."""
    write(SEEN, [{"id": i, "label": i / 7 + 0.1} for i in range(40)])

    for said in checked("measured", capsys):
        assert "label 'label': expected text, integers or truth values, got 0.1" in said


def test_ids_that_do_not_meet_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """As where a program has removed the leading zeros."""
    write([{**x, "id": f"00{x['id']}"} for x in SEEN], [{"id": i, "label": 1} for i in range(40)])

    proposed, said = checked("zeros", capsys)
    assert "none of 40 labels has the key or id of a record ('0' and '000')" in proposed
    assert "none of the first 40 labels has the id of one of the first 40 observations" in said


def test_ids_of_change_events_are_those_of_their_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """`check` reads both topics as the service does."""
    rows = ([{"op": "c", "after": x} for x in of] for of in (SEEN, [{"id": 3, "label": "a"}] * 40))
    write(*rows)
    Path("shop.toml").write_text(
        f'name = "shop"\n[input]\ntransport = "{URL}"\nobservations = "payments"\n'
        'labels = "refunds"\nchanges = ["c"]\n[features]\namount = "numeric"\n'
        '[model]\ntype = "GaussianNB"\n'
    )

    assert main(["check", "shop.toml", "--create"]) == 0
    assert "1 of the first 40 labels have the id of one of the first 40" in capsys.readouterr().out


@pytest.mark.parametrize("schema", [False, True])
def test_change_events_are_recognized_and_read_as_rows(
    capsys: pytest.CaptureFixture[str], schema: bool
) -> None:
    """Else a model learns from `op`, and each update is another prediction."""
    events = [{"op": "cu"[i % 2], "before": None, "after": x} for i, x in enumerate(SEEN)]
    labels = [{"op": "c", "after": {"id": x["id"], "label": i % 2}} for i, x in enumerate(SEEN)]
    write([{"schema": {}, "payload": e} if schema else e for e in events], labels)
    init("payments", labels="refunds", transport=URL, name="events", no_look=True)

    config, said = load(Path("events.toml")), capsys.readouterr().out
    assert "change events of a table (c 20, u 20): the rows of the operations c and r are" in said
    assert config.input.changes == ("c", "r")
    assert config.input.tombstones == "skip"
    assert set(config.features or ()) == {"amount"}
    assert "label records have" not in said


def test_topic_without_objects_says_what_it_has_instead(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An array of records, for example."""
    with closing(open_log(URL)) as log:
        log.create_topic("payments", 1)
        log.append([Outgoing("payments", None, b"[1]", START)] * 2)

    assert main(["init", "payments", "--transport", URL]) == 2
    said = capsys.readouterr().err
    assert "no JSON objects (2 other records, the first: expected a JSON object, got list)" in said
