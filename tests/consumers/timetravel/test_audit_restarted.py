"""Audit of records in topics that were deleted and recreated."""

from __future__ import annotations

from random import Random

import pytest

from consumers.base.errors import ConfigError
from consumers.service.recovery import sources
from consumers.snapshots.store import open_store
from consumers.timetravel.audit import audit
from tests.consumers.feeds import fill
from tests.consumers.service.test_inputs import observations, remake, run


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("place", ["memory", "sqlite"])
def test_audit_repeats_the_last_prediction_of_each_place(make_service, place: str, seed) -> None:
    """The topic was recreated several times, with more or fewer records than before."""
    random = Random(seed)
    service = make_service(place)
    fill(service.log, [])
    lengths = [random.randrange(5, 120) for _ in range(random.randrange(2, 5))]
    last: dict[str, bytes | None] = {}
    for turn, length in enumerate(lengths):
        if turn:
            remake(service.log, "obs")
        service.log.append(observations(1000 * turn, length))
        before = len(service.records("svc-predictions"))
        run(service, "new" if turn else None, max_records=random.randrange(3, 60))
        written = service.records("svc-predictions")[before:]
        last |= {f"obs:0:{i}": record.value for i, record in enumerate(written)}
        assert len(written) == length
    config = service.config()
    found, store = sources(config, service.log), open_store(config)

    for offset in {0, lengths[-1] - 1, random.randrange(lengths[-1])}:
        again = audit(config, service.log, found, store, f"obs:0:{offset}")
        assert again.same
        assert again.published is not None
        assert again.published.value == last[f"obs:0:{offset}"]
        by_id = audit(config, service.log, found, store, f"n{1000 * (len(lengths) - 1) + offset}")
        assert by_id.again == again.again
    for offset in range(lengths[-1], max(lengths), 7):
        with pytest.raises(ConfigError, match="restarted at journal record"):
            audit(config, service.log, found, store, f"obs:0:{offset}")


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
