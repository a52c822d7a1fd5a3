"""Connection storms against a real service that may open few files: it goes on as if alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.web.flood import storm


@pytest.mark.parametrize(
    ("kind", "tls", "count", "hosts", "files"),
    [
        ("idle", True, 250, 1, 160),
        ("hello", True, 150, 30, 160),
        ("slow", False, 100, 1, 160),
        ("guess", False, 100, 1, 1024),
    ],
)
def test_storm_stops_neither_health_checks_nor_snapshots(
    kind: str, tls: bool, count: int, hosts: int, files: int, tmp_path: Path
) -> None:
    """1,200 idle connections left no file for a snapshot and wrote 114 MB of log in 25 s."""
    found = storm(
        tmp_path,
        kind,
        tls=tls,
        count=count,
        hosts=hosts,
        files=files,
        checks=4,
        snapshots=3,
        source="127.0.0.1" if kind == "guess" else "127.1.0.1",  # of the guessers' own address
    )

    assert found.violations == []
    assert len(found.answers) == 4
    assert found.opened >= min(count, 100)
    if kind != "guess":
        assert found.refused["connections"] > 0, "there were more than may be"
