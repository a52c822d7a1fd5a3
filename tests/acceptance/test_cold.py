"""`headwater run` on a machine without machine code: it serves at once, with kernels as Python."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from numba.core.caching import UserProvidedCacheLocator

from stream.kernel import background
from stream.kernel.tiers import VARIABLE
from tests.acceptance.conftest import PAGES
from tests.acceptance.kafka_feed import committed, configure, elec2, fill
from tests.acceptance.service import HEADWATER, Service
from tests.acceptance.test_running import CONFIG, LEARNED, Feed
from tests.calling import call
from tests.waiting import PATIENCE

COMMITS = 'headwater_commit_seconds_count{shard="0"}'
WAITING = "headwater_kernels_waiting"


@pytest.fixture
def feed(tmp_path: Path, pages: Path) -> Feed:
    """All pages, with the labels 50 records later, in the log of a service."""
    rows = [line.split(",", 1) for line in pages.read_text().splitlines()]
    made = Feed(tmp_path)
    made.write("svc.toml", CONFIG.format(name="svc"))
    made.write("fresh.csv", "".join(f"{rest}\n" for _, rest in rows))
    made.produce()
    return made


@contextmanager
def cold(directory: Path) -> Iterator[dict[str, str]]:
    """Variables of a process with an empty cache, for which another process has the children.

    That one compiles nothing, so kernels stay Python in the block.
    """
    cache = directory / "cache"
    place = UserProvidedCacheLocator.get_suitable_cache_subpath(background.__file__)
    (cache / place).mkdir(parents=True)
    with (cache / place / background.LOCK_FILE).open("wb") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        yield {"NUMBA_CACHE_DIR": str(cache), VARIABLE: "background"}


def test_cold_start_serves_at_once_and_learns_the_same(feed: Feed) -> None:
    """All is predicted and learned by Python. A replay by machine code has the same hashes.

    Its commits are small, so that each ends long before its transaction.
    """
    with cold(feed.directory) as variables, Service(feed.config, environment=variables) as one:
        one.wait_said(r"kernels compile in the background, 0 of \d+; predictions are exact")
        one.wait_until(lambda: one.metric(LEARNED) == PAGES)
        alive, ready, waiting = one.status("/healthz"), one.status("/readyz"), one.metric(WAITING)
        page, commits = one.get("/"), one.metric(COMMITS)
        code = one.terminate()

    assert alive[0] == ready[0] == 200
    assert alive[1].startswith("live: kernels compile in the background, 0 of ")
    assert "kernels compile in the background" in page
    assert waiting is not None
    assert waiting > 20
    assert commits is not None
    assert commits >= 2 * PAGES / 50
    assert code == 0
    assert not list(feed.directory.rglob("*.nbc"))
    feed("replay", "svc.toml", "--journal")  # it compares the hash of each commit


@pytest.mark.kafka
def test_cold_start_on_a_broker_predicts_the_same(kafka_bootstrap: str, tmp_path: Path) -> None:
    """As a service with machine code does, in other commits."""
    feed = fill(kafka_bootstrap, elec2()[:500], 1)
    told = {}
    for name in (f"warm-{uuid4().hex[:8]}", f"cold-{uuid4().hex[:8]}"):
        path = configure(tmp_path, feed, name)
        call("check", path, "--create", code=0)
        with cold(tmp_path / name) as variables:
            given = variables if name.startswith("cold") else {}
            with Service(path, "--drain", environment=given) as service:
                assert service.wait() == 0
        assert ("in the background" in service.output) == bool(given)
        [told[name]] = committed(kafka_bootstrap, name)
    warm, cool = ([(p["id"], p["probabilities"]) for p in each] for each in told.values())

    assert len(warm) == 500
    assert cool == warm


def test_signal_ends_it_while_kernels_are_awaited(feed: Feed) -> None:
    """A long replay waits for machine code, because that is sooner; a signal ends the wait."""
    with Service(feed.config) as one:
        one.wait_until(lambda: one.metric(LEARNED) == PAGES)
    with cold(feed.directory) as variables, Service(feed.config, environment=variables) as two:
        two.wait_said("kernels compile in the background")
        two.wait_until(lambda: two.status("/readyz")[1].startswith("replaying"))
        two.send(signal.SIGINT)
        code = two.wait()

    assert code == 0
    assert "live at journal record" not in two.output
    assert "stopped while compiling kernels" in two.output


def test_doctor_counts_what_a_first_start_compiles(feed: Feed) -> None:
    """It compiles nothing itself."""
    cache = feed.directory / "cache"
    done = subprocess.run(
        [HEADWATER, "doctor", "svc.toml"],
        cwd=feed.directory,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache), VARIABLE: "background"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    found = re.search(r"note +kernels: (\d+) are not compiled yet", done.stdout)
    assert found, done.stdout + done.stderr
    assert int(found[1]) > 20
    assert not list(cache.rglob("*.nbc"))
