"""`headwater replay`: a file through the shard gives river's scores, a journal gives its bits."""

from __future__ import annotations

import json
import os
import threading
from itertools import islice
from pathlib import Path

import pytest
from river import datasets, evaluate, metrics

from consumers.base.records import Outgoing, Partition
from consumers.cli import main
from consumers.commands.run import make_own_topics
from consumers.config import load
from consumers.files.source import read_records
from consumers.offline.plot import CurvePoint
from consumers.report import charts
from consumers.service.recovery import rebuild, sources
from consumers.service.runner import Runner
from consumers.snapshots.store import SnapshotStore
from consumers.transports import open_log
from stream import GaussianNB
from stream.evaluate.quality import Scores

ROOT = Path(__file__).parents[2]
ELECTRICITY = Path(os.environ.get("HEADWATER_SHARED", ROOT.parent / "shared"))
ELECTRICITY = ELECTRICITY / "data" / "elec2" / "elecNormNew.csv.gz"
RECORDS = 400
CONFIG = """
name = "pages"
input = {{ transport = "{transport}", observations = "seen", {label} }}
model = {{ type = "{model}" }}
commit = {{ max_records = {size} }}
http = {{ enabled = false }}
"""
LATE = 'labels = "told"'


@pytest.fixture
def pages(tmp_path) -> Path:
    """The first records of river's Phishing, a minute apart, with their label."""
    path = tmp_path / "pages.jsonl"
    with path.open("w") as file:
        for i, (x, y) in enumerate(islice(datasets.Phishing(), RECORDS)):
            record = {"id": f"p{i}", **x, "at": f"2024-03-01T{i // 60:02}:{i % 60:02}:00Z", "y": y}
            file.write(json.dumps(record) + "\n")
    return path


@pytest.fixture
def config(tmp_path):
    """A function that writes a configuration and tells its path."""

    def write(
        label: str = LATE,
        *,
        size: int = 100,
        model: str = "GaussianNB",
        transport: str = "sqlite:log.db",
        more: str = "",
    ) -> str:
        path = tmp_path / f"{size}.toml"
        text = CONFIG.format(label=label, size=size, model=model, transport=transport) + more
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture
def told(capsys):
    """A function that runs `headwater replay … --json` and tells what it printed."""

    def run(*arguments: object) -> dict:
        code = main(["replay", *map(str, arguments), "--json"])
        out, err = capsys.readouterr()
        assert code == 0, err
        assert out.count("\n") == 1, "nothing else on stdout"
        return json.loads(out)

    return run


def without_times(report: dict) -> dict:
    """The report without what is another each time."""
    return {k: v for k, v in report.items() if k not in ("seconds", "records_per_second")}


@pytest.fixture
def serve(pages, capsys):
    """A function that writes the file to its topics, labels 7 late, and runs the service."""

    def run(config: str) -> None:
        late = ["--label-topic", "told", "--label", "y", "--delay", "7", "--time-field", "at"]
        assert main(["produce", "seen", str(pages), "--config", config, *late]) == 0
        settings = load(Path(config))
        log = open_log(settings.input.transport)
        make_own_topics(settings, log)
        Runner(settings, log, threading.Event(), drain=True).run()
        log.close()
        capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def electricity() -> list[tuple[dict, str]]:
    """Elec2 as river wants it, read as the command reads it."""
    if not ELECTRICITY.exists():
        pytest.skip("Elec2 is not there; set HEADWATER_SHARED to the shared data")
    return [
        ({k: v for k, v in row.items() if k != "class"}, str(row["class"]))
        for row in read_records(ELECTRICITY)
    ]


def river_accuracy(dataset: list[tuple[dict, str]]) -> float:
    """Accuracy of our learner by river's own loop, labels 100 records late."""
    metric = metrics.Accuracy()
    evaluate.progressive_val_score(dataset, GaussianNB(), metric, delay=100)
    return metric.get()


@pytest.fixture(scope="module")
def rivers(electricity) -> dict[int, float]:
    """River's accuracy on the first 2,000 records, and on all."""
    return {n: river_accuracy(electricity[:n]) for n in (2_000, len(electricity))}


@pytest.mark.parametrize(
    ("size", "limit"), [(1, 2_000), (7, 2_000), (500, 45_312), (5_000, 45_312)]
)
def test_electricity_gives_rivers_accuracy_to_the_last_digit(
    electricity, rivers, config, told, size, limit
) -> None:
    """Labels 100 records late, on a topic of their own, whatever the size of a commit."""
    names = "".join(f'{name} = "numeric"\n' for name in electricity[0][0])
    path = config(size=size, more=f"[features]\n{names}")

    report = told(path, ELECTRICITY, "--label", "class", "--delay", 100, "--limit", limit)

    assert report["observations"] == limit
    assert report["scores"]["all"]["accuracy"] == rivers[limit]


def test_the_size_of_a_commit_changes_no_bit(pages, config, told) -> None:
    """The fingerprint is the same too (I1)."""
    asked = (pages, "--label", "y", "--delay", 20)
    first, *others = (without_times(told(config(size=s), *asked)) for s in (1, 7, 100, 5_000))

    assert first["scores"]["all"]["scored"] == RECORDS - 20
    assert others == [first] * 3


def test_labels_inside_score_as_labels_right_after(pages, config, told) -> None:
    """The prediction is made before the label is seen, either way."""
    inside = told(config('label = "y"'), pages)
    after = told(config('label = "y"'), pages, "--delay", 0)

    assert (inside["records"], after["records"]) == (RECORDS, 2 * RECORDS)
    assert (inside["source"]["delay"], after["source"]["delay"]) == (None, 0)
    assert inside["scores"] == after["scores"]
    assert inside["scores"]["all"]["accuracy"] > 0.7


def test_a_duration_is_measured_in_the_time_of_the_file(pages, config, told) -> None:
    """An hour and a bit, with a record a minute, is 61 records."""
    path = config()
    asked = (pages, "--label", "y", "--time-field", "at")
    hour, records = told(path, *asked, "--delay", "3601s"), told(path, *asked, "--delay", "61")

    assert hour["unscored"] == records["unscored"] == 61
    assert hour["scores"] == records["scores"]
    assert hour["source"]["delay"] == "3601s"


def test_a_file_out_of_order_is_replayed_in_order_of_time(pages, config, told, tmp_path) -> None:
    """As `produce` would write it."""
    shuffled = tmp_path / "shuffled.jsonl"
    shuffled.write_text("".join(reversed(pages.read_text().splitlines(keepends=True))))
    asked = ("--label", "y", "--time-field", "at")
    ordered, sorted_ = told(config(), pages, *asked), told(config(), shuffled, *asked)

    assert sorted_["fingerprint"] == ordered["fingerprint"]
    assert told(config(), shuffled, "--label", "y")["fingerprint"] != ordered["fingerprint"]


def test_a_file_gives_the_bits_the_service_gets(pages, config, told, serve) -> None:
    """File, journal and running service agree, features inferred by each for itself."""
    path = config(size=90)
    serve(path)
    late = ("--label", "y", "--delay", 7, "--time-field", "at")
    file, journal = told(path, pages, *late), told(path, "--journal")
    fields = file.pop("fields"), file.pop("fields_in_words")  # a journal has no account of them
    settings = load(Path(path))
    log = open_log(settings.input.transport)
    store = SnapshotStore(settings.snapshots.directory / settings.name / "shard-0")
    found, position = sources(settings, log), journal["source"]["position"]
    live = rebuild(settings, log, found, store, end=position)
    log.close()

    assert live.replayed == 0, "it was loaded, not replayed"
    assert live.shard.fingerprint() == journal["fingerprint"] == file["fingerprint"]
    assert without_times(journal) | {"source": 0} == without_times(file) | {"source": 0}
    assert (fields[0]["observations"], fields[1]) == (RECORDS, [])


def test_a_journal_is_replayed_up_to_a_position(config, told, serve) -> None:
    """Entry 0 is the identity, each further one a commit."""
    path = config(size=90)
    serve(path)
    whole = told(path, "--journal")
    start, some = (told(path, "--journal", "--at", at) for at in (1, 3))

    assert (start["records"], whole["records"]) == (0, 2 * RECORDS)
    assert 0 < some["records"] <= 180
    assert some["source"] == {
        "journal": "pages-journal",
        "position": 3,
        "entries": 2,
        "cut_out": {"entries": 0, "records": 0},
    }


def test_a_replayed_journal_leaves_log_and_owner_alone(config, told, serve) -> None:
    """Nothing is written, and the service that runs meanwhile still owns its shard."""
    path = config(transport="memory:replay-leaves-alone")
    serve(path)
    settings = load(Path(path))
    log = open_log(settings.input.transport)
    found = sources(settings, log)
    owner = log.owner(settings.name, 0, found.inputs)
    everything = [Partition(topic, 0) for topic in log.topics()]
    before = log.end_offsets(everything)
    told(path, "--journal")

    assert log.end_offsets(everything) == before
    assert owner.commit([], Outgoing("pages-journal", None, b"{}"), {}) >= 0


def test_declared_field_that_no_record_has_is_named(pages, config, capsys) -> None:
    """As the log of a running service does; the scores alone look like those of a poor model."""
    more = '\n[features]\nhttps = "numeric"\nhttp = "numeric"\n'

    assert main(["replay", config(more=more), str(pages), "--label", "y", "--limit", "9"]) == 0

    err = capsys.readouterr().err
    assert f"warning: field 'http' of [features] is in no record of {pages}; check its name" in err
    assert "'https'" not in err


def test_fields_that_were_not_used_are_named_at_the_end(tmp_path, config, capsys) -> None:
    """With the last value that did not fit; a text in every record was only seen as a number."""
    more = '\n[features]\na = "numeric"\nb = "numeric"\n[values]\non_bad_value = "missing"\n'
    path = tmp_path / "odd.jsonl"
    rows = [{"id": i, "a": 1.5, "b": "12.50", "bb": 1, "y": i % 2, "at": i} for i in range(60)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = [config(more=more), str(path), "--label", "y", "--time-field", "at:s"]

    assert main(["replay", *given]) == 0
    assert main(["replay", *given, "--json"]) == 0

    out, _, results = capsys.readouterr().out.partition('{"source"')
    assert "field 'b': 60 of 60 values do not fit its kind (wrong_kind), the last: \"12.50\"" in out
    assert "not declared, so not used: 'bb'\n" in out
    found = json.loads('{"source"' + results)["fields"]
    assert found["used"] == {"a": 60, "b": 0}
    assert found["bad"] == {"b": [60, "wrong_kind", '"12.50"']}


def test_bad_records_are_counted_by_their_reason(pages, config, told) -> None:
    """The bytes go through the service's codec and its join."""
    good = pages.read_text().splitlines(keepends=True)
    bad = json.loads(good[0])
    wrong_kind = {**bad, "id": "kind", "ip_in_url": [1]}
    other_label = {**bad, "id": "label", "y": "yes"}
    lines = [json.dumps(record) + "\n" for record in (wrong_kind, other_label)]
    infinite = good[1].replace('"age_of_domain": ', '"age_of_domain": 1e999, "was": ')
    pages.write_text("".join([*good[:50], *lines, infinite.replace('"p1"', '"infinite"')]))
    fields = '[features]\nip_in_url = "numeric"\nage_of_domain = "numeric"'

    report = told(config(more=fields), pages, "--label", "y")
    assert report["dead_letters"] == {"wrong_kind": 1, "infinite": 1, "label_kind": 1}
    assert report["labels"]["joined"] == 50
    first = report["dead_letter_details"]
    assert list(first) == ["wrong_kind", "label_kind", "infinite"]
    assert (first["wrong_kind"]["topic"], first["wrong_kind"]["offset"]) == ("seen", 50)
    assert "ip_in_url" in first["wrong_kind"]["detail"]


def test_dead_letters_of_a_journal_have_the_detail_their_topic_has(
    pages, config, told, serve, capsys
) -> None:
    """The same as the file's, and in the tables too."""
    good = pages.read_text().splitlines(keepends=True)
    bad = [json.dumps({**json.loads(good[n]), "id": f"b{n}", "ip_in_url": [n]}) for n in (8, 9)]
    pages.write_text("".join([*good[:9], bad[0] + "\n", *good[9:10], bad[1] + "\n", *good[10:]]))
    path = config(more='[features]\nip_in_url = "numeric"')
    serve(path)
    file = told(path, pages, "--label", "y", "--delay", 7, "--time-field", "at")
    journal = told(path, "--journal")

    assert main(["replay", path, "--journal"]) == 0
    shown = capsys.readouterr().out
    assert journal["dead_letter_details"] == file["dead_letter_details"]
    detail = journal["dead_letter_details"]["wrong_kind"]["detail"]
    assert f"  first wrong_kind, at seen 9: {detail}" in shown


def test_what_was_never_scored_has_a_dash(pages, config, capsys) -> None:
    """A class that has no case has no precision of 0 %."""
    command = ["replay", config(), str(pages), "--label", "y", "--limit", "3", "--delay", "9"]
    assert main([*command, "--details"]) == 0

    shown = capsys.readouterr().out
    assert "0.00 %" not in shown
    assert ["true", "-", "-", "-", "0"] in [line.split() for line in shown.splitlines()]


def test_a_spike_does_not_flatten_the_log_loss() -> None:
    """The axis ends near the 99th percentile, and says so; without a spike it says nothing."""
    pictures = {}
    for name, worst in (("spike", 30.0), ("calm", 0.6)):
        points = []
        for i in range(1, 301):
            loss = worst if i == 5 else 0.5
            scores = Scores(float(i), 0.9, loss, {"majority": 0.5, "no_change": 0.5})
            points.append(CurvePoint(i, {"all": scores, "last_1000": scores}))
        pictures[name] = charts.log_loss(points)

    assert ">20</text>" not in pictures["spike"]
    assert "without the highest 1 %" in pictures["spike"]
    assert "without the highest" not in pictures["calm"]


def test_classes_are_measured_by_river_from_the_confusion_counts(pages, config, told) -> None:
    """Precision, recall, F1 and support of each, as river says on the same pairs."""
    report = told(config(), pages, "--label", "y")
    labels, counts = report["confusion"]["labels"], report["confusion"]["counts"]
    f1 = metrics.F1(pos_val=True)
    for t, row in zip(labels, counts, strict=True):
        for p, n in zip(labels, row, strict=True):
            for _ in range(n):
                f1.update(t, p)

    (positive,) = [c for c in report["classes"] if c["label"] is True]
    assert positive["f1"] == f1.get()
    assert positive["precision"] == f1.precision.get()
    assert positive["support"] == sum(counts[labels.index(True)])
    assert sum(map(sum, counts)) == report["scores"]["all"]["scored"]


def test_people_get_tables_of_the_same_numbers(pages, config, told, capsys) -> None:
    """Scores beside the baselines, outcomes and fingerprint; with --details classes, confusion."""
    path = config()
    report = told(path, pages, "--label", "y", "--delay", 3)
    asked = ["replay", path, str(pages), "--label", "y", "--delay", "3"]
    assert main(asked) == 0
    short = capsys.readouterr().out
    assert main([*asked, "--details"]) == 0
    shown = capsys.readouterr().out
    scores = report["scores"]["all"]
    least = min(report["classes"], key=lambda row: row["recall"])

    for value in (f"{100 * scores['accuracy']:.2f} %", f"{scores['log_loss']:.4f}"):
        assert value in short
    assert f"also: balanced accuracy {100 * scores['balanced_accuracy']:.2f} %, " in short
    assert f"recall {100 * least['recall']:.2f} % of {least['support']:,}\n" in short
    assert "true \\ predicted" not in short
    assert "--details shows every score, the classes and the confusion matrix" in short
    assert "true \\ predicted" in shown

    for share in (scores["accuracy"], scores["baselines"]["majority"], report["classes"][1]["f1"]):
        assert f"{100 * share:.2f} %" in shown
    assert f"{scores['log_loss']:.4f}" in shown
    assert f"joined {RECORDS}, pending 0" in shown
    assert "3 records late" in shown
    assert report["fingerprint"] in shown


def test_a_label_cannot_command_the_terminal(config, tmp_path, capsys) -> None:
    """Control codes and markup are shown, not obeyed."""
    path = tmp_path / "evil.jsonl"
    records = [{"x": i, "y": "\x1b[31mred" if i % 2 else "[b]bold"} for i in range(9)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))

    assert main(["replay", config(), str(path), "--label", "y", "--details"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "[b]bold" in shown
    assert "\\x1b[31mred" in shown


def test_a_model_that_cannot_be_saved_has_no_fingerprint(pages, config, told) -> None:
    """A river model without trust_pickle is scored all the same."""
    report = told(config(model="river:naive_bayes.GaussianNB"), pages, "--label", "y")

    assert report["fingerprint"] is None
    assert report["scores"]["all"]["accuracy"] > 0.7


def test_journal_of_a_river_model_gives_the_same_fingerprint_each_time(
    config, told, serve, capsys
) -> None:
    """It leaves out the pickle, whose bytes differ, and says so; counts and scores are in it."""
    path = config(model="river:naive_bayes.GaussianNB")
    text = Path(path).read_text()
    Path(path).write_text(text.replace('GaussianNB"', 'GaussianNB", trust_pickle = true'))
    serve(path)
    whole, again = told(path, "--journal"), told(path, "--journal")
    assert main(["replay", path, "--journal"]) == 0
    shown = capsys.readouterr().out
    earlier = told(path, "--journal", "--at", whole["source"]["position"] - 1)

    assert whole["fingerprint"] == again["fingerprint"]
    assert f"{whole['fingerprint']} (without the pickles of river models)" in shown
    assert whole["pickles_left_out"]
    assert earlier["fingerprint"] != whole["fingerprint"]


def test_the_curve_is_drawn_and_changes_no_score(pages, config, told, tmp_path) -> None:
    """The smaller batches of a report with curves change no bit."""
    page = tmp_path / "report.html"
    asked = (config(size=5_000), pages, "--label", "y")
    with_curve = told(*asked, "--report", page)

    assert "<svg" in page.read_text()
    assert without_times(with_curve) == without_times(told(*asked))


def test_curves_name_their_axes_and_lines(pages, config, told, tmp_path) -> None:
    """The text of the charts stays text."""
    page = tmp_path / "report.html"
    told(config(), pages, "--label", "y", "--limit", 30, "--report", page)
    drawn = page.read_text()

    for words in ("accuracy", "log loss (nats)", "observations", "majority, last 1,000"):
        assert f">{words}</text>" in drawn


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected FILE, or --journal"),
        (["FILE", "--at", "3"], "expected FILE, or --journal"),
        (["FILE", "--journal"], "remove FILE"),
        (["--journal", "--limit", "9"], "remove FILE and its options"),
        (["--journal"], "no such file"),
        (["FILE"], "expected --label FIELD, because [input] label is not set; fields are "),
        (["FILE", "--label", "why"], "no record has a label in field 'why'"),
        (["FILE", "--label", "y", "--delay", "soon"], "expected --delay as a number of records"),
        (["FILE", "--label", "y", "--time-field", "id"], "expected a time since 1970"),
        (["FILE", "--label", "y", "--types", "id=text"], "--types is for CSV"),
        (["FILE", "--label", "y", "--report", "no/such.html"], "no directory 'no'"),
        (["FILE", "--label", "y", "--report", "curve.png"], "ending in .html"),
        (["gone.csv", "--label", "y"], "gone.csv: no such file"),
    ],
)
def test_wrong_use_is_told_in_one_line(pages, config, capsys, arguments, message) -> None:
    """Exit code 2, the message on stderr, nothing on stdout."""
    given = [str(pages) if a == "FILE" else a for a in arguments]

    assert main(["replay", config(), *given]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("at", [0, 99])
def test_a_position_outside_the_journal_is_refused(config, serve, capsys, at) -> None:
    """The message says where the journal ends."""
    path = config(transport=f"memory:replay-outside-{at}")
    serve(path)

    assert main(["replay", path, "--journal", "--at", str(at)]) == 2
    assert "--at expects a position from 1 to " in capsys.readouterr().err


def test_an_empty_journal_says_how_to_fill_it(config, capsys) -> None:
    """The topics are there, the service never ran."""
    path = config(transport="memory:replay-empty")
    log = open_log("memory:replay-empty")
    for topic in ("seen", "told", "pages-predictions", "pages-dead-letters", "pages-journal"):
        log.create_topic(topic, 1)

    assert main(["replay", path, "--journal"]) == 2
    assert "not run yet; start it with `headwater run" in capsys.readouterr().err


DECISION = """
[decision]
reject = 0.4
losses.warn = {true = 0, false = 1}
losses.pass = {true = 5, false = 0}
"""


def test_report_tells_what_decisions_cost(config, pages, serve, told, capsys) -> None:
    """Of a file and of the journal alike: how often what was done, the risk, the best constant."""
    path = config(more=DECISION)
    serve(path)
    of_file = told(path, pages, "--label", "y", "--delay", 7)["decision"]

    assert of_file["scored"] == RECORDS
    assert sum(of_file["actions"].values()) + of_file["rejected"] == of_file["decided"]
    assert RECORDS - 10 < of_file["decided"] < RECORDS  # the first saw no label
    assert of_file["rejected_share"] == of_file["rejected"] / of_file["decided"] > 0
    assert of_file["risk"] < of_file["best_constant"]["risk"]
    assert told(path, "--journal")["decision"] == of_file

    assert main(["replay", path, "--journal"]) == 0
    shown = capsys.readouterr().out
    assert f"mean loss per decision: {of_file['risk']:.4f} over 400 scored; always" in shown
    assert f"warn {of_file['actions']['warn']}" in shown
    assert f"pass {of_file['actions']['pass']}" in shown


DRIFT = """
[drift]
action = "reset"
warm_up = 10
detectors = [{on = "score", type = "PageHinkley", threshold = 1, min_instances = 10}]
"""


def test_report_tells_of_drift(config, pages, serve, told, capsys) -> None:
    """Of a file and of the journal alike: alarms by detector, where, and what was done."""
    path = config(more=DRIFT)
    serve(path)
    of_file = told(path, pages, "--label", "y", "--delay", 7)["drift"]
    (detector,) = of_file["detectors"]

    assert of_file["actions"] == {"reset": detector["alarms"]}
    assert [a["scored"] for a in told(path, "--journal")["drift"]["last"]] == [
        a["scored"] for a in of_file["last"]
    ]
    assert main(["replay", path, "--journal"]) == 0
    shown = capsys.readouterr().out
    assert f"drift: PageHinkley on score {detector['alarms']}, reset" in shown
    assert "PageHinkley on score from " in shown
    assert " at seen " in shown
    assert told(config(), pages, "--label", "y")["drift"] is None


def test_report_shows_the_weights_of_the_learners(
    config, pages, serve, told, capsys, tmp_path
) -> None:
    """Of a file and of the journal alike; in the report as a line each over time."""
    path, page = config(model="auto"), tmp_path / "report.html"
    serve(path)
    of_file = told(path, pages, "--label", "y", "--delay", 7, "--report", page)["experts"]
    drawn = page.read_text()

    assert told(path, "--journal")["experts"] == of_file
    assert sum(of_file.values()) == pytest.approx(1.0)
    assert "Weights of the learners" in drawn
    assert all(f">{name}</text>" in drawn for name in of_file)
    assert main(["replay", path, "--journal"]) == 0
    most = max(of_file, key=of_file.__getitem__)
    assert f"weights of the learners: {most} {of_file[most]:.1%}, " in capsys.readouterr().out
    assert told(config(), pages, "--label", "y")["experts"] == {}


def test_report_of_a_service_that_does_not_decide_says_nothing_of_it(
    config, pages, told, capsys
) -> None:
    """Nothing is decided unless something is configured."""
    assert told(config(), pages, "--label", "y")["decision"] is None
    assert main(["replay", config(), str(pages), "--label", "y"]) == 0
    assert "decision" not in capsys.readouterr().out


REPORTED = """
[labels]
reporter = "reporter"
[reporters]
max_labels_per_hour = 3
"""


def test_reporters_of_a_file_are_judged_and_capped(config, told, tmp_path) -> None:
    """As in a service: the fourth label of one in an hour is a dead letter."""
    file = tmp_path / "reported.jsonl"
    lines = [{"x": i % 7, "label": str(i % 2), "by": "ann" if i < 5 else "bob"} for i in range(7)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    path = config(LATE, more=REPORTED)

    with_them = told(path, file, "--reporter", "by")
    without = told(path, file)

    assert with_them["dead_letters"] == {"reporter_rate": 2}
    assert (with_them["labels"]["joined"], without["labels"]["joined"]) == (5, 7)
    assert without["dead_letters"] == {}
    assert (
        told(path, file, "--reporter", "by", "--limit", 7)["fingerprint"]
        == (with_them["fingerprint"])
    )


@pytest.mark.parametrize(
    ("more", "options", "refused"),
    [
        ("", ["--reporter", "by"], "[labels] reporter is not set"),
        (REPORTED, ["--reporter", "by", "--verify"], "--verify: river's loop knows no reporters"),
    ],
)
def test_reporters_that_cannot_be_used_are_refused(config, pages, more, options, refused, capsys):
    """In one line."""
    assert main(["replay", config(LATE, more=more), str(pages), "--label", "y", *options]) == 2
    assert refused in capsys.readouterr().err
