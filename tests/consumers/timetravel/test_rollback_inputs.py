"""After a rollback the inputs are known as the journal's end knows them, not as that moment did.

A rollback cuts out what was learned. What was consumed stays consumed, so the ids of the topics and
the last records of each partition must be those of the last entries that were cut out.
"""

from __future__ import annotations

import shutil
from collections import Counter
from random import Random

import pytest
from hypothesis import example
from msgspec.structs import replace

from consumers.base.errors import InputChangedError, TransportError
from consumers.commands.past import Past, write_snapshot
from consumers.journal.records import Range
from consumers.service import differences
from consumers.service.live import LiveShard
from consumers.service.recovery import rebuild, sources
from consumers.snapshots.format import from_bytes, to_bytes
from consumers.snapshots.locate import locate
from consumers.snapshots.store import SnapshotStore, open_store
from consumers.timetravel.moment import moment, rebuild_at
from consumers.timetravel.rollback import roll_back
from tests.consumers.conftest import MakeService, Service
from tests.consumers.feeds import NOW, fill, phishing
from tests.consumers.service.test_inputs import KINDS, OBS, keys, observations, run
from tests.seed import seeds
from tests.topics import cut, remake


@pytest.fixture(params=KINDS)
def stopped(request: pytest.FixtureRequest, make_service: MakeService) -> Service:
    """A service that consumed 300 observations and labels, and stopped with a snapshot."""
    service = make_service(request.param)
    fill(service.log, phishing(300))
    service.run(max_records=100)
    return service


def rolled_back(service: Service, to: int) -> LiveShard:
    """What `headwater rollback` does: the entry, then the snapshot."""
    config = service.config()
    found, store = sources(config, service.log), open_store(config)
    live = rebuild_at(
        config, service.log, found, store, moment(service.log, found.journal, str(to))
    )
    owner = service.log.owner("svc", 0, found.inputs)
    roll_back(service.log, owner, found, live, now=NOW, reason="labels were wrong")
    owner.close()
    written = write_snapshot(Past(config, service.log, found, store, lambda *_: None), live)
    assert not written.startswith("none")
    return live


def end(service: Service) -> int:
    """Of the journal."""
    return service.ends("svc-journal")[0]


def known(live: LiveShard) -> tuple[object, ...]:
    """What the inputs are known by."""
    return live.shard.positions, live.topics, live.tails


def test_topic_made_again_after_a_rollback_to_before_any_record_is_noticed(stopped) -> None:
    """Its first 300 records would have been passed over with exit 0."""
    rolled_back(stopped, 1)
    remake(stopped.log, "obs")
    stopped.log.append(observations(0, 700))

    with pytest.raises(InputChangedError, match=r"obs has id .*obs\[0\] has other records"):
        run(stopped)
    run(stopped, "new")
    assert keys(stopped, 300) == Counter(b"n%d" % i for i in range(700))


def test_records_lost_and_grown_again_after_a_rollback_are_noticed(stopped) -> None:
    """What the entries that were cut out consumed is compared, not what the moment had."""
    to = end(stopped)
    stopped.log.append(observations(0, 200))
    run(stopped)
    rolled_back(stopped, to)
    cut(stopped.log, OBS, 400)
    stopped.log.append(observations(5000, 200))

    with pytest.raises(InputChangedError, match=r"obs\[0\] has other records"):
        run(stopped)


def test_rollback_to_before_an_accepted_topic_goes_on_with_that_topic(stopped) -> None:
    """Every start used to end with an error of the log, whatever the operator decided."""
    to = end(stopped)
    cut(stopped.log, OBS, 200)
    stopped.log.append(observations(0, 50))
    run(stopped, "new")
    rolled_back(stopped, to)
    stopped.log.append(observations(700, 5))
    before = keys(stopped).total()
    run(stopped)

    assert keys(stopped, before) == Counter(b"n%d" % i for i in range(700, 705))


def test_topic_accepted_before_a_rollback_needs_no_decision_after_it(stopped) -> None:
    """The one that was advised doubled 700 predictions."""
    to = end(stopped)
    kept = shutil.copytree(stopped.directory / "headwater-state", stopped.directory / "kept")
    remake(stopped.log, "obs")
    stopped.log.append(observations(0, 700))
    run(stopped, "new")
    shutil.copytree(kept, stopped.directory / "headwater-state", dirs_exist_ok=True)
    rolled_back(stopped, to)
    stopped.log.append(observations(700, 5))
    run(stopped)

    assert keys(stopped, 300) == Counter(b"n%d" % i for i in range(705))


def made_by_an_older_program(service: Service, then: LiveShard) -> None:
    """Its rollback wrote today's positions beside what the inputs were known by at that moment."""
    path = service.snapshots()[-1]
    about, state = from_bytes(path.read_bytes())
    tails = [tail for _, tail in sorted(then.tails.items())]
    path.write_bytes(to_bytes(replace(about, topics=then.topics, tails=tails), state))


@pytest.mark.parametrize("change", ["grown", "begun"])
def test_snapshot_that_an_older_rollback_wrote_is_put_right_by_the_journal(stopped, change) -> None:
    """No operator has to delete it; `headwater check` compares with the same."""
    to = end(stopped)
    config, found = stopped.config(), sources(stopped.config(), stopped.log)
    then = stopped.rebuilt(to)
    if change == "grown":
        stopped.log.append(observations(0, 200))
        run(stopped)
    else:
        remake(stopped.log, "obs")
        stopped.log.append(observations(0, 200))
        run(stopped, "new")
        stopped.snapshots()[-1].unlink()
    live = rolled_back(stopped, to)
    made_by_an_older_program(stopped, then)
    assert known(live) != (then.shard.positions, then.topics, then.tails)

    store = open_store(config)
    again = rebuild_at(
        config, stopped.log, found, store, moment(stopped.log, found.journal, str(end(stopped)))
    )
    assert again.snapshot == live.now
    assert known(again) == known(live)
    origin = locate(config, stopped.log, found.journal, store)
    assert origin is not None
    assert differences.consumed(origin, store) == known(live)
    stopped.log.append(observations(900, 5))
    before = keys(stopped).total()
    run(stopped)
    assert keys(stopped).total() == before + 5


def test_records_that_were_consumed_beyond_the_end_are_a_change_not_an_error(stopped) -> None:
    """Whatever a snapshot says of them, the log is not read past its end."""
    tail = Range("obs", 0, 290, 310, 20, 1)
    found = differences.changed(stopped.log, {OBS: 250}, {OBS: tail})

    assert found == ({OBS: "ends at 300, but its records up to 310 were consumed"}, [])


@pytest.mark.parametrize("kind", KINDS)
@example(seed=2)  # all three happen
@seeds(0.015)
def test_rollback_knows_the_inputs_as_a_replay_of_its_entry_does(own_services, kind, seed) -> None:
    """Random commits, topics that begin again, rollbacks of rollbacks."""
    happened = Counter[str]()
    with own_services() as make_service:
        random, service = Random(seed), make_service(kind)
        config, state = service.config(), service.directory / "headwater-state"
        fill(service.log, phishing(30))
        service.run(max_records=random.randint(5, 30))
        ends, fed = [1, end(service)], 1000
        for step in range(6):
            what = random.choice(["grown", "begun", "back", "back"])
            happened[what] += 1
            if what == "back":
                kept = shutil.copytree(state, service.directory / f"kept-{step}")
                try:
                    live = rolled_back(service, random.choice(ends))
                except TransportError as refused:  # older snapshots are not kept for ever
                    assert "no snapshot reaches the rest" in str(refused)  # noqa: PT017
                    continue
                store = SnapshotStore(kept / "svc" / "shard-0")
                found = sources(config, service.log)
                again = rebuild(config, service.log, found, store, end=end(service))
                assert known(live) == known(again)
                assert live.shard.fingerprint() == again.shard.fingerprint()
            else:
                count, fed = random.randint(1, 9), fed + 10
                if what == "begun":
                    remake(service.log, "obs")
                    ends.clear()  # what was consumed of the one before cannot be replayed
                service.log.append(observations(fed, count))
                run(service, "new" if what == "begun" else None)
            ends.append(end(service))
        predicted = keys(service)
        assert set(predicted.values()) == {1}

    assert len(happened) == 3 or seed != 2
