"""The strongest features of a spam filter on the page: those of the model, and only text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from consumers.web import strongest
from stream import SpamScorer
from tests.waiting import PATIENCE
from tests.web.browser import chromium, opened
from tests.web.living import Living, living

pytestmark = pytest.mark.browser

expect.set_options(timeout=1000 * PATIENCE)
EVIL = "<script>window.hit=1</script>"
MARKUP = "<img src=x onerror=window.hit=1>"
BUDGET = '[decision]\nmax_false_positive_rate = {label = "junk", rate = 0.2, unsure = 0.5}'
TEXT = 'text = "text"'


def mixed(n: int) -> list[tuple[str, str]]:
    """Junk that looks like markup, and good messages."""
    pair = [(f"free prize {EVIL} {MARKUP}", "junk"), ("lunch at noon", "good")]
    return [pair[i % 2] for i in range(n)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    """A filter that has learned 60 messages."""
    directory = tmp_path_factory.mktemp("strongest")
    with (
        pytest.MonkeyPatch.context() as patched,
        living(directory, model="spam", features=TEXT, more=BUDGET) as running,
    ):
        for pause in (
            "EVERY_SECONDS",
            "SOON_SECONDS",
            "OLDEST_SECONDS",
        ):  # each request is computed
            patched.setattr(strongest, pause, 0.0)
        running.tell(mixed(60))
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests of this file."""
    with chromium() as found:
        yield found


def test_features_are_those_of_the_model(service: Living) -> None:
    """The names of shown messages, with their log-odds."""
    assert service.json("/status")["shard"]["names_features"]
    found = service.json("/features")
    model = SpamScorer()
    for text, label in mixed(60):
        model.predict_one({"text": text})
        model.learn_one({"text": text}, label)

    named = {f"text: {f.written}": f.id for f in model.features_of({"text": mixed(1)[0][0]})}
    assert (found["label"], found["against"], found["learned"]) == ("junk", "good", 60)
    assert found["messages"] == 20
    odds = dict(found["towards"])
    assert {"text: free", "text: prize", "text: onerror"} < odds.keys()
    [known] = model.evidence_of([named["text: onerror"]], "junk", "good")
    assert odds["text: onerror"] > 0
    assert known.log_odds > 0
    assert "text: lunch" in dict(found["opposed"])


def test_hostile_tokens_stay_text_on_the_page(browser: Browser, service: Living) -> None:
    """In the list of features, and in the explanation of a message."""
    with opened(browser, service.url) as page:
        expect(page.locator("#features")).to_contain_text("text: onerror")
        expect(page.locator("#features")).to_contain_text("text: </")
        verdicts = page.locator("#decisions").inner_text()
        page.get_by_role("button", name="Why junk").first.click()
        expect(page.locator("#why h3")).to_contain_text("rather than")
        why = page.locator("#why").inner_text()
        assert page.evaluate("window.hit") is None
        assert page.locator("#features img, #why img, #latest img").count() == 0
        assert page.locator("script").count() == 2, "those of the page and its charts"

    assert "text: onerror" in why
    for word in ("flagged as junk", "unsure", "others"):
        assert word in verdicts


def test_lists_are_computed_rarely(service: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a page asks."""
    monkeypatch.setattr(strongest, "EVERY_SECONDS", 600.0)
    service.json("/status")
    assert service.json("/features")["learned"] > 0
    calls: list[int] = []
    monkeypatch.setattr(strongest, "features_of", lambda *_: calls.append(1))

    assert service.json("/features") == service.json("/features")
    assert calls == []


def test_another_model_has_no_named_features(tmp_path) -> None:
    """The page does not ask for them."""
    with living(tmp_path) as running:
        running.send(20)
        assert not running.json("/status")["shard"]["names_features"]
        with running.asked("/features") as answer:
            assert answer.status == 404
