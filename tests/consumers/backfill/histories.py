"""Services whose history is learned, and how a test learns it."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from consumers.backfill.engines import local
from consumers.backfill.fit import Fitted, fit
from consumers.backfill.learn import HistoryPlan, Learned, learned, plan_log
from consumers.base.records import Outgoing
from consumers.service.importing import import_model
from consumers.service.recovery import sources
from consumers.snapshots.store import open_store
from stream import Learner
from tests.consumers import feeds
from tests.consumers.conftest import Service
from tests.consumers.feeds import NOW

FEATURES = ("a", "b")
REPEATED = (b'{"a":1}', b'{"urgent":3,"id":1}')  # each of them has the same id


def written(service: Service, n: int, seed: int) -> None:
    """Put `n` hostile observations and their labels into the inputs of a service.

    Their ids differ: one that occurs in two splits is learned in both.
    """
    for topic, count in (("obs", 2), ("ans", 1), ("svc-predictions", 2)):
        service.log.create_topic(topic, count)
    for topic in ("svc-dead-letters", "svc-journal"):
        service.log.create_topic(topic, 1)
    service.log.append(
        [
            Outgoing(r.topic, r.key, r.value, r.timestamp, (), r.partition)
            for r in feeds.stream(n, seed)
            if r.value not in REPEATED
        ]
    )


def plan(service: Service, **changes: Any) -> HistoryPlan:
    """The history of the service; `until`, `as_of` and `size` are those of `plan_log`."""
    options = {k: changes.pop(k) for k in ("until", "as_of", "size") if k in changes}
    config = service.config(**{"features": FEATURES, **changes})
    return plan_log(config, service.log, sources(config, service.log), **options)


def fits(of: HistoryPlan, seed: int | None = None) -> list[Fitted]:
    """All splits, learned; in another order with a seed."""
    splits = list(of.job.manifest.splits)
    if seed is not None:
        random.Random(seed).shuffle(splits)
    return [fit(of.job, split) for split in splits]


def begun(service: Service, found: Learned, **changes: Any) -> bool:
    """Begin the service with what was learned."""
    config = service.config(**{"features": FEATURES, **changes})
    at, store = sources(config, service.log), open_store(config, 0)
    return import_model(config, service.log, at, store, found.model, now=NOW, history=found.history)


def backfilled(service: Service, **changes: Any) -> Learned:
    """Learn the history and begin the service with it."""
    options = {k: v for k, v in changes.items() if k in ("until", "as_of", "size")}
    rest = {k: v for k, v in changes.items() if k not in options}
    of = plan(service, **options, **rest)
    found = learned(of, local.run(of.job, of.job.manifest.splits, lambda count: None, 1))
    assert begun(service, found, **rest)
    return found


def same_up_to_rounding(one: Learner, other: Learner) -> None:
    """Equal classes and counts; moments that differ by 1e-12 of their size."""
    a, b = one.to_state(), other.to_state()
    assert sorted(one.classes) == sorted(other.classes)
    order = [other.classes.index(c) for c in one.classes]
    assert a.arrays.keys() == b.arrays.keys()
    for name, array in a.arrays.items():
        theirs = b.arrays[name]
        if theirs.shape and theirs.shape[0] == len(order) and array.shape == theirs.shape:
            theirs = theirs[order]
        np.testing.assert_allclose(
            array, theirs, rtol=1e-12, atol=1e-12 * max(1.0, float(np.abs(array).max(initial=0)))
        )


def ids(values: Sequence[bytes | None]) -> list[str]:
    """The ids of predictions."""
    return [json.loads(value or b"")["id"] for value in values]
