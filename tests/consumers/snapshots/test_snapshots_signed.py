"""Snapshots signed with a key: who can write files and does not know it cannot place a model."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from random import Random

import msgspec
import pytest

from consumers.base.errors import ConfigError, SnapshotError
from consumers.config import Config, parse
from consumers.service.runner import Runner
from consumers.snapshots.exported import load_model
from consumers.snapshots.format import from_bytes, name_of, to_bytes
from consumers.snapshots.places import Remote
from consumers.snapshots.store import SnapshotStore, read
from tests.acceptance.conftest import Shell
from tests.consumers.conftest import FEATURES
from tests.consumers.feeds import config_text, fill, phishing
from tests.consumers.snapshots.test_snapshots import about, state

KEY = "0123456789abcdef-one"
OTHER = "0123456789abcdef-two"


def configured(directory: Path, transport: str, *lines: str) -> Config:
    """A service with these lines in [snapshots]."""
    text = config_text(transport, FEATURES, max_records=50, every_records=120)
    return parse(
        text.replace("[snapshots]", "\n".join(["[snapshots]", *lines])), directory=directory
    )


def ran(service, config: Config) -> tuple[Runner, int]:
    """A service that drained its inputs, and how many records its start replayed."""
    runner = Runner(config, service.log, threading.Event(), drain=True)
    view = runner.run()
    assert view is not None
    return runner, view.observations


def forged(path: Path) -> None:
    """Another state under the same header, with a right checksum: what an intruder writes."""
    told, saved = from_bytes(path.read_bytes())
    arrays = {name: a.copy() for name, a in saved.arrays.items()}
    name = max((n for n in arrays if arrays[n].dtype == "<f8"), key=lambda n: arrays[n].size)
    arrays[name][...] += 1.0
    path.write_bytes(to_bytes(told, type(saved)(saved.header, arrays)))


@pytest.mark.parametrize(
    ("written", "read_with", "why"),
    [
        (None, None, None),
        (KEY, KEY, None),
        (None, KEY, "not signed, and"),
        (KEY, None, "signed; set"),
        (KEY, OTHER, "signed with another"),
    ],
)
def test_snapshot_loads_with_the_key_it_was_signed_with_only(written, read_with, why) -> None:
    """Each way round, with what to do."""
    data = to_bytes(about(1), state(), written)
    if why is None:
        assert from_bytes(data, read_with) == (about(1), state())
        return
    with pytest.raises(SnapshotError, match=why):
        from_bytes(data, read_with)


def test_no_change_of_a_signed_snapshot_loads() -> None:
    """Any byte, cut, or addition, its checksum computed again as for one that is not signed."""
    data, random = to_bytes(about(1), state(), KEY), Random(0)
    for _ in range(2000):
        changed = bytearray(data)
        at = random.randrange(len(data) - 32)
        changed[at] ^= 1 << random.randrange(8)
        if random.random() < 0.5:
            changed[-32:] = hashlib.sha256(changed[:-32]).digest()
        if random.random() < 0.2:
            changed = changed[: random.randrange(len(changed))]
        with pytest.raises(SnapshotError):
            from_bytes(bytes(changed), KEY)


def test_forged_snapshot_and_copy_are_passed_over(make_service, monkeypatch) -> None:
    """Here and where copies go; the start replays the journal instead, to the same bits."""
    monkeypatch.setenv("SNAPSHOT_KEY", KEY)
    service = make_service()
    fill(service.log, phishing(300))
    lines = ('key = "${env:SNAPSHOT_KEY}"', f'copy_to = "file://{service.directory}/copies"')
    config = configured(service.directory, service.url, *lines)
    first, _ = ran(service, config)
    fingerprint = first.status_feed.view.quality.scores["all"]
    paths = list(Path(service.directory).rglob("snap-*.hws"))
    for path in paths:
        told, saved = from_bytes(path.read_bytes(), KEY)
        path.write_bytes(to_bytes(told, saved))  # as one without the key can write it
        forged(path)
    again, observations = ran(service, config)

    assert len(paths) >= 4
    assert observations == 300
    assert again.status_feed.view.quality.scores["all"] == fingerprint
    assert KEY not in repr(config)


def test_snapshot_of_another_history_is_refused_by_its_hash(make_service, caplog) -> None:
    """Its entry's number and clock may be right: the journal's hash there must be too."""
    service = make_service()
    fill(service.log, phishing(200))
    config = configured(service.directory, service.url)
    ran(service, config)
    for path in service.snapshots():
        told, saved = from_bytes(path.read_bytes())
        assert told.chain
        other = msgspec.structs.replace(told, chain="0" * 16)
        path.write_bytes(to_bytes(other, saved))
    _, observations = ran(service, config)

    assert observations == 200
    assert "not of this journal: its record" in caplog.text
    assert "200 records replayed" in caplog.text or "snapshot not used" in caplog.text


def test_key_must_be_pointed_to_and_long(tmp_path: Path, monkeypatch) -> None:
    """The configuration is copied and shown around; neither message repeats the key."""
    monkeypatch.setenv("SHORT", "hunter2")
    for line, why in [
        ('key = "0123456789abcdef"', "got a secret in the clear"),
        ('key = "${env:SHORT}"', "expected a secret of 16 characters or more"),
        ("key = 12", "got a secret in the clear"),
    ]:
        with pytest.raises(ConfigError, match=why) as caught:
            configured(tmp_path, "memory:x", line)
        assert "hunter2" not in str(caught.value)
        assert "0123456789abcdef" not in str(caught.value)


def test_signing_takes_what_is_there(make_service, tmp_path: Path, monkeypatch) -> None:
    """A key may be set later: `headwater snapshots sign` spares the replay."""
    service = make_service()
    fill(service.log, phishing(120))
    ran(service, configured(service.directory, service.url))
    text = config_text("sqlite:x.db", FEATURES, max_records=50, every_records=120)
    keyed = text.replace("[snapshots]", '[snapshots]\nkey = "${file:key}"')
    shell = Shell(Path(service.directory))
    shell.write("key", KEY + "\n")
    shell.write("keyed.toml", keyed)
    before = shell("snapshots", "verify", "keyed.toml", code=1).stdout
    signed = shell("snapshots", "sign", "keyed.toml").stdout
    after = shell("snapshots", "verify", "keyed.toml").stdout
    path = service.snapshots()[-1]

    assert "not signed" in before
    assert "snapshots signed in" in signed
    assert "all files good" in after
    assert load_model(path, KEY).classes == load_model(path, KEY).classes
    with pytest.raises(SnapshotError, match="signed"):
        load_model(path)


class Down:
    """A file system that cannot be reached until it can."""

    up = False


def test_copies_that_are_down_at_the_start_are_tried_again(tmp_path: Path, monkeypatch) -> None:
    """A driver that connects when it is made ended the start with 2."""
    import fsspec.core

    made = fsspec.core.url_to_fs

    def connect(url: str):
        if not Down.up:
            raise ConnectionRefusedError("connection refused to me:secret@host?token=abc")
        return made(url)

    monkeypatch.setattr(fsspec.core, "url_to_fs", connect)
    monkeypatch.setattr(Down, "up", False)
    store = SnapshotStore(tmp_path / "a", copies=Remote.at(f"file://{tmp_path}/copies").part("s"))
    name = name_of(store.write(about(1), state()))
    with pytest.raises(SnapshotError, match="ConnectionRefusedError") as caught:
        store.copy(name)
    found = list(store.newest(lambda _: "no"))
    Down.up = True
    store.copy(name)

    assert "abc" not in str(caught.value)
    assert found == []
    assert read(Remote.at(f"file://{tmp_path}/copies/s"), name)[1] == state()


def test_values_of_a_query_are_not_shown(tmp_path: Path) -> None:
    """`check` printed a token."""
    with pytest.raises(ConfigError) as caught:
        Remote.at("nowhere://host/path?token=hunter2&sig=hunter3")

    assert "token=***&sig=***" in str(caught.value)
    assert "hunter" not in str(caught.value)
