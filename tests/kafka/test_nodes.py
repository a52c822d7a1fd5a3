"""Three nodes in short: one is killed while a group runs. The long form: `tests.long.nodes`."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.faults.broker import Cluster
from tests.faults.nodes import nodes_round

# kafka-python leaves the sockets of refused connections to the garbage collector.
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
    ),
]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three nodes of this test alone."""
    with Cluster() as cluster:
        yield cluster
    gc.collect()


def test_node_that_is_killed_loses_and_doubles_nothing(cluster, tmp_path) -> None:
    """Two processes share two shards; a leader goes, then a process comes or goes as well."""
    done = nodes_round(
        cluster, tmp_path, "elec2", 1, 2, shards=2, hosts=2, partitions=4, nodes_share=1.0
    )

    assert done.violations == []
    assert sum(count for what, count in done.changes.items() if what.startswith("node")) == 1
