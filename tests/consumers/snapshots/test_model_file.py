"""A model file gives the very learner, and a damaged or foreign file gives one line."""

from __future__ import annotations

import hashlib
import io
import json
import re
import runpy
import threading
import zipfile
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import numpy as np
import pytest

from consumers.base.errors import ConfigError, SnapshotError
from consumers.base.records import Outgoing
from consumers.config import Config, parse
from consumers.service.live import LiveShard
from consumers.service.recovery import rebuild, sources
from consumers.service.runner import Runner
from consumers.snapshots import model_file
from consumers.snapshots.exported import learned, load_model
from consumers.timetravel.moment import exported
from consumers.transports import open_log
from stream.learner.registry import learners
from tests.consumers.feeds import NOW, feed, fill, phishing

FIELDS = 'count = "numeric"\nflag = "binary"\ncolour = "categorical"\nnote = "text"\n'
NOTES = ("gift card now", "the usual rent", "gift for you")
KEY = "a-secret-of-at-least-16-characters"
MODELS = {
    **{name: f'type = "{name}"' for name in learners()},
    "PerKeyNB": 'per = "colour"',
    "auto": "",
    "bins": 'type = "CategoricalNB"\nbins = { strategy = "mdl" }',
    "bounded": 'type = "CategoricalNB"\nmax_state_bytes = "20KiB"\nmax_classes = 2',
    "fading": 'type = "MixedNB"\nhalf_life = 30',
    "mixture": 'type = "Mixture"\nexperts = ["GaussianNB", {type = "Calibrated", learner = '
    '"CategoricalNB"}]',
}


def row(i: int) -> dict[str, Any]:
    """Fields of every kind. Categories keep coming, so that a bound is met."""
    colour = f"{'long' * 40}-{i}" if i % 3 else "red"
    return {"count": i * 7 % 5, "flag": i % 4 == 0, "colour": colour, "note": NOTES[i % 3]}


def label(i: int) -> str:
    """Depends on the fields."""
    return "spam" if i % 3 == 0 or i % 7 == 0 else "ham"


def configured(directory: Path, model: str = "", more: str = "") -> Config:
    """A service with the labels in the observations."""
    return parse(
        f'name = "svc"\ninput = {{ transport = "memory:{uuid4()}", observations = "obs", '
        f'label = "y" }}\nhttp = {{ enabled = false }}\n[features]\n{FIELDS}[model]\n{model}\n'
        f"[commit]\nmax_records = 50\n{more}",
        directory=directory,
    )


def ran(config: Config, records: int = 70) -> LiveShard:
    """The shard after a run, rebuilt from its journal."""
    log = open_log(config.input.transport)
    for topic in config.topics.values():
        log.create_topic(topic, 1)
    values = [{"id": i, **row(i), "y": label(i)} for i in range(records)]
    lines = [json.dumps(value).encode() for value in values]
    log.append([Outgoing("obs", None, line, NOW + i) for i, line in enumerate(lines)])
    Runner(config, log, threading.Event(), drain=True).run()
    found = sources(config, log)
    live = rebuild(config, log, found, None, end=log.end_offsets([found.journal])[found.journal])
    log.close()
    return live


def written(config: Config, live: LiveShard) -> Path:
    """The exported model."""
    path = config.snapshots.directory.parent / "model.hw"
    path.write_bytes(exported(config, live)[1])
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of naive Bayes on two fields."""
    config = configured(tmp_path, 'type = "MixedNB"')
    return written(config, ran(config, 30))


@pytest.mark.parametrize("kind", MODELS)
def test_loaded_model_is_the_very_learner(tmp_path: Path, kind: str) -> None:
    """The same fingerprint, next predictions and explanations, and the same state after learning on
    up to the same bounds."""
    config = configured(tmp_path, MODELS[kind])
    live = ran(config)
    loaded, own = load_model(written(config, live)), live.shard.champion_learner
    own.declare(live.shard.spec.schema)

    assert loaded.fingerprint() == own.fingerprint()
    assert (loaded.classes, loaded.limits) == (own.classes, own.limits)
    for i in range(70, 90):
        x = row(i)
        assert loaded.predict_proba_one(x) == own.predict_proba_one(x)
        loaded.learn_one(x, label(i))
        own.learn_one(x, label(i))
    assert loaded.overflows == own.overflows
    assert kind != "bounded" or loaded.overflows["values"] > 10
    assert loaded.fingerprint() == own.fingerprint()


def test_loaded_model_of_corrected_labels_is_the_very_learner(make_service, tmp_path: Path) -> None:
    """What was unlearned stays unlearned."""
    changes = {"more": "[labels]\ncorrections = true\n"}
    service = make_service()
    fill(service.log, phishing(120))
    wrong = [r for r in feed(phishing(120), 100) if r.topic == "ans"]
    service.log.append([r._replace(value=r.value.replace(b"true", b"false")) for r in wrong])
    service.run(**changes)
    live, config = service.rebuilt(**changes), service.config(**changes)
    path = written(config, live)

    assert live.shard.view().labels["corrected"] > 20
    assert load_model(path).fingerprint() == live.shard.learner.fingerprint()


def test_promoted_challenger_is_the_model_that_leaves(tmp_path: Path) -> None:
    """With its own parameters and bounds, and whatever [model] is."""
    more = '[[challenger]]\nname = "joint"\ntype = "MixedBayes"\n'
    config = configured(tmp_path, 'type = "MixedNB"', more)
    live = ran(config)
    live.shard.set_challengers(live.shard.challenger_set, "joint")
    path = written(config, live)
    loaded, own = load_model(path), live.shard.champion_learner

    assert type(loaded).__name__ == "MixedBayes"
    assert loaded.fingerprint() == own.fingerprint()
    assert loaded.limits == own.limits
    assert json.loads(zipfile.ZipFile(path).read("model.json"))["source"]["model"] == "joint"


def test_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    """So its hash identifies it; numpy and zipfile read it."""
    config = configured(tmp_path, 'type = "MixedNB"')
    live = ran(config, 30)
    info, data = exported(config, live)
    again = exported(config, live)[1]
    read, state = model_file.from_bytes(data)

    assert data == again
    assert (read, state.fingerprint()) == (info, live.shard.learner.to_state().fingerprint())
    with np.load(io.BytesIO(data)) as arrays:
        assert {*arrays.files} == {*state.arrays, "model.json", "SHA256SUMS"}
        assert np.array_equal(arrays["prior/weight"], state.arrays["prior/weight"])
        sums = arrays["SHA256SUMS"].decode()
    with zipfile.ZipFile(io.BytesIO(data)) as zipped:
        for line in sums.splitlines():
            mark, name = line.split("  ")
            assert hashlib.sha256(zipped.read(name)).hexdigest() == mark


@pytest.mark.parametrize("kind", ["tree.HoeffdingTreeClassifier", "linear_model.ALMAClassifier"])
def test_model_of_river_is_loaded_only_with_trust(tmp_path: Path, kind: str) -> None:
    """Its state is a pickle: exported if the service trusts it, loaded if the reader does. One that
    knows two classes is there once for each."""
    model = f'type = "river:{kind}"\npipeline = [{{ type = "compose.Select", keys = ["count"] }}]\n'
    config = configured(tmp_path, model + "trust_pickle = true", "")
    live = ran(config, 40)
    path = written(config, live)
    untrusted = configured(tmp_path / "other", model)

    with pytest.raises(SnapshotError, match="loading a pickle runs the code in it"):
        load_model(path)
    loaded = load_model(path, trust_pickle=True)
    assert loaded.predict_proba_one(row(50)) == live.shard.learner.predict_proba_one(row(50))
    with pytest.raises(ConfigError, match="exported only with trust_pickle = true"):
        exported(untrusted, ran(untrusted, 40))


@pytest.mark.parametrize("mark", ["", "0" * 64])
@pytest.mark.parametrize("river", [False, True])
def test_model_file_with_another_fingerprint_is_refused(
    tmp_path: Path, mark: str, river: bool
) -> None:
    """Also one without: its description may be changed as the state may."""
    model = 'type = "river:tree.HoeffdingTreeClassifier"\ntrust_pickle = true'
    config = configured(tmp_path, model if river else 'type = "MixedNB"', "")
    info, data = exported(config, ran(config, 30))
    arrays = model_file.from_bytes(data)[1].arrays
    path = tmp_path / "other.hw"
    path.write_bytes(model_file.to_bytes(msgspec.structs.replace(info, fingerprint=mark), arrays))

    assert learned(*model_file.from_bytes(data), trust_pickle=river).classes
    with pytest.raises(SnapshotError, match="fingerprint"):
        load_model(path, trust_pickle=river)


def test_file_that_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    """As the commands do."""
    with pytest.raises(SnapshotError, match=r"none\.hw: No such file or directory; check the name"):
        load_model(tmp_path / "none.hw")
    with pytest.raises(SnapshotError, match="Is a directory; check the path"):
        load_model(tmp_path)


def test_signature_is_checked_where_a_key_is_given(tmp_path: Path) -> None:
    """Without a key a signed file is readable; with it one without the signature is refused."""
    config = configured(tmp_path, 'type = "MixedNB"')
    info, data = exported(config, ran(config, 30))
    arrays = model_file.from_bytes(data)[1].arrays
    (tmp_path / "signed.hw").write_bytes(model_file.to_bytes(info, arrays, KEY))
    (tmp_path / "plain.hw").write_bytes(data)

    assert load_model(tmp_path / "signed.hw", KEY).fingerprint() == info.fingerprint
    assert load_model(tmp_path / "signed.hw").fingerprint() == info.fingerprint
    with pytest.raises(SnapshotError, match="signed with another key"):
        load_model(tmp_path / "signed.hw", KEY + "x")
    with pytest.raises(SnapshotError, match="not signed, and a key was given"):
        load_model(tmp_path / "plain.hw", KEY)


def changed(data: bytes, name: str, value: bytes, **how: Any) -> bytes:
    """The archive with another content of a member, and the list of hashes made to fit."""
    with zipfile.ZipFile(io.BytesIO(data)) as zipped:
        members = {m: zipped.read(m) for m in zipped.namelist()}
    members.pop("SHA256SUMS")
    members[name] = value
    sums = [f"{hashlib.sha256(v).hexdigest()}  {m}\n" for m, v in members.items()]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", **how) as zipped:
        for m, v in {**members, "SHA256SUMS": "".join(sums).encode()}.items():
            zipped.writestr(m, v)
    return out.getvalue()


def npy(shape: str, dtype: str = "<f8", body: bytes = bytes(16)) -> bytes:
    """An npy file whose header claims this."""
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + body


def edited(data: bytes, **keys: Any) -> bytes:
    """The archive with other values in its model.json."""
    document = json.loads(zipfile.ZipFile(io.BytesIO(data)).read("model.json")) | keys
    return changed(data, "model.json", json.dumps(document).encode())


WEIGHT = "prior/weight.npy"
DAMAGED = {
    "cut": (lambda d: d[:-30], "damaged, or not a model file"),
    "flipped": (lambda d: d[:3000] + bytes([d[3000] ^ 1]) + d[3001:], "damaged"),
    "empty": (lambda d: b"", "not a snapshot"),
    "text": (lambda d: b"hello", "not a model file, and not a snapshot"),
    "a zip": (lambda d: zipped(("a.txt", b"x")), "a member twice, or one with another name"),
    "npz": (lambda d: zipped(("a.npy", npy("(2,)"))), "it has no model.json"),
    "bomb": (
        lambda d: changed(d, WEIGHT, bytes(10**7), compression=zipfile.ZIP_DEFLATED),
        "compressed",
    ),
    "half a shape": (lambda d: changed(d, WEIGHT, npy("(9999999")), "damaged: prior/weight.npy"),
    "claims": (lambda d: changed(d, WEIGHT, npy("(10**9,)")), "damaged: prior/weight.npy"),
    "large": (lambda d: changed(d, WEIGHT, npy("(1000000000000,)")), "cannot be <f8 of shape"),
    "negative": (lambda d: changed(d, WEIGHT, npy("(-1, -2)")), "cannot be <f8"),
    "objects": (lambda d: changed(d, WEIGHT, npy("(2,)", "|O")), "cannot be"),
    "shape": (lambda d: changed(d, WEIGHT, npy("(1,)", body=bytes(8))), "'weight': expected shape"),
    "values": (lambda d: changed(d, WEIGHT, npy("(2,)")), "another fingerprint"),
    "traversal": (lambda d: changed(d, "../x.npy", npy("(2,)")), "one with another name"),
    "inner traversal": (lambda d: changed(d, "a/../../x.npy", npy("(2,)")), "with another name"),
    "absolute": (lambda d: changed(d, "/etc/x.npy", npy("(2,)")), "one with another name"),
    "newer": (lambda d: edited(d, version=2), "install a newer one"),
    "other format": (lambda d: edited(d, format="x"), "its format is 'x'"),
    "no fields": (lambda d: edited(d, fields=7), "model.json cannot be read"),
    "another type": (lambda d: edited(d, learner={"type": "X"}), "cannot load its model: type"),
    "no type": (lambda d: edited(d, learner={}), "model.json cannot be read"),
    "type is a number": (lambda d: edited(d, learner={"type": 7}), "model.json cannot be read"),
    "other classes": (
        lambda d: edited(d, labels={"kind": "text", "classes": ["ham"]}),
        "other classes than its state",
    ),
    "huge": (
        lambda d: edited(d, learner={"type": "KNNClassifier", "parameters": {"window": 10**40}}),
        "cannot load its model",
    ),
    "deep": (lambda d: changed(d, "model.json", b"[" * 10**5), "model.json cannot be read"),
    "appended": (lambda d: d + b"x", "bytes before or after the archive"),
    "appended zeros": (lambda d: d + bytes(22), "bytes before or after the archive"),
    "appended comment": (lambda d: d[:-2] + b"\1\0x", "bytes before or after the archive"),
    "inserted": (lambda d: d[:4] + d, "bytes before or after the archive"),
    "NaN": (lambda d: changed(d, "model.json", b'{"format": NaN}'), "NaN is not JSON"),
}


def zipped(*members: tuple[str, bytes]) -> bytes:
    """A zip archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, value in members:
            archive.writestr(name, value)
    return out.getvalue()


def test_damaged_or_foreign_file_is_one_line(model: Path) -> None:
    """It names the file and the fault. No bytes are unpacked, and no memory is taken for claims."""
    data = model.read_bytes()
    for name, (damage, words) in DAMAGED.items():
        model.write_bytes(damage(data))
        with pytest.raises(SnapshotError) as caught:
            load_model(model)
        message = str(caught.value)
        assert message.startswith(f"{model}: "), name
        assert words in message, name
        assert "\n" not in message, name


def test_member_twice_is_refused(model: Path) -> None:
    """zipfile and numpy would read different ones."""
    with (
        pytest.warns(UserWarning, match="Duplicate name"),
        zipfile.ZipFile(model, "a") as archive,
    ):
        archive.writestr("model.json", b"{}")

    with pytest.raises(SnapshotError, match="a member twice"):
        load_model(model)


def test_source_says_where_the_model_comes_from(tmp_path: Path) -> None:
    """Service, shard, journal, position and versions; no wall clock of the export."""
    config = configured(tmp_path, 'type = "MixedNB"')
    live = ran(config, 60)
    info, _ = exported(config, live)

    assert info.source["service"] == info.source["model"] == "svc"
    assert (info.source["position"], info.source["record"]) == (live.position, live.seq)
    assert (info.source["clock"], info.source["learned"]) == (live.now, 60)
    assert "headwater" in info.source["versions"]
    assert msgspec.json.encode(info.source)


def test_program_of_the_page_needs_numpy_only(tmp_path: Path, monkeypatch) -> None:
    """It computes the posterior of GaussianNB from the documented arrays."""
    config = configured(tmp_path, 'type = "GaussianNB"')
    path = written(config, ran(config, 60))
    page = (Path(__file__).parents[3] / "docs" / "model-file.md").read_text()
    (program,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    (tmp_path / "program.py").write_text(program)
    monkeypatch.chdir(path.parent)
    posterior = runpy.run_path(str(tmp_path / "program.py"))["posterior"]
    model = load_model(path)

    assert re.findall(r"^(?:import|from) (\w+)", program, re.MULTILINE) == [
        "json",
        "zipfile",
        "numpy",
    ]
    for x in [*map(row, range(60, 90)), {"count": 3.0}, {"flag": None}]:
        expected = model.predict_proba_one(x)
        assert posterior(x) == pytest.approx(expected, rel=1e-9), x


def test_page_names_every_key_of_the_description(model: Path) -> None:
    """And every member."""
    page = (Path(__file__).parents[3] / "docs" / "model-file.md").read_text()
    with zipfile.ZipFile(model) as archive:
        document, members = json.loads(archive.read("model.json")), archive.namelist()
    layout = page.partition("## Layout")[2]

    assert [key for key in document if f"`{key}`" not in layout] == []
    parts = ("prior/", "gaussian/", "categorical/", "tokens/")
    named = [m.removesuffix(".npy") for m in members if m.startswith(parts)]
    assert len(named) > 15
