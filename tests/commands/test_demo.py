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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from river import datasets

from consumers.base.errors import ConfigError
from consumers.base.records import Partition
from consumers.cli import main
from consumers.commands.demo import DemoPlan, _program, perform, prepare
from consumers.config import load, parse
from consumers.config.learner import ModelConfig
from consumers.demo.data import FEEDS, bundled, fresh_directory, from_file
from consumers.demo.picture import Picture
from consumers.demo.summary import files, outcome
from consumers.service.runner import Runner
from consumers.service.warm_up import CompilationStopped
from consumers.shard.models import build
from consumers.transports import open_log
from stream.evaluate.progressive import progressive
from stream.evaluate.quality import QualityView
from stream.evaluate.verifier import PlainScores
from tests.calling import call
from tests.commands.ports import other_port
from tests.waiting import PATIENCE, until

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
    *_, quality = progressive(records, build(ModelConfig()), delay=50)
    return quality


@pytest.mark.parametrize(
    ("name", "dataset"),
    [
        ("phishing", datasets.Phishing()),
        ("bananas", datasets.Bananas()),
        ("segments", datasets.ImageSegments()),
    ],
)
def test_feed_has_the_records_of_river(name, dataset) -> None:
    """In the same order, with the same types; river's module is not imported for them."""
    _, label = FEEDS[name]
    expected = [{**x, label: y} for x, y in dataset]
    found = list(bundled(name).records())

    assert found == expected
    assert [list(map(type, x.values())) for x in found[:99]] == [
        list(map(type, x.values())) for x in expected[:99]
    ]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], int]:
    """A whole demo without a terminal: its directory, its lines, its exit code."""
    directory = tmp_path_factory.mktemp("demo") / "headwater-demo"
    command = [sys.executable, "-m", "consumers", "demo", "--verify"]
    command += ["--directory", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
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

    (model,) = (line.split() for line in lines if line.startswith("auto"))
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
    """Progress without a terminal, in few lines; one more if the first commit is a small one."""
    _, lines, _ = finished

    progress = [line for line in lines if line.lstrip()[0:1].isdigit() and " of 1,250 " in line]

    assert len(progress) in (10, 11)
    assert progress[-1].lstrip().startswith("1,250 of 1,250")


def test_the_last_line_of_progress_has_the_figures_of_the_table(finished) -> None:
    """It names its window, and says what that window's column says."""
    _, lines, _ = finished
    progress = [line for line in lines if line.lstrip()[0:1].isdigit() and " of 1,250 " in line]
    rows = {
        line.split()[0]: re.findall(r"[\d.]+ %", line)[1]
        for line in lines
        if "      " in line and line.split()[0] in ("auto", "majority", "no-change")
    }

    assert progress[-1].endswith(
        f"last 1,000: accuracy {rows['auto']}   majority {rows['majority']}   "
        f"no-change {rows['no-change']}"
    )
    assert "so far: accuracy " in progress[1]


def test_the_service_of_the_demo_can_be_run_again(finished) -> None:
    """The configuration it wrote is one of `headwater run`; nothing is predicted twice."""
    directory, lines, _ = finished
    config = directory / "phishing.toml"
    other_port(config)

    done = call("run", "--drain", config, code=0)

    assert "1,250 observations known" in done.stderr
    assert len(values(config, "phishing-predictions")) == 1250
    assert any(line.startswith("  headwater run ") for line in lines)


def test_the_last_line_is_what_rivers_own_loop_comes_to(finished) -> None:
    """All scores of the running service, once more and one record at a time."""
    _, lines, _ = finished

    assert lines[-1] == (
        "river's own loop over the same records: 1,200 predictions scored, largest difference 0"
    )
    assert lines[-2] == ""
    assert sum("river's own loop" in line for line in lines) == 1


def test_a_service_that_scores_otherwise_ends_with_1(tmp_path, capsys, monkeypatch) -> None:
    """The demo does not pass over a difference."""
    honest = PlainScores.update

    def doctored(self, y_true, y_pred, w=1.0):
        honest(
            self, ("no" if y_true == "yes" else "yes") if self.scored == 50 else y_true, y_pred, w
        )

    monkeypatch.setattr(PlainScores, "update", doctored)
    few = tmp_path / "few.csv"
    few.write_text(
        "size,bought\n" + "".join(f"{i % 9},{['yes', 'no'][i % 9 > 4]}\n" for i in range(150))
    )
    command = ["demo", "--from", str(few), "--label", "bought", "--port", "0"]

    assert main([*command, "--directory", str(tmp_path / "demo"), "--verify"]) == 1
    *_, last = capsys.readouterr().out.splitlines()
    assert re.search(r"100 predictions scored, largest difference 0\.\d+$", last)
    assert main([*command, "--directory", str(tmp_path / "other")]) == 0
    assert "river" not in capsys.readouterr().out


def test_long_feeds_are_verified_by_a_command(tmp_path, capsys, monkeypatch) -> None:
    """River's loop is slow, so the line shows how to start it."""
    monkeypatch.setattr("consumers.commands.demo.MOST_VERIFIED", 1_000)
    directory = tmp_path / "demo"

    options = ["--fast", "--verify", "--directory", str(directory), "--port", "0"]
    assert main(["demo", *options]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last == (
        "river's own loop over the same records: skipped (there are more than 1,000); headwater "
        f"replay {directory}/phishing.toml FILE --label is_phishing --delay 50 --verify"
    )


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


def planned(tmp_path: Path, name: str = "phishing") -> DemoPlan:
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


def test_ctrl_c_ends_a_demo_whose_kernels_begin(tmp_path: Path, monkeypatch) -> None:
    """All of them ran once as Python before it ended, which takes seconds."""

    def begin(_config: object, _report: object, stopped: Callable[[], bool] = bool) -> None:
        signal.raise_signal(signal.SIGINT)
        until(stopped, "the wish to end")
        raise CompilationStopped

    monkeypatch.setattr("consumers.service.warm_up.begin_kernels", begin)
    monkeypatch.setattr(Runner, "run", lambda _: pytest.fail("it ran"))
    watch = perform(planned(tmp_path), seconds=0.0, live=False, tell=lambda _: None)

    assert watch.picture.observations == 0


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
    options = ["--fast", "--directory", "demo"]
    command = [sys.executable, "-m", "consumers", "demo", *options]
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

    assert process.wait(PATIENCE) == 0
    assert "1,250 of 1,250 observations" in text
    assert "╭─ wrong, then right " in text
    assert f"━ model {100 * (offline().scores['last_1000'].accuracy or 0.0):.1f} %" in text
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


def test_a_file_of_texts_is_learned_by_its_words(tmp_path: Path) -> None:
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

    assert plan.config.model.type == "auto"
    assert plan.config.name == "my-mails"
    assert watch.picture.view is not None
    assert watch.picture.view.learned == 60
    assert watch.picture.view.quality.scores["all"].accuracy == pytest.approx(1, abs=0.1)


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
    assert lines[2] == "60 records of pay.csv; labels arrive 50 records later"
    assert lines[3].startswith("warning: only one class in the first 60 records of pay.csv;")
    file.write_text("x,y\n1.5,no\n")
    again = [*command[:4], str(tmp_path / "again"), *command[5:]]
    assert main([*again, "--label", "y"]) == 0
    assert "warning: only one class in the first record of pay.csv;" in capsys.readouterr().out


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

    _, proposed = "\n".join(files(config, tmp_path / "n.toml", _program())).split("next\n")
    commands = proposed.replace(" \\\n", " ").split("\n")

    assert len(commands) == 3
    assert all(line.startswith(f"  {typed} ") for line in commands)
