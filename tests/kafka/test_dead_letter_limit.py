"""A dead letter is larger than the record it is of; its topic may not take it whole."""

from __future__ import annotations

import threading
import uuid

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from consumers.base.records import Outgoing, Partition
from consumers.config import parse
from consumers.service.runner import CUT_BYTES, Runner
from consumers.transports import open_log
from tests.kafka.settled import settled_ends

pytestmark = pytest.mark.kafka


def test_record_near_the_limit_of_the_topics_does_not_stop_the_service(kafka_bootstrap, tmp_path):
    """Topics of a broker's default limit: the dead letter is cut and says so, all goes on."""
    name = f"limit-{uuid.uuid4().hex[:8]}"
    config = parse(
        f"""
        name = "{name}"
        [input]
        transport = "kafka://{kafka_bootstrap}"
        observations = "{name}"
        [features]
        x = "numeric"
        [model]
        type = "GaussianNB"
        [http]
        enabled = false
        """,
        directory=tmp_path,
    )
    admin = KafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    admin.create_topics([NewTopic(topic, 1, 1) for topic in config.topics.values()])
    admin.close()
    log = open_log(config.input.transport)
    bad = b"{" + b"x" * 1_048_400
    log.append([Outgoing(name, b"1", b'{"x": 1}'), Outgoing(name, b"2", bad)])
    log.append([Outgoing(name, b"3", b'{"x": 2}')])
    view = Runner(config, log, threading.Event(), drain=True).run()
    letters = Partition(config.dead_letters_topic, 0)
    (found,) = [
        record
        for fetched in log.read({letters: 0}, settled_ends(log, kafka_bootstrap, letters))
        for record in fetched.values
    ]
    log.close()

    assert view is not None
    assert (view.predictions, dict(view.dead_letters)) == (2, {"unparsable": 1})
    assert found == bad[:CUT_BYTES]
