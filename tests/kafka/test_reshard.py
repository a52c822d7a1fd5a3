"""A service on a real broker gets more shards while it runs; the command is killed on the way."""

from __future__ import annotations

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
from tests.acceptance.service import Service
from tests.consumers.feeds import phishing
from tests.consumers.service.shards import Shards, keyed

pytestmark = pytest.mark.kafka

# In the closing of the first and of the second journal, and in the first and last new one.
KILLS = ("reshard_fenced:kill", "in_commit:kill@2", "after_commit:kill@2", "after_flush:kill@3")


def test_more_shards_under_one_name(
    kafka_bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each record is predicted once, whatever is killed; the running service is fenced."""
    url, before = f"kafka://{kafka_bootstrap}", f"reshard-{uuid4().hex[:8]}-"
    service = Shards(tmp_path, 2, mix="", url=url, before=before)
    path, sent = tmp_path / "svc.toml", 0
    path.write_text(service.text, encoding="utf-8")

    def send(count: int) -> None:
        nonlocal sent
        records = phishing(sent + count)[sent:]
        service.log.append(keyed(records, sent, before))
        sent += count

    def predicted() -> Counter[bytes | None]:
        parts = [Partition(f"{before}svc-predictions", n) for n in range(4)]
        with closing(open_log(url)) as log:
            chunks = log.read(log.beginning_offsets(parts), log.end_offsets(parts))
            return Counter(key for chunk in chunks for key in chunk.keys)

    command = ["reshard", str(path), "--shards", "4", "--yes"]
    with Service(path) as running:
        send(200)
        running.wait_until(lambda: len(predicted()) == sent)
        for kill in KILLS:
            for _ in range(4):
                killed = subprocess.run(
                    [sys.executable, "-m", "consumers", *command],
                    env={**os.environ, "HEADWATER_FAILPOINT": kill},
                    capture_output=True,
                    text=True,
                    check=False,
                )
                # Until the broker ends the transaction of the killed call, after 30 s at most.
                if "could not read the committed offsets" not in killed.stderr:
                    break
            assert killed.returncode == -9, killed.stderr
            send(20)
        assert running.wait() != 0, "it was fenced"
    capsys.readouterr()
    assert main(command) == 0, capsys.readouterr().err
    assert main(["run", str(path), "--drain"]) == 2
    topic = f"{before}svc-journal-4"
    text = service.text.replace("shards = 2", "shards = 4")
    path.write_text(f'{text}\n[journal]\ntopic = "{topic}"\n', encoding="utf-8")
    send(100)
    assert main(["run", str(path), "--drain"]) == 0, capsys.readouterr().err
    assert predicted() == {str(i).encode(): 1 for i in range(sent)}
    service.log.close()
