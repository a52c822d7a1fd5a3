"""A journal or inputs that lost their beginning: a snapshot that covers it, or an error.

Never a silent empty start, and never a state of a history that the journal does not have.
"""

from __future__ import annotations

import logging
import threading

import msgspec
import pytest

from consumers.base.errors import ConfigError, TransportError
from consumers.base.records import Outgoing, Partition
from consumers.service.recovery import recover, sources
from consumers.service.runner import Runner
from consumers.snapshots import locate as located
from consumers.snapshots.format import from_bytes, to_bytes
from consumers.snapshots.locate import locate
from consumers.snapshots.store import SnapshotStore
from tests.consumers.feeds import NOW, feed, fill, phishing
from tests.consumers.service.test_inputs import observations
from tests.stores import the_store
from tests.topics import remake, stay

JOURNAL, OBS = Partition("svc-journal", 0), Partition("obs", 0)


class Trimmed:
    """A log whose partitions begin later, as after a retention; what is gone cannot be read."""

    def __init__(self, log, firsts) -> None:
        self._log, self.firsts = log, firsts

    def __getattr__(self, name):
        return getattr(self._log, name)

    def beginning_offsets(self, partitions):
        """Where each begins now."""
        return {p: self.firsts.get(p, 0) for p in partitions}

    def read(self, starts, ends, **more):
        """As the broker: an offset that is gone is an error."""
        for p, start in starts.items():
            if self.firsts.get(p, 0) > start < ends[p]:
                raise TransportError(f"{p} {start} is gone")
        return self._log.read(starts, ends, **more)


def base_of(service) -> SnapshotStore:
    return SnapshotStore(service.directory / "headwater-state" / "svc" / "shard-0")


def started(service, firsts, store=None, warm=None, **changes):
    """A start on the log with these beginnings."""
    config = service.config(**changes)
    log = Trimmed(service.log, firsts)
    found = sources(config, log)
    owner = log.owner("svc", 0, found.inputs)
    return recover(config, log, owner, found, store or base_of(service), now=NOW, warm=warm)


def ends_of(service) -> list[int]:
    """Journal positions of the snapshots, the oldest first."""
    return [from_bytes(path.read_bytes())[0].position for path in service.snapshots()]


def test_trimmed_journal_goes_on_from_a_snapshot_that_covers_what_is_gone(ran_thrice) -> None:
    """Cut anywhere up to the newest snapshot: the same bits, and no entry before it is read."""
    fingerprint = ran_thrice.fingerprint()
    oldest, _, newest = ends_of(ran_thrice)
    for first in (1, oldest, newest - 1, newest):
        live = started(ran_thrice, {JOURNAL: first})
        assert live.shard.fingerprint() == fingerprint
        assert (live.position, live.replayed) == (newest, 0)


def test_replay_behind_the_cut_gives_the_same_bits(ran_thrice) -> None:
    """The newest snapshots are gone: what is left of the journal is replayed on the oldest."""
    fingerprint = ran_thrice.fingerprint()
    oldest, *_ = ends_of(ran_thrice)
    for path in ran_thrice.snapshots()[1:]:
        path.unlink()
    live = started(ran_thrice, {JOURNAL: oldest})

    assert live.shard.fingerprint() == fingerprint
    assert live.replayed > 100


@pytest.mark.parametrize("followed", [1, 2, 4])
def test_followed_shard_whose_next_inputs_expired_is_left_for_a_snapshot(
    ran_thrice, followed: int
) -> None:
    """A standby was behind when retention deleted what it had to replay."""
    fingerprint = ran_thrice.fingerprint()
    newest = ends_of(ran_thrice)[-1]
    live = started(ran_thrice, {OBS: 300}, warm=ran_thrice.rebuilt(followed))

    assert live.shard.fingerprint() == fingerprint
    assert (live.position, live.replayed) == (newest, 0)
    assert any("the followed shard is not used" in line for line in live.news)


def test_journal_trimmed_behind_every_snapshot_is_an_error_that_says_what_to_do(ran_thrice) -> None:
    """Entries between the snapshot and what is left are nowhere: the model cannot be known."""
    oldest, *_ = ends_of(ran_thrice)
    for path in ran_thrice.snapshots()[1:]:
        path.unlink()

    with pytest.raises(TransportError, match="was trimmed before offset") as caught:
        started(ran_thrice, {JOURNAL: oldest + 1})
    said = str(caught.value)
    assert "older than the remaining journal, which starts at offset" in said
    assert said.endswith(
        "restore one to [snapshots] directory, or give the service a new name: it then starts "
        "from the beginning of its inputs"
    )
    assert "\n" not in said


def test_trimmed_journal_without_any_snapshot_is_an_error_and_no_empty_start(ran_thrice) -> None:
    """The log is not written to either."""
    for path in ran_thrice.snapshots():
        path.unlink()
    before = ran_thrice.ends("svc-journal")

    with pytest.raises(TransportError, match="does not start with the identity of svc"):
        started(ran_thrice, {JOURNAL: 3})
    assert ran_thrice.ends("svc-journal") == before


def test_damaged_snapshot_behind_the_cut_falls_back_to_one_that_still_covers_it(ran_thrice) -> None:
    """And where none does, the error says why each was refused."""
    fingerprint = ran_thrice.fingerprint()
    _, middle, newest = ends_of(ran_thrice)
    path = ran_thrice.snapshots()[-1]
    path.write_bytes(path.read_bytes()[:-1])
    live = started(ran_thrice, {JOURNAL: middle})
    assert live.shard.fingerprint() == fingerprint
    assert [line.split(": ")[1] for line in live.refused] == ["damaged"]

    with pytest.raises(TransportError, match=rf"{path.name}: damaged.*older than the remaining"):
        started(ran_thrice, {JOURNAL: newest})


def test_snapshot_that_does_not_load_behind_the_cut_is_an_error(ran_thrice) -> None:
    """It names the journal, and does not fit the model: there is nothing to replay from."""
    newest = ends_of(ran_thrice)[-1]
    told, state = from_bytes(ran_thrice.snapshots()[-1].read_bytes())
    header = dict(state.header)
    header["machine"] = {**header["machine"], "learner": {"learner": "OtherNB"}}
    ran_thrice.snapshots()[-1].write_bytes(to_bytes(told, type(state)(header, state.arrays)))

    with pytest.raises(TransportError, match=r"the model svc cannot be rebuilt.*OtherNB"):
        started(ran_thrice, {JOURNAL: newest})


def test_journal_of_which_nothing_is_left_goes_on_only_from_its_end(ran_thrice) -> None:
    """All entries expired: a snapshot at the end has them all, an older one has not."""
    fingerprint, end = ran_thrice.fingerprint(), ran_thrice.ends("svc-journal")[0]
    live = started(ran_thrice, {JOURNAL: end})
    assert (live.shard.fingerprint(), live.position) == (fingerprint, end)

    ran_thrice.snapshots()[-1].unlink()
    with pytest.raises(TransportError, match="no snapshot reaches the rest"):
        started(ran_thrice, {JOURNAL: end})


def test_trimmed_journal_of_another_configuration_is_refused_by_the_key(ran_thrice) -> None:
    """The snapshot knows what the journal forgot."""
    more = "[model.parameters]\nvar_smoothing = 0.1"
    with pytest.raises(ConfigError, match=r"belongs to another configuration \(model\.param"):
        started(ran_thrice, {JOURNAL: 3}, more=more)


def test_snapshot_with_another_identity_does_not_stand_for_the_journals(ran_thrice) -> None:
    """With one that is not its own."""
    told, state = from_bytes(ran_thrice.snapshots()[-1].read_bytes())
    about = msgspec.structs.replace(told, entry=msgspec.structs.replace(told.entry, born="another"))
    for path in ran_thrice.snapshots():
        path.unlink()
    the_store(ran_thrice.directory / "headwater-state", "svc").write(about, state)
    with pytest.raises(TransportError, match="contains another identity"):
        started(ran_thrice, {JOURNAL: 3})
    assert started(ran_thrice, {}).replayed == 0, "a whole journal has its own"


def test_service_runs_on_behind_a_cut_and_its_snapshots_cover_it_again(ran_thrice) -> None:
    """New records, new snapshots, another cut, another start: the same bits as uncut."""
    newest = ends_of(ran_thrice)[-1]
    log = Trimmed(ran_thrice.log, {JOURNAL: newest})
    more = [r._replace(key=b"n%d" % i) for i, r in enumerate(feed(phishing(100), 10))]
    ran_thrice.log.append(more)
    Runner(ran_thrice.config(every_records=60), log, threading.Event(), drain=True).run()

    last = ends_of(ran_thrice)[-1]
    assert last > newest
    live = started(ran_thrice, {JOURNAL: last})
    assert (live.position, live.replayed) == (last, 0)
    assert live.shard.fingerprint() == ran_thrice.fingerprint()


def test_check_knows_a_trimmed_journal_by_its_snapshots(ran_thrice) -> None:
    """And refuses it without them."""
    log, end = Trimmed(ran_thrice.log, {JOURNAL: 3}), ran_thrice.ends("svc-journal")[0]
    found = locate(ran_thrice.config(), log, JOURNAL, base_of(ran_thrice), end)
    assert found.identity == locate(ran_thrice.config(), ran_thrice.log, JOURNAL, end=end).identity

    with pytest.raises(TransportError, match="no snapshot reaches"):
        locate(ran_thrice.config(), log, JOURNAL, end=end)


def test_expired_inputs_that_a_snapshot_covers_are_not_missed(ran_thrice) -> None:
    """The usual case: inputs are kept for a week, the service runs for a year."""
    live = started(ran_thrice, {OBS: 300, JOURNAL: 1})

    assert live.shard.fingerprint() == ran_thrice.fingerprint()


def test_expired_inputs_that_no_snapshot_covers_are_an_error_that_names_them(ran_thrice) -> None:
    """The journal is whole, and what it names is gone."""
    oldest = ran_thrice.snapshots()[0]
    _, state = from_bytes(oldest.read_bytes())
    positions = state.nested("shard").header["positions"]
    at = next(offset for topic, _, offset in positions if topic == "obs")
    for path in ran_thrice.snapshots()[1:]:
        path.unlink()
    assert started(ran_thrice, {OBS: at}).shard.fingerprint() == ran_thrice.fingerprint()

    with pytest.raises(TransportError, match=r"obs\[0\] has lost its records 0 to") as caught:
        started(ran_thrice, {OBS: at + 1})
    assert f"snapshot at {ends_of(ran_thrice)[0]}: obs[0] has lost" in str(caught.value)
    assert "give the service a new name" in str(caught.value)


def test_expired_inputs_that_were_never_consumed_from_are_no_loss(make_service) -> None:
    """A service that starts at the end needs nothing from before."""
    service = make_service()
    fill(service.log, phishing(30))
    config = service.config()
    section = config.input.model_copy(update={"start": "latest"})
    config = config.model_copy(update={"input": section})
    log = Trimmed(service.log, {OBS: 30})
    found = sources(config, log)
    for _ in range(2):
        owner = log.owner("svc", 0, found.inputs)
        live = recover(config, log, owner, found, base_of(service), now=NOW)

    assert live.shard.positions[OBS] == 30


def test_snapshot_of_a_history_the_journal_lost_is_refused_however_it_grew_since(
    ran_thrice, make_service
) -> None:
    """A log restored from a backup goes on differently: same identity, same positions."""
    keep = 4
    restored = make_service()
    for topic in ("obs", "ans", "svc-predictions", "svc-dead-letters", "svc-journal"):
        restored.log.create_topic(topic, 1)
        stay(ran_thrice.log, restored.log, topic)
        for r in ran_thrice.records(topic):
            if topic != "svc-journal" or r.offset < keep:
                restored.log.append([Outgoing(topic, r.key, r.value, r.timestamp, (), 0)])
    # Commits of another size, so that entry n is another one, and without snapshots.
    Runner(
        restored.config(max_records=20, every_records=10**6),
        restored.log,
        threading.Event(),
        drain=True,
    ).run()
    assert restored.ends("svc-journal")[0] > ends_of(ran_thrice)[-1]
    live = started(restored, {}, base_of(ran_thrice))

    assert live.shard.fingerprint() == restored.fingerprint()
    assert len(live.refused) == 3
    assert all("of a history that this journal does not have" in line for line in live.refused)


def test_snapshots_of_a_lost_history_do_not_push_new_ones_out(tmp_path) -> None:
    """They are ahead of what is written now; the newest is kept all the same."""
    from tests.consumers.snapshots.test_snapshots import about, state

    store = SnapshotStore(tmp_path, keep=2)
    for position in (100, 101, 102, 5, 6, 7):
        store.write(about(position), state())

    assert [int(p.stem[5:]) for p in store.paths()] == [6, 7, 101, 102]


def test_snapshot_made_by_another_processor_or_version_is_loaded_and_told(
    ran_thrice, monkeypatch, caplog
) -> None:
    """One line of warning: the state is exact, what is replayed behind it may round elsewhere."""
    versions = {**located.versions(), "numba": "9"}
    monkeypatch.setattr(located, "cpu", lambda: {"name": "older-chip", "features": ""})
    monkeypatch.setattr(located, "versions", lambda: versions)
    ran_thrice.log.append([r._replace(key=b"n") for r in feed(phishing(1), 1)])
    with caplog.at_level(logging.WARNING, "headwater"):
        ran_thrice.run()

    (line,) = [r.getMessage() for r in caplog.records if "was made by" in r.getMessage()]
    assert "numba" in line
    assert "(now 9)" in line
    assert "(now older-chip)" in line
    assert "\n" not in line


def test_processor_is_what_kernels_are_compiled_for(monkeypatch) -> None:
    """What NUMBA_CPU_NAME says, where it is set: then features are what it says too."""
    located.cpu.cache_clear()
    monkeypatch.setattr("numba.core.config.CPU_NAME", "generic")
    monkeypatch.setattr("numba.core.config.CPU_FEATURES", "+sse2,-avx")
    try:
        assert located.cpu() == {"name": "generic", "features": "+sse2"}
    finally:
        located.cpu.cache_clear()
        monkeypatch.undo()
    assert located.cpu()["features"]


@pytest.mark.parametrize("own_first", [True, False])
def test_expired_journal_is_not_taken_for_the_one_it_replaced(
    make_service, monkeypatch, own_first
) -> None:
    """Both ended at the same position, and the snapshots of both are there."""
    service = make_service()
    fill(service.log, phishing(100))
    service.run(max_records=50)
    replaced, end = base_of(service).parts()[0].directory, service.ends("svc-journal")[0]
    remake(service.log, "svc-journal")
    service.log.append(observations(300, 100))
    config = service.config(max_records=70)
    Runner(config, service.log, threading.Event(), drain=True, new_journal=True).run()
    assert service.ends("svc-journal")[0] == end
    parts = SnapshotStore.parts
    monkeypatch.setattr(
        SnapshotStore,
        "parts",
        lambda store: sorted(parts(store), key=lambda p: (p.directory == replaced) == own_first),
    )

    assert started(service, {JOURNAL: end}).shard.positions[OBS] == 200
