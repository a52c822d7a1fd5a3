"""`headwater snapshots`: what lies there, without a broker, and without touching it."""

from __future__ import annotations

import json
import re
import threading
from contextlib import closing
from pathlib import Path

import pytest

from consumers.cli import main
from consumers.config import load
from consumers.service.runner import Runner
from consumers.snapshots.format import from_bytes, to_bytes
from consumers.snapshots.store import SnapshotStore
from consumers.transports import open_log
from tests.consumers.feeds import config_text, fill, phishing

FEATURES = sorted(phishing(1)[0][0])
CONFIG = config_text("sqlite:log.db", FEATURES, max_records=50, every_records=10**6)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A service that ran twice; its log is gone, so that nothing can be asked of it."""
    directory = tmp_path_factory.mktemp("ran")
    (directory / "svc.toml").write_text(CONFIG)
    settings = load(directory / "svc.toml")
    log = open_log(settings.input.transport)
    fill(log, phishing(300))
    stop = threading.Event()
    for subscribers in ([lambda event, view: stop.set()], []):
        Runner(settings, log, stop, drain=True, subscribers=subscribers).run()
        stop.clear()
    log.close()
    for file in directory.glob("log.db*"):
        file.unlink()
    return directory


@pytest.fixture
def place(made, tmp_path, monkeypatch) -> Path:
    """A copy of it, as the current directory."""
    import shutil

    shutil.copytree(made, tmp_path / "svc")
    monkeypatch.chdir(tmp_path / "svc")
    return tmp_path / "svc"


def files(place: Path) -> list[Path]:
    return sorted(place.rglob("*.hws"))


def said(capsys, *arguments: str, code: int = 0) -> tuple[str, str]:
    """What `headwater snapshots …` prints on stdout and stderr."""
    assert main(["snapshots", *arguments]) == code
    out = capsys.readouterr()
    assert "Traceback" not in out.err
    return out.out, out.err


def test_list_tells_each_snapshot_and_touches_nothing(place, capsys) -> None:
    """The newest first; not even the time of a file changes."""
    before = {path: path.stat() for path in place.rglob("*")}
    out, _ = said(capsys, "list", "svc.toml")
    rows = json.loads(said(capsys, "list", "svc.toml", "--json")[0])

    newest = from_bytes(files(place)[-1].read_bytes())[0]
    assert [row["position"] for row in rows] == [newest.position, 2]
    assert (rows[0]["entry"], rows[0]["refused"]) == (newest.seq, None)
    assert rows[0]["size"] == files(place)[-1].stat().st_size
    assert rows[0]["clock"].endswith("Z")
    assert 0 <= rows[0]["age_seconds"] < 600
    lines = out.splitlines()
    assert lines[1].split() == ["position", "journal", "entry", "clock", "size", "age", "state"]
    assert lines[3].split()[0] == str(newest.position)
    assert lines[3].split()[-1] == "ok"
    after = {path: path.stat() for path in place.rglob("*")}
    assert {p: (s.st_mtime_ns, s.st_size) for p, s in after.items()} == {
        p: (s.st_mtime_ns, s.st_size) for p, s in before.items()
    }


def test_list_tells_the_age_of_a_snapshot(place, capsys, monkeypatch) -> None:
    """By the clock of this computer."""
    clock = from_bytes(files(place)[-1].read_bytes())[0].now / 1000
    monkeypatch.setattr("consumers.commands.snapshots.time.time", lambda: clock + 7505)
    row = json.loads(said(capsys, "list", "svc.toml", "--json")[0])[0]

    assert row["age_seconds"] == 7505
    assert " 2h 5m " in said(capsys, "list", "svc.toml")[0]


def test_list_without_snapshots_says_so(tmp_path, monkeypatch, capsys) -> None:
    """Before the first run."""
    monkeypatch.chdir(tmp_path)
    Path("svc.toml").write_text(CONFIG)

    where = Path("headwater-state/svc/shard-0")
    for action in ("list", "verify"):
        assert said(capsys, action, "svc.toml")[0].startswith(f"no snapshots in {where}; ")
    assert json.loads(said(capsys, "list", "svc.toml", "--json")[0]) == []
    assert f"no snapshots in {where}" in said(capsys, "show", "svc.toml", code=2)[1]
    assert (
        "expects 0, the only shard" in said(capsys, "list", "svc.toml", "--shard", "1", code=2)[1]
    )


def test_show_tells_what_a_snapshot_knows(place, capsys) -> None:
    """Header, classes, counts and quality; by default of the newest."""
    newest, _ = from_bytes(files(place)[-1].read_bytes())
    told = json.loads(said(capsys, "show", "svc.toml", "--json")[0])

    assert told["position"] == newest.position
    assert told["identity"] == newest.identity
    assert told["configuration"]["model"]["type"] == "GaussianNB"
    assert told["versions"]["numba"]
    assert told["cpu"]["name"]
    assert (told["observations"], told["learned"], told["pending"]) == (300, 300, 0)
    assert told["classes"] == [True, False]
    assert 0.5 < told["accuracy"] < 1
    assert told["positions"] == {"ans[0]": 300, "obs[0]": 300}
    assert told["differs_here"] is None
    out, _ = said(capsys, "show", "svc.toml", "2")
    assert "fingerprint" in out


def test_verify_loads_every_one_into_the_model(place, capsys) -> None:
    """All good is 0."""
    out, _ = said(capsys, "verify", "svc.toml")

    assert out.splitlines()[-1] == "2 snapshots, all files good"


def test_verify_accepts_a_pickle_that_is_written_in_other_bytes(tmp_path, monkeypatch, capsys):
    """A river model that was loaded may be pickled in another order; a start takes it too."""
    monkeypatch.chdir(tmp_path)
    tree = '[[challenger]]\nname = "tree"\ntype = "river:tree.HoeffdingTreeClassifier"\n'
    Path("svc.toml").write_text(CONFIG + tree + "trust_pickle = true\n")
    settings = load(Path("svc.toml"))
    with closing(open_log(settings.input.transport)) as log:
        fill(log, phishing(300))
        Runner(settings, log, threading.Event(), drain=True).run()
    out, _ = said(capsys, "verify", "svc.toml")

    assert out.splitlines()[-1] == "1 snapshot, all good"


def test_without_the_log_it_says_that_only_the_files_were_checked(place, capsys) -> None:
    """No row claims what only the journal knows."""
    out, err = said(capsys, "list", "svc.toml")
    rows = json.loads(said(capsys, "list", "svc.toml", "--json")[0])

    assert err.startswith("headwater: only the files were checked")
    assert "sqlite:log.db does not exist" in err
    assert out.count("file ok") == 2
    assert [row["compared"] for row in rows] == [False, False]


@pytest.fixture
def ran(tmp_path, monkeypatch) -> Path:
    """A service with its log beside it: three snapshots of one journal."""
    monkeypatch.chdir(tmp_path)
    Path("svc.toml").write_text(CONFIG)
    settings = load(Path("svc.toml"))
    with closing(open_log(settings.input.transport)) as log:
        fill(log, phishing(300))
        for after in (1, 3, None):
            run_some(settings, log, after)
    return tmp_path


def run_some(settings, log, commits: int | None, **more: object) -> None:
    """Run to the end of the inputs, or until so many commits are done; snapshot at the stop."""
    stop, done = threading.Event(), []

    def count(event: object, view: object) -> None:
        done.append(event)
        if len(done) == commits:
            stop.set()

    Runner(settings, log, stop, drain=True, subscribers=[count], **more).run()  # type: ignore[arg-type]


def passed_over_by_a_start(caplog) -> tuple[list[int], str]:
    """Positions a start passes over, and what it logs."""
    settings = load(Path("svc.toml"))
    caplog.clear()
    with closing(open_log(settings.input.transport)) as log, caplog.at_level("INFO"):
        run_some(settings, log, None)
    lines = [r for r in caplog.records if "snapshot not used" in r.getMessage()]
    found = [re.search(r"snap(?:shot at |-0*)(\d+)", r.getMessage()) for r in lines]
    return [int(m[1]) for m in found if m], "".join({r.levelname for r in lines})


def test_what_a_rollback_cut_out_is_not_ok(ran, capsys, caplog) -> None:
    """List and verify answer as the next start does, which logs it at info."""
    newest, middle, first = (
        r["position"] for r in json.loads(said(capsys, "list", "svc.toml", "--json")[0])
    )
    assert main(["rollback", "svc.toml", "--to", str(first), "--yes"]) == 0
    capsys.readouterr()
    rows = json.loads(said(capsys, "list", "svc.toml", "--json")[0])
    out, err = said(capsys, "verify", "svc.toml")
    table, _ = said(capsys, "list", "svc.toml")
    Path(next(row["file"] for row in rows if row["state"] == "ok")).unlink()  # the rollback's own
    passed, level = passed_over_by_a_start(caplog)

    unused = [row["position"] for row in rows if row["state"] == "unused"]
    assert unused == [newest, middle]
    assert all(row["compared"] for row in rows)
    assert err == ""
    assert out.splitlines()[-1].endswith("2 of them valid but not used by a start")
    assert table.count("removed from the history by record") == 2
    assert passed == unused
    assert level == "INFO"


def test_snapshots_of_another_journal_are_not_ok(ran, capsys) -> None:
    """After --new-journal those of the old one stay, and no start loads them."""
    settings = load(Path("svc.toml"))
    old = [row["position"] for row in json.loads(said(capsys, "list", "svc.toml", "--json")[0])]
    for file in Path().glob("log.db*"):
        file.unlink()
    with closing(open_log(settings.input.transport)) as log:
        fill(log, phishing(300))
        run_some(settings, log, 1, new_journal=True)
    rows = json.loads(said(capsys, "list", "svc.toml", "--json")[0])

    good = [row for row in rows if row["state"] == "ok"]
    assert len(good) == 1
    assert len(rows) == len(old) + 1
    assert all("of another journal" in row["refused"] for row in rows if row not in good)
    assert len({row["journal"] for row in rows}) == 2


def damage(path: Path, how: str) -> None:
    """Make a file bad in one way."""
    told, state = from_bytes(path.read_bytes())
    if how == "damaged":
        path.write_bytes(path.read_bytes()[:-1])
    elif how == "of another model":
        header = dict(state.header)
        header["machine"] = {**header["machine"], "learner": {"learner": "OtherNB"}}
        path.write_bytes(to_bytes(told, type(state)(header, state.arrays)))
    elif how == "fingerprint":
        changed = type(told)(
            **{n: getattr(told, n) for n in told.__struct_fields__} | {"fingerprint": "0"}
        )
        path.write_bytes(to_bytes(changed, state))


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("damaged", "damaged: its checksum does not match"),
        ("of another model", "OtherNB"),
        ("fingerprint", "have different fingerprints"),
    ],
)
def test_verify_ends_with_1_where_one_is_bad(place, capsys, how, why) -> None:
    """And names it; the others are good all the same."""
    damage(files(place)[-1], how)
    out, err = said(capsys, "verify", "svc.toml", code=1)
    rows = json.loads(said(capsys, "verify", "svc.toml", "--json", code=1)[0])

    bad, good = out.splitlines()
    assert bad.startswith("bad")
    assert why in bad
    assert good.split() == ["ok", "2"]
    assert err.splitlines()[-1].startswith("headwater: 1 of 2 snapshots are bad")
    assert [row["refused"] is None for row in rows] == [False, True]


def test_list_says_why_a_start_would_refuse_one(place, capsys) -> None:
    """Damaged; or of a configuration that has changed since."""
    damage(files(place)[-1], "damaged")
    assert "damaged" in said(capsys, "list", "svc.toml")[0]

    Path("svc.toml").write_text(CONFIG + "[labels]\nhorizon = '1d'\n")
    rows = json.loads(said(capsys, "list", "svc.toml", "--json")[0])
    assert rows[1]["refused"] == ('of other settings (labels.horizon: was "7d", now "1d")')


def test_export_copies_one_and_its_header(place, capsys) -> None:
    """Byte for byte, for its owner only; put into another store it is a snapshot."""
    out, _ = said(capsys, "export", "svc.toml", "2", "kept.hws", "--json")

    source = files(place)[0]
    exported = place / "kept.hws"
    assert exported.read_bytes() == source.read_bytes()
    assert exported.stat().st_mode & 0o777 == 0o600
    assert "position 2" in out
    assert json.loads((place / "kept.hws.json").read_text())["position"] == 2
    store = SnapshotStore(place / "other")
    store.write(*from_bytes(exported.read_bytes()))
    assert next(store.newest(lambda _: None))[0].position == 2


EXPORT = "expected `headwater snapshots export CONFIG POSITION FILE`"


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (
            ["bogus", "svc.toml"],
            2,
            "expected list, show, verify, export, sign as ACTION, got 'bogus'",
        ),
        (["list", "svc.toml", "3"], 2, "expected `headwater snapshots list CONFIG`"),
        (["export", "svc.toml"], 2, f"{EXPORT}, got nothing after CONFIG"),
        (["export", "svc.toml", "2"], 2, f"{EXPORT}, got 2 after CONFIG"),
        (["show", "svc.toml", "3"], 2, "no snapshot at position 3 in"),
        (["show", "no.toml"], 2, "no config file no.toml"),
        (["export", "svc.toml", "2", "svc.toml"], 2, "svc.toml exists; choose another name"),
        (["export", "svc.toml", "2", "svc.toml/x"], 1, "cannot write svc.toml/x"),
    ],
)
def test_wrong_use_is_one_line(place, capsys, arguments, code, line) -> None:
    """What was expected, what came, what to do."""
    _, err = said(capsys, *arguments, code=code)

    assert err.startswith(f"headwater: {line}")
    assert err.count("\n") == 1


def test_damaged_snapshot_is_neither_shown_nor_exported(place, capsys) -> None:
    """There is nothing to believe in it."""
    newest = files(place)[-1]
    position = str(int(newest.stem[5:]))
    damage(newest, "damaged")

    assert "choose an older one" in said(capsys, "show", "svc.toml", position, code=1)[1]
    assert "damaged" in said(capsys, "export", "svc.toml", position, "x.hws", code=1)[1]
    assert not Path("x.hws").exists()
