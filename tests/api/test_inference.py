"""The Open Inference Protocol, as its published schema and its clients use it.

`open_inference_rest.yaml` is the document that KServe publishes, unchanged: of
kserve/open-inference-protocol, commit d49cc23, under the Apache License 2.0 that it names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
import schemathesis
import yaml
from hypothesis import given
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    response_headers_conformance,
    response_schema_conformance,
)

from tests.api.generated import generated
from tests.waiting import until
from tests.web.living import living


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> Iterator[httpx.Client]:
    """A client of a service after 40 labels."""
    with living(tmp_path_factory.mktemp("oip")) as service:
        service.send(40)
        until(lambda: (c := service.status_feed.copies.newest) is not None and c.learned == 40)
        with httpx.Client(base_url=service.url) as client:
            yield client


def tensor(name: str, data: list[Any], datatype: str = "FP64", **other: Any) -> dict[str, Any]:
    """One input."""
    return {"name": name, "shape": [len(data)], "datatype": datatype, "data": data, **other}


PUBLISHED = yaml.safe_load(Path(__file__).with_name("open_inference_rest.yaml").read_text())
PATHS = {  # of the service, by the names that the document has for them; it has no versions
    path.replace("/versions/${MODEL_VERSION}", "").replace("${MODEL_NAME}", "svc"): operations
    for path, operations in PUBLISHED["paths"].items()
}


def conforms(name: str, answer: httpx.Response) -> Any:
    """The body of an answer, which the published schema of this name accepts."""
    schema = {**PUBLISHED, "$ref": f"#/components/schemas/{name}"}
    found = answer.json()
    jsonschema_rs.Draft4Validator(schema).validate(found)
    return found


def test_answers_are_of_the_published_schema(client) -> None:
    """Every kind of answer that the document has."""
    records, model = [tensor("a", [1.0, None]), tensor("b", [0.3, 2.0])], "/v2/models/svc"
    asked = {"id": "42", "inputs": records, "parameters": {"x": 1}}

    assert conforms("metadata_server_response", client.get("/v2/"))["name"] == "headwater"
    conforms("metadata_model_response", client.get(model))
    conforms("metadata_model_error_response", client.get("/v2/models/other"))
    for more in ({}, {"outputs": [{"name": "probabilities"}]}):
        answer = conforms("inference_response", client.post(f"{model}/infer", json=asked | more))
        assert answer["id"] == "42"
    for wrong in ({}, {"inputs": []}, {"inputs": [{"name": "a"}]}, 3):
        refused = client.post(f"{model}/infer", json=wrong)
        assert refused.status_code == 400
        assert conforms("inference_error_response", refused)["error"]


@pytest.mark.parametrize("path", PATHS)
def test_requests_of_the_published_document_are_answered_by_it(client, path: str) -> None:
    """Also those that are not of its schemas: a client error of its form."""
    operations = {k: v for k, v in PATHS[path].items() if k != "parameters"}
    document = schemathesis.openapi.from_dict({**PUBLISHED, "paths": {path: operations}})
    document.config.update(base_url=str(client.base_url))
    (method,) = operations

    @generated(0.15)
    @given(case=document[path][method].as_strategy())
    def ask(case: Any) -> None:
        case.call_and_validate(
            checks=[not_a_server_error, response_schema_conformance, response_headers_conformance]
        )

    ask()


def test_server_and_model_describe_themselves(client) -> None:
    """What clients ask before they infer."""
    assert client.get("/v2").json()["name"] == "headwater"
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    assert client.get("/v2/models/svc/ready").json() == {"name": "svc", "ready": True}
    model = client.get("/v2/models/svc").json()
    assert model["inputs"][0] == {"name": "a", "datatype": "FP64", "shape": [-1]}
    assert [o["name"] for o in model["outputs"]] == ["prediction", "probabilities"]


def test_no_version_is_announced_and_none_can_be_asked_for(client) -> None:
    """The newest model answers; the protocol makes versions optional."""
    assert "versions" not in client.get("/v2/models/svc").json()
    for path in ("/v2/models/svc/versions/1/ready", "/v2/models/other", "/v2/nothing"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert answer.json().keys() == {"error"}
    wrong = client.get("/v2/models/svc/infer")
    assert (wrong.status_code, wrong.json().keys()) == (405, {"error"})


def test_data_of_two_dimensions_may_be_nested(client) -> None:
    """As the protocol allows it for any tensor."""
    flat = {"inputs": [tensor("a", [1.0, None], shape=[2, 1])]}
    nested = {"inputs": [tensor("a", [[1.0], [None]], shape=[2, 1])]}

    found = [client.post("/v2/models/svc/infer", json=body) for body in (flat, nested)]
    assert [answer.status_code for answer in found] == [200, 200]
    assert found[0].json() == found[1].json()


def test_tensors_predict_as_records_do(client) -> None:
    """The same probabilities; null is a missing value."""
    a, b = [1.0, 0.0, None], [0.3, None, None]
    body = {"id": "q7", "inputs": [tensor("a", a), tensor("b", b, shape=[3, 1])]}
    answer = client.post("/v2/models/svc/infer", json=body)

    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["model_name"], found["id"]) == ("svc", "q7")
    labels, proba = found["outputs"]
    assert labels["data"][:2] == ["right", "left"]
    assert proba["shape"] == [3, 2]
    records = [dict(zip("ab", row, strict=True)) for row in zip(a, b, strict=True)]
    expected = client.post("/v1/predict", json=records).json()
    classes = proba["parameters"]["classes"]
    for i, prediction in enumerate(expected):
        given = dict(zip(classes, proba["data"][2 * i : 2 * i + 2], strict=True))
        assert given == dict(prediction["probabilities"])
    one = client.post("/v2/models/svc/infer", json={**body, "outputs": [{"name": "prediction"}]})
    assert [o["name"] for o in one.json()["outputs"]] == ["prediction"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"inputs": []}, "one input for each field"),
        ({"inputs": [tensor("c", [1.0])]}, "no field 'c'; GET /v2/models/NAME lists"),
        ({"inputs": [tensor("aa", [1.0])]}, "no field 'aa'; did you mean 'a'?"),
        ({"inputs": [tensor("a", [1.0]), tensor("a", [1.0])]}, "once"),
        ({"inputs": [tensor("a", [1.0]), tensor("b", [1.0, 2.0])]}, "1 records as in input 'a'"),
        ({"inputs": [tensor("a", [1.0], shape=[2])]}, "shape [2] needs 2 values, got 1"),
        ({"inputs": [tensor("a", [1.0, 2.0], shape=[1, 2])]}, "expected shape [n] or [n, 1]"),
        ({"inputs": [tensor("a", [[1.0, 2.0]], shape=[1, 1])]}, "values of FP64, got [1.0, 2.0]"),
        ({"inputs": [tensor("a", [[1.0]])]}, "values of FP64, got [1.0]"),
        ({"inputs": [tensor("a", [1.0], shape=[-1])]}, "expected shape"),
        ({"inputs": [tensor("a", [1.0], "FP8")]}, "no datatype 'FP8'; there are BOOL, BYTES, FP16"),
        ({"inputs": [tensor("a", [True])]}, "values of FP64, got True"),
        (
            {"inputs": [tensor("a", [-5000], "UINT8")]},
            "input 'a': expected values of UINT8, got -5000",
        ),
        ({"inputs": [tensor("a", [1, 1.5], "INT64")]}, "values of INT64, got 1.5"),
        ({"inputs": [tensor("a", [2**63], "INT64")]}, "values of INT64, got 9223372036854775808"),
        ({"inputs": [tensor("a", [-129], "INT8")]}, "values of INT8, got -129"),
        ({"inputs": [tensor("a", [1e39], "FP32")]}, "values of FP32, got 1e+39"),
        ({"inputs": [tensor("a", [1], "BOOL")]}, "values of BOOL, got 1"),
        ({"inputs": [tensor("a", ["x"], "BYTES")]}, "record 0"),
        ({"inputs": [tensor("a", [1e300])]}, "record 0"),
        ({"inputs": [tensor("a", [1.0])], "outputs": [{"name": "x"}]}, "an output of"),
        ({"inputs": 3}, "inference request"),
    ],
)
def test_wrong_tensors_are_one_line(client, body, words) -> None:
    """A client error that names the tensor."""
    answer = client.post("/v2/models/svc/infer", json=body)

    assert answer.status_code == 400
    assert answer.json().keys() == {"error"}
    assert words in answer.json()["error"]


def test_tensors_as_bytes_are_refused_by_name(client) -> None:
    """Clients of Triton send them so by default: a head in JSON, and the values after it."""
    head = b'{"inputs":[{"name":"a","shape":[1],"datatype":"FP64",'
    head += b'"parameters":{"binary_data_size":8}}]}'
    binary = {"inference-header-content-length": str(len(head))}
    answer = client.post("/v2/models/svc/infer", content=head + bytes(8), headers=binary)

    assert answer.status_code == 400
    assert "set binary_data=False" in answer.json()["error"]


def test_values_of_their_datatype_are_numbers(client) -> None:
    """A client may write whole numbers as 3.0; the bounds of a datatype belong to it."""
    for datatype, value in (("UINT8", 255), ("INT8", -128), ("INT64", 3.0), ("FP16", 65504)):
        body = {"inputs": [tensor("a", [value, None], datatype)]}
        given = client.post("/v2/models/svc/infer", json=body)
        same = client.post("/v2/models/svc/infer", json={"inputs": [tensor("a", [value, None])]})

        assert given.status_code == 200, given.text
        assert given.json()["outputs"] == same.json()["outputs"]


def test_other_models_and_too_many_records_are_refused(client) -> None:
    """There is one model, and a bound."""
    for path in ("", "/ready"):
        assert client.get(f"/v2/models/other{path}").status_code == 404
    assert client.post("/v2/models/other/infer", json={"inputs": []}).status_code == 404
    many = {"inputs": [tensor("a", [1.0] * 1001)]}
    assert client.post("/v2/models/svc/infer", json=many).status_code == 413


def test_values_that_are_not_used_are_named(tmp_path) -> None:
    """By a service that takes a bad value as missing; the answer is that of the other values."""
    more = '[values]\non_bad_value = "missing"'
    with living(tmp_path, more=more) as service, httpx.Client(base_url=service.url) as client:
        service.send(20)
        until(lambda: (c := service.status_feed.copies.newest) is not None and c.learned == 20)

        def asked(*inputs: dict[str, Any]) -> dict[str, Any]:
            answer = client.post("/v2/models/svc/infer", json={"inputs": inputs})
            found = conforms("inference_response", answer)
            return {output["name"]: output for output in found["outputs"]}

        texts = asked(tensor("a", ["12.50", "NA"], "BYTES"), tensor("b", [1.0, 2.0]))
        without = asked(tensor("b", [1.0, 2.0]))

    [[note], none] = texts["prediction"]["parameters"]["notes"]
    assert note == {"field": "a", "what": "bad", "detail": "field 'a' expects a number, got str"}
    assert none == []
    assert without["prediction"].get("parameters", {}) == {}
    assert texts["probabilities"]["data"] == without["probabilities"]["data"]
