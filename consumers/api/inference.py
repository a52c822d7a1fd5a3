"""The Open Inference Protocol, version 2, for clients of KServe and Seldon.

Rule: one input tensor is one field of all records, and null in it is a missing value. Each other
value is one of the datatype that the tensor declares, so nothing is rounded or wraps. The answer
has the predicted labels as text, and the probability of every class. No versions are announced,
because only the newest model answers; `model_version` of an answer is its journal position.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from difflib import get_close_matches
from importlib.metadata import version
from typing import Any

import msgspec

from consumers.api.bodies import ProblemError
from consumers.api.contract import (
    InferInput,
    InferOutput,
    InferRequest,
    InferResponse,
    ModelMetadata,
    ServerMetadata,
    TensorMetadata,
)
from consumers.base.converter import UNDECODABLE
from consumers.shard.answer import Answerer, ModelCopy, ReadRecords

__all__ = ["infer", "model_metadata", "records_in", "request_of", "server_metadata"]

DATATYPES = {"numeric": "FP64", "count": "INT64", "binary": "BOOL"}  # of kinds; others are BYTES
NUMBERS = [
    *(f"FP{bits}" for bits in (16, 32, 64)),
    *(f"{u}INT{bits}" for u in ("", "U") for bits in (8, 16, 32, 64)),
]
TYPES = ("BOOL", "BYTES", *NUMBERS)
# The largest number of the floats; those of FP64 are all that JSON has.
LARGEST = {"FP16": 65504.0, "FP32": (2 - 2.0**-23) * 2.0**127, "FP64": math.inf}

_decoder = msgspec.json.Decoder(InferRequest)


def server_metadata() -> ServerMetadata:
    """The server's name and version."""
    return ServerMetadata("headwater", version("headwater"), [])


def model_metadata(name: str, copy: ModelCopy) -> ModelMetadata:
    """The tensors of a model: one for each field."""
    inputs = [
        TensorMetadata(f.name, DATATYPES.get(f.kind, "BYTES"), [-1])
        for f in copy.spec.schema.fields
    ]
    outputs = [
        TensorMetadata("prediction", "BYTES", [-1]),
        TensorMetadata("probabilities", "FP64", [-1, -1]),
    ]
    return ModelMetadata(name, "headwater", inputs, outputs)


def request_of(body: bytes) -> InferRequest:
    """The typed request. ProblemError if it is another (400)."""
    try:
        return _decoder.decode(body)
    except UNDECODABLE as error:
        raise ProblemError(400, f"expected an inference request in JSON: {error}") from None


def records_in(request: InferRequest, answerer: Answerer, most: int) -> list[bytes]:
    """The records of a request, as JSON.

    Parameters
    ----------
    most
        The largest number of records.

    Raises
    ------
    ProblemError
        A tensor is not a field of all records, or has a value that is not of its datatype (400).
    """
    return [msgspec.json.encode(record) for record in _records(request.inputs, answerer, most)]


def infer(
    name: str, request: InferRequest, answerer: Answerer, asked: ReadRecords
) -> InferResponse:
    """The predictions for the records of a request.

    Parameters
    ----------
    name
        The model's name.
    asked
        The records.

    Raises
    ------
    ProblemError
        A record would be rejected (400).
    """
    made, rejected = answerer.predict(asked)
    for i, error in sorted(rejected.items()):
        raise ProblemError(400, f"record {i}: {error.detail}", reason=error.reason, index=i)
    n, classes = len(asked.values), [str(label) for label in made.classes]
    labels = ["" if label is None else str(label) for label in made.labels()]
    notes = answerer.notes(asked)
    not_used = {"notes": notes} if any(notes) else {}
    outputs = {
        "prediction": InferOutput("prediction", [n], "BYTES", labels, not_used),
        "probabilities": InferOutput(
            "probabilities",
            [n, len(classes)],
            "FP64",
            made.proba.ravel().tolist(),
            {"classes": classes},
        ),
    }
    wanted = [_name(output, outputs) for output in request.outputs] or list(outputs)
    position = str(answerer.copy.position)
    return InferResponse(name, position, [outputs[w] for w in wanted], request.id)


def _records(inputs: list[InferInput], answerer: Answerer, most: int) -> list[dict[str, Any]]:
    known = {field.name for field in answerer.copy.spec.schema.fields}
    if not inputs:
        raise ProblemError(400, "expected one input for each field, got none")
    first = inputs[0]
    n, seen = _length(first), set[str]()
    if n > most:
        raise ProblemError(413, f"expected up to {most:,} records, got {n:,}; send fewer at once")
    records: list[dict[str, Any]] = []
    for tensor in inputs:
        where = f"input {tensor.name[:200]!r}"
        if tensor.name not in known:
            raise ProblemError(400, _unknown(tensor.name, known))
        if tensor.name in seen:
            raise ProblemError(400, f"{where}: expected each field once, got it twice")
        seen.add(tensor.name)
        if _length(tensor) != n:
            raise ProblemError(
                400,
                f"{where}: expected {n} records as in input {first.name!r}, got shape "
                f"{tensor.shape}",
            )
        records = records or [{} for _ in range(n)]
        for record, value in zip(records, _values(tensor, n), strict=True):
            if value is not None:
                record[tensor.name] = value
    return records


def _length(tensor: InferInput) -> int:
    """The number of records, by the shape."""
    shape = tensor.shape
    if len(shape) not in (1, 2) or shape[0] < 0 or shape[1:] not in ([], [1]):
        raise ProblemError(
            400,
            f"input {tensor.name[:200]!r}: expected shape [n] or [n, 1], got {str(shape)[:200]}",
        )
    return shape[0]


def _values(tensor: InferInput, n: int) -> list[Any]:
    """The checked values of a tensor of n records. Data of shape [n, 1] may be nested."""
    where, data = f"input {tensor.name[:200]!r}", tensor.data
    if tensor.datatype not in TYPES:
        raise ProblemError(
            400, f"{where}: no datatype {tensor.datatype[:50]!r}; there are {', '.join(TYPES)}"
        )
    if len(tensor.shape) == 2 and data and all(type(v) is list and len(v) == 1 for v in data):
        data = [value for [value] in data]
    if len(data) != n:
        raise ProblemError(400, f"{where}: shape {tensor.shape} needs {n} values, got {len(data)}")
    has = _member(tensor.datatype)
    for value in data:
        if value is not None and not has(value):
            raise ProblemError(
                400, f"{where}: expected values of {tensor.datatype}, got {repr(value)[:200]}"
            )
    return data


def _member(datatype: str) -> Callable[[Any], bool]:
    """Whether a value of JSON is one of a datatype. A whole number may be written as 3.0.

    Examples
    --------
    >>> [_member("UINT8")(value) for value in (0, 255, 3.0, -1, 256, 1.5, True, "1")]
    [True, True, True, False, False, False, False, False]
    >>> [_member("FP16")(value) for value in (65504, -65504.0, 65505, True)]
    [True, True, False, False]
    """
    if datatype in ("BOOL", "BYTES"):
        wanted = bool if datatype == "BOOL" else str
        return lambda value: type(value) is wanted
    if datatype in LARGEST:
        most = LARGEST[datatype]
        return lambda value: type(value) in (int, float) and -most <= value <= most
    bits = int(datatype.removeprefix("U").removeprefix("INT"))
    low, beyond = (0, 2**bits) if datatype[0] == "U" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return lambda value: (
        type(value) in (int, float) and low <= value < beyond and value == int(value)
    )


def _unknown(name: str, known: set[str]) -> str:
    near = get_close_matches(name[:200], known, n=1)
    otherwise = "GET /v2/models/NAME lists the fields"
    return f"no field {name[:200]!r}; " + (f"did you mean {near[0]!r}?" if near else otherwise)


def _name(output: dict[str, Any], known: dict[str, InferOutput]) -> str:
    name = output.get("name")
    if not isinstance(name, str) or name not in known:
        raise ProblemError(400, f"expected an output of {', '.join(known)}, got {name!r}")
    return name
