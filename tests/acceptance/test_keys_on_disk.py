"""A model whose keys are on disk, killed at each step of a snapshot: exactly once, to the bit."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from consumers.base.errors import SnapshotError
from consumers.config import load
from consumers.service.recovery import rebuild, sources
from consumers.service.runner import Runner
from consumers.snapshots.exported import load_model
from consumers.snapshots.format import from_bytes
from consumers.snapshots.key_files import KeyFiles, stored_point
from consumers.snapshots.store import open_store
from consumers.transports import open_log
from stream import PerKeyNB
from stream.evaluate.progressive import progressive
from tests.acceptance.service import Service
from tests.acceptance.test_kill import DELAY, Files
from tests.calling import call
from tests.consumers.feeds import CONFIG, Labelled

RECORDS = 1500
KEYS = 300
FIELDS = {"tenant": "categorical", "a": "numeric", "c": "categorical"}


def records() -> Labelled:
    """A stream of keys by Zipf's law."""
    rng = np.random.default_rng(5)
    out: Labelled = []
    for _ in range(RECORDS):
        k = min(int(rng.zipf(1.3)), KEYS)
        y = int(rng.integers(2))
        c = "uvw"[int(rng.integers(3))]
        out.append(({"tenant": f"t{k}", "a": float(rng.normal(k + y)), "c": c}, "pq"[y]))
    return out


def files(directory: Path, feed: Labelled, model: str = "keys_on_disk = true") -> Files:
    """A service with a snapshot every 100 records, and memory for few keys."""
    text = CONFIG.format(
        transport="sqlite:log.db",
        features="\n".join(f'{k} = "{v}"' for k, v in FIELDS.items()),
        max_records=50,
        every_records=100,
        max_bytes=2**24,
        guarantee="exactly_once",
        model=f'per = "tenant"\nmax_classes = 2\nmax_state_bytes = 20000\n{model}',
        more="",
    )
    return Files(directory, feed, text)


def run_until(files: Files, failpoint: str | None) -> str:
    """Run to the end, or to the failpoint that kills. Returns what was printed."""
    if failpoint is None:
        return call("run", files.config, "--drain", code=0).stderr
    environment = {"HEADWATER_FAILPOINT": failpoint}
    with Service(files.config, "--drain", environment=environment) as service:
        assert service.wait() == -9, service.output
        assert "Traceback" not in service.output
        return service.output


def check(files: Files, feed: Labelled) -> None:
    """Each prediction once; the state is that of the journal, and of a learner in memory."""
    config = load(files.config)
    with closing(open_log(f"sqlite:{files.database}")) as log:
        found = sources(config, log)
        end = log.end_offsets([found.journal])[found.journal]
        said = [json.loads(value) for value in files.values(log, "svc-predictions")]
        loaded = rebuild(config, log, found, open_store(config), end=end)
        replayed = files.rebuilt(log)
    assert [p["id"] for p in said] == [str(i) for i in range(len(feed))]
    assert loaded.snapshot is not None
    assert loaded.refused == ()
    assert loaded.shard.fingerprint() == replayed.shard.fingerprint()
    learner = PerKeyNB(per="tenant", keys_on_disk=True)
    *_, expected = progressive(feed, learner, delay=DELAY)
    assert np.array_equal(replayed.shard.view().quality.confusion, expected.confusion)
    learner = replayed.shard.learner
    assert isinstance(learner, PerKeyNB)
    assert len(learner.keys) > 2 * learner.room_in_memory


@pytest.mark.parametrize(
    "failpoint",
    [
        "keys_pre_commit:kill@6",
        "keys_post_commit:kill@6",
        "keys_mid_vacuum:kill@8",
        "snap_pre_rename:kill@5",
        "snap_post_rename:kill@5",
        "keys_post_commit:kill+10@6",
        "shutdown:kill",
        "mid_replay:kill",
    ],
)
def test_killed_at_a_step_of_a_snapshot(tmp_path: Path, failpoint: str) -> None:
    """The next start uses a snapshot, and no record is lost or learned twice."""
    service = files(tmp_path, feed := records())
    if failpoint.startswith("mid_replay"):
        run_until(service, "keys_post_commit:kill@6")
    run_until(service, failpoint)
    assert service.predictions() < len(feed) or failpoint == "shutdown:kill"
    said = run_until(service, None)
    assert "snapshot not used" not in said
    check(service, feed)


def test_killed_many_times(tmp_path: Path) -> None:
    """At random moments, some of them while the shard is rebuilt."""
    service, rng = files(tmp_path, feed := records()), np.random.default_rng(8)
    points = ("keys_post_commit", "keys_pre_commit", "keys_mid_vacuum", "mid_replay")
    for kills in range(8):
        point = points[int(rng.integers(4 if kills else 2))]
        at = 1 if point == "mid_replay" else int(rng.integers(2, 4))
        run_until(service, f"{point}:kill+{int(rng.integers(3))}@{at}")
    assert service.predictions() < len(feed)
    run_until(service, None)
    check(service, feed)


@pytest.mark.parametrize("damage", ["missing", "zeros", "row"])
def test_damaged_file_costs_time_only(tmp_path: Path, damage: str) -> None:
    """The snapshots that name it are not used, with the reason, and the journal is replayed."""
    service = files(tmp_path, feed := records())
    run_until(service, "snap_post_rename:kill@8")
    (path,) = service.store.directory.glob("keys-*.db")
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "zeros":
        path.write_bytes(bytes(len(data)))
    else:
        data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
        path.write_bytes(data)
    said = run_until(service, None)
    assert "snapshot not used" in said
    assert "the file of its keys" in said
    check(service, feed)


def test_snapshot_names_what_the_file_has(tmp_path: Path) -> None:
    """And it is small: it has only the sums of all records."""
    service = files(tmp_path, records())
    run_until(service, None)
    newest = service.store.paths()[-1]
    about, state = from_bytes(newest.read_bytes())
    point = stored_point(state)
    assert point is not None
    assert about.keys == (point["file"], point["version"])
    keys = KeyFiles()
    keys.place(newest.parent, service.store.points)
    keys.restore(point)
    assert keys.keys == point["keys"] > 100
    keys.close()


def test_commands_read_the_keys(tmp_path: Path) -> None:
    """`snapshots` verifies them, and a model file has all of them."""
    service = files(tmp_path, records())
    run_until(service, None)
    config = service.config
    listed = call("snapshots", "list", config)
    verified = call("snapshots", "verify", config)
    position = str(int(service.store.paths()[-1].stem[5:]))
    copied = call("snapshots", "export", config, position, tmp_path / "copy.hws")
    exported = call("export", config, tmp_path / "model.hw")
    assert (listed.returncode, verified.returncode) == (0, 0), verified.stdout + verified.stderr
    assert " bad " not in listed.stdout
    assert copied.returncode != 0
    assert "its keys are in a file beside it" in copied.stderr
    assert exported.returncode == 0, exported.stderr
    with closing(open_log(f"sqlite:{service.database}")) as log:
        live = service.rebuilt(log)
    assert load_model(tmp_path / "model.hw").fingerprint() == live.shard.learner.fingerprint()
    with pytest.raises(SnapshotError, match="headwater export"):
        load_model(service.store.paths()[-1])
    (path,) = service.store.directory.glob("keys-*.db")
    path.unlink()
    assert "does not exist" in call("snapshots", "verify", config).stdout


def test_rolled_back_service_continues(tmp_path: Path) -> None:
    """A rollback writes a snapshot with all keys, and the next start moves them to disk."""
    service = files(tmp_path, feed := records())
    run_until(service, "snap_post_rename:kill@8")
    with closing(open_log(f"sqlite:{service.database}")) as log:
        journal = sources(load(service.config), log).journal
        end = log.end_offsets([journal])[journal]
    call("rollback", service.config, "--to", str(end - 5), "--yes", code=0)
    said = run_until(service, None)
    assert "0 records replayed" in said
    with closing(open_log(f"sqlite:{service.database}")) as log:
        found = sources(config := load(service.config), log)
        end = log.end_offsets([found.journal])[found.journal]
        loaded = rebuild(config, log, found, open_store(config), end=end)
        assert loaded.shard.fingerprint() == service.rebuilt(log).shard.fingerprint()
    assert loaded.shard.learned < len(feed)


@pytest.mark.parametrize("failpoint", ["keys_pre_commit", "keys_post_commit", "keys_mid_vacuum"])
def test_disk_that_fails_once(tmp_path: Path, failpoint: str) -> None:
    """The shard is discarded and starts over in the same process, from a snapshot."""
    service = files(tmp_path, feed := records())
    environment = {"HEADWATER_FAILPOINT": f"{failpoint}:raise@6"}
    with Service(service.config, "--drain", environment=environment) as running:
        assert running.wait() == 0, running.output
        assert "starting over from the journal" in running.output
        assert "snapshot not used" not in running.output
    check(service, feed)


def test_followed_shard_moves_its_keys_to_disk(tmp_path: Path) -> None:
    """A standby has all keys in memory. When it takes over, it makes a file of its own."""
    service = files(tmp_path, feed := records())
    run_until(service, "snap_post_rename:kill@8")
    before = set(service.store.directory.glob("keys-*.db"))
    with closing(open_log(f"sqlite:{service.database}")) as log:
        followed = service.rebuilt(log)
        Runner(
            config := load(service.config),
            log,
            threading.Event(),
            drain=True,
            warm=lambda: followed,
        ).run()
        learner = followed.shard.learner
        assert isinstance(learner, PerKeyNB)
        assert learner.residents is not None
        assert learner.residents.known > len(learner.residents.codes)
        found = sources(config, log)
        end = log.end_offsets([found.journal])[found.journal]
        rest = rebuild(config, log, found, open_store(config), end=end)
        assert rest.shard.fingerprint() == service.rebuilt(log).shard.fingerprint()
    after = set(service.store.directory.glob("keys-*.db"))
    assert len(before) == len(after) == 1  # no snapshot names the first one any more
    assert before != after
    check(service, feed)
