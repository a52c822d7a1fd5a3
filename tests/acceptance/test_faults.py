"""Exactly once under faults, in short: the long forms and their figures are `tests/long`.

Every test ends with the same verdict: the independent checker over the topics, a reader that ran
beside the faults, and the state from each snapshot and from the journal alone.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.faults.broker import OwnBroker
from tests.faults.fuzz import fuzz_broker, fuzz_shard
from tests.faults.kills import kill_round
from tests.faults.outages import FAULTS, proxy_round, restart_round
from tests.faults.storm import storm_round
from tests.faults.zombies import zombie_round

POINTS = (
    "in_fence",
    "mid_send",
    "after_check",
    "after_offsets",
    "in_commit",
    "after_commit",
    "snap_mid_write",
    "snap_pre_rename",
    "shutdown",
    "mid_replay",
)


# kafka-python leaves the sockets of refused connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What a test leaves behind is complained of here, not in the test that comes next."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def own_broker() -> Iterator[OwnBroker]:
    """A broker of these tests alone, to be killed and cut off."""
    with OwnBroker() as broker:
        yield broker
    gc.collect()  # of the module's last test, which it still belongs to


@pytest.mark.kafka
def test_killed_at_ten_points_loses_and_doubles_nothing(kafka_bootstrap, tmp_path) -> None:
    """SIGKILL before, in and after commits, snapshots, the fence, a replay and the end."""
    done = kill_round(kafka_bootstrap, tmp_path, "elec2", 7, POINTS)

    assert done.violations == []
    assert done.killed.total() == len(POINTS)
    assert sum(done.killed[point] for point in POINTS) >= len(POINTS) - 2, done.killed


@pytest.mark.kafka
def test_zombies_end_with_3_and_write_nothing_after_the_fence(kafka_bootstrap, tmp_path) -> None:
    """Stopped in mid-commit past the transaction's timeout, replaced, and woken."""
    done = zombie_round(kafka_bootstrap, tmp_path, "sms", 3, 3)

    assert done.violations == []
    assert done.count == 3


@pytest.mark.kafka
def test_members_that_come_and_go_lose_and_double_nothing(kafka_bootstrap, tmp_path) -> None:
    """Four shards among processes that join, leave, are killed, sleep and wake, twenty times."""
    done = storm_round(kafka_bootstrap, tmp_path, "elec2", 4, 20)

    assert done.violations == []
    assert done.changes.total() >= 20
    assert done.taken >= 8


@pytest.mark.kafka
def test_broker_that_is_killed_and_restarted_costs_time_and_nothing_else(
    own_broker, tmp_path
) -> None:
    """The service goes on by itself, or ends with one line and is started again."""
    done = restart_round(own_broker, tmp_path, "sms", 5, 1)

    assert done.violations == []
    assert done.faults.total() == 1


@pytest.mark.kafka
def test_broken_way_to_the_broker_costs_time_and_nothing_else(own_broker, tmp_path) -> None:
    """Dropped, delayed, half-open, and the end of a transaction that is late or unanswered."""
    done = proxy_round(own_broker, tmp_path, "elec2", 5, len(FAULTS))

    assert done.violations == []
    assert set(done.faults) == set(FAULTS)


def test_fuzzed_records_each_end_in_exactly_one_way() -> None:
    """No crash, nothing that is not finite, whatever the bytes and the model."""
    done = fuzz_shard(20_000, 1)

    assert done.violations == []
    assert done.records == 20_000
    assert all(done.ended[how] > 1_000 for how in ("prediction", "dead letter"))


@pytest.mark.kafka
def test_fuzzed_records_through_a_broker_each_end_in_exactly_one_way(
    kafka_bootstrap, tmp_path
) -> None:
    """With odd keys, headers and timestamps; the checker finds each of them once."""
    done = fuzz_broker(kafka_bootstrap, tmp_path, 1_500, 2)

    assert done.violations == []
    assert done.records == 1_500
    assert done.ended["prediction"] > 150
