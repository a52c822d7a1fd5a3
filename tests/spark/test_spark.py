"""Splits as tasks of Spark: the bits of one process, also if executors are killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from consumers.backfill.engines import spark
from consumers.backfill.learn import plan_files
from consumers.backfill.manifest import Reading
from consumers.cli import main
from consumers.config import load
from tests.spark.running import executors_with_tasks

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17"),
]
ROWS, GROUPS = 60_000, 12
CONFIG = """
name = "svc"
[input]
transport = "sqlite:log.db"
observations = "obs"
label = "label"
[features]
a = "numeric"
b = "numeric"
kind = "categorical"
[model]
type = "MixedNB"
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A service with a history in 12 splits."""
    rng = np.random.default_rng(7)
    y = rng.random(ROWS) < 0.3
    table = pa.table(
        {
            "a": rng.normal(y.astype(float)),
            "b": rng.normal(size=ROWS),
            "kind": rng.choice(list("xyz"), ROWS),
            "label": np.where(y, "spam", "ham"),
        }
    )
    pq.write_table(table, tmp_path / "history.parquet", row_group_size=ROWS // GROUPS)
    (tmp_path / "svc.toml").write_text(CONFIG)
    assert main(["check", str(tmp_path / "svc.toml"), "--create"]) == 0
    return str(tmp_path / "svc.toml")


def words(config: str, name: str) -> list[str]:
    """The command for a service of this name."""
    path = Path(config).with_name(f"{name}.toml")
    path.write_text(CONFIG.replace('name = "svc"', f'name = "{name}"'))
    place = str(path.with_name("history.parquet"))
    return ["backfill", str(path), place, "--split", "5000", "--json"]


def started(config: str, name: str, master: str, *more: str) -> subprocess.Popen[str]:
    """The command on Spark, in a process of its own."""
    spark = ["--engine", "spark", "--master", master, *more]
    return subprocess.Popen(
        [sys.executable, "-m", "consumers", *words(config, name), *spark],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def result(process: subprocess.Popen[str]) -> dict[str, object]:
    """What the command printed."""
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    return json.loads(out)


def test_cluster_whose_executor_is_killed_gives_the_bits_of_one_process(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its tasks are repeated elsewhere, and a repeated task is the same task."""
    process = started(config, "cluster", "local-cluster[2,1,1024]")
    try:
        while not (executors := executors_with_tasks(process)):
            assert process.poll() is None, process.communicate()
        os.kill(executors[0], signal.SIGKILL)
        found = result(process)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    capsys.readouterr()
    assert main([*words(config, "alone"), "--workers", "1"]) == 0
    alone = json.loads(capsys.readouterr().out)

    assert found["fingerprint"] == alone["fingerprint"]
    assert (found["learned"], found["splits"]) == (ROWS, GROUPS)


def test_error_of_a_split_is_an_answer_of_its_task(config: str) -> None:
    """It is shown in one line. An exception would be a traceback of Java, and be repeated."""
    place = str(Path(config).with_name("history.parquet"))
    plan = plan_files(load(Path(config)), place, None, Reading(time_field="b"), size=5000)
    splits = plan.job.manifest.splits
    numbers = pa.record_batch([pa.array([3, 0])], ["id"])
    answers = list(spark._learning(plan.job, splits)(iter([numbers])))

    assert [answer.column(0).to_pylist() for answer in answers] == [[3], [0]]
    assert [answer.column(1).to_pylist() for answer in answers] == [[None], [None]]
    for answer in answers:
        assert "field 'b': expected a time" in answer.column(2)[0].as_py()
