"""The predictions of a block as JSON, each after the id of its record."""

from __future__ import annotations

from typing import Any

from numpy import int64

from consumers.base._kernels import copy_bytes
from consumers.codecs._kernels.doubles import put_double, put_whole
from stream.kernel import inlined, kernel

__all__ = [
    "ACTION",
    "COLUMNS",
    "ID",
    "INDEX",
    "KNOWN",
    "LEARNED",
    "MODEL",
    "OFFSET",
    "PREDICTED",
    "SOURCE",
    "TIME",
    "UNDECIDED",
    "write_predictions",
]

# The columns of a prediction. ID, PREDICTED, MODEL, SOURCE and ACTION are numbers of texts.
# UNDECIDED: 0 with a decision, 1 without, -1 if nothing is decided. INDEX: -1 for a whole message.
ID, PREDICTED, KNOWN, MODEL, LEARNED, SOURCE, OFFSET, INDEX, TIME, ACTION, UNDECIDED = range(11)
COLUMNS = 11
# The first texts.
NULL, OPEN, PREDICTION, PROBABILITIES, ROW, AT, EVIDENCE, DECISION, RISK = range(9)
COMMA, BRACKET, CLOSED, BRACE = (ord(c) for c in ",[]}")


@kernel
def _put(out: Any, at: Any, texts: Any, starts: Any, i: Any) -> Any:
    """Write text `i`. Returns the end."""
    count = starts[i + 1] - starts[i]
    copy_bytes(out, at, texts, starts[i], count)
    return at + count


@inlined
def _put_escaped(out: Any, at: Any, texts: Any, start: Any, end: Any, escapes: Any) -> Any:
    """Write bytes as a part of a text of JSON. Returns the end."""
    for k in range(start, end):
        byte = texts[k]
        for j in range(1, 1 + int64(escapes[byte, 0])):
            out[at] = escapes[byte, j]
            at += 1
    return at


@inlined
def _rank(p: Any, i: Any, known: Any, ranks: Any) -> Any:
    """Write the codes of the most probable classes, as many as fit. Of equal ones the first is
    first. Returns how many there are."""
    n = 0
    for c in range(known):
        if n == ranks.size and p[i, c] <= p[i, ranks[n - 1]]:
            continue
        j = min(n, ranks.size - 1)
        n = j + 1
        while j > 0 and p[i, ranks[j - 1]] < p[i, c]:
            ranks[j] = ranks[j - 1]
            j -= 1
        ranks[j] = c
    return n


@inlined
def _put_pairs(
    out: Any,
    at: Any,
    texts: Any,
    starts: Any,
    labels: Any,
    ranks: Any,
    n: Any,
    bits: Any,
    powers: Any,
) -> Any:
    """Write the labels of `ranks` with their numbers in `bits` uint64 (classes,). Returns the
    end."""
    for j in range(n):
        if j:
            out[at] = COMMA
            at += 1
        out[at] = BRACKET
        at = _put(out, at + 1, texts, starts, labels + ranks[j])
        out[at] = COMMA
        at = put_double(out, at + 1, bits[ranks[j]], powers)
        out[at] = CLOSED
        at += 1
    return at


@kernel
def write_predictions(
    texts: Any,
    starts: Any,
    labels: int,
    columns: Any,
    p: Any,
    bits: Any,
    weighed: Any,
    evidence: Any,
    risks: Any,
    ranks: Any,
    escapes: Any,
    powers: Any,
    out: Any,
    lengths: Any,
) -> None:
    """Write the id and the prediction of each record.

    `texts` uint8 and `starts` int64: the texts, one after the other, and where each begins and the
    last ends; `labels`: the number of the first class; `columns` int64 (n, COLUMNS); `p` float64
    (n, classes), `bits` the same as uint64; `weighed` bool (n,): which have evidence; `evidence`
    uint64 (n, classes), or (0, 0) if none has: its bits; `risks` uint64 (n,): the bits of the
    risks; `ranks` int64 (top,), at least 1: scratch; `escapes` uint8 (256, 7): size and bytes of
    each byte in a text of JSON; `powers`: see `doubles`; `out` uint8: large enough; `lengths` int64
    (n, 2): bytes of id and prediction.
    """
    at = 0
    for i in range(columns.shape[0]):
        start, id_ = at, columns[i, ID]
        at = _put(out, at, texts, starts, id_)
        lengths[i, 0] = at - start
        start = at
        at = _put(out, at, texts, starts, OPEN)
        at = _put_escaped(out, at, texts, starts[id_], starts[id_ + 1], escapes)
        at = _put(out, at, texts, starts, PREDICTION)
        at = _put(out, at, texts, starts, columns[i, PREDICTED])
        at = _put(out, at, texts, starts, PROBABILITIES)
        n = _rank(p, i, columns[i, KNOWN], ranks)
        at = _put_pairs(out, at, texts, starts, labels, ranks, n, bits[i], powers)
        at = put_whole(out, _put(out, at, texts, starts, columns[i, MODEL]), columns[i, LEARNED])
        at = put_whole(out, _put(out, at, texts, starts, columns[i, SOURCE]), columns[i, OFFSET])
        if columns[i, INDEX] >= 0:
            at = put_whole(out, _put(out, at, texts, starts, ROW), columns[i, INDEX])
        at = put_whole(out, _put(out, at, texts, starts, AT), columns[i, TIME])
        if weighed[i]:
            at = _put(out, at, texts, starts, EVIDENCE)
            at = _put_pairs(out, at, texts, starts, labels, ranks, n, evidence[i], powers)
            out[at] = CLOSED
            at += 1
        if columns[i, UNDECIDED] >= 0:
            at = _put(out, at, texts, starts, DECISION)
            at = _put(out, at, texts, starts, columns[i, ACTION])
            at = _put(out, at, texts, starts, RISK)
            if columns[i, UNDECIDED]:
                at = _put(out, at, texts, starts, NULL)
            else:
                at = put_double(out, at, risks[i], powers)
            out[at] = BRACE
            at += 1
        out[at] = BRACE
        at += 1
        lengths[i, 1] = at - start
