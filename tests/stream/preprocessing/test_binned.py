"""Learners behind bins: the laws of learners, and what river's pipelines give."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from river import datasets, naive_bayes
from river import preprocessing as river_preprocessing

from stream import (
    GaussianNB,
    MixedNB,
    RiverClassifier,
    SchemaError,
)
from stream.bayes.categorical import CategoricalNB
from stream.checks import yield_laws
from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN, Block, Rows
from stream.data.schema import Schema
from stream.errors import NotSupportedError
from stream.evaluate.progressive import progressive
from stream.preprocessing import Discretized, Discretizer, MDLDiscretizer

BINNED = {
    "quantile": Discretized(Discretizer(n_bins=3), CategoricalNB()),
    "uniform": Discretized(Discretizer(strategy="uniform", n_bins=4), CategoricalNB()),
    "mdl": Discretized(MDLDiscretizer(), CategoricalNB()),
    "mdl_mixed": Discretized(MDLDiscretizer(n_bins=8), MixedNB()),
    "fixed": Discretized(Discretizer({"a": [999_997, 1e6], "Late": [-1, 0, 1]}), CategoricalNB()),
}


# It builds its learner from `_get_params`, which for one made of two is a recipe, not arguments.
FOREIGN = "merging_what_does_not_fit_is_refused"


@pytest.mark.parametrize("learner", BINNED.values(), ids=BINNED)
def test_learner_behind_bins_satisfies_the_laws(learner) -> None:
    """Blocks, gaps, extremes, bad records, state: as for any learner."""
    for law in yield_laws(learner):
        if law.__name__ != FOREIGN:
            law(learner)


@pytest.mark.parametrize("learner", BINNED.values(), ids=BINNED)
def test_learner_sees_what_the_discretizer_alone_would_show_it(learner) -> None:
    """A loop of the two by hand, one record at a time: learn the bins, transform, learn."""
    rng = np.random.default_rng(7)
    model, bins = learner.clone(), learner.discretizer.clone()
    inner = learner.learner.clone()
    for i in range(700):
        c = int(rng.integers(2))
        x = {"a": 1e6 - c + float(rng.normal()), "Late": float(rng.normal(c)), "flag": bool(c)}
        x = {k: v for k, v in x.items() if rng.random() < 0.8}
        by_hand = inner.predict_proba_one(bins.transform_one(x))
        assert model.predict_proba_one(x) == by_hand
        if isinstance(bins, MDLDiscretizer):
            bins.learn_one(x, "ab"[c], 1.0 + i % 2)
        else:
            bins.learn_one(x, w=1.0 + i % 2)
        inner.learn_one(bins.transform_one(x), "ab"[c], 1.0 + i % 2)
        model.learn_one(x, "ab"[c], 1.0 + i % 2)

    assert model.learner.fingerprint() == inner.fingerprint()
    assert model.discretizer.to_state() == bins.to_state()


def test_learned_bins_before_a_river_model_are_rivers_pipeline() -> None:
    """`Discretized(bins, model)` is `bins | model`."""
    rng = np.random.default_rng(9)

    def model():
        return river_preprocessing.OneHotEncoder() | naive_bayes.BernoulliNB()

    ours = Discretized(Discretizer(n_bins=4), RiverClassifier(model()))
    pipeline = Discretizer(n_bins=4) | model()
    for _ in range(200):
        c = int(rng.integers(2))
        x = {"a": float(rng.normal(c)), "b": float(rng.normal(-c))}
        if ours.classes:
            expected = pipeline.predict_proba_one(x)
            assert ours.predict_proba_one(x) == pytest.approx(expected, rel=1e-12)
        ours.learn_one(x, c)
        pipeline.learn_one(x, c)


@pytest.mark.parametrize("learner", BINNED.values(), ids=BINNED)
def test_rows_of_a_schema_give_what_dicts_give(learner) -> None:
    """The service's columns, truth values declared, and the dicts of a notebook: same bits."""
    rng = np.random.default_rng(4)
    schema = Schema.of(a="numeric", Late="numeric", flag="binary", colour="categorical")
    by_dict, by_schema = learner.clone(), learner.clone()
    xs = [
        {"a": 1e6 + float(rng.normal()), "Late": float(rng.normal()), "flag": bool(i % 3),
         "colour": "rgb"[i % 3]}
        for i in range(60)
    ]  # fmt: skip
    ys = ["ab"[i % 2] for i in range(60)]
    rows = Rows.empty(schema, len(xs))
    rows.numeric[:] = [[x["a"], x["Late"], float(x["flag"])] for x in xs]
    rows.categorical[:, 0] = [x["colour"] for x in xs]
    prepared = by_schema.prepare(rows)
    by_schema.progressive_many(Block.of(by_schema.prepare(prepared), LEARN, ys))
    by_dict.learn_many(xs, ys)
    said = by_schema.progressive_many(Block.of(prepared, PREDICT)).dicts()

    assert by_schema.refusals(rows) == {}
    assert by_schema.fingerprint() == by_dict.fingerprint()
    assert said == by_dict.predict_proba_many(xs)


@pytest.mark.parametrize("learner", BINNED.values(), ids=BINNED)
def test_rows_wait_for_their_labels_as_numbers_or_fixed_bins(learner) -> None:
    """Late labels meet the bins of their own time, in blocks of any size (I1)."""
    xs = [({"a": x["age_of_domain"] + i / 9, "Late": i % 7}, y)
          for i, (x, y) in enumerate(islice(datasets.Phishing(), 400))]  # fmt: skip
    ends = []
    for size in (1, 64, 400):
        model = learner.clone()
        *_, quality = progressive(xs, model, delay=50, block_size=size)
        ends.append((model.fingerprint(), quality.scores["all"]))

    assert ends == [ends[0]] * 3
    assert ends[0][1].scored > 340


def test_feature_that_is_number_and_text_has_one_column() -> None:
    """A block of both learns what one-record calls learn."""
    xs = [{"a": 1.0}, {"a": "red"}, {"a": 2.0}, {}]
    for learner in (*BINNED.values(), Discretized(Discretizer({"a": [0, 1]}), CategoricalNB())):
        block, single = learner.clone(), learner.clone()
        block.learn_many(xs, "abab")
        for x, y in zip(xs, "abab", strict=True):
            single.learn_one(x, y)
        assert block.fingerprint() == single.fingerprint()


def test_what_the_learner_says_of_itself_it_says_of_bins() -> None:
    """Joint likelihood, explanation and parameters are those of the bins; no line through them."""
    for learner in [found for name, found in BINNED.items() if not name.startswith("mdl")]:
        model, xs = learner.clone(), [{"a": 1e6, "c": True}, {"a": 2e6}, {"a": 2e6 + 1}]
        model.learn_many(xs, "aba")
        seen = model.discretizer.transform_one(xs[0]) | {"c": "true"}
        joint, why = model.joint_log_likelihood_one(xs[0]), model.explain_one(xs[0])

        assert joint == model.learner.joint_log_likelihood_one(seen)
        assert joint["a"] > joint["b"]
        assert why == model.learner.explain_one(seen)
        assert set(why.contributions) == {"(prior)", "a", "c"}
        assert model.n_parameters == model.learner.n_parameters > 0
        with pytest.raises(NotSupportedError, match="CategoricalNB"):
            model.linear_view()


def test_fixed_edges_leave_the_learner_its_abilities() -> None:
    """It unlearns and merges; with learned bins it says why it cannot."""
    fixed, learned = BINNED["fixed"].clone(), BINNED["quantile"].clone()
    for model in (fixed, learned):
        model.learn_many([{"a": 1e6}, {"a": 2e6}], "ab")
    one = fixed.clone()
    one.learn_many([{"a": 1e6}, {"a": 2e6}], "ab")
    one.merge(fixed)
    one.unlearn_one({"a": 2e6}, "b", 2.0)

    assert one.predict_proba_one({"a": 1e6})["a"] > fixed.predict_proba_one({"a": 1e6})["a"]
    with pytest.raises(SchemaError, match="merge"):
        one.merge(BINNED["quantile"].clone().learner)
    for call in (lambda: learned.merge(learned), lambda: learned.unlearn_one({"a": 1e6}, "a")):
        with pytest.raises(NotSupportedError, match="learned bins have changed"):
            call()


@pytest.mark.parametrize("learner", [GaussianNB(), naive_bayes.GaussianNB(), "GaussianNB"])
def test_learner_of_numbers_behind_bins_is_refused(learner) -> None:
    """It would never see them."""
    with pytest.raises(SchemaError, match="learner of categories"):
        Discretized(Discretizer(), learner)


@pytest.mark.parametrize("edges", [None, {"a": [0.5, 1.5]}], ids=["learned", "fixed"])
def test_bins_are_explained_in_a_block_as_one_by_one(edges) -> None:
    """Each prediction by the bins and counts it was made from; the shares sum to its log-odds."""
    xs = [{"a": float(i % 3), "b": True, "c": "x"} for i in range(12)]
    ys = ["p" if i % 3 else "q" for i in range(12)]
    whole, single = (Discretized(Discretizer(edges, n_bins=3), MixedNB()) for _ in range(2))
    raw = whole.columns(xs)
    block = Block.of(whole.prepare(raw), PREDICT_THEN_LEARN, ys)
    one_by_one = []
    for x, y in zip(xs, ys, strict=True):
        one_by_one.append(single.explain_one(x) if len(single.classes) > 1 else None)
        single.learn_one(x, y)

    said, why = whole.run_explained(block, raw, 9)

    assert why == one_by_one
    for proba, each in list(zip(said.proba, why, strict=True))[2:]:
        odds = np.log(max(proba)) - np.log(min(proba))
        assert each.log_odds == pytest.approx(odds)
    assert set(why[-1].contributions) == {"(prior)", "a", "b", "c"}
