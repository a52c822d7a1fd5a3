"""`headwater relearn` on a real broker: killed at each step of its transaction, then whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from consumers.base.records import Partition
from consumers.cli import main
from consumers.transports import open_log
from tests.consumers.feeds import MODEL, config_text, feed, phishing

NEW = 'type = "MixedNB"\nhalf_life = 80'
FIELDS = sorted(phishing(1)[0][0])
UNFINISHED = ("in_fence", "before_begin", "mid_send", "after_check", "after_offsets")
FINISHED = "after_commit"


class Bench:
    """A service on topics of its own."""

    def __init__(self, bootstrap: str, path: Path) -> None:
        self.url, self.path = f"kafka://{bootstrap}", path
        self.name = f"relearn-{uuid4().hex[:8]}"
        self.topics = {"obs": f"{self.name}-obs", "ans": f"{self.name}-ans"}
        with closing(open_log(self.url)) as log:
            outputs = [f"{self.name}-{t}" for t in ("predictions", "dead-letters", "journal")]
            for topic in (*self.topics.values(), *outputs):
                log.create_topic(topic, 1)

    def feed(self, first: int, end: int) -> None:
        """Append these records."""
        records = [r for r in feed(phishing(end), 50) if int(r.key or b"0") >= first]
        with closing(open_log(self.url)) as log:
            log.append([r._replace(topic=self.topics[r.topic]) for r in records])

    def config(self, model: str) -> str:
        """The path of the configuration, with this model."""
        text = config_text(self.url, FIELDS, model=model).replace('"svc"', f'"{self.name}"')
        for short, topic in self.topics.items():
            text = text.replace(f'"{short}"', f'"{topic}"')
        self.path.write_text(text.replace("max_wait_ms = 60000", "max_wait_ms = 1000"))
        return str(self.path)

    def predicted(self) -> Counter[bytes | None]:
        """How often each id was predicted."""
        part = Partition(f"{self.name}-predictions", 0)
        with closing(open_log(self.url)) as log:
            chunks = log.read({part: 0}, log.end_offsets([part]))
            return Counter(key for chunk in chunks for key in chunk.keys)


def test_kill_at_each_step_leaves_the_old_model_or_the_new_one(
    kafka_bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The old one until the transaction is committed, the new one after it; nothing in between."""
    bench = Bench(kafka_bootstrap, tmp_path / "svc.toml")
    bench.feed(0, 200)
    assert main(["run", bench.config(MODEL), "--drain"]) == 0
    end = 200
    for point in (*UNFINISHED, FINISHED):
        killed = subprocess.run(
            [sys.executable, "-m", "consumers", "relearn", bench.config(NEW), "--yes"],
            env={**os.environ, "HEADWATER_FAILPOINT": f"{point}:kill"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert killed.returncode == -9, killed.stderr
        bench.feed(end, end := end + 20)
        holds, other = (NEW, MODEL) if point == FINISHED else (MODEL, NEW)
        assert main(["run", bench.config(holds), "--drain"]) == 0, point
        assert main(["run", bench.config(other), "--drain"]) == 2, point
    capsys.readouterr()

    assert bench.predicted() == {str(i).encode(): 1 for i in range(end)}
    kinds = []
    for id_ in (10, end - 30, end - 1):
        assert main(["audit", bench.config(NEW), str(id_), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["same"]
        kinds.append(told["prediction"]["model"]["type"])
    assert kinds == ["GaussianNB", "GaussianNB", "MixedNB"]
    assert main(["rollback", bench.config(NEW), "--to", "2", "--yes"]) == 0
    bench.feed(end, end + 20)
    assert main(["run", bench.config(MODEL), "--drain"]) == 0
    assert bench.predicted() == {str(i).encode(): 1 for i in range(end + 20)}
