"""The predictions of a block as JSON, by columns in one compiled call.

Rule: the bytes are those of `consumers.codecs.predictions`, which encodes them one by one, also in
other wire formats and with explanations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from consumers.base.records import Partition
from consumers.codecs._kernels import predictions as kernels
from consumers.codecs._kernels.doubles import LONGEST, POWERS
from consumers.codecs._kernels.predictions import write_predictions
from stream.data.sequences import TextColumn
from stream.decision.risk import Decisions
from stream.learner.predictions import Predictions

__all__ = ["PredictionBlock", "encoded_block", "rehearse"]

_encode = msgspec.json.Encoder().encode
_FIXED = (  # in the order of the kernel's numbers
    b"null",
    b'{"id":"',
    b'","prediction":',
    b',"probabilities":[',
    b',"index":',
    b'},"ts":',
    b',"evidence":[',
    b',"decision":{"action":',
    b',"risk":',
)
_ESCAPED = 6  # bytes of one byte of an id, at most
_OTHERS = 5 * LONGEST + 3 * 4 + 3  # bytes of five numbers, of null three times, and of three ends


@dataclass(frozen=True, slots=True)
class PredictionBlock:
    """The predictions of a block.

    Parameters
    ----------
    models
        From which prediction on a model made them; its name and type.
    ids
        The id of each.
    predictions
        The posteriors, with the classes.
    predicted, learned
        int64, (n,): the code of the class, -1 for none; the labels learned before.
    partitions, source, offsets
        The partitions of the observations; int64, (n,): index into them, and offset.
    index
        int64, (n,): the row of the message, -1 for a whole one. None: all are whole.
    times
        int64, (n,): the timestamps in ms.
    top
        How many classes are written.
    decisions
        The decisions; None without decisions.
    """

    models: Sequence[tuple[int, tuple[str, str]]]
    ids: Sequence[str]
    predictions: Predictions
    predicted: NDArray[np.int64]
    learned: NDArray[np.int64]
    partitions: Sequence[Partition]
    source: NDArray[np.int64]
    offsets: NDArray[np.int64]
    index: NDArray[np.int64] | None
    times: NDArray[np.int64]
    top: int
    decisions: Decisions | None = None


def encoded_block(block: PredictionBlock) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Id and prediction of each record, one after the other; int64 (n, 2): their lengths."""
    made, decided, columns = block.predictions, block.decisions, _columns(block)
    places = [
        b'},"position":%s,"offset":' % _encode({"topic": topic, "partition": number})[:-1]
        for topic, number in block.partitions
    ]
    models = [
        b'],"model":%s,"learned":' % _encode({"name": name, "type": kind})[:-1]
        for _, (name, kind) in block.models
    ]
    classes = list(map(_encode, made.classes))
    actions = [] if decided is None else list(map(_encode, decided.actions))
    place = len(_FIXED)
    model = place + len(places)
    label = model + len(models)
    action = label + len(classes)
    columns[:, kernels.SOURCE] = place + block.source
    columns[:, kernels.MODEL] += model
    columns[:, kernels.PREDICTED] = np.where(block.predicted < 0, 0, label + block.predicted)
    if decided is not None:
        columns[:, kernels.ACTION] = np.where(decided.chosen < 0, 0, action + decided.chosen)
        columns[:, kernels.UNDECIDED] = ~decided.decided
    cells = [*_FIXED, *places, *models, *classes, *actions]
    columns[:, kernels.ID] = np.arange(len(cells), len(cells) + len(block.ids))
    texts, starts = _texts(cells, block.ids)
    top = min(block.top, len(classes))
    each = sum(map(len, _FIXED)) + sum(map(_longest, (places, models, classes, actions)))
    evidence = made.evidence
    lists = 1 if evidence is None else 2
    each += _OTHERS + lists * top * (_longest(classes) + LONGEST + 3)
    size = len(block.ids) * each + (1 + _ESCAPED) * int(starts[-1] - starts[len(cells)])
    out, lengths = np.empty(size, dtype=np.uint8), np.empty((len(block.ids), 2), dtype=np.int64)
    p = np.ascontiguousarray(made.proba)
    risks = np.zeros(len(p)) if decided is None else np.ascontiguousarray(decided.risk)
    weighed = np.zeros(len(p), dtype=np.bool_)
    if evidence is not None and classes:
        weighed[:] = (made.known > 0) & ~np.isnan(evidence[:, 0])
    write_predictions(
        texts,
        starts,
        label,
        columns,
        p,
        p.view(np.uint64),
        weighed,
        (np.zeros((0, 0)) if evidence is None else evidence).view(np.uint64),
        risks.view(np.uint64),
        np.empty(max(top, 1), dtype=np.int64),
        _escapes(),
        POWERS,
        out,
        lengths,
    )
    out.flags.writeable = False  # for kernels an array like one of bytes
    return out, lengths


def rehearse() -> None:
    """Encode one prediction, so that the kernel is compiled."""
    zero, one = np.zeros(1, dtype=np.int64), np.ones((1, 1))
    made = Predictions(["a"], one, zero + 1, one)
    models, partitions = [(0, ("", ""))], [Partition("", 0)]
    encoded_block(
        PredictionBlock(models, ["0"], made, zero, zero, partitions, zero, zero, None, zero, 1)
    )


def _columns(block: PredictionBlock) -> NDArray[np.int64]:
    """The columns of the kernel, without the numbers of texts, and of a model its place."""
    n, made = len(block.ids), block.predictions
    columns = np.empty((n, kernels.COLUMNS), dtype=np.int64)
    columns[:, kernels.KNOWN] = made.known
    columns[:, kernels.LEARNED] = block.learned
    columns[:, kernels.OFFSET] = block.offsets
    columns[:, kernels.INDEX] = -1 if block.index is None else block.index
    columns[:, kernels.TIME] = block.times
    columns[:, kernels.UNDECIDED] = -1
    starts = np.array([start for start, _ in block.models], dtype=np.int64)
    columns[:, kernels.MODEL] = np.searchsorted(starts, np.arange(n), side="right") - 1
    return columns


def _longest(cells: list[bytes]) -> int:
    return max(map(len, cells), default=0)


def _texts(cells: list[bytes], ids: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The texts one after the other, and where each begins and the last ends."""
    fixed, named = np.frombuffer(b"".join(cells), dtype=np.uint8), TextColumn.of(ids)
    starts = np.array([0, *map(len, cells[:-1])], dtype=np.int64).cumsum()
    whole = np.concatenate([fixed, named.data])
    whole.flags.writeable = False  # as an array over bytes
    return whole, np.concatenate([starts, fixed.size + named.start])


@cache
def _escapes() -> NDArray[np.uint8]:
    """The size and the bytes of what msgspec writes for each byte of a text in UTF-8."""
    written = [_encode(chr(byte))[1:-1] if byte < 128 else bytes([byte]) for byte in range(256)]
    return np.array([[len(text), *text.ljust(_ESCAPED)] for text in written], dtype=np.uint8)
