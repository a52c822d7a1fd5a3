"""`headwater backfill`: a new service that has learned its history, by the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from consumers.base.records import Outgoing, Partition
from consumers.cli import main
from consumers.transports import open_log
from tests.consumers.feeds import NOW, config_text, feed, phishing

Said = pytest.CaptureFixture[str]
FEATURES = sorted(phishing(1)[0][0])
N = 300
UNTIL = str(NOW + 2000)  # 200 observations are before
BEGUN = "4"  # after the model, the manifest, what waits, and record 0


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A service over topics of 300 observations with late labels, that has not run."""
    url = f"sqlite:{tmp_path / 'log.db'}"
    with closing(open_log(url)) as log:
        for topic in ("obs", "ans"):
            log.create_topic(topic, 1)
        log.append(list(feed(phishing(N), 30)))
    (tmp_path / "svc.toml").write_text(config_text(url, FEATURES))
    return str(tmp_path / "svc.toml")


def file(tmp_path: Path, count: int = N) -> str:
    """The same observations with their labels, as Parquet."""
    rows = [
        {"id": str(i), "at": NOW + 10 * i, "label": y, **x}
        for i, (x, y) in enumerate(phishing(count))
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "h.parquet", row_group_size=40)
    return str(tmp_path / "h.parquet")


def predicted(directory: Path) -> list[int]:
    """The ids of the predictions of the service."""
    start = {Partition("svc-predictions", 0): 0}
    with closing(open_log(f"sqlite:{directory / 'log.db'}")) as log:
        chunks = log.read(start, log.end_offsets(list(start)))
        return sorted(int(json.loads(value)["id"]) for chunk in chunks for value in chunk.values)


def killed(point: str, words: list[str]) -> None:
    """Run the command in a process that dies at a point."""
    done = subprocess.run(
        [sys.executable, "-m", "consumers", *words],
        env={**os.environ, "HEADWATER_FAILPOINT": f"{point}:kill"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -9, done.stderr


def test_service_that_learned_its_history_is_known_to_every_command(
    config: str, tmp_path: Path, capsys: Said
) -> None:
    """Run, replay, audit, rebuild and rollback: each begins with the history, and says so."""
    assert main(["backfill", config, "--until", UNTIL, "--split", "60"]) == 0
    shown = capsys.readouterr().out
    assert main(["run", config, "--drain"]) == 0
    log = capsys.readouterr().err
    assert main(["replay", config, "--journal", "--json"]) == 0
    replayed = json.loads(capsys.readouterr().out)
    assert main(["audit", config, "250", "--json"]) == 0
    audited = json.loads(capsys.readouterr().out)
    assert main(["rebuild", config, "--at", BEGUN]) == 0
    first = capsys.readouterr().out
    assert main(["rollback", config, "--to", BEGUN, "--yes"]) == 0
    assert main(["relearn", config]) == 2

    assert "obs on sqlite:" in shown
    assert "171 labels" in shown
    assert "29 records still without counterpart" in shown
    assert "began with the model learned from obs on sqlite:" in log
    assert "0 labels learned after the 171 before the import" in log
    assert (replayed["observations"], replayed["learned"], replayed["unscored"]) == (100, 129, 29)
    assert audited["same"]
    assert "it began with the model learned from obs" in first
    assert predicted(tmp_path) == list(range(200, N))


def test_files_and_topics_give_the_same_model(config: str, tmp_path: Path, capsys: Said) -> None:
    """If the splits are the same records. The plan shows them before anything is learned."""
    place = file(tmp_path)
    assert main(["backfill", config, "--until", str(NOW + 10_000), "--split", "80", "--plan"]) == 0
    plan = capsys.readouterr().out
    assert main(["backfill", config, "--until", str(NOW + 10_000), "--split", "80", "--json"]) == 0
    topics = json.loads(capsys.readouterr().out)
    other = Path(config).read_text().replace('name = "svc"', 'name = "files"')
    (tmp_path / "files.toml").write_text(other)
    words = ["backfill", str(tmp_path / "files.toml"), place, "--label", "label"]
    assert main([*words, "--time-field", "at", "--split", "80", "--workers", "1", "--json"]) == 0
    files = json.loads(capsys.readouterr().out)

    assert "obs[0] from 80 to before 160" in plan
    assert topics["fingerprint"] == files["fingerprint"]
    assert topics["manifest"] in plan
    assert "4 splits" in plan
    assert (files["learned"], files["scored"], files["splits"]) == (N, N - 4, 4)


def test_fields_of_any_split_that_are_not_used_are_said(
    config: str, tmp_path: Path, capsys: Said
) -> None:
    """Of topics as of files: the last record of the last split has them."""
    with Path(config).open("a") as more:
        more.write('\n[values]\non_bad_value = "missing"\n')
    (x, label), *_ = phishing(1)
    odd = {"id": "9999", **x, FEATURES[0]: "much", "agee": 3}
    late = {"id": "9999", "label": label, "weihgt": 3}
    with closing(open_log(f"sqlite:{tmp_path / 'log.db'}")) as log:
        values = [("obs", odd), ("ans", late)]
        log.append([Outgoing(to, None, json.dumps(v).encode(), NOW + 5000) for to, v in values])

    assert main(["backfill", config, "--split", "80"]) == 0
    shown = capsys.readouterr().out

    assert f"field {FEATURES[0]!r}: 1 of {N + 1} values do not fit its kind" in shown
    assert "not declared, so not used: 'agee'" in shown
    assert "in label records, not used: 'weihgt'" in shown


def test_interrupted_backfill_is_repeated(config: str, capsys: Said) -> None:
    """A start refuses to begin empty; the same command again goes on, and then does nothing."""
    words = ["backfill", config, "--until", UNTIL, "--workers", "1"]
    killed("import_parts", words)
    assert main(["run", config, "--drain"]) == 2
    assert "was interrupted" in capsys.readouterr().err
    assert main(words) == 0
    assert main(words) == 0

    assert "began with this history before; nothing was written" in capsys.readouterr().out
    assert main([*words[:2], "--until", str(NOW + 1500)]) == 2
    assert "began with another model, and a backfill starts a new" in capsys.readouterr().err


@pytest.mark.parametrize("until", [[], ["--until", UNTIL]])
def test_shards_begin_together(tmp_path: Path, capsys: Said, until: list[str]) -> None:
    """A command that was killed between two of them is repeated, also where the first run had
    another end. A shard without labels in its history begins with an empty model."""
    url = f"sqlite:{tmp_path / 'log.db'}"
    records = [r._replace(partition=None) for r in feed(phishing(N), 30)]  # placed by their keys
    with closing(open_log(f"memory:{tmp_path.name}")) as scratch, closing(open_log(url)) as log:
        for topic in ("obs", "ans"):
            scratch.create_topic(topic, 3)
            log.create_topic(topic, 3)
        placed = zip(records, scratch.append(records), strict=True)
        log.append([record for record, (number, _) in placed if number < 2])
    path = str(tmp_path / "svc.toml")
    Path(path).write_text(config_text(url, FEATURES, more="[scale]\nshards = 3\n"))
    words = ["backfill", path, *until, "--workers", "1"]
    killed("import_journaled", words)
    assert main([*words, "--json"]) == 0
    begun = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert main(["run", path, "--drain"]) == 0
    said = capsys.readouterr().err

    assert [(each["shard"], each["learned"] > 0) for each in begun] == [(1, True), (2, False)]
    assert said.count("it began with the model learned from obs") == 3


def test_model_that_is_learned_in_order_says_why(config: str, tmp_path: Path, capsys: Said) -> None:
    """It takes one core, so the reason is shown."""
    path = tmp_path / "knn.toml"
    path.write_text(Path(config).read_text().replace("GaussianNB", "KNNClassifier"))
    assert main(["backfill", str(path), "--until", UNTIL, "--json"]) == 0
    said = capsys.readouterr()

    assert json.loads(said.out)["in_order"] == "KNNClassifier does not merge exactly"
    assert "all records are learned in order, on one core" in said.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--until", "soon"], "--until: expected a time since 1970"),
        (["--label", "y"], "expected SOURCE, because options of files are given"),
        (["--engine", "spark", "--workers", "2"], "--workers is for --engine local"),
        (["--master", "yarn"], "--master and --conf are for --engine spark"),
        (["--engine", "spark", "--conf", "x"], "expected --conf KEY=VALUE"),
        (["none.parquet"], "none.parquet"),
        (["--until", "2001-01-01"], "obs has no observations before --until"),
        (["--until", str(NOW + 100)], "no label was learned from obs on sqlite:"),
    ],
)
def test_wrong_use_is_one_line(config: str, capsys: Said, words: list[str], message: str) -> None:
    """It says what to do, and nothing is learned."""
    assert main(["backfill", config, *words]) == 2
    said = capsys.readouterr().err

    assert message in said
    assert len(said.splitlines()) == 1
