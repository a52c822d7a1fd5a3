"""Records whose features come and go, and values at the ends of what a double holds."""

from __future__ import annotations

import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from stream import (
    BernoulliNB,
    Block,
    CategoricalBayes,
    CategoricalNB,
    GaussianBayes,
    GaussianNB,
    KNNClassifier,
    Learner,
    MixedBayes,
    MixedNB,
    MultinomialNB,
    NotLearnedError,
    SchemaError,
    State,
)
from stream.data.block import PREDICT_THEN_LEARN
from tests.programs.ways import infinite


def in_one_block(learner: Learner, xs: list, ys: list) -> list[dict]:
    """Each record predicted, then learned."""
    block = Block.of(learner.rows(xs), PREDICT_THEN_LEARN, ys)
    return learner.progressive_many(block).dicts()


def by_ones(learner: Learner, xs: list, ys: list) -> list[dict]:
    """The same by one-record calls."""
    out = []
    for x, y in zip(xs, ys, strict=True):
        out.append(learner.predict_proba_one(x))
        learner.learn_one(x, y)
    return out


@pytest.mark.parametrize("make", [GaussianNB, MixedNB])
def test_a_feature_that_pauses_while_weights_are_scaled_down_stays_alive(make) -> None:
    """A ninth feature in a third of the records, across a rescaling of the weights."""
    rng = Random(1)
    xs, ys = [], []
    for i in range(400):
        y = rng.choice("ab")
        x = {f"f{j}": rng.gauss(0, 1) for j in range(8)}
        if i % 3 == 0:
            x["ninth"] = rng.gauss(3.0 if y == "a" else -3.0, 1)
        xs.append(x)
        ys.append(y)
    one, other = make(half_life=2), make(half_life=2)

    assert by_ones(one, xs, ys) == in_one_block(other, xs, ys)
    assert one.fingerprint() == other.fingerprint()


def test_a_sample_variance_that_fades_is_the_same_by_one_record_and_by_a_block() -> None:
    """n - 1 counts the last record's weight, also without a block."""
    model = GaussianNB(variance="sample", half_life=3)
    for i, y in enumerate("abbaabab" * 3):
        model.learn_one({"v": float(i % 5)}, y)
    x = {"v": 1.5}

    assert model.predict_proba_one(x) == model.predict_proba_many([x])[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianBayes(ridge=0.1),
        lambda: GaussianBayes("pooled", ridge=0.1),
        lambda: MixedBayes(ridge=0.1),
        lambda: GaussianBayes(shrinkage=0.3),
    ],
)
def test_a_second_feature_changes_no_earlier_answer_of_its_block(make) -> None:
    """One numeric feature is a matrix of one row, not independent features."""
    xs = [{"a": float(v)} for v in (1, 2, 4, 3, 7, 5)] + [{"a": 1.0, "b": 2.0}]
    ys = list("ababaab")
    one, other = make(), make()

    assert by_ones(one, xs, ys) == in_one_block(other, xs, ys)
    assert one.fingerprint() == other.fingerprint()


def test_the_ridge_counts_once_with_one_feature() -> None:
    """Full and diagonal are one model where there is one feature."""
    full, diagonal = GaussianBayes(ridge=0.5), GaussianBayes("diagonal", ridge=0.5)
    for i, y in enumerate("aababbab" * 40):
        for model in (full, diagonal):
            model.learn_one({"v": float(i % 7) + (y == "b")}, y)

    # The ridge of a matrix is rounded to 1/64.
    assert full.predict_proba_one({"v": 3.0})["a"] == pytest.approx(
        diagonal.predict_proba_one({"v": 3.0})["a"], abs=0.005
    )


def test_a_wider_row_beside_it_changes_no_digit_of_a_prediction() -> None:
    """More than eight features: sums do not depend on what else is in the block."""
    rng = Random(2)
    model = GaussianNB()
    for _ in range(200):
        y = rng.choice("abc")
        x = {f"f{j}": rng.gauss("abc".index(y), 1 + j) for j in range(20)}
        model.learn_one(dict(rng.sample(sorted(x.items()), rng.randrange(1, 21))), y)
    for _ in range(300):
        x = {f"f{j}": rng.gauss(0, 3) for j in rng.sample(range(20), rng.randrange(1, 12))}
        wide = {f"f{j}": 1.0 for j in range(20)}
        alone = model.predict_proba_one(x)

        assert model.predict_proba_many([x])[0] == alone
        assert model.predict_proba_many([wide, x])[1] == alone


def test_what_was_learned_of_a_class_of_zeros_can_be_taken_back() -> None:
    """Value and anchor are 0, so neither says how large rounding is."""
    rng = Random(3)
    for _ in range(100):
        model = GaussianNB()
        learned = [({"v": 0.0}, "zeros")] * 4
        learned += [({"v": rng.gauss(0, 1)}, rng.choice(["zeros", "other"])) for _ in range(5)]
        for x, y in learned:
            model.learn_one(x, y)
        rng.shuffle(learned)
        for x, y in learned:
            model.unlearn_one(x, y)

        assert model.classes == []
        assert model.features == []


def test_a_small_weight_outlives_a_large_one() -> None:
    """Unlearning a record of weight 10**6 leaves the class what holds 10**-4."""
    for model in (GaussianNB(), MixedNB(), GaussianBayes(), CategoricalNB(), MultinomialNB()):
        model.learn_one({"v": 2.0}, "a", w=1e6)
        model.learn_one({"v": 2.0}, "a", w=1e-4)
        model.unlearn_one({"v": 2.0}, "a", w=1e6)

        assert model.classes == ["a"]
        model.unlearn_one({"v": 2.0}, "a", w=1e-4)
        assert model.classes == []


def test_a_record_that_was_not_learned_is_still_refused_after_others_were_taken_back() -> None:
    """What was taken back says what rounding is, and no more."""
    model = GaussianNB()
    for v in (0.0, 0.0, 1.0, 2.0):
        model.learn_one({"v": v}, "a")
    model.unlearn_one({"v": 2.0}, "a")

    with pytest.raises(NotLearnedError, match="too far"):
        model.unlearn_one({"v": 5.0}, "a")


def test_threads_that_ask_at_once_get_their_own_answers() -> None:
    """A prediction is pure, so it shares no memory with another."""
    rng = Random(4)
    for model in (GaussianNB(), GaussianBayes(), MixedNB(), KNNClassifier()):
        for _ in range(60):
            y = rng.choice("ab")
            model.learn_one({f"f{j}": rng.gauss("ab".index(y), 1) for j in range(6)}, y)
        queries = [{f"f{j}": rng.gauss(0.5, 2) for j in range(6)} for _ in range(8)]
        expected = [model.predict_proba_one(x) for x in queries]
        asks = [list(range(len(queries))) for _ in range(4)]

        def ask(order, model=model, queries=queries, expected=expected):
            rounds = itertools.chain.from_iterable([order] * 150)
            return sum(model.predict_proba_one(queries[i]) != expected[i] for i in rounds)

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(ask, asks)) == 0


def test_the_names_of_features_decide_nothing_without_a_ridge() -> None:
    """A singular class has a density on its support, whichever features carry the pivots."""
    rng = Random(5)
    answers = []
    records = [[rng.gauss(0, 1) for _ in range(3)] for _ in range(12)]
    line = [[v, 3 * v, -v + 1] for v in (0.5, 1.0, 2.0, -1.0)]
    for order in itertools.permutations("xyz"):
        model = GaussianBayes(ridge=0)
        for values in records:
            model.learn_one(dict(zip(order, values, strict=True)), "cloud")
        for values in line:
            model.learn_one(dict(zip(order, values, strict=True)), "line")
        answers.append(model.predict_proba_one(dict(zip(order, (0.2, 0.6, 0.8), strict=True))))

    for answer in answers[1:]:
        assert answer == pytest.approx(answers[0], rel=1e-9)


@pytest.mark.parametrize("scale", [1e-170, 5e-310, 1e-60, 1e90])
def test_units_do_not_matter_however_small(scale) -> None:
    """Squares of values near 1e-170 underflow; the answers do not."""
    makers = [
        GaussianNB,
        lambda: GaussianNB(half_life=5),
        lambda: GaussianNB(variance="sample"),
        MixedNB,
        GaussianBayes,
        lambda: GaussianBayes("diagonal"),
        lambda: GaussianBayes("pooled", ridge=0),
        MixedBayes,
    ]
    for make in makers:
        plain, scaled, rng = make(), make(), Random(6)
        for _ in range(60):
            y = rng.choice("ab")
            x = {n: rng.gauss(1.0 * (y == "b"), 1) for n in "pq"}
            plain.learn_one(x, y)
            scaled.learn_one({n: v * scale for n, v in x.items()}, y)
        for _ in range(20):
            x = {n: rng.gauss(0.5, 1) for n in "pq"}
            small = {n: v * scale for n, v in x.items()}
            # Of numbers as small as 5e-310 half the digits are gone.
            rel = 1e-6 if scale > 1e-300 else 1e-2

            assert scaled.predict_proba_one(small) == pytest.approx(
                plain.predict_proba_one(x), rel=rel, abs=1e-9
            )
        restored = make().load_state(State.from_bytes(scaled.to_state().to_bytes()))
        assert restored.predict_proba_one(small) == scaled.predict_proba_one(small)
        assert restored.fingerprint() == scaled.fingerprint()


def test_a_large_value_after_tiny_ones_is_learned_all_the_same() -> None:
    """The scale of a feature gives way; merging and taking back keep it."""
    values = [1e-170, 3e-170, -2e-170, 5.0, 7.0, 1e-170, 6.0]
    for make in (GaussianNB, GaussianBayes):
        whole, first, second = make(), make(), make()
        for i, v in enumerate(values):
            y = "a" if abs(v) < 1 else "b"
            whole.learn_one({"v": v}, y)
            (first if i < 3 else second).learn_one({"v": v}, y)
        merged = first.merge(second)
        x = {"v": 6.5}

        assert merged.predict_proba_one(x) == pytest.approx(whole.predict_proba_one(x), rel=1e-9)
        assert whole.predict_proba_one(x)["b"] > 0.99
        for v in (5.0, 7.0, 6.0):
            merged.unlearn_one({"v": v}, "b")
        assert merged.classes == ["a"]


FAR_ANCHORS = [
    GaussianNB,
    lambda: GaussianNB(half_life=50),
    MixedNB,
    GaussianBayes,
    lambda: GaussianBayes("diagonal"),
    lambda: GaussianBayes("pooled", ridge=0),
    MixedBayes,
]


@pytest.mark.parametrize("make", FAR_ANCHORS)
def test_a_mean_that_rounds_to_zero_has_no_sign_that_a_block_loses(make) -> None:
    """The mean of 5e-324 and 0, once a large value gives the feature its scale back."""
    xs = [{"v": 5e-324}, {"v": 0.0}, {"v": 1e15}, {}, {"v": 2.0}]
    ys = ["a", "a", "b", "a", "b"]
    for merging in (False, True):
        models = [make(), make()]
        for model, learn in zip(models, (by_ones, in_one_block), strict=True):
            if merging:
                large = make()
                large.learn_one(xs[2], ys[2])
                model.learn_many(xs[:2], ys[:2])
                model.merge(large)
            rest = 3 if merging else 0
            learn(model, xs[rest:], ys[rest:])

        assert models[0].fingerprint() == models[1].fingerprint()


@pytest.mark.parametrize("make", FAR_ANCHORS)
@pytest.mark.parametrize("far", [1e100, -1e60, 1.0])
def test_tiny_values_after_a_far_one_are_not_magnified_with_it(make, far) -> None:
    """The anchor's record was unlearned: all squares are 0, but what is left lies far from it."""
    for merged in (False, True):
        model, tiny, whole = make(), make(), make()
        model.learn_one({"v": 0.0}, "a")
        for each in (model, whole):
            each.learn_one({"v": far}, "a")
        model.unlearn_one({"v": 0.0}, "a", age=1)
        for v in (1e-170, 2e-170, 0.0):
            (tiny if merged else model).learn_one({"v": v}, "b")
            whole.learn_one({"v": v}, "b")
        if merged:
            model.merge(tiny)
        for each in (model, whole):
            each.learn_one({"v": far * 0.9}, "a")

        assert infinite(model) == []
        for v in (far, 0.0, 1e-170, far / 2):
            answer = model.predict_proba_one({"v": v})
            assert answer == pytest.approx(whole.predict_proba_one({"v": v}), rel=1e-6, abs=1e-9)


def test_tiny_values_after_a_class_of_its_own_spread_keep_it() -> None:
    """Over all classes only rounding was left of the squares, but not of this class's own."""
    model = GaussianNB()
    for v in (0.0, -1.0, 1.0):
        model.learn_one({"v": v}, "a")
    for v in (-1e9, 1e9):
        model.learn_one({"v": v}, "b")
    for v in (1e9, -1e9):
        model.unlearn_one({"v": v}, "b")
    assert model._gaussian.moments.total_m2 == [0.0]
    for v in (1e-70, 2e-70):
        model.learn_one({"v": v}, "c")

    assert infinite(model) == []
    assert model.variances["a"]["v"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("far", [1e12, 1e100])
def test_what_was_merged_with_a_far_anchor_can_be_taken_back(far) -> None:
    """A mean less another anchor is rounded as that anchor is."""
    for make in (GaussianNB, MixedNB, GaussianBayes):
        one, other = make(), make()
        one.learn_one({"v": 0.1}, "a")
        other.learn_one({"v": far}, "b")
        other.learn_one({"v": 0.3}, "a")
        one.merge(other)
        one.unlearn_one({"v": 0.3}, "a")
        one.unlearn_one({"v": far}, "b")

        assert one.classes == ["a"]


def test_tiny_values_beside_large_ones_can_be_taken_back() -> None:
    """The squares of their own differences are below the smallest double."""
    model = GaussianNB()
    for v, y in ((1e-170, "a"), (3e-170, "a"), (1.0, "b")):
        model.learn_one({"v": v}, y)
    model.unlearn_one({"v": 3e-170}, "a")

    assert model.predict_one({"v": 0.0}) == "a"


def test_merging_tiny_values_into_constant_ones_keeps_them() -> None:
    """Two learners of one value each: their distance is all there is to know."""
    for make in (GaussianNB, GaussianBayes):
        one, other, whole = make(), make(), make()
        for _ in range(3):
            one.learn_one({"v": 1e-170}, "a")
            other.learn_one({"v": 4e-170}, "b")
        for _ in range(3):
            whole.learn_one({"v": 1e-170}, "a")
        for _ in range(3):
            whole.learn_one({"v": 4e-170}, "b")
        one.merge(other)

        assert one.predict_proba_one({"v": 1.1e-170}) == pytest.approx(
            whole.predict_proba_one({"v": 1.1e-170})
        )
        assert one.predict_one({"v": 1.1e-170}) == "a"


TABLES = {
    GaussianNB: lambda model: model._gaussian._room,
    GaussianBayes: lambda model: model._joint.moments.factor,
    CategoricalNB: lambda model: model._categorical.counts.counts,
    CategoricalBayes: lambda model: model._joint.cells.counts,
    MultinomialNB: lambda model: model._tokens.counts.counts,
    BernoulliNB: lambda model: model._attributes.trials.given,
}


@pytest.mark.parametrize("family", TABLES)
def test_a_new_class_seldom_copies_the_table(family) -> None:
    """A hundred classes, and no more copies than a table that doubles needs."""
    model, seen = family(), []
    for i in range(100):
        model.learn_one({"v": i % 7, "w": 1}, f"class {i}")
        at = TABLES[family](model).ctypes.data
        if not seen or seen[-1] != at:
            seen.append(at)

    assert len(seen) <= 12
    assert family().load_state(model.to_state()).fingerprint() == model.fingerprint()


@pytest.mark.parametrize("make", [GaussianNB, GaussianBayes, KNNClassifier, MultinomialNB])
def test_a_weight_that_no_float_can_hold_is_refused(make) -> None:
    """As any weight that is out of range, whichever way it comes."""
    model = make()
    model.learn_one({"v": 1.0}, "a")
    before = model.fingerprint()

    for refused in (
        lambda: model.learn_one({"v": 1.0}, "a", w=10**400),
        lambda: model.learn_many([{"v": 1.0}], ["a"], [10**400]),
        lambda: model.unlearn_one({"v": 1.0}, "a", w=10**400),
    ):
        with pytest.raises(SchemaError, match="w must be a number"):
            refused()
    assert model.fingerprint() == before


@pytest.mark.parametrize("scale", [1e-170, 1e-200, 1e-155])
@pytest.mark.parametrize(
    "parameters",
    [
        {"scale": None},
        {"scale": None, "weights": "distance"},
        {"scale": None, "metric": "heom"},
        {"metric": "cosine", "scale": None},
        {"metric": "manhattan", "scale": None},
        {"metric": "minkowski", "p": 3.0, "scale": None},
        {"scale": "std"},
    ],
    ids=str,
)
def test_neighbours_at_a_tiny_distance_do_not_tie(parameters, scale) -> None:
    """Squares of 1e-170 underflow; the order of distances does not."""
    rng = Random(7)
    plain, scaled = (KNNClassifier(n_neighbors=3, **parameters) for _ in range(2))
    records = [{"p": rng.gauss(1, 1), "q": rng.gauss(0, 1)} for _ in range(40)]
    for i, x in enumerate(records):
        if i % 5 == 0:
            del x["p"]
        plain.learn_one(x, "ab"[i % 2], id=i)
        scaled.learn_one({n: v * scale for n, v in x.items()}, "ab"[i % 2], id=i)
    for _ in range(20):
        x = {"p": rng.gauss(0.5, 1), "q": rng.gauss(0, 1)}
        small = {n: v * scale for n, v in x.items()}
        near, far = plain.neighbors_one(x), scaled.neighbors_one(small)

        assert [each.id for each in far] == [each.id for each in near]
        assert scaled.predict_proba_one(small) == pytest.approx(plain.predict_proba_one(x))
        unit = 1.0 if "cosine" in parameters.values() or "std" in parameters.values() else scale
        for a, b in zip(far, near, strict=True):
            assert a.distance == pytest.approx(b.distance * unit, rel=1e-9)


def test_a_category_still_counts_beside_tiny_distances() -> None:
    """In whatever unit differences are measured, another category is farther."""
    model = KNNClassifier(n_neighbors=2, scale=None)
    for i, (v, c) in enumerate([(1e-170, "x"), (3e-170, "x"), (1.1e-170, "y"), (9e-170, "x")]):
        model.learn_one({"v": v, "c": c}, "ab"[i % 2], id=i)

    assert [n.id for n in model.neighbors_one({"v": 1.05e-170, "c": "x"})] == [0, 1]


def test_threads_that_ask_for_neighbours_get_their_own() -> None:
    """The lists of one question are not those of another."""
    rng = Random(8)
    model = KNNClassifier(window=300)
    for i in range(300):
        model.learn_one({f"f{j}": rng.gauss(0, 1) for j in range(4)}, "ab"[i % 2], id=i)
    queries = [{f"f{j}": rng.gauss(0, 1) for j in range(4)} for _ in range(8)]
    expected = [model.neighbors_one(x) for x in queries]

    def ask(_):
        return sum(model.neighbors_one(queries[i]) != expected[i] for i in [*range(8)] * 40)

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(ask, range(4))) == 0


@pytest.mark.parametrize("family", TABLES)
def test_a_pickled_learner_learns_a_new_class(family) -> None:
    """Its tables are in the pickle's own memory, which has no room to grow into."""
    model = family()
    for i in range(3):
        model.learn_one({"v": i, "w": 1}, f"class {i}")
    other = pickle.loads(pickle.dumps(model))
    for each in (model, other):
        each.learn_one({"v": 3, "w": 1}, "class 3")

    assert other.fingerprint() == model.fingerprint()


@pytest.mark.parametrize("make", [GaussianNB, GaussianBayes])
def test_a_far_value_is_predicted_before_it_changes_the_scale(make) -> None:
    """After tiny values only: predicted, then learned, is the same in one step and in two."""
    xs = [{"v": 5e-324}, {"v": 1e-170}, {"v": 3e-170}, {"v": 1e100}, {"v": 1.0}]
    ys = list("aabba")
    one, other = make(half_life=1), make(half_life=1)

    assert by_ones(one, xs, ys) == in_one_block(other, xs, ys)
    assert one.fingerprint() == other.fingerprint()
