"""river models by name: their parameters, their seeds, and one line for what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from stream import SchemaError
from stream.compat import build_river


def test_built_model_has_its_parameters_and_its_seed_in_every_part() -> None:
    """A seed of its own stays; a nested class gets the same."""
    bagging = build_river(
        "ensemble.BaggingClassifier", {"model": "river:forest.ARFClassifier"}, [], 9
    )
    own = build_river("forest.ARFClassifier", {"seed": 4, "n_models": 2}, seed=9)

    assert (bagging.seed, bagging.model.seed) == (9, 9)  # type: ignore[attr-defined]
    assert (own.seed, own.n_models) == (4, 2)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tree.HoefdingTree",), "no classifier 'tree.HoefdingTree'; nearest: tree.Hoeff"),
        (("HoeffdingTreeClassifier",), "nearest: tree.HoeffdingTreeClassifier, "),
        (("os.system",), "river has no classifier 'os.system'"),
        (("base.Classifier",), "river has no classifier 'base.Classifier'"),
        (("tree.hoeffding_tree.HoeffdingTree",), "river has no classifier"),
        (("tree.typing",), "river has no classifier"),
        (("",), "river has no classifier ''"),
        (("preprocessing.StandardScaler",), "no classifier 'preprocessing.StandardScaler'"),
        (("naive_bayes.GaussianNB", {}, ["tree.SGTClassifier"]), "no transformer 'tree.SGT"),
        (("tree.HoeffdingTreeClassifier", {"max_dept": 3}), "'max_dept'; nearest: max_depth"),
        (("naive_bayes.GaussianNB", {"a": 1}), "nearest: none: it has no parameters"),
        (("ensemble.BaggingClassifier",), "cannot be built: TypeError: .*'model'"),
        (
            ("ensemble.BaggingClassifier", {"model": "river:tree.No"}),
            "river has no class 'tree.No'",
        ),
    ],
)
def test_wrong_name_or_parameter_is_one_line_with_near_names(
    arguments: tuple[Any, ...], message: str
) -> None:
    """Only public classes under river, of the right kind; the message names what is near."""
    with pytest.raises(SchemaError, match=message) as raised:
        build_river(*arguments)
    assert "\n" not in str(raised.value)
    assert str(raised.value).count(",") <= 2
