"""The laws of every learner, for KNNClassifier with other parameters than its defaults."""

from __future__ import annotations

import pytest

from stream.checks import yield_laws
from stream.neighbors import KNNClassifier

MODELS = {
    "small": KNNClassifier(3, 7),
    "minkowski": KNNClassifier(metric="minkowski", p=3, window=30),
    "std": KNNClassifier(scale="std", weights="distance", metric="chebyshev"),
    "cosine": KNNClassifier(metric="cosine", weights="distance"),
    "hamming": KNNClassifier(metric="hamming", scale=None),
    "manhattan": KNNClassifier(metric="manhattan", scale=None),
    "heom": KNNClassifier(metric="heom", scale="std"),
}
# The law unlearns records that have left a window of less than its 60 records.
TOO_SMALL = ("small", "minkowski")


def cases():
    """Each law of each model."""
    for name, model in MODELS.items():
        for law in yield_laws(model):
            if name in TOO_SMALL and law.__name__ == "unlearning_is_the_inverse_of_learning":
                continue
            yield pytest.param(model, law, id=f"{name}-{law.__name__}")


@pytest.mark.parametrize(("model", "law"), list(cases()))
def test_neighbours_satisfy_the_law(model, law) -> None:
    """With every metric, scale and kind of vote, and with a window that overflows."""
    law(model)
