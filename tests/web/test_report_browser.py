"""The report of a replay in a real browser: light, dark, on a phone, to a screen reader."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from consumers.cli import main
from tests.consumers.feeds import phishing
from tests.consumers.report.test_report import CONFIG
from tests.web.browser import DESKTOP, PHONE, chromium, opened

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests of this file."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report that compares two models."""
    directory = tmp_path_factory.mktemp("report")
    rows = (json.dumps({"id": str(i), **x, "y": y}) for i, (x, y) in enumerate(phishing(200)))
    (directory / "pages.jsonl").write_text("\n".join(rows))
    for name, model in (("naive", "GaussianNB"), ("bins", "CategoricalNB")):
        (directory / f"{name}.toml").write_text(CONFIG.format(model=model))
    paths = [str(directory / name) for name in ("naive.toml", "bins.toml", "pages.jsonl")]
    to = directory / "report.html"
    assert main(["replay", "--compare", *paths, "--label", "y", "--report", str(to)]) == 0
    return Path(to).as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_report_has_no_serious_barrier_and_fits(
    browser: Browser, report: str, device: dict, scheme: str
) -> None:
    """By axe-core: contrast, names, order; nothing asks for anything, nothing sticks out."""
    with opened(browser, report, **device, color_scheme=scheme) as page:
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        ink = page.evaluate("getComputedStyle(document.querySelector('svg text')).fill")
        found = Axe().run(page).response["violations"]

    assert wide <= 0
    assert ink == ("rgb(28, 28, 30)" if scheme == "light" else "rgb(236, 236, 240)")
    assert [(v["id"], v["impact"]) for v in found if v["impact"] in ("serious", "critical")] == []
