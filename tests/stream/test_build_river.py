"""river models by name: their parameters, their seeds, and one line for what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from river import compose, feature_extraction, linear_model, optim, preprocessing

from stream import SchemaError
from stream.compat import build_river

NUMBERS = [{"type": "compose.Select", "keys": ["b", "a"]}, "preprocessing.StandardScaler"]
COLOUR = [{"type": "compose.Select", "keys": ["colour"]}, "preprocessing.OneHotEncoder"]
WORDS = {"type": "feature_extraction.TFIDF", "on": "body", "ngram_range": [1, 2]}
UNION = [{"union": [NUMBERS, COLOUR, WORDS]}]
RECORDS = [
    ({"a": 0.1 * i, "b": 1.7 - i, "colour": "rgb"[i % 3], "body": f"buy {i % 4} now, me"}, i % 2)
    for i in range(60)
]


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


def test_pipeline_of_tables_is_the_one_that_python_writes() -> None:
    """Union, select, arguments, n-grams of a text, an optimizer: the same bits."""
    ours = build_river(
        "linear_model.LogisticRegression",
        {"optimizer": {"type": "river:optim.Adam", "lr": 0.02}, "l2": 0.001},
        UNION,
    )
    numbers = compose.Select("b", "a") | preprocessing.StandardScaler()
    colour = compose.Select("colour") | preprocessing.OneHotEncoder()
    words = feature_extraction.TFIDF(on="body", ngram_range=(1, 2))
    theirs = (numbers + colour + words) | linear_model.LogisticRegression(
        optimizer=optim.Adam(lr=0.02), l2=0.001
    )
    for x, y in RECORDS:
        assert ours.predict_proba_one(x) == pytest.approx(theirs.predict_proba_one(x), abs=1e-12)
        ours.learn_one(x, bool(y))
        theirs.learn_one(x, bool(y))

    assert set(ours[-1].weights) == set(theirs[-1].weights)  # type: ignore[index]
    assert ("buy", "now") in ours[-1].weights  # type: ignore[index]


def test_record_without_a_field_goes_through_the_rest_of_the_union() -> None:
    """river raises a KeyError for it, and nothing of the record would be learned."""
    model = build_river("linear_model.LogisticRegression", {}, UNION)
    for x, y in RECORDS:
        model.learn_one(x, bool(y))
    tfidf = model["TransformerUnion"]["TFIDF"]  # type: ignore[index]
    before = tfidf.n
    model.learn_one({"a": 0.5}, True)

    assert model.predict_proba_one({"colour": "r"})[True] > 0.0
    assert tfidf.n == before == len(RECORDS)


def test_selected_fields_keep_the_order_of_the_record() -> None:
    """river's are in the order of a set of texts: another one, and other bits, in each process."""
    names = [f"field{i}" for i in range(30)]
    select = build_river("naive_bayes.GaussianNB", {}, [{"type": "compose.Select", "keys": names}])

    assert list(select["Select"].transform_one(dict.fromkeys(names, 1.0))) == names  # type: ignore[index]


def test_argument_may_be_a_model_with_a_pipeline_of_its_own() -> None:
    """Inside a list too, with the seed, and from a module in a module of river."""
    forest = {"type": "river:forest.ARFClassifier", "n_models": 2}
    scaled = {
        "type": "river:linear_model.LogisticRegression",
        "loss": {"type": "river:optim.losses.Hinge", "threshold": 0.5},
        "pipeline": [{"type": "preprocessing.StandardScaler", "with_std": False}],
    }
    voting = build_river("ensemble.VotingClassifier", {"models": [forest, scaled]}, seed=9)
    first, second = voting.models  # type: ignore[attr-defined]

    assert (first.n_models, first.seed) == (2, 9)
    assert second["StandardScaler"].with_std is False
    assert second["LogisticRegression"].loss.threshold == 0.5


def test_fields_are_selected_by_the_type_of_their_values() -> None:
    """Numbers and texts, as the model gets them."""
    numbers = {"type": "compose.SelectType", "types": ["float"]}
    texts = {"type": "compose.SelectType", "types": ["str"]}
    union = [{"union": [[numbers, "preprocessing.StandardScaler"], texts]}]
    model = build_river("naive_bayes.GaussianNB", {}, [*union, "preprocessing.OneHotEncoder"])

    assert sorted(model["TransformerUnion"].transform_one({"a": 1.0, "c": "x"})) == ["a", "c"]


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ([{"type": "compose.Select"}], "river:compose.Select needs keys, a list .* got nothing"),
        ([{"type": "compose.Select", "keys": "age"}], "needs keys, a list .* got 'age'"),
        ([{"type": "compose.Select", "key": ["age"]}], "no parameter 'key'; nearest: keys"),
        ([{"type": "compose.SelectType", "types": ["int"]}], "types: expected \"float\" .* 'int'"),
        ([{"type": "feature_extraction.BagOfWord"}], "nearest: feature_extraction.BagOfWords"),
        ([{"type": "preprocessing.StandardScaler", "with_st": True}], "nearest: with_std"),
        ([{"union": ["tree.SGTClassifier"]}], "no transformer 'tree.SGTClassifier'"),
        ([{"union": []}], "union of a pipeline: expected a list of steps, got \\[\\]"),
        ([{"union": ["preprocessing.Normalizer"], "n": 1}], "it has no argument n; remove it"),
        ([[]], "expected transformers such as .* got \\[\\]"),
        ([{"keys": ["age"]}], "expected transformers such as .* got {'keys': \\['age'\\]}"),
        ("preprocessing.Normalizer", "expected a list of steps, got 'preprocessing.Normalizer'"),
    ],
)
def test_wrong_step_is_one_line_that_says_what_a_step_is(pipeline: Any, message: str) -> None:
    """By its form first, then by what river has."""
    with pytest.raises(SchemaError, match=message) as raised:
        build_river("naive_bayes.GaussianNB", {}, pipeline)
    assert "\n" not in str(raised.value)


def test_class_without_its_prefix_is_named_with_it() -> None:
    """A table that only looks like a class would be passed on, and fail at the first record."""
    with pytest.raises(SchemaError, match=r"got 'optim\.Adam'; write river:optim\.Adam"):
        build_river("linear_model.LogisticRegression", {"optimizer": {"type": "optim.Adam"}})
