"""The live page in a real browser: what a person, a phone and a screen reader get of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from prometheus_client.registry import CollectorRegistry

from consumers.base.health import Health
from consumers.web.app import Server, application
from consumers.web.status_feed import AccuracyPoint, SecondOfLoad, StatusFeed
from tests.telemetry.views import quality, view
from tests.waiting import PATIENCE
from tests.web.browser import PHONE, chromium, opened
from tests.web.living import Living, living

pytestmark = pytest.mark.browser

expect.set_options(timeout=1000 * PATIENCE)
EVIL = "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"

SECTIONS = [
    "Accuracy", "Scores", "Confusion", "Classes", "Calibration", "Throughput and lag", "Labels",
    "Label delay", "Decisions", "Champion and challengers", "Drift", "Last predictions",
    "Dead letters", "Fields", "Inputs",
]  # fmt: skip
EVERYTHING = """
[decision]
reject = 0.2
[decision.losses]
left = {left = 0, right = 1}
right = {left = 1, right = 0}
[drift]
warm_up = 50
detectors = [{on = "error", type = "ADWIN"}]
[[challenger]]
name = "joint"
type = "GaussianBayes"
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests of this file."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    """A service that has learned, with everything a record can spoil."""
    with living(tmp_path_factory.mktemp("browser"), more=EVERYTHING) as running:
        running.send(200)
        running.send(100, classes=("right", "left"))  # the world turns: an alarm
        running.spoil(b"{", b'{"id": "x", "a": "two"}')
        yield running


def shown(page: Page, section: str) -> list[list[str]]:
    """The rows of a section's table."""
    rows = page.locator(f"#{section} tbody tr").all()
    return [row.locator("th, td").all_inner_texts() for row in rows]


def tile(page: Page, name: str):
    """The value of one of the tiles."""
    return page.locator("#tiles > div").filter(has_text=name).locator(".value")


def test_page_shows_what_was_committed(browser: Browser, service: Living) -> None:
    """Figures, tables and charts are those of the view that the metrics show too."""
    scores = service.status_feed.view.quality.scores
    with opened(browser, service.url) as page:
        expect(tile(page, "Learned")).to_have_text("300")
        expect(page.locator("#state")).to_have_text("live")
        expect(tile(page, "Accuracy")).to_have_text(f"{100 * scores['last_1000'].accuracy:.1f} %")
        expect(page.locator("#curve .plot")).to_be_visible()
        expect(page.locator("#throughput .plot").first).to_be_visible()
        confusion, classes, dead, drift, challengers = (
            shown(page, s) for s in ("confusion", "classes", "dead", "drift", "challengers")
        )
        rows = {row[0]: row for row in shown(page, "scores")}
        names = page.locator("#confusion thead th").all_inner_texts()[1:]
        title = page.title()
        visible = page.locator(".card:visible h2").all_inner_texts()

    assert title == "svc · headwater"
    counted = service.status_feed.view.quality
    for true, *row in confusion:
        of = counted.confusion[counted.classes.index(true)].tolist()
        assert [int(n) for n in row] == [of[counted.classes.index(name)] for name in names]
    assert sorted(row[0] for row in classes) == ["left", "right"]
    covered = service.status_feed.view.risk.windows["last_1000"].coverage
    assert rows["coverage of decisions"][1] == f"{100 * covered:.1f} %"
    assert rows["risk of decisions"][1] != "–"
    assert [row[1] for row in dead] == ["wrong kind", "unparsable"]
    assert drift[0][1:3] == ["error", "ADWIN"]
    assert [row[0] for row in challengers] == ["svc, GaussianNB (champion)", "joint, GaussianBayes"]
    assert visible == SECTIONS


def test_page_follows_while_records_flow(browser: Browser, tmp_path) -> None:
    """On the embedded log, without a reload: figures, list, curve and state."""
    with living(tmp_path, transport="sqlite") as service, opened(browser, service.url) as page:
        expect(tile(page, "Observations")).to_have_text("0")
        expect(page.locator("#curve")).to_be_hidden()
        service.send(100)
        expect(tile(page, "Observations")).to_have_text("100")
        expect(page.locator("#curve .plot")).to_be_visible()
        expect(page.locator("#latest tbody th").first).to_have_text("r99")
        service.send(5)
        expect(page.locator("#latest tbody th").first).to_have_text("r104")
        expect(tile(page, "Learned")).to_have_text("105")


def test_page_says_when_the_model_is_worse_than_guessing(browser: Browser, tmp_path) -> None:
    """Labels in runs that the fields do not explain: the last label is the better prediction."""
    runs = ("left",) * 300 + ("right",) * 300
    with living(tmp_path, name="runs") as service, opened(browser, service.url) as page:
        service.send(60)
        expect(tile(page, "Learned")).to_have_text("60")
        expect(page.locator("#guessing")).to_be_hidden()
        service.send(1500, classes=runs)
        expect(page.locator("#guessing")).to_contain_text(
            re.compile(r"GaussianNB is worse than guessing: .* \(no-change\) is right in 99\.\d%")
        )
        series = 'headwater_worse_than_guessing{baseline="no_change",model="runs",shard="0"} 1.0'
        with service.asked("/metrics") as answer:
            assert series in answer.read().decode()
        said = service.json("/status")["shard"]["worse_than_guessing"]
        assert said == page.locator("#guessing").inner_text()


def test_page_shows_which_learners_are_believed(browser: Browser, tmp_path) -> None:
    """The weights that the metrics have too, the guesses among them."""
    with (
        living(tmp_path, name="mix", model="auto") as service,
        opened(browser, service.url) as page,
    ):
        service.send(120)
        expect(tile(page, "Learned")).to_have_text("120")
        expect(page.locator("#experts")).to_be_visible()
        rows = {row[0]: row[1] for row in shown(page, "experts")}
        with service.asked("/metrics") as answer:
            metrics = answer.read().decode()

    weights = service.status_feed.view.experts
    assert rows == {name: f"{100 * round(weight, 4):.1f} %" for name, weight in weights.items()}
    for name, weight in weights.items():
        assert f'headwater_expert_weight{{expert="{name}",shard="0"}} {weight!r}' in metrics


def test_what_records_hold_is_shown_as_text(browser: Browser, tmp_path) -> None:
    """A label, an id, a spoilt record and the service's own name may look like markup."""
    classes = (EVIL, "plain")
    with living(tmp_path) as service:
        service.send(60, classes=classes)
        service.spoil(EVIL.encode())
        with opened(browser, service.url) as page:
            expect(tile(page, "Learned")).to_have_text("60")
            texts = [shown(page, s) for s in ("confusion", "classes", "latest", "dead")]
            page.get_by_role("button", name="Why").first.click()
            expect(page.locator("#why h3")).to_contain_text("rather than")
            hit = page.evaluate("window.hit")
            scripts = page.locator("script").count()

    for rows in texts:
        assert EVIL in [cell for row in rows for cell in row]
    assert hit is None
    assert scripts == 2, "those of the page and its charts"


def test_reporters_are_shown_as_text(browser: Browser, tmp_path) -> None:
    """A name may look like markup; who was contradicted often is quarantined."""
    more = '[labels]\nreporter = "reporter"\n[reporters]\nprior_labels = 1'
    with living(tmp_path, more=more) as service:
        service.send(20)
        service.report("left", [EVIL])
        service.report("right", ["ann", "bob", "cy"])
        with opened(browser, service.url) as page:
            expect(page.locator("#reporters h2")).to_be_visible()
            rows = shown(page, "reporters")
            hit = page.evaluate("window.hit")

    assert rows[0][:4] == ["(anonymous)", "20", "3", "1"]
    [evil] = [row for row in rows if row[0] == EVIL]
    assert evil[1:4] == ["1", "0", "3"]
    assert evil[5] == "quarantined"
    assert hit is None


def test_worst_keys_are_shown_as_text(browser: Browser, tmp_path) -> None:
    """A key may look like markup."""
    features, model = 'tenant = "categorical"\na = "numeric"', 'PerKeyNB"\nper = "tenant'
    with living(tmp_path, model=model, features=features) as service:
        service.send_keys(120, ("good", "fine", EVIL))
        with opened(browser, service.url) as page:
            expect(page.locator("#keys h2")).to_be_visible()
            rows = shown(page, "keys")
            hit = page.evaluate("window.hit")

    assert rows[0][:2] == [EVIL, "120"]
    assert hit is None


def test_explanation_is_shown_on_click_and_by_keyboard(browser: Browser, service: Living) -> None:
    """Focus goes to it and back; the list holds still meanwhile."""
    with opened(browser, service.url) as page:
        button = page.get_by_role("button", name="Why").first
        button.focus()
        page.keyboard.press("Enter")
        expect(page.locator("#why h3")).to_contain_text("rather than")
        shares = shown(page, "why")
        focused = page.evaluate("document.activeElement.id")
        page.locator("#why button").click()
        expect(page.locator("#why")).to_be_hidden()
        back = page.evaluate("document.activeElement.getAttribute('aria-label')")

    assert {row[0] for row in shares} == {"(prior)", "a", "b"}
    assert focused == "why"
    assert back == "Last predictions"


@pytest.mark.parametrize(
    "options",
    [{}, {"color_scheme": "dark"}, PHONE],
    ids=["light", "dark", "phone"],
)
def test_page_has_no_serious_barrier(browser: Browser, service: Living, options) -> None:
    """By axe-core, with all tables and an explanation open: contrast, names, roles, order."""
    with opened(browser, service.url, **options) as page:
        expect(tile(page, "Learned")).to_have_text("300")
        for summary in page.locator("summary:visible").all():
            summary.click()
        page.get_by_role("button", name="Why").first.click()
        expect(page.locator("#why h3")).to_contain_text("rather than")
        found = Axe().run(page).response["violations"]

    assert [f"{v['id']}: {v['nodes'][0]['html']}" for v in found] == []


def test_phone_shows_all_without_scrolling_sideways(browser: Browser, service: Living) -> None:
    """Wide tables scroll in themselves; the page does not."""
    with opened(browser, service.url, **PHONE) as page:
        expect(page.locator("#curve .plot")).to_be_visible()
        wide, room = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")

    assert wide <= room


LABELS = """() => [...document.querySelectorAll(".plot")].filter((plot) => plot.clientWidth)
  .map((plot) => ["x", "y"].map((axis) => [...plot.querySelectorAll(`text.${axis}`)].map((text) => {
    const box = text.getBoundingClientRect();
    return [box.left, box.right, box.top, box.bottom];
  })))"""


@pytest.mark.parametrize("width", [320, 390, 768, 1024, 1280, 1920])
def test_labels_of_charts_never_overlap(browser: Browser, width: int) -> None:
    """At 1,280 pixels the times of throughput ran into each other; of any span, at any width."""
    status_feed = StatusFeed(time.time, lambda: Health("live"))
    status_feed.recovered(view(quality=quality()))
    app = application(
        CollectorRegistry(), lambda: Health("live"), status_feeds=lambda: {0: status_feed}
    )
    server = Server(app, "127.0.0.1", 0)
    host, port = server.start()
    size = {"viewport": {"width": width, "height": 900}}
    charts = []
    with opened(browser, f"http://{host}:{port}/", **size) as page:
        expect(tile(page, "Observations")).to_be_visible()
        for past in (3, 20, 61, 180, 299):
            status_feed.seconds = tuple(
                SecondOfLoad(int(time.time()) - n, 9**9 * n, 10**7) for n in range(past)
            )
            status_feed.seconds = status_feed.seconds[::-1]
            points = range(20, 20 + 400 * past**3, past**3)
            status_feed.curve = tuple(AccuracyPoint(n, 0.9, 0.5, 0.123) for n in points)
            status_feed.version += 1
            drawn = re.compile(f"Accuracy over {points[-1]:,} scored")
            expect(page.locator("#curve .chart")).to_have_attribute("aria-label", drawn)
            charts += page.evaluate(LABELS)
    server.stop()

    assert len(charts) >= 15
    for across, up in charts:
        assert across
        assert len(up) >= 2
        left_to_right, top_down = sorted(across), sorted(up, key=lambda box: box[2])
        assert all(a[1] + 4 <= b[0] for a, b in pairwise(left_to_right)), across
        assert all(a[3] <= b[2] for a, b in pairwise(top_down)), up
        assert all(box[0] >= 0 and box[1] <= width for box in [*across, *up])


def test_chart_reads_the_values_under_the_pointer(browser: Browser, service: Living) -> None:
    """And those of now when the pointer is gone."""
    with opened(browser, service.url) as page:
        plot, value = page.locator("#curve .plot"), page.locator("#curve .legend b").first
        expect(plot).to_be_visible()
        page.get_by_role("button", name="Pause").click()
        now = value.inner_text()
        box = plot.bounding_box()
        page.mouse.move(box["x"] + 60, box["y"] + box["height"] / 2)
        first = value.inner_text()
        dots = page.locator("#curve .cursor circle").count()
        page.mouse.move(0, 0)
        again = value.inner_text()

    assert dots == 3
    assert first != now == again


def test_paused_page_stands_still_and_goes_on(browser: Browser, tmp_path) -> None:
    """Nobody has to read what moves."""
    with living(tmp_path) as service, opened(browser, service.url) as page:
        service.send(30)
        expect(tile(page, "Learned")).to_have_text("30")
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("#state")).to_have_text("paused")
        service.send(30)
        held = tile(page, "Learned").inner_text()
        page.get_by_role("button", name="Go on").click()
        expect(tile(page, "Learned")).to_have_text("60")

    assert held == "30"


def test_page_of_an_older_version_loads_itself_anew(browser: Browser, service: Living) -> None:
    """A service that was upgraded under an open page is not drawn by the old script."""
    with opened(browser, service.url) as page:
        expect(tile(page, "Learned")).to_have_text("300")
        with page.expect_navigation():
            page.evaluate(
                "document.documentElement.dataset.page = 'older';"
                "document.dispatchEvent(new Event('visibilitychange'))"  # as one comes back to it
            )
        expect(tile(page, "Learned")).to_have_text("300")


def test_lost_connection_is_said(browser: Browser, tmp_path) -> None:
    """Old figures do not pass for new ones."""
    with ExitStack() as running:
        service = running.enter_context(living(tmp_path))
        service.send(30)
        with opened(browser, service.url, quiet=False) as page:
            expect(tile(page, "Learned")).to_have_text("30")
            running.close()
            expect(page.locator("#state")).to_have_text("connection lost; trying again")


def test_one_of_several_shards_is_chosen(browser: Browser) -> None:
    """Each has its state and accuracy in the list; the address remembers which was chosen."""
    status_feeds = {}
    for number, learned in ((0, 15), (3, 333)):
        status_feeds[number] = StatusFeed(time.time, lambda: Health("live"))
        status_feeds[number].recovered(view(shard=number, learned=learned, quality=quality()))
    app = application(
        CollectorRegistry(), lambda: Health("live"), status_feeds=lambda: status_feeds
    )
    server = Server(app, "127.0.0.1", 0)
    host, port = server.start()
    with opened(browser, f"http://{host}:{port}/") as page:
        expect(tile(page, "Learned")).to_have_text("15")
        page.get_by_label("Shard").select_option("3")
        expect(tile(page, "Learned")).to_have_text("333")
        page.reload()
        expect(tile(page, "Learned")).to_have_text("333")
        choices = page.get_by_label("Shard").locator("option").all_inner_texts()
    server.stop()

    assert choices == ["0 · live · 80.0 %", "3 · live · 80.0 %"]


def test_failing_snapshots_are_on_the_page(browser: Browser) -> None:
    """How often and why, instead of "none yet"; and no more of it once one is written."""
    status_feed = StatusFeed(time.time, lambda: Health("live"))
    status_feed.recovered(view(quality=quality()))
    app = application(
        CollectorRegistry(), lambda: Health("live"), status_feeds=lambda: {0: status_feed}
    )
    server = Server(app, "127.0.0.1", 0)
    host, port = server.start()
    with opened(browser, f"http://{host}:{port}/") as page:
        note = page.locator("#tiles > div").filter(has_text="Snapshot").locator(".note")
        expect(note).to_have_text("none yet")
        status_feed.snapshot_not_written("cannot write /x: No space left on device")
        expect(note).to_have_text(
            "failed once since the start: cannot write /x: No space left on device"
        )
        expect(note).to_have_class("note bad")
        status_feed.snapshot_written(time.time())
        expect(note).to_have_text("old")
    server.stop()


def test_standby_has_a_page_that_says_so(browser: Browser) -> None:
    """A process that runs no shard is no empty page."""
    waiting = Health("standby", "shard 0 at record 812")
    server = Server(application(CollectorRegistry(), lambda: waiting), "127.0.0.1", 0)
    host, port = server.start()
    with opened(browser, f"http://{host}:{port}/") as page:
        expect(page.locator("#empty")).to_contain_text("standby: shard 0 at record 812")
        expect(page.locator("#state")).to_have_text("standby: shard 0 at record 812")
    server.stop()


def test_without_scripts_the_page_leads_to_the_metrics(browser: Browser, service: Living) -> None:
    """One line instead of an empty page."""
    with opened(browser, service.url, java_script_enabled=False) as page:
        expect(page.get_by_role("link", name="The metrics")).to_be_visible()
        expect(page.locator("#state")).to_have_text("live")
