"""Shards that mix on a real broker: one process is killed, and the other takes its shard over."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest

from tests.acceptance.service import Service
from tests.consumers.feeds import phishing
from tests.consumers.service.shards import Shards, keyed, violations_of

pytestmark = pytest.mark.kafka


def test_a_takeover_continues_the_mix(kafka_bootstrap: str, tmp_path: Path) -> None:
    """Nothing is lost or doubled, and in the end all shards predict as one model."""
    url, before = f"kafka://{kafka_bootstrap}", f"mix-{uuid4().hex[:8]}-"
    service = Shards(tmp_path, 2, mix="50ms", url=url, before=before)
    records, sent = phishing(600), 0
    paths = [tmp_path / "one.toml", tmp_path / "two.toml"]
    for path in paths:
        path.write_text(service.text, encoding="utf-8")

    def send(count: int) -> None:
        nonlocal sent
        service.log.append(keyed(records[sent : sent + count], sent, before))
        sent += count

    def predicted() -> int:
        parts = [service.partition("svc-predictions", n) for n in range(4)]
        starts, ends = service.log.beginning_offsets(parts), service.log.end_offsets(parts)
        chunks = service.log.read(starts, ends)
        return len({json.loads(v or b"")["id"] for chunk in chunks for v in chunk.values})

    def mixed(shard: int) -> bool:
        return any(entry.peers for entry in service.mixes(shard))

    with Service(paths[0]) as one, Service(paths[1]) as two:
        send(200)
        two.wait_until(lambda: predicted() == sent)
        one.wait_until(lambda: mixed(0) and mixed(1))
        send(200)
        one.kill()
        two.wait_until(lambda: predicted() == sent)
        send(200)
        two.wait_until(lambda: predicted() == sent)
        two.terminate()
    for number in (0, 1, 0, 1):
        service.run(number)

    assert violations_of(service, records, sent) == []
    service.log.close()
