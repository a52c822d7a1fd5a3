"""`headwater demo`: what it does to the log, what it says, and how it looks at any size."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from river import datasets

from consumers.cli import main
from consumers.commands.demo import Plan, _program, perform, prepare
from consumers.config import load, parse
from consumers.demo.chart import curve
from consumers.demo.data import bundled, fresh_directory, from_file
from consumers.demo.picture import Picture, Point
from consumers.demo.summary import files, outcome
from consumers.demo.turns import Said, Turn, Turns
from consumers.demo.view import confusion, frame
from consumers.errors import ConfigError
from consumers.events import ShardView
from consumers.records import Partition
from consumers.transports import open_log
from stream import MixedNB
from stream.evaluate.progressive import progressive
from stream.evaluate.quality import QualityView, Scores

Said_ = pytest.CaptureFixture[str]


def values(config: Path, topic: str) -> list[dict[str, Any]]:
    """The records of a topic of one partition."""
    log = open_log(load(config).input.transport)
    try:
        partition = Partition(topic, 0)
        ends = log.end_offsets([partition])
        read = log.read({partition: 0}, ends)
        return [json.loads(value or b"") for part in read for value in part.values]
    finally:
        log.close()


def offline() -> QualityView:
    """Phishing with labels 50 records late, without any service."""
    flags = ("age_of_domain", "ip_in_url")  # what `init` finds to be truth values
    records = [
        ({k: bool(v) if k in flags else v for k, v in x.items()}, y) for x, y in datasets.Phishing()
    ]
    *_, quality = progressive(records, MixedNB(), delay=50)
    return quality


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], int]:
    """A whole demo without a terminal: its directory, its lines, its exit code."""
    directory = tmp_path_factory.mktemp("demo") / "headwater-demo"
    command = [sys.executable, "-m", "consumers", "demo", "--directory", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr == ""
    return directory, done.stdout.splitlines(), done.returncode


def test_the_addresses_of_page_and_metrics_are_said_first(finished) -> None:
    """So that it can be opened while the demo runs."""
    _, lines, code = finished

    assert code == 0
    assert lines[0].startswith("live page: http://127.0.0.1:")
    assert lines[1] == f"metrics: {lines[0].removeprefix('live page: ')}metrics"


def test_every_observation_is_predicted_once_and_in_order(finished) -> None:
    """The topic of the predictions is the output of the real service."""
    directory, _, _ = finished

    predictions = values(directory / "phishing.toml", "phishing-predictions")

    assert [p["id"] for p in predictions] == [str(i) for i in range(1250)]
    # Labels come 50 records late: until then nothing is known to say.
    assert [p["prediction"] is None for p in predictions[:51]] == [True] * 50 + [False]
    assert predictions[-1]["model"]["learned"] == 1200


def test_the_accuracy_is_that_of_progressive_validation_with_the_delay(finished) -> None:
    """The demo cheats nowhere: offline the same numbers come out."""
    _, lines, _ = finished
    scores = offline().scores

    (model,) = (line.split() for line in lines if line.startswith("MixedNB"))
    (majority,) = (line.split() for line in lines if line.startswith("majority"))

    accuracies = [scores[w].accuracy for w in ("all", "last_1000", "fading")]
    assert model[1::2] == [f"{100 * a:.1f}" for a in accuracies if a is not None]
    assert majority[1] == f"{100 * (scores['all'].baselines['majority'] or 0):.1f}"


def test_the_summary_has_the_confusion_of_all_scored_predictions(finished) -> None:
    """True classes down, predicted classes across."""
    _, lines, _ = finished
    quality = offline()
    order = sorted(range(2), key=lambda c: str(quality.classes[c]).lower())

    at = lines.index("confusion (rows: true, columns: predicted)")
    rows = [line.split() for line in lines[at + 2 : at + 4]]

    expected = quality.confusion[np.ix_(order, order)].tolist()
    assert rows == [["false", *map(str, expected[0])], ["true", *map(str, expected[1])]]


def test_the_wrong_and_the_right_record_are_predictions_of_the_topic(finished) -> None:
    """What is shown was published so, of one class, wrong first and right later."""
    directory, lines, _ = finished
    predictions = values(directory / "phishing.toml", "phishing-predictions")
    labels = {v["id"]: v["label"] for v in values(directory / "phishing.toml", "phishing-labels")}

    at = lines.index("wrong, then right")
    shown = [line.split() for line in lines[at + 1 : at + 3]]
    wrong, right = (predictions[int(words[0].lstrip("#").replace(",", "")) - 1] for words in shown)

    assert wrong["prediction"] != labels[wrong["id"]]
    assert right["prediction"] == labels[right["id"]] == labels[wrong["id"]]
    assert right["position"]["offset"] > wrong["position"]["offset"] + 49


def test_a_line_is_said_for_every_tenth_of_the_feed(finished) -> None:
    """Progress without a terminal, in few lines."""
    _, lines, _ = finished

    progress = [line for line in lines if line.lstrip()[0:1].isdigit() and " of 1,250 " in line]

    assert len(progress) == 10
    assert progress[-1].lstrip().startswith("1,250 of 1,250")


def test_the_last_line_of_progress_has_the_figures_of_the_table(finished) -> None:
    """It names its window, and says what that window's column says."""
    _, lines, _ = finished
    progress = [line for line in lines if line.lstrip()[0:1].isdigit() and " of 1,250 " in line]
    rows = {
        line.split()[0]: re.findall(r"[\d.]+ %", line)[1]
        for line in lines
        if "      " in line and line.split()[0] in ("MixedNB", "majority", "no-change")
    }

    assert progress[-1].endswith(
        f"last 1,000: accuracy {rows['MixedNB']}   majority {rows['majority']}   "
        f"no-change {rows['no-change']}"
    )
    assert "so far: accuracy " in progress[1]


def test_the_service_of_the_demo_can_be_run_again(finished) -> None:
    """The configuration it wrote is one of `headwater run`; nothing is predicted twice."""
    directory, lines, _ = finished
    config = directory / "phishing.toml"
    command = [sys.executable, "-m", "consumers", "run", "--drain", str(config)]
    text = config.read_text().replace("port = 8321", "port = 0")
    config.write_text(text)

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 0, done.stderr
    assert "1250 observations known" in done.stderr
    assert len(values(config, "phishing-predictions")) == 1250
    assert any(line.startswith("  headwater run ") for line in lines)


def test_a_second_demo_takes_a_fresh_directory(tmp_path: Path) -> None:
    """What an earlier demo wrote is never touched."""
    wanted = tmp_path / "headwater-demo"
    made = []
    for _ in range(3):
        made.append(fresh_directory(wanted))
        (made[-1] / "file").write_text("kept")

    assert [path.name for path in made] == [
        "headwater-demo",
        "headwater-demo-2",
        "headwater-demo-3",
    ]
    assert all((path / "file").read_text() == "kept" for path in made)


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    """A file stands where its parent should be."""
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="give another place with --directory DIR"):
        fresh_directory(tmp_path / "file" / "demo")


def planned(tmp_path: Path, name: str = "phishing") -> Plan:
    """A plan for a feed of river, on any free port."""
    return prepare(bundled(name), name, 50, tmp_path / "demo", port=0)


def test_a_taken_port_is_replaced_by_a_free_one(tmp_path: Path, capsys: Said_) -> None:
    """Another program on 8321 is no reason to fail."""
    with _occupied(8321):
        code = main(["demo", "--fast", "--directory", str(tmp_path / "demo")])

    first = capsys.readouterr().out.splitlines()[0]
    assert code == 0
    assert first.startswith("live page: http://127.0.0.1:")
    assert ":8321" not in first


@contextmanager
def _occupied(port: int) -> Iterator[None]:
    """Something listens on the port: this, or what had it already."""
    try:
        with socket.create_server(("127.0.0.1", port)):
            yield
    except OSError:
        yield


def test_ctrl_c_ends_with_a_summary_of_what_was_done(tmp_path: Path, capsys: Said_) -> None:
    """The commit in hand is finished, and the numbers so far are told."""

    def tell(picture: Picture) -> None:
        if picture.observations >= 100:
            signal.raise_signal(signal.SIGINT)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough

    plan = planned(tmp_path)
    watch = perform(plan, seconds=0, live=False, tell=tell)
    said = list(outcome(watch.picture, seen=False))

    done = watch.picture.observations
    assert 100 <= done < 1250
    assert f"stopped after {done:,} of 1,250 observations" in said
    assert len(values(plan.path, "phishing-predictions")) == done
    assert "metrics: " in capsys.readouterr().out


def test_a_paced_feed_is_written_while_the_service_runs(tmp_path: Path) -> None:
    """Many small commits, and the same predictions as at once."""
    seen: list[int] = []
    plan = planned(tmp_path)

    watch = perform(plan, seconds=1.0, live=False, tell=lambda p: seen.append(p.observations))

    assert watch.picture.seconds >= 0.9
    assert len(set(seen)) >= 5
    assert seen == sorted(seen)
    assert watch.picture.view is not None
    assert watch.picture.view.learned == watch.picture.view.observations == 1250
    assert watch.picture.view.pending == 0


def test_on_a_terminal_the_live_view_is_drawn_and_the_summary_follows(tmp_path: Path) -> None:
    """The same command with a terminal, of 80 x 24, as its output."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "consumers", "demo", "--fast", "--directory", "demo"]
    size = {"COLUMNS": "80", "LINES": "24", "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(
        command, stdout=theirs, stdin=theirs, cwd=tmp_path, env={**os.environ, **size}
    )
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 65536):
            written += chunk
    except OSError:  # Linux ends a pseudo-terminal that nobody writes to any more so
        pass
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written.decode())

    assert process.wait(60) == 0
    assert "1,250 of 1,250 observations" in text
    assert "╭─ wrong, then right " in text
    assert "━ model 90.0 %" in text
    assert text.index("╭─ wrong, then right ") < text.index("headwater tail phishing-predictions")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "{file}"], "needs --label FIELD; the fields are size, colour, bought"),
        (["--from", "{file}", "--label", "sold"], "no field 'sold' in the first 30 records"),
        (["--label", "bought"], "--label names a field of --from FILE"),
        (["--from", "nowhere.csv", "--label", "y"], "nowhere.csv: no such file"),
        (["--feed", "iris"], "expected --feed as one of phishing, bananas, segments, got 'iris'"),
    ],
)
def test_wrong_use_is_one_line_and_writes_nothing(
    tmp_path: Path, capsys: Said_, arguments: list[str], message: str
) -> None:
    """What was expected, what came, what to do; exit 2."""
    file = tmp_path / "visits.csv"
    file.write_text("size,colour,bought\n" + "".join(f"{i},red,yes\n" for i in range(30)))
    given = [argument.replace("{file}", str(file)) for argument in arguments]

    code = main(["demo", "--directory", str(tmp_path / "demo"), *given])

    error = capsys.readouterr().err
    assert code == 2
    assert message in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "demo").exists()


def test_a_file_of_texts_is_learned_by_multinomial_naive_bayes(tmp_path: Path) -> None:
    """The model is chosen as `init` chooses it, from the same inferred fields."""
    file = tmp_path / "my mails.jsonl"
    words = {"spam": "win free money now call", "ham": "see you at home tonight dear"}
    with file.open("w") as out:
        for i in range(60):
            kind = "spam" if i % 3 == 0 else "ham"
            body = f"{words[kind]} number{i} today"
            out.write(json.dumps({"body": body, "kind": kind}) + "\n")

    plan = prepare(from_file(file, "kind"), str(file), 5, tmp_path / "demo", port=0)
    watch = perform(plan, seconds=0, live=False, tell=lambda _: None)

    assert plan.config.model.type == "MultinomialNB"
    assert plan.config.name == "my-mails"
    assert watch.picture.view is not None
    assert watch.picture.view.learned == 60
    assert watch.picture.view.quality.scores["all"].accuracy == pytest.approx(1, abs=0.1)


def said(number: int, label: str, p: float, learned: int = 0) -> Said:
    """A prediction of "a" or "b" that gave "a" the probability p."""
    return Said(number, {"x": 1.0, "colour": "red"}, label, (("a", p), ("b", 1 - p)), learned)


def picture(classes: tuple[str, ...] = ("a", "b"), n: int = 1200) -> Picture:
    """A demo after n labels, of any classes."""
    scores = Scores(float(n), 0.875, 0.31, {"majority": 0.5, "no_change": 0.45})
    confusion = np.full((len(classes), len(classes)), 7, dtype=np.int64)
    quality = QualityView(
        classes, confusion, dict.fromkeys(("all", "last_1000", "fading"), scores), 3
    )
    view = ShardView("shop", "GaussianNB", 0, n + 50, n + 50, n, {}, {}, {}, 50, 0, quality)
    points = tuple(Point(i, 0.5 + 0.375 * i / n, 0.5, 0.45) for i in range(20, n + 1, 20))
    turn = Turn("a", said(12, "b", 0.1), said(1100, "a", 0.97, 900), 0.0, 2)
    return Picture("shop", "GaussianNB", "bought", 5000, 250.0, 4.2, points, view, turn)


def refusing(shown: Picture, dead: int) -> Picture:
    """The same demo with so many dead letters."""
    assert shown.view is not None
    return replace(shown, view=replace(shown.view, dead_letters={"infinite": dead}))


def drawn(renderable: object, width: int) -> list[str]:
    """What a console without colours prints."""
    console = Console(file=StringIO(), width=width, color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(renderable, end="")
    return capture.get().rstrip("\n").split("\n")


@pytest.mark.parametrize("classes", [("a", "b"), tuple(f"class {i} of 40" for i in range(40))])
@pytest.mark.parametrize("width", [10, 30, 50, 66, 80, 100, 200])
@pytest.mark.parametrize("height", [8, 15, 23, 31, 60])
@pytest.mark.parametrize("dead", [0, 1234])
def test_the_view_fits_into_any_terminal(width: int, height: int, classes, dead: int) -> None:
    """No line wraps and the top never scrolls away."""
    lines = drawn(frame(refusing(picture(classes), dead), width, height), width)

    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_the_view_at_80_by_24_has_everything_that_was_promised() -> None:
    """Rate, accuracies, baselines, confusion, pending labels, the two records."""
    text = "\n".join(drawn(frame(picture(), 80, 23), 80))

    for words in (
        "1,250 of 5,000 observations",
        "250 records/s",
        "50 labels pending",
        "model 87.5 %",
        "majority 50.0 %",
        "no-change 45.0 %",
        "confusion",
        "log loss",
        "#12      wrong  P(a) █····",
        "said b (a 10 %, b 90 %)",
        "#1,100   right  P(a) █████████▊  97 %",
        "both bought = a; the same 2 fields, 1,088 records later",
    ):
        assert words in text


def test_the_view_is_there_before_the_first_record() -> None:
    """Nothing known yet is shown as such, at the same size."""
    empty = Picture("shop", "GaussianNB", "bought", 5000)

    lines = drawn(frame(empty, 80, 23), 80)

    assert "0 of 5,000 observations" in lines[0]
    assert len(lines) == len(drawn(frame(picture(), 80, 23), 80))


def test_many_classes_are_folded_into_the_largest_and_the_rest() -> None:
    """The confusion stays readable, and no count is lost."""
    classes = tuple(f"class {i} of 40" for i in range(40))

    view = picture(classes).view
    assert view is not None
    head, *rows = drawn(confusion(view.quality, "kind", 60, 6), 60)
    counts = [[int(n.replace(",", "")) for n in row[15:].split()] for row in rows]

    assert (head.split()[0], head.split()[-1]) == ("kind", "rest")
    assert rows[-1].startswith("rest ")
    assert [len(row) for row in counts] == [6] * 6
    assert sum(map(sum, counts)) == 7 * 40 * 40


def test_lines_are_told_apart_without_colour() -> None:
    """Solid, dashed and dotted: their share of the dots is all, half and a quarter."""
    rows: dict[str, int] = {}
    for level in ("model", "majority", "no_change"):
        flat = {"model": 0.2, "majority": 0.2, "no_change": 0.2} | {level: 0.8}
        rows[level] = _dots(curve([Point(1, **flat), Point(1000, **flat)], 1000, 60, 9)[2].plain)

    assert rows["model"] >= 118
    assert rows["majority"] == pytest.approx(60, abs=3)
    assert rows["no_change"] == pytest.approx(30, abs=3)


def _dots(braille: str) -> int:
    return sum((ord(character) - 0x2800).bit_count() for character in braille)


def test_the_right_record_was_asked_after_the_label_of_the_wrong_one_was_learned() -> None:
    """What the model could not know yet does not count as learned from it."""
    turns = Turns()
    for i in range(3):
        turns.observe(str(i), {"x": 1.0})
    turns.predict("0", "b", (("b", 0.9), ("a", 0.1)), learned=0)
    turns.predict("1", "a", (("a", 0.6), ("b", 0.4)), learned=0)
    turns.answer("0", "a")
    turns.answer("1", "a")
    before = turns.best
    turns.predict("2", "a", (("a", 0.8), ("b", 0.2)), learned=1)
    turns.answer("2", "a")

    assert before is None
    assert turns.best is not None
    assert (turns.best.wrong.number, turns.best.right.number) == (1, 3)
    assert turns.best.gain == pytest.approx(0.7)


def test_the_most_similar_right_record_is_shown() -> None:
    """A later record that is closer replaces one that is further."""
    turns = Turns()
    found: list[int] = []
    steps = [("0", 0.0, "b", 0), ("1", 10.0, "a", 1), ("2", 2.0, "a", 1), ("3", 5.0, "a", 1)]
    for id_, x, label, learned in steps:
        turns.observe(id_, {"x": x})
        turns.predict(id_, label, (("a", 0.5), ("b", 0.5)), learned)
        turns.answer(id_, "a")
        found.append(turns.best.right.number if turns.best else 0)

    assert found == [0, 2, 3, 3]


def test_a_class_never_heard_of_is_no_example_of_a_mistake() -> None:
    """It could not have been said."""
    turns = Turns()
    for id_, label, learned in (("0", "b", 1), ("1", "a", 2)):
        turns.observe(id_, {"x": 1.0})
        turns.predict(id_, label, ((label, 1.0),), learned)
        turns.answer(id_, "a")

    assert turns.best is None


def test_a_demo_that_was_stopped_at_once_says_so() -> None:
    """Without a commit there is no number to tell."""
    assert list(outcome(Picture("a", "b", "c", 10), seen=False)) == [
        "stopped before the first record"
    ]


def test_refused_records_are_counted_in_the_summary() -> None:
    """A feed with bad records says so, by reason."""
    whole, bad = picture(), refusing(picture(), 3)

    assert "dead letters: 3 infinite" in list(outcome(bad, seen=True))
    assert not any("dead letters" in line for line in outcome(whole, seen=True))


def test_dead_letters_are_counted_in_the_live_view() -> None:
    """Only when there are any."""
    one, many, none = (
        "\n".join(drawn(frame(refusing(picture(), n), 80, 23), 80)) for n in (1, 1234, 0)
    )

    assert "50 labels pending   1 dead letter\n" in one
    assert "50 labels pending   1,234 dead letters" in many
    assert "dead letter" not in none


@pytest.mark.parametrize(("near", "alike"), [(0, False), (1, True), (2, True)])
def test_records_are_called_alike_only_if_half_of_their_fields_are(near: int, alike: bool) -> None:
    """Else the panel and the summary promise no more than the class they share."""
    whole = picture()
    assert whole.turn is not None
    turned = replace(whole, turn=replace(whole.turn, distance=0.3, near=near))

    shown = "\n".join(drawn(frame(turned, 80, 23), 80))
    said_ = list(outcome(turned, seen=False))

    assert ("╭─ wrong, then right ─" in shown) == ("wrong, then right" in said_) == alike
    assert ("╭─ wrong, later right: same class ─" in shown) != alike
    assert (f"similar: {near} of 2 fields equal or close" in shown) == alike
    assert ("similar" in " ".join(said_)) == alike


def test_fields_that_are_equal_or_close_are_counted() -> None:
    """A tenth of a number's range is close; another word is not."""
    turns = Turns()
    rows = [
        {"x": 0.0, "z": 0.0, "c": "red"},
        {"x": 100.0, "z": 1.0, "c": "red"},
        {"x": 9.0, "z": 0.9, "c": "red"},
    ]
    for i, (row, label) in enumerate(zip(rows, ("b", "b", "a"), strict=True)):
        turns.observe(str(i), row)
        turns.predict(str(i), label, (("a", 0.5), ("b", 0.5)), i)
        turns.answer(str(i), "b" if i == 1 else "a")

    assert turns.best is not None
    assert (turns.best.near, turns.best.fields, turns.best.alike) == (2, 3, True)


def test_labels_that_cannot_be_learned_are_refused_and_one_class_is_warned_of(
    tmp_path: Path, capsys: Said_
) -> None:
    """By the checks of `init`, before a directory is made."""
    file = tmp_path / "pay.csv"
    file.write_text("x,y\n" + "".join(f"{i % 7}.5,no\n" for i in range(60)))
    command = ["demo", "--from", str(file), "--directory", str(tmp_path / "demo"), "--port", "0"]

    assert main([*command, "--label", "x"]) == 2
    assert "label 'x': expected text, integers or truth values" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()
    assert main([*command, "--label", "y"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "60 records of pay.csv; labels come 50 records later"
    assert lines[3].startswith("warning: only one class in the first 60 records of pay.csv;")


def test_a_taken_port_that_was_asked_for_is_said_before_anything_is_written(
    tmp_path: Path, capsys: Said_
) -> None:
    """Nothing is left behind by a demo that could not start."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code = main(["demo", "--port", str(port), "--directory", str(tmp_path / "demo")])

    error = capsys.readouterr().err
    assert code == 2
    assert f"--port {port}: cannot listen there (Address already in use); give another" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize(
    ("started", "found", "typed"),
    [
        ("/a b/bin/headwater", None, "'/a b/bin/headwater'"),
        ("venv/bin/headwater", "/usr/bin/headwater", "venv/bin/headwater"),
        ("/usr/bin/headwater", "/usr/bin/headwater", "headwater"),
        ("headwater", None, "headwater"),
        ("/x/consumers/__main__.py", None, "headwater"),
    ],
)
def test_proposed_commands_begin_with_what_started_the_demo(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, started: str, found: str | None, typed: str
) -> None:
    """A program that the shell does not find is named by its path."""
    monkeypatch.setattr("sys.argv", [started])
    monkeypatch.setattr("shutil.which", lambda _: found)
    config = parse(
        'name = "n"\ninput = {transport = "sqlite:a.db", observations = "o"}\n'
        'model = {type = "GaussianNB"}\n'
    )

    proposed = list(files(config, tmp_path / "n.toml", _program()))[-3:]

    assert all(line.startswith(f"  {typed} ") for line in proposed)
