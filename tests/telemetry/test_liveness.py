"""How far behind, how old and how long ago: against silent death."""

from __future__ import annotations

from dataclasses import replace

from consumers.base.records import Partition, Uncommitted
from tests.telemetry.test_prometheus import SHARD, commit, series, telemetry
from tests.telemetry.views import view


def test_lag_is_never_negative_and_only_of_inputs_whose_end_is_known() -> None:
    """A commit newer than the last look at the ends is no lag; an unknown end is no series."""
    told, registry = telemetry(view())
    told.ends({Partition("observations", 0): 60, Partition("elsewhere", 0): 5})

    assert series(registry, "headwater_input_lag_records") == [
        SHARD | {"topic": "observations", "partition": "0"}
    ]
    at = SHARD | {"topic": "observations", "partition": "0"}
    assert registry.get_sample_value("headwater_input_lag_records", at) == 0


def test_ends_that_change_later_do_not_change_what_was_told() -> None:
    """The loop may go on using its own mapping."""
    told, registry = telemetry(view())
    ends = {Partition("observations", 0): 100}
    told.ends(ends)
    ends[Partition("observations", 0)] = 0

    at = SHARD | {"topic": "observations", "partition": "0"}
    assert registry.get_sample_value("headwater_input_lag_records", at) == 30


def test_a_commit_on_a_bucket_bound_counts_within_it() -> None:
    """Buckets are cumulative and include their bound; what is slower than all is in +Inf."""
    told, registry = telemetry(None)
    for seconds in (0.0005, 0.001, 0.0011, 99.0):
        told.committed(commit(seconds), view())

    def upto(bound: str) -> float | None:
        return registry.get_sample_value("headwater_commit_seconds_bucket", SHARD | {"le": bound})

    assert [upto(b) for b in ("0.001", "0.002", "10.0", "+Inf")] == [2, 3, 3, 4]


def test_snapshot_age_follows_the_clock() -> None:
    """The age is the clock's, never below 0 when the clock was set back."""
    now = [50.0]
    told, registry = telemetry(None, clock=lambda: now[0])
    told.snapshot_written(40.0)
    first = registry.get_sample_value("headwater_snapshot_age_seconds", SHARD)
    now[0] = 30.0

    assert first == 10
    assert registry.get_sample_value("headwater_snapshot_age_seconds", SHARD) == 0


def test_ages_say_when_the_loop_last_polled_committed_and_saw_a_label() -> None:
    """Each from its own event; what has not happened yet has no age."""
    now = [50.0]
    told, registry = telemetry(None, clock=lambda: now[0])

    def ages() -> list[float | None]:
        names = [f"headwater_{what}_age_seconds" for what in ("poll", "commit", "label")]
        return [registry.get_sample_value(name, SHARD) for name in names]

    assert ages() == [None, None, None]
    told.polled()
    told.committed(commit(), view())
    now[0] = 60.0
    told.polled()
    no_label = replace(commit(), labels={"expired": 3, "joined": 0})
    told.committed(no_label, view())
    now[0] = 61.0
    told.polled()
    now[0] = 61.5
    assert ages() == [0.5, 1.5, 11.5]


def test_what_open_transactions_keep_back_stands_beside_the_lag() -> None:
    """Each known input has both series, 0 where nothing is kept back, so that an alert can end."""
    told, registry = telemetry(view())
    place = Partition("observations", 0)
    at = SHARD | {"topic": "observations", "partition": "0"}
    told.ends({place: 70})
    told.uncommitted({place: Uncommitted(70, 200, 12.5)})
    found = [
        registry.get_sample_value(f"headwater_input_{what}", at)
        for what in ("lag_records", "uncommitted_records", "uncommitted_seconds")
    ]
    told.uncommitted({})

    assert found == [0, 200, 12.5]
    assert registry.get_sample_value("headwater_input_uncommitted_records", at) == 0
    assert registry.get_sample_value("headwater_input_uncommitted_seconds", at) == 0
