"""Draws the pictures of docs/page.md: a real, paced demo in a real browser.

Run it with the test extra installed and Chromium there: `python docs/make_page_images.py`; takes
half a minute.
"""

from __future__ import annotations

import io
import socket
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect

sys.path.insert(0, str(Path(__file__).parents[1]))

from consumers.commands.demo import SECONDS, perform, prepare
from consumers.config import load
from consumers.demo.data import bundled
from tests.web.browser import PHONE, chromium, opened

FEED = "segments"  # seven classes and a curve that rises: the most to see
SHARE, LAST = 0.55, 0.9  # of the feed that is done in the pictures, at least and at most
IMAGES = Path(__file__).parent / "images"
SMALL = {**PHONE, "viewport": {"width": 390, "height": 1240}}
LARGE = {"viewport": {"width": 1280, "height": 1500}}
MORE = """
[drift]
detectors = [{on = "error", type = "ADWIN"}, {on = "score", type = "ADWIN"}]
[[challenger]]
name = "full"
type = "GaussianBayes"
[[challenger]]
name = "neighbours"
type = "KNNClassifier"
"""
COLOURS = 256  # of a picture: no eye misses the others, and it is half the size


def main() -> None:
    """Run the demo, and take the pictures when most of it is done."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    late, taken = threading.Event(), threading.Event()
    with tempfile.TemporaryDirectory() as directory:
        plan = prepare(bundled(FEED), FEED, 50, Path(directory, "demo"), port)
        plan.path.write_text(plan.path.read_text() + MORE)
        plan = replace(plan, config=load(plan.path).model_copy(update={"http": plan.config.http}))
        camera = threading.Thread(target=photograph, args=(port, late, taken))

        def tell(picture) -> None:
            if camera.ident is None:
                camera.start()
            if picture.observations >= SHARE * picture.total:
                late.set()
            if picture.observations >= LAST * picture.total:
                taken.wait(60)  # a slow camera takes no picture of an end

        perform(plan, seconds=SECONDS, live=False, tell=tell)
        camera.join()


def photograph(port: int, late: threading.Event, taken: threading.Event) -> None:
    """Open the pages early, so that throughput has a past; take them late."""
    url = f"http://127.0.0.1:{port}/"
    with (
        chromium() as browser,
        opened(browser, url, **LARGE) as light,
        opened(browser, url, **LARGE, color_scheme="dark") as dark,
        opened(browser, url, **SMALL) as phone,
    ):
        late.wait(60)
        light.get_by_role("button", name="Why").first.click()
        expect(light.locator("#why h3")).to_contain_text("rather than")
        take(light, "page-why", "#why")
        light.locator("#why button").click()
        light.evaluate("scrollTo(0, 0)")
        for page, name in ((light, "page"), (dark, "page-dark"), (phone, "page-phone")):
            take(page, name)
        taken.set()


def take(page: Page, name: str, part: str = "") -> None:
    """Write the picture of the present page, or of a part of it."""
    taken = page.locator(part).screenshot() if part else page.screenshot()
    picture = Image.open(io.BytesIO(taken)).convert("RGB")
    few = picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
