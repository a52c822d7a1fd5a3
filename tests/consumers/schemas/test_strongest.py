"""The strongest features of a spam filter whose records have schemas of a registry."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import httpx
import pytest

from consumers.cli import main
from consumers.commands.run import served
from consumers.service.runner import Runner
from tests.consumers.schemas.registered import FORMATS, Registered
from tests.waiting import PATIENCE, until

SERVED = "[http]\nport = 0"


class Spam(Registered):
    """A service with `type = "spam"`."""

    def text(self, more: str = "") -> str:
        return super().text(more).replace('"MixedNB"', '"spam"')


@pytest.mark.parametrize("name", FORMATS)
def test_page_names_the_features_of_records_with_schemas(tmp_path: Path, name: str) -> None:
    """`GET /features` decodes by the schemas that the shard has journaled."""
    shop = Spam(tmp_path, name, SERVED)
    shop.feed(30)
    stop = threading.Event()
    runner = Runner(shop.config, shop.log, stop)
    thread = threading.Thread(target=runner.run)
    with served(shop.config, runner) as url:
        thread.start()
        try:
            until(lambda: (c := runner.status_feed.copies.newest) is not None and c.learned == 30)
            with httpx.Client(base_url=url, timeout=PATIENCE) as client:
                client.get("/status")  # a page asks for it first
                found = client.get("/features").json()
        finally:
            stop.set()
            thread.join(PATIENCE)

    assert found["messages"] == 20
    both = {*dict(found["towards"]), *dict(found["opposed"])}
    assert {"shop.city: Bonn", "shop.city: Rom"} <= both


@pytest.mark.parametrize("name", FORMATS)
def test_tokens_are_named_by_records_with_schemas(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`headwater tokens`, without the registry."""
    url = f"sqlite:{tmp_path / 'log.db'}"
    shop = Spam(tmp_path, name, url=url)
    shop.feed(30)
    shop.run()
    config = tmp_path / "shop.toml"
    config.write_text(shop.text())
    shop.log.close()

    assert main(["tokens", str(config), "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    named = {(each["field"], each["name"]) for side in ("for", "opposed") for each in found[side]}
    assert found["observations"] == 30
    assert {("shop.city", "Bonn"), ("shop.city", "Rom")} <= named
