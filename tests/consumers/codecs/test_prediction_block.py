"""Predictions by columns have the bytes of those that are encoded one by one."""

from __future__ import annotations

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from consumers.base.records import Partition
from consumers.codecs.prediction_block import PredictionBlock, encoded_block
from consumers.codecs.predictions import PredictionEncoder
from stream.decision.risk import Decisions
from stream.learner.predictions import Predictions

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
labels = st.one_of(texts, st.integers(-(2**53), 2**53), st.booleans())
shares = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0, 5e-324, 1e-5]), st.floats(0.0, 1.0))
wholes = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**63 - 1)


@st.composite
def blocks(draw: st.DrawFn) -> PredictionBlock:
    """Any block: unknown classes, equal probabilities, several models, rows, decisions."""
    n = draw(st.integers(1, 6))
    classes = draw(st.lists(labels, max_size=12, unique_by=lambda label: (str(label), type(label))))
    actions = draw(st.none() | st.lists(labels, max_size=3))
    partitions = draw(st.lists(st.builds(Partition, texts, st.integers(0, 400)), min_size=1))

    def column(values: st.SearchStrategy[int]) -> np.ndarray:
        return np.array(draw(st.lists(values, min_size=n, max_size=n)), dtype=np.int64)

    def floats(shape: tuple[int, ...], values: st.SearchStrategy[float]) -> np.ndarray:
        size = int(np.prod(shape))
        return np.array(draw(st.lists(values, min_size=size, max_size=size))).reshape(shape)

    known = column(st.integers(0, len(classes)))
    proba = np.where(np.arange(len(classes)) < known[:, None], floats((n, len(classes)), shares), 0)
    even = None
    if draw(st.booleans()):
        even = np.where(proba >= 0, floats((n, len(classes)), shares), 0.0)
        even[column(st.integers(0, 1)) > 0] = np.nan  # of a learner without evidence
    starts = sorted({0, *draw(st.lists(st.integers(0, n - 1), max_size=2))})
    decided = None
    if actions is not None:
        chosen = column(st.integers(-1, len(actions) - 1))
        risk, none = floats((n,), st.floats(-1e308, 1e308)), np.zeros(n, dtype=np.bool_)
        made = column(st.integers(0, 1)).astype(np.bool_)
        decided = Decisions(actions, chosen, risk, np.zeros((n, len(actions))), none, made)
    return PredictionBlock(
        [(at, (draw(texts), draw(texts))) for at in starts],
        draw(st.lists(texts, min_size=n, max_size=n)),
        Predictions(classes, proba.astype(np.float64), known, even),
        np.minimum(column(st.integers(-1, 11)), known - 1),
        column(counts),
        partitions,
        column(st.integers(0, len(partitions) - 1)),
        column(counts),
        draw(st.none() | st.builds(column, st.just(st.integers(-1, 2**40)))),
        column(wholes),
        draw(st.integers(1, 12)),
        decided,
    )


def one_by_one(block: PredictionBlock) -> list[bytes]:
    """The same by the encoder of single predictions."""
    made, done = block.predictions, block.decisions
    out = []
    pairs = zip(made.ranked(block.top), made.ranked_evidence(block.top), strict=True)
    for i, (id_, (ranked, evidence)) in enumerate(zip(block.ids, pairs, strict=True)):
        (name, kind) = [model for at, model in block.models if at <= i][-1]
        code, place = int(block.predicted[i]), block.partitions[block.source[i]]
        row = None if block.index is None or block.index[i] < 0 else int(block.index[i])
        value = PredictionEncoder(name, kind).encode(
            id_,
            None if code < 0 else made.classes[code],
            ranked,
            int(block.learned[i]),
            (*place, int(block.offsets[i])),
            int(block.times[i]),
            None if done is None else done.done()[i],
            None,
            row,
            evidence,
        )
        out += [id_.encode(), value]
    return out


@given(blocks())
def test_block_has_the_bytes_of_single_predictions(block) -> None:
    """Whatever ids, labels, probabilities and decisions."""
    data, lengths = encoded_block(block)
    ends = lengths.ravel().cumsum()
    cells = [data[b - n : b].tobytes() for b, n in zip(ends, lengths.ravel(), strict=True)]

    assert cells == one_by_one(block)


def test_longest_prediction_fits() -> None:
    """Every number and escape of the largest size."""
    n, classes = 50, [f"\x01{i}" * 40 for i in range(20)]
    proba = np.full((n, 20), 2.2250738585072014e-308)
    most = np.full(n, 2**63 - 1)
    block = PredictionBlock(
        [(0, ("n" * 100, "\x02" * 99))],
        ["\x03" * 300] * n,
        Predictions(classes, proba, np.full(n, 20), np.random.default_rng(1).random((n, 20))),
        np.full(n, -1),
        most,
        [Partition("t" * 249, 2**31)],
        np.zeros(n, dtype=np.int64),
        most,
        most,
        -most,
        20,
        Decisions(classes, np.full(n, -1), -proba[:, 0], proba, most < 0, most > 0),
    )
    data, lengths = encoded_block(block)
    assert 0.9 * data.size < lengths.sum() < data.size
    first = data[lengths[0, 0] : lengths[0].sum()].tobytes()
    assert [first] == one_by_one(block)[1:2]
    assert msgspec.json.decode(first)["position"]["index"] == 2**63 - 1
