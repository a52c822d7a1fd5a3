"""A real browser: the Chromium of the system, without a window, driven by Playwright.

Rule: whatever a page says on its console, throws, or asks of anybody but the service fails the test
that opened it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.suite.needs import CHROMIUM

__all__ = ["DESKTOP", "PHONE", "chromium", "opened"]

FLAGS = """
--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --disable-dev-shm-usage
""".split()  # noqa: SIM905
DESKTOP = {"viewport": {"width": 1280, "height": 900}}
PHONE = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "is_mobile": True,
    "has_touch": True,
}


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, with a fresh profile. Without a browser the test is skipped."""
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        pytest.skip("no Chromium: apt-get install chromium (as root tests/run does it)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, url: str, *, quiet: bool = True, **options: Any) -> Iterator[Page]:
    """A page at the address.

    Parameters
    ----------
    quiet
        Whether the console must stay empty.
    options
        Of the browser's context: viewport, colour scheme …
    """
    said: list[str] = []
    host = urlsplit(url).netloc
    context = browser.new_context(**{**DESKTOP, **options})
    page = context.new_page()
    page.set_default_timeout(15_000)
    page.on("pageerror", lambda error: said.append(f"threw {error}"))
    page.on("dialog", lambda dialog: (said.append(f"asked {dialog.message}"), dialog.dismiss()))
    if quiet:
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on(
        "request",
        lambda asked: urlsplit(asked.url).netloc == host or said.append(f"asked {asked.url}"),
    )
    page.goto(url)
    yield page
    context.close()
    assert not said, said
