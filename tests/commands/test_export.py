"""`headwater export`: the model as a file, beside a running service."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from pathlib import Path

import pytest

import headwater
from consumers.base.errors import SnapshotError
from consumers.base.records import Partition
from consumers.cli import main
from consumers.config import load
from consumers.service.runner import Runner
from consumers.snapshots.exported import load_model
from consumers.snapshots.store import open_store
from consumers.transports import open_log
from stream import State
from stream.errors import StateError
from tests.consumers.feeds import config_text, fill, phishing

Said = pytest.CaptureFixture[str]


@pytest.fixture
def ran(tmp_path: Path, capsys: Said) -> str:
    """A service that has drained 300 records on the embedded log; its configuration."""
    url = f"sqlite:{tmp_path / 'log.db'}"
    with closing(open_log(url)) as log:
        fill(log, phishing(300))
    path = tmp_path / "svc.toml"
    path.write_text(config_text(url, sorted(phishing(1)[0][0])))
    assert main(["run", str(path), "--drain"]) == 0
    capsys.readouterr()
    return str(path)


def test_exported_model_is_the_one_of_that_moment(ran: str, tmp_path: Path, capsys: Said) -> None:
    """The report names it; Python loads it without a configuration, and it learns on."""
    for name, at in (("then", ["--at", "4"]), ("now", [])):
        assert main(["export", ran, str(tmp_path / f"{name}.hw"), *at, "--json"]) == 0
    then, now = map(json.loads, capsys.readouterr().out.splitlines())
    model, newest = (headwater.load(tmp_path / f"{name}.hw") for name in ("then", "now"))
    snapshot = load_model(sorted(open_store(load(Path(ran))).directory.rglob("*.hws"))[-1])

    assert model.fingerprint() == then["fingerprint"]
    assert newest.fingerprint() == now["fingerprint"] == snapshot.fingerprint()
    assert (then["position"], then["learned"]) == (4, 25)
    assert now["learned"] == 300
    assert then["learner"] == {"type": "GaussianNB", "parameters": {}}
    model.learn_one(*phishing(1)[0])
    assert model.fingerprint() != then["fingerprint"]


def test_export_beside_a_running_service_leaves_it_alone(
    ran: str, tmp_path: Path, capsys: Said
) -> None:
    """It is not fenced, and commits afterwards."""
    config, stop = load(Path(ran)), threading.Event()
    codes = []

    def exporting(event, view) -> None:
        if not codes:
            codes.append(main(["export", ran, str(tmp_path / "model.hw")]))

    with closing(open_log(config.input.transport)) as log:
        fill(log, phishing(40))
        view = Runner(config, log, stop, drain=True, subscribers=[exporting]).run()

    shown = capsys.readouterr().out
    assert codes == [0]
    assert view is not None
    assert view.records == 680
    assert "2 classes (True, False)" in shown
    assert "model       svc (GaussianNB) at journal position" in shown


def test_model_file_is_not_a_saved_state_and_says_what_reads_it(ran: str, tmp_path: Path) -> None:
    """`State.from_bytes` called an exported model damaged."""
    path = tmp_path / "model.hw"
    assert main(["export", ran, str(path)]) == 0

    with pytest.raises(StateError, match=r"headwater\.load"):
        State.from_bytes(path.read_bytes())


@pytest.mark.parametrize("damage", ["cut", "flipped", "other"])
def test_snapshot_that_is_damaged_gives_no_model(ran: str, tmp_path: Path, damage: str) -> None:
    """One line says which file, and what is wrong with it."""
    source = sorted(open_store(load(Path(ran))).directory.rglob("*.hws"))[-1]
    path, data = tmp_path / "then.hws", bytearray(source.read_bytes())
    data[len(data) // 2] ^= damage == "flipped"
    path.write_bytes({"cut": data[:-1], "flipped": data, "other": b"x" + data}[damage])

    with pytest.raises(SnapshotError, match=r"then\.hws: (damaged|not a model file)"):
        load_model(path)


def test_export_that_cannot_be_written_is_one_line(ran: str, tmp_path: Path, capsys: Said) -> None:
    """And one that can is for its owner only, as every snapshot is; a file is never replaced."""
    (tmp_path / "file").touch()
    bad, good = tmp_path / "file" / "x.hw", tmp_path / "x.hw"

    assert main(["export", ran, str(bad), "--at", "4"]) == 1
    assert f"cannot write {bad}" in capsys.readouterr().err.splitlines()[-1]
    assert main(["export", ran, str(good), "--at", "4"]) == 0
    assert good.stat().st_mode & 0o777 == 0o600
    assert main(["export", ran, str(good)]) == 2
    assert "exists already" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    "kind",
    ["MixedNB", "GaussianNB", "GaussianBayes", "CategoricalNB", "MultinomialNB", "BernoulliNB"],
)
def test_exported_model_takes_values_by_the_kinds_of_the_service(
    tmp_path: Path, capsys: Said, kind: str
) -> None:
    """Numbers, truth values, codes and texts of a dict: the probabilities the service predicts."""
    url, path = f"sqlite:{tmp_path / 'log.db'}", tmp_path / "kinds.toml"
    path.write_text(
        f'name = "svc"\ninput = {{ transport = "{url}", observations = "obs", label = "y" }}\n'
        f'model = {{ type = "{kind}" }}\nhttp = {{ enabled = false }}\n[features]\n'
        'amount = "numeric"\nnote = "text"\nurgent = "binary"\nzip = "categorical"\n'
    )
    xs = [
        {"amount": i % 7 + (i % 3) / 3, "zip": 8000 + i % 4, "urgent": i % 2, "note": note}
        for i, note in enumerate(["gift card urgent", "the usual rent", "gift for you"] * 20)
    ]
    lines = [{"id": str(i), **x, "y": i % 3 == 0} for i, x in enumerate(xs)]
    for name, part in (("first", lines[:-1]), ("last", lines[-1:])):
        file = tmp_path / f"{name}.jsonl"
        file.write_text("\n".join(map(json.dumps, part)))
        assert main(["produce", "obs", str(file), "--config", str(path)]) == 0
        assert main(["run", str(path), "--drain"]) == 0
        if name == "first":
            at = ["--at", "9999-01-01T00:00:00Z", str(tmp_path / "then.hw")]
            assert main(["export", str(path), *at]) == 0
    with closing(open_log(url)) as log:
        start = {Partition("svc-predictions", 0): 0}
        *_, last = (part.values[-1] for part in log.read(start, log.end_offsets(list(start))))

    model = load_model(tmp_path / "then.hw")
    made = {label: round(p, 15) for label, p in model.predict_proba_one(xs[-1]).items()}
    assert made == {label: round(p, 15) for label, p in json.loads(last)["probabilities"]}


def test_model_of_own_code_is_refused_before_the_replay(
    ran: str, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its code would not be in the file. So is one of river that the service does not save."""
    path = Path(ran)
    for kind, words in (
        ("python:models:forest", "python:models:forest cannot be exported"),
        ("river:tree.HoeffdingTreeClassifier", "exported only with trust_pickle = true"),
    ):
        service = kind.partition(":")[0]
        text = path.read_text().replace('"GaussianNB"', f'"{kind}"')
        other = path.with_name(f"{service}.toml")
        other.write_text(text.replace('name = "svc"', f'name = "{service}"'))
        if service == "river":
            assert main(["run", str(other), "--drain"]) == 0
        else:
            other.write_text(text)
        capsys.readouterr()
        assert main(["export", str(other), str(path.with_name("x.hw"))]) == 2
        assert words in capsys.readouterr().err
