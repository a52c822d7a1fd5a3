"""KNNClassifier beside its obvious twin, and beside scikit-learn on the window."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from stream.data.block import Block
from stream.neighbors import KNNClassifier
from tests.oracles.knn import SlowKNN

METRICS = ("auto", "euclidean", "heom", "manhattan", "chebyshev", "minkowski", "cosine", "hamming")


def mixed_records(n: int, seed: int, *, strings: bool = True):
    """Numbers of several kinds, gaps, duplicates, a late feature, categories."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(n):
        y = int(rng.integers(3))
        x = {
            "near": float(rng.normal(y)),
            "wide": float(rng.normal(1e9 + y, 2.0)),
            "whole": int(rng.integers(3)),
            "flag": bool(rng.random() < 0.3),
            "same": 7.0,
        }
        if i > n // 3:
            x["late"] = float(rng.normal(-y, 0.1))
        if strings:
            x["kind"] = f"kind {rng.integers(4)}"
            x["name"] = f"name {i // 5}"
        x = {k: v for k, v in x.items() if rng.random() > 0.1}
        out.append((x, "abc"[y], float(rng.choice([1.0, 1.0, 2.0, 0.5]))))
        if i % 7 == 6:
            out.append(out[int(rng.integers(len(out)))])
    return out


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("strings", [True, False])
def test_posteriors_are_those_of_the_obvious_twin(metric, strings) -> None:
    """Each metric, scale and kind of vote, over a window that slides."""
    for scale, weights in product(("range", "std", None), ("uniform", "distance")):
        given = {"metric": metric, "p": 3.0, "scale": scale, "weights": weights}
        model = KNNClassifier(4, 25, **given)
        twin = SlowKNN(4, 25, **given)
        for record, y, w in mixed_records(60, seed=1, strings=strings):
            # Seen from the origin, everything at 1e9 lies in one direction: no test of an angle.
            x = {k: v for k, v in record.items() if metric != "cosine" or k != "wide"}
            if twin.classes:
                said, expected = model.predict_proba_one(x), twin.predict_proba_one(x)
                assert said == pytest.approx(expected, rel=1e-6, abs=1e-9), (given, x)
            model.learn_one(x, y, w)
            twin.learn_one(x, y, w)


def test_neighbours_and_distances_are_those_of_the_obvious_twin() -> None:
    """HEOM, gaps on both sides."""
    model, twin = KNNClassifier(3, 20), SlowKNN(3, 20)
    for i, (x, y, w) in enumerate(mixed_records(50, seed=2)):
        if i:
            found = [(n.distance, n.label) for n in model.neighbors_one(x)]
            expected = sorted(((d, y) for d, (_, y, _) in twin.ball(x)), key=lambda pair: pair[0])
            assert [d for d, _ in found] == pytest.approx([d for d, _ in expected], rel=1e-9)
            assert sorted(c for _, c in found) == sorted(c for _, c in expected)
        model.learn_one(x, y, w)
        twin.learn_one(x, y, w)


@pytest.mark.parametrize("n_neighbors", [1, 5, 63, 64, 65, 150])
def test_any_k_finds_the_k_nearest(n_neighbors) -> None:
    """Below and above the number of lanes that the search looks at together."""
    rng = np.random.default_rng(3)
    data = rng.normal(size=(400, 3))
    model = KNNClassifier(n_neighbors, 300, scale=None)
    model.learn_many([dict(zip("abc", row, strict=True)) for row in data.tolist()], [1] * 400)
    for at in rng.normal(size=(20, 3)):
        expected = np.sort(np.sqrt(((data[100:] - at) ** 2).sum(axis=1)))[:n_neighbors]
        found = model.neighbors_one(dict(zip("abc", at.tolist(), strict=True)))

        assert [n.distance for n in found] == pytest.approx(expected.tolist(), rel=1e-12)


def test_a_window_longer_than_a_chunk_finds_the_nearest() -> None:
    """Records are measured 2048 at a time."""
    rng = np.random.default_rng(4)
    data = rng.normal(size=(7000, 2))
    model = KNNClassifier(5, 5000, scale=None)
    rows = model.rows([dict(zip("ab", row, strict=True)) for row in data.tolist()])
    model.progressive_many(Block.of(rows, 1, [0] * 7000))
    for at in rng.normal(size=(20, 2)):
        expected = np.sort(np.sqrt(((data[2000:] - at) ** 2).sum(axis=1)))[:5]
        found = model.neighbors_one(dict(zip("ab", at.tolist(), strict=True)))

        assert [n.distance for n in found] == pytest.approx(expected.tolist(), rel=1e-12)


def sklearn_twin(metric: str, p: float, weights: str):
    """The same definition in scikit-learn, on given rows."""
    return KNeighborsClassifier(5, metric=metric, p=p, weights=weights, algorithm="brute")


def agreement(model: KNNClassifier, xs: np.ndarray, ys: np.ndarray, scale) -> int:
    """Compare posteriors with scikit-learn after every 100th record; how many were compared."""
    names = [f"f{j}" for j in range(xs.shape[1])]
    compared = 0
    for i in range(0, len(xs) - 100, 100):
        rows = [dict(zip(names, row, strict=True)) for row in xs[i : i + 100].tolist()]
        model.learn_many(rows, ys[i : i + 100].tolist())
        start = max(0, i + 100 - model.window)
        held, asked = xs[start : i + 100], xs[i + 100 : i + 120]
        unit = scale(held)
        twin = sklearn_twin(model.metric, model.p, model.weights)
        twin.fit(held / unit, ys[start : i + 100])
        far = twin.kneighbors(asked / unit, 6)[0]
        expected = twin.predict_proba(asked / unit)
        for k in np.flatnonzero(far[:, 5] > far[:, 4] * (1 + 1e-9)):  # no tie at the edge
            said = model.predict_proba_one(dict(zip(names, asked[k].tolist(), strict=True)))
            by_label = [said[c] for c in twin.classes_.tolist()]
            assert by_label == pytest.approx(expected[k].tolist(), abs=1e-9)
            compared += 1
    return compared


@pytest.mark.parametrize(
    "metric", ["euclidean", "manhattan", "chebyshev", "minkowski", "cosine", "hamming"]
)
@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_posteriors_are_those_of_scikit_learn_on_the_window(metric, weights) -> None:
    """After every 100th record of a drifting stream, where the definition is the same."""
    rng = np.random.default_rng(5)
    ys = rng.integers(3, size=1000)
    xs = rng.normal(ys[:, None] + np.linspace(0, 3, 1000)[:, None], 1.0, size=(1000, 6))
    if metric == "hamming":
        xs = np.round(xs)
    model = KNNClassifier(5, 300, metric, 3.0, None, weights)

    assert agreement(model, xs, ys, lambda held: 1.0) >= (20 if metric == "hamming" else 170)


@pytest.mark.parametrize("scale", ["range", "std"])
def test_scaled_posteriors_are_those_of_scikit_learn_on_elec2(shared_csv, scale) -> None:
    """The scale is that of the window, after every 100th record."""
    rows = shared_csv("elec2/elecNormNew.csv.gz")[:3000]
    columns = ("period", "nswprice", "nswdemand", "vicprice", "vicdemand")
    xs = np.array([[float(r[c]) for c in columns] for r in rows])
    ys = np.array([r["class"] for r in rows])

    def unit(held: np.ndarray) -> np.ndarray:
        found = np.ptp(held, axis=0) if scale == "range" else held.std(axis=0)
        return np.where(found > 1e-12, found, np.inf)  # Victoria's columns are constant at first

    assert agreement(KNNClassifier(5, 500, "euclidean", scale=scale), xs, ys, unit) > 500
