"""A service that begins with a model file, on a real broker, killed and replayed."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from subprocess import run
from uuid import uuid4

import pytest

import headwater
from consumers.base.records import Outgoing, Partition
from consumers.cli import main
from consumers.journal.model_parts import PART_KEY
from consumers.transports import open_log
from tests.acceptance.service import HEADWATER
from tests.consumers.snapshots.test_model_file import configured, exported, label, ran, row
from tests.kafka.running import Running

ROWS = 300
MODEL = 'type = "KNNClassifier"\nwindow = 20000'
FIELDS = 'count = "numeric"\nflag = "binary"\ncolour = "categorical"\nnote = "text"\n'


@pytest.mark.kafka
def test_imported_model_survives_kills_and_is_replayed(
    kafka_bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The import is killed with its parts written, and the service in a commit. Each record is
    predicted once, as the loaded learner predicts it, and a replay of the journal agrees."""
    name, path = f"imported-{uuid4().hex[:10]}", tmp_path / "service.toml"
    (tmp_path / "source").mkdir()
    source = configured(tmp_path / "source", MODEL)
    (tmp_path / "model.hw").write_bytes(exported(source, ran(source, 3000))[1])
    path.write_text(
        f'name = "{name}"\n[input]\ntransport = "kafka://{kafka_bootstrap}"\n'
        f'observations = "{name}-in"\nlabel = "y"\n[features]\n{FIELDS}[model]\n{MODEL}\n'
        f'[commit]\nmax_records = 50\n[snapshots]\ndirectory = "{tmp_path}/snapshots"\n'
        "[http]\nenabled = false\n",
    )

    def killed(point: str, *arguments: str) -> None:
        environment = {**os.environ, "HEADWATER_FAILPOINT": point}
        done = run([HEADWATER, *arguments], cwd=tmp_path, env=environment, capture_output=True)
        assert done.returncode == -9, done.stderr

    with closing(open_log(f"kafka://{kafka_bootstrap}")) as log:
        for topic in ("in", "predictions", "dead-letters", "journal"):
            log.create_topic(f"{name}-{topic}", 1)
        rows = [{"id": i, **row(i), "y": label(i)} for i in range(ROWS)]
        log.append(
            [Outgoing(f"{name}-in", None, json.dumps(r).encode(), 1 + r["id"]) for r in rows]
        )
        killed("import_parts:kill", "import", "service.toml", "model.hw")
        assert main(["run", str(path), "--drain"]) == 2
        refused = capsys.readouterr().err
        assert main(["import", str(path), str(tmp_path / "model.hw")]) == 0
        killed("in_commit:kill@3", "run", "service.toml", "--drain")
        assert Running(path, drain=True).end() is None
        capsys.readouterr()
        assert main(["replay", str(path), "--journal", "--json"]) == 0
        replayed = json.loads(capsys.readouterr().out)

        def records(topic: str) -> list[tuple[bytes, bytes]]:
            part = Partition(f"{name}-{topic}", 0)
            chunks = log.read(log.beginning_offsets([part]), log.end_offsets([part]))
            return [pair for c in chunks for pair in zip(c.keys, c.values, strict=True)]

        made = [json.loads(value) for _, value in records("predictions")]
        keys = [key for key, _ in records("journal")]
    model = headwater.load(tmp_path / "model.hw")
    expected = []
    for i in range(ROWS):
        expected.append(model.predict_proba_one(row(i)))
        model.learn_one(row(i), label(i))

    assert "run headwater import or headwater backfill again" in refused
    assert keys.count(PART_KEY) >= 4, "two parts, written twice"
    assert [p["id"] for p in made] == [str(i) for i in range(ROWS)]
    assert [dict(map(tuple, p["probabilities"])) for p in made] == expected
    assert replayed["learned"] == ROWS
    assert replayed["imported"].startswith("svc of the service svc")
