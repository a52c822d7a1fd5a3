"""What a log has acknowledged is there after a cut of power."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from consumers.base.records import Outgoing, Partition
from consumers.transports import open_log
from tests.worlds.power import Disk


def test_new_log_its_topics_and_their_ids_outlive_a_cut_of_power(tmp_path: Path) -> None:
    """A service compares the ids, so with another one it would not start again."""
    (tmp_path / "disk").mkdir()
    disk, part = Disk(tmp_path / "disk", tmp_path / "shadow"), Partition("feed", 1)
    url = f"sqlite:{disk.root / 'log'}"
    with disk.installed():
        with closing(open_log(url)) as log:
            log.create_topic("feed", 2)
            made = log.describe(["feed"])
            log.append([Outgoing("feed", b"k", b"value", 5, (), 1)])
            disk.cut()
        disk.settle()

        with closing(open_log(url)) as log:
            assert log.describe(["feed"]) == made
            assert [r.values for r in log.read({part: 0}, log.end_offsets([part]))] == [[b"value"]]
