"""TLS and passwords on a real broker: what is right works, what is wrong is one line; no leaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition

from consumers.base.records import Outgoing, Partition
from consumers.transports.kafka.log import KafkaLog
from tests.acceptance.service import HEADWATER
from tests.kafka.broker import BrokerUnavailableError
from tests.kafka.secured import PASSWORD, USER, Secured, secured_broker
from tests.waiting import PATIENCE

pytestmark = pytest.mark.kafka

CANARY = "canary-5b1f-never-shown"

CONFIG = """
name = "{name}"
[input]
transport = "kafka://{server}"
observations = "{name}-in"
label = "y"
[features]
x = "numeric"
[model]
type = "GaussianNB"
[http]
enabled = false
[telemetry]
level = "debug"
[kafka]
{kafka}
"""

SCRAM = """
security_protocol = "SASL_SSL"
ssl_cafile = "{authority}"
sasl_mechanism = "SCRAM-SHA-512"
sasl_plain_username = "ann"
sasl_plain_password = "${{env:HEADWATER_TEST_PASSWORD}}"
"""
TLS = """
security_protocol = "SSL"
ssl_cafile = "{authority}"
"""


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    command: str
    code: int
    said: str


def run(arguments: Sequence[str | Path], directory: Path, **environment: str) -> Ended:
    """Run `headwater …`; one that never ends is a failure."""
    done = subprocess.run(
        [HEADWATER, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    return Ended(str(arguments[0]), done.returncode, done.stdout + done.stderr)


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    """The broker; where somebody else's is used for the other tests, this one may be missing."""
    try:
        with secured_broker() as broker:
            yield broker
            return
    except BrokerUnavailableError as error:
        lacking = str(error)
    if os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        pytest.skip(lacking)
    pytest.fail(lacking, pytrace=False)


def write(directory: Path, name: str, secured: Secured, listener: str, kafka: str) -> Path:
    """A configuration for one of the listeners."""
    path = directory / f"{name}.toml"
    options = kafka.format(authority=secured.authority, stranger=secured.stranger)
    server = getattr(secured, listener)
    path.write_text(CONFIG.format(name=name, server=server, kafka=options))
    return path


def test_service_predicts_over_tls_with_a_password(secured: Secured, tmp_path: Path) -> None:
    """produce, check, run: the predictions are there, by a reader of another listener."""
    config = write(tmp_path, "right", secured, "scram", SCRAM)
    rows = "".join(f'{{"x": {n}, "y": {n % 2}}}\n' for n in range(20))
    (tmp_path / "rows.jsonl").write_text(rows)
    commands: list[list[str | Path]] = [
        ["produce", "right-in", "rows.jsonl", "--create", "--config", config],
        ["check", config, "--create"],
        ["run", config, "--drain"],
    ]
    ended = [run(words, tmp_path, HEADWATER_TEST_PASSWORD=PASSWORD) for words in commands]
    partition = TopicPartition("right-predictions", 0)
    reader = KafkaConsumer(
        bootstrap_servers=secured.plaintext, isolation_level="read_committed", group_id=None
    )
    reader.assign([partition])
    reader.seek_to_beginning(partition)
    found: list[int] = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < 20 and time.monotonic() < deadline:
        for records in reader.poll(timeout_ms=500).values():
            found += [json.loads(record.value)["position"]["offset"] for record in records]
    reader.close()

    assert [end.code for end in ended] == [0, 0, 0], ended
    assert found == list(range(20))
    assert not any(PASSWORD in end.said for end in ended)


def test_tls_without_a_password_and_a_password_without_tls_work_too(secured: Secured) -> None:
    """The latter only on purpose."""
    login = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_plain_username": USER}
    login["sasl_plain_password"] = PASSWORD
    clear = {"security_protocol": "SASL_PLAINTEXT", "insecure": True, **login}
    tls = {"security_protocol": "SSL", "ssl_cafile": str(secured.authority)}
    for server, options in ((secured.tls, tls), (secured.clear, clear)):
        topic = f"both-{server.rpartition(':')[2]}"
        with closing(KafkaLog([server], options)) as log:
            log.create_topic(topic, 1)
            log.append([Outgoing(topic, b"1", b"{}")])

            assert log.end_offsets([Partition(topic, 0)]) == {(topic, 0): 1}


WRONG = {
    "password": ("scram", SCRAM, "refused the credentials"),
    "authority": ("tls", TLS.replace("authority", "stranger"), "certificate verify failed"),
    "host name": ("misnamed", TLS, "IP address mismatch, certificate is not valid for"),
    "no TLS": ("tls", "", "at once: it may need TLS; set security_protocol"),
    "no login": ("scram", TLS, "at the first request: it may need a login"),
    "TLS to none": ("plaintext", TLS, "it may not speak TLS at this port"),
    "login to none": ("tls", SCRAM, "expected a login (SASL) with Kafka at"),
}


def test_whatever_is_wrong_ends_with_one_line_and_no_traceback(
    secured: Secured, tmp_path: Path
) -> None:
    """Each wrong side of a connection by what is wrong about it, exit code 1.

    How soon a client gives up is a default that `tests/transports/test_kafka_options.py` has.
    """
    program = (
        "import sys, tomllib; from pathlib import Path; from consumers.config import load\n"
        "from consumers.transports import open_log\n"
        "config = load(Path(sys.argv[1]))\n"
        "try: open_log(config.input.transport, kafka=config.kafka).topics()\n"
        "except Exception as error: print(error.exit_code, error)\n"
    )

    def ask(what: str) -> list[str]:
        listener, kafka, _ = WRONG[what]
        path = write(tmp_path, what.replace(" ", "-"), secured, listener, kafka)
        done = subprocess.run(
            [sys.executable, "-c", program, path],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
            env={**os.environ, "HEADWATER_TEST_PASSWORD": CANARY},
        )
        assert done.stderr == ""
        return done.stdout.splitlines()

    with ThreadPoolExecutor(len(WRONG)) as pool:
        told = dict(zip(WRONG, pool.map(ask, WRONG), strict=True))

    for what, (_, _, expected) in WRONG.items():
        (line,) = told[what]
        assert line.startswith("1 "), (what, line)
        assert expected in line, (what, line)
        assert CANARY not in line


def test_password_is_never_shown_however_much_is_told(secured: Secured, tmp_path: Path) -> None:
    """At level debug, with tracebacks, by every command, where the broker refuses it."""
    config = write(tmp_path, "refused", secured, "scram", SCRAM)
    (tmp_path / "rows.jsonl").write_text('{"x": 1}\n')
    commands: list[list[str | Path]] = [
        ["check", config],
        ["run", config],
        ["produce", "refused-in", "rows.jsonl", "--config", config],
        ["tail", "refused-in", "--config", config],
        ["init", "refused-in", "--transport", f"kafka://{USER}:{CANARY}@{secured.scram}"],
    ]
    environment = {"HEADWATER_TEST_PASSWORD": CANARY, "HEADWATER_DEBUG": "1"}
    with ThreadPoolExecutor(3) as pool:
        ended = list(pool.map(lambda words: run(words, tmp_path, **environment), commands))

    assert [(end.command, end.code) for end in ended] == [
        ("check", 2),
        ("run", 1),
        ("produce", 1),
        ("tail", 1),
        ("init", 2),
    ], ended
    for end in ended:
        assert "Traceback" in end.said, "it was asked for"
        assert CANARY not in end.said, end.command
    assert all("refused the credentials" in end.said for end in ended[:-1])
