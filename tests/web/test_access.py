"""TLS, passwords and limits of the HTTP server, by Prometheus' web-config file."""

from __future__ import annotations

import base64
import http.client
import logging
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import bcrypt
import pytest
import trustme
from prometheus_client.registry import CollectorRegistry

from consumers.base.errors import ConfigError
from consumers.base.health import Health
from consumers.web import access, limits
from consumers.web.access import Access
from consumers.web.app import Server, application
from consumers.web.web_config import WebConfig, load_web_config
from tests.waiting import PATIENCE
from tests.web.served import ask, body, login, serving_of

PASSWORD = "correct horse:battery"  # a colon is a part of it
HASH = bcrypt.hashpw(PASSWORD.encode(), b"$2b$04$abcdefghijklmnopqrstuu").decode()
PAGES = ["/", "/metrics", "/healthz", "/readyz", "/nothing"]


@contextmanager
def serving(config: WebConfig | None) -> Iterator[tuple[str, int]]:
    """A server, live."""
    app = application(CollectorRegistry(), lambda: Health("live"), access=Access(web=config))
    server = Server(app, "127.0.0.1", 0)
    yield server.start()
    server.stop()


def write(directory: Path, text: str) -> Path:
    """A web-config file."""
    path = directory / "web.yml"
    path.write_text(text)
    return path


def problem(directory: Path, text: str) -> str:
    """What is said of a web-config file, without its path."""
    path = write(directory, text)
    with pytest.raises(ConfigError) as caught:
        load_web_config(path)
    return str(caught.value).replace(f"{path}: ", "")


@pytest.fixture(scope="module")
def protected() -> Iterator[tuple[str, int]]:
    """A server that asks for a password."""
    with serving(WebConfig(None, {"ann": HASH})) as address:
        yield address


@pytest.mark.parametrize("path", PAGES)
def test_every_page_asks_for_the_password(protected: tuple[str, int], path: str) -> None:
    """As every exporter does: /healthz is no exception, an unknown page tells nothing."""
    refused = ask(protected, path)
    taken = ask(protected, path, login("ann", PASSWORD))

    assert refused.status == 401
    assert refused.getheader("www-authenticate") == 'Basic realm="headwater", charset="UTF-8"'
    assert taken.status == (404 if path == "/nothing" else 200)


@pytest.mark.parametrize(
    "headers",
    [
        login("ann", "wrong"),
        login("ann", ""),
        login("bob", PASSWORD),
        login("", PASSWORD),
        login("ann", PASSWORD + "\0"),
        login("ann", "x" * 73),
        {"authorization": f"Basic {base64.b64encode(b'ann').decode()}"},
        {"authorization": "Basic not/base64!"},
        {"authorization": "Basic "},
        {"authorization": login("ann", PASSWORD)["authorization"].replace("Basic", "Bearer")},
        {"authorization": HASH},
    ],
)
def test_any_other_login_is_refused(protected: tuple[str, int], headers: dict[str, str]) -> None:
    """Wrong, unknown, too long for bcrypt, or no login at all."""
    assert ask(protected, headers=headers).status == 401
    assert ask(protected, headers=headers).status == 401, "also when it is remembered"


def test_a_login_is_hashed_once_and_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scrape must not cost a bcrypt hash, and wrong passwords must not fill the memory."""
    checked = []
    check = bcrypt.checkpw
    monkeypatch.setattr(
        bcrypt, "checkpw", lambda given, hashed: checked.append(given) or check(given, hashed)
    )
    monkeypatch.setattr(access, "REMEMBERED", 3)
    with serving(WebConfig(None, {"ann": HASH})) as address:
        right = [ask(address, headers=login("ann", PASSWORD)).status for _ in range(3)]
        once = len(checked)
        wrong = [ask(address, headers=login("ann", str(n))).status for n in range(4)]
        again = ask(address, headers=login("ann", PASSWORD)).status
        forgotten = ask(address, headers=login("ann", "0")).status

    assert (right, once) == ([200] * 3, 1)
    assert wrong == [401] * 4
    assert (again, checked.count(PASSWORD.encode())) == (200, 1), "guesses do not displace it"
    assert (forgotten, checked.count(b"0")) == (401, 2)


def test_who_was_let_in_does_not_wait_for_those_who_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else strangers could make every probe of `/healthz` late, and have the service killed."""
    guessed, answered, check = threading.Event(), threading.Event(), bcrypt.checkpw

    def held(given: bytes, hashed: bytes) -> bool:
        if given == b"guess":
            guessed.set()
            answered.wait(PATIENCE)
        return check(given, hashed)

    monkeypatch.setattr(bcrypt, "checkpw", held)
    with serving(WebConfig(None, {"ann": HASH})) as address, ThreadPoolExecutor() as others:
        first = ask(address, headers=login("ann", PASSWORD)).status
        guess = others.submit(ask, address, headers=login("ann", "guess"))
        assert guessed.wait(PATIENCE)
        again = ask(address, headers=login("ann", PASSWORD)).status
        waits = not guess.done()
        answered.set()
        refused = guess.result(PATIENCE).status

    assert (first, again, refused) == (200, 200, 401)
    assert waits, "the guess was not yet judged"


def test_unknown_name_takes_a_hash_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the time of an answer would tell who is a user."""
    checked = []
    monkeypatch.setattr(bcrypt, "checkpw", lambda given, hashed: checked.append(hashed) or True)
    with serving(WebConfig(None, {"ann": HASH})) as address:
        status = ask(address, headers=login("nobody", "x")).status

    assert (status, checked) == (401, [HASH.encode()])


def test_only_reading_is_possible_with_the_password_too(protected: tuple[str, int]) -> None:
    """GET and HEAD."""
    found = {
        method: ask(protected, "/metrics", login("ann", PASSWORD), method=method).status
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE")
    }

    assert found.pop("GET") == found.pop("HEAD") == 200
    assert set(found.values()) == {405}


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Who certifies the server and its clients."""
    return trustme.CA()


def files(authority: trustme.CA, directory: Path) -> None:
    """Certificate, key and authority beside the web-config file."""
    leaf = authority.issue_cert("127.0.0.1")
    leaf.private_key_pem.write_to_path(directory / "key.pem")
    leaf.cert_chain_pems[0].write_to_path(directory / "cert.pem")
    authority.cert_pem.write_to_path(directory / "ca.pem")


TLS = "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n"


def test_tls_and_password_come_from_the_file(authority: trustme.CA, tmp_path: Path) -> None:
    """Its paths are relative to it; the client verifies; without TLS there is no answer."""
    files(authority, tmp_path)
    config = load_web_config(write(tmp_path, f"{TLS}basic_auth_users:\n  ann: {HASH}\n"))
    trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    old = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with serving(config) as address:
        refused = ask(address, tls=trusting).status
        taken = ask(address, headers=login("ann", PASSWORD), tls=trusting).status
        by_1_2 = ask(address, headers=login("ann", PASSWORD), tls=old).status
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(address, tls=ssl.create_default_context())
        with pytest.raises((http.client.HTTPException, OSError)):
            ask(address)

    assert (refused, taken, by_1_2) == (401, 200, 200)


def test_min_version_and_client_certificates_are_held_to(
    authority: trustme.CA, tmp_path: Path
) -> None:
    """A client of TLS 1.2, and one without a certificate, get no answer."""
    files(authority, tmp_path)
    more = "  min_version: TLS13\n  client_ca_file: ca.pem\n"
    more += "  client_auth_type: RequireAndVerifyClientCert\n"
    config = load_web_config(write(tmp_path, TLS + more))
    known, stranger, old = (
        ssl.create_default_context(cafile=str(tmp_path / "ca.pem")) for _ in range(3)
    )
    authority.issue_cert("scraper@example.org").configure_cert(known)
    authority.issue_cert("scraper@example.org").configure_cert(old)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with serving(config) as address:
        taken = ask(address, tls=known).status
        for refused in (stranger, old):
            with pytest.raises((http.client.HTTPException, OSError)):
                ask(address, tls=refused)

    assert taken == 200
    assert config.closed


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tls_config: {}", "tls_config: not supported; remove it"),
        ("", "expected tls_server_config or basic_auth_users, got neither; add one, or remove "),
        ("[1, 2]", "the file: expected "),
        ("{x: [", "expected YAML, got something else (line 1); correct it"),
        (TLS + "  cipher_suites: [x]\n", "tls_server_config.cipher_suites: not supported"),
        ("tls_server_config: {cert_file: c}", "tls_server_config.key_file: required, but missing"),
        (TLS + "  min_version: TLS10\n", "min_version: expected 'TLS12' or 'TLS13', got 'TLS10'"),
        (TLS + "  client_auth_type: RequireAnyClientCert\n", "client_auth_type: expected 'NoClie"),
        (TLS + "  client_ca_file: ca.pem\n", "a client_auth_type other than NoClientCert together"),
        (TLS.replace("cert.pem", "no.pem"), "cannot read cert_file and key_file (No such file"),
        (TLS.replace("key.pem", "ca.pem"), "expected a certificate in PEM, and its key without"),
        ("basic_auth_users: {ann: hunter2}", "basic_auth_users.ann: expected a bcrypt hash ($2y$"),
        ("basic_auth_users: {ann: 2222222}", "basic_auth_users.ann: expected a bcrypt hash ($2y$"),
        ("basic_auth_users: hunter2", "basic_auth_users: expected names without ':', each with a"),
        (f"basic_auth_users: {{'a:n': {HASH}}}", "basic_auth_users: expected names without ':'"),
        (f"basic_auth_users: {{ann: {HASH.replace('$04$', '$31$')}}}", "a bcrypt cost of 4 to 16"),
        ("basic_auth_users: {ann: !!python/object/apply:os.getcwd []}", "expected YAML, got"),
    ],
)
def test_wrong_file_is_one_line_without_what_may_be_a_password(
    authority: trustme.CA, tmp_path: Path, text: str, told: str
) -> None:
    """What cannot be kept is refused, never ignored."""
    files(authority, tmp_path)
    message = problem(tmp_path, text)

    assert told in message
    assert "\n" not in message
    for hidden in ("hunter2", "2222222", HASH[-20:]):
        assert hidden not in message


OPEN = "EVERY CLIENT THAT REACHES 0.0.0.0:"


@pytest.mark.parametrize(
    ("host", "more", "warned"),
    [
        ("127.0.0.1", "", False),
        ("localhost", "", False),
        ("0.0.0.0", "", True),
        ("0.0.0.0", 'web_config = "web.yml"', False),
    ],
)
def test_open_port_without_a_password_is_one_loud_line(
    host: str, more: str, warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At each start, where others may reach it: the line names all that they can read."""
    write(tmp_path, f"basic_auth_users:\n  ann: {HASH}\n")
    with caplog.at_level(logging.WARNING), serving_of(host, more, tmp_path) as url:
        assert url.startswith("http://")
    lines = [record.getMessage() for record in caplog.records]

    assert [line.startswith(OPEN) for line in lines] == [True] * warned
    assert all("METRICS, AND THE IDS, LABELS AND PREDICTIONS ON ITS PAGE" in line for line in lines)


@pytest.mark.parametrize(
    ("host", "more", "shown"),
    [
        ("127.0.0.1", "", True),
        ("0.0.0.0", "", False),
        ("0.0.0.0", 'web_config = "web.yml"', True),
    ],
)
def test_bytes_of_dead_letters_are_behind_a_password_beyond_loopback(
    host: str, more: str, shown: bool, tmp_path: Path
) -> None:
    """They are whatever a sender sent; strangers see where and why only."""
    write(tmp_path, f"basic_auth_users:\n  ann: {HASH}\n")
    with serving_of(host, more, tmp_path) as url:
        port = int(url.rpartition(":")[2])
        text = body(("127.0.0.1", port), "/status", login("ann", PASSWORD))
        stream = socket.create_connection(("127.0.0.1", port), 10)
        with stream:
            head = "".join(f"{name}: {value}\r\n" for name, value in login("ann", PASSWORD).items())
            stream.sendall(f"GET /events HTTP/1.1\r\nhost: localhost\r\n{head}\r\n".encode())
            told = b""
            while b"orders:0:7" not in told and (more := stream.recv(4096)):
                told += more

    assert ("SECRET" in text, b"SECRET" in told) == (shown, shown)
    assert "orders:0:7" in text
    assert "unparsable" in text


FOREIGN = [
    *("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example"),
    *("::1%evil.example", "fe80::1%evil.example", "[::1%25evil.example]:80"),
]
OURS = ["127.0.0.1", "localhost:8321", "LOCALHOST", "[::1]:8321", "10.0.0.7:8321", "x.localhost"]


@pytest.mark.parametrize("path", [*PAGES, "/status", "/events"])
def test_foreign_host_is_refused_on_every_page(path: str) -> None:
    """DNS rebinding: a site of the same name could read ids and records by its reader's browser."""
    with serving(None) as address:
        found = {name: ask(address, path, {"host": name}).status for name in FOREIGN}

    assert found == dict.fromkeys(FOREIGN, 421)


def test_addresses_names_of_loopback_and_allowed_names_are_hosts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A name that is missing stands in the log with the key that allows it."""
    more = 'allowed_hosts = ["headwater", "Metrics.example.org"]'
    names = [*OURS, "headwater:8321", "metrics.example.org."]
    with serving_of("0.0.0.0", more, tmp_path) as url:
        address = "127.0.0.1", int(url.rpartition(":")[2])
        found = {name: ask(address, headers={"host": name}).status for name in names}
        other = ask(address, headers={"host": "prometheus"}).status

    assert found == dict.fromkeys(names, 200)
    assert other == 421
    assert "got 'prometheus'" in caplog.text
    assert "[http] allowed_hosts" in caplog.text


def test_password_or_tls_takes_any_host(protected: tuple[str, int]) -> None:
    """A foreign page has no password of ours, and no certificate for its name."""
    assert ask(protected, headers={"host": "evil.example"}).status == 401
    assert ask(protected, headers={"host": "x.org", **login("ann", PASSWORD)}).status == 200


def test_refusals_are_counted_by_reason() -> None:
    """Wrong passwords, foreign hosts and pages of other sites."""
    counted: Counter[str] = Counter()
    bad, foreign = login("ann", "wrong"), {"host": "evil.example"}
    other = {"origin": "https://evil.example"}
    for web, asked in ((WebConfig(None, {"ann": HASH}), [bad, bad, {}]), (None, [foreign, other])):
        app = application(CollectorRegistry(), lambda: Health("live"), access=Access(web=web))
        server = Server(app, "127.0.0.1", 0)
        address = server.start()
        for headers in asked:
            ask(address, headers=headers)
        server.stop()
        counted += app.state.page.refused

    assert counted == {"password": 3, "host": 1, "origin": 1}


def closed(held: socket.socket) -> bool:
    """Whether the other side ends the connection."""
    held.settimeout(PATIENCE)
    try:
        while held.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


@pytest.mark.parametrize(
    "sent",
    [
        [b""],
        [b"GET /healthz HT"],
        [b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n", b"GET /heal"],
        [b"GET /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nab"],
    ],
)
def test_request_that_does_not_end_is_not_waited_for(
    sent: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its head, a second one or a body is what stays away."""
    monkeypatch.setattr(limits, "REQUEST_SECONDS", 0.2)
    with serving(None) as address, socket.create_connection(address, PATIENCE) as held:
        for part in sent[:-1]:
            held.sendall(part)
            assert held.recv(4096).startswith(b"HTTP/1.1 200 ")
        held.sendall(sent[-1])

        assert closed(held)
        assert ask(address).status == 200
