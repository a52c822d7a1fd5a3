"""Models of river, served over a real stream, with a kill -9 in the middle."""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consumers.config import load
from consumers.shard.models import build
from consumers.transports import open_log
from stream.evaluate.progressive import progressive
from tests.acceptance.test_kill import DELAY, Files, kill_when
from tests.calling import call
from tests.consumers.feeds import CONFIG, Labelled

RECORDS = 300
FIELDS = {"amount": "numeric", "hour": "numeric", "country": "categorical", "note": "text"}
UNION = """
type = "river:linear_model.LogisticRegression"
optimizer = {type = "river:optim.Adam", lr = 0.02}
trust_pickle = true
pipeline = [
    {union = [
        [{type = "compose.Select", keys = ["amount", "hour"]}, "preprocessing.StandardScaler"],
        [{type = "compose.Select", keys = ["country"]}, "preprocessing.OneHotEncoder"],
        {type = "feature_extraction.TFIDF", on = "note"},
    ]},
]
"""
MINE = """
[[challenger]]
name = "mine"
type = "python:killed_shop.models:make"
trust_python = ["killed_shop"]
trust_pickle = true
n_models = 2
"""
CODE = """
from river import compose, forest

def make(n_models, seed):
    return compose.Discard("note") | forest.ARFClassifier(n_models=n_models, seed=seed)
"""


def records() -> Labelled:
    """Three classes that the fields tell apart, some fields missing."""
    rng = np.random.default_rng(5)
    out: list[tuple[dict[str, Any], Any]] = []
    for _ in range(RECORDS):
        c = int(rng.integers(3))
        x = {
            "amount": float(rng.normal(10 * c)),
            "hour": float(rng.integers(24)),
            "country": str(rng.choice(["FR", "DE", "XX"], p=np.roll([0.6, 0.3, 0.1], c))),
            "note": " ".join(rng.choice(["buy", "now", "refund", "thanks", "late"], size=3)),
        }
        for name in FIELDS:
            if rng.random() < 0.1:
                del x[name]
        out.append((x, ("fine", "fraud", "returned")[c]))
    return out


def test_killed_pipeline_and_code_continue_as_if_nothing_had_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipeline from the configuration as champion, a factory as challenger, and snapshots."""
    package = tmp_path / "killed_shop"
    package.mkdir()
    (package / "models.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    paths = filter(None, (str(tmp_path), os.environ.get("PYTHONPATH")))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    text = CONFIG.format(
        transport="sqlite:log.db",
        features="\n".join(f'{name} = "{kind}"' for name, kind in FIELDS.items()),
        max_records=50,
        every_records=300,
        max_bytes=2**24,
        guarantee="exactly_once",
        model=UNION,
        more=MINE,
    )
    files = Files(tmp_path, records(), text, first=RECORDS - 50)
    kill_when(files, lambda: files.predictions() >= RECORDS // 2)
    files.send_rest()
    call("run", files.config, "--drain", code=0)

    with closing(open_log(f"sqlite:{files.database}")) as log:
        said = [json.loads(value) for value in files.values(log, "svc-predictions")]
        live = files.rebuilt(log)
    assert next(files.store.newest(lambda _: None))
    assert [p["id"] for p in said] == [str(i) for i in range(RECORDS)]
    assert live.diverged is None
    config, view = load(files.config), live.shard.view()
    for model, of in (
        (config.model, view.quality),
        (config.challenger[0], view.challengers[0].quality),
    ):
        *_, expected = progressive(records(), build(model, classes=256), delay=DELAY)
        assert of.scores == expected.scores
    assert view.quality.scores["all"].accuracy > 0.7
    for name in [name for name in sys.modules if name.startswith("killed_shop")]:
        del sys.modules[name]
