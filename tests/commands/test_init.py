"""`headwater init`: what it proposes, and that what it writes runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from consumers.base.errors import ConfigError
from consumers.base.records import Outgoing, Partition
from consumers.cli import main
from consumers.commands.init import DELAY, init
from consumers.config import Config, load
from consumers.config.propose import choose
from consumers.config.sample import InferredField
from consumers.shard.models import build
from consumers.transports import open_log
from stream import PerKeyNB
from tests.commands.ports import other_port

ROWS = [{"id": i, "age": i % 40 + 0.5, "town": f"t{i % 3}", "spam": i % 2 == 0} for i in range(90)]
MESSAGES = [
    {"body": f"meet me at {i} near the old w{i} bridge", "hops": i % 4 + 0.5, "spam": "no"}
    for i in range(60)
]


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test writes into a directory of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, records: Iterable[Mapping[str, Any]]) -> str:
    Path(name).write_text("".join(json.dumps(r) + "\n" for r in records))
    return name


def test_file_gives_a_configuration_of_the_embedded_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Numbers learn, the label gets a topic, the id is no feature; each has its reason."""
    init(write("People (1).jsonl", ROWS), label="spam")

    config = load(Path("People-1.toml"))
    shown = capsys.readouterr().out
    assert config.input.transport == "sqlite:People-1.db"
    assert config.input_topics == ["People-1", "People-1-labels"]
    assert config.features == {"age": "numeric", "town": "categorical"}
    assert config.model.type == "auto"
    assert "90 of 90 values are numbers" in shown
    assert "label spam: 2 classes: true 45, false 45" in shown
    assert (
        "headwater produce People-1 'People (1).jsonl' --config People-1.toml "
        "--label-topic People-1-labels --label spam --delay 50" in shown
    )
    assert "--rate 50    # or this, in another terminal, to see it learn" in shown


def test_without_a_label_no_line_says_that_it_learns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The likely label is named; what comes next promises records only."""
    init(write("p.jsonl", [{"id": i, "amount": i % 7, "fraud": i % 2 == 0} for i in range(90)]))

    shown = capsys.readouterr().out
    assert "no label: nothing will be learned" in shown
    assert "if 'fraud' is the label, give --label fraud" in shown
    assert "# predicts nothing before a label is learned, and waits" in shown
    assert "--rate 50    # or this, in another terminal, to see records arrive" in shown
    assert "to see it learn" not in shown


def stamped(step_ms: int, **more: Any) -> list[dict[str, Any]]:
    """The rows, so many ms apart."""
    return [{**row, "ts": 1_700_000_000_000 + i * step_ms, **more} for i, row in enumerate(ROWS)]


@pytest.mark.parametrize(
    ("first", "step", "moment", "odd"),
    [
        (638_000_000_000_000_000, 600_000_000, "1990-03-21", True),  # .NET: since the year 1
        (730_000_000, 60, "1993-02-18", True),  # a Mac: since 2001
        (1_730_000_000, 60, "2024-10-27", False),
    ],
)
def test_first_and_last_moment_of_a_time_are_shown(
    capsys: pytest.CaptureFixture[str], first: int, step: int, moment: str, odd: bool
) -> None:
    """A count from another year is a time that nobody expects."""
    rows = [{**row, "at": first + i * step} for i, row in enumerate(ROWS)]
    init(write("people.jsonl", rows), label="spam", no_look=True)

    shown = capsys.readouterr().out
    assert f", from {moment}" in shown
    assert ("count from another year, as ticks of .NET" in shown) == odd


def test_answer_of_an_api_is_one_object_with_the_records_inside(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It was a record without the label, with the fields data and next."""
    Path("page.json").write_text(json.dumps({"next": None, "data": ROWS}))

    assert main(["init", "page.json", "--label", "spam"]) == 2
    said = capsys.readouterr().err
    assert "page.json is one object, whose field 'data' has a list of objects: write this" in said


def test_time_of_the_records_is_taken_by_what_is_proposed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Then labels are as late as they were; at a rate it would be the present time."""
    init(write("people.jsonl", stamped(60_000)), label="spam")

    shown = capsys.readouterr().out
    assert "time ts: every value is a time in ms, from 2023-11-14 22:13:20 to 2023-11-" in shown
    at_once, at_a_rate = (line for line in shown.splitlines() if "headwater produce" in line)
    assert "--delay 50 --time-field ts " in at_once
    assert "--time-field" not in at_a_rate
    assert at_a_rate.endswith("; records then have the present time, not that in ts")
    features = load(Path("people.toml")).features
    assert features is not None
    assert "ts" not in features
    command = at_once.partition("#")[0].split()[1:]
    assert main(["check", "people.toml", "--create"]) == 0
    assert main(command) == 0
    log = open_log("sqlite:people.db")
    first = next(iter(log.read({Partition("people", 0): 0}, {Partition("people", 0): 1})))
    log.close()
    assert first.timestamps[0] == 1_700_000_000_000


@pytest.mark.parametrize(
    ("step_ms", "more", "transport", "told"),
    [
        (86_400_000, {}, None, "time ts: not used: 50 records take longer than [labels]"),
        (1000, {"at": "2024-03-01"}, None, "`produce --time-field ts or at` would use one"),
        (1000, {"ts": "noon"}, None, None),
        (1000, {"ts": 7}, None, None),
        (1000, {}, "kafka://localhost:9", None),
    ],
)
def test_time_that_would_do_harm_is_not_taken(
    step_ms: int,
    more: dict[str, Any],
    transport: str | None,
    told: str | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Labels beyond the horizon, a choice of two, no time at all, a broker's retention by time."""
    init(write("people.jsonl", stamped(step_ms, **more)), label="spam", transport=transport)

    shown = capsys.readouterr().out
    assert f"--delay {DELAY}    # all at once" in shown
    assert (told or "headwater produce") in shown


def test_first_steps_and_init_have_labels_come_equally_late() -> None:
    """A newcomer compares the two."""
    page = (Path(__file__).parents[2] / "docs/start.md").read_text(encoding="utf-8")

    assert set(re.findall(r"--delay (\d+)", page)) == {str(DELAY)}


@pytest.mark.parametrize(
    ("label", "does"),
    [("spam", "learns"), (None, "predicts nothing before a label is learned")],
)
def test_next_step_says_what_the_service_will_do(
    label: str | None, does: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It promised to learn without labels."""
    init(write("people.jsonl", ROWS), label=label)

    run = "headwater run people.toml"
    assert f"{run}    # {does}, and waits for more records" in capsys.readouterr().out


def test_written_file_names_the_sections_that_cannot_change() -> None:
    """They are those of the identity; a newcomer learned it from the refusal of a start."""
    init(write("people.jsonl", ROWS), label="spam")

    text = Path("people.toml").read_text(encoding="utf-8")
    (frozen,) = re.findall(r"# After the first start (.*?) cannot change", text)
    identity = load(Path("people.toml")).identity()
    assert re.findall(r"\[(\w+)\]", frozen) == [x for x in identity if x != "model"]


def test_categories_beside_numbers_are_learned_too() -> None:
    """Each field as what it is."""
    init(write("people.jsonl", ROWS), label="spam")

    config = load(Path("people.toml"))
    assert config.model.type == "auto"
    assert config.features == {"age": "numeric", "town": "categorical"}


def test_text_alone_is_learned_by_its_words() -> None:
    """By the same default model as everything else."""
    messages = [{"body": m["body"], "spam": m["spam"]} for m in MESSAGES]
    init(write("mail.jsonl", messages), label="spam")

    config = load(Path("mail.toml"))
    assert config.model.type == "auto"
    assert config.features == {"body": "text"}


def test_text_beside_numbers_is_learned_with_them() -> None:
    """A number is a number there, not a count of words."""
    init(write("mail.jsonl", MESSAGES), label="spam")

    config = load(Path("mail.toml"))
    assert config.model.type == "auto"
    assert config.features is not None
    assert "text" in config.features.values()
    assert len(config.features) > 1


@pytest.mark.parametrize("kind", ["numeric", "binary", "categorical", "text"])
def test_every_choice_can_be_built(kind: Any) -> None:
    """Whatever is proposed must start."""
    model = choose([InferredField("x", kind, "because")]).model
    Path("x.toml").write_text(
        f'name = "x"\n[input]\ntransport = "memory:x"\nobservations = "o"\n'
        f'[model]\ntype = "{model}"\n'
    )

    assert build(load(Path("x.toml")).model).classes == []


def test_names_that_toml_must_quote_survive() -> None:
    """Field names are the sender's; the file must parse whatever they are."""
    odd = ['a "b"', "c\\d", "ü", "e f", "#g", "h\x7f"]
    init(write("odd.jsonl", [dict.fromkeys(odd, i + 0.5) for i in range(30)]))

    assert load(Path("odd.toml")).features == dict.fromkeys(odd, "numeric")


def test_topic_is_sampled_and_its_url_is_written_relative_to_the_file(directory: Path) -> None:
    """The configuration may live elsewhere than the command was typed."""
    log = open_log("sqlite:feed.db")
    log.create_topic("people", 2)
    log.append([Outgoing("people", b"k", json.dumps(row).encode()) for row in ROWS])
    log.close()
    (directory / "conf").mkdir()

    init("people", label="spam", transport="sqlite:feed.db", output=Path("conf/people.toml"))

    config = load(Path("conf/people.toml"))
    assert (directory / config.input.transport[7:]).resolve() == directory / "feed.db"
    assert (config.input.observations, config.input.labels) == ("people", None)
    assert config.input.label == "spam"
    assert config.features == {"age": "numeric", "town": "categorical"}


def test_bad_records_of_a_topic_are_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    """A sample must not fail for what the service would put aside."""
    log = open_log("memory:init-bad")
    log.create_topic("t", 1)
    log.append([Outgoing("t", None, b"{"), Outgoing("t", None, b'{"x": 1.5}')])

    init("t", transport="memory:init-bad")

    captured = capsys.readouterr()
    shown = captured.err + captured.out
    assert "1 record that is not a JSON object was skipped" in shown
    assert "the records have neither a field 'id' nor a key" in shown
    assert "no label: nothing will be learned" in shown


def test_existing_file_is_overwritten_only_by_force() -> None:
    """A configuration somebody edited is not lost."""
    write("p.jsonl", ROWS)
    Path("p.toml").write_text("mine")

    with pytest.raises(ConfigError, match=r"p\.toml exists; give --force"):
        init("p.jsonl")
    assert Path("p.toml").read_text() == "mine"
    init("p.jsonl", force=True)
    assert load(Path("p.toml")).name == "p"


def test_likely_label_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a label the service only predicts."""
    init(write("p.jsonl", [{"x": i + 0.5, "label": "a"} for i in range(30)]))

    assert "if 'label' is the label, give --label label" in capsys.readouterr().out
    assert load(Path("p.toml")).input_topics == ["p"]


def test_one_class_in_the_sample_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    """Files are often sorted by class, and then a stream is not what they are."""
    init(write("p.jsonl", [{"x": i + 0.5, "y": "a"} for i in range(600)]), label="y")

    out = capsys.readouterr().out
    assert "warning: only one class in the first 600 records; is it sorted by class?" in out
    assert "label y: 1 class: a 600" in out
    assert load(Path("p.toml")).input.labels == "p-labels"


def test_field_that_looks_like_an_id_becomes_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The configuration and the commands name it, and why is said."""
    rows = [{"txn": f"t{i}", "x": i % 9 + 0.5, "y": i % 2} for i in range(90)]
    init(write("p.jsonl", rows), label="y")

    out = capsys.readouterr().out
    config = load(Path("p.toml"))
    assert config.input.id == "txn"
    assert config.features == {"x": "numeric"}
    assert "id txn: all 90 values are distinct, and its name is that of an id" in out
    assert out.count("--config p.toml --id-field txn --label-topic p-labels") == 2


def test_id_field_is_the_users_choice(capsys: pytest.CaptureFixture[str]) -> None:
    """It is no feature, and that its values repeat is said."""
    rows = [{"txn": f"t{i}", "place": i % 9, "x": 0.5, "y": i % 2} for i in range(90)]
    init(write("p.jsonl", rows), label="y", id_field="place")

    assert load(Path("p.toml")).input.id == "place"
    assert (
        "warning: id place: 81 of 90 records have the id of an earlier one; such a record is "
        "predicted, and its label is not learned" in capsys.readouterr().out
    )


def test_ids_that_repeat_are_no_ids_of_records(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a customer with ten purchases the service would learn one: `produce` numbers them."""
    rows = [{"id": i // 10, "record": 0.5, "x": i % 9 + 0.5, "y": i % 2} for i in range(1000)]
    init(write("p.jsonl", rows), label="y")

    out = capsys.readouterr().out
    assert load(Path("p.toml")).input.id == "record_2"
    assert (load(Path("p.toml")).features or {})["id"] == "categorical"
    assert "900 of 1,000 records have the id of an earlier one, so id is a field like others" in out
    command = next(line for line in out.splitlines() if "headwater produce" in line)
    assert main(["check", "p.toml", "--create"]) == 0
    assert main(command.partition("#")[0].split()[1:]) == 0
    other_port("p.toml")
    assert main(["run", "p.toml", "--drain"]) == 0
    assert "1,000 observations, 1,000 learned" in capsys.readouterr().err


def test_few_ids_that_repeat_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    """Some records were sent twice; the field is the id, and they are learned once."""
    rows = [{"id": i % 590, "x": i % 9 + 0.5, "y": i % 2} for i in range(600)]
    init(write("p.jsonl", rows), label="y")
    init(write("q.jsonl", rows[:590]), label="y")

    out = capsys.readouterr().out
    assert load(Path("p.toml")).input.id == "id"
    assert out.count("warning: id id: 10 of 600 records have the id of an earlier one") == 1
    assert out.count("warning: ") == 1


def test_field_that_repeats_after_the_sample_is_no_id() -> None:
    """All records that are looked at decide, not the first 500."""
    rows = [{"txn": f"t{i % 550}", "x": i % 9 + 0.5, "y": i % 2} for i in range(600)]
    init(write("p.jsonl", rows), label="y")

    assert load(Path("p.toml")).input.id == "id"


def test_few_records_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    """One record shows neither kinds nor classes."""
    init(write("p.jsonl", ROWS[:1]), label="spam")

    assert "warning: 1 record cannot show what the fields are; give more" in capsys.readouterr().out


def test_records_without_any_id_are_pointed_out(capsys: pytest.CaptureFixture[str]) -> None:
    """`produce` makes running numbers then; two candidates are named rather than guessed."""
    init(write("p.jsonl", [{"x": 0.5} for _ in range(30)]))
    init(write("q.jsonl", [{"x": 0.5, "the a_id": i, "b_id": -i} for i in range(30)]))

    out = capsys.readouterr().out
    assert "the records have neither a field 'id' nor a key: `produce` numbers them" in out
    assert "no field 'id'; --id-field 'the a_id' or b_id would use one" in out
    assert load(Path("q.toml")).input.id == "id"


@pytest.mark.parametrize("declared", [False, True], ids=["looked at", "declared"])
def test_models_of_keys(capsys: pytest.CaptureFixture[str], declared: bool) -> None:
    """The field is a category whatever it holds, and the model is compared with the others."""
    shops = [{"shop": i % 7, "price": float(i % 11), "colour": "ab"[i % 2]} for i in range(900)]
    rows = [{**x, "back": (x["price"] > 5) ^ (x["shop"] % 2)} for x in shops]
    if declared:
        init("orders", fields=["shop:numeric,price:numeric,colour"], label="back", per="shop")
    else:
        init(write("orders.jsonl", rows), label="back", per="shop")

    config, shown = load(Path("orders.toml")), capsys.readouterr().out
    assert config.features["shop"] == "categorical"
    assert config.features["price"] == "numeric"
    learner = build(config.model)
    assert isinstance(learner, PerKeyNB)
    assert learner.per == "shop"
    assert "model PerKeyNB: a model for each shop, which leans on all others" in shown
    assert declared or re.search(r"  PerKeyNB +\d.*chosen\n", shown)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"source": "nope.csv"}, "no file nope.csv; if it is a topic, name its log: --transport"),
        ({"source": "nothing"}, "nothing: the directory has no files"),
        ({"source": "*.csv"}, r"the pattern has no files"),
        ({"source": "p.jsonl", "sep": ";"}, "JSON lines has no --sep; remove it"),
        ({"source": "t", "transport": "memory:t", "sep": ";"}, "no file t; --sep is for files"),
        ({"source": "p.jsonl", "label": "spa"}, "no field 'spa' .* did you mean 'spam'"),
        ({"source": "p.jsonl", "label": "a", "labels": "b"}, "exclude each other"),
        ({"source": "p.jsonl", "labels": "p.jsonl"}, "takes a topic, and p.jsonl is a file; leave"),
        ({"source": "empty.jsonl"}, "empty.jsonl has no records"),
        ({"source": "useless.jsonl"}, "no field can be learned from"),
        ({"source": "p.jsonl", "label": "age"}, "label 'age': expected text, integers or truth"),
        ({"source": "p.jsonl", "label": "id"}, "label 'id': all 90 values are distinct"),
        (
            {"source": "p.jsonl", "id_field": "no"},
            "no field 'no' in 90 records of p.jsonl; fields are ",
        ),
        ({"source": "p.jsonl", "id_field": "age"}, "--id-field age: expected text or integers"),
        ({"source": "p.jsonl", "id_field": "spam", "label": "spam"}, "are both 'spam'; name two"),
        ({"source": "p.jsonl", "per": "tow"}, "--per: no field 'tow' .* did you mean 'town'"),
        ({"source": "p.jsonl", "label": "spam", "per": "spam"}, "--per: no field 'spam' that can"),
        ({"source": "p.jsonl", "per": "id"}, "--per: no field 'id' that can be a key; fields are"),
        ({"source": "mails.mbox", "per": "town"}, "--per: mails have no field of a key"),
        ({"spam": True, "source": "x", "per": "town"}, "--per and --spam exclude each other"),
        ({"source": "p.jsonl", "transport": "sqlite:no/x.db"}, "no directory no; create it first"),
        ({"source": "p.jsonl", "name": "a b"}, "got 'a b'; for example --name a-b"),
        ({"source": "p.jsonl", "output": Path("no/p.toml")}, "cannot write no/p.toml"),
        ({"source": "t", "transport": "memory:init-none"}, "no topic 't' on memory:init-none"),
        ({"source": "t", "transport": "sqlite:none.db"}, "sqlite:none.db: no such file"),
        ({"source": "t", "transport": "redis:x"}, "expected a transport"),
    ],
)
def test_wrong_use_is_one_line(arguments: dict[str, Any], expected: str) -> None:
    """What was expected, what came, what to do; nothing is written."""
    write("p.jsonl", ROWS)
    write("empty.jsonl", [])
    write("useless.jsonl", [{"id": i} for i in range(9)])
    Path("nothing").mkdir()
    Path("mails.mbox").write_bytes(
        b"From a@b Sat Jan  3 01:05:34 2026\nSubject: hello\n\nyes\n" * 9
    )

    with pytest.raises(ConfigError, match=expected) as caught:
        init(**arguments)

    assert "\n" not in str(caught.value)
    assert not list(Path().glob("*.toml"))
    assert not list(Path().glob("*.db"))


def test_strings_too_many_for_a_category_may_be_declared_a_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two words each are no text by themselves; a line to uncomment makes them one."""
    rows = [{**row, "note": f"w{i} x{i}"} for i, row in enumerate(ROWS)]
    init(write("people.jsonl", rows), label="spam")

    text = Path("people.toml").read_text()
    line = '# note = "text"   # uncomment to learn from its words\n'
    shown = capsys.readouterr().out
    assert 'too many for a category, strings; declared "text" its words would be learned' in shown
    assert line in text
    Path("people.toml").write_text(text.replace(line, line[2:]))
    assert (load(Path("people.toml")).features or {})["note"] == "text"


def test_sections_that_are_left_out_are_listed() -> None:
    """All there are, so that nobody has to look for them."""
    init(write("people.jsonl", ROWS), label="spam")

    head = "".join(Path("people.toml").read_text().splitlines(keepends=True)[:5])
    written = {"name", "input", "features", "values", "model", "scale"}
    assert all(f"[{name}]" in head for name in Config.model_fields if name not in written)


def test_column_of_dates_is_named_whatever_it_is_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not used unasked, for its name does not say that it is the record's time."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i},2024-01-01T00:{i:02}:00Z,{i % 3},{i % 2}\n" for i in range(40))
    Path("visits.csv").write_text("id,made on,amount,y\n" + rows)

    assert main(["init", "visits.csv", "--label", "y"]) == 0
    shown = capsys.readouterr().out
    assert "time: `produce --time-field 'made on'` would use it: only dates" in shown
    assert shown.count("--time-field") == 1


def test_chosen_model_runs_with_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is chosen by the scores takes texts where there are texts."""
    body = "meet me at {} near the old w{} bridge"
    rows = [
        {"body": body.format(i, i), "hops": i % 4 + 0.5, "spam": i % 3 == 0} for i in range(1500)
    ]
    init(write("mail.jsonl", rows), label="spam")

    config = load(Path("mail.toml"))
    build(config.model)
    assert "make the model's type" not in Path("mail.toml").read_text()
    assert re.search(r"\d  chosen$", capsys.readouterr().out, re.MULTILINE)


def test_own_text_for_missing_values_is_written_and_read_by_all_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`--missing` is for the sample; the configuration is for `replay` and `produce`."""
    rows = "".join(f"{i % 7 if i % 5 else -999},{'NA?'[i % 3]},{i % 2}\n" for i in range(100))
    Path("a.csv").write_text("age,kind,y\n" + rows)

    init("a.csv", label="y", missing=["-999"])
    assert main(["replay", "a.toml", "a.csv", "--label", "y", "--json"]) == 0
    assert main(["produce", "a", "a.csv", "--config", "a.toml"]) == 0

    shown = capsys.readouterr().out
    log = open_log("sqlite:a.db")
    ages = [
        json.loads(value or b"").get("age")
        for fetched in log.read({Partition("a", 0): 0}, {Partition("a", 0): 100})
        for value in fetched.values
    ]
    log.close()
    assert load(Path("a.toml")).values.texts == {"-999"}
    assert "80 of 80 values are numbers; missing in 20 of 100 records" in shown
    assert "kind  categorical  3 of 100 values distinct, strings" in shown
    assert [ages.count(None), ages.count(-999)] == [20, 0]


def test_text_for_missing_that_is_too_long_is_one_line() -> None:
    """The rule stands in the configuration; nothing is written."""
    Path("a.csv").write_text("x,y\n1,2\n")

    with pytest.raises(ConfigError, match=r"\[values\] missing"):
        init("a.csv", missing=["x" * 101])
    assert not Path("a.toml").exists()


def test_late_value_of_the_wrong_kind_costs_one_field_and_no_record(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What the sample did not show counts as missing, and is reported by field."""
    rows = [f"{i % 7},{i % 3 + 0.5},{i % 2}" for i in range(1200)]
    rows[1100:1104] = ["unknown,1.5,0", "NA,1.5,1", "1,2,0", "unknown,oops,1"]
    Path("a.csv").write_text("x,z,y\n" + "\n".join(rows) + "\n")

    init("a.csv", label="y", no_look=True)
    capsys.readouterr()
    assert main(["replay", "a.toml", "a.csv", "--label", "y", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)

    assert results["dead_letters"] == {"wrong_kind": 1}
    assert results["bad_values"] == {"x": 1}
    assert results["predictions"] == 1199
    assert main(["replay", "a.toml", "a.csv", "--label", "y"]) == 0
    assert "field 'x': 1 of 1,198 values do not fit" in capsys.readouterr().out
