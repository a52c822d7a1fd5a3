"""The service under a memory limit: the largest legal records end no process and no start."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from consumers.base.records import Partition
from consumers.transports import open_log
from tests.faults.memory import MIB, configure, fill, limited, violations

LIMIT = 512 * MIB  # half of what docker/kubernetes gives; an idle service takes some 250
COUNT = 240


@pytest.mark.parametrize("transport", ["sqlite", pytest.param("kafka", marks=pytest.mark.kafka)])
def test_largest_records_fit_half_a_gigabyte(
    transport: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Fetch, merge, learning, dead letters, a kill in between, the replay of everything."""
    name = f"memory-{uuid4().hex[:8]}"
    url = f"sqlite:{tmp_path / 'log.db'}"
    if transport == "kafka":
        url = f"kafka://{request.getfixturevalue('kafka_bootstrap')}"
    config = configure(tmp_path, name, url, "mixed")
    journal = Partition(f"{name}-journal", 0)
    with closing(open_log(url)) as log:
        fill(log, name, "mixed", COUNT)

        killed = limited(config, LIMIT, until=lambda: log.end_offsets([journal])[journal] > 8)
        assert killed.peak <= LIMIT, killed
        drained = limited(config, LIMIT, "--drain")
        assert (drained.code, drained.peak <= LIMIT) == (0, True), drained
        assert violations(log, name, "mixed", COUNT) == []
