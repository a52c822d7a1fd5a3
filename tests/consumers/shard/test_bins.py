"""Bins in the service: the same bits after a stop, from snapshots and from the journal alone."""

from __future__ import annotations

import json

import pytest

from tests.consumers.feeds import fill, phishing

CHALLENGER = """
[[challenger]]
name = "other"
type = "MixedNB"
bins = {strategy = "quantile", n_bins = 4}
"""


@pytest.mark.parametrize("bins", ["{strategy = 'mdl'}", "{edges = {age_of_domain = [0.5]}}"])
def test_stopped_service_with_bins_goes_on_bit_for_bit(make_service, bins: str) -> None:
    """Stopped after a snapshot and begun again, it writes what one that never stopped writes."""
    binned = {"model": f'type = "CategoricalNB"\nbins = {bins}', "more": CHALLENGER}
    whole, stopped = make_service(), make_service()
    for service in (whole, stopped):
        fill(service.log, phishing())

    whole.run(**binned)
    stopped.run(**binned, stop_after=20)
    assert stopped.snapshots()
    stopped.run(**binned)

    assert stopped.predictions() == whole.predictions()
    expected = whole.rebuilt(**binned).shard.fingerprint()
    assert stopped.rebuilt(**binned).shard.fingerprint() == expected
    last = json.loads(whole.predictions()[-1][2] or b"")
    assert last["model"]["type"] == "CategoricalNB"
