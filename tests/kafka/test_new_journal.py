"""A journal under another name, on a real broker, by the command."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from consumers.base.records import Outgoing, Partition
from consumers.journal import records as journal
from consumers.journal.records import IdentityRecord
from consumers.transports import open_log
from tests.acceptance.conftest import Shell
from tests.kafka.running import Running

ROWS = 50


@pytest.mark.kafka
def test_new_journal_begins_once_and_only_when_asked(kafka_bootstrap: str, tmp_path: Path) -> None:
    """Refused with 2 and nothing written; begun with the flag; the next start needs no flag."""
    name, shell = f"new-{uuid4().hex[:10]}", Shell(tmp_path)
    text = (
        f'name = "{name}"\n[input]\ntransport = "kafka://{kafka_bootstrap}"\n'
        f'observations = "{name}-in"\nlabel = "y"\n[features]\na = "numeric"\n'
        f'[model]\ntype = "GaussianNB"\n[snapshots]\ndirectory = "{tmp_path}/snapshots"\n'
        "[http]\nenabled = false\n"
    )
    shell.write("service.toml", text)
    shell.write("renamed.toml", f'{text}[journal]\ntopic = "{name}-books"\n')
    with closing(open_log(f"kafka://{kafka_bootstrap}")) as log:
        for topic in ("in", "predictions", "dead-letters", "journal", "books"):
            log.create_topic(f"{name}-{topic}", 1)
        rows = [{"id": i, "a": i % 7, "y": i % 2} for i in range(ROWS)]
        log.append([Outgoing(f"{name}-in", None, json.dumps(row).encode(), 1) for row in rows])

        def values(topic: str) -> list[bytes | None]:
            part = Partition(f"{name}-{topic}", 0)
            chunks = log.read(log.beginning_offsets([part]), log.end_offsets([part]))
            return [value for chunk in chunks for value in chunk.values]

        assert Running(tmp_path / "service.toml", drain=True).end() is None
        made = values("predictions")
        refused = shell("run", "renamed.toml", "--drain", code=2)
        assert (values("predictions"), values("books")) == (made, [])
        shell("run", "renamed.toml", "--drain", "--new-journal")
        assert Running(tmp_path / "renamed.toml", drain=True).end() is None
        first, *_ = map(journal.decode, values("books"))
        again = values("predictions")

    assert len(made) == ROWS
    assert "has run before (its group has committed offsets" in refused.stderr
    assert "--new-journal" in refused.stderr
    assert again == made * 2  # the same model over the same records
    assert isinstance(first, IdentityRecord)
    assert any("committed offsets" in phrase for phrase in first.replaces)
