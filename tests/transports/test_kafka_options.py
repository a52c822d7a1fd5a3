"""What [kafka] may say: refused options, and security that is asked for but not there."""

from __future__ import annotations

import gc
import socket
from pathlib import Path
from typing import Any

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaConfigurationError, KafkaConnectionError, KafkaTimeoutError
from kafka.net import inet
from kafka.net.connection import KafkaConnection
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaTCPTransport
from kafka.producer.record_accumulator import RecordAccumulator

from consumers.base.errors import ConfigError
from consumers.base.secrets import Secret
from consumers.transports.kafka.options import KafkaOptions

SASL = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_plain_username": "ann",
    "sasl_plain_password": Secret("correct horse battery"),
}


def problem(options: dict[str, Any]) -> str:
    """What is said of these options."""
    with pytest.raises(ConfigError) as caught:
        KafkaOptions(["127.0.0.1:1"], options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("client", [KafkaConsumer, KafkaProducer, KafkaAdminClient])
def test_no_option_of_a_client_is_passed_on_unseen(client: Any) -> None:
    """Each is settable, with its kind, or refused by name; what exactly once rests on is fixed."""
    critical = {"acks", "auto_offset_reset", "enable_auto_commit", "enable_idempotence"}
    critical |= {"group_id", "isolation_level", "retries", "transactional_id", "value_serializer"}
    told = {name: problem({name: object()}) for name in client.DEFAULT_CONFIG}

    for name, message in told.items():
        settable = message.startswith(f"[kafka] {name}: expected ")
        refused = " may be set, got " in message or "is written as [input] transport" in message
        fixed = message.startswith(f"[kafka] {name} is fixed")
        assert settable + refused + fixed == 1
        assert fixed or name not in critical


@pytest.mark.parametrize(
    "name",
    [
        "acks",
        "allow_auto_create_topics",
        "auto_offset_reset",
        "consumer_timeout_ms",
        "default_offset_commit_callback",
        "enable_auto_commit",
        "enable_idempotence",
        "group_id",
        "isolation_level",
        "key_deserializer",
        "max_in_flight_requests_per_connection",
        "max_poll_records",
        "partition_assignment_strategy",
        "partitioner",
        "retries",
        "session_timeout_ms",
        "transactional_id",
        "value_serializer",
    ],
)
def test_fixed_option_is_refused_by_its_name(name: str) -> None:
    """One line that says why and what to do."""
    assert problem({name: "x"}) == (
        f"[kafka] {name} is fixed, exactly once depends on it; remove it"
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"security_protocol": "ssl"}, "expected one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security_protocol": "SASL_SSL"}, "sasl_mechanism is missing"),
        ({**SASL, "sasl_mechanism": "OAUTHBEARER"}, "expected one of PLAIN, SCRAM-SHA-256"),
        ({**SASL, "sasl_plain_username": ""}, "SCRAM-SHA-512 needs sasl_plain_username"),
        ({**SASL, "sasl_plain_password": Secret("")}, "SCRAM-SHA-512 needs sasl_plain_password"),
        ({"ssl_cafile": "ca.pem"}, "ssl_cafile is for TLS, but security_protocol is PLAINTEXT"),
        ({**SASL, "security_protocol": "SSL"}, "is for SASL, but security_protocol is SSL"),
        ({**SASL, "security_protocol": "SASL_PLAINTEXT"}, "or insecure = true"),
        ({**SASL, "ssl_check_hostname": False}, "or set insecure = true"),
        ({**SASL, "ssl_check_hostname": False, "insecure": False}, "or set insecure = true"),
        ({**SASL, "insecure": 1}, "insecure: expected true or false, got a int"),
        ({**SASL, "ssl_cafile": "nowhere/ca.pem"}, "ssl_cafile cannot be read (No such file"),
        ({"security_protocol": "SSL", "ssl_keyfile": "k.pem"}, "ssl_certfile is missing"),
        ({"linger_ms": -1}, "linger_ms: expected 0 or more, got -1"),
        ({"request_timeout_ms": 0}, "request_timeout_ms: expected 1 or more, got 0"),
        (
            {"delivery_timeout_ms": 12_000, "transaction_timeout_ms": 12_000},
            "delivery_timeout_ms: expected less than transaction_timeout_ms (12000), got 12000: a",
        ),
        (
            {"delivery_timeout_ms": 60_000},
            "less than transaction_timeout_ms (30000), got 60000 (by default "
            "transaction_timeout_ms 30000)",
        ),
        (
            {"transaction_timeout_ms": 10_000},
            "less than transaction_timeout_ms (10000), got 20000 (by default "
            "delivery_timeout_ms 20000)",
        ),
        (
            {"request_timeout_ms": 40_000},
            "linger_ms + request_timeout_ms: expected at most delivery_timeout_ms (20000), got "
            "40005 (by default linger_ms 5, delivery_timeout_ms 20000)",
        ),
        (
            {"fetch_max_wait_ms": 10_000},
            "less than request_timeout_ms (10000), got 10000 (by default request_timeout_ms",
        ),
        (
            {"connections_max_idle_ms": 5_000},
            "less than connections_max_idle_ms (5000), got 10000 (by default request_timeout_ms",
        ),
    ],
)
def test_insecure_or_incomplete_security_is_refused(options: dict[str, Any], told: str) -> None:
    """One line, without the password."""
    message = problem(options)

    assert told in message
    assert "battery" not in message


TIMEOUTS = ["delivery", "transaction", "request"]
EDGES = [1, 499, 500, 501, 9_995, 10_000, 10_005, 19_995, 20_000, 29_999, 30_000, 540_000, 600_000]
timeouts = st.fixed_dictionaries(
    {},
    optional={f"{name}_timeout_ms": st.sampled_from(EDGES) for name in TIMEOUTS}
    | {"max_block_ms": st.sampled_from(EDGES), "linger_ms": st.sampled_from([0, 1, 5, 10_000])}
    | {name: st.sampled_from(EDGES) for name in ("fetch_max_wait_ms", "connections_max_idle_ms")},
)


@given(timeouts)
def test_timeouts_are_compared_as_they_take_effect(options: dict[str, int]) -> None:
    """Accepted exactly where every client has what exactly once and the client itself ask for."""
    plain = KafkaOptions(["127.0.0.1:1"], {})
    producer = KafkaProducer.DEFAULT_CONFIG | plain.producer("x.0") | options
    consumer = KafkaConsumer.DEFAULT_CONFIG | plain.consumer() | options
    sound = producer["delivery_timeout_ms"] < producer["transaction_timeout_ms"]
    sound &= consumer["fetch_max_wait_ms"] < consumer["request_timeout_ms"]
    sound &= consumer["request_timeout_ms"] < consumer["connections_max_idle_ms"]
    try:  # the client's own check of the three that remain
        RecordAccumulator(
            **{
                name: producer[name]
                for name in RecordAccumulator.DEFAULT_CONFIG
                if name in producer
            }
        )
    except KafkaConfigurationError:
        sound = False

    if not sound:
        assert "expected " in problem(options)
        return
    made = KafkaOptions(["127.0.0.1:1"], options)
    assert options.items() <= (made.producer("x.0") | made.consumer()).items()


@pytest.mark.parametrize(
    "options",
    [
        {**SASL, "security_protocol": "SASL_PLAINTEXT", "insecure": True},
        {**SASL, "ssl_check_hostname": False, "insecure": True},
        SASL,
    ],
)
def test_insecure_is_said_on_purpose_and_kept_from_the_client(options: dict[str, Any]) -> None:
    """A client would refuse the key, and show its values in that."""
    made = KafkaOptions(["127.0.0.1:1"], options)

    for settings in (made.admin(), made.consumer(), made.producer("x.0")):
        assert "insecure" not in settings
        assert settings["sasl_plain_password"] == "correct horse battery"


def test_files_that_hold_no_certificate_are_told_by_their_option(tmp_path: Path) -> None:
    """At the start, not as a handshake that fails for ever."""
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    leaf = trustme.CA().issue_cert("localhost")
    key, chain = tmp_path / "key.pem", tmp_path / "chain.pem"
    leaf.private_key_pem.write_to_path(key)
    leaf.cert_chain_pems[0].write_to_path(chain)
    tls = {"security_protocol": "SSL"}

    assert "ssl_cafile: expected certificates in PEM" in problem({**tls, "ssl_cafile": str(empty)})
    without_key = problem({**tls, "ssl_certfile": str(chain)})
    assert "ssl_certfile: expected a certificate in PEM with its key" in without_key
    KafkaOptions(["a:1"], {**tls, "ssl_certfile": str(chain), "ssl_keyfile": str(key)})


@pytest.mark.parametrize("given_up", [GeneratorExit, KafkaTimeoutError])
def test_socket_of_a_connection_that_is_not_made_is_closed(given_up) -> None:
    """The client leaves it to the collector, whose warning then comes in any other test."""

    made: list[socket.socket] = []

    class Net:
        async def wait_write(self, sock: socket.socket, **_: object) -> None:
            made.append(sock)
            raise given_up

    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        connecting = inet.create_connection(Net(), *server.getsockname())
        with pytest.raises((given_up, KafkaConnectionError)):
            connecting.send(None)

    assert [sock.fileno() for sock in made] == [-1]


def test_socket_of_a_connection_that_still_has_bytes_to_send_is_closed(caplog) -> None:
    """A closed connection sends what it has first, which a closed client no longer lets it do."""
    caplog.set_level("ERROR", "kafka")  # captured lines would keep the connection
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    net = NetworkSelector()
    transport = KafkaTCPTransport(net, ours)
    transport.set_protocol(KafkaConnection(net))
    transport.write(bytes(10_000_000))
    net.poll(timeout_ms=0)
    transport.close()
    net.close()
    left = ours.fileno()
    del transport, net
    gc.collect()

    assert left >= 0  # or the client has learned to close it, and nothing needs to be changed
    assert ours.fileno() == -1
    theirs.close()


def test_client_gives_up_on_a_broker_and_a_group_on_a_member_within_seconds() -> None:
    """A wrong address is reported soon, and a standby takes over soon after its owner died."""
    settings = KafkaOptions(["b:1"], {}).member("g")

    assert settings["bootstrap_timeout_ms"] <= 5_000
    assert settings["session_timeout_ms"] <= 6_000
