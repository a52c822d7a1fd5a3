"""Every shipped learner satisfies every law; the laws do find what is broken."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream import GaussianNB
from stream.bayes.classifier import BayesClassifier
from stream.checks import check_laws, yield_laws
from stream.checks.__main__ import shipped
from stream.checks.streams import (
    CLASSES,
    WORDS,
    Records,
    Step,
    run_blocks,
    run_one_by_one,
    takeable,
)
from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN
from stream.data.schema import Label
from tests.seed import share

OTHERS = {
    "sample": GaussianNB(variance="sample"),
    "unsmoothed": GaussianNB(var_smoothing=0),
    "priors": GaussianNB(priors={"first": 0.5, "second": 0.5}),
    "fading": GaussianNB(half_life=20),
    "late_priors": GaussianNB(var_smoothing=0.1, priors={"second": 0.4, "third": 0.6}),
}


def cases():
    """Each law of each learner."""
    for learner in shipped():
        for law in yield_laws(learner):
            yield pytest.param(learner, law, id=f"{type(learner).__name__}-{law.__name__}")


numbers = st.one_of(
    st.none(),
    st.just(float("nan")),
    st.integers(-3, 3),
    st.floats(-1e6, 1e6),
    st.sampled_from([1e100, -1e100, 5e-324, 1e-160, 0.0, -0.0]),
    st.booleans(),
)
features = st.dictionaries(st.sampled_from(["a", "b", "C", "d", "é", "10", "9"]), numbers)
texts = st.fixed_dictionaries({}, optional={"text": st.sampled_from(["", "sun rain", "fog"])})
observations = st.tuples(features, texts).map(lambda pair: {**pair[0], **pair[1]})


@st.composite
def streams(draw: st.DrawFn) -> tuple[Records, list[Step], list[int]]:
    """Records with gaps, late features and late classes; delayed steps; cuts."""
    n = draw(st.integers(1, 15))
    xs = draw(st.lists(observations, min_size=n, max_size=n))
    ys: list[Label] = draw(st.lists(st.sampled_from("pqrs"), min_size=n, max_size=n))
    ws = draw(st.lists(st.sampled_from([1.0, 2.0, 0.25, 3.7]), min_size=n, max_size=n))
    ops = st.sampled_from([PREDICT, LEARN, PREDICT_THEN_LEARN])
    steps = draw(st.lists(st.builds(Step, ops, st.integers(0, n - 1)), min_size=1, max_size=40))
    cuts = draw(st.lists(st.integers(0, len(steps)), max_size=10))
    return Records(xs, ys, ws), steps, cuts


@pytest.mark.parametrize(("learner", "law"), list(cases()))
def test_learner_satisfies_law(learner, law) -> None:
    """With default parameters; others are with the tests of each learner."""
    law(learner)


@pytest.mark.parametrize("learner", OTHERS.values(), ids=OTHERS)
def test_laws_hold_with_other_parameters(learner) -> None:
    """Of the learner that breaks them below."""
    check_laws(learner)


@pytest.mark.parametrize("learner", shipped(), ids=lambda found: type(found).__name__)
@settings(max_examples=share(0.2))
@given(drawn=streams())
def test_any_split_of_any_stream_gives_the_same_bits(learner, drawn) -> None:
    """Blocks cut anywhere, and one-record calls, say and keep the same (I1)."""
    data, steps, cuts = drawn
    data = Records(list(map(takeable(learner), data.xs)), data.ys, data.ws)
    if learner.truths != learner.numbers:  # there a field is of truth values or of numbers
        xs = [{k: int(v) if v is True or v is False else v for k, v in x.items()} for x in data.xs]
        data = Records(xs, data.ys, data.ws)
    whole, cut, single = learner.clone(), learner.clone(), learner.clone()

    said = run_blocks(whole, data, steps, [])

    assert run_blocks(cut, data, steps, cuts) == said
    assert run_one_by_one(single, data, steps) == said
    assert whole.fingerprint() == cut.fingerprint() == single.fingerprint()


BAYES = [found for found in shipped() if isinstance(found, BayesClassifier)]


@pytest.mark.parametrize("learner", BAYES, ids=lambda found: type(found).__name__)
@settings(max_examples=share(0.1))
@given(
    power=st.sampled_from([-1074.0, -1063.0, -1022.0, 40.0]) | st.floats(-1074, 40),
    row=st.integers(0, 23),
)
def test_unlearning_a_record_of_any_weight_leaves_the_others(learner, power, row) -> None:
    """From the least weight up to where the others are below 1e-12 of it.

    The reason is in docs/decisions/naive-bayes.md#rounding-when-a-record-is-unlearned.
    """
    w, rng, taken = 2.0**power, np.random.default_rng(24), takeable(learner)
    xs = [
        taken({"a": float(rng.normal(i % 2)), "b": float(rng.integers(3)), "words": WORDS[i % 3]})
        for i in range(24)
    ]
    ys = [CLASSES[i % 2] for i in range(24)]
    never, undone = learner.clone(), learner.clone()
    never.learn_many(xs, ys)

    undone.learn_many(xs, ys)
    undone.learn_one(xs[row], ys[row], w)
    undone.unlearn_one(xs[row], ys[row], w)

    assert undone.classes == never.classes
    for x in xs:
        expected, got = never.predict_proba_one(x), undone.predict_proba_one(x)
        assert got == pytest.approx(expected, rel=0, abs=1e-9 * max(w, 1.0))


class _Blocky(GaussianNB):
    """Broken: what it says depends on how many steps share a block."""

    def _execute(self, block, label, before, out):
        super()._execute(block, label, before, out)
        out.proba *= 1.0 + len(block) * 1e-12


class _Half(GaussianNB):
    """Broken: it takes the label on before it looks at the features."""

    def learn_one(self, x, y, w=1.0):
        if isinstance(y, str) and len(self._classes) < self._classes.bound:
            self._classes.add(y)
        super().learn_one(x, y, w)


class _Poisoned(GaussianNB):
    """Broken: a mean becomes NaN."""

    def _execute(self, block, label, before, out):
        super()._execute(block, label, before, out)
        moments = self._gaussian.moments
        if moments.mean.size:
            moments.mean[0, 0] = float("nan")
            self._gaussian._take(moments)


class _Curious(GaussianNB):
    """Broken: it takes features on when asked about them."""

    def predict_proba_many(self, xs):
        for name in sorted({name for x in xs for name in x}):
            self._gaussian._features.add(name)
        return super().predict_proba_many(xs)


class _Rounding(GaussianNB):
    """Broken: state loses digits on its way in."""

    def _restore(self, state):
        super()._restore(state)
        moments = self._gaussian.moments
        self._gaussian._take(
            moments._replace(mean=moments.mean.astype("float32").astype("float64"))
        )


class _Weightless(GaussianNB):
    """Broken: it ignores weights."""

    def learn_one(self, x, y, w=1.0):
        super().learn_one(x, y, 1.0)


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (_Blocky, "any_split_gives_the_same_bits"),
        (_Blocky, "a_block_equals_one_record_calls"),
        (_Half, "a_bad_value_is_refused_whole"),
        (_Poisoned, "extremes_never_poison"),
        (_Curious, "predicting_changes_nothing"),
        (_Rounding, "a_restored_learner_goes_on_bit_for_bit"),
        (_Weightless, "weight_two_is_twice"),
    ],
)
def test_a_broken_learner_breaks_its_law(broken, law) -> None:
    """The law that forbids a fault raises AssertionError for a learner with that fault."""
    by_name = {found.__name__: found for found in yield_laws(broken())}

    with pytest.raises(AssertionError):
        by_name[law](broken())


def test_a_law_left_out_by_the_learner_is_not_yielded() -> None:
    """`not_applicable` names it, and the reason."""

    class Exempt(GaussianNB):
        @property
        def not_applicable(self) -> dict[str, str]:
            return {"weight_two_is_twice": "for the test"}

    names = {law.__name__ for law in yield_laws(GaussianNB())}

    assert names - {law.__name__ for law in yield_laws(Exempt())} == {"weight_two_is_twice"}
