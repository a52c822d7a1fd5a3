"""`type = "python:MODULE:NAME"`: a model from code of the user, and one line for what is wrong."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from consumers.base.errors import ConfigError, DivergedError, SnapshotError
from consumers.config import parse
from consumers.config.learner import ChallengerConfig, ModelConfig, Trust
from consumers.service.recovery import sources
from consumers.shard.challengers import ChallengerSet, challenger_block
from consumers.shard.models import build, unused
from consumers.snapshots.exported import load_model
from consumers.snapshots.store import open_store
from consumers.timetravel.relearn import learned_again
from stream import GaussianNB, Mixture, RiverClassifier, Schema
from stream.errors import StateError
from tests.consumers.feeds import config_text, fill, phishing

CODE = """
from river import base, compose, linear_model, naive_bayes, preprocessing
from stream import GaussianNB, Mixture

shared = naive_bayes.GaussianNB()
number = 5


def make(l2=0.0, seed=0):
    model = linear_model.LogisticRegression(l2=l2)
    model.seed_given = seed
    return preprocessing.StandardScaler() | model


def own(half_life=None):
    return GaussianNB(half_life=half_life)


def mixed():
    return Mixture(["GaussianNB", {"type": "river:naive_bayes.GaussianNB", "trust_pickle": True}])


def same():
    return shared


def regressor():
    return preprocessing.StandardScaler() | linear_model.LinearRegression()


def transformer():
    return preprocessing.StandardScaler()


def a_class():
    return naive_bayes.GaussianNB


def nothing():
    pass


def learned():
    model = GaussianNB()
    model.learn_one({"a": 1.0}, "x")
    return model


def fails():
    raise ValueError("two\\nlines")


def leaves():
    raise SystemExit(3)


class Unclonable(base.Classifier):
    def __init__(self, depth):
        self._depth = depth

    def learn_one(self, x, y): ...


def unclonable():
    return Unclonable(3)
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package `shop` with the module `models`, as a user would have installed it."""
    package = tmp_path / "code" / "shop"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "models.py").write_text(CODE)
    (package / "broken.py").write_text("1 / 0\n")
    (package / "lacking.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(package.parent)
    yield package / "models.py"
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


def model(name: str, **given: Any) -> ModelConfig:
    return ModelConfig(type=f"python:shop.{name}", **{"trust_python": ("shop",), **given})


@pytest.mark.usefixtures("code")
def test_factory_gets_the_parameters_and_the_seed() -> None:
    """By name; it returns a pipeline of river, and each build another one."""
    learner, other = (build(model("models:make", l2=0.5, seed=7)) for _ in "12")
    two = build(model("models:make", max_classes=2))
    assert isinstance(learner, RiverClassifier)
    assert isinstance(other, RiverClassifier)

    assert str(learner.model) == "StandardScaler | OneVsRest(LogisticRegression)"
    inner = learner.model["LogisticRegression"].classifier  # type: ignore[index]
    assert (inner.l2, inner.seed_given) == (0.5, 7)
    assert two.max_classes == 2
    assert learner.model is not other.model


@pytest.mark.usefixtures("code")
def test_learner_of_stream_is_taken_as_it_is() -> None:
    """Its state needs no pickle; the parameters of the factory are those of the learner."""
    learner = build(model("models:own", half_life=50.0))

    assert isinstance(learner, GaussianNB)
    assert learner.half_life == 50.0
    assert learner.can_save
    assert unused(model("models:own"), Schema.of(a="text")) is None


@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.usefixtures("code")
def test_only_the_configuration_trusts_pickles(trust: bool) -> None:
    """Code that asks for it does not get it."""
    mixed = build(model("models:mixed", trust_pickle=trust))
    assert isinstance(mixed, Mixture)

    assert (mixed.can_save, build(model("models:make", trust_pickle=trust)).can_save) == (
        trust,
    ) * 2


@pytest.mark.usefixtures("code")
def test_module_is_not_imported_without_trust() -> None:
    """Importing it would run its code."""
    with pytest.raises(ConfigError, match=r"set trust_python = \[\"shop.broken\"\]"):
        build(model("broken:make", trust_python=("shop.models", "sho")))
    assert "shop" not in sys.modules


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model:make", "no module 'shop.model'; install its package .* PYTHONPATH"),
        ("models.inner:make", "no module 'shop.models.inner'; install"),
        ("lacking:make", "module shop.lacking needs 'no_such_library', which is not installed"),
        ("broken:make", r"shop.broken cannot be imported \(ZeroDivisionError: .*\); correct it"),
        ("models:mak", "module shop.models has no 'mak'; nearest: make"),
        ("models:number", "number is not callable, but 5; name a function"),
        ("models:same", "same returned the same object twice; return a classifier of river"),
        ("models:regressor", "regressor, Pipeline, and headwater predicts classes; return"),
        ("models:transformer", "returned a StandardScaler, which is no classifier; return"),
        ("models:a_class", "a_class returned the class GaussianNB, not an object; return"),
        ("models:nothing", "nothing returned None, which is no classifier; return a classifier"),
        ("models:learned", "learned returned a model that has learned already; return"),
        ("models:fails", r"fails failed \(ValueError: two lines\); correct it"),
        ("models:leaves", r"leaves failed \(SystemExit: 3\); correct it"),
        ("models:unclonable", r"a Unclonable that cannot be cloned \(AttributeError.*__init__"),
    ],
)
@pytest.mark.usefixtures("code")
def test_what_is_wrong_with_the_code_is_one_line_with_a_next_step(name: str, message: str) -> None:
    """It begins with the section and the type."""
    with pytest.raises(ConfigError, match=message) as caught:
        build(model(name))

    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"[model] python:shop.{name}: ")


@pytest.mark.usefixtures("code")
def test_wrong_parameter_of_the_factory_is_named_with_its_signature() -> None:
    """Before it runs."""
    message = r"make\(l2=0.0, seed=0\) does not take the parameters of \[model\]: .*'l1'"
    with pytest.raises(ConfigError, match=message):
        build(model("models:make", l1=0.5))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"type": "python:shop.models"}, "or \"python:MODULE:FUNCTION\", got 'python:shop.models'"),
        ({"type": "python:shop/models:make"}, "python:MODULE:FUNCTION"),
        ({"type": "python:a:b", "bins": {}}, "bins are not for python: models"),
        ({"type": "python:a:b", "pipeline": ["preprocessing.Normalizer"]}, "pipeline in the code"),
    ],
)
def test_keys_of_other_types_are_refused(given: dict[str, Any], message: str) -> None:
    """When the file is read."""
    with pytest.raises(ValidationError, match=message):
        ModelConfig(**given)


def test_expert_cannot_be_code() -> None:
    """A function that makes the whole mixture can."""
    with pytest.raises(ConfigError, match="an expert cannot be 'python:a:b'; name a function"):
        build(ModelConfig(type="Mixture", parameters={"experts": ["python:a:b"]}))


def test_trust_is_in_no_journal() -> None:
    """Neither in the identity nor in the block of a challenger."""
    text = 'type = "python:a:b"\ntrust_python = ["a"]\nl2 = 0.1\n'
    config = parse(config_text("memory:x", ("a",), model=text))
    trusting = ChallengerConfig(name="c", type="python:a:b", trust_python=("a",))

    identity = config.identity()["model"]
    assert "trust_python" not in identity
    assert (identity["type"], identity["parameters"]) == ("python:a:b", {"l2": 0.1})
    assert "trust_python" not in challenger_block(trusting)


@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.usefixtures("code")
def test_restart_repeats_and_continues_the_predictions(make_service: Callable, trust: bool) -> None:
    """Stopped in the middle, with and without snapshots."""
    text = 'type = "python:shop.models:make"\ntrust_python = ["shop"]\nl2 = 0.01\n'
    changes = {"model": text + f"trust_pickle = {str(trust).lower()}\n"}
    whole, halves = make_service(), make_service()
    for service in (whole, halves):
        fill(service.log, phishing(160))
    whole.run(**changes)
    halves.run(stop_after=2, **changes)
    halves.run(**changes)

    assert bool(halves.snapshots()) is trust
    assert halves.predictions() == whole.predictions()
    assert halves.rebuilt(**changes).diverged is None


def test_code_that_changed_its_parameters_is_found_by_the_snapshot(code: Path) -> None:
    """The state of the old model would go on with the old parameters."""
    before = build(model("models:make", trust_pickle=True))
    before.learn_one({"a": 1.0}, "x")
    code.write_text(CODE.replace("LogisticRegression(l2=l2)", "LogisticRegression(l2=0.3)"))
    del sys.modules["shop.models"]
    after = build(model("models:make", trust_pickle=True))

    with pytest.raises(
        StateError, match=r"parameters of StandardScaler.* have changed: rebuild it"
    ):
        after.load_state(before.to_state())


@pytest.mark.parametrize("name", ["make", "own"])
def test_code_that_changed_is_found_by_the_journal(
    code: Path, make_service: Callable, name: str
) -> None:
    """By the hash of the predictions: river may draw numbers, a Learner must repeat every bit."""
    service = make_service()
    fill(service.log, phishing(120))
    text = f'type = "python:shop.models:{name}"\ntrust_python = ["shop"]\n'
    service.run(model=text)
    code.write_text(CODE.replace("(l2=l2)", "(l2=3.0)").replace("=half_life)", "=5)"))
    del sys.modules["shop.models"]

    if name == "make":
        assert service.rebuilt(model=text).diverged is not None
    else:
        with pytest.raises(DivergedError, match=r"the code of python:shop\.models:own"):
            service.rebuilt(model=text)


CHALLENGER = (
    '[[challenger]]\nname = "mine"\ntype = "python:shop.models:own"\ntrust_python = ["shop"]\n'
)


@pytest.mark.usefixtures("code")
def test_challenger_whose_code_is_not_trusted_any_more_is_dropped(make_service: Callable) -> None:
    """By a removed block too: from a snapshot, and from the journal, without importing it."""
    service = make_service()
    fill(service.log, phishing(200))
    service.run(more=CHALLENGER, stop_after=2, every_records=10)
    del sys.modules["shop.models"]
    service.run(stop_after=2, every_records=10)
    again = service.rebuilt()

    assert again.shard.challenger_set.challengers == {}
    assert "shop.models" not in sys.modules
    assert len(service.snapshots()) > 0
    live = service.rebuilt(more=CHALLENGER)  # trusted: the whole history
    assert live.shard.fingerprint() == again.shard.fingerprint()


@pytest.mark.usefixtures("code")
def test_champion_whose_code_is_not_trusted_stops_the_start() -> None:
    """Its predictions are published, so it cannot be left out."""
    block = {"type": "python:shop.models:own", "parameters": {}}
    found = ChallengerSet({"mine": block})

    assert found.imported(Trust(), ()).challengers == {}
    assert found.imported(Trust(code=frozenset({("mine", "shop.models")})), ("mine",)).challengers
    with pytest.raises(ConfigError, match=r"\[\[challenger\]\] mine: python:.*set trust_python"):
        found.imported(Trust(), ("mine",))


@pytest.mark.usefixtures("code")
def test_snapshot_of_code_is_no_file_for_notebooks(make_service: Callable) -> None:
    """Its code is not in the file, and the file must not import it."""
    service = make_service()
    fill(service.log, phishing(60))
    service.run(model='type = "python:shop.models:own"\ntrust_python = ["shop"]\n')
    del sys.modules["shop.models"]

    with pytest.raises(SnapshotError, match=r"a model of python:.*, whose code is not in the file"):
        load_model(service.snapshots()[-1])
    assert "shop.models" not in sys.modules


@pytest.mark.parametrize("there", ["old", "new"])
@pytest.mark.usefixtures("code")
def test_relearn_needs_trust_for_the_model_of_the_journal_too(
    make_service: Callable, there: str
) -> None:
    """Both models are built, and both have learned the same records."""
    text = 'type = "python:shop.models:make"\n'
    other = 'type = "MixedNB"\n'
    trust = 'trust_python = ["shop"]\n'
    before, after = (text, other) if there == "old" else (other, text)
    service = make_service()
    fill(service.log, phishing(80))
    service.run(model=before + trust)
    config = service.config(model=after + trust)
    both = learned_again(config, service.log, sources(config, service.log), open_store(config, 0))

    assert [both.old.shard.spec.model, both.new.shard.spec.model] == [
        re.search('"(.*)"', part)[1]  # type: ignore[index]
        for part in (before, after)
    ]
    assert both.old.shard.learned == both.new.shard.learned == 80
    untrusting = service.config(model=after)
    with pytest.raises(ConfigError, match="set trust_python"):
        learned_again(untrusting, service.log, sources(config, service.log), open_store(config, 0))
