"""A journal that a real broker trimmed: a start goes on from a snapshot, or says why it cannot."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from kafka import KafkaAdminClient, TopicPartition

from consumers.base.errors import TransportError
from consumers.config import parse
from consumers.service.recovery import rebuild, sources
from consumers.service.runner import Runner
from consumers.transports import open_log
from tests.consumers.conftest import FEATURES
from tests.consumers.feeds import config_text, feed, phishing
from tests.waiting import until


@pytest.mark.kafka
def test_journal_trimmed_by_the_broker_goes_on_from_a_snapshot(
    kafka_bootstrap: str, tmp_path: Path
) -> None:
    """Up to the oldest snapshot, up to the newest, and all of it: transaction markers lie between
    the entries and count as none. Without the newest snapshot it is an error."""
    name = f"trim-{uuid4().hex[:8]}"
    text = config_text(f"kafka://{kafka_bootstrap}", FEATURES, 50, 10**6)
    for old, new in (
        ('"svc"', f'"{name}"'),
        ('"obs"', f'"{name}-obs"'),
        ('"ans"', f'"{name}-ans"'),
    ):
        text = text.replace(old, new)
    config = parse(text, directory=tmp_path)
    with closing(open_log(config.input.transport)) as log:
        for topic in config.topics.values():
            log.create_topic(topic, 1)
        log.append([r._replace(topic=f"{name}-{r.topic}") for r in feed(phishing(300), 50)])
        stop = threading.Event()
        for subscribers in ([lambda event, view: stop.set()], []):
            Runner(config, log, stop, drain=True, subscribers=subscribers).run()
            stop.clear()
        found = sources(config, log)
        store = Runner(config, log, stop).store
        (part,) = store.parts()
        oldest, newest = (int(path.stem[5:]) for path in part.paths())

        def end() -> int:
            return log.end_offsets([found.journal])[found.journal]

        # The broker acknowledges a commit before its records are visible to readers.
        until(lambda: end() > newest, "the last commit is visible")

        def started():
            return rebuild(config, log, found, store, end=end())

        expected = started().shard.fingerprint()
        with closing(KafkaAdminClient(bootstrap_servers=kafka_bootstrap)) as admin:
            for before in (oldest, newest, -1):  # -1: all there is
                admin.delete_records({TopicPartition(*found.journal): before})
                live = started()
                assert log.beginning_offsets([found.journal])[found.journal] >= before
                assert (live.shard.fingerprint(), live.replayed) == (expected, 0)
        part.paths()[-1].unlink()
        with pytest.raises(TransportError, match="no snapshot reaches the rest"):
            started()
