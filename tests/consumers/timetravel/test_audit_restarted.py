"""Audit of records in topics that were deleted and recreated."""

from __future__ import annotations

import json
from random import Random

import pytest

from consumers.base.errors import ConfigError
from consumers.base.records import Record
from consumers.service.recovery import sources
from consumers.snapshots.store import open_store
from consumers.timetravel.audit import audit
from tests.consumers.feeds import fill
from tests.consumers.service.test_inputs import observations, remake, run
from tests.consumers.timetravel.test_point_in_time import cut_to
from tests.seed import seeds


@pytest.mark.parametrize("place", ["memory", "sqlite"])
@seeds(0.02)
def test_audit_repeats_the_last_prediction_of_each_place(own_services, place: str, seed) -> None:
    """The topic was recreated several times, with more or fewer records than before; then a part of
    the history was rolled back, and the service continued."""
    with own_services() as make_service:
        random = Random(seed)
        service, partitions = make_service(place), random.choice([1, 2])
        fill(service.log, [], partitions=partitions)
        last: dict[tuple[int, int], Record] = {}
        turns = random.randrange(2, 5)
        for turn in range(turns + 1):
            if 0 < turn < turns:
                remake(service.log, "obs", partitions)
            elif turn == turns:
                cut_to(service, str(service.ends("svc-journal")[0] - random.randrange(3)))
            if turn < turns:
                lengths = [random.randrange(5, 120) for _ in range(partitions)]
                places = {(n, i) for n in range(partitions) for i in range(lengths[n])}
            else:
                places |= {(n, lengths[n] + i) for n in range(partitions) for i in range(9)}
                lengths = [9] * partitions
            for n, length in enumerate(lengths):
                service.log.append(observations(1000 * turn + 500 * n, length, n))
            run(service, "new" if 0 < turn < turns else None, max_records=random.randrange(3, 60))
            for record in service.records("svc-predictions"):
                position = json.loads(record.value)["position"]
                last[position["partition"], position["offset"]] = record
        config = service.config()
        found, store = sources(config, service.log), open_store(config)

        for n, offset in random.sample(sorted(places), 4):
            again = audit(config, service.log, found, store, f"obs:{n}:{offset}")
            assert again.same
            assert again.published == last[n, offset]
            by_id = audit(config, service.log, found, store, (again.again.key or b"").decode())
            assert by_id.again == again.again
        for n, offset in random.sample(
            sorted(last.keys() - places), min(2, len(last) - len(places))
        ):
            with pytest.raises(ConfigError, match="restarted at journal record"):
                audit(config, service.log, found, store, f"obs:{n}:{offset}")


def test_id_that_was_sent_before_and_after_is_the_one_that_can_be_read(make_service) -> None:
    service = make_service("memory")
    fill(service.log, [])
    service.log.append(observations(0, 30))
    run(service)
    remake(service.log, "obs")
    service.log.append(observations(20, 30))
    run(service, "new")
    config = service.config()

    again = audit(config, service.log, sources(config, service.log), open_store(config), "n25")

    assert again.same
    assert again.published is not None
    assert again.published == service.records("svc-predictions")[35]
    assert again.others == ()


def test_id_whose_place_has_another_record_now_is_refused(make_service) -> None:
    service = make_service("memory")
    fill(service.log, [])
    service.log.append(observations(0, 30))
    run(service)
    remake(service.log, "obs")
    service.log.append(observations(100, 30))
    run(service, "new")
    config = service.config()

    with pytest.raises(ConfigError, match="'n5' before obs was recreated, and is another record"):
        audit(config, service.log, sources(config, service.log), open_store(config), "n5")
