"""Copies of snapshots on another file system: what a new host starts from."""

from __future__ import annotations

import logging
import os
import sys
import threading
from pathlib import Path
from uuid import uuid4

import pytest

from consumers.base.errors import ConfigError, InputChangedError, SnapshotError
from consumers.base.records import Partition
from consumers.config import Config, parse
from consumers.service.runner import Runner
from consumers.snapshots.format import name_of
from consumers.snapshots.places import Remote
from consumers.snapshots.store import CopyError, SnapshotStore, SnapshotWriter, open_store
from tests.consumers.conftest import FEATURES
from tests.consumers.feeds import config_text, fill, phishing
from tests.consumers.service.test_inputs import observations
from tests.consumers.snapshots.test_snapshots import about, state
from tests.topics import cut
from tests.waiting import PATIENCE

DAY = 86_400_000


@pytest.fixture(params=["memory", "file"])
def url(request, tmp_path: Path) -> str:
    """A folder that is not there yet."""
    if request.param == "memory":
        return f"memory://{uuid4()}/copies"
    return f"file://{tmp_path / 'mounted' / 'copies'}"


def store_at(directory: Path, url: str, keep: int = 3) -> SnapshotStore:
    return SnapshotStore(directory, keep, 7 * DAY, Remote.at(url))


def written(store: SnapshotStore, *positions: int) -> None:
    """Snapshots at these positions, each copied."""
    for position in positions:
        store.copy(name_of(store.write(about(position), state())))


def test_host_without_snapshots_finds_the_copies(tmp_path: Path, url: str) -> None:
    """The newest first, verified, and nothing is written here by looking."""
    written(store_at(tmp_path / "old", url), 1, 2, 3)
    new = store_at(tmp_path / "new", url)

    found = list(new.newest(lambda _: None))
    assert [told.position for told, _ in found] == [3, 2, 1]
    assert all(saved == state() for _, saved in found)
    assert not (tmp_path / "new").exists()


def test_copies_are_kept_as_long_as_snapshots_are(tmp_path: Path, url: str) -> None:
    """The same bounds, or a bucket would grow for ever; by the header where another wrote them."""
    written(store_at(tmp_path / "a", url, keep=2), 1, 2, 3)
    store = store_at(tmp_path / "b", url, keep=2)
    written(store, 4)

    assert Remote.at(url).names() == [f"snap-{p:020d}.hws" for p in (3, 4)]


def test_damaged_copy_is_passed_over_by_its_url(tmp_path: Path, url: str) -> None:
    """A half upload, a rotten disk: the one before it is used."""
    written(store_at(tmp_path / "old", url), 1, 2)
    remote, name = Remote.at(url), f"snap-{2:020d}.hws"
    remote.write(name, [remote.read(name)[:-3]])
    new = store_at(tmp_path / "new", url)

    assert [told.position for told, _ in new.newest(lambda _: None)] == [1]
    assert new.refused == [f"{url}/{name}: damaged: its checksum does not match"]


def test_the_newest_snapshot_comes_first_wherever_it_is(tmp_path: Path, url: str) -> None:
    """At one position that of this host, and its copy only where it is damaged."""
    store = store_at(tmp_path / "here", url)
    written(store, 1, 2)
    path = store.paths()[-1]
    path.write_bytes(b"")

    assert [told.position for told, _ in store.newest(lambda _: None)] == [2, 1]
    assert list(store.newest(lambda _: "no")) == []
    assert store.refused == [
        f"{path.name}: not a snapshot of this version of headwater",
        f"{url}/{path.name}: no",
        f"snap-{1:020d}.hws: no",
    ]
    written(store_at(tmp_path / "elsewhere", url), 3)
    assert [told.position for told, _ in store.newest(lambda _: None)] == [3, 2, 1]
    newest = store.newest_after(1)
    assert newest is not None
    assert newest.position == 3


def test_new_host_starts_warm_from_the_copies(make_service, url, caplog) -> None:
    """The service itself: same log, another machine's disk, nothing to replay, the same bits."""
    service = make_service()
    fill(service.log, phishing(300))
    old, new = (configured(service.directory / host, service.url, url) for host in ("a", "b"))
    Runner(old, service.log, threading.Event(), drain=True).run()
    with caplog.at_level(logging.INFO, "headwater"):
        runner = Runner(new, service.log, threading.Event(), drain=True)
        runner.run()

    said = [record.getMessage() for record in caplog.records]
    assert any("0 records replayed, 300 observations known" in line for line in said)
    remote = Remote.at(f"{url}/svc/shard-0")
    (part,) = remote.parts()
    newest = remote.part(part).names()[-1]
    assert newest == f"snap-{service.ends('svc-journal')[0]:020d}.hws"
    taken = f"{url}/svc/shard-0/{part}/{newest}"
    assert f"the copy {taken} is used: no valid snapshot here is as new" in said


@pytest.mark.parametrize("more", [0, 200], ids=["gone", "replaced"])
def test_host_with_an_old_snapshot_takes_a_copy_where_its_records_are_gone(
    make_service, url, more: int
) -> None:
    """A shard was here once, and went on elsewhere: then an input lost what was consumed there, and
    other records have their places."""
    service = make_service()
    fill(service.log, phishing(300))
    old, new = (configured(service.directory / host, service.url, url) for host in ("a", "b"))
    Runner(old, service.log, threading.Event(), drain=True).run()
    service.log.append(observations(1_000, 100))
    Runner(new, service.log, threading.Event(), drain=True).run()
    cut(service.log, Partition("obs", 0), 350)
    service.log.append(observations(2_000, more))

    with pytest.raises(InputChangedError, match="--accept-new-topic"):
        Runner(old, service.log, threading.Event(), drain=True).run()


def configured(directory: Path, transport: str, url: str) -> Config:
    """The service with its copies there."""
    text = config_text(transport, FEATURES, max_records=50, every_records=120)
    return parse(
        text.replace("[snapshots]", f'[snapshots]\ncopy_to = "{url}"'), directory=directory
    )


def test_copy_that_fails_is_counted_and_the_next_one_is_made(tmp_path: Path) -> None:
    """The place is away for a while: local snapshots go on, and one error is told each time."""
    mount = tmp_path / "mount"
    mount.write_text("not a directory")
    store = store_at(tmp_path / "state", f"file://{mount}/copies")
    done: list[int] = []
    failed: list[SnapshotError] = []
    told = threading.Event()

    def tell(error: SnapshotError) -> None:
        failed.append(error)
        told.set()

    writer = SnapshotWriter(store, lambda of, _: done.append(of.position), tell)
    writer.submit(about(1), state())
    assert told.wait(PATIENCE)
    mount.unlink()
    writer.submit(about(2), state())
    writer.close()

    assert done == [1, 2]
    assert [type(error) for error in failed] == [CopyError]
    assert str(failed[0]).startswith(f"cannot write file://{mount}/copies/snap-")
    assert "\n" not in str(failed[0])
    assert os.listdir(mount / "copies") == [f"snap-{2:020d}.hws"]


def test_place_that_cannot_be_read_is_told_and_the_journal_used(tmp_path: Path) -> None:
    """A start does not need the copies."""
    (tmp_path / "mount").write_text("not a directory")
    store = store_at(tmp_path / "state", f"file://{tmp_path}/mount/copies")

    assert list(store.newest(lambda _: None)) == []
    assert all("\n" not in line for line in store.refused)


def test_failed_copies_of_a_service_are_in_its_metrics_and_on_its_page(make_service) -> None:
    """Beside the local ones, which did not fail; and the service ran to its end."""
    service = make_service()
    fill(service.log, phishing(60))
    (service.directory / "mount").write_text("not a directory")
    url = f"file://{service.directory}/mount"
    config = configured(service.directory, service.url, url)
    runner = Runner(config, service.log, threading.Event(), drain=True)
    view = runner.run()

    def failures(place: str) -> float | None:
        labels = {"shard": "0", "place": place}
        return runner.registry.get_sample_value("headwater_snapshot_failures_total", labels)

    assert view is not None
    assert view.observations == 60
    assert failures("local") == 0
    assert (failures("copy") or 0) >= 1
    assert runner.status_feed.snapshot_failures == failures("copy")
    assert runner.status_feed.snapshot_failed is not None
    assert "cannot write" in runner.status_feed.snapshot_failed[1]


def test_copies_without_fsspec_are_one_line_with_what_to_install(tmp_path, monkeypatch) -> None:
    """At the start, not at the first snapshot."""
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    config = configured(tmp_path, "memory:none", "s3://bucket/path")

    with pytest.raises(ConfigError, match=r"needs fsspec.*pip install 'fsspec>="):
        open_store(config)


@pytest.mark.parametrize("url", ["s3://key:secret@bucket/path", "nowhere://key:secret@x/y"])
def test_kind_of_url_without_its_driver_is_one_line_without_the_login(url, monkeypatch) -> None:
    """s3 needs s3fs; another word is no file system at all."""
    monkeypatch.setitem(sys.modules, "s3fs", None)

    with pytest.raises(ConfigError, match="correct the URL, or install the driver") as caught:
        Remote.at(url)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["bucket/path", "s3:bucket", "://x", "S 3://x", ""])
def test_copy_to_must_be_a_url(tmp_path, text) -> None:
    """A path without a scheme would be guessed."""
    with pytest.raises(ConfigError, match=r"expected a URL such as s3://BUCKET/PATH"):
        configured(tmp_path, "memory:none", text)
