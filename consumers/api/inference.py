"""The Open Inference Protocol, version 2, for clients of KServe and Seldon.

Rule: one input tensor is one field of all records, and null in it is a missing value. The answer
has the predicted labels as text, and the probability of every class.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import msgspec

from consumers.api.contract import (
    InferInput,
    InferOutput,
    InferRequest,
    InferResponse,
    ModelMetadata,
    ServerMetadata,
    TensorMetadata,
)
from consumers.api.problems import ProblemError
from consumers.shard.answer import Answerer, ModelCopy

__all__ = ["infer", "model_metadata", "request_of", "server_metadata"]

DATATYPES = {"numeric": "FP64", "count": "INT64", "binary": "BOOL"}  # of kinds; others are BYTES
NUMBERS = {
    "FP16",
    "FP32",
    "FP64",
    *(f"{u}INT{bits}" for u in ("", "U") for bits in (8, 16, 32, 64)),
}
TYPES: dict[str, tuple[type, ...]] = {
    "BOOL": (bool,),
    "BYTES": (str,),
    **dict.fromkeys(NUMBERS, (int, float)),
}

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
    return ModelMetadata(name, [str(copy.position)], "headwater", inputs, outputs)


def request_of(body: bytes) -> InferRequest:
    """The typed request. ProblemError if it is another (400)."""
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProblemError(400, f"expected an inference request in JSON: {error}") from None


def infer(name: str, request: InferRequest, answerer: Answerer, most: int) -> InferResponse:
    """The predictions for the records of a request.

    Parameters
    ----------
    name
        The model's name.
    most
        The largest number of records.

    Raises
    ------
    ProblemError
        A tensor is not a field of all records, or a record would be rejected (400).
    """
    values = [msgspec.json.encode(record) for record in _records(request.inputs, answerer, most)]
    made, _, rejected = answerer.predict([b"%d" % i for i in range(len(values))], values)
    for i, error in sorted(rejected.items()):
        raise ProblemError(400, f"record {i}: {error.detail}", reason=error.reason, index=i)
    n, classes = len(values), [str(label) for label in made.classes]
    labels = ["" if label is None else str(label) for label in made.labels()]
    outputs = {
        "prediction": InferOutput("prediction", [n], "BYTES", labels),
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
    n = len(inputs[0].data)
    if n > most:
        raise ProblemError(413, f"expected up to {most:,} records, got {n:,}; send fewer at once")
    records: list[dict[str, Any]] = [{} for _ in range(n)]
    seen = set()
    for tensor in inputs:
        if tensor.name not in known or tensor.name in seen:
            raise ProblemError(
                400, f"expected each field of the model once, got {tensor.name[:200]!r}"
            )
        seen.add(tensor.name)
        if tensor.shape not in ([n], [n, 1]) or len(tensor.data) != n:
            raise ProblemError(
                400,
                f"input {tensor.name!r}: expected shape [{n}] and {n} values, got {tensor.shape} "
                f"and {len(tensor.data)}",
            )
        types = TYPES.get(tensor.datatype)
        if types is None:
            raise ProblemError(400, f"input {tensor.name!r}: no datatype {tensor.datatype[:50]!r}")
        for record, value in zip(records, tensor.data, strict=True):
            if value is None:
                continue
            if type(value) not in types:
                raise ProblemError(
                    400,
                    f"input {tensor.name!r}: expected values of {tensor.datatype}, got {value!r}",
                )
            record[tensor.name] = value
    return records


def _name(output: dict[str, Any], known: dict[str, InferOutput]) -> str:
    name = output.get("name")
    if not isinstance(name, str) or name not in known:
        raise ProblemError(400, f"expected an output of {', '.join(known)}, got {name!r}")
    return name
