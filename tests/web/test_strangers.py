"""What strangers get: other machines without a login, clients with a token, pages of other sites.

`tests/api/test_routes.py` walks all routes; here are the holes that it was written for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest

from consumers.web import strongest
from tests.web.served import ask, body, login, serving_of, status_of

READ, WRITE = "r" * 20, "w" * 20
TOKENS = '[serve]\nread_token = "${env:READ}"\nwrite_token = "${env:WRITE}"'
HASH = bcrypt.hashpw(b"correct", b"$2b$04$abcdefghijklmnopqrstuu").decode()
WHY = "/explain?place=orders:0:3"


def bearer(token: str) -> dict[str, str]:
    """The header of a token."""
    return {"authorization": f"Bearer {token}"}


@pytest.fixture(autouse=True)
def tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the environment, where the configuration reads them."""
    monkeypatch.setenv("READ", READ)
    monkeypatch.setenv("WRITE", WRITE)


@pytest.fixture
def exposed(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """A service on all addresses with tokens and without logins."""
    with serving_of("0.0.0.0", TOKENS, tmp_path) as url:
        yield "127.0.0.1", int(url.rpartition(":")[2])


@pytest.fixture
def protected(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """A service on all addresses with tokens and with logins."""
    (tmp_path / "web.yml").write_text(f"basic_auth_users:\n  ann: {HASH}\n")
    with serving_of("0.0.0.0", f'web_config = "web.yml"\n{TOKENS}', tmp_path) as url:
        yield "127.0.0.1", int(url.rpartition(":")[2])


@pytest.mark.parametrize("path", [WHY, "/features"])
def test_words_of_records_need_the_read_token_where_others_reach_the_service(
    exposed: tuple[str, int], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/explain` and `/features` answered everybody, with words of messages."""
    monkeypatch.setattr(strongest, "COPY_SECONDS", 0.01)
    body(exposed, "/status", {})  # a page shows the prediction, so that it can be explained
    stranger = ask(exposed, path)
    writer, reader = (ask(exposed, path, bearer(token)).status for token in (WRITE, READ))

    assert (stranger.status, stranger.getheader("www-authenticate")) == (401, "Bearer")
    assert writer == 401
    assert reader in (200, 503)  # 503: no loop runs here that could answer


def test_explanation_is_refused_in_words_that_the_page_shows(exposed: tuple[str, int]) -> None:
    """One line of text that names the key."""
    told = body(exposed, WHY, {})

    assert "[serve] read_token" in told
    assert "WORDS" not in told
    assert told.count("\n") == 1


def test_predictions_that_need_a_token_are_not_on_the_page_of_strangers(
    exposed: tuple[str, int], tmp_path: Path
) -> None:
    """Without a read token they are shown, as the warning at the start says."""
    behind = body(exposed, "/status", {})
    with serving_of("0.0.0.0", "", tmp_path) as url:
        shown = body(("127.0.0.1", int(url.rpartition(":")[2])), "/status", {})

    assert "order-17" not in behind
    assert "order-17" in shown
    assert '"predictions":' in behind, "how many is no secret"


@pytest.mark.parametrize("path", ["/", "/status", "/events", "/metrics", "/healthz", "/nothing"])
@pytest.mark.parametrize("token", [READ, WRITE])
def test_token_is_no_login(protected: tuple[str, int], path: str, token: str) -> None:
    """The read token opened dead letters, reporters and metrics of a service with logins."""
    by_token = status_of(protected, path, bearer(token))
    by_login = status_of(protected, path, login("ann", "correct"))

    assert by_token == 401
    assert by_login == (404 if path == "/nothing" else 200)


def test_token_opens_the_api_of_a_service_with_logins(protected: tuple[str, int]) -> None:
    """Without a login; its description too."""
    model = status_of(protected, "/v1/model", bearer(READ))
    described = [status_of(protected, "/openapi.json", bearer(each)) for each in (READ, WRITE)]

    assert model == 503  # no model here
    assert described == [200, 200]


FOREIGN = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:1"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=lambda h: ",".join(h.values()))
@pytest.mark.parametrize("path", ["/events", "/status", "/metrics", "/explain", "/v1/model"])
def test_page_of_another_site_gets_no_answer(
    path: str, headers: dict[str, str], tmp_path: Path
) -> None:
    """It cannot read one, but 128 streams of such a page kept the operator's own page out."""
    with serving_of("127.0.0.1", "", tmp_path) as url:
        address = "127.0.0.1", int(url.rpartition(":")[2])
        foreign = status_of(address, path, headers)
        own = status_of(address, path, {"origin": url})

    assert foreign == 403
    assert own != 403


def test_link_from_another_site_is_followed(tmp_path: Path) -> None:
    """From a dashboard to the page, for example: the browser leaves the other site for it."""
    link = {
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
    }
    with serving_of("127.0.0.1", "", tmp_path) as url:
        address = "127.0.0.1", int(url.rpartition(":")[2])
        opened = [status_of(address, path, link) for path in ("/", "/status", "/metrics")]
        sent = status_of(address, "/v1/predict", link, "POST")

    assert opened == [200, 200, 200]
    assert sent == 403
