"""`headwater reshard`: old and new shards are shown, then the service has the new ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from consumers.cli import main
from tests.consumers.feeds import MODEL
from tests.consumers.timetravel.moved import ON_DISK, Service, fresh, keyed

Said = pytest.CaptureFixture[str]


class Site:
    """A service with its configuration in a file."""

    def __init__(self, directory: Path, capsys: Said, model: str = MODEL) -> None:
        self.service, self.capsys = Service(directory, "sqlite", 2, model), capsys
        self.path = directory / "svc.toml"
        self.service.log.append(keyed(0, 120))
        self.edit(2, "svc-journal")
        assert self.call("run", "--drain")[0] == 0

    def edit(self, shards: int, topic: str) -> None:
        """Write the configuration."""
        self.service.shards, self.service.journal = shards, topic
        self.path.write_text(self.service.text())

    def call(self, command: str, *more: str) -> tuple[int, str, str]:
        """Exit code, output and errors of a command."""
        self.capsys.readouterr()
        code = main([command, str(self.path), *more])
        return code, *self.capsys.readouterr()


@pytest.fixture
def site(tmp_path: Path, capsys: Said) -> Site:
    """A service of two shards that drained 120 records."""
    return Site(tmp_path, capsys)


def run_killed(site: Site, point: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that dies at a point."""
    return subprocess.run(
        [sys.executable, "-m", "consumers", "reshard", str(site.path), "--shards", "4", "--yes"],
        env={**os.environ, "HEADWATER_FAILPOINT": f"{point}:kill"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_reshard_shows_old_and_new_shards_and_asks_first(site: Site) -> None:
    """Without --yes nothing is written."""
    before = site.service.log.topics()
    code, shown, _ = site.call("reshard", "--shards", "4")
    told = json.loads(site.call("reshard", "--shards", "4", "--json")[1])

    assert code == 0
    assert "2, now 4; 240 records learned again" in shown
    assert "nothing was changed; add --yes to do it" in shown
    assert [name in shown for name in ("old shard 1", "new shard 3")] == [True, True]
    assert told["journal"] == {"old": "svc-journal", "new": "svc-journal-4"}
    scored = {name: model["scored"] for name, model in told["models"].items()}
    halves = [sum(n for name, n in scored.items() if name.startswith(w)) for w in ("old", "new")]
    assert halves[0] >= halves[1] > 0, "the first prediction of a shard has no label to score"
    assert site.service.log.topics() == before
    assert site.call("run", "--drain")[0] == 0


def test_service_continues_with_the_new_shards(site: Site) -> None:
    """As printed, from the snapshots; the old configuration is refused, and says what to do."""
    code, shown, _ = site.call("reshard", "--shards", "4", "--reason", "load", "--yes")
    assert code == 0
    assert shown.count(".hws") == 4
    assert "[scale] shards = 4" in shown
    site.service.log.append(keyed(120, 160))
    code, _, said = site.call("run", "--drain")
    assert code == 2
    assert 'Set [scale] shards = 4 and [journal] topic = "svc-journal-4"' in said
    code, _, said = site.call("reshard", "--shards", "4", "--yes")
    assert code == 0, "it is repeated, and nothing is left to do"
    assert len(site.service.predictions()) == 114
    site.edit(4, "svc-journal")
    code, _, said = site.call("run", "--drain")
    assert code == 2
    assert "headwater reshard" in said
    site.edit(4, "svc-journal-4")
    code, _, said = site.call("run", "--drain")
    assert code == 0, said
    assert "0 records replayed" in said
    assert site.call("check")[0] == 0
    assert main(["snapshots", "verify", str(site.path)]) == 0, "the old ones are unused, not bad"
    assert len(site.service.predictions()) == 152


@pytest.mark.parametrize("shards", [4, 1])
def test_keys_on_disk_go_to_the_new_shards(tmp_path: Path, capsys: Said, shards: int) -> None:
    """Most keys are in files, before and after, and nothing else differs."""
    site = Site(tmp_path, capsys, ON_DISK)
    code, _, said = site.call("reshard", "--shards", "1", "--merge", "--yes")
    assert (code, "PerKeyNB does not merge exactly" in said) == (2, True)
    code, _, said = site.call("reshard", "--shards", str(shards), "--yes")
    assert code == 0, said
    site.edit(shards, f"svc-journal-{shards}")
    site.service.log.append(keyed(120, 240))
    code, _, said = site.call("run", "--drain")

    assert code == 0, said
    assert "0 records replayed" in said
    assert len(site.service.predictions()) == 228
    files = [*tmp_path.rglob("shard-*/*/keys-*.db")]
    assert len({path.parent for path in files}) >= shards
    other = fresh(tmp_path / "fresh", shards, ON_DISK, 240)
    assert site.service.prints() == other.prints()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--shards", "2"), "already has [scale] shards = 2"),
        (("--shards", "16"), "is more than the 8 partitions"),
        (("--shards", "4", "--journal", "obs"), "is another topic of the service"),
        (("--shards", "8", "--journal", "obs"), "is another topic of the service"),
    ],
)
def test_what_cannot_be_moved_is_one_line(site: Site, more: tuple[str, ...], words: str) -> None:
    """And ends with 2."""
    code, _, said = site.call("reshard", *more, "--yes")

    assert code == 2
    assert words in said
    assert said.count("\n") == 1


def test_compact_keeps_what_an_interrupted_move_needs(site: Site) -> None:
    """A timer may still call it with the old configuration, whose snapshots need less."""
    killed = run_killed(site, "reshard_closed")
    assert killed.returncode == -9, killed.stderr
    code, _, said = site.call("compact", "--keep", "1ms")
    assert code == 2
    assert "was moved to 4 shards" in said
    assert site.call("reshard", "--shards", "4", "--yes")[0] == 0


POINTS = ("reshard_fenced", "reshard_closed", "reshard_begun", "snap_pre_rename")


@pytest.mark.parametrize("point", POINTS)
def test_kill_at_each_step_is_repaired_by_the_same_command(site: Site, point: str) -> None:
    """Nothing is lost or doubled, whatever was written before."""
    killed = run_killed(site, point)
    assert killed.returncode == -9, killed.stderr
    site.service.log.append(keyed(120, 140))
    code, _, said = site.call("run", "--drain")
    assert code == (0 if point == "reshard_fenced" else 2), said
    code, _, said = site.call("reshard", "--shards", "4", "--yes")
    assert code == 0, said
    site.edit(4, "svc-journal-4")
    assert site.call("run", "--drain")[0] == 0
    assert len(site.service.predictions()) == 133


@pytest.mark.parametrize("point", ["", "reshard_closed", "import_part", "import_journaled"])
def test_merge_joins_the_models_and_scores_start_empty(site: Site, point: str) -> None:
    """Also after a kill, by the same command."""
    if point:
        killed = subprocess.run(
            [
                *(sys.executable, "-m", "consumers", "reshard", str(site.path)),
                *("--shards", "1", "--merge", "--yes"),
            ],
            env={**os.environ, "HEADWATER_FAILPOINT": f"{point}:kill"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert killed.returncode == -9, killed.stderr
    else:
        code, shown, said = site.call("reshard", "--shards", "1", "--merge")
        assert code == 0, said
        assert "2, now 1; models merged" in shown
        assert "nothing was changed" in shown
    code, shown, said = site.call("reshard", "--shards", "1", "--merge", "--yes")
    assert code == 0, said
    assert "the new shards have svc-journal-1" in shown
    site.edit(1, "svc-journal-1")
    site.service.log.append(keyed(120, 160))
    code, _, said = site.call("run", "--drain")
    assert code == 0, said
    assert "learned from shards 0, 1 of 2 shards" in said
    assert len(site.service.predictions()) == 152
    code, _, said = site.call("audit", "7")
    assert code == 2
    assert "by one of 2 shards, whose journal is svc-journal" in said
